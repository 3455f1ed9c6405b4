//! How far clocks are off.

use super::Draw;
use crate::search::{
    clock::MOST_DRIFT,
    schedule::{Place, Process},
};

const HOURS: i64 = 3_600_000_000;

impl Draw {
    /// Clocks of nodes that are close to one another, where what they forget is
    /// to be told by their clocks; otherwise as they come.
    pub(super) fn node_places(&mut self, close: bool) -> Vec<Place> {
        let close = close && self.dice.percent(60);
        let most = i64::try_from(self.parties[0].max_ttl.0).unwrap_or(0) * 3 / 5;
        let most = self.dice.pick(&[most / 100, most / 2, most]);
        (0..self.nodes)
            .map(|_| {
                let Place { drift, wall } = self.place();
                let near = self.within(most / 2);
                Place { drift, wall: if close { near } else { wall } }
            })
            .collect()
    }

    /// A client's clock is within half of the skew of the nodes', or a bit more
    /// than that off, or far away.
    pub(super) fn process(&mut self, client: usize) -> Process {
        let skew = i64::try_from(self.parties[0].skew.0).unwrap_or(0);
        let Place { drift, wall } = self.place();
        let wall = match self.dice.below(10) {
            0..4 => self.within(skew / 2),
            4..7 => self.within(skew * 2),
            _ => wall,
        };
        Process { place: Place { drift, wall }, party: self.party_of(client) }
    }

    fn within(&mut self, most: i64) -> i64 {
        let most = u64::try_from(most).unwrap_or(0);
        let off = i64::try_from(self.dice.below(most * 2 + 1)).unwrap_or(0);
        off - i64::try_from(most).unwrap_or(0)
    }

    fn place(&mut self) -> Place {
        let drift = self.dice.pick(&[0, 50, 500, MOST_DRIFT]);
        let drift = if self.dice.percent(50) { drift } else { -drift };
        let wall = match self.dice.below(10) {
            0..5 => self.within(10_000),
            5..8 => self.within(30_000_000),
            8 => 20 * HOURS,
            _ => -300 * HOURS,
        };
        Place { drift, wall }
    }
}
