//! What there is to see of a world: keys, answers, commands.

use super::{
    resource,
    world::{Lock, World},
};
use core::time::Duration;
use redlatch_core::{
    AcquireError, Ballot, Command, Moment, OpId, Output, Reply, Standing, Token, extend,
    lease::Loss, machine::Grant, release,
};

impl World {
    /// The nodes on which a client has a key, in their order.
    pub(crate) fn locked(&self) -> Vec<usize> {
        let held = |node: &usize| matches!(self.value(*node), Some(value) if value != STRANGER);
        (0..self.nodes.len()).filter(held).collect()
    }

    /// What stands under the key on that node.
    pub(crate) fn value(&self, node: usize) -> Option<&[u8]> {
        let resources = resource();
        self.nodes[node].value(self.now, resources.single()?)
    }

    pub(crate) fn key_dies(&self, node: usize) -> Option<Moment> {
        self.nodes[node].dies(resource().single()?)
    }

    /// Everything said about that operation, in order.
    pub(crate) fn said(&self, lock: Lock) -> impl Iterator<Item = &(Moment, Output)> {
        let said = self.clients[lock.client].said.iter();
        said.filter(move |(_, output)| about(output) == Some(lock.op))
    }

    /// The answers to the acquire; never more than one.
    pub(crate) fn acquired(&self, lock: Lock) -> Option<&Result<Grant, AcquireError>> {
        let answers = self.said(lock).filter_map(|(_, output)| match output {
            Output::Acquired(_, result) => Some(result),
            _ => None,
        });
        only(answers)
    }

    /// The grant, in a test that is about what comes after it.
    pub(crate) fn grant(&self, lock: Lock) -> &Grant {
        let answer = self.acquired(lock).expect("an answer");
        answer.as_ref().expect("the lock")
    }

    pub(crate) fn refusal(&self, lock: Lock) -> Option<&AcquireError> {
        self.acquired(lock)?.as_ref().err()
    }

    /// The answers to `extend`, in order: the new end, or why there is none.
    pub(crate) fn extended(&self, lock: Lock) -> Vec<extend::Decision> {
        let answers = self.said(lock).filter_map(|(_, output)| match output {
            Output::Extended(_, answer) => Some(answer.clone().map(|kept| kept.deadlines.ends_at)),
            _ => None,
        });
        answers.collect()
    }

    /// The answer to `release`; never more than one.
    pub(crate) fn released(&self, lock: Lock) -> Option<&release::Decision> {
        let answers = self.said(lock).filter_map(|(_, output)| match output {
            Output::Released(_, decision) => Some(decision),
            _ => None,
        });
        only(answers)
    }

    /// When the loss was signalled, and why; never more than once.
    pub(crate) fn lost(&self, lock: Lock) -> Option<(Moment, &Loss)> {
        let signals = self.said(lock).filter_map(|(when, output)| match output {
            Output::Lost(_, loss) => Some((*when, loss)),
            _ => None,
        });
        only(signals)
    }

    /// The ends of the lease that were announced, in order.
    pub(crate) fn kept(&self, lock: Lock) -> Vec<Moment> {
        let kept = self.said(lock).filter_map(|(_, output)| match output {
            Output::Kept(_, kept) => Some(kept.deadlines.ends_at),
            _ => None,
        });
        kept.collect()
    }

    /// The votes of the extensions that failed, in order.
    pub(crate) fn not_kept(&self, lock: Lock) -> Vec<&Ballot> {
        let failed = self.said(lock).filter_map(|(_, output)| match output {
            Output::NotKept(_, ballot) => Some(ballot),
            _ => None,
        });
        failed.collect()
    }

    /// The pauses between attempts, in order.
    pub(crate) fn pauses(&self, lock: Lock) -> Vec<Duration> {
        let pauses = self.said(lock).filter_map(|(_, output)| match output {
            Output::Retrying(_, _, pause) => Some(*pause),
            _ => None,
        });
        pauses.collect()
    }

    pub(crate) fn surveyed(&self, lock: Lock) -> Option<&[Reply]> {
        let answers = self.said(lock).filter_map(|(_, output)| match output {
            Output::Surveyed(_, replies) => Some(&**replies),
            _ => None,
        });
        only(answers)
    }

    /// The answer to an examination: which nodes may vote by that client's agreement.
    pub(crate) fn may_vote(&self, look: Lock) -> Option<Vec<usize>> {
        let standings = self.standings(look)?.iter().enumerate();
        let admitted = standings.filter(|(_, standing)| **standing == Standing::Admitted);
        Some(admitted.map(|(node, _)| node).collect())
    }

    /// The answer to an examination: how much longer each node is quarantined.
    pub(crate) fn quarantined_for(&self, look: Lock) -> Option<Vec<Option<Duration>>> {
        let out = self.standings(look)?.iter().map(|standing| standing.quarantine()?.remaining);
        Some(out.collect())
    }

    pub(crate) fn standings(&self, look: Lock) -> Option<&[Standing]> {
        let answers = self.said(look).filter_map(|(_, output)| match output {
            Output::Standings(_, standings) => Some(&**standings),
            _ => None,
        });
        only(answers)
    }

    /// When which node was admitted, by whom, in order.
    pub(crate) fn admissions(&self) -> Vec<(Moment, usize)> {
        let said = self.clients.iter().flat_map(|client| &client.said);
        let mut admitted: Vec<_> = said
            .filter_map(|(when, output)| match output {
                Output::Admitted(node) => Some((*when, *node)),
                _ => None,
            })
            .collect();
        admitted.sort();
        admitted
    }

    /// The nodes that the first client sent such a command to, in order.
    pub(crate) fn sent(&self, wanted: impl Fn(&Command) -> bool) -> Vec<usize> {
        let sent = self.clients[0].sent.iter();
        let sent = sent.filter(|(_, _, command)| wanted(command));
        sent.map(|(_, node, _)| *node).collect()
    }

    pub(crate) fn undone(&self) -> Vec<usize> {
        self.sent(|command| matches!(command, Command::Release { .. }))
    }

    pub(crate) fn takes(&self) -> Vec<usize> {
        self.sent(|command| matches!(command, Command::Take { .. }))
    }

    /// The nodes that the first client planted its key on again, in order.
    pub(crate) fn planted(&self) -> Vec<usize> {
        self.sent(|command| matches!(command, Command::Plant { .. }))
    }

    pub(crate) fn extensions(&self) -> Vec<usize> {
        self.sent(|command| matches!(command, Command::Extend { .. }))
    }

    /// The tokens of the first client's attempts, in order.
    pub(crate) fn tokens(&self) -> Vec<Token> {
        let sent = self.clients[0].sent.iter();
        let tokens = sent.filter_map(|(_, node, command)| match command {
            Command::Take { token, .. } if *node == 0 => Some(token.clone()),
            _ => None,
        });
        tokens.collect()
    }
}

const STRANGER: &[u8] = b"a stranger";

fn about(output: &Output) -> Option<OpId> {
    match output {
        Output::Send { .. } | Output::Admitted(_) => None,
        Output::Acquired(op, _)
        | Output::Extended(op, _)
        | Output::Released(op, _)
        | Output::Surveyed(op, _)
        | Output::Standings(op, _)
        | Output::Kept(op, ..)
        | Output::NotKept(op, _)
        | Output::Retrying(op, ..)
        | Output::Lost(op, _) => Some(*op),
    }
}

fn only<T>(mut answers: impl Iterator<Item = T>) -> Option<T> {
    let first = answers.next();
    assert!(answers.next().is_none(), "answered twice");
    first
}
