//! Drives the core: the engine's loop, the keeper's thread, the clocks.

mod both;
pub(crate) mod clock;
pub(crate) mod engine;
mod ids;
pub(crate) mod keeper;

pub(crate) use both::both;
