//! Reproducible randomness, for tests and simulations only.
//!
//! In:  a seed, and what the dice are for.
//! Out: numbers. Dice for different purposes are independent, so that removing one
//!      thing from a schedule does not affect the others.

use crate::token::Entropy;
use core::time::Duration;

/// A stream of numbers (`SplitMix64`).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Dice(u64);

impl Dice {
    /// Creates the dice for one purpose from a seed.
    #[must_use]
    pub fn of(seed: u64, purpose: &[u64]) -> Self {
        let mut dice = Dice(seed);
        for part in purpose {
            dice.0 = dice.roll() ^ part.wrapping_mul(0xd134_2543_de82_ef95);
        }
        dice.roll();
        dice
    }

    /// Returns any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.roll()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// Returns a number from `least` to `most`, inclusive.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least) + 1)
    }

    /// Returns an index below `count`.
    pub fn index(&mut self, count: usize) -> usize {
        let bound = u64::try_from(count).unwrap_or(u64::MAX);
        usize::try_from(self.below(bound)).unwrap_or(0)
    }

    /// Returns `true` with this chance in percent.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Returns one of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    /// Returns a fraction from zero up to, but not including, one.
    pub fn fraction(&mut self) -> f64 {
        f64::from(u32::try_from(self.roll() >> 32).unwrap_or(0)) / 4_294_967_296.0
    }

    /// Returns a time from `least` to `most`.
    pub fn time(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.fraction())
    }
}

impl Entropy for Dice {
    fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.roll().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dice_of_one_seed_and_purpose_are_the_same_and_others_are_not() {
        let first = |dice: &mut Dice| (dice.roll(), dice.roll());

        let one = first(&mut Dice::of(7, &[1, 2]));

        assert_eq!(one, first(&mut Dice::of(7, &[1, 2])));
        assert_ne!(one, first(&mut Dice::of(7, &[2, 1])));
        assert_ne!(one, first(&mut Dice::of(8, &[1, 2])));
    }

    #[test]
    fn a_number_between_two_bounds_reaches_both_and_nothing_else() {
        let mut dice = Dice::of(1, &[]);

        let rolled: alloc::collections::BTreeSet<u64> =
            (0..1000).map(|_| dice.between(3, 6)).collect();

        assert!(rolled.into_iter().eq([3, 4, 5, 6]));
    }
}
