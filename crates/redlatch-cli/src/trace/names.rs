//! The names of locks, as the log contains them.

use crate::{name, secrets::hide};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

/// The longest name of a lock, in bytes.
const LONGEST_NAME: usize = 1024;

/// A name, or a word of a command, without anything that looks like a password.
pub(super) fn shown(word: &OsStr) -> String {
    hide(&word.to_string_lossy())
}

/// A name, cut if it is too long for any lock.
pub(super) fn named(name: &OsStr) -> String {
    let mut name = shown(name);
    if name.len() > LONGEST_NAME {
        let ends = name.char_indices().map(|(at, sign)| at + sign.len_utf8());
        let end = ends.take_while(|end| *end <= LONGEST_NAME).last().unwrap_or_default();
        name.truncate(end);
        name.push('…');
    }
    name
}

/// The exact names, unless they are text or may contain a password.
pub(super) fn ids(names: &[OsString]) -> Vec<String> {
    let is_told =
        |name: &OsString| name.len() <= LONGEST_NAME && shown(name) == name.to_string_lossy();
    if names.iter().all(|name| name.to_str().is_some()) || !names.iter().all(is_told) {
        return Vec::new();
    }
    names.iter().map(|name| name::id(name.as_bytes())).collect()
}
