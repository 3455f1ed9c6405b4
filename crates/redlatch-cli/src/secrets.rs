//! Keeps passwords out of the command's environment and out of our messages.
//!
//! A command that prints its environment, or attaches it to an error report, would
//! leak the nodes' passwords, so it gets them only on request. A nested `redlatch`
//! must not fall back to other nodes, so `REDLATCH_NODES` is replaced with a word
//! that makes it fail.

use crate::config::Config;
use redlatch::node;
use std::{env, path::Path};

pub(crate) const NODES: &str = "REDLATCH_NODES";
/// Stands in for addresses that contain passwords.
pub(crate) const WITHHELD: &str = "withheld";

/// The variables that contain secrets.
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

    /// The new value of each variable; `None` if it is removed.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let nodes = self.in_nodes.then_some((NODES, Some(WITHHELD)));
        self.passwords.iter().map(|name| (&**name, None)).chain(nodes)
    }
}

/// Whether these addresses may contain a password, however oddly it is written.
fn may_hold_password(nodes: &str) -> bool {
    let mut addresses = nodes.split([',', ' ', '\t', '\n']).filter(|part| !part.is_empty());
    let is_plain = |address: &str| node::parse(address).is_ok() && !looks_secret(address);
    looks_secret(nodes) && !addresses.all(is_plain)
}

fn looks_secret(nodes: &str) -> bool {
    let login = nodes.rsplit_once('@').map_or("", |(before, _)| before);
    login.replace("://", "").contains(':') || nodes.contains("password=")
}

/// An address as it was typed, as far as it may be shown.
pub(crate) fn shown(url: &str) -> String {
    match node::parse(url) {
        Ok(_) => hide(url),
        Err(error) => error.address().into(),
    }
}

/// A node as it was typed, by its name or by its address, as far as it may be shown.
pub(crate) fn shown_node(typed: &str) -> String {
    let is_name = !typed.contains(|c: char| ":@?=&".contains(c));
    if is_name { typed.into() } else { shown(typed) }
}

/// A path, or an address typed in its place, as far as that may be shown.
pub(crate) fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    if text.contains("://") { shown(&text) } else { text.into() }
}

/// Removes anything that may be a password from a message about what was typed, or
/// about the config file: an address may be typed in place of anything, in any form. So
/// every quotation and every word with an `@` is removed, as is whatever follows `://`
/// and is not an address.
pub(crate) fn hide_typed(text: &str) -> String {
    let text = hide(text);
    let mut shown = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find(|c: char| !c.is_whitespace()) {
        let (space, word) = rest.split_at(at);
        let quote = word.chars().next().filter(|c| "\"'`".contains(*c));
        let quoted = quote.and_then(|quote| word[1..].find(quote)).map(|end| end + 2);
        let plain = || word.find(char::is_whitespace).unwrap_or(word.len());
        let (word, after) = word.split_at(quoted.unwrap_or_else(plain));
        shown.push_str(space);
        shown.push_str(&hide_word(word));
        rest = after;
    }
    shown + rest
}

fn hide_word(word: &str) -> String {
    let address = word.trim_matches(|c: char| "\"'`,;:()".contains(c));
    if let Some((scheme, _)) = address.split_once("://") {
        return match node::parse(address) {
            // A login is already hidden.
            _ if address.contains("…@") => word.into(),
            Ok(_) => word.into(),
            Err(error) if scheme.contains('@') => error.address().into(),
            Err(error) => word.replace(address, error.address()),
        };
    }
    // Our own advice contains a single `@`.
    if word.contains('@') && address != "@" { "…".into() } else { word.into() }
}

/// Removes anything that may be a password: the login of anything that looks like an
/// address, and what follows `password=`. Every message that may quote user input goes
/// through here.
pub(crate) fn hide(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, address) = rest.split_at(at + "://".len());
        let address = &address[..length(before, address)];
        let login = address.rfind('@').unwrap_or(0);
        shown.push_str(before);
        shown.push_str(if login > 0 { "…" } else { "" });
        rest = &rest[before.len() + login..];
    }
    shown.push_str(rest);
    hide_options(&shown)
}

/// The length of an address: up to a space, or to the quote that ends it.
fn length(before: &str, address: &str) -> usize {
    let word = address.find(char::is_whitespace).unwrap_or(address.len());
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.:/".contains(c);
    let quote = before.trim_end_matches(is_scheme).chars().next_back();
    let quoted = quote.filter(|c| "\"'`".contains(*c)).and_then(|quote| address.find(quote));
    quoted.map_or(word, |end| word.max(end))
}

fn hide_options(text: &str) -> String {
    let mut parts = text.split("password=");
    let mut shown = String::from(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c.is_whitespace() || "&\"'`".contains(c));
        shown.push_str("password=…");
        shown.push_str(&part[end.unwrap_or(part.len())..]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_hidden_wherever_it_stands() {
        for (text, shown) in [
            ("no address: a@b", "no address: a@b"),
            ("redis://a:1 is held by me@host", "redis://a:1 is held by me@host"),
            ("for redis://:pw@a:1 and rediss://u:p@b", "for redis://…@a:1 and rediss://…@b"),
            ("\"redis://:p w@a\", expected", "\"redis://…@a\", expected"),
            ("`redis://:p`w@a`", "`redis://…@a`"),
            ("'redis://:p@w@a'", "'redis://…@a'"),
            ("redis://:pw@a?name=redis://b:1, c", "redis://…@a?name=redis://b:1, c"),
            ("redis://a?name=b&password=x", "redis://a?name=b&password=…"),
            ("redis://a?db=1&password=x&tls=no", "redis://a?db=1&password=…&tls=no"),
            ("://@", "://@"),
        ] {
            assert_eq!(hide(text), shown);
        }
    }

    #[test]
    fn what_was_typed_is_shown_only_if_it_is_no_password() {
        for (text, shown) in [
            ("unexpected argument 'x' found", "unexpected argument 'x' found"),
            ("unexpected argument 'u:pw@a' found", "unexpected argument … found"),
            ("unexpected argument 'u:p w@a' found", "unexpected argument … found"),
            ("1 | nodes = [:pw@a:1]", "1 | nodes = …"),
            ("`redis://:pw@a` is not", "`redis://…@a` is not"),
            ("'redis://u:pw' found", "'redis://…' found"),
            ("'redis://a:1' found\n\nUsage:", "'redis://a:1' found\n\nUsage:"),
            ("x@y://z", "…"),
            ("write an @ as %40, or `@`", "write an @ as %40, or `@`"),
        ] {
            assert_eq!(hide_typed(text), shown);
        }
    }

    #[test]
    fn addresses_with_passwords_are_told_from_those_without() {
        for nodes in ["redis://:pw@a", "redis://b,redis://u:p?w@a", "redis://a?password=x"] {
            assert!(may_hold_password(nodes), "{nodes}");
        }
        for nodes in ["redis://:p,w@a:1", "redis://b:1,ada:pw@c", "redis://u@a,redis://:pw@b:1"] {
            assert!(may_hold_password(nodes), "{nodes}");
        }
        for nodes in ["redis://a:6379,redis://b", "redis://ada@a", "redis://a?password_file=/x"] {
            assert!(!may_hold_password(nodes), "{nodes}");
        }
        for nodes in ["redis://ada@a:1,redis://ada@b:2", "redis://a@a:1?password_file=/x redis://b"]
        {
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
