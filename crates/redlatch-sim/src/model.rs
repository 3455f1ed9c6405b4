//! Every history of small worlds.
//!
//! In:  scenarios, each a value with the number of states it must have.
//! Out: a line per scenario, and a trace of the first promise that is broken.

mod act;
mod caller;
mod check;
mod explore;
mod foreign;
mod hash;
mod history;
mod line;
mod memo;
mod properties;
mod prove;
mod scenario;
mod scenarios;
mod step;
mod words;
mod world;

pub use check::{Broken, Mistake, Outcome, hunt, prove};
pub use properties::{Mark, Property};
pub use prove::{Args, main};
pub use scenario::{Expect, Faults, Guarded, Renewed, Scenario, Script, Times};

/// The scenario of that name.
pub fn scenario(name: &str) -> anyhow::Result<Scenario> {
    let mut all = scenarios::all().into_iter();
    all.find(|scenario| scenario.name == name)
        .ok_or_else(|| anyhow::anyhow!("there is no scenario `{name}`"))
}
