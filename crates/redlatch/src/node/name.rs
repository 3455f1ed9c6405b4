//! The name of a node, as opposed to its address.
//!
//! Clients agree on names: clients that reach one server by different addresses must use
//! the same name for it. The name is the address unless one is given.

use super::{Node, url::encode};
use crate::client::advice::quoted;
use redlatch_core::Cause;
use std::{borrow::Cow, fmt, sync::Arc};

/// The longest name. Addresses can be names, and host names are long.
const LONGEST: usize = 255;
/// What a name may contain besides letters and digits: anything that occurs in a server's
/// address. Not `@`, because the text before it may be a password.
const SIGNS: &str = "-._:/+[]?=%";

/// Checks the value of `name=`. Errors do not quote it: it may be part of a password.
pub(super) fn checked(name: String) -> Result<String, String> {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || SIGNS.contains(c);
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.len() <= LONGEST && name.chars().all(is_sign) {
        return Ok(name);
    }
    Err(format!(
        "its name must be 1 to {LONGEST} letters, digits and {SIGNS} (ASCII), and start with a \
         letter or digit"
    ))
}

/// How a node is displayed: its name, followed by its address if that differs,
/// as in `a (redis://localhost:6379)`.
pub(crate) fn label<'a>(name: &'a str, address: &str) -> Cow<'a, str> {
    if name == address { name.into() } else { format!("{name} ({address})").into() }
}

/// The same URL with another name.
fn renamed(url: &str, name: &str) -> String {
    let (place, options) = url.split_once('?').unwrap_or((url, ""));
    let kept = options.split('&').filter(|option| !option.is_empty());
    let kept = kept.filter(|option| !option.starts_with("name="));
    let name = format!("name={}", encode(name));
    let options: Vec<&str> = kept.chain([&*name]).collect();
    format!("{place}?{}", options.join("&"))
}

/// A server whose clients use another name for it than we do.
///
/// If our address does lead to that node, use the others' name for it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OtherName {
    /// The address at which we reached it.
    pub address: Arc<str>,
    /// The name its clients use.
    pub is: Arc<str>,
    /// Our URL, without its login.
    url: Arc<str>,
    has_login: bool,
}

impl OtherName {
    /// Returns the other name of this node, if its clients have another list of nodes that
    /// calls it something else.
    pub(crate) fn of(cause: &Cause, node: &dyn Node) -> Option<Self> {
        let is = cause.admitted_as().filter(|is| **is != *node.name())?;
        // Not every address is a valid name.
        checked(is.to_string()).ok()?;
        let url = node.url().unwrap_or_else(|| node.address().into()).into();
        Some(OtherName { address: node.address().into(), is, url, has_login: node.has_login() })
    }

    /// Returns the URL to use instead of ours, with its options, but without its login:
    /// `redis://localhost:7001?name=redis://10.0.0.1:6379`.
    #[must_use]
    pub fn url(&self) -> String {
        renamed(&self.url, &self.is)
    }

    /// Returns whether [`url`](Self::url) leaves out a user or a password.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.has_login
    }
}

impl fmt::Display for OtherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherName { address, is, .. } = self;
        write!(f, "this server is admitted as {is}; if {address} leads to it, write ")?;
        f.write_str(&pasted(&self.url()))?;
        f.write_str(if self.has_login { " (add the login; it is not shown here)" } else { "" })
    }
}

/// Addresses, quoted for pasting: in a shell, an `&` would end the command.
fn pasted(urls: &str) -> Cow<'_, str> {
    if urls.contains('&') { quoted(urls) } else { urls.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::parse;

    #[test]
    fn the_address_is_shown_behind_a_name_of_its_own() {
        assert_eq!(label("a", "redis://h:1"), "a (redis://h:1)");
        assert_eq!(label("redis://h:1", "redis://h:1"), "redis://h:1");
    }

    #[test]
    fn what_to_write_leads_to_the_same_address_under_the_other_name() {
        for (address, is) in [
            ("redis://localhost:7001", "a"),
            ("redis://localhost:7001/3", "redis://10.0.0.1:6379/3"),
            ("redis://h:1", "redis://[fe80::1%eth0]:7000/2"),
            ("redis+unix:///s?db=2", "redis+unix:///run/r.sock?db=2"),
        ] {
            let written = renamed(&parse(address).unwrap().url().unwrap(), is);

            let node = parse(&written).unwrap();

            assert_eq!((node.name(), node.address()), (is, address), "{written}");
        }
    }

    #[test]
    fn what_to_write_keeps_every_option_but_our_own_name() {
        let ours = "rediss://h:1?ca=/ca.pem&allow_eviction=yes&name=b";

        assert_eq!(renamed(ours, "a"), "rediss://h:1?ca=/ca.pem&allow_eviction=yes&name=a");
        assert_eq!(pasted("redis://h:1?name=a"), "redis://h:1?name=a");
        assert_eq!(pasted("redis://h:1?ca=b&name=a"), "'redis://h:1?ca=b&name=a'");
    }
}
