//! The first check of the nodes: can they form a set of nodes?

use super::{AdmitError, ConnectError, votes::Asked};
use crate::{
    driver::engine::Handle,
    node::{Node, label},
};
use redlatch_core::{Ballot, Command, Fault, Reply, Standing, Vote, machine::Vouch};
use std::{borrow::Cow, sync::Arc, time::Duration};

/// How long nodes may take to say which server they are, and what they hold.
pub(crate) const SURVEY_TIME: Duration = Duration::from_secs(1);
/// How long the rest may take once a majority has answered, so that a hanging node
/// costs no more.
const QUICK_ANSWER: Duration = Duration::from_millis(100);

/// Asks every node for its identity; refuses servers that cannot form a set of
/// nodes.
pub(super) async fn check_servers(handle: &Handle) -> Result<(), ConnectError> {
    match introduced(handle, QUICK_ANSWER).await {
        Err(ConnectError::NoMajority(_)) => introduced(handle, SURVEY_TIME).await,
        settled => settled,
    }
}

/// Asks once. A minority that cannot vote, for whatever reason, is not an error.
async fn introduced(handle: &Handle, patience: Duration) -> Result<(), ConnectError> {
    let ballot = identities(handle, patience).await?;
    let votes = handle.shared.votes(&ballot).on_being(Asked::Identity);
    let wrong = |vote: &Vote| matches!(vote, Vote::Failed(Fault::WrongAddress(_)));
    let unfit = |vote: &Vote| matches!(vote, Vote::Failed(Fault::Unfit(_)));
    let useless = votes.iter().filter(|node| unfit(&node.vote));
    let tally = ballot.tally();
    let hopeless = useless.count() > tally.nodes - tally.majority();
    if hopeless || votes.iter().any(|node| wrong(&node.vote)) {
        return Err(ConnectError::Unfit(votes));
    }
    if tally.granted < tally.majority() {
        return Err(ConnectError::NoMajority(votes));
    }
    Ok(())
}

/// Why the identities of the nodes are not known, or not acceptable.
pub(crate) enum Unclear {
    SameServer { first: Arc<str>, second: Arc<str> },
    Stopped,
}

impl From<Unclear> for ConnectError {
    fn from(unclear: Unclear) -> Self {
        match unclear {
            Unclear::SameServer { first, second } => ConnectError::SameServer { first, second },
            Unclear::Stopped => ConnectError::Stopped,
        }
    }
}

impl From<Unclear> for AdmitError {
    fn from(unclear: Unclear) -> Self {
        match unclear {
            Unclear::SameServer { first, second } => AdmitError::SameServer { first, second },
            Unclear::Stopped => AdmitError::Stopped,
        }
    }
}

/// Returns, as votes, which nodes gave their identity. Fails if one server answers
/// for two nodes.
pub(crate) async fn identities(handle: &Handle, patience: Duration) -> Result<Ballot, Unclear> {
    let nodes = &handle.shared.nodes;
    let replies = handle.survey(Command::Identify, patience).await;
    let replies = replies.map_err(|_| Unclear::Stopped)?;
    let mut ballot = Ballot::of(nodes.len());
    let mut runs: Vec<(Cow<'_, str>, Arc<str>)> = Vec::new();
    for (node, reply) in replies.iter().enumerate() {
        let vote = match reply {
            Reply::Identity(identity) => {
                let shown = label(nodes[node].name(), nodes[node].address());
                if let Some((first, _)) = runs.iter().find(|(_, run)| *run == identity.run) {
                    let (first, second) = (Arc::from(&**first), Arc::from(shown));
                    return Err(Unclear::SameServer { first, second });
                }
                runs.push((shown, identity.run.clone()));
                Vote::Granted
            }
            Reply::Vote(vote) => vote.clone(),
            _ => Vote::Failed(Fault::Nonsense("not an answer to the question who it is".into())),
        };
        ballot.cast(node, vote, Duration::ZERO);
    }
    Ok(ballot)
}

/// Asks every node for its ledger. Waits longer if no majority answers at once.
pub(super) async fn ledgers(handle: &Handle) -> Result<Box<[Reply]>, ConnectError> {
    let ask = async |patience| {
        let told = handle.survey(Command::Ledger, patience).await;
        told.map_err(|_| ConnectError::Stopped)
    };
    let told = ask(QUICK_ANSWER).await?;
    let tell = told.iter().filter(|reply| matches!(reply, Reply::Ledger(_))).count();
    if 2 * tell > told.len() { Ok(told) } else { ask(SURVEY_TIME).await }
}

/// Examines the nodes and admits those that may vote: new ones at once, if the
/// caller vouches for them. Fails if no lock could ever be granted.
pub(crate) async fn admit_at_start(
    handle: &Handle,
    vouches_for_new: bool,
) -> Result<(), ConnectError> {
    let shared = &handle.shared;
    if shared.admission.is_none() {
        return Ok(());
    }
    let vouch = Vouch { new: vouches_for_new, ..Vouch::default() };
    let standings = handle.admit(vouch).await.map_err(|_| ConnectError::Stopped)?;
    let ballot = ballot(standings);
    let disagree = ballot.casts().iter().filter(|cast| {
        matches!(&cast.vote, Vote::Quarantined(quarantine) if quarantine.cause.is_conflict())
    });
    let tally = ballot.tally();
    if disagree.count() > tally.nodes - tally.majority() {
        return Err(ConnectError::Disagree(shared.votes(&ballot).on_being(Asked::Identity)));
    }
    if tally.granted < tally.majority() {
        tracing::warn!(votes = %shared.votes(&ballot).on_being(Asked::Identity), "no majority of the nodes may vote yet");
    }
    Ok(())
}

/// For a client without the restart guard: fails if a node's guarded clients use
/// another list of nodes, or if no majority answers. A node that did not answer is
/// asked again before its votes count.
pub(crate) fn refuse_another_list(handle: &Handle, told: &[Reply]) -> Result<(), ConnectError> {
    let Some(ours) = &handle.shared.counted else { return Ok(()) };
    let nodes = &handle.shared.nodes;
    let stands =
        |(reply, node): (&Reply, &Arc<dyn Node>)| ours.at(node.name()).unguarded_standing(reply);
    let ballot = ballot(told.iter().zip(nodes.iter()).map(stands));
    let (tally, votes) = (ballot.tally(), handle.shared.votes(&ballot).on_being(Asked::Identity));
    if tally.quarantined > 0 {
        return Err(ConnectError::Disagree(votes));
    }
    if tally.granted < tally.majority() {
        return Err(ConnectError::NoMajority(votes));
    }
    Ok(())
}

/// The standings of the nodes, as votes.
fn ballot(standings: impl IntoIterator<Item = Standing, IntoIter: ExactSizeIterator>) -> Ballot {
    let standings = standings.into_iter();
    let mut ballot = Ballot::of(standings.len());
    for (node, standing) in standings.enumerate() {
        ballot.cast(node, standing.into(), Duration::ZERO);
    }
    ballot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        driver::{
            clock::Clock,
            engine::{Shared, spawn_here},
        },
        node::{Memory, Node},
    };
    use tokio::time::Instant;

    /// Connects to nodes, some of which do not answer, and times it.
    async fn connecting(nodes: usize, mute: usize) -> (Result<(), ConnectError>, Duration) {
        let nodes: Vec<_> = (0..nodes).map(|n| Memory::new(format!("memory:{n}"))).collect();
        nodes[..mute].iter().for_each(Memory::pause);
        let nodes = nodes.into_iter().map(|node| Arc::new(node) as Arc<dyn Node>).collect();
        let handle = spawn_here(Shared::new(nodes, Clock::Tokio)).unwrap();
        let begin = Instant::now();
        (check_servers(&handle).await, begin.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn a_minority_that_hangs_holds_up_connecting_for_a_moment_only() {
        let (result, took) = connecting(5, 2).await;

        assert!(result.is_ok(), "{result:?}");
        assert!(took < 2 * QUICK_ANSWER, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_majority_that_hangs_has_longer_to_answer_before_it_is_an_error() {
        let (result, took) = connecting(5, 3).await;

        assert!(matches!(result, Err(ConnectError::NoMajority(_))), "{result:?}");
        assert!(took >= SURVEY_TIME, "{took:?}");
    }
}
