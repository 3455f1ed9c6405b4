//! Where nodes and clients are, and how long messages between them take.
//!
//! A message takes half of the round trip between its ends; four in five take up to
//! a quarter longer, one in a hundred up to three times as long, and one in a
//! thousand is held up for another 5 to 50 ms (a retransmission, a busy host).

use redlatch_core::dice::Dice;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Topology {
    /// One data centre: 0.2 ms there and back
    Lan,
    /// Three zones of a region: 0.5 to 2 ms
    Zones,
    /// Three continents: 80 to 180 ms between them
    Continents,
}

/// Round trips between three places, in microseconds.
type Table = [[u64; 3]; 3];

const LAN: Table = [[200; 3]; 3];
const ZONES: Table = [[500, 1_000, 2_000], [1_000, 500, 1_500], [2_000, 1_500, 500]];
const CONTINENTS: Table =
    [[1_000, 80_000, 180_000], [80_000, 1_000, 150_000], [180_000, 150_000, 1_000]];

impl Topology {
    pub const ALL: [Topology; 3] = [Topology::Lan, Topology::Zones, Topology::Continents];

    pub fn name(self) -> &'static str {
        match self {
            Topology::Lan => "one data centre",
            Topology::Zones => "three zones",
            Topology::Continents => "three continents",
        }
    }

    /// How long one message takes between a client process and a node.
    pub(super) fn delay(self, process: usize, node: usize, dice: &mut Dice) -> Duration {
        let table = match self {
            Topology::Lan => LAN,
            Topology::Zones => ZONES,
            Topology::Continents => CONTINENTS,
        };
        let way = Duration::from_micros(table[process % 3][node % 3]) / 2;
        let usual = way.mul_f64(1.0 + dice.fraction() / 4.0);
        match dice.below(1000) {
            0 => usual + dice.time(Duration::from_millis(5), Duration::from_millis(50)),
            1..=10 => way.mul_f64(1.0 + 2.0 * dice.fraction()),
            11..=200 => way,
            _ => usual,
        }
    }
}
