//! What of our own environment a command shall not see unless asked for.
//!
//! The addresses of the nodes and their passwords are ours: a command that
//! prints its environment, or sends it along with an error report, would give
//! them away. A `redlatch` that it calls must not look elsewhere for its nodes
//! instead, so it finds a word in their place that makes it fail.

use crate::config::Config;
use std::env;

pub(crate) const NODES: &str = "REDLATCH_NODES";
/// Stands in the place of addresses with passwords.
pub(crate) const WITHHELD: &str = "withheld";

/// The variables that hold secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Secrets {
    passwords: Vec<String>,
    in_nodes: bool,
}

impl Secrets {
    pub(crate) fn of(config: &Config) -> Self {
        Secrets {
            passwords: config.password_variables().map(Into::into).collect(),
            in_nodes: env::var_os(NODES)
                .is_some_and(|nodes| may_hold_password(&nodes.to_string_lossy())),
        }
    }

    /// What becomes of each variable: none if it is taken away.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let nodes = self.in_nodes.then_some((NODES, Some(WITHHELD)));
        self.passwords.iter().map(|name| (&**name, None)).chain(nodes)
    }
}

/// Whether there may be a password in these addresses; one that is written in an
/// odd way counts, too.
fn may_hold_password(nodes: &str) -> bool {
    let login = nodes.rsplit_once('@').map_or("", |(before, _)| before);
    login.replace("://", "").contains(':') || nodes.contains("password=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_passwords_are_told_from_those_without() {
        for nodes in ["redis://:pw@a", "redis://b,redis://u:p?w@a", "redis://a?password=x"] {
            assert!(may_hold_password(nodes), "{nodes}");
        }
        for nodes in ["redis://a:6379,redis://b", "redis://ada@a", "redis://a?password_file=/x"] {
            assert!(!may_hold_password(nodes), "{nodes}");
        }
    }

    #[test]
    fn passwords_are_taken_away_and_addresses_withheld() {
        let secrets = Secrets { passwords: vec!["PW".into()], in_nodes: true };

        let changes: Vec<_> = secrets.changes().collect();

        assert_eq!(changes, [("PW", None), (NODES, Some(WITHHELD))]);
    }
}
