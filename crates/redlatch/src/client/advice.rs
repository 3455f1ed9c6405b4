//! What people can do about nodes that may not vote. Worded here and nowhere else.

use super::Votes;
use crate::node::{self, url_of};
use redlatch_core::{Agreement, Cause, Vote, config::Wanted, fence::DEFAULT_SKEW};
use std::{fmt::Write as _, time::Duration};

/// Returns advice, in words, on nodes that are quarantined for this `cause`.
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
    let options = if options.is_empty() { String::new() } else { format!(" {options}") };
    match cause {
        Cause::Disagrees(_) => format!(
            "give all clients the same settings; if the change is meant for all clients: \
             `redlatch admit --replace --all{options}`"
        ),
        Cause::OtherNode { asked, .. } => format!(
            "point {asked} back to a server of its own (DNS, NAT, proxy, port forward); if the \
             names of servers were swapped for good: `redlatch admit --replace --all{options}`"
        ),
        Cause::Watched => {
            "if they use more nodes than are named here, name the same ones; if not, \
                           wait until they have admitted it"
                .into()
        }
        _ => format!(
            "`redlatch admit --wait {which}{options}` waits for that; if no forgotten lock can still \
             be in use, `redlatch admit {which}{options}` skips the wait"
        ),
    }
}

/// Advice on the nodes that waiting does not help; empty if there are none. It
/// follows the votes.
pub(super) fn about_conflicts(votes: &Votes) -> String {
    let mut options = node_options(votes);
    if votes.tally().nodes == 1 {
        options.push_str(GUARDED);
    }
    let mut words = String::new();
    let mut seen: Vec<std::mem::Discriminant<Cause>> = Vec::new();
    for node in votes {
        let Vote::Quarantined(quarantine) = &node.vote else { continue };
        let kind = std::mem::discriminant(&quarantine.cause);
        if quarantine.cause != Cause::Forgot && !seen.contains(&kind) {
            seen.push(kind);
            let _ = write!(words, "; {}", advice(&quarantine.cause, "", &options));
        }
    }
    words
}

/// The command that lets the quarantined nodes vote at once.
pub(super) fn admit_command(votes: &Votes, agreement: Option<&Agreement>) -> String {
    let out = votes.iter().filter(|node| matches!(node.vote, Vote::Quarantined(_)));
    let out: Vec<&str> = out.map(|node| &*node.node).collect();
    let which = if out.len() == votes.tally().nodes { "--all".into() } else { out.join(" ") };
    let mut command = format!("redlatch admit {which} {}", node_options(votes));
    let max_ttl = agreement.map(Agreement::max_ttl);
    if let Some(max_ttl) = max_ttl.filter(|time| *time != Wanted::default().max_ttl) {
        let _ = write!(command, " --max-ttl {}", typed(max_ttl));
    }
    if let Some(skew) = agreement.map(Agreement::skew).filter(|time| *time != DEFAULT_SKEW) {
        let _ = write!(command, " --skew {}", typed(skew));
    }
    if votes.tally().nodes == 1 {
        command.push_str(GUARDED);
    }
    command
}

/// With one node, the guard is off unless it is asked for, and `admit` needs it.
const GUARDED: &str = " --restart-guard on";

/// The options that name these nodes, without logins. A custom node has no address
/// that could be typed.
fn node_options(votes: &Votes) -> String {
    if votes.iter().any(|node| node::parse(&node.address).is_err()) {
        return "--node …".into();
    }
    let option = |url: String| {
        // A shell would expand these.
        let quote = if url.contains(['?', '&', '[']) { "'" } else { "" };
        format!("--node {quote}{url}{quote}")
    };
    let urls = votes.iter().map(|node| url_of(&node.node, &node.address));
    urls.map(option).collect::<Vec<_>>().join(" ")
}

/// A duration as the command reads it.
fn typed(time: Duration) -> String {
    match time.subsec_millis() {
        0 => format!("{}s", time.as_secs()),
        _ => format!("{}ms", time.as_millis()),
    }
}

/// Says that nodes may not vote yet, and for how much longer.
pub(super) fn not_yet(votes: &Votes, remaining: Option<Duration>) -> String {
    let (out, nodes) = (votes.tally().quarantined, votes.tally().nodes);
    let are = if out == 1 { "is" } else { "are" };
    format!(
        "{out} of {nodes} nodes {are} new or restarted and may not vote yet{}",
        to_go(remaining)
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
    use crate::node::{Memory, Node};
    use redlatch_core::{Ballot, Quarantine};
    use std::sync::Arc;

    fn votes(names: &[&str], votes: &[Vote]) -> Votes {
        let nodes: Vec<Arc<dyn Node>> =
            names.iter().map(|name| Arc::new(Memory::new(*name)) as Arc<dyn Node>).collect();
        let mut ballot = Ballot::of(nodes.len());
        for (node, vote) in votes.iter().enumerate() {
            ballot.cast(node, vote.clone(), Duration::ZERO);
        }
        Votes::new(&nodes, &ballot)
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
        let new = votes(&nodes, &[out(Cause::Forgot), out(Cause::Forgot)]);
        let one = votes(&nodes, &[Vote::Granted, out(Cause::Forgot)]);
        let alone = votes(&nodes[..1], &[out(Cause::Forgot)]);

        let command = admit_command(&new, Some(&agreed(30_000, 30_000)));
        assert_eq!(command, "redlatch admit --all --node redis://a:1 --node redis://b:2");
        let command = admit_command(&one, Some(&agreed(2_000, 1_500)));
        let asked = "redlatch admit redis://b:2 --node redis://a:1 --node redis://b:2";
        assert_eq!(command, format!("{asked} --max-ttl 2s --skew 1500ms"));
        let command = admit_command(&alone, Some(&agreed(30_000, 30_000)));
        assert_eq!(command, "redlatch admit --all --node redis://a:1 --restart-guard on");
    }

    #[test]
    fn the_command_gives_nodes_the_names_they_have() {
        let urls = ["redis://u:secret@a:1?name=x", "redis://b:2"];
        let nodes: Vec<_> = urls.map(|url| node::parse(url).unwrap()).into();
        let mut ballot = Ballot::of(2);
        (0..2).for_each(|node| ballot.cast(node, out(Cause::Forgot), Duration::ZERO));

        let command = admit_command(&Votes::new(&nodes, &ballot), None);

        let named = "--node 'redis://a:1?name=x' --node redis://b:2";
        assert_eq!(command, format!("redlatch admit --all {named}"));
    }

    #[test]
    fn what_is_no_address_is_not_offered_as_one() {
        let new = votes(&["a", "redis://b:2"], &[out(Cause::Forgot), out(Cause::Forgot)]);

        let command = admit_command(&new, Some(&agreed(30_000, 30_000)));

        assert_eq!(command, "redlatch admit --all --node …");
    }

    #[test]
    fn each_kind_of_conflict_is_advised_on_once_and_with_the_nodes() {
        let other = || out(Cause::Disagrees(None));
        let both = votes(&["redis://a:1", "redis://b:2"], &[other(), other()]);

        let words = about_conflicts(&both);

        assert_eq!(words.matches("give all clients the same settings").count(), 1, "{words}");
        assert!(
            words.contains("--replace --all --node redis://a:1 --node redis://b:2`"),
            "{words}"
        );
    }

    #[test]
    fn a_time_to_go_is_never_told_too_short() {
        let told = |millis| to_go(Some(Duration::from_millis(millis)));

        assert_eq!(told(54_000), ", 54 s to go");
        assert_eq!(told(53_001), ", 54 s to go");
        assert_eq!(told(1), ", 1 s to go");
        assert_eq!(to_go(None), "");
    }
}
