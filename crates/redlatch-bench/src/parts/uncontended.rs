//! Acquire and release on healthy servers, each caller on a lock of its own.

use crate::{
    entrant::{BY_HAND, Entrant, FLOOR, OURS, PLAIN, RSLOCK},
    field::{Field, Lane, Shape},
    setting::{Setting, Turns, nodes_text, servers_with},
    spread::Spread,
    table::{Cell, Table},
    team::Slice,
    worker::Runtime,
};
use redlatch_testbed::{Flavour, Server};

/// How many callers at once, where that is looked at closely.
pub(crate) const LOADS: [usize; 6] = [1, 4, 16, 64, 256, 1_024];
const ENDS: [usize; 2] = [1, 256];

/// Servers, and the runtime of those who need one.
#[derive(Debug, Clone, Copy)]
struct Site {
    nodes: usize,
    server: Flavour,
    runtime: Runtime,
}

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let mut tables = Vec::new();
    for site in sites(setting) {
        let close = site.server == Flavour::Redis7 && site.nodes != 3;
        let loads: &[usize] = if close && !setting.short { &LOADS } else { &ENDS };
        let turns = if close {
            setting.turns((30, 100), (4, 60))
        } else {
            setting.turns((8, 100), (3, 50))
        };
        let entrants = [FLOOR, PLAIN, OURS, BY_HAND, RSLOCK].map(|one| one.on(site.runtime));
        let place = place(site.nodes, site.server, site.runtime);
        tables.extend(measure_one(site, &entrants, loads, turns, &place)?);
        let enough = setting.short && site.nodes == 1;
        if close && site.runtime == Runtime::Current && !enough {
            tables.extend(languages(setting, site)?);
        }
    }
    Ok(tables)
}

/// Beside peers in other languages, which need longer turns.
fn languages(setting: &Setting, site: Site) -> anyhow::Result<Vec<Table>> {
    let drivers = setting.drivers(site.nodes).cloned();
    let entrants: Vec<Entrant> = [FLOOR, OURS].into_iter().chain(drivers).collect();
    let turns = setting.turns((8, 250), (2, 100));
    measure_one(site, &entrants, &ENDS, turns, &languages_place(site.nodes, site.server))
}

fn sites(setting: &Setting) -> Vec<Site> {
    let mut sites = Vec::new();
    for server in [Flavour::Redis7, Flavour::Valkey] {
        for nodes in [5, 3, 1] {
            for runtime in [Runtime::Current, Runtime::Multi] {
                // When time is short, one of each kind.
                let usual = server == Flavour::Redis7 && nodes != 3;
                let single = nodes == 5 && runtime == Runtime::Current;
                if !setting.short || usual || single {
                    sites.push(Site { nodes, server, runtime });
                }
            }
        }
    }
    sites
}

fn measure_one(
    site: Site,
    entrants: &[Entrant],
    loads: &[usize],
    turns: Turns,
    place: &str,
) -> anyhow::Result<Vec<Table>> {
    let servers = servers_with(site.nodes, &Server::options().flavour(site.server))?;
    let mut field = Field::default();
    for entrant in entrants {
        field.enter(entrant, Shape::new(1, 1), &servers.urls())?;
    }
    let mut tables = Vec::new();
    for &callers in loads {
        field.set_tasks(callers);
        field.run(turns.rounds, Slice::own(callers, turns.slice))?;
        let mut table = Table::new(title(callers, place));
        rows(&mut table, &field, callers)?;
        bounds(&mut table, &field, site, callers)?;
        tables.push(table);
    }
    Ok(tables)
}

/// The figure that counts with this many callers: the latency of one, or the throughput of many.
fn over(lane: &Lane, base: &Lane, callers: usize) -> Option<Spread> {
    if callers == 1 { lane.cycle_over(base, 50) } else { lane.rate_over(base) }
}

fn rows(table: &mut Table, field: &Field, callers: usize) -> anyhow::Result<()> {
    let (floor, ours) = (field.floor(), field.ours()?);
    for lane in field.lanes() {
        table.row(
            &lane.name,
            vec![
                ("locks/s", lane.rate().into()),
                ("p50 µs", lane.cycle(50).into()),
                ("p99 µs", lane.cycle(99).into()),
                ("cpu µs", lane.cpu().into()),
                ("x floor", floor.and_then(|floor| over(lane, floor, callers)).into()),
                ("x redlatch", over(lane, ours, callers).into()),
                ("failed", lane.gave_up().into()),
            ],
        );
    }
    table.never(&format!("a request failed ({})", ours.why()), ours.gave_up());
    Ok(())
}

fn bounds(table: &mut Table, field: &Field, site: Site, callers: usize) -> anyhow::Result<()> {
    if site.server != Flavour::Redis7 {
        return Ok(());
    }
    let (ours, plain) = (field.ours()?, field.named(PLAIN.name));
    let floor =
        |lane: &Lane| -> Cell { field.floor().and_then(|floor| over(lane, floor, callers)).into() };
    let multi = site.runtime == Runtime::Multi;
    match (callers, site.nodes) {
        (1, 5) if !multi => {
            plain.inspect(|plain| table.at_most("plain: p50 over the floor's", floor(plain), 1.2));
            table.at_most("p50 over the floor's", floor(ours), 1.4);
        }
        (1, 1) if !multi => {
            table.at_most("p50 over the floor's", floor(ours), 1.2);
            if let Some(rslock) = field.named(RSLOCK.name) {
                table.at_most("p50 over rslock's", over(ours, rslock, callers), 1.0);
            }
        }
        (256, 5) => {
            let (least, least_plain) = if multi { (0.5, 0.7) } else { (0.65, 1.0) };
            table.at_least("locks per second over the floor's", floor(ours), least);
            if let Some(plain) = plain {
                let what = "plain: locks per second over the floor's";
                table.at_least(what, floor(plain), least_plain);
            }
            over_peers(table, field, ours, 2.0);
            if let Some(peer) = field.best_peer(|lane| Some(-lane.cpu()?)) {
                let what = format!("client CPU per lock over {}'s, the best peer", peer.name);
                table.at_most(&what, ours.cpu_over(peer), 0.25);
            }
        }
        (256, 1) => {
            plain.inspect(|plain| over_peers(table, field, plain, 1.5));
            over_peers(table, field, ours, 1.2);
        }
        _ => {}
    }
    Ok(())
}

fn over_peers(table: &mut Table, field: &Field, lane: &Lane, least: f64) {
    if let Some(peer) = field.best_peer(Lane::rate) {
        let what = format!("{}: locks per second over {}, the best peer", lane.name, peer.name);
        table.at_least(&what, lane.rate_over(peer), least);
    }
}

/// Where contenders in Rust are measured.
pub(crate) fn place(nodes: usize, server: Flavour, runtime: Runtime) -> String {
    let runtime = match runtime {
        Runtime::Current => "one thread",
        Runtime::Multi => "a thread per core",
    };
    format!("{}, {server}, {runtime}", nodes_text(nodes))
}

pub(crate) fn languages_place(nodes: usize, server: Flavour) -> String {
    format!("{}, {server}, other languages", nodes_text(nodes))
}

pub(crate) fn title(callers: usize, place: &str) -> String {
    let callers = if callers == 1 { "1 caller".to_owned() } else { format!("{callers} callers") };
    format!("uncontended: {callers}, {place}")
}
