//! Draws who agrees on what.

use super::{Draw, Others};
use crate::search::schedule::{Party, RestartGuard, Span};
use std::time::Duration;

/// A client of the restart guard checks at least this often.
const LONGEST_REST: Duration = Duration::from_secs(1);

impl Draw {
    /// First the clients that agree with the nodes, then the others.
    pub(super) fn draw_parties(&mut self) {
        let first = Party {
            list: (0..self.nodes).collect(),
            guard: self.guard,
            max_ttl: (self.ttl * 2).into(),
            skew: self.skew(),
        };
        let second = self.second_party(&first);
        self.parties.push(first);
        self.parties.extend(second);
    }

    fn second_party(&mut self, first: &Party) -> Option<Party> {
        match self.others {
            Others::Nobody => None,
            Others::Strangers => Some(Party {
                max_ttl: self.dice.pick(&[first.max_ttl, Span(first.max_ttl.0 * 2)]),
                skew: Span(first.skew.0 + 1000),
                ..first.clone()
            }),
            // It has the right list, but its locks outlive a window.
            Others::Loner if self.dice.percent(40) => {
                let max_ttl = Span(first.max_ttl.0 * 2);
                Some(Party { max_ttl, guard: RestartGuard::Off, ..first.clone() })
            }
            Others::Loner => {
                let list = vec![self.dice.index(first.list.len())];
                Some(Party { list, guard: RestartGuard::Off, ..first.clone() })
            }
            Others::Successors => {
                let mut list = first.list.clone();
                if list.len() > 3 && self.dice.percent(50) {
                    list.pop();
                } else {
                    list.push(list.len());
                    self.nodes += 1;
                    if self.dice.percent(25) {
                        // Exchanges one node for another at once: operators may not do
                        // that.
                        list.remove(0);
                    }
                }
                Some(Party { list, ..first.clone() })
            }
        }
    }

    /// A client's party: most agree with the nodes.
    pub(super) fn party_of(&self, client: usize) -> usize {
        let other = match self.others {
            Others::Nobody => false,
            Others::Strangers => client < 2,
            Others::Loner => client == 0,
            Others::Successors => client.is_multiple_of(2),
        };
        usize::from(other)
    }

    /// Whether the client can get a lock in the second phase.
    pub(super) fn has_nodes_in_the_end(&self, client: usize) -> bool {
        let sizes = self.parties.iter().map(|party| party.list.len());
        let exchanged = sizes.collect::<Vec<_>>().windows(2).all(|sizes| sizes[0] == sizes[1]);
        let succeeded = self.others == Others::Successors && !exchanged;
        self.party_of(client) == usize::from(succeeded)
    }

    /// The longest time until a quarantined node is admitted and has its leases
    /// back, if nothing else goes wrong.
    pub(super) fn pace(&self) -> Duration {
        let window = self.parties.iter().map(Party::window).max().unwrap_or_default();
        let rest = (window / 4).min(LONGEST_REST);
        window.mul_f64(1.02) + rest + self.ttl * 2
    }

    /// From a tenth of the TTL to well above the longest one; in whole
    /// milliseconds, like the agreement's.
    fn skew(&mut self) -> Span {
        let span = if self.dice.percent(60) { self.of_ttl(10, 100) } else { self.of_ttl(100, 300) };
        Span((span.0 / 1000).max(1) * 1000)
    }
}
