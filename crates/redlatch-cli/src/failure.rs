//! What went wrong, in one sentence, and the exit status for it.

use crate::{
    around,
    connecting::{AGAIN, may_recover},
    doctor::{DELETE, user_in},
    duration::show,
    event::Event,
    exit::Exit,
    look::{NAMELESS, reason},
    settings::{Settings, quoted},
    share,
    trace::in_short,
};
use nix::sys::signal::Signal;
use redlatch::{
    AdmitError, Agreement, Cause, ConnectError, ExtendError, Fault, InvalidRequest, LazyError,
    LockError, LockState, Locks, NodeVote, NodesError, ReleaseError, ReleasePartsError,
    ResumeError, StatusError, TermsError, Vote, Votes,
    node::OtherName,
    observer::{advice, advice_to, of_nodes, refusal},
};
use std::{
    ffi::OsString,
    fmt,
    fmt::Write as _,
    os::unix::ffi::OsStrExt,
    path::Path,
    time::{Duration, Instant},
};

/// A sentence and an exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) exit: Exit,
    /// How many nodes voted which way, if they did.
    pub(crate) votes: Option<String>,
    /// Whether the key of a lock that is held never expires: somebody has to look at it.
    pub(crate) is_endless: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Failure { message: message.to_string(), exit, votes: None, is_endless: false }
    }

    fn voted(self, votes: &Votes) -> Self {
        Failure { votes: Some(in_short(votes)), ..self }
    }

    /// The event that reports it.
    pub(crate) fn event(&self) -> Event {
        Event::failed(&self.message, self.exit).for_somebody(self.is_endless)
    }

    /// The event that reports it if it is the reason why the command is not run.
    pub(crate) fn skipped(&self) -> Event {
        Event::skipped(&self.message, self.exit).for_somebody(self.is_endless)
    }

    /// The same, with commands that are ready to paste.
    pub(crate) fn with_options(self, typed: &str) -> Self {
        Failure { message: to_paste(&self.message, typed), ..self }
    }

    /// Adds how long the caller has waited in vain since `began` or, if it did not use
    /// all of its time, that waiting would not have helped.
    pub(crate) fn after(mut self, wait: Duration, began: Instant) -> Self {
        let in_vain = matches!(self.exit, Exit::Held | Exit::HeldAs(_) | Exit::NoMajority);
        if in_vain && !wait.is_zero() {
            let waited = began.elapsed();
            let _ = match waited.saturating_add(AGAIN) < wait {
                true if waited < SOME => {
                    write!(
                        self.message,
                        "; did not wait for {}, which would not have helped",
                        show(wait)
                    )
                }
                true => write!(
                    self.message,
                    "; gave up after {} of {}: waiting longer would not help",
                    show(waited),
                    show(wait)
                ),
                false => {
                    write!(self.message, "; gave up after {}", humantime::format_duration(wait))
                }
            };
        }
        self
    }

    /// Why these were not locked. Asks the nodes who holds them, since a plain Redis
    /// reply doesn't say.
    pub(crate) async fn about(
        names: &[OsString],
        settings: &Settings,
        locks: &Locks,
        error: LockError,
    ) -> Self {
        match error {
            LockError::NoMajority { votes } if is_denied(&votes) => {
                let mut failure = no_majority(&votes, None);
                let _ = write!(failure.message, "; {}", keys_to_grant(names, settings));
                failure
            }
            LockError::Held { votes } => {
                let own = if settings.wait().is_zero() { OWN_AT_ONCE } else { OWN };
                let asked = tokio::time::timeout(ASKING, whose(names, locks, own)).await;
                let (message, is_endless) = asked.ok().flatten().unwrap_or_else(|| {
                    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
                    let is_data = votes.are_of_data();
                    let what = if is_data { votes.to_string() } else { holders(&votes) };
                    (format!("{}: {what}", names.join(", ")), is_data)
                });
                Failure { is_endless, ..Failure::new(Exit::Held, message).voted(&votes) }
            }
            error => error.into(),
        }
    }
}

/// Added if a `redlatch run` around this one holds the lock: it holds the lock until
/// this one ends.
pub(crate) const OWN: &str =
    ", the `redlatch run` that this command runs under: it would wait for itself";

/// The same for a command that does not wait.
const OWN_AT_ONCE: &str =
    ", the `redlatch run` that this command runs under, so it can never get it";

/// How a command in our advice starts.
const ADMIT: &str = "`redlatch admit";

/// Makes the commands in a text ready to paste, by adding the options that say where the
/// nodes are, if any were typed.
pub(crate) fn to_paste(text: &str, typed: &str) -> String {
    if typed.is_empty() {
        return text.into();
    }
    let mut parts = text.split(ADMIT);
    let mut pasted = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (command, rest) = part.split_once('`').unwrap_or((part, ""));
        let _ = write!(pasted, "{ADMIT}{command} {typed}`{rest}");
    }
    pasted
}

/// A caller that returns sooner than this did not wait.
const SOME: Duration = Duration::from_secs(1);

/// How long to ask who holds a lock.
const ASKING: Duration = Duration::from_millis(300);

/// Whether a node does not let this user access a key.
fn is_denied(votes: &Votes) -> bool {
    votes.iter().any(|node| match &node.vote {
        Vote::Failed(Fault::Refused(why)) => why.starts_with("NOPERM") && why.contains(" key"),
        _ => false,
    })
}

/// What to do if this user may not lock these names.
fn keys_to_grant(names: &[OsString], settings: &Settings) -> String {
    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
    let patterns: Vec<_> = names.iter().map(|name| format!("~{name}")).collect();
    let user = settings.nodes().first().map_or("default".into(), |url| user_in(url));
    format!(
        "this user may not lock {}; grant it, or a pattern such as ~deploy:*, on every node: `ACL \
         SETUSER {user} {}`, and check it with `{}`",
        names.join(", "),
        patterns.join(" "),
        settings.doctor(&format!("--prefix {}", quoted(names.first().map_or("", |name| name))))
    )
}

/// Who holds the first of these locks that is held, and whether its key never expires.
async fn whose(names: &[OsString], locks: &Locks, own: &str) -> Option<(String, bool)> {
    for name in names {
        let status = locks.status(name.as_bytes()).await.ok()?;
        let name_text = name.to_string_lossy();
        match &status.state {
            data if data.is_data() => return Some((format!("{name_text} is {data}"), true)),
            LockState::Held { owner, remaining, .. } => {
                let is_own = status.owner.is_some_and(|owner| around::holds(name, &owner));
                let owner = owner.as_deref().unwrap_or(NAMELESS);
                let own = if is_own { own } else { "" };
                let endless = if remaining.is_none() { endless() } else { String::new() };
                let words = format!("{name_text} is held by {owner}{own}{endless}");
                return Some((words, remaining.is_none()));
            }
            LockState::Reserved { owner, .. } => {
                let whom = owner.as_ref().map_or(String::new(), |owner| format!(", {owner}"));
                let words =
                    format!("{name_text} is not held, but reserved for the next in line{whom}");
                return Some((words, false));
            }
            _ => {}
        }
    }
    None
}

/// Added if the key of a lock has no TTL.
fn endless() -> String {
    format!(", and never expires: its key has no TTL; {DELETE}")
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        let may_recover = may_recover(&error);
        match error {
            ConnectError::NoMajority(votes) | ConnectError::Disagree(votes) => {
                no_majority(&votes, None)
            }
            ConnectError::Invalid(error) => error.into(),
            ConnectError::Unfit(votes) if may_recover => {
                Failure { exit: Exit::NoMajority, ..unfit(&votes) }
            }
            ConnectError::Unfit(votes) => unfit(&votes),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

/// Says which addresses cannot be used, and why.
fn unfit(votes: &Votes) -> Failure {
    let told = votes.iter().filter_map(|node| match &node.vote {
        Vote::Failed(fault @ (Fault::Unfit(why) | Fault::WrongAddress(why))) => {
            let path = node.address.strip_prefix("file:").map(Path::new);
            let obstacle = path.and_then(share::obstacle);
            let why = refusal(fault).map_or(why.to_string(), |_| reason(fault));
            Some((node.label().into_owned(), obstacle.unwrap_or(why)))
        }
        _ => None,
    });
    let told = by_reason(told, " cannot be used").join("; ");
    Failure::new(Exit::Failed, told).voted(votes)
}

/// Nodes and their reasons, each reason once.
pub(crate) fn by_reason(told: impl Iterator<Item = (String, String)>, what: &str) -> Vec<String> {
    let mut reasons: Vec<(Vec<String>, String)> = Vec::new();
    for (node, why) in told {
        match reasons.iter_mut().find(|(_, known)| *known == why) {
            Some((nodes, _)) => nodes.push(node),
            None => reasons.push((vec![node], why)),
        }
    }
    reasons.iter().map(|(nodes, why)| format!("{}{what}: {why}", nodes.join(", "))).collect()
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match &error {
            LockError::Held { votes } => Failure::new(Exit::Held, &error).voted(votes),
            LockError::NoMajority { votes } => no_majority(votes, None),
            LockError::Quarantined { votes, remaining, .. } => no_majority(votes, *remaining),
            LockError::TooSlow { .. } => {
                Failure::new(Exit::NoMajority, as_options(error.to_string()))
            }
            LockError::Invalid(error) => error.clone().into(),
            _ => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<ResumeError> for Failure {
    fn from(error: ResumeError) -> Self {
        match &error {
            ResumeError::Lost(_) | ResumeError::TooLate { .. } => Failure::new(Exit::Lost, error),
            ResumeError::NoMajority { votes } => no_majority(votes, None),
            ResumeError::Invalid(error) => error.clone().into(),
            _ => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<LazyError> for Failure {
    fn from(error: LazyError) -> Self {
        match error {
            LazyError::Invalid(error) => error.into(),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<NodesError> for Failure {
    fn from(error: NodesError) -> Self {
        Failure::new(Exit::Failed, error)
    }
}

impl From<AdmitError> for Failure {
    fn from(error: AdmitError) -> Self {
        Failure::new(Exit::Failed, error)
    }
}

impl From<InvalidRequest> for Failure {
    fn from(error: InvalidRequest) -> Self {
        if let InvalidRequest::Terms(TermsError::Notice { notice, usable }) = &error {
            let words = format!(
                "--grace is too long: the command would be asked to end {} before the lease does, \
                 and the lease is good for {}; use a longer --ttl, or a shorter --grace",
                show(*notice),
                show(*usable)
            );
            return Failure::new(Exit::Failed, words);
        }
        if let InvalidRequest::Terms(TermsError::Renewal { every, needed, usable }) = &error {
            let words = format!(
                "there is no time to renew the lock: a renewal every {} may take until {}, and the \
                 command would be asked to end after {}; use a longer --ttl, or a shorter --grace \
                 or --node-timeout",
                show(*every),
                show(*needed),
                show(*usable)
            );
            return Failure::new(Exit::Failed, words);
        }
        Failure::new(Exit::Failed, as_options(error.to_string()))
    }
}

/// Replaces the settings in a text of the library by the options that set them.
fn as_options(words: String) -> String {
    let options = [
        ("`ttl`", "--ttl"),
        ("`max_ttl`", "--max-ttl"),
        ("`node_timeout`", "--node-timeout"),
        (", or a smaller `min_validity`", ""), // the command does not set it
    ];
    options.iter().fold(words, |words, (setting, option)| words.replace(setting, option))
}

impl From<ExtendError> for Failure {
    fn from(error: ExtendError) -> Self {
        match error {
            ExtendError::Invalid(error) => error.into(),
            ExtendError::Lost(_) => Failure::new(Exit::Lost, error),
            ExtendError::Unknown { .. } => Failure::new(Exit::NoMajority, error),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        let exit = match error {
            ReleaseError::Unknown { .. } => Exit::NoMajority,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    }
}

impl From<ReleasePartsError> for Failure {
    fn from(error: ReleasePartsError) -> Self {
        match error {
            ReleasePartsError::Invalid(error) => error.into(),
            ReleasePartsError::Release(error) => error.into(),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<StatusError> for Failure {
    fn from(error: StatusError) -> Self {
        match error {
            StatusError::Invalid(error) => error.into(),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<std::io::Error> for Failure {
    /// If the reader is gone (`| head`), we exit silently, with the status for
    /// `SIGPIPE`.
    fn from(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::new(Exit::Signal(Signal::SIGPIPE as i32), "");
        }
        Failure::new(Exit::Failed, error)
    }
}

/// Says why each node failed or may not vote, and what to do; leaves out the
/// others.
fn no_majority(votes: &Votes, to_go: Option<Duration>) -> Failure {
    let (mut silent, mut errors) = (Kind::default(), Vec::new());
    let (mut forgot, mut disagree, mut mistaken, mut watched) =
        (Kind::default(), Kind::default(), Kind::default(), Kind::default());
    for voted in votes {
        let (NodeVote { node, vote, .. }, label) = (voted, voted.label());
        match vote {
            Vote::Failed(fault @ (Fault::Refused(_) | Fault::Nonsense(_) | Fault::Unfit(_))) => {
                errors.push((label.into_owned(), reason(fault)));
            }
            Vote::Failed(_) => silent.push(format!("{label}: {vote}"), None),
            Vote::Quarantined(quarantine) => {
                let cause = &quarantine.cause;
                match cause {
                    Cause::Watched => watched.push(&label, Some(cause)),
                    Cause::Disagrees(_) => {
                        disagree.push(&label, Some(cause));
                        disagree.others.extend(voted.other_name());
                    }
                    Cause::OtherNode { is, .. } => {
                        mistaken.push(format!("{label} (it is {is})"), Some(cause));
                    }
                    _ => forgot.push(node, Some(cause)),
                }
            }
            _ => {}
        }
    }
    let differing = differing(&disagree.causes, votes.agreement());
    let [serves, serve] =
        ["serves", "serve"].map(|verb| format!("{verb} clients with {differing}"));
    let to_go = to_go.map_or(String::new(), |left| format!(", {} to go", show(left)));
    let (count, errors) = (errors.len(), by_reason(errors.into_iter(), ""));
    let refuse = Kind { count, which: errors, ..Kind::default() };
    let kinds = [
        (silent, "does not answer", "do not answer", ""),
        (refuse, "answers with an error", "answer with errors", ""),
        (
            forgot,
            "is new or restarted and may not vote yet",
            "are new or restarted and may not vote yet",
            &*to_go,
        ),
        (
            mistaken,
            "is reached at an address that should lead to another node",
            "are reached at addresses that should lead to other nodes",
            "",
        ),
        (
            watched,
            "was marked by a client with the restart guard, and none has admitted it yet",
            "were marked by a client with the restart guard, and none has admitted them yet",
            "",
        ),
        (disagree, &*serves, &*serve, ""),
    ];
    let kinds = kinds.into_iter().filter(|(kind, ..)| !kind.which.is_empty());
    let told = kinds.map(|(kind, one, more, to_go)| {
        let what = if kind.count > 1 { more } else { one };
        kind.told(votes, &format!("{what}{to_go}"))
    });
    let message = told.collect::<Vec<_>>().join("; ");
    Failure::new(Exit::NoMajority, message).voted(votes)
}

/// How the settings of other clients differ from ours, each difference once.
fn differing(causes: &[&Cause], ours: Option<&Agreement>) -> String {
    let difference = |cause: &&Cause| match cause {
        Cause::Disagrees(Some(theirs)) => Some(ours?.difference(&Agreement::parse(theirs)?)),
        _ => None,
    };
    let differing = causes.iter().map(|cause| {
        difference(cause).unwrap_or_else(|| "another list of nodes, or other times".into())
    });
    let mut differing: Vec<String> = differing.collect();
    differing.dedup();
    differing.join("; or ")
}

/// The nodes that did not vote for one kind of reason.
#[derive(Default)]
struct Kind<'a> {
    count: usize,
    which: Vec<String>,
    causes: Vec<&'a Cause>,
    /// What the clients of these nodes call them.
    others: Vec<OtherName>,
}

impl<'a> Kind<'a> {
    fn push(&mut self, node: impl fmt::Display, cause: Option<&'a Cause>) {
        self.count += 1;
        self.which.push(node.to_string());
        self.causes.extend(cause);
    }

    /// Says how many nodes, which ones, and what to do about them.
    fn told(&self, votes: &Votes, what: &str) -> String {
        let nodes = votes.tally().nodes;
        let separator = if self.causes.is_empty() { "; " } else { ", " };
        let (count, which) = (self.count, self.which.join(separator));
        let subject = of_nodes(count, nodes);
        let mut told = format!("{subject} {what}: {which}");
        if let Some(others) = in_words(&self.others) {
            let _ = write!(told, "; {others}");
        }
        if let Some(cause) = self.causes.first() {
            let named = || self.which.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(" ");
            let which = if count == nodes { "--all".into() } else { named() };
            let all = votes.iter().filter_map(|node| match &node.vote {
                Vote::Quarantined(out) => Some(&out.cause),
                _ => None,
            });
            let advice = match votes.agreement() {
                Some(ours) => advice_to(ours, self.others.first(), all, cause, &which, ""),
                None => advice(cause, &which, ""),
            };
            let _ = write!(told, "; {advice}");
        }
        told
    }
}

/// What to write for servers that are admitted under other names, if any, as a
/// list to paste into the settings.
pub(crate) fn in_words(others: &[OtherName]) -> Option<String> {
    match others {
        [] => None,
        [other] => Some(other.to_string()),
        others => {
            let known: Vec<&str> = others.iter().map(|other| &*other.is).collect();
            let urls = others.iter().map(OtherName::url).collect::<Vec<_>>().join(",");
            // In a shell, an `&` would end the command.
            let urls = if urls.contains('&') { format!("'{urls}'") } else { urls };
            let has_logins = others.iter().any(OtherName::has_login);
            let logins = if has_logins { " (add the logins; they are not shown here)" } else { "" };
            Some(format!(
                "these servers are admitted as {}; if your addresses lead to them, write \
                 {urls}{logins}",
                known.join(", ")
            ))
        }
    }
}

/// Who holds it; all votes, if the nodes disagree.
fn holders(votes: &Votes) -> String {
    let told = || {
        votes.iter().filter_map(|node| match &node.vote {
            Vote::Held(holder) => Some(holder),
            _ => None,
        })
    };
    if told().count() > 0 && told().all(|holder| holder.reserved) {
        return "not held, but reserved for the next in line".into();
    }
    let mut known = told().filter_map(|holder| holder.owner.as_deref());
    match known.next() {
        Some(first) if known.all(|other| other == first) => format!("held by {first}"),
        Some(_) => format!("held by others: {votes}"),
        None => format!("held by {NAMELESS}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_in_the_words_gets_the_options_that_were_typed() {
        let words =
            "wait: `redlatch admit --wait`; or `redlatch admit A` lets it vote (`redlatch doctor`)";
        let failure = || Failure::new(Exit::NoMajority, words);

        assert_eq!(failure().with_options("").message, words);
        assert_eq!(
            failure().with_options("--node B").message,
            "wait: `redlatch admit --wait --node B`; or `redlatch admit A --node B` lets it vote \
             (`redlatch doctor`)"
        );
    }
}
