//! What went wrong, in one sentence, and how to end because of it.

use crate::exit::Exit;
use redlatch::{
    ConnectError, ExtendError, InvalidRequest, LockError, NodeVote, ReleaseError, StatusError,
    TermsError, Vote, Votes,
};
use std::{ffi::OsString, fmt};

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

    /// Why these were not locked.
    pub(crate) fn about(names: &[OsString], error: LockError) -> Self {
        let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        let names = names.join(", ");
        match error {
            LockError::Held { votes } => {
                Failure::new(Exit::Held, format!("{names} is held by {}", holders(&votes)))
            }
            error => {
                let Failure { message, exit } = error.into();
                Failure { message: format!("{names} was not locked: {message}"), exit }
            }
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NoQuorum(votes) => too_few(&votes),
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

/// Says of each node that failed why; the others do not matter.
fn too_few(votes: &Votes) -> Failure {
    let failed = votes.iter().filter(|node| matches!(node.vote, Vote::Failed(_)));
    let why: Vec<String> =
        failed.map(|NodeVote { node, vote, .. }| format!("{node}: {vote}")).collect();
    let (failed, nodes) = (why.len(), votes.tally().nodes);
    let message = format!("{failed} of {nodes} nodes do not answer: {}", why.join("; "));
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
