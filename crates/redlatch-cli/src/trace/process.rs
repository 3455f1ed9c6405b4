//! Which process an id meant: ids are used again, after a restart of the machine at the
//! latest.

use std::fs;

/// Identifies a process among all that have ever had its id: by the start of the machine
/// and its own, in ticks since then, which no clock that is set can change.
pub(super) fn identity(pid: u32) -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("{}/{}", boot.trim(), Stat::of(pid)?.started))
}

/// Whether a `redlatch` with this id runs: the one with this identity, if that is known.
pub(super) fn is_alive(pid: u32, known: Option<&str>) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    let is_ours = name.is_ok_and(|name| name.trim() == "redlatch");
    let is_same = || known.is_none() || known == identity(pid).as_deref();
    is_ours && Stat::of(pid).is_some_and(|stat| !stat.is_dead) && is_same()
}

/// What `PID (NAME) STATE …` says.
struct Stat {
    is_dead: bool,
    /// In ticks since the start of the machine.
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// The name may contain anything, including parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let is_dead = matches!(fields.next()?, "Z" | "X");
        // The state is the 3rd field of all, the start the 22nd.
        Some(Stat { is_dead, started: fields.nth(18)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_a_process_is_found_whatever_its_name() {
        let line = "7 (a) S 1) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";

        let stat = Stat::parse(line).unwrap();

        assert!(stat.is_dead);
        assert_eq!(stat.started, 4711);
        assert!(Stat::parse("7 (a) S 1").is_none());
    }

    #[test]
    fn a_process_keeps_its_identity_and_another_has_its_own() {
        let ours = identity(std::process::id()).unwrap();

        assert_eq!(identity(std::process::id()), Some(ours.clone()));
        assert_ne!(identity(1), Some(ours));
    }
}
