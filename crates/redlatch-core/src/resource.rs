//! What is locked: names, checked once, cheap to clone.

use alloc::{sync::Arc, vec::Vec};
use core::fmt;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 1024;
/// The most resources one lock may take together.
pub const MAX_RESOURCES: usize = 64;

/// What names of ours on the nodes start with; no lock can have such a name.
pub const RESERVED: &[u8] = b"redlatch:";
/// Where our own tools lock something all the same.
const TOOLS: [&[u8]; 2] = [b"redlatch:doctor:", b"redlatch:conformance:"];

/// The name of one thing that is locked: 1 to [`MAX_NAME`] bytes, any bytes that
/// do not start with [`RESERVED`].
///
/// It is the key on the nodes, exactly as given. Shown, it is escaped.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<[u8]>);

impl Resource {
    /// Checks a name.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        let name = name.as_ref();
        if name.starts_with(RESERVED) && !TOOLS.iter().any(|tool| name.starts_with(tool)) {
            let shown = &name[..name.len().min(MAX_NAME)];
            return Err(ResourceError::Reserved(Resource(shown.into())));
        }
        match name.len() {
            0 => Err(ResourceError::Empty),
            1..=MAX_NAME => Ok(Resource(name.into())),
            bytes => Err(ResourceError::TooLong { bytes }),
        }
    }

    /// The name as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            write!(f, "{}", chunk.valid().escape_debug())?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// One or more resources that are taken together: all or nothing on each node.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Resources(Arc<[Resource]>);

impl Resources {
    /// Checks a set of names: at least one, at most [`MAX_RESOURCES`], none twice.
    pub fn new<N: AsRef<[u8]>>(names: impl IntoIterator<Item = N>) -> Result<Self, ResourceError> {
        let resources = names.into_iter().map(Resource::new).collect::<Result<Vec<_>, _>>()?;
        if resources.is_empty() {
            return Err(ResourceError::None);
        }
        if resources.len() > MAX_RESOURCES {
            let count = resources.len();
            return Err(ResourceError::TooMany { count });
        }
        for (at, resource) in resources.iter().enumerate() {
            if resources[..at].contains(resource) {
                return Err(ResourceError::Twice(resource.clone()));
            }
        }
        Ok(Resources(resources.into()))
    }

    /// The resources in the order given.
    pub fn iter(&self) -> core::slice::Iter<'_, Resource> {
        self.0.iter()
    }

    /// The only resource, where there is just one.
    #[must_use]
    pub fn single(&self) -> Option<&Resource> {
        match &*self.0 {
            [only] => Some(only),
            _ => None,
        }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Self {
        Resources(Arc::new([resource]))
    }
}

impl<'a> IntoIterator for &'a Resources {
    type Item = &'a Resource;
    type IntoIter = core::slice::Iter<'a, Resource>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, resource) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{resource}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A name, or a set of names, that cannot be locked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The name has no bytes.
    #[error("the name of a resource is empty; give it at least one byte")]
    Empty,
    /// The name is over the bound.
    #[error("the name of a resource has {bytes} bytes; at most {MAX_NAME} are allowed")]
    TooLong {
        /// How long it was.
        bytes: usize,
    },
    /// The name is one of those under which the nodes keep what is ours.
    #[error("the name \"{0}\" is reserved, as is all that starts with `redlatch:`; use another")]
    Reserved(Resource),
    /// No name at all.
    #[error("no resource was named; name at least one")]
    None,
    /// More names than one lock may take.
    #[error("{count} resources were named; one lock takes at most {MAX_RESOURCES}")]
    TooMany {
        /// How many were named.
        count: usize,
    },
    /// One name stands twice in the set.
    #[error("the resource \"{0}\" was named twice; name each one once")]
    Twice(Resource),
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::ToString, vec};

    #[test]
    fn names_are_bounded_and_otherwise_any_bytes() {
        assert_eq!(Resource::new(""), Err(ResourceError::Empty));
        assert!(Resource::new(vec![b'x'; MAX_NAME]).is_ok());
        assert_eq!(
            Resource::new(vec![b'x'; MAX_NAME + 1]),
            Err(ResourceError::TooLong { bytes: MAX_NAME + 1 })
        );
        for odd in [&b"\0"[..], b"{a}%s\n", b"\xff\xfe", b" "] {
            assert_eq!(Resource::new(odd).unwrap().as_bytes(), odd);
        }
    }

    #[test]
    fn names_under_ours_are_reserved_but_for_our_own_tools() {
        for ours in ["redlatch:node", "redlatch:", "redlatch:x"] {
            assert!(matches!(Resource::new(ours), Err(ResourceError::Reserved(_))), "{ours}");
        }
        for free in ["redlatch", "Redlatch:node", "my-redlatch:node", "redlatch:doctor:1"] {
            assert!(Resource::new(free).is_ok(), "{free}");
        }
    }

    #[test]
    fn a_name_is_escaped_where_it_is_shown() {
        let name = Resource::new(b"a\n\xff\x1b[31m").unwrap();

        assert_eq!(name.to_string(), "a\\n\\xff\\u{1b}[31m");
        assert_eq!(format!("{name:?}"), "\"a\\n\\xff\\u{1b}[31m\"");
    }

    #[test]
    fn a_set_holds_each_name_once_and_not_too_many() {
        let none: [&str; 0] = [];
        assert_eq!(Resources::new(none), Err(ResourceError::None));
        assert!(matches!(
            Resources::new(["a", "b", "a"]),
            Err(ResourceError::Twice(name)) if name.as_bytes() == b"a"
        ));
        let many = (0..=MAX_RESOURCES).map(|i| i.to_string());
        assert_eq!(Resources::new(many), Err(ResourceError::TooMany { count: MAX_RESOURCES + 1 }));
    }
}
