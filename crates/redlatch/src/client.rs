//! What users see: locks, requests for them, guards and errors.

pub(crate) mod advice;
pub mod blocking;
mod builder;
pub(crate) mod connect;
pub(crate) mod error;
pub(crate) mod grant_id;
pub(crate) mod guard;
mod handover;
mod health;
pub(crate) mod judgement;
mod locks;
pub(crate) mod request;
mod restart_guard;
mod settings;
mod signature;
pub(crate) mod status;
pub(crate) mod votes;

pub use builder::Builder;
pub use error::{
    AdmitError, ConnectError, ExtendError, HealthError, InvalidRequest, LazyError, LockError,
    NodesError, ReleaseError, ReleasePartsError, ReplaceError, ResumeError, RunError, StatusError,
};
pub use grant_id::{GrantId, GrantIdError};
pub use guard::{Guard, Lease, LeaseParts, Lost, Released};
pub use health::Health;
pub use locks::Locks;
pub(crate) use locks::one;
pub use request::{LockRequest, TryLockRequest};
pub use restart_guard::RestartGuard;
pub(crate) use signature::label_of_this_process;
pub use status::{Doubt, LockState, NodeKey, NodeStatus, Status, WaiterStatus};
pub use votes::{NodeVote, Votes};
