//! Draws what goes wrong when.

use super::{Draw, Others};
use crate::search::schedule::{RestartGuard, Span, Trouble, Way, Wrong};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

type Kind = fn(&mut Draw) -> Wrong;

impl Draw {
    pub(super) fn troubles(&mut self) -> Vec<Trouble> {
        let mood = self.mood;
        let kinds: [(u64, Kind); 9] = [
            (mood.network, Draw::network_trouble),
            (mood.node_crashes, Draw::node_crash),
            (mood.pauses, Draw::pause),
            (mood.client_crashes, Draw::client_crash),
            (mood.steps, Draw::step),
            (mood.client_steps, Draw::client_step),
            (mood.garbled, Draw::garble),
            (mood.foreign, Draw::foreign),
            (mood.words, Draw::word),
        ];
        let mut troubles = Vec::new();
        for (most, draw) in kinds {
            for _ in 0..self.dice.between(most.min(1), most) {
                let trouble = Trouble { at: self.any_time(), what: draw(self) };
                troubles.push(trouble);
            }
        }
        if self.dice.percent(mood.flush_all) {
            troubles.push(Trouble { at: self.any_time(), what: Wrong::FlushAll });
        }
        if mood.rolling {
            self.roll(&mut troubles);
        }
        if self.others == Others::Successors {
            self.succeed(&mut troubles);
        }
        self.forget_again(&mut troubles);
        self.deafen(&mut troubles);
        self.blinker(&mut troubles);
        self.betray(&mut troubles);
        troubles
    }

    /// Restarts one node after the other, with or without its memory.
    fn roll(&mut self, troubles: &mut Vec<Trouble>) {
        let mut at = self.ttl * 2;
        for node in 0..self.nodes {
            let forgets = self.dice.percent(60);
            let lasts = self.of_ttl(1, 50);
            let what = Wrong::CrashNode { node, forgets, spare: false, silent: false, lasts };
            troubles.push(Trouble { at: at.into(), what });
            at += self.pace() + lasts.get();
        }
    }

    /// Moves one node after the other from the old list to the new one.
    fn succeed(&mut self, troubles: &mut Vec<Trouble>) {
        let mut at = self.ttl;
        let list = self.parties[1].list.clone();
        for node in list.into_iter().rev() {
            troubles.push(Trouble { at: at.into(), what: Wrong::Replace { client: 0, node } });
            at += self.pace();
        }
    }

    /// Some nodes that forgot forget again, around the time of their admission.
    fn forget_again(&mut self, troubles: &mut Vec<Trouble>) {
        if self.guard == RestartGuard::Off || self.mood.rolling || !self.dice.percent(40) {
            return;
        }
        let window = self.parties[0].window();
        let forgotten = troubles.iter().filter(|trouble| trouble.what.forgets());
        let nodes = forgotten.filter_map(|trouble| match trouble.what {
            Wrong::CrashNode { node, lasts, .. } => Some((trouble.at.get() + lasts.get(), node)),
            Wrong::Flush { node } | Wrong::FailOver { node, .. } => Some((trouble.at.get(), node)),
            _ => None,
        });
        let nodes: Vec<_> = nodes.collect();
        for (at, node) in nodes {
            let at = at + self.dice.time(window, window.mul_f64(1.3) + self.ttl / 4);
            if at < self.calm_at {
                troubles.push(Trouble { at: at.into(), what: Wrong::Flush { node } });
            }
        }
    }

    /// One node misses what the others grant, another forgets it, and the third is
    /// silent when the second is admitted again. Of five nodes, two miss it and two
    /// forget it.
    fn deafen(&mut self, troubles: &mut Vec<Trouble>) {
        if !self.deaf {
            return;
        }
        let (first, few) = (self.node(), self.nodes / 2);
        let some = |from: usize| (from..from + few).map(move |node| (first + node) % (2 * few + 1));
        let (misses, forgets) = (some(0), some(few));
        let mute = (first + 2 * few) % self.nodes;
        let window = self.parties[0].window();
        let at = self.of_ttl(20, 200).get();
        let (way, long) = (Way::Both, window + self.ttl * 2 + Duration::from_secs(3));
        let cut =
            |node, lasts: Duration| Wrong::Cut { client: None, node, way, lasts: lasts.into() };
        let forgot = at + self.ttl * 2;
        for node in misses {
            let what = cut(node, self.ttl * 2 + window.mul_f64(0.95));
            troubles.push(Trouble { at: at.into(), what });
            // A connection would deliver its commands after the cut; none may
            // arrive.
            for client in 0..self.clients {
                let what = Wrong::Break { client, node, late: None };
                troubles.push(Trouble { at: (at + Duration::from_micros(1)).into(), what });
            }
        }
        let flushed = self.dice.percent(50);
        for node in forgets {
            // A replica has its master's marker, which names another run.
            let replica = Wrong::FailOver { node, registers: false };
            let what = if flushed { Wrong::Flush { node } } else { replica };
            troubles.push(Trouble { at: forgot.into(), what });
        }
        let what = cut(mute, long);
        troubles.push(Trouble { at: (forgot + window.mul_f64(0.9)).into(), what });
    }

    /// A node forgets, and the clients with other times reach only that node: the nodes
    /// that would refuse them are out of reach. No operator vouches for it, or the node
    /// would become theirs.
    fn blinker(&mut self, troubles: &mut Vec<Trouble>) {
        let vouched = troubles.iter().any(|trouble| matches!(trouble.what, Wrong::Vouch { .. }));
        let calm = self.others == Others::Strangers && !self.mood.rolling && !vouched;
        if !calm || !self.dice.percent(40) {
            return;
        }
        let (forgets, at) = (self.node(), self.of_ttl(20, 300));
        let lasts = Span::from(self.calm_at.saturating_sub(at.get()));
        troubles.push(Trouble { at, what: Wrong::Flush { node: forgets } });
        for node in (0..self.nodes).filter(|node| *node != forgets) {
            for client in (0..self.clients).filter(|client| self.party_of(*client) > 0) {
                let what = Wrong::Cut { client: Some(client), node, way: Way::Both, lasts };
                troubles.push(Trouble { at, what });
            }
        }
    }

    /// A node restarts with its memory, an operator truthfully vouches for it, and
    /// before it is marked it restarts again without its memory. Another node keeps
    /// the look waiting meanwhile.
    fn betray(&mut self, troubles: &mut Vec<Trouble>) {
        let rare = self.mood.rolling || self.mood.crowd || self.deaf;
        let alone = self.others == Others::Nobody;
        if self.guard == RestartGuard::Off || !alone || rare || !self.dice.percent(12) {
            return;
        }
        let (node, client, at) = (self.node(), self.client(), self.of_ttl(20, 200).get());
        let crash = |forgets, lasts: Duration| Wrong::CrashNode {
            node,
            forgets,
            spare: false,
            silent: false,
            lasts: lasts.into(),
        };
        let other = (node + 1) % self.nodes;
        let lasts = Span::from(3000 * MS);
        let again = at + self.dice.time(30 * MS, 700 * MS);
        for (at, what) in [
            (at, crash(false, MS)),
            (at, Wrong::Cut { client: Some(client), node: other, way: Way::Both, lasts }),
            (at + 2 * MS, Wrong::Vouch { client, node }),
            (again, crash(true, 20 * MS)),
        ] {
            troubles.push(Trouble { at: at.into(), what });
        }
    }

    /// The address of a node leads one client to another node; in most cases the
    /// client cannot reach the others.
    pub(super) fn reroutes(&mut self, troubles: &mut Vec<Trouble>) {
        let calm = self.mood.crowd || self.mood.rolling || self.deaf;
        let alone = self.others == Others::Nobody && !calm;
        if self.guard == RestartGuard::Off || !alone || !self.dice.percent(15) {
            return;
        }
        let (client, node) = (self.client(), self.node());
        let to = (node + 1 + self.dice.index(self.nodes - 1)) % self.nodes;
        let (at, lasts) = (self.any_time(), self.of_ttl(50, 600));
        troubles.push(Trouble { at, what: Wrong::Reroute { client, node, to, lasts } });
        let mut others: Vec<usize> = (0..self.nodes).filter(|n| ![node, to].contains(n)).collect();
        // With one fewer, a node that counts twice makes a majority.
        others.truncate(self.nodes - self.nodes / 2 - 1);
        if self.dice.percent(70) {
            for node in others {
                let what = Wrong::Cut { client: Some(client), node, way: Way::Both, lasts };
                troubles.push(Trouble { at, what });
            }
        }
    }

    fn network_trouble(&mut self) -> Wrong {
        let node = self.node();
        match self.dice.below(10) {
            0..5 => Wrong::Break { client: self.client(), node, late: self.late() },
            5..8 => Wrong::Cut {
                client: self.dice.percent(60).then(|| self.client()),
                node,
                way: self.dice.pick(&[Way::ToNode, Way::ToClient, Way::Both]),
                lasts: self.of_ttl(1, 200),
            },
            _ => Wrong::Slow { node, by: self.of_ttl(1, 120), lasts: self.of_ttl(5, 200) },
        }
    }

    fn late(&mut self) -> Option<Span> {
        self.dice.percent(60).then(|| self.of_ttl(0, 250))
    }

    fn node_crash(&mut self) -> Wrong {
        let node = self.node();
        let forgets = self.dice.percent(self.mood.forgetting);
        match self.dice.below(10) {
            0 if forgets => return Wrong::Flush { node },
            2 if forgets => return Wrong::Swap { node, lasts: self.of_ttl(5, 900) },
            1 if forgets => return Wrong::FailOver { node, registers: self.dice.percent(50) },
            _ => {}
        }
        Wrong::CrashNode {
            node,
            forgets,
            spare: forgets && self.dice.percent(30),
            silent: self.dice.percent(30),
            lasts: self.of_ttl(1, 150),
        }
    }

    fn pause(&mut self) -> Wrong {
        let lasts = self.of_ttl(2, 250);
        if self.dice.percent(40) {
            return Wrong::PauseNode { node: self.node(), lasts };
        }
        let keeper_first = self.dice.percent(50);
        Wrong::PauseClient { client: self.client(), lasts, keeper_first }
    }

    fn client_crash(&mut self) -> Wrong {
        Wrong::CrashClient { client: self.client(), late: self.late(), lasts: self.of_ttl(1, 150) }
    }

    fn step(&mut self) -> Wrong {
        let by = i64::try_from(self.of_ttl(1, 400).0).unwrap_or(0);
        let by = if self.dice.percent(50) { by } else { -by };
        if self.dice.percent(60) {
            return Wrong::StepNode { node: self.node(), by };
        }
        Wrong::StepClient { client: self.client(), by }
    }

    fn client_step(&mut self) -> Wrong {
        let by = i64::try_from(self.of_ttl(1, 900).0).unwrap_or(0);
        let by = if self.dice.percent(70) { by } else { -by };
        Wrong::StepClient { client: self.client(), by }
    }

    fn garble(&mut self) -> Wrong {
        let percent = self.dice.pick(&[10, 50, 100]);
        Wrong::Garble { node: self.node(), percent, lasts: self.of_ttl(5, 200) }
    }

    fn word(&mut self) -> Wrong {
        Wrong::Vouch { client: self.client(), node: self.node() }
    }

    fn foreign(&mut self) -> Wrong {
        Wrong::Foreign {
            resource: self.resource(),
            ttl: self.of_ttl(20, 150),
            hold: self.dice.percent(70).then(|| self.of_ttl(1, 100)),
            pace: self.of_ttl(0, 2),
        }
    }
}
