//! The Redlock description, "Distributed Locks with Redis", sentence by
//! sentence: whatever it promises has a test here that bears its name. Its
//! paragraph on crash recovery is not covered: it needs a restart guard.
#![allow(clippy::unchecked_time_subtraction, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod extending;
mod liveness;
mod safety;
mod single_instance;
mod steps;
