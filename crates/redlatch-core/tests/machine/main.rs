//! What the machine promises, promise by promise.
#![allow(clippy::unchecked_time_subtraction, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod admitting;
mod agreeing;
mod cancelling;
mod counterexamples;
mod driving;
mod extending;
mod fencing;
mod handing_over;
mod losing;
mod quarantined;
mod queueing;
mod releasing;
mod renewing;
mod replanting;
mod rerouting;
mod retrying;
mod undoing;
mod waiting;
