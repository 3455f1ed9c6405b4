//! The `redlatch run` around this process, if there is one.

use std::{env, ffi::OsStr, os::unix::ffi::OsStrExt};

/// Whether that `redlatch run` holds this lock, which `owner` has. Waiting for it
/// here would never end.
pub(crate) fn holds(name: &OsStr, owner: &str) -> bool {
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    is_own(
        variable("REDLATCH_RESOURCE").as_bytes(),
        variable("REDLATCH_LOCK_TOKEN").as_bytes(),
        name.as_bytes(),
        owner,
    )
}

fn is_own(resources: &[u8], token: &[u8], name: &[u8], owner: &str) -> bool {
    let is_locked = resources.split(|byte| *byte == b'\n').any(|resource| resource == name);
    let at = token.iter().position(|byte| *byte == b'@');
    is_locked && at.is_some_and(|at| &token[at + 1..] == owner.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_ours_by_its_name_and_its_owner() {
        assert!(is_own(b"a\nb", b"0123@host/1", b"b", "host/1"));
        assert!(!is_own(b"a\nb", b"0123@host/1", b"b", "host/2"));
        assert!(!is_own(b"a\nb", b"0123@host/1", b"c", "host/1"));
        assert!(!is_own(b"", b"", b"", ""));
    }
}
