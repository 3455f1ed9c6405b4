//! How this process signs its locks: its label, and the details that operators see.

use redlatch_core::{Owner, OwnerError, OwnerParts};

/// The details that this process gives about itself, apart from a label.
#[derive(Debug, Clone)]
pub(crate) struct Signature(OwnerParts);

impl Signature {
    /// The given details; host and process id default to this process's.
    pub(crate) fn new(given: OwnerParts) -> Self {
        let mut parts = given;
        parts.host.get_or_insert_with(host);
        parts.pid.get_or_insert_with(std::process::id);
        Signature(parts)
    }

    /// The owner with the default label, `host/pid`.
    pub(crate) fn default_owner(&self) -> Owner {
        self.owner(&self.default_label()).expect("graphic ASCII of at most 211 bytes is a label")
    }

    /// The owner with this label. Leaves out a host and process id that the label
    /// already contains.
    pub(crate) fn owner(&self, label: &str) -> Result<Owner, OwnerError> {
        let owner = Owner::new(label)?;
        let mut parts = self.0.clone();
        let of_label = OwnerParts::parse(label).and_then(|parts| parts.host);
        if of_label.is_some_and(|host| host == self.host()) {
            (parts.host, parts.pid) = (None, None);
        }
        Ok(owner.with_details(&parts))
    }

    fn default_label(&self) -> String {
        let host: String = self.host().chars().filter(char::is_ascii_graphic).take(200).collect();
        format!("{host}/{}", self.0.pid.unwrap_or_default())
    }

    fn host(&self) -> &str {
        self.0.host.as_deref().unwrap_or_default()
    }
}

/// The default label of this process's locks.
pub(crate) fn label_of_this_process() -> String {
    Signature::new(OwnerParts::default()).default_label()
}

fn host() -> String {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy();
    host.chars().filter(char::is_ascii_graphic).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch_core::{Entropy, Token};

    struct Zeros;

    impl Entropy for Zeros {
        fn fill(&mut self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }

    fn read(owner: &Owner) -> OwnerParts {
        OwnerParts::of_value(Token::fresh(&mut Zeros, owner).as_bytes()).unwrap()
    }

    #[test]
    fn the_default_label_says_host_and_process_and_so_does_a_given_one() {
        let signature = Signature::new(OwnerParts::default());

        let unnamed = read(&signature.default_owner());
        let named = read(&signature.owner("ci-7").unwrap());

        let pid = std::process::id();
        assert_eq!(unnamed.label, format!("{}/{pid}", host()));
        assert_eq!(named.label, "ci-7");
        for parts in [unnamed, named] {
            assert_eq!((parts.host, parts.pid), (Some(host()), Some(pid)));
        }
    }

    #[test]
    fn user_and_command_are_said_whatever_the_label() {
        let mut given = OwnerParts::default();
        (given.user, given.command) = (Some("ada".into()), Some("backup".into()));
        let signature = Signature::new(given);
        let label = format!("{}/1", host());

        for owner in [signature.default_owner(), signature.owner(&label).unwrap()] {
            let parts = read(&owner);
            assert_eq!(parts.user.as_deref(), Some("ada"));
            assert_eq!(parts.command.as_deref(), Some("backup"));
        }
        assert_eq!(read(&signature.owner(&label).unwrap()).pid, Some(1), "not ours as well");
    }
}
