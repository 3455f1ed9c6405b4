//! How patient the callers of a crowd are, drawn at random.

use redlatch_core::dice::Dice;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    /// Waits as long as the order says, and must be served.
    Patient,
    /// Waits this long only.
    Hasty(Duration),
    /// Drops its request after this long.
    Fickle(Duration),
}

/// Draws a mood for each request.
pub(super) struct Moods(Dice);

impl Moods {
    pub(super) fn new(seed: u64) -> Self {
        Self(Dice::of(seed, &[]))
    }

    /// Half of them are patient.
    pub(super) fn next(&mut self) -> Mood {
        let after = Duration::from_millis(self.0.between(1, 200));
        match self.0.below(4) {
            0 => Mood::Hasty(after),
            1 => Mood::Fickle(after),
            _ => Mood::Patient,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mood_comes_up_and_half_of_the_callers_are_patient() {
        let mut moods = Moods::new(42);
        let drawn: Vec<Mood> = (0..4_000).map(|_| moods.next()).collect();

        let patient = drawn.iter().filter(|mood| **mood == Mood::Patient).count();
        let hasty = drawn.iter().filter(|mood| matches!(mood, Mood::Hasty(_))).count();

        assert!((1_800..2_200).contains(&patient), "{patient}");
        assert!((800..1_200).contains(&hasty), "{hasty}");
    }
}
