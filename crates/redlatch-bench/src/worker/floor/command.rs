//! The two commands, encoded once; before each use only the token changes.
//!
//! Not a codec, the library's or the testbed's: the floor is what remains when
//! nothing is decoded that these two commands do not need.

use crate::worker::TTL_MS;
use rustix::rand::{GetRandomFlags, getrandom};

pub(crate) const COMPARE_AND_DELETE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end";

const TOKEN: usize = 20;
/// Where the token goes.
pub(crate) const PLACE: &str = "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

pub(crate) struct Template {
    bytes: Vec<u8>,
    token_at: usize,
}

impl Template {
    pub(crate) fn take(key: &str) -> Self {
        let ttl = TTL_MS.to_string();
        Self::new(&["SET", key, PLACE, "NX", "PX", &ttl])
    }

    pub(crate) fn release(key: &str, script: &str) -> Self {
        Self::new(&["EVALSHA", script, "1", key, PLACE])
    }

    pub(crate) fn sign(&mut self, token: [u8; TOKEN]) {
        self.bytes[self.token_at..][..TOKEN].copy_from_slice(&token);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn new(parts: &[&str]) -> Self {
        let encoded = encode(parts);
        let token_at = encoded.find(PLACE).expect("every command carries the token");
        Self { bytes: encoded.into_bytes(), token_at }
    }
}

/// A command as RESP: an array of strings, each with its length before it.
pub(crate) fn encode(parts: &[&str]) -> String {
    let strings = parts.iter().map(|part| format!("${}\r\n{part}\r\n", part.len()));
    format!("*{}\r\n{}", parts.len(), strings.collect::<String>())
}

/// Random tokens, fetched from the system many at a time.
pub(crate) struct Tokens {
    pool: [[u8; TOKEN]; 128],
    used: usize,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        let pool = [[0; TOKEN]; 128];
        Self { used: pool.len(), pool }
    }

    pub(crate) fn next(&mut self) -> [u8; TOKEN] {
        if self.used == self.pool.len() {
            // Requests above 256 bytes may be cut short, hence the loop.
            let mut rest = self.pool.as_flattened_mut();
            while !rest.is_empty() {
                let got = getrandom(&mut *rest, GetRandomFlags::empty()).unwrap_or(0);
                rest = &mut rest[got..];
            }
            self.used = 0;
        }
        self.used += 1;
        self.pool[self.used - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signing_changes_the_token_and_nothing_else() {
        let mut take = Template::take("k");

        take.sign(*b"ABCDEFGHIJKLMNOPQRST");

        let expected = encode(&["SET", "k", "ABCDEFGHIJKLMNOPQRST", "NX", "PX", "10000"]);
        assert_eq!(take.bytes(), expected.as_bytes());
    }

    #[test]
    fn no_token_comes_twice() {
        let mut tokens = Tokens::new();

        let drawn: std::collections::HashSet<_> = (0..1000).map(|_| tokens.next()).collect();

        assert_eq!(drawn.len(), 1000);
    }
}
