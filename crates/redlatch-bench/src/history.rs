//! The turns of all workers as one history, and what can be said of it. Pure.

use crate::{
    spread::number,
    wire::{Record, Turn},
};

/// What all workers did in one slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    /// The callers' turns, worker by worker.
    workers: Vec<Vec<Vec<Turn>>>,
    begin: u64,
    end: u64,
    pub(crate) gave_up: u64,
    pub(crate) why: String,
    cpu_ns: u64,
    /// Each caller has a lock of its own.
    own: bool,
}

impl History {
    pub(crate) fn new(records: Vec<Record>, begin: u64, end: u64) -> Self {
        let gave_up = records.iter().map(|record| record.gave_up).sum();
        let failed = records.iter().find(|record| !record.why.is_empty());
        let why = failed.map(|record| record.why.clone()).unwrap_or_default();
        let cpu_ns = records.iter().map(|record| record.cpu_ns).sum();
        let workers = records.into_iter().map(|record| record.callers).collect();
        Self { workers, begin, end, gave_up, why, cpu_ns, own: false }
    }

    /// How many turns each caller of each worker began before the end.
    pub(crate) fn turns(&self) -> Vec<Vec<u64>> {
        let within = |turns: &Vec<Turn>| {
            turns.iter().filter(|turn| turn.granted < self.end).map(|_| 1).sum()
        };
        self.workers.iter().map(|callers| callers.iter().map(within).collect()).collect()
    }

    pub(crate) fn grants(&self) -> u64 {
        self.turns().iter().flatten().sum()
    }

    /// Also counts turns after the end.
    pub(crate) fn all_grants(&self) -> u64 {
        self.all_turns().count() as u64
    }

    /// When the lock was first granted.
    pub(crate) fn first_grant(&self) -> Option<u64> {
        self.in_order().first().map(|turn| turn.granted)
    }

    /// Of several teams on one lock.
    pub(crate) fn together(histories: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::default();
        for history in histories {
            all.workers.extend(history.workers);
        }
        all
    }

    fn callers(&self) -> usize {
        self.workers.iter().map(Vec::len).sum()
    }

    fn seconds(&self) -> f64 {
        seconds(self.end - self.begin)
    }

    /// Of callers that have a lock each: cycles count to their end, however long
    /// one takes.
    pub(crate) fn of_own_locks(self) -> Self {
        Self { own: true, ..self }
    }

    pub(crate) fn per_second(&self) -> f64 {
        if !self.own {
            return number(self.grants()) / self.seconds();
        }
        let last = self.all_turns().map(|turn| turn.released).max().unwrap_or(self.end);
        number(self.all_grants()) / seconds(last.max(self.end) - self.begin)
    }

    /// Processor time of the clients for each lock, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        let grants = self.all_grants();
        (grants > 0).then(|| number(self.cpu_ns) / 1e3 / number(grants))
    }

    /// How long each acquire and release took together, in microseconds. What was
    /// held is left out.
    pub(crate) fn cycles_us(&self) -> impl Iterator<Item = f64> {
        let busy = |turn: &Turn| turn.granted - turn.asked + turn.released - turn.releasing;
        self.all_turns().map(move |turn| number(busy(turn)) / 1e3)
    }

    fn all_turns(&self) -> impl Iterator<Item = &Turn> {
        self.workers.iter().flatten().flatten()
    }

    /// How long the lock was held on average, in seconds.
    pub(crate) fn mean_hold(&self) -> Option<f64> {
        let all = self.in_order();
        let held: u64 = all.iter().map(|turn| turn.releasing - turn.granted).sum();
        (!all.is_empty()).then(|| seconds(held) / number(all.len() as u64))
    }

    /// The longest time that anyone waited, in seconds.
    pub(crate) fn longest_wait(&self) -> Option<f64> {
        let all = self.in_order();
        all.iter().map(|turn| seconds(turn.granted - turn.asked)).max_by(f64::total_cmp)
    }

    /// How long everybody would wait if all had the same share, in seconds: as
    /// many mean turns as there are callers.
    pub(crate) fn fair_share(&self) -> Option<f64> {
        let grants = self.grants();
        (grants > 0).then(|| number(self.callers() as u64) * self.seconds() / number(grants))
    }

    /// From the holder's call of release to the next one's grant, in seconds,
    /// where that one was waiting and is another caller.
    pub(crate) fn handovers(&self) -> Vec<f64> {
        let all = self.in_order_with_callers();
        let pairs = all.windows(2).map(|pair| (pair[0], pair[1]));
        pairs
            .filter(|((one, last), (other, next))| one != other && next.asked < last.releasing)
            .map(|((_, last), (_, next))| seconds(next.granted.saturating_sub(last.releasing)))
            .collect()
    }

    /// How often somebody held the lock while another one did: a grant before the
    /// call of release of an earlier one, or a fencing token that did not grow.
    pub(crate) fn violations(&self) -> u64 {
        let (mut held_until, mut token, mut found) = (0, 0, 0);
        for turn in self.in_order() {
            let overlaps = turn.granted < held_until;
            let stale = turn.token > 0 && turn.token <= token;
            found += u64::from(overlaps || stale);
            held_until = held_until.max(turn.releasing);
            token = token.max(turn.token);
        }
        found
    }

    /// All turns by the time of their grants.
    fn in_order(&self) -> Vec<Turn> {
        self.in_order_with_callers().into_iter().map(|(_, turn)| turn).collect()
    }

    fn in_order_with_callers(&self) -> Vec<(usize, Turn)> {
        let callers = self.workers.iter().flatten().enumerate();
        let mut all: Vec<_> = callers
            .flat_map(|(caller, turns)| turns.iter().map(move |turn| (caller, *turn)))
            .collect();
        all.sort_by_key(|(_, turn)| turn.granted);
        all
    }
}

/// Turns added up over the rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    turns: Vec<Vec<u64>>,
    rounds: u64,
}

/// Most over fewest turns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unevenness {
    /// Infinite if somebody had none.
    pub(crate) ratio: f64,
    /// What the edges of the slices explain: one turn in each round.
    edges: bool,
}

impl Shares {
    pub(crate) fn add(&mut self, turns: &[Vec<u64>]) {
        self.rounds += 1;
        if self.turns.is_empty() {
            self.turns = turns.to_vec();
            return;
        }
        for (sum, more) in self.turns.iter_mut().flatten().zip(turns.iter().flatten()) {
            *sum += more;
        }
    }

    /// Among the callers of one worker, of the worker that shares worst.
    pub(crate) fn within_processes(&self) -> Option<Unevenness> {
        let each = self.turns.iter().filter_map(|callers| self.unevenness(callers));
        each.max_by(|a, b| a.ratio.total_cmp(&b.ratio))
    }

    /// Among the workers.
    pub(crate) fn between_processes(&self) -> Option<Unevenness> {
        let sums: Vec<u64> = self.turns.iter().map(|callers| callers.iter().sum()).collect();
        self.unevenness(&sums)
    }

    /// Among all callers of all workers.
    pub(crate) fn between_callers(&self) -> Option<Unevenness> {
        self.unevenness(&self.turns.concat())
    }

    fn unevenness(&self, turns: &[u64]) -> Option<Unevenness> {
        let (most, fewest) = (*turns.iter().max()?, *turns.iter().min()?);
        if turns.len() < 2 {
            return None;
        }
        Some(Unevenness {
            ratio: number(most) / number(fewest),
            edges: fewest > 0 && most - fewest <= self.rounds,
        })
    }
}

impl Unevenness {
    /// A difference of one turn in each round is where the slices were cut.
    pub(crate) fn is_within(self, bound: f64) -> bool {
        self.ratio <= bound || self.edges
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    number(nanoseconds) / 1e9
}

#[cfg(test)]
mod tests;
