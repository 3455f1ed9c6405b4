//! The last votes on a lease, in a few bytes: there may be very many leases.

use redlatch_core::{Ballot, Cast, FencingToken, Vote};
use std::time::Duration;

/// In place of a time: the node was not waited for.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(super) enum LastVotes {
    /// All nodes that voted granted, with this number. Nearly always the case.
    Granted {
        number: Option<FencingToken>,
        /// After how many nanoseconds each node answered, or [`NEVER`].
        after: Box<[u64]>,
    },
    /// Anything else.
    Mixed(Box<Ballot>),
}

impl LastVotes {
    pub(super) fn of(ballot: Ballot) -> Self {
        let number = ballot.casts().iter().find_map(|cast| cast.vote.number());
        let after = |cast: &Cast| nanos(cast, &granted(number));
        if ballot.casts().iter().all(|cast| after(cast).is_some()) {
            let after = ballot.casts().iter().map(|cast| after(cast).unwrap_or(NEVER)).collect();
            return LastVotes::Granted { number, after };
        }
        LastVotes::Mixed(Box::new(ballot))
    }

    pub(super) fn ballot(&self) -> Ballot {
        let (number, after) = match self {
            LastVotes::Granted { number, after } => (*number, after),
            LastVotes::Mixed(ballot) => return Ballot::clone(ballot),
        };
        let mut ballot = Ballot::of(after.len());
        for (node, after) in after.iter().enumerate().filter(|(_, after)| **after != NEVER) {
            ballot.cast(node, granted(number), Duration::from_nanos(*after));
        }
        ballot
    }
}

fn granted(number: Option<FencingToken>) -> Vote {
    number.map_or(Vote::Granted, Vote::Numbered)
}

/// The time of a vote that is as expected or missing; `None` for any other vote.
fn nanos(cast: &Cast, expected: &Vote) -> Option<u64> {
    match (&cast.vote, cast.after) {
        (Vote::Pending, None) => Some(NEVER),
        (vote, Some(after)) if vote == expected => u64::try_from(after.as_nanos()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch_core::Fault;

    #[test]
    fn votes_come_back_as_they_were_cast() {
        let number = |number| Vote::Numbered(FencingToken::new(number).unwrap());
        let down = Vote::Failed(Fault::TimedOut(Duration::from_secs(1)));
        let rounds = [
            ([Vote::Granted, Vote::Granted, Vote::Pending], true),
            ([Vote::Pending, number(7), number(7)], true),
            ([Vote::Pending, Vote::Pending, Vote::Pending], true),
            ([number(7), number(8), number(7)], false),
            ([number(7), Vote::Granted, number(7)], false),
            ([number(7), down, number(7)], false),
            ([Vote::Granted, Vote::Gone, Vote::Granted], false),
        ];
        for (votes, is_small) in rounds {
            let mut ballot = Ballot::of(votes.len());
            for (node, vote) in (0_u32..).zip(votes) {
                if vote != Vote::Pending {
                    ballot.cast(node as usize, vote, node * Duration::from_micros(345));
                }
            }

            let last = LastVotes::of(ballot.clone());

            assert_eq!(last.ballot(), ballot);
            assert_eq!(matches!(last, LastVotes::Granted { .. }), is_small, "{ballot:?}");
        }
    }
}
