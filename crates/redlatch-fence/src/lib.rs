//! Databases and object stores that refuse writes from a late lock holder.
//!
//! A lock with a timeout cannot stop a process that was paused past its lease
//! from writing when it wakes up. The storage it writes to can: every grant of
//! a [`redlatch`] lock carries a greater [`FencingToken`], and the storage
//! refuses any token smaller than one it has already seen. This crate does that
//! for storage that needs a driver.
//!
//! | you write to | use | feature |
//! |---|---|---|
//! | a value in Redis | [`redis`] | `redis` |
//! | tables in PostgreSQL | [`postgres`] | `postgres` |
//! | tables in SQLite | [`sqlite`] | `sqlite` |
//! | an object in S3, GCS, Azure | [`object_store`] | `object-store` |
//!
//! No feature is on by default. [`redlatch::fence`] has files, memory and the
//! rule itself for your own storage, and explains when to *seal*. Each module
//! documents its statement or script, for use with other clients.
//!
//! [`FencingToken`]: redlatch_core::FencingToken
//! [`redlatch`]: https://docs.rs/redlatch
//! [`redlatch::fence`]: https://docs.rs/redlatch/latest/redlatch/fence/
//!
//! # Versions
//!
//! The functions take the drivers' own connections and transactions, so a driver's
//! new major version means a new major version of this crate, and of no other.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(all(
        feature = "object-store",
        feature = "postgres",
        feature = "redis",
        feature = "sqlite"
    )),
    allow(rustdoc::broken_intra_doc_links, reason = "the docs name modules that are off")
)]

#[cfg(feature = "object-store")]
pub mod object_store;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod write_error;

pub use write_error::WriteError;

/// Runs the code in the guide as doctests.
#[cfg(all(
    doctest,
    feature = "object-store",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
))]
#[doc = include_str!("../../../docs/fencing.md")]
struct Guide;

/// Runs the code in the README as doctests.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../README.md")]
struct Readme;
