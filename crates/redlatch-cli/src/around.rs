//! The `redlatch run` around this process, if there is one, and those around that.

use redlatch::OwnerParts;
use std::{env, ffi::OsStr, fs, iter, os::unix::ffi::OsStrExt};

/// Whether this lock, which `owner` holds, is held by a `redlatch run` around this
/// process. Waiting for it here would never end.
pub(crate) fn holds(name: &OsStr, owner: &OwnerParts) -> bool {
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    let is_innermost = is_own(
        variable("REDLATCH_RESOURCE").as_bytes(),
        variable("REDLATCH_LOCK_TOKEN").as_bytes(),
        name.as_bytes(),
        &owner.label,
    );
    is_innermost || is_above(owner)
}

/// Whether the owner is one of the processes that we run under. Our environment shows
/// only the innermost of them, and not even that one if somebody cleared it.
fn is_above(owner: &OwnerParts) -> bool {
    let host = nix::unistd::gethostname().unwrap_or_default();
    let is_here = owner.host.as_deref() == Some(&*host.to_string_lossy());
    is_here && owner.pid.is_some_and(|owner| ancestors().any(|pid| pid == owner))
}

/// The process that started us, the one that started that, and so on.
fn ancestors() -> impl Iterator<Item = u32> {
    iter::successors(parent(std::process::id()), |pid| parent(*pid))
}

fn parent(pid: u32) -> Option<u32> {
    parent_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The parent in `PID (NAME) STATE PARENT …`; the name may contain anything.
fn parent_in(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
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

    #[test]
    fn the_processes_we_run_under_are_found_whatever_their_names() {
        assert_eq!(parent_in("7 (a) S 1) S 42 7 7"), Some(42));
        assert_eq!(parent_in("7 (a"), None);
        assert!(ancestors().any(|pid| pid == std::os::unix::process::parent_id()));
        assert!(!ancestors().any(|pid| pid == std::process::id()));
    }
}
