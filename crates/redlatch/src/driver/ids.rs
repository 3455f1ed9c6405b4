//! Maps and sets keyed by ids that this process counts up. Nobody can choose colliding ids,
//! so a multiplication is good enough as a hash.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasherDefault, Hasher},
};

pub(super) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
pub(super) type IdSet<K> = HashSet<K, BuildHasherDefault<IdHasher>>;

#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = (self.0 ^ id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
