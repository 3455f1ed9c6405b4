//! What went wrong, in one sentence, and how to end because of it.

use crate::{duration::show, exit::Exit};
use redlatch::{
    Agreement, Cause, ConnectError, ExtendError, Fault, InvalidRequest, LockError, LockState,
    Locks, NodeVote, ReleaseError, StatusError, TermsError, Vote, Votes,
};
use std::{ffi::OsString, fmt, os::unix::ffi::OsStrExt, time::Duration};

/// A sentence and an exit status.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) exit: Exit,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Failure { message: message.to_string(), exit }
    }

    /// The same, with advice that can be followed: other commands find no nodes
    /// that were typed for this one.
    pub(crate) fn for_nodes(mut self, are_typed: bool) -> Self {
        if are_typed && self.message.contains("`redlatch admit") {
            self.message.push_str("; call `redlatch admit` with the same --node options");
        }
        self
    }

    /// Why these were not locked. Who has them is asked for: a plain Redis
    /// answer does not tell.
    pub(crate) async fn about(names: &[OsString], locks: &Locks, error: LockError) -> Self {
        match error {
            LockError::Held { votes } => {
                let asked = tokio::time::timeout(ASKING, whose(names, locks)).await;
                let message = asked.ok().flatten().unwrap_or_else(|| {
                    let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
                    format!("{}: held by {}", names.join(", "), holders(&votes))
                });
                Failure::new(Exit::Held, message)
            }
            error => error.into(),
        }
    }
}

/// How long to ask who has a lock.
const ASKING: Duration = Duration::from_millis(300);

/// Who has the first of them that is held.
async fn whose(names: &[OsString], locks: &Locks) -> Option<String> {
    for name in names {
        let status = locks.status(name.as_bytes()).await.ok()?;
        if let LockState::Held { owner, .. } = status.state {
            let owner = owner.as_deref().unwrap_or("another client");
            return Some(format!("{} is held by {owner}", name.to_string_lossy()));
        }
    }
    None
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NoQuorum(votes) | ConnectError::Disagree(votes) => too_few(&votes),
            ConnectError::Invalid(error) => error.into(),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match &error {
            LockError::Held { .. } => Failure::new(Exit::Held, error),
            LockError::NoQuorum { votes } => too_few(votes),
            LockError::TooSlow { .. } => Failure::new(Exit::TooFewNodes, error),
            LockError::Invalid(error) => error.clone().into(),
            _ => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<InvalidRequest> for Failure {
    fn from(error: InvalidRequest) -> Self {
        let hint = match &error {
            InvalidRequest::Terms(TermsError::TtlTooLong { .. }) => {
                "; or raise --max-ttl, for all who share the nodes"
            }
            InvalidRequest::Terms(TermsError::Renewal { .. } | TermsError::Notice { .. }) => {
                "; use a longer --ttl, or a shorter --grace"
            }
            _ => "",
        };
        Failure::new(Exit::Failed, format!("{error}{hint}"))
    }
}

impl From<ExtendError> for Failure {
    fn from(error: ExtendError) -> Self {
        match error {
            ExtendError::Invalid(error) => error.into(),
            ExtendError::Lost(_) => Failure::new(Exit::Lost, error),
            ExtendError::Unknown { .. } => Failure::new(Exit::TooFewNodes, error),
            error => Failure::new(Exit::Failed, error),
        }
    }
}

impl From<ReleaseError> for Failure {
    fn from(error: ReleaseError) -> Self {
        let exit = match error {
            ReleaseError::Unknown { .. } => Exit::TooFewNodes,
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
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
    fn from(error: std::io::Error) -> Self {
        Failure::new(Exit::Failed, error)
    }
}

/// Says of each node that failed or may not vote why, and what to do; the others
/// do not matter.
fn too_few(votes: &Votes) -> Failure {
    let (mut silent, mut refuse) = (Vec::new(), Vec::new());
    let (mut forgot, mut disagree, mut mistaken) = (Vec::new(), Vec::new(), Vec::new());
    let (mut theirs, mut out) = (Vec::new(), String::new());
    for NodeVote { node, vote, .. } in votes {
        match vote {
            Vote::Failed(Fault::Refused(_) | Fault::Nonsense(_) | Fault::Unfit(_)) => {
                refuse.push(format!("{node}: {vote}"));
            }
            Vote::Failed(_) => silent.push(format!("{node}: {vote}")),
            Vote::Quarantined(quarantine) => match &quarantine.cause {
                Cause::Disagrees(other) => {
                    disagree.push(node.to_string());
                    theirs.extend(other.as_deref().map(Agreement::in_one_line));
                }
                Cause::OtherNode { is, .. } => mistaken.push(format!("{node} (it is {is})")),
                Cause::Watched => disagree.push(node.to_string()),
                _ => {
                    let left =
                        quarantine.remaining.map(|left| format!(" for another {}", show(left)));
                    forgot.push(format!("{node}{}", left.unwrap_or_default()));
                    out = format!("{out} {node}");
                }
            },
            _ => {}
        }
    }
    let nodes = votes.tally().nodes;
    theirs.dedup();
    let theirs = if theirs.is_empty() {
        String::new()
    } else {
        format!("; they have {}", theirs.join("; "))
    };
    let kinds = [
        (silent, ["does not answer", "do not answer"], "; ", String::new()),
        (refuse, ["answers with an error", "answer with errors"], "; ", String::new()),
        (
            forgot,
            [
                "is quarantined, since it may have forgotten locks",
                "are quarantined, since they may have forgotten locks",
            ],
            ", ",
            format!(
                "; `redlatch admit --wait` waits for them; if no lock of theirs can still be in \
                 use, `redlatch admit{out}` lets them vote at once"
            ),
        ),
        (
            mistaken,
            [
                "answers at an address that should lead to another",
                "answer at addresses that should lead to others",
            ],
            ", ",
            "; point each address back to a server of its own (DNS, NAT, proxy, port forward), \
             `redlatch doctor` says more"
                .into(),
        ),
        (
            disagree,
            [
                "serves clients with another list of nodes, or other times",
                "serve clients with another list of nodes, or other times",
            ],
            ", ",
            format!(
                "{theirs}; give all clients the same settings; if the change is meant for all \
                 clients: `redlatch admit --replace --all`"
            ),
        ),
    ];
    let kinds = kinds.into_iter().filter(|(which, ..)| !which.is_empty());
    let told = kinds.map(|(which, what, separator, hint)| {
        let what = what[usize::from(which.len() > 1)];
        format!("{} of {nodes} nodes {what}: {}{hint}", which.len(), which.join(separator))
    });
    let message = told.collect::<Vec<_>>().join("; ");
    Failure::new(Exit::TooFewNodes, message)
}

/// Who has it; every vote only where the nodes do not agree.
fn holders(votes: &Votes) -> String {
    let mut known = votes.iter().filter_map(|node| match &node.vote {
        Vote::Held(holder) => holder.owner.as_deref(),
        _ => None,
    });
    match known.next() {
        Some(first) if known.all(|other| other == first) => first.into(),
        Some(_) => format!("others: {votes}"),
        None => "another owner".into(),
    }
}
