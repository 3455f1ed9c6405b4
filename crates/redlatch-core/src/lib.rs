//! The decisions of the Redlatch lock, and nothing else.
//!
//! In:  requests, votes and the time, all handed over by a driver.
//! Out: what to send to which node, when to be called again, and answers.
//!
//! There is no clock, no socket, no randomness and no async in this crate: it
//! is `no_std`, so it cannot reach for any. The library's engine, the simulator
//! and the model checker drive the very same code, and what is proved is what
//! ships. People who want a lock add the crate `redlatch`.
#![no_std]

extern crate alloc;

pub mod acquire;
pub mod command;
pub mod config;
pub mod extend;
pub mod fence;
pub mod glob;
pub mod lease;
pub mod ledger;
pub mod machine;
pub mod moment;
#[doc(hidden)]
pub mod mutant;
pub mod pace;
pub mod quarantine;
pub mod quorum;
pub mod release;
pub mod resource;
pub mod retry;
pub mod survey;
pub mod token;

pub use acquire::{AcquireError, Attempt};
pub use command::{Command, Facts, HeldKey, Identity, KeyState, Page, Reply};
pub use config::{Renewal, Terms, TermsError};
pub use extend::{ExtendError, Extension};
pub use fence::{FencingToken, FencingTokenError, Proposal, WallClock};
pub use ledger::Ledger;
pub use machine::{Input, Machine, OpId, Output, Tag};
pub use moment::{Moment, Now, Steady};
pub use quarantine::{Agreement, Cause, Fingerprint, Guard, Mark, Marker, Quarantine};
pub use quorum::{Ballot, Cast, Fault, Holder, Tally, Verdict, Vote};
pub use release::{ReleaseError, Released};
pub use resource::{Resource, ResourceError, Resources};
pub use token::{Entropy, Owner, OwnerError, Token};
