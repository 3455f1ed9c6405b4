//! Names of what is locked: checked once, cheap to clone.

use alloc::{sync::Arc, vec::Vec};
use core::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
};

/// The longest name, in bytes.
pub const MAX_NAME: usize = 1024;
/// The most resources that one lock may cover.
pub const MAX_RESOURCES: usize = 64;

/// The prefix of our own keys on the nodes; no lock may have such a name.
pub const RESERVED: &[u8] = b"redlatch:";
/// Reserved prefixes that our own tools may lock anyway.
const TOOLS: [&[u8]; 2] = [b"redlatch:doctor:", b"redlatch:conformance:"];

/// The name of one thing to lock: 1 to [`MAX_NAME`] bytes, any bytes that do not
/// start with [`RESERVED`].
///
/// It is the key on the nodes, exactly as given. `Display` and `Debug` escape it.
#[derive(Clone)]
pub struct Resource(Name);

/// Most names are short. Those are stored inline, in no more space than the pointer to
/// several resources needs.
#[derive(Clone)]
enum Name {
    Short { length: u8, bytes: [u8; SHORT] },
    Long(Arc<[u8]>),
}

const SHORT: usize = 22;

impl Name {
    fn of(name: &[u8]) -> Self {
        let mut bytes = [0; SHORT];
        match (bytes.get_mut(..name.len()), u8::try_from(name.len())) {
            (Some(place), Ok(length)) => {
                place.copy_from_slice(name);
                Name::Short { length, bytes }
            }
            _ => Name::Long(name.into()),
        }
    }
}

impl Resource {
    /// Creates a resource from its name.
    ///
    /// # Errors
    ///
    /// If the name is empty, too long or reserved.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, ResourceError> {
        let name = name.as_ref();
        if name.starts_with(RESERVED) && !TOOLS.iter().any(|tool| name.starts_with(tool)) {
            let shown = &name[..name.len().min(MAX_NAME)];
            return Err(ResourceError::Reserved(Resource(Name::of(shown))));
        }
        match name.len() {
            0 => Err(ResourceError::Empty),
            1..=MAX_NAME => Ok(Resource(Name::of(name))),
            bytes => Err(ResourceError::TooLong { bytes }),
        }
    }

    /// Returns the name as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Name::Short { length, bytes } => &bytes[..usize::from(*length)],
            Name::Long(name) => name,
        }
    }
}

impl PartialEq for Resource {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Resource {}

impl PartialOrd for Resource {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Resource {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Resource {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Shown(self.as_bytes()).fmt(f)
    }
}

/// A name as people see it: bytes that are not UTF-8 or cannot be printed are escaped.
#[derive(Debug)]
pub struct Shown<'a>(pub &'a [u8]);

impl fmt::Display for Shown<'_> {
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

/// One or more resources that are locked together: all or nothing on each node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resources(Names);

/// Most locks cover one resource, and there may be very many of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Names {
    One(Resource),
    Several(Arc<[Resource]>),
}

impl Resources {
    /// Creates a set of at least one and at most [`MAX_RESOURCES`] names, all different.
    ///
    /// # Errors
    ///
    /// If the set breaks these rules, or a name is not allowed (see [`Resource::new`]).
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
        Ok(match <[Resource; 1]>::try_from(resources) {
            Ok([only]) => only.into(),
            Err(several) => Resources(Names::Several(several.into())),
        })
    }

    fn as_slice(&self) -> &[Resource] {
        match &self.0 {
            Names::One(only) => core::slice::from_ref(only),
            Names::Several(several) => several,
        }
    }

    /// Returns the resources in the order given.
    pub fn iter(&self) -> core::slice::Iter<'_, Resource> {
        self.as_slice().iter()
    }

    /// Returns the resource, if there is only one.
    #[must_use]
    pub fn single(&self) -> Option<&Resource> {
        match &self.0 {
            Names::One(only) => Some(only),
            Names::Several(_) => None,
        }
    }

    /// Returns how many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.as_slice().len()
    }
}

impl From<Resource> for Resources {
    fn from(resource: Resource) -> Self {
        Resources(Names::One(resource))
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

/// Why a name, or a set of names, cannot be locked.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// The name is empty.
    #[error("the name of a resource is empty; give it at least one byte")]
    Empty,
    /// The name is too long.
    #[error("the name of a resource has {bytes} bytes; at most {MAX_NAME} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The name starts with the prefix of our own keys.
    #[error("the name \"{0}\" is reserved: names must not start with `redlatch:`; use another")]
    Reserved(Resource),
    /// There is no name.
    #[error("no resource was named; name at least one")]
    None,
    /// There are more names than one lock may cover.
    #[error("{count} resources were named; one lock takes at most {MAX_RESOURCES}")]
    TooMany {
        /// How many were named.
        count: usize,
    },
    /// A name appears twice.
    #[error("the resource \"{0}\" was named twice; name each one once")]
    Twice(Resource),
}

crate::debug_is_display!(ResourceError);

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
    fn names_short_and_long_are_kept_whole_and_ordered_by_their_bytes() {
        let long = [b'x'; SHORT + 1];
        let mut names: Vec<_> = (1..=long.len()).map(|length| &long[..length]).collect();
        names.push(b"y");

        let resources: Vec<_> = names.iter().map(|name| Resource::new(name).unwrap()).collect();

        assert!(resources.iter().map(Resource::as_bytes).eq(names));
        assert!(resources.is_sorted(), "{resources:?}");
        assert_eq!(size_of::<Resources>(), 24, "no more than the pointer to several needs");
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
