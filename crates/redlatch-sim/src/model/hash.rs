//! Hashes whole states to one number, from parts that know their hash.
//!
//! 64 bits: among n states, the chance that any two share a hash, so that one is
//! mistaken for the other, is about n²/2⁶⁵. For the largest scenario that is one in
//! 100 000.

use std::{
    hash::{Hash, Hasher},
    ops::Deref,
    rc::Rc,
};

/// A part of a state with its hash, shared by all states that have the same part.
#[derive(Debug)]
pub(super) struct Shared<T>(Rc<(T, u64)>);

impl<T: Hash> Shared<T> {
    pub(super) fn new(part: T) -> Self {
        let hash = hash_of(&part);
        Shared(Rc::new((part, hash)))
    }

    pub(super) fn hash(&self) -> u64 {
        self.0.1
    }
}

impl<T: Hash + Clone> Shared<T> {
    /// Changes this state's part; other states keep theirs.
    pub(super) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut part = self.0.0.clone();
        let result = change(&mut part);
        *self = Shared::new(part);
        result
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared(Rc::clone(&self.0))
    }
}

impl<T: Hash> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.1);
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.0
    }
}

pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut mixer = Mixer::default();
    value.hash(&mut mixer);
    mixer.finish()
}

/// Multiplies to 128 bits and folds them, word by word: fast, the same in every
/// run, and not resistant to chosen inputs.
pub(super) struct Mixer(u64);

const SEED: u64 = 0x243f_6a88_85a3_08d3;
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for Mixer {
    fn default() -> Self {
        Mixer(SEED)
    }
}

impl Mixer {
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        let (low, high) = (product & u128::from(u64::MAX), product >> 64);
        self.0 = u64::try_from(low ^ high).unwrap_or(0).wrapping_add(SEED);
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(number.into());
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }

    fn finish(&self) -> u64 {
        let mut last = Mixer(self.0);
        last.mix(FACTOR);
        last.0
    }
}

/// Passes numbers through that are hashes already.
#[derive(Default)]
pub(super) struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are looked up");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.rotate_left(23) ^ number;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_million_neighbours_have_a_million_hashes() {
        let hashes = (0..1000_u64).flat_map(|a| (0..1000_u32).map(move |b| hash_of(&(a, b))));

        assert_eq!(hashes.collect::<HashSet<_>>().len(), 1_000_000);
    }

    #[test]
    fn a_change_in_one_state_leaves_the_other_as_it_was() {
        let first = Shared::new(vec![1, 2]);
        let mut second = first.clone();

        second.change(|part| part.push(3));

        assert_eq!((&*first, &*second), (&vec![1, 2], &vec![1, 2, 3]));
        assert_ne!(first.hash(), second.hash());
    }
}
