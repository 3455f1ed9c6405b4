//! What all measurements need: how long, who else takes part, and servers.

use crate::{
    entrant::{Entrant, RSLOCK, RSLOCK_TUNED},
    field::Shape,
    peers,
    table::Table,
};
use redlatch::Locks;
use redlatch_testbed::{ServerOptions, Servers};
use std::{sync::OnceLock, time::Duration};

#[derive(Default)]
pub(crate) struct Setting {
    pub(crate) short: bool,
    drivers: OnceLock<Vec<Entrant>>,
}

/// How the time is shared out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turns {
    /// How often every contender has its turn.
    pub(crate) rounds: usize,
    pub(crate) slice: Duration,
}

impl Setting {
    pub(crate) fn new(short: bool) -> Self {
        Self { short, ..Self::default() }
    }

    /// Rounds, and milliseconds of a turn: usually, and when time is short.
    pub(crate) fn turns(&self, usual: (usize, u64), short: (usize, u64)) -> Turns {
        let (rounds, slice) = if self.short { short } else { usual };
        Turns { rounds, slice: Duration::from_millis(slice) }
    }

    /// For one lock that many want. All rounds together last for 10 s.
    pub(crate) fn contended(&self) -> Turns {
        self.turns((10, 1_000), (3, 200))
    }

    /// How many servers, one run for each.
    pub(crate) fn nodes(&self) -> &'static [usize] {
        if self.short { &[5] } else { &[5, 1] }
    }

    /// Peers in other languages that can lock on this many servers.
    pub(crate) fn drivers(&self, nodes: usize) -> impl Iterator<Item = &Entrant> {
        self.drivers.get_or_init(peers::available).iter().filter(move |peer| peer.takes(nodes))
    }

    /// Peers for one lock that many want. On one server, of those in other languages
    /// only who knows no more than one; when time is short, one of all.
    pub(crate) fn peers(&self, nodes: usize) -> Vec<Entrant> {
        if self.short {
            return vec![RSLOCK];
        }
        let drivers = self.drivers(nodes).filter(|peer| nodes > 1 || !peer.takes(2)).cloned();
        [RSLOCK, RSLOCK_TUNED].into_iter().chain(drivers).collect()
    }

    /// The last one only, when time is short.
    pub(crate) fn shapes<'s>(&self, shapes: &'s [Shape]) -> &'s [Shape] {
        if self.short { &shapes[shapes.len() - 1..] } else { shapes }
    }

    /// One table for each shape and each number of servers.
    pub(crate) fn each(
        &self,
        shapes: &[Shape],
        measure: impl Fn(Shape, usize) -> anyhow::Result<Table>,
    ) -> anyhow::Result<Vec<Table>> {
        let pairs =
            shapes.iter().flat_map(|shape| self.nodes().iter().map(move |nodes| (shape, nodes)));
        pairs.map(|(shape, nodes)| measure(*shape, *nodes)).collect()
    }
}

/// New servers of the usual kind, admitted.
pub(crate) fn servers(nodes: usize) -> anyhow::Result<Servers> {
    servers_with(nodes, &ServerOptions::default())
}

/// New servers, admitted: fifty clients need not do it at the same time.
pub(crate) fn servers_with(nodes: usize, options: &ServerOptions) -> anyhow::Result<Servers> {
    let servers = Servers::start_with(nodes, options)?;
    admit(&servers.urls())?;
    Ok(servers)
}

pub(crate) fn admit(urls: &[String]) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(Locks::builder().nodes(urls).admit_new_servers().connect())?;
    Ok(())
}

pub(crate) fn nodes_text(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}
