//! What people can do about nodes that may not vote. Worded here and nowhere else.

use super::{NodeVote, Votes};
use crate::{
    node::{Node, OtherName},
    observer::fault_in_words,
};
use redlatch_core::{Agreement, Cause, Vote, config::Wanted, fence::DEFAULT_SKEW, vote::of_nodes};
use std::{borrow::Cow, fmt::Write as _, sync::Arc, time::Duration};

/// Returns advice, in words, on quarantined nodes for this `cause`.
///
/// `which` names the nodes, and `options` are the options that `redlatch admit`
/// needs to find them; both are copied into the commands as they are.
///
/// # Example
///
/// ```
/// use redlatch::{Cause, observer::advice};
///
/// let words = advice(&Cause::Forgot, "redis://10.0.0.1:6379", "");
/// assert!(words.contains("`redlatch admit redis://10.0.0.1:6379`"));
/// ```
#[must_use]
pub fn advice(cause: &Cause, which: &str, options: &str) -> String {
    let spaced = spaced(options);
    match cause {
        Cause::Disagrees(_) => format!(
            "give all clients the same settings; if the change is meant for all clients: {}",
            replace_all("", options)
        ),
        Cause::OtherNode { asked, .. } => format!(
            "point {asked} back to its own server (DNS, NAT, proxy, port forward); if the \
             names of servers were swapped for good: {}",
            replace_all("", options)
        ),
        Cause::Watched => format!(
            "if such clients are running, name the nodes that they name, and wait until they have \
             admitted it; if none is, {}",
            match options {
                NO_URLS => "`Observer::admit`".into(),
                _ => format!("`redlatch admit --all{spaced}`"),
            }
        ),
        _ => format!(
            "`redlatch admit --wait {which}{spaced}` waits for that; if no forgotten lock can still \
             be in use, `redlatch admit {which}{spaced}` skips the wait"
        ),
    }
}

/// What takes all nodes from clients with other settings: a command, or the call, if no
/// command can reach them.
fn replace_all(more: &str, options: &str) -> String {
    match options {
        NO_URLS => "`Observer::replace`".into(),
        options => format!("`redlatch admit --replace --all{more}{}`", spaced(options)),
    }
}

fn spaced(options: &str) -> String {
    if options.is_empty() { String::new() } else { format!(" {options}") }
}

/// Returns the same advice for a client with the settings `ours`. Other clients may call its
/// nodes by other names: `renamed` is the other name of one of them. `all` are the causes
/// for which any of its nodes are quarantined: while some serve clients with other settings,
/// it can admit none.
///
/// # Example
///
/// ```
/// use redlatch::{Cause, observer::{Agreement, advice_to}};
/// use std::time::Duration;
///
/// let times = Duration::from_secs(30);
/// let [ours, theirs] = [["a", "b", "c"], ["a", "b", "d"]]
///     .map(|nodes| Agreement::new(nodes.map(Into::into), times, times));
/// let other = Cause::Disagrees(Some(theirs.to_string().into()));
///
/// let words = advice_to(&ours, None, [&other], &other, "", "");
/// assert!(words.contains("`redlatch admit --replace --all --all-stopped`"));
/// ```
#[must_use]
pub fn advice_to<'a>(
    ours: &Agreement,
    renamed: Option<&OtherName>,
    all: impl IntoIterator<Item = &'a Cause>,
    cause: &Cause,
    which: &str,
    options: &str,
) -> String {
    let theirs = match cause {
        Cause::Disagrees(Some(theirs)) => Agreement::parse(theirs),
        _ => None,
    };
    let (named, nodes) = (ours.nodes().len(), theirs.as_ref().map_or(0, |it| it.nodes().len()));
    let short = format!("this client names {named} of {nodes} nodes");
    if nodes > named + 1 {
        // No command takes that many nodes from clients that are running.
        return format!("{short}: give it the list that the others have");
    }
    let is_conflict = |cause: &Cause| matches!(cause, Cause::Disagrees(_));
    let words = match cause {
        Cause::Disagrees(_)
            if renamed.is_none() && theirs.is_some_and(|theirs| !ours.may_follow(&theirs)) =>
        {
            format!(
                "give all clients the same settings; if this list is meant for all clients: it \
                 differs by more than one node, so stop all other clients first, then {}",
                replace_all(" --all-stopped", options)
            )
        }
        Cause::Forgot if all.into_iter().any(is_conflict) => AFTER.into(),
        cause => advice(cause, which, options),
    };
    if nodes > named { format!("{short}; {words}") } else { words }
}

/// What happens to nodes that forgot, while others serve clients with other settings.
const AFTER: &str = "waiting does not help, nor does `redlatch admit`, until all clients of the nodes \
                     have the same settings";

/// Advice on the nodes for which waiting does not help; empty if there are none. It
/// follows the votes.
pub(super) fn about_conflicts(votes: &Votes) -> String {
    let options = options(votes);
    let mut words = String::new();
    let mut seen: Vec<std::mem::Discriminant<Cause>> = Vec::new();
    for node in votes {
        let Vote::Quarantined(quarantine) = &node.vote else { continue };
        let kind = std::mem::discriminant(&quarantine.cause);
        if quarantine.cause != Cause::Forgot && !seen.contains(&kind) {
            seen.push(kind);
            let (cause, renamed) = (&quarantine.cause, node.other_name());
            let told = match votes.agreement() {
                Some(ours) => advice_to(ours, renamed.as_ref(), [], cause, "", &options),
                None => advice(cause, "", &options),
            };
            let _ = write!(words, "; {told}");
        }
    }
    if words.contains(&options) {
        words.push_str(about_logins(votes));
    }
    // Before a command that takes nodes from others for a list that was only mistyped.
    let first = if words.is_empty() { String::new() } else { about_mistyped(votes) };
    first + &words
}

fn about_mistyped(votes: &Votes) -> String {
    let mistyped = votes.iter().enumerate().filter(|(at, node)| may_be_mistyped(votes, *at, node));
    let mistyped: Vec<_> = mistyped.map(|(_, node)| node.label()).collect();
    match &*mistyped {
        [] => String::new(),
        [one] => format!("; {one} has never answered: check its address first"),
        more => format!("; {} have never answered: check their addresses first", more.join(", ")),
    }
}

/// Whether a node has never answered: its address may be wrong.
fn may_be_mistyped(votes: &Votes, at: usize, node: &NodeVote) -> bool {
    let is_silent = matches!(&node.vote, Vote::Failed(fault) if fault.is_silence());
    is_silent && votes.never_answered(at)
}

/// What to do if other data has the name of a lock.
pub(super) const RENAME: &str = "give the lock another name";

/// Says that the commands lack logins, if nodes have any. It follows a command.
pub(super) fn about_logins(votes: &Votes) -> &'static str {
    if votes.have_logins() { ADD_LOGINS } else { "" }
}

const ADD_LOGINS: &str = " (add the logins to the addresses; they are not shown here)";

/// The command that lets the quarantined nodes vote at once, or the call, if no command can
/// reach them.
pub(super) fn admit_command(votes: &Votes) -> String {
    if votes.options() == NO_URLS {
        return "Observer::admit".into();
    }
    let out = votes.iter().filter(|node| matches!(node.vote, Vote::Quarantined(_)));
    let out: Vec<_> = out.map(|node| quoted(&node.node)).collect();
    let which = if out.len() == votes.tally().nodes { "--all".into() } else { out.join(" ") };
    format!("redlatch admit {which} {}", options(votes))
}

/// The options by which a command finds the nodes and agrees with this client.
fn options(votes: &Votes) -> String {
    let mut options = votes.options().to_owned();
    if options == NO_URLS {
        return options;
    }
    let agreement = votes.agreement();
    let max_ttl = agreement.map(Agreement::max_ttl);
    if let Some(max_ttl) = max_ttl.filter(|time| *time != Wanted::default().max_ttl) {
        let _ = write!(options, " --max-ttl {}", typed(max_ttl));
    }
    if let Some(skew) = agreement.map(Agreement::skew).filter(|time| *time != DEFAULT_SKEW) {
        let _ = write!(options, " --skew {}", typed(skew));
    }
    if votes.tally().nodes == 1 {
        options.push_str(GUARDED);
    }
    options
}

/// With one node, the guard is off unless it is asked for, and `admit` needs it.
const GUARDED: &str = " --restart-guard on";

/// The options that name these nodes, without logins. A custom node has no address
/// that could be typed.
pub(super) fn node_options(nodes: &[Arc<dyn Node>]) -> String {
    let urls: Option<Vec<String>> = nodes.iter().map(|node| node.url()).collect();
    let Some(urls) = urls else { return NO_URLS.into() };
    let options = urls.iter().map(|url| format!("--node {}", quoted(url)));
    options.collect::<Vec<_>>().join(" ")
}

/// Instead of options, for nodes in memory and custom ones.
const NO_URLS: &str = "--node …";

/// A word as a shell reads it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/:.,_-@%+=".contains(c);
    if word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''")).into()
}

/// A duration as the command reads it.
fn typed(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// Says that nodes may not vote yet, and for how much longer. Nodes that failed come first:
/// once the others are admitted, the list of nodes is fixed.
pub(super) fn not_yet(votes: &Votes, remaining: Option<Duration>) -> String {
    let (out, nodes) = (votes.tally().quarantined, votes.tally().nodes);
    let are = if out == 1 { "is" } else { "are" };
    let mut first = String::new();
    for (at, node) in votes.iter().enumerate() {
        let Vote::Failed(fault) = &node.vote else { continue };
        let label = node.label();
        let _ = if may_be_mistyped(votes, at, node) {
            write!(first, "{label} has never answered ({fault}): check its address first; ")
        } else {
            write!(first, "{label}: {}; ", fault_in_words(fault))
        };
    }
    let to_go = to_go(remaining);
    let window = votes.agreement().map(Agreement::window);
    let is_longer = !first.is_empty() && remaining.is_some_and(|left| Some(left) > window);
    let longer = if is_longer { " (longer, because not every node can be used)" } else { "" };
    let subject = of_nodes(out, nodes);
    format!("{first}{subject} {are} new or restarted and may not vote yet{to_go}{longer}")
}

/// What this client can do, or has done, to vouch for new servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Vouching {
    /// Nothing: it contacts the nodes too late to see that all of them are new.
    #[default]
    Impossible,
    /// It could have vouched.
    Possible,
    /// It was configured to vouch.
    Wanted,
}

/// How a program vouches for new servers, or what that takes if it does already.
pub(super) fn about_vouching(votes: &Votes) -> String {
    let vouching = votes.vouching();
    // A node that votes was admitted, so not all of them are new.
    if vouching == Vouching::Impossible || votes.tally().granted + votes.tally().refused > 0 {
        return String::new();
    }
    let failed = votes.iter().filter(|node| matches!(node.vote, Vote::Failed(_)));
    let failed: Vec<_> = failed.map(|node| node.label()).collect();
    let then = match (vouching, &*failed) {
        (Vouching::Wanted, []) => ": if they have lost their data since then, connect again".into(),
        (Vouching::Wanted, failed) => format!(": see to {}, then connect again", failed.join(", ")),
        (_, []) => String::new(),
        (_, failed) => format!(": see to {} first", failed.join(", ")),
    };
    let how = match vouching {
        Vouching::Wanted => "",
        _ => "in development and CI, ",
    };
    format!(
        "; {how}`Builder::admit_new_servers` lets new servers vote at once, if `connect` can use \
         every node, and each is empty and was never used{then}"
    )
}

/// The time left, in whole seconds, rounded up.
fn to_go(remaining: Option<Duration>) -> String {
    let whole = |left: Duration| left.as_secs() + u64::from(left.subsec_nanos() > 0);
    remaining.map_or(String::new(), |left| format!(", {} s to go", whole(left)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Memory, parse};
    use redlatch_core::{Ballot, Fault, Quarantine};

    fn votes(nodes: &[&str], votes: &[Vote], agreement: &Agreement) -> Votes {
        vouched(nodes, votes, agreement, Vouching::Possible)
    }

    /// What is no URL is the name of a custom node.
    fn vouched(nodes: &[&str], votes: &[Vote], agreement: &Agreement, vouching: Vouching) -> Votes {
        let custom = |name: &str| Arc::new(Memory::new(name)) as Arc<dyn Node>;
        let nodes: Vec<Arc<dyn Node>> =
            nodes.iter().map(|url| parse(url).unwrap_or_else(|_| custom(url))).collect();
        let mut ballot = Ballot::of(nodes.len());
        for (node, vote) in votes.iter().enumerate() {
            ballot.cast(node, vote.clone(), Duration::ZERO);
        }
        Votes::new(&nodes, &ballot, Some(agreement), vouching)
    }

    fn out(cause: Cause) -> Vote {
        Vote::Quarantined(Quarantine::new(cause))
    }

    fn agreed(max_ttl: u64, skew: u64) -> Agreement {
        Agreement::new([], Duration::from_millis(max_ttl), Duration::from_millis(skew))
    }

    #[test]
    fn the_command_names_all_nodes_and_every_time_that_is_not_the_default() {
        let nodes = ["redis://a:1", "redis://b:2"];
        let (usual, unusual) = (agreed(30_000, 30_000), agreed(2_000, 1_500));
        let new = votes(&nodes, &[out(Cause::Forgot), out(Cause::Forgot)], &usual);
        let one = votes(&nodes, &[Vote::Granted, out(Cause::Forgot)], &unusual);
        let alone = votes(&nodes[..1], &[out(Cause::Forgot)], &usual);

        let command = admit_command(&new);
        assert_eq!(command, "redlatch admit --all --node redis://a:1 --node redis://b:2");
        let command = admit_command(&one);
        let asked = "redlatch admit redis://b:2 --node redis://a:1 --node redis://b:2";
        assert_eq!(command, format!("{asked} --max-ttl 2s --skew 1500ms"));
        let command = admit_command(&alone);
        assert_eq!(command, "redlatch admit --all --node redis://a:1 --restart-guard on");
    }

    fn command_for(nodes: &[&str]) -> String {
        let cast = vec![out(Cause::Forgot); nodes.len()];
        admit_command(&votes(nodes, &cast, &agreed(30_000, 30_000)))
    }

    #[test]
    fn the_command_gives_nodes_the_names_they_have() {
        let command = command_for(&["redis://u:secret@a:1?name=x", "redis://b:2"]);

        let named = "--node 'redis://a:1?name=x' --node redis://b:2";
        assert_eq!(command, format!("redlatch admit --all {named}"));
    }

    #[test]
    fn the_command_keeps_every_option_that_is_no_secret() {
        let file = std::env::temp_dir().join(format!("it's a %& file {}", std::process::id()));
        std::fs::write(&file, "sesame").unwrap();
        let written = format!("/it%27s%20a%20%25%26%20file%20{}", std::process::id());
        let place = format!("{}{written}", std::env::temp_dir().display());
        let [one, two] = [
            format!("redis://me@a:1?allow_eviction=yes&password_file={place}&name=x%25"),
            "redis+unix:///run/r%20s?db=2&user=me&password=sesame".to_owned(),
        ];

        let command = command_for(&[&one, &two]);

        let one = format!("redis://a:1?password_file={place}&allow_eviction=yes&name=x%25");
        let two = "redis+unix:///run/r%20s?db=2";
        assert_eq!(command, format!("redlatch admit --all --node '{one}' --node '{two}'"));
        assert_eq!(parse(&one).unwrap().name(), "x%");
        std::fs::remove_file(file).unwrap();
    }

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(quoted("redis://a:1/2"), "redis://a:1/2");
        assert_eq!(quoted("redis://[::1]:1"), "'redis://[::1]:1'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn what_is_no_address_is_not_offered_as_one() {
        assert_eq!(command_for(&["a", "redis://b:2"]), "Observer::admit");
        let cast = [out(Cause::Disagrees(None)), out(Cause::Disagrees(None))];
        let conflicts =
            about_conflicts(&votes(&["a", "redis://b:2"], &cast, &agreed(2_000, 30_000)));
        assert!(conflicts.ends_with("meant for all clients: `Observer::replace`"), "{conflicts}");
    }

    #[test]
    fn nodes_that_fail_are_named_next_to_those_that_may_not_vote_yet() {
        let refused = Vote::Failed(Fault::Unreachable("refused".into()));
        let unfit = Vote::Failed(Fault::Unfit("a replica".into()));
        let nodes = ["redis://a:1", "redis://b:2?name=b", "redis://c:3"];
        let cast = [out(Cause::Forgot), refused, unfit];
        let told = votes(&nodes, &cast, &agreed(30_000, 30_000));

        let words = not_yet(&told, None);

        let mistyped = "b (redis://b:2) has never answered (unreachable: refused)";
        let first = format!("{mistyped}: check its address first; redis://c:3: cannot be used: a");
        assert!(words.starts_with(&first), "{words}");
        assert!(
            words.ends_with(" a replica; 1 of 3 nodes is new or restarted and may not vote yet")
        );
        let minute = Duration::from_secs(60);
        assert!(not_yet(&told, Some(minute)).ends_with(", 60 s to go"), "{words}");
        assert!(
            not_yet(&told, Some(2 * minute))
                .ends_with("(longer, because not every node can be used)")
        );
    }

    #[test]
    fn an_address_that_may_be_mistyped_comes_before_a_command_that_takes_nodes_from_others() {
        let refused = Vote::Failed(Fault::Unreachable("refused".into()));
        let cast = [out(Cause::Disagrees(None)), out(Cause::Disagrees(None)), refused];
        let nodes = ["redis://a:1", "redis://b:2", "redis://c:4"];

        let words = about_conflicts(&votes(&nodes, &cast, &agreed(30_000, 30_000)));

        let first = "; redis://c:4 has never answered: check its address first; give all clients";
        assert!(words.starts_with(first), "{words}");
        assert!(words.contains("--replace"), "{words}");
    }

    #[test]
    fn what_admit_new_servers_takes_is_said_without_guessing_at_what_happened() {
        let nodes = ["redis://a:1", "redis://b:2"];
        let unfit = || Vote::Failed(Fault::Unfit("WRONGPASS".into()));
        let told = |vouching, cast: [Vote; 2]| {
            about_vouching(&vouched(&nodes, &cast, &agreed(30_000, 30_000), vouching))
        };
        let out = || out(Cause::Forgot);

        let mend = told(Vouching::Wanted, [out(), unfit()]);
        assert!(mend.ends_with(": see to redis://b:2, then connect again"), "{mend}");
        let again = told(Vouching::Wanted, [out(), out()]);
        assert!(again.ends_with(": if they have lost their data since then, connect again"));
        for words in [&mend, &again] {
            assert!(
                !words.contains("had no effect") && !words.contains("did not answer"),
                "{words}"
            );
        }
        let first = told(Vouching::Possible, [out(), unfit()]);
        assert!(first.contains("in development") && first.ends_with(": see to redis://b:2 first"));
        assert_eq!(told(Vouching::Wanted, [out(), Vote::Granted]), "", "not all of them are new");
    }

    #[test]
    fn each_kind_of_conflict_is_advised_on_once_and_with_the_nodes() {
        let other = || out(Cause::Disagrees(None));
        let nodes = ["redis://a:1", "redis://b:2"];
        let both = votes(&nodes, &[other(), other()], &agreed(30_000, 30_000));

        let words = about_conflicts(&both);

        assert_eq!(words.matches("give all clients the same settings").count(), 1, "{words}");
        assert!(
            words.contains("--replace --all --node redis://a:1 --node redis://b:2`"),
            "{words}"
        );
    }

    /// The node forgot its other clients: a command that takes it from them would be wrong
    /// advice.
    #[test]
    fn a_client_that_names_one_of_three_nodes_is_told_to_name_the_others() {
        let times = Duration::from_secs(30);
        let all = ["redis://a:1", "redis://b:2", "redis://c:3"].map(Into::into);
        let theirs = Agreement::new(all, times, times).to_string();
        let ours = Agreement::new(["redis://a:1".into()], times, times);
        let one = votes(&["redis://a:1"], &[out(Cause::Disagrees(Some(theirs.into())))], &ours);

        let words = about_conflicts(&one);

        assert!(words.contains("this client names 1 of 3 nodes: give it the list"), "{words}");
        assert!(!words.contains("redlatch"), "{words}");
    }

    #[test]
    fn the_advice_on_conflicts_has_every_time_that_is_not_the_default() {
        let other = out(Cause::Disagrees(None));
        let alone = votes(&["redis://a:1"], &[other], &agreed(2_000, 1_500));

        let words = about_conflicts(&alone);

        let times = "--max-ttl 2s --skew 1500ms --restart-guard on";
        assert!(words.ends_with(&format!("--all --node redis://a:1 {times}`")), "{words}");
    }

    #[test]
    fn logins_that_the_commands_do_not_show_are_asked_for() {
        let told = |url| {
            let cast = [out(Cause::Disagrees(None)), out(Cause::Watched)];
            let votes = votes(&[url, "redis://b:2"], &cast, &agreed(30_000, 30_000));
            (about_conflicts(&votes), about_logins(&votes))
        };

        for url in ["redis://u:secret@a:1", "redis://me@a:1", "redis://:secret@a:1"] {
            let (conflicts, logins) = told(url);
            assert_eq!(conflicts.matches(ADD_LOGINS).count(), 1, "{conflicts}");
            assert_eq!(logins, ADD_LOGINS);
        }
        let (conflicts, logins) = told("redis://a:1");
        assert!(!conflicts.contains("logins") && logins.is_empty(), "{conflicts}");
    }

    #[test]
    fn a_time_to_go_is_never_reported_too_short() {
        let told = |millis| to_go(Some(Duration::from_millis(millis)));

        assert_eq!(told(54_000), ", 54 s to go");
        assert_eq!(told(53_001), ", 54 s to go");
        assert_eq!(told(1), ", 1 s to go");
        assert_eq!(to_go(None), "");
    }
}
