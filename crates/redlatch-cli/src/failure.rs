//! What went wrong, in one sentence, and how to end because of it.

use crate::exit::Exit;
use redlatch::{
    ConnectError, ExtendError, InvalidRequest, LockError, NodeVote, ReleaseError, StatusError,
    TermsError, Vote, Votes,
};
use std::fmt;

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
            LockError::Held { votes } => Failure::new(Exit::Held, held(votes)),
            LockError::NoQuorum { votes } | LockError::TooSlow { votes, .. } => {
                Failure { message: error.to_string(), ..too_few(votes) }
            }
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

fn too_few(votes: &Votes) -> Failure {
    Failure::new(Exit::TooFewNodes, format!("too few nodes can be reached: {votes}"))
}

/// Who has it; the votes one by one only where the nodes do not agree.
fn held(votes: &Votes) -> String {
    let mut known = votes.iter().filter_map(holder);
    match known.next() {
        Some(first) if known.all(|other| other == first) => format!("held by {first}"),
        Some(_) => format!("held by others: {votes}"),
        None => format!(
            "held by another owner on {} of {} nodes",
            votes.tally().refused,
            votes.tally().nodes
        ),
    }
}

fn holder(vote: &NodeVote) -> Option<String> {
    match &vote.vote {
        Vote::Held(holder) => holder.owner.as_ref().map(ToString::to_string),
        _ => None,
    }
}
