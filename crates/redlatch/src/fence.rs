//! Storage that refuses writes from a late lock holder.
//!
//! A lock with a timeout cannot stop a process that was paused past its lease
//! from writing when it wakes up. The storage it writes to can: every grant
//! carries a greater [`FencingToken`], and the storage refuses any token
//! smaller than one it has already seen. This module has such storage.
//!
//! | you write to | use | feature of `redlatch-fence` |
//! |---|---|---|
//! | memory of this process | [`Register`] | |
//! | a file | [`File`] | |
//! | a value in Redis | [`redlatch_fence::redis`] | `redis` |
//! | tables in PostgreSQL | [`redlatch_fence::postgres`] | `postgres` |
//! | tables in SQLite | [`redlatch_fence::sqlite`] | `sqlite` |
//! | an object in S3, GCS, Azure | [`redlatch_fence::object_store`] | `object-store` |
//! | anything else | [`accept`], inside whatever makes check and write atomic | |
//!
//! The crate [`redlatch-fence`] covers storage that needs a database driver. It
//! is versioned separately, so a driver's new major version does not force one
//! on this crate.
//!
//! [`FencingToken`]: crate::FencingToken
//! [`redlatch-fence`]: https://docs.rs/redlatch-fence
//! [`redlatch_fence::redis`]: https://docs.rs/redlatch-fence/latest/redlatch_fence/redis/
//! [`redlatch_fence::postgres`]: https://docs.rs/redlatch-fence/latest/redlatch_fence/postgres/
//! [`redlatch_fence::sqlite`]: https://docs.rs/redlatch-fence/latest/redlatch_fence/sqlite/
//! [`redlatch_fence::object_store`]: https://docs.rs/redlatch-fence/latest/redlatch_fence/object_store/
//!
//! # The rule
//!
//! A write is applied if its token is at least the greatest one seen; the token is then
//! the greatest. An equal token is fine: a holder may write as often as it likes. Check
//! and write are atomic. A refused write changes nothing and reports the token that
//! beat it: [`Stale`].
//!
//! Stale is an error rather than a status because a stale holder must stop,
//! which is what `?` does.
//!
//! # Seal, read, write
//!
//! A holder whose write depends on what it read must **seal** first, that is, write its
//! token alone. Otherwise a late write by its predecessor could land between its read
//! and its write, and be silently overwritten.
//!
//! ```
//! use redlatch::{blocking::Locks, fence::Register};
//!
//! let locks = Locks::connect(["memory:"])?;
//! let late = locks.lock("account:7").acquire()?.fencing_token().expect("fencing is on");
//! let balance = Register::new(100);
//!
//! let guard = locks.lock("account:7").acquire()?;
//! let token = guard.fencing_token().expect("fencing is on");
//! balance.seal(token)?;
//! let read = balance.read(|cents| *cents);
//! let stale = balance.write(late, |cents| *cents = 0).unwrap_err();
//! assert_eq!(stale.beaten_by, token);
//! balance.write(token, |cents| *cents = read - 30)?;
//!
//! assert_eq!(balance.into_inner(), 70);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A guard has no token only if fencing is switched off.
//!
//! # What it does not do
//!
//! A fence refuses late writes; it does not stop two holders from working at the same
//! time. It protects only the storage that checks: a job that writes to two places
//! needs a fence in both, and mail that was sent stays sent. It also relies on the
//! storage's memory: restoring a backup brings back an old token.

mod file;
mod register;

pub use file::{File, FileError};
pub use redlatch_core::fence::{Stale, accept};
pub use register::Register;
