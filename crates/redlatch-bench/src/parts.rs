//! Everything that is measured, part by part.

mod commands;
mod crowd;
mod etcd;
mod faulty;
mod flock;
mod foreign;
mod frozen;
mod growth;
pub(crate) mod handover;
pub(crate) mod held;
pub(crate) mod many;
mod memory;
pub(crate) mod monitor;
mod rounds;
mod start;
mod stranger;
mod turns;
pub(crate) mod uncontended;

pub(crate) use self::flock::{HoldPlan, hold};

use crate::{
    cli::Plan,
    exit::Exit,
    field::Lane,
    history::{Shares, Unevenness},
    output,
    setting::Setting,
    table::Table,
};
use clap::ValueEnum as _;
use std::time::Instant;

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Acquire and release, each caller on a lock of its own: 1 to 1,024 callers on
    /// 1, 3 and 5 servers.
    Uncontended,
    /// The same with one of five servers refused, frozen, and slow.
    Faulty,
    /// The same with few and with very many callers, and other keys on the servers.
    Growth,
    /// From the start of a process to its first lock.
    Start,
    /// 10,000 held locks: memory, and what renewing them costs.
    Held,
    /// What a stranger on the same server notices.
    Stranger,
    /// 100,000 requests at once, each for a name of its own.
    Many,
    /// Memory that a server needs for names that were locked once.
    Memory,
    /// How many grants agree on their fencing token only in a second round trip.
    Rounds,
    /// One lock: from one holder's release to the next one's grant.
    Handover,
    /// One lock: how many turns per second, and how evenly shared.
    Turns,
    /// One lock: how many commands the servers get for each grant.
    Commands,
    /// One lock, beside etcd's.
    Etcd,
    /// `redlatch run` beside `flock`.
    Flock,
    /// Hand-over with a frozen minority.
    Frozen,
    /// Beside a client that knows nothing of us, on the same key.
    Foreign,
    /// A thousand waiters that are killed, cancelled and lose patience.
    Crowd,
}

impl Part {
    fn measure(self, setting: &Setting) -> anyhow::Result<Vec<Table>> {
        match self {
            Self::Uncontended => uncontended::measure(setting),
            Self::Faulty => faulty::measure(setting),
            Self::Growth => growth::measure(setting),
            Self::Start => start::measure(setting),
            Self::Held => held::measure(setting),
            Self::Stranger => stranger::measure(setting),
            Self::Many => many::measure(setting),
            Self::Memory => memory::measure(setting),
            Self::Rounds => rounds::measure(setting),
            Self::Handover => handover::measure(setting),
            Self::Turns => turns::measure(setting),
            Self::Commands => commands::measure(setting),
            Self::Etcd => etcd::measure(setting),
            Self::Flock => flock::measure(setting),
            Self::Frozen => frozen::measure(setting),
            Self::Foreign => foreign::measure(setting),
            Self::Crowd => crowd::measure(setting),
        }
    }
}

pub(crate) fn run(plan: &Plan) -> anyhow::Result<Exit> {
    let setting = Setting::new(plan.short);
    let mut tables = Vec::new();
    for part in Part::value_variants().iter().filter(|part| plan.wants(**part)) {
        let began = Instant::now();
        let more = part.measure(&setting)?;
        // As they come: all of it takes many minutes.
        for table in &more {
            println!("{table}");
        }
        eprintln!("{part:?}: {:.0?}", began.elapsed());
        tables.extend(more);
    }
    output::save(plan, &tables)?;
    if !plan.check {
        return Ok(Exit::Met);
    }
    Ok(Exit::of(tables.iter().flat_map(|table| &table.bounds)))
}

/// Nobody held the lock beside another one, and nobody gave up.
fn require_sound(table: &mut Table, lane: &Lane) {
    table.never("two holders at once", lane.violations());
    table.never(&format!("a request gave up ({})", lane.why()), lane.gave_up());
}

fn shares(lane: &Lane) -> Shares {
    let mut shares = Shares::default();
    lane.rounds.iter().for_each(|round| shares.add(&round.turns()));
    shares
}

fn require_even(table: &mut Table, among: &str, uneven: Option<Unevenness>, bound: f64) {
    // With one of a kind there is nobody to share with.
    if let Some(uneven) = uneven {
        let what = format!("most over fewest turns among {among}");
        let measured = format!("{:.2}", uneven.ratio);
        let limit = format!("at most {bound:.2}, or one turn in each round");
        table.bound(&what, measured, limit, uneven.is_within(bound));
    }
}
