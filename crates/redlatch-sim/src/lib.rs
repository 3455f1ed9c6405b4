//! The evidence for Redlatch: its own core, driven where everything can happen.
//!
//! In:  nothing but the command line: no clock, no network, no servers.
//! Out: verdicts, counts, and histories that a person can read ([`trace`]).
//!
//! Promise: every client here is a [`redlatch_core::Machine`], the one that
//! ships. Only the nodes ([`node`]) and the network are written anew, small
//! and on purpose: they are the oracle.
//!
//! - [`model`]: every history of small worlds, exhaustively.
//! - [`mutants`]: the known ways to get it wrong, each caught by the model.
//! - [`search`]: seeded histories of larger worlds.
//! - [`plan`]: what an operator can expect, by simulation.

pub mod evidence;
pub mod model;
pub mod mutants;
pub mod node;
pub mod plan;
pub mod search;
pub mod svg;
pub mod trace;
