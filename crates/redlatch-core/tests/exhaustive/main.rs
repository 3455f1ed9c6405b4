//! Not some histories but all of them, on three nodes.
#![allow(clippy::unchecked_time_subtraction, reason = "a test may panic")]

#[path = "../support/mod.rs"]
mod support;

mod one_client;
mod two_clients;
