//! The `redlatch run` around this process, if there is one.

use redlatch::OwnerParts;
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
    is_locked && OwnerParts::of_value(token).is_some_and(|parts| parts.label == owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_ours_by_its_name_and_its_owner() {
        let token = [&[b'a'; 40][..], b"@host/1;user=ada;since=1700000000000"].concat();

        assert!(is_own(b"a\nb", &token, b"b", "host/1"));
        assert!(!is_own(b"a\nb", &token, b"b", "host/2"));
        assert!(!is_own(b"a\nb", &token, b"c", "host/1"));
        assert!(!is_own(b"", b"", b"", ""));
    }
}
