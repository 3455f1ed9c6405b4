//! Every history of small worlds.
//!
//! In:  scenarios.
//! Out: a line per scenario, and a trace of the first broken promise.
//!
//! Promise: within its bounds, a scenario leaves nothing out. Every client is the
//! shipped [`redlatch_core::Machine`], every node its reference node: no decision is
//! modelled a second time.
//!
//! # What a world is
//!
//! Three nodes, one to three clients with a machine each, and a connection from each
//! client to each node. One step is one event: a caller asks for, extends, releases or
//! cancels a lock; a node carries out the next command of a connection; a client reads
//! a reply; a timer fires; time passes; something goes wrong. Every order of steps is
//! tried. So a command or a reply may take any time, even forever; connections overtake
//! one another, commands on one connection do not. What may go wrong is counted per
//! history (see [`Faults`]): connections break, commands arrive twice, keys expire
//! early, nodes forget or fail over, clients are paused, someone deletes the lock, a
//! client of another library joins in, the line goes wrong.
//!
//! A node's wake to a client that waits in line is a separate message: it may overtake
//! replies, come late or never arrive.
//!
//! # Time
//!
//! There is one clock, which jumps from one relevant moment to the next: a timer, the
//! end of a lease, the expiry of a key. Nothing depends on the time in between. The
//! clock stops at the scenario's horizon. It does not pass a due timer, unless the
//! client is paused (a fault). Wall clocks stand still: fencing tokens come from the
//! registers alone, which is the worst case.
//!
//! # What makes it finite and smaller
//!
//! Scripts, counted faults and the horizon are bounds. Only one of several histories
//! that mirror each other is tried (identical nodes and clients are numbered in the
//! order in which they act). Replies that nobody waits for are dropped. Replies to
//! undos are immediate, and so are looks of the restart guard; a scenario may make all
//! replies immediate, or let a client begin later.
//!
//! # What is not covered
//!
//! More than three nodes or clients, several resources, leases handed from process
//! to process, clocks that run at different rates (the drift allowance is there,
//! but nothing uses it up), changes of the node list, and the code around the core:
//! engine, scripts, sockets. Tests on real servers cover those, and
//! [`search`](crate::search) covers larger worlds.

mod act;
mod caller;
mod channel;
mod check;
mod explore;
mod foreign;
mod hash;
mod history;
mod lines;
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

pub fn scenario(name: &str) -> anyhow::Result<Scenario> {
    let mut all = scenarios::all().into_iter();
    all.find(|scenario| scenario.name == name)
        .ok_or_else(|| anyhow::anyhow!("there is no scenario `{name}`"))
}
