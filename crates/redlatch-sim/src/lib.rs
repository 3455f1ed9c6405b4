//! The evidence for Redlatch: its core, driven through everything that can happen.
//!
//! In:  the command line; no clock, network or server.
//! Out: verdicts, counts, and histories that a person can read ([`trace`]).
//!
//! Promise: every client is a [`redlatch_core::Machine`], the one that ships. Only
//! the nodes ([`node`]) and the network are modelled, and kept small: they are the
//! oracle.
//!
//! - [`model`]: every history of small worlds.
//! - [`mutants`]: known mistakes, each caught by the model or the search.
//! - [`search`]: seeded histories of larger worlds.
//! - [`plan`]: what an operator can expect, by simulation.

#![allow(
    missing_docs,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "nothing outside this crate uses it; comments say what names cannot"
)]

pub mod evidence;
pub mod model;
pub mod mutants;
pub mod node;
pub mod plan;
mod queue;
pub mod search;
pub mod svg;
pub mod trace;
