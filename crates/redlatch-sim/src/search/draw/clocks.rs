//! Draws how far clocks are off.

use super::Draw;
use crate::search::{
    clock::MOST_DRIFT,
    schedule::{Clocks, Process},
};

const HOURS: i64 = 3_600_000_000;

impl Draw {
    /// The nodes' clocks: close to one another where fencing must rest on them,
    /// otherwise arbitrary.
    pub(super) fn node_clocks(&mut self, close: bool) -> Vec<Clocks> {
        let close = close && self.dice.percent(60);
        let most = i64::try_from(self.parties[0].max_ttl.0).unwrap_or(0) * 3 / 5;
        let most = self.dice.pick(&[most / 100, most / 2, most]);
        (0..self.nodes)
            .map(|_| {
                let Clocks { drift, wall } = self.clocks();
                let near = self.within(most / 2);
                Clocks { drift, wall: if close { near } else { wall } }
            })
            .collect()
    }

    /// A client whose wall clock is within half the skew of the nodes', somewhat
    /// beyond, or far off.
    pub(super) fn process(&mut self, client: usize) -> Process {
        let skew = i64::try_from(self.parties[0].skew.0).unwrap_or(0);
        let Clocks { drift, wall } = self.clocks();
        let wall = match self.dice.below(10) {
            0..4 => self.within(skew / 2),
            4..7 => self.within(skew * 2),
            _ => wall,
        };
        Process { clocks: Clocks { drift, wall }, party: self.party_of(client) }
    }

    fn within(&mut self, most: i64) -> i64 {
        let most = u64::try_from(most).unwrap_or(0);
        let off = i64::try_from(self.dice.below(most * 2 + 1)).unwrap_or(0);
        off - i64::try_from(most).unwrap_or(0)
    }

    fn clocks(&mut self) -> Clocks {
        let drift = self.dice.pick(&[0, 50, 500, MOST_DRIFT]);
        let drift = if self.dice.percent(50) { drift } else { -drift };
        let wall = match self.dice.below(10) {
            0..5 => self.within(10_000),
            5..8 => self.within(30_000_000),
            8 => 20 * HOURS,
            _ => -300 * HOURS,
        };
        Clocks { drift, wall }
    }
}
