//! A client of another library: plain Redlock, without fencing, on the same key.
//!
//! Its messages take no time; it takes and releases node by node.

use super::scenario::NODES;
use crate::node::Node;
use redlatch_core::{Moment, Resources, Token, Vote, lease};
use std::time::Duration;

/// The value it stores in its keys.
pub(super) const VALUE: &[u8] = b"foreign";

/// How far it has got with its current lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Foreign {
    /// How many locks it may still want.
    pub(super) left: u8,
    started: Moment,
    votes: [Option<bool>; NODES],
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Taking,
    Holding { until: Moment },
    Undoing,
}

impl Foreign {
    pub(super) fn new(left: u8) -> Self {
        Foreign { left, started: Moment::START, votes: [None; NODES], stage: Stage::Taking }
    }

    pub(super) fn may_take(&self, node: usize) -> bool {
        self.left > 0 && self.stage == Stage::Taking && self.votes[node].is_none()
    }

    /// It may release a lock at any time, and undoes a failed attempt.
    pub(super) fn may_delete(&self, node: usize) -> bool {
        self.stage != Stage::Taking && self.votes[node] == Some(true)
    }

    pub(super) fn holds_until(&self) -> Option<Moment> {
        match self.stage {
            Stage::Holding { until } => Some(until),
            Stage::Taking | Stage::Undoing => None,
        }
    }

    /// `SET lock value NX PX ttl`. True if that made it the holder.
    pub(super) fn take(
        &mut self,
        now: Moment,
        at: usize,
        node: &mut Node,
        resources: &Resources,
        ttl: Duration,
    ) -> bool {
        if self.votes == [None; NODES] {
            self.started = now;
        }
        let vote = node.take(now, resources, &Token::from_bytes(VALUE), ttl);
        self.votes[at] = Some(vote == Vote::Granted);
        let count = |vote| self.votes.iter().filter(|cast| **cast == Some(vote)).count();
        let until = lease::usable_until(self.started, ttl);
        if count(true) > NODES / 2 && now < until {
            self.stage = Stage::Holding { until };
            return true;
        }
        if count(true) + count(false) == NODES {
            self.stage = Stage::Undoing;
            self.next_lock();
        }
        false
    }

    pub(super) fn delete(&mut self, now: Moment, at: usize, node: &mut Node, name: &Resources) {
        node.remove(now, name, &Token::from_bytes(VALUE));
        self.votes[at] = None;
        self.stage = Stage::Undoing;
        self.next_lock();
    }

    fn next_lock(&mut self) {
        if !self.votes.contains(&Some(true)) {
            *self = Foreign::new(self.left - 1);
        }
    }
}
