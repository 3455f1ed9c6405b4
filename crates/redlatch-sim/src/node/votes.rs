//! What a node does with keys and registers when it votes.

use super::{Clock, Flaw, Habits, Key, Node};
use redlatch_core::{
    Command, FencingToken, Holder, Moment, Proposal, Resource, Resources, Token, Vote,
    token::owner_of,
};
use std::time::Duration;

impl Node {
    pub(super) fn vote(&mut self, clock: Clock, command: &Command, habits: Habits) -> Vote {
        let has = |flaw| habits.flaw == Some(flaw);
        match command {
            Command::Take { resources, token, ttl, fence, .. } => {
                let wall = if habits.stands_still { 0 } else { clock.wall };
                match (self.take(clock.now, resources, token, *ttl, habits), fence) {
                    (Vote::Granted, Some(proposal)) => self.number(wall, resources, *proposal),
                    (vote, _) => vote,
                }
            }
            Command::Plant { resources, token, ttl, guard } => {
                if let Some(guard) = guard.filter(|guard| !self.is_admitted(*guard)) {
                    self.disown_hidden(guard);
                }
                self.take(clock.now, resources, token, *ttl, habits)
            }
            Command::Raise { resources, token, to, .. } => {
                let known = self.raise(resources, token, *to, has(Flaw::RaisesUnconditionally));
                let generous = has(Flaw::ConfirmsAtLeast) && known != Vote::Gone;
                if generous { Vote::Numbered(*to) } else { known }
            }
            Command::Extend { resources, token, ttl, fence, .. } => {
                if has(Flaw::ExtensionRecreates) {
                    self.take(clock.now, resources, token, *ttl, habits);
                }
                if let Some(to) = fence.filter(|_| !has(Flaw::ExtensionKeepsRegister)) {
                    self.raise(resources, token, to, false);
                }
                self.extend(clock.now.after(*ttl), resources, token, has(Flaw::ExtensionShortens))
            }
            Command::Release { resources, token } => {
                self.release(resources, token, has(Flaw::ReleaseDeletesAny))
            }
            _ => Vote::Pending,
        }
    }

    fn number(&mut self, wall: u64, resources: &Resources, proposal: Proposal) -> Vote {
        let settled = proposal.settle(wall, self.register(resources));
        let number = settled.expect("2^53 numbers are more than any history has grants");
        self.set_register(resources, number.get());
        Vote::Numbered(number)
    }

    fn raise(
        &mut self,
        resources: &Resources,
        token: &Token,
        to: FencingToken,
        anyway: bool,
    ) -> Vote {
        if !anyway && !self.has_all(resources, token) {
            return Vote::Gone;
        }
        let number = self.register(resources).max(to.get());
        self.set_register(resources, number);
        FencingToken::new(number).map_or(Vote::Gone, Vote::Numbered)
    }

    fn take(
        &mut self,
        now: Moment,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        habits: Habits,
    ) -> Vote {
        let found = resources.iter().find_map(|name| self.key(now, name));
        if let Some(key) = found {
            return Vote::Held(if habits.discreet { Holder::default() } else { told(now, key) });
        }
        for name in resources {
            self.set_if_absent(now, name, token.as_bytes(), ttl);
        }
        Vote::Granted
    }

    fn extend(
        &mut self,
        dies: Moment,
        resources: &Resources,
        token: &Token,
        shortens: bool,
    ) -> Vote {
        if !self.has_all(resources, token) {
            return Vote::Gone;
        }
        let wanted = |name: &Resource| resources.iter().any(|wanted| wanted == name);
        for (_, key) in self.keys.iter_mut().filter(|(name, _)| wanted(name)) {
            key.dies = if shortens { dies } else { key.dies.max(dies) };
        }
        Vote::Granted
    }

    fn release(&mut self, resources: &Resources, token: &Token, any: bool) -> Vote {
        let mut ours = 0;
        for name in resources {
            ours += usize::from(self.delete_if(name, token.as_bytes()));
            if any {
                self.keys.retain(|(known, _)| known != name);
            }
        }
        if ours == resources.count() { Vote::Granted } else { Vote::Gone }
    }

    pub(super) fn has_all(&self, resources: &Resources, token: &Token) -> bool {
        let ours = |name: &Resource| {
            self.keys.iter().any(|(known, key)| known == name && *key.value == *token.as_bytes())
        };
        resources.iter().all(ours)
    }
}

fn told(now: Moment, key: &Key) -> Holder {
    Holder::new(owner_of(&key.value).map(Into::into), Some(key.dies.since(now)))
}
