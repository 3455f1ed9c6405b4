//! Our environment variables.
//!
//! In:  the names of all variables. Out: the first `REDLATCH_…` name that is unknown,
//! and what was probably meant. A typo must not send the locks elsewhere.

use std::env;

const OURS: &str = "REDLATCH_";

/// The variables that we read, or set for a command.
const KNOWN: [&str; 21] = [
    "REDLATCH_NODES",
    "REDLATCH_NODES_REQUIRED",
    "REDLATCH_CONFIG",
    "REDLATCH_MAX_TTL",
    "REDLATCH_SKEW",
    "REDLATCH_RESTART_GUARD",
    "REDLATCH_SHARED",
    "REDLATCH_METRICS_DIR",
    "REDLATCH_LOG",
    "REDLATCH_LOG_SIZE",
    "REDLATCH_SYSLOG",
    "REDLATCH_LOCK",
    "REDLATCH_RESOURCE",
    "REDLATCH_LOCK_TOKEN",
    "REDLATCH_FENCING_TOKEN",
    "REDLATCH_USABLE_UNTIL",
    "REDLATCH_EVENT",
    "REDLATCH_REASON",
    "REDLATCH_EXIT",
    "REDLATCH_WAITED_MS",
    "REDLATCH_VOTES",
];

/// An unknown variable, and the known one most like it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    pub(crate) name: String,
    pub(crate) nearest: &'static str,
}

/// Finds the first unknown variable. `passwords` are those that the config file names.
pub(crate) fn unknown<'a>(passwords: impl Iterator<Item = &'a str>) -> Option<Unknown> {
    let passwords: Vec<&str> = passwords.collect();
    let names = env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    let unread = |name: &String| !passwords.contains(&&**name);
    first_unknown(names.filter(unread))
}

fn first_unknown(names: impl Iterator<Item = String>) -> Option<Unknown> {
    let mut ours = names.filter(|name| name.starts_with(OURS) && !KNOWN.contains(&&**name));
    let name = ours.next()?;
    let nearest = KNOWN.into_iter().min_by_key(|known| distance(known, &name))?;
    Some(Unknown { name, nearest })
}

/// The edit distance: letters to change, add or remove.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_found_and_what_was_meant_is_named() {
        let found = |name: &str| first_unknown([name.into()].into_iter());

        for (typo, nearest) in [
            ("REDLATCH_NODE", "REDLATCH_NODES"),
            ("REDLATCH_NODEZ", "REDLATCH_NODES"),
            ("REDLATCH_MAXTTL", "REDLATCH_MAX_TTL"),
            ("REDLATCH_RESTARTGUARD", "REDLATCH_RESTART_GUARD"),
        ] {
            assert_eq!(found(typo), Some(Unknown { name: typo.into(), nearest }), "{typo}");
        }
        assert!(KNOWN.iter().all(|name| found(name).is_none()));
        assert_eq!(found("REDLATCHES"), None);
    }
}
