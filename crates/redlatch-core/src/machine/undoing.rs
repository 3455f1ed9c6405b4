//! Removes a lock from the nodes: [`Undo`] decides, this module sends.

use super::{Load, Next, OpId, Output, Tag, World, intake::is_settled};
use crate::{
    command::Command,
    line::Then,
    moment::{Moment, Now},
    mutant::{self, Mutant},
    release::{Decision, Undo},
    resource::Resources,
    token::Token,
    vote::Vote,
};
use core::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Undoing {
    pub(super) resources: Resources,
    pub(super) token: Token,
    /// What to do about our place in line.
    pub(super) then: Option<Then>,
    pub(super) undo: Undo,
    /// How long a caller that asks for the outcome waits for it.
    pub(super) patience: Duration,
    /// Replies to other rounds answer other commands.
    pub(super) round: u32,
}

impl Undoing {
    pub(super) fn at_stake(&self) -> (&Resources, &Token) {
        (&self.resources, &self.token)
    }

    pub(super) fn due(&self) -> Moment {
        self.undo.due()
    }

    pub(super) fn load(&self) -> Load {
        if is_settled(self.undo.ballot()) { Load::Tail } else { Load::Undo }
    }

    /// Reports the outcome to a caller that asked only after the undo began.
    pub(super) fn answer<E>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        let decision = self.undo.answer(now, now.lease.after(self.patience));
        self.proceed(now, id, decision, world)
    }

    pub(super) fn ask<E>(&mut self, now: Moment, id: OpId, world: &mut World<E>) {
        for node in 0..world.nodes {
            if !self.undo.asks(node, now) {
                continue;
            }
            let tag = Tag { op: id, round: self.round };
            let (resources, token, then) = (self.resources.clone(), self.token.clone(), self.then);
            world.send(node, tag, Command::Release { resources, token, then });
        }
        // Leaving is final, so a leave is repeated until each node has answered. Nothing else
        // is repeated: somebody else may hold the lock by then, and our own waiters look for
        // themselves.
        let leaves =
            |then: &Then| matches!(then, Then::Leave(_)) && !mutant::on(Mutant::LeavesOnce);
        self.then = self.then.filter(leaves);
    }

    pub(super) fn vote<E>(
        &mut self,
        now: Now,
        id: OpId,
        tag: Tag,
        node: usize,
        vote: Vote,
        world: &mut World<E>,
    ) -> Next {
        if tag.round != self.round {
            return Next::Same;
        }
        let decision = self.undo.vote(now, node, vote);
        self.proceed(now, id, decision, world)
    }

    pub(super) fn tick<E>(&mut self, now: Now, id: OpId, world: &mut World<E>) -> Next {
        let decision = self.undo.tick(now);
        self.ask(now.lease, id, world);
        self.proceed(now, id, decision, world)
    }

    fn proceed<E>(
        &self,
        now: Now,
        id: OpId,
        decision: Option<Decision>,
        world: &mut World<E>,
    ) -> Next {
        if let Some(decision) = decision {
            world.outbox.push_back(Output::Released(id, decision));
        }
        if self.undo.is_over(now) { Next::Over } else { Next::Same }
    }
}
