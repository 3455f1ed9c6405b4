//! Many callers, one lock: how quickly, how evenly and at what cost it changes hands.
//!
//! In:  real servers on loopback; contenders as processes of their own, which say
//!      when each caller asked for, got and released the lock.
//! Out: tables of figures and ratios, and the bounds that were missed.
//!
//! Contenders take turns, round by round, and are compared only with what ran in
//! the same round. Every history is checked for two holders at once.

mod commands;
mod crowd;
mod entrant;
mod etcd;
mod field;
mod flock;
mod foreign;
mod frozen;
mod handover;
mod history;
mod monitor;
mod peers;
mod plan;
mod report;
mod team;
mod turns;
mod wire;
mod worker;

pub(crate) use self::{
    flock::{HoldPlan, hold},
    plan::ContendedPlan,
    worker::{WorkerPlan, run as work},
};

use self::{
    entrant::Entrant,
    field::{Lane, Shape},
    plan::{Part, Peers},
    report::Table,
};
use crate::exit::Exit;
use anyhow::ensure;
use redlatch::Locks;
use redlatch_testbed::Servers;
use serde_json::json;

/// What all measurements need.
struct Setting<'a> {
    plan: &'a ContendedPlan,
    /// How many servers, one run for each.
    nodes: Vec<usize>,
    peers: Vec<Entrant>,
}

type Measure = fn(&Setting) -> anyhow::Result<Vec<Table>>;

const PARTS: [(Part, Measure); 8] = [
    (Part::Handover, handover::measure),
    (Part::Turns, turns::measure),
    (Part::Commands, commands::measure),
    (Part::Etcd, etcd::measure),
    (Part::Flock, flock::measure),
    (Part::Frozen, frozen::measure),
    (Part::Foreign, foreign::measure),
    (Part::Crowd, crowd::measure),
];

pub(crate) fn run(plan: &ContendedPlan) -> anyhow::Result<Exit> {
    ensure!(plan.rounds() > 0 && !plan.nodes().contains(&0), "nothing to measure");
    let setting = Setting { plan, nodes: plan.nodes(), peers: peers(plan) };
    let mut tables = Vec::new();
    for (part, measure) in PARTS {
        if plan.wants(part) {
            let more = measure(&setting)?;
            // As they come: all of it takes many minutes.
            more.iter().filter(|_| !plan.json).for_each(|table| println!("{table}"));
            tables.extend(more);
        }
    }
    if plan.json {
        let tables: Vec<_> = tables.iter().map(Table::to_json).collect();
        println!("{:#}", json!({ "setup": plan.to_json(), "tables": tables }));
    }
    let missed: Vec<String> = tables.into_iter().flat_map(|table| table.missed).collect();
    let exit = Exit::of(&missed);
    Ok(if plan.check { exit } else { Exit::Met })
}

fn peers(plan: &ContendedPlan) -> Vec<Entrant> {
    let needed = plan.wants(Part::Handover) || plan.wants(Part::Turns);
    match plan.peers() {
        Peers::All if needed => Entrant::rslock().into_iter().chain(peers::available()).collect(),
        Peers::All | Peers::Rust => Entrant::rslock().into(),
        Peers::One => Entrant::rslock().into_iter().take(1).collect(),
        Peers::None => Vec::new(),
    }
}

impl Setting<'_> {
    /// The last one only, when time is short.
    fn shapes<'s>(&self, shapes: &'s [Shape]) -> &'s [Shape] {
        if self.plan.short { &shapes[shapes.len() - 1..] } else { shapes }
    }

    /// One table for each shape and each number of servers.
    fn each(
        &self,
        shapes: &[Shape],
        measure: impl Fn(Shape, usize) -> anyhow::Result<Table>,
    ) -> anyhow::Result<Vec<Table>> {
        let pairs =
            shapes.iter().flat_map(|shape| self.nodes.iter().map(move |nodes| (shape, nodes)));
        pairs.map(|(shape, nodes)| measure(*shape, *nodes)).collect()
    }
}

/// New servers, admitted: fifty clients need not do it at the same time.
fn servers(nodes: usize) -> anyhow::Result<Servers> {
    let servers = Servers::start(nodes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let builder = Locks::builder().nodes(servers.urls()).admit_new_servers();
    runtime.block_on(builder.connect())?;
    Ok(servers)
}

fn nodes_text(nodes: usize) -> String {
    if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") }
}

/// Nobody held the lock beside another one, and nobody gave up.
fn require_sound(table: &mut Table, lane: &Lane) {
    let (broken, gave_up) = (lane.violations(), lane.gave_up());
    table.require(broken == 0, format_args!("{broken} times there were two holders"));
    table.require(gave_up == 0, format_args!("{gave_up} requests gave up: {}", lane.why()));
}
