//! Every history of small worlds.
//!
//! In:  scenarios, each a value with the number of states it must have.
//! Out: a line per scenario, and a trace of the first promise that is broken.

mod act;
mod caller;
mod explore;
mod foreign;
mod hash;
mod history;
mod line;
mod memo;
mod properties;
mod run;
mod scenario;
mod scenarios;
mod step;
mod words;
mod world;

pub use properties::{Mark, Property};
pub use run::{Args, main};
pub use scenario::{Expect, Faults, Guarded, Renewed, Scenario, Script, Times};
