//! Takes that need no script: plain Redlock, to the letter.
//!
//! In:  what is ready for a server, in order.
//! Out: the takes that are sent as `SET NX PX`, ahead of all the rest.
//!
//! Promise: no command overtakes another on the same key. A take that `SET` refuses has no
//! place in line yet; the link then sends it as a script.

use super::{
    resp::{Digits, write_word},
    translate::millis,
};
use redlatch_core::{Command, Resource};

/// Which keys are named more than once, by a hash of their names. Two keys with the same
/// hash count as one; the only effect is that they go out as a script.
#[derive(Debug, Default)]
pub(super) struct PlainTakes {
    named: Names,
    named_again: Names,
}

impl PlainTakes {
    /// Examines what is ready, and returns whether it may contain such takes.
    pub(super) fn look<'a>(&mut self, commands: impl Iterator<Item = &'a Command>) -> bool {
        self.named.clear();
        self.named_again.clear();
        let mut any = false;
        for command in commands {
            let (Command::Take { resources, .. }
            | Command::Extend { resources, .. }
            | Command::Release { resources, .. }) = command
            else {
                return false; // it may concern any key
            };
            let Some(name) = resources.single() else { return false };
            any |= plain(command).is_some();
            if self.named.insert(name) {
                self.named_again.insert(name);
            }
        }
        any
    }

    /// Appends the command if it is such a take.
    pub(super) fn write(&self, out: &mut Vec<u8>, command: &Command) -> bool {
        let Some((name, token, ttl)) = plain(command) else { return false };
        if self.named_again.contains(name) {
            return false;
        }
        // `SET name token NX PX ttl`.
        out.extend_from_slice(b"*6\r\n$3\r\nSET\r\n");
        write_word(out, name.as_bytes());
        write_word(out, token);
        out.extend_from_slice(b"$2\r\nNX\r\n$2\r\nPX\r\n");
        write_word(out, Digits::default().of(ttl));
        true
    }
}

/// The parts of a take that is not in line yet, wants no number and needs no marker.
fn plain(command: &Command) -> Option<(&Resource, &[u8], u64)> {
    let Command::Take { resources, token, ttl, fence: None, fingerprint: None, place } = command
    else {
        return None;
    };
    let may_be_in_line = place.is_some_and(|place| place.known);
    let name = resources.single().filter(|_| !may_be_in_line)?;
    Some((name, token.as_bytes(), millis(*ttl)))
}

/// A set of names, by their hashes.
#[derive(Debug)]
struct Names {
    bits: [u64; Names::WORDS],
    is_empty: bool,
}

impl Default for Names {
    fn default() -> Self {
        Names { bits: [0; Self::WORDS], is_empty: true }
    }
}

/// Multiplying by this spreads numbers that are close together far apart in their high bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Names {
    /// 4096 bits: with 256 names, one in 16 shares its hash with another.
    const WORDS: usize = 64;

    /// Returns whether it was already there.
    fn insert(&mut self, name: &Resource) -> bool {
        let (word, bit) = Self::place(name);
        let was_there = self.bits[word] & bit != 0;
        self.bits[word] |= bit;
        self.is_empty = false;
        was_there
    }

    fn contains(&self, name: &Resource) -> bool {
        if self.is_empty {
            return false;
        }
        let (word, bit) = Self::place(name);
        self.bits[word] & bit != 0
    }

    fn clear(&mut self) {
        if !self.is_empty {
            *self = Names::default();
        }
    }

    fn place(name: &Resource) -> (usize, u64) {
        let mix = |hash: u64, word: u64| {
            let hash = (hash ^ word).wrapping_mul(SPREAD);
            hash ^ hash >> 32
        };
        let (words, rest) = name.as_bytes().as_chunks();
        let hash = words.iter().fold(0, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        let rest = rest.iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
        let place = mix(hash, rest).wrapping_mul(SPREAD) >> 52;
        ((place / 64) as usize % Self::WORDS, 1 << (place % 64))
    }
}
