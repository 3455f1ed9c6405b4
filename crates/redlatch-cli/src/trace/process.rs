//! Which process an id meant: ids are reused, if only after a restart of the machine,
//! and each container has its own ids.

use std::fs;

/// Whether a process still exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    Gone,
    /// It was started where we see no processes: in another container or on another
    /// machine.
    Unknown,
}

/// Identifies a process among all that have ever had its id: by the start of the machine,
/// the namespace that its id belongs to, and its own start, in ticks since that of the
/// machine, which setting a clock cannot change.
pub(super) fn identity(pid: u32) -> Option<String> {
    let (boot, namespace) = here()?;
    Some(format!("{boot}/{namespace}/{}", Stat::of(pid)?.started))
}

/// Whether the process with this id and identity, on a host with this name, still exists.
pub(crate) fn life(pid: u32, identity: &str, host: &str) -> Life {
    let mut parts = identity.splitn(3, '/');
    let (Some(boot), Some(namespace), Some(started), Some((our_boot, our_namespace))) =
        (parts.next(), parts.next(), parts.next(), here())
    else {
        return Life::Unknown;
    };
    if boot != our_boot {
        // This host was restarted, and everything on it with it.
        return if host == super::host() { Life::Gone } else { Life::Unknown };
    }
    if namespace != our_namespace {
        return Life::Unknown;
    }
    let is_same = |stat: Stat| !stat.is_dead && stat.started.to_string() == started;
    if Stat::of(pid).is_some_and(is_same) { Life::Runs } else { Life::Gone }
}

/// The start of this machine, and the namespace of the process ids that we see.
fn here() -> Option<(String, String)> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    // `pid:[4026531836]`
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let number = namespace.to_str()?.trim_matches(|letter: char| !letter.is_ascii_digit());
    Some((boot.trim().to_owned(), number.to_owned()))
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

    #[test]
    fn what_cannot_be_seen_from_here_is_neither_running_nor_gone() {
        let (pid, host) = (std::process::id(), super::super::host());
        let ours = identity(pid).unwrap();
        let parts: Vec<_> = ours.split('/').collect();
        let [boot, namespace, started] = parts[..] else { panic!("{ours}") };
        let life_of = |boot: &str, namespace: &str, started: &str, host: &str| {
            life(pid, &format!("{boot}/{namespace}/{started}"), host)
        };

        assert_eq!(life_of(boot, namespace, started, &host), Life::Runs);
        assert_eq!(life_of(boot, namespace, "1", &host), Life::Gone, "an id that is used again");
        assert_eq!(life_of(boot, "1", started, &host), Life::Unknown, "another container");
        assert_eq!(life_of("b", namespace, started, &host), Life::Gone, "a restart");
        assert_eq!(life_of("b", namespace, started, "other"), Life::Unknown, "another machine");
        assert_eq!(life(pid, "what a later version writes", &host), Life::Unknown);
    }
}
