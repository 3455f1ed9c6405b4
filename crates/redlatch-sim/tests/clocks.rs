//! When the order of fencing tokens rests on the nodes' clocks, and how far apart
//! these may be. README says so; this shows it.

use redlatch_sim::search::{
    schedule::{
        Clocks, Job, Network, Party, Process, RestartGuard, Schedule, Span, Trouble, Wrong,
    },
    world::{Options, play},
};

const SECOND: u64 = 1_000_000;
const MAX_TTL: u64 = 2 * SECOND;

/// Three nodes, the first one ahead of the others, and two clients, one far ahead
/// of all nodes and one far behind. The first client is granted a lock; the nodes
/// in `forget` lose their memory at once and are admitted again; while the first
/// node is down, the second client is granted the lock.
fn history(ahead: u64, forget: &[usize]) -> Schedule {
    let clocks = |wall: i64| Clocks { drift: 0, wall };
    let process = |wall| Process { clocks: clocks(wall), party: 0 };
    let far = 1000 * i64::try_from(SECOND).expect("a small number");
    let flushes = forget.iter().map(|node| (2 * SECOND, Wrong::Flush { node: *node }));
    let lasts = Span(20 * SECOND);
    let down = Wrong::CrashNode { node: 0, forgets: false, spare: false, silent: false, lasts };
    let troubles = flushes.chain([(8 * SECOND, down)]);
    Schedule {
        seed: 7,
        nodes: vec![clocks(i64::try_from(ahead).expect("a small number")), clocks(0), clocks(0)],
        registers: vec![0; 3],
        clients: vec![process(far), process(-far)],
        parties: vec![Party {
            list: vec![0, 1, 2],
            guard: RestartGuard::Strict,
            max_ttl: Span(MAX_TTL),
            skew: Span(2 * SECOND),
        }],
        network: Network {
            least: Span(100),
            most: Span(200),
            stragglers: 0,
            straggle: Span(0),
            wakes_lost: 0,
        },
        fresh: false,
        calm_at: Span(60 * SECOND),
        jobs: vec![job(19 * SECOND / 10, 0), job(21 * SECOND / 10, 0), job(9 * SECOND, 1)],
        troubles: troubles.map(|(at, what)| Trouble { at: Span(at), what }).collect(),
    }
}

fn job(at: u64, client: usize) -> Job {
    Job {
        at: Span(at),
        client,
        resources: vec![0],
        ttl: Span(SECOND),
        wait: Span(5 * SECOND * u64::from(client == 1)),
        fenced: true,
        hold: Span(1000),
        must: client == 1,
        ..Job::default()
    }
}

fn broken(ahead: u64, forget: &[usize]) -> Option<&'static str> {
    let options = Options { by_clock: true, ..Options::default() };
    play(&history(ahead, forget), options).violation.map(|violation| violation.invariant)
}

#[test]
fn tokens_keep_their_order_if_all_nodes_forget_and_their_clocks_are_less_than_max_ttl_apart() {
    assert_eq!(broken(MAX_TTL * 19 / 20, &[0, 1, 2]), None);
}

#[test]
fn tokens_fall_back_if_all_nodes_forget_and_a_clock_is_a_window_ahead_of_the_others() {
    assert_eq!(broken(4 * MAX_TTL, &[0, 1, 2]), Some("fencing"));
}

#[test]
fn clocks_do_not_matter_as_long_as_a_majority_remembers() {
    for forgets in [0, 1, 2] {
        assert_eq!(broken(1000 * SECOND, &[forgets]), None, "node {forgets}");
    }
}
