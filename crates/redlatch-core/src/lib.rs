//! Makes every decision of the Redlatch lock, and does nothing else.
//!
//! In:  requests, votes and the time, all passed in by a driver.
//! Out: commands for nodes, the time of the next call, and answers.
//!
//! This crate has no clock, no socket, no randomness and no async: it is `no_std`, so it
//! cannot reach for any. The library's engine, the simulator and the model checker all
//! drive this same code, so what is proved is what ships. To use a lock, add the crate
//! `redlatch` instead.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;

/// Makes `Debug` the same as `Display`, because an error that `main` returns is printed by
/// its `Debug`, and people have to read it.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_is_display {
    ($($error:ident),* $(,)?) => {
        $(impl core::fmt::Debug for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        })*
    };
}

pub mod acquire;
pub mod agreement;
pub mod command;
pub mod config;
#[doc(hidden)]
pub mod dice;
pub mod extend;
pub mod fence;
pub mod glob;
pub mod lease;
pub mod ledger;
pub mod line;
pub mod link;
pub mod machine;
pub mod moment;
#[doc(hidden)]
pub mod mutant;
pub mod owner;
pub mod pace;
pub mod quarantine;
pub mod reference;
pub mod release;
pub mod resource;
pub mod retry;
pub mod standing;
mod survey;
pub mod token;
mod told;
pub mod vote;
mod watch;

pub use acquire::AcquireError;
pub use agreement::{Admission, Agreement, Fingerprint};
pub use command::{Command, Facts, HeldKey, Identity, KeyState, Page, Refusal, Reply};
pub use config::{Renewal, Terms, TermsError};
pub use extend::ExtendError;
pub use fence::{FencingToken, FencingTokenError, Proposal, WallClock};
pub use ledger::Ledger;
pub use line::{InLine, LineState, Place, Then, Ticket, Waiter, Waiting, Wake};
pub use machine::{Input, Machine, OpId, Output, Tag};
pub use moment::{Moment, Now, Steady};
pub use owner::{Owner, OwnerError, OwnerParts};
pub use quarantine::{Cause, Mark, Marker, Quarantine, Taking};
pub use release::{ReleaseError, Released};
pub use resource::{Resource, ResourceError, Resources};
pub use standing::Standing;
pub use token::{Entropy, Token};
pub use vote::{Ballot, Cast, Fault, Holder, Tally, Verdict, Vote};
