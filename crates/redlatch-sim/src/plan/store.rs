//! A node for a hundred thousand keys: the same answers as [`node`](crate::node)
//! gives, found faster. It knows neither flaws nor restarts.

use redlatch_core::{
    Command, FencingToken, Holder, Moment, Proposal, Reply, Resource, Resources, Token, Vote,
    fence::registers,
};
use std::{collections::HashMap, time::Duration};

/// One node.
#[derive(Debug, Default)]
pub(super) struct Store {
    keys: HashMap<Resource, (Token, Moment)>,
    registers: HashMap<u32, u64>,
}

impl Store {
    pub(super) fn carry_out(&mut self, now: Moment, wall: u64, command: &Command) -> Reply {
        let vote = match command {
            Command::Take { resources, token, ttl, fence, .. } => {
                match (self.take(now, resources, token, *ttl), fence) {
                    (Vote::Granted, Some(proposal)) => self.number(wall, resources, *proposal),
                    (vote, _) => vote,
                }
            }
            Command::Raise { resources, token, to, .. } => self.raise(now, resources, token, *to),
            Command::Extend { resources, token, ttl, fence, .. } => {
                if let Some(to) = fence {
                    self.raise(now, resources, token, *to);
                }
                self.extend(now, resources, token, *ttl)
            }
            Command::Release { resources, token } => self.release(now, resources, token),
            _ => Vote::Gone,
        };
        Reply::Vote(vote)
    }

    fn take(&mut self, now: Moment, resources: &Resources, token: &Token, ttl: Duration) -> Vote {
        let found = resources.iter().find_map(|name| self.alive(now, name));
        if let Some((_, dies)) = found {
            return Vote::Held(Holder::new(None, Some(dies.since(now))));
        }
        for name in resources {
            self.keys.insert(name.clone(), (token.clone(), now.after(ttl)));
        }
        Vote::Granted
    }

    fn number(&mut self, wall: u64, resources: &Resources, proposal: Proposal) -> Vote {
        let settled = proposal.settle(wall, self.register(resources));
        settled.map_or(Vote::Gone, |number| self.set_register(resources, number))
    }

    fn raise(&mut self, now: Moment, names: &Resources, token: &Token, to: FencingToken) -> Vote {
        if !self.has_all(now, names, token) {
            return Vote::Gone;
        }
        let number = FencingToken::new(self.register(names)).map_or(to, |known| known.max(to));
        self.set_register(names, number)
    }

    fn extend(&mut self, now: Moment, resources: &Resources, token: &Token, ttl: Duration) -> Vote {
        if !self.has_all(now, resources, token) {
            return Vote::Gone;
        }
        for name in resources {
            if let Some((_, dies)) = self.keys.get_mut(name) {
                *dies = now.after(ttl).max(*dies);
            }
        }
        Vote::Granted
    }

    fn release(&mut self, now: Moment, resources: &Resources, token: &Token) -> Vote {
        let all = self.has_all(now, resources, token);
        for name in resources {
            if self.keys.get(name).is_some_and(|(value, _)| value == token) {
                self.keys.remove(name);
            }
        }
        if all { Vote::Granted } else { Vote::Gone }
    }

    fn alive(&self, now: Moment, name: &Resource) -> Option<&(Token, Moment)> {
        self.keys.get(name).filter(|(_, dies)| now < *dies)
    }

    fn has_all(&self, now: Moment, resources: &Resources, token: &Token) -> bool {
        let ours = |name| self.alive(now, name).is_some_and(|(value, _)| value == token);
        resources.iter().all(ours)
    }

    fn register(&self, resources: &Resources) -> u64 {
        let numbers = registers(resources).into_iter().filter_map(|at| self.registers.get(&at));
        numbers.copied().max().unwrap_or(0)
    }

    fn set_register(&mut self, resources: &Resources, number: FencingToken) -> Vote {
        for at in registers(resources) {
            self.registers.insert(at, number.get());
        }
        Vote::Numbered(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        node::{Clock, Habits, Node},
        search::dice::Dice,
    };

    /// The dumb node is the oracle.
    #[test]
    fn it_answers_every_command_as_the_slow_node_does() {
        let mut dice = Dice::of(1, &[]);
        let (mut store, mut node) = (Store::default(), Node::default());
        let mut at = 0;
        for _ in 0..20_000 {
            at += dice.below(300);
            let now = Moment::from_nanos(at * 1_000_000);
            let command = any_command(&mut dice);

            let fast = store.carry_out(now, at, &command);
            let habits = Habits { discreet: true, ..Habits::default() };
            let slow = node.carry_out(Clock { now, wall: at }, &command, habits);

            let fast = match fast {
                Reply::Vote(Vote::Held(_)) => Reply::Vote(Vote::Held(Holder::default())),
                other => other,
            };
            assert_eq!(fast, slow, "{command:?}");
        }
    }

    fn any_command(dice: &mut Dice) -> Command {
        let names: &[&str] = dice.pick(&[&["a"][..], &["b"], &["a", "b"], &["c"]]);
        let resources = Resources::new(names).unwrap();
        let token = Token::from_bytes(&[dice.pick(b"xyz")]);
        let ttl = Duration::from_millis(dice.between(1, 1000));
        let number = FencingToken::new(dice.between(1, 3000)).unwrap();
        let fenced = dice.percent(50);
        let skew = Duration::from_micros(500);
        let fence = fenced.then(|| Proposal::new(number.get(), skew));
        let (guard, raised) = (None, fenced.then_some(number));
        match dice.below(4) {
            0 => Command::Take { resources, token, ttl, fence, guard },
            1 => Command::Raise { resources, token, to: number, guard },
            2 => Command::Extend { resources, token, ttl, fence: raised, guard },
            _ => Command::Release { resources, token },
        }
    }
}
