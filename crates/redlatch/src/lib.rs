//! A distributed lock on N independent Redis or Valkey servers.

pub mod blocking;
mod clock;
mod engine;
mod error;
mod guard;
mod keeper;
mod locks;
pub mod node;
mod request;
mod status;
pub mod testing;
mod votes;

pub use error::{
    ConnectError, ExtendError, InvalidRequest, LockError, ReleaseError, RunError, StatusError,
};
pub use guard::{Guard, Lease, LeaseParts, Lost, Released};
pub use locks::{Builder, Locks};
pub use redlatch_core::{
    Fault, Holder, OwnerError, Resource, ResourceError, Tally, TermsError, Vote,
};
pub use request::{LockRequest, Try, Wait};
pub use status::{LockState, NodeKey, NodeStatus, Status};
pub use votes::{NodeVote, Votes};
