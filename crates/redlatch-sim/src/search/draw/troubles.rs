//! What goes wrong when.

use super::Draw;
use crate::search::schedule::{Span, Trouble, Way, Wrong};

/// Draws one trouble of some kind.
type Kind = fn(&mut Draw) -> Wrong;

impl Draw {
    pub(super) fn troubles(&mut self) -> Vec<Trouble> {
        let mood = self.mood;
        let kinds: [(u64, Kind); 6] = [
            (mood.network, Draw::network_trouble),
            (mood.node_crashes, Draw::node_crash),
            (mood.pauses, Draw::pause),
            (mood.client_crashes, Draw::client_crash),
            (mood.steps, Draw::step),
            (mood.foreign, Draw::foreign),
        ];
        let mut troubles = Vec::new();
        for (most, draw) in kinds {
            for _ in 0..self.dice.between(most.min(1), most) {
                let trouble = Trouble { at: self.any_time(), what: draw(self) };
                troubles.push(trouble);
            }
        }
        troubles
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
            1 if forgets => return Wrong::FailOver { node, registers: self.dice.percent(50) },
            _ => {}
        }
        Wrong::CrashNode {
            node,
            forgets,
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

    fn foreign(&mut self) -> Wrong {
        Wrong::Foreign {
            resource: self.resource(),
            ttl: self.of_ttl(20, 150),
            hold: self.dice.percent(70).then(|| self.of_ttl(1, 100)),
            pace: self.of_ttl(0, 2),
        }
    }
}
