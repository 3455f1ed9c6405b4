//! Placeholder of the crate root; filled in the next commits.
