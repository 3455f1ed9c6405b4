//! Takes that need no script: plain Redlock, to the letter.
//!
//! In:  what is ready for a server, in order.
//! Out: those takes that are sent as `SET NX PX`, ahead of all the rest.
//!
//! Promise: no command overtakes another on the same key. What `SET` refuses has no
//! place in line yet; the link then sends it as a script.

use super::{
    resp::{Digits, write_command},
    translate::millis,
};
use redlatch_core::{Command, Resource, fence};

/// Which keys are named more than once, by a hash of their names. Two keys with the same
/// hash count as one, which costs them nothing but the script.
#[derive(Debug, Default)]
pub(super) struct PlainTakes {
    named: Names,
    named_again: Names,
}

impl PlainTakes {
    /// Looks at what is ready, and returns whether there may be such takes.
    pub(super) fn look<'a>(&mut self, commands: impl Iterator<Item = &'a Command>) -> bool {
        *self = PlainTakes::default();
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
        let mut digits = Digits::default();
        write_command(out, &[b"SET", name.as_bytes(), token, b"NX", b"PX", digits.of(ttl)]);
        true
    }
}

/// The parts of a take that asks for no number and needs no marker, and that is not in
/// line yet.
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
struct Names([u64; Names::WORDS]);

impl Default for Names {
    fn default() -> Self {
        Names([0; Self::WORDS])
    }
}

impl Names {
    /// 4096 bits: with 256 names, one of 16 shares its hash with another.
    const WORDS: usize = 64;

    /// Returns whether it was there.
    fn insert(&mut self, name: &Resource) -> bool {
        let (word, bit) = Self::place(name);
        let was_there = self.0[word] & bit != 0;
        self.0[word] |= bit;
        was_there
    }

    fn contains(&self, name: &Resource) -> bool {
        let (word, bit) = Self::place(name);
        self.0[word] & bit != 0
    }

    fn place(name: &Resource) -> (usize, u64) {
        let register = fence::register(name) as usize;
        (register / 64 % Self::WORDS, 1 << (register % 64))
    }
}
