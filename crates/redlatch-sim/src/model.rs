//! Every history of small worlds.
//!
//! In:  scenarios, each a value with the number of states it must have.
//! Out: a line per scenario, and a trace of the first promise that is broken.
//!
//! Promise: within its bounds a scenario leaves nothing out. Every client is the
//! shipped [`redlatch_core::Machine`]; no decision is modelled a second time.
//!
//! # What a world is
//!
//! Three nodes, one to three clients with a machine each, and a connection from
//! each client to each node. One step is one thing that happens: a caller wants,
//! extends, releases or stops wanting a lock; a node carries out the next command
//! of a connection; a client reads a reply; a timer fires; time passes; something
//! goes wrong. Every order of steps is tried. So a command or a reply may take
//! any time, also for ever; connections overtake one another, commands on one do
//! not. What may go wrong is counted per history (see [`Faults`]): connections
//! break, commands come twice, keys die early, nodes forget or fail over, clients
//! are paused, somebody removes the lock, a client of another library joins in.
//!
//! # Time
//!
//! All clocks are one clock, which moves from one moment that matters to the
//! next: a timer, the end of a lease, the death of a key. Between these nothing
//! depends on the time. It stops at the scenario's horizon. It does not move past
//! a timer that is due, unless the client is paused (a fault). Wall clocks stand
//! still: fencing numbers come from the registers alone, which is the worst case.
//!
//! # What makes it finite and smaller
//!
//! The scripts of the callers, the counted faults and the horizon are bounds.
//! Histories that are mirror images are tried once (nodes and clients that are
//! alike are numbered in the order in which they act). Replies that nobody waits
//! for are dropped. Replies to undos come at once, and so do looks of the restart
//! guard; scenarios may say so of all replies, or that a client begins later.
//!
//! # What is not covered
//!
//! More than three nodes or clients, several resources, leases handed from
//! process to process, clocks that run at different rates (the drift allowance is
//! there, but nothing uses it up), changes of the node list, and the code around
//! the core: engine, scripts, sockets. Those have tests on real servers, and
//! larger worlds are searched by [`search`](crate::search).

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
mod wire;
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
