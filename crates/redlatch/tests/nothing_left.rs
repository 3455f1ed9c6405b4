//! Ten thousand locks that are cancelled, timed out or dropped at random: not a
//! key, a connection, a task, a thread or a file descriptor is left. Alone in
//! its file, because it counts what the whole process has.

mod support;

use redlatch::Locks;
use std::{fs, sync::Arc, time::Duration};
use support::{Fleet, in_time, soon};
use tokio::{runtime, task::JoinSet};

const ACQUIRES: u64 = 10_000;
const CALLERS: u64 = 64;
/// Few enough that most callers meet somebody.
const NAMES: u32 = 24;

#[test]
fn ten_thousand_acquires_ended_at_random_leave_nothing() {
    for (nodes, seed) in [(3, 0x5eed), (5, 42)] {
        let fleet = Arc::new(Fleet::of(nodes));
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");

        let counts = runtime.block_on(storm(fleet, seed));

        println!("{nodes} nodes, seed {seed:#x}: {counts:?}");
        // A storm in which one of these does not happen shows nothing.
        let Counts { granted, refused, timed_out, aborted } = counts;
        assert_eq!(granted + refused + timed_out + aborted, ACQUIRES);
        for count in [granted, refused, timed_out, aborted] {
            assert!(count > 100, "{counts:?}");
        }
    }
}

/// How the acquires ended.
#[derive(Debug, Default)]
struct Counts {
    granted: u64,
    refused: u64,
    timed_out: u64,
    aborted: u64,
}

async fn storm(fleet: Arc<Fleet>, seed: u64) -> Counts {
    // The keeper, and all that is made once per process.
    let warm_up = fleet.locks().await;
    drop(warm_up.lock("warm-up").await.expect("a lock"));
    warm_up.settled().await;
    drop(warm_up);
    soon("the warm-up is over", || clients(&fleet) == 0).await;
    let before = Left::here();

    let locks = fleet.locks().await;
    let mut counts = Counts::default();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let random = Random::new(seed.wrapping_mul(CALLERS + 1).wrapping_add(caller));
        let share = (ACQUIRES + CALLERS - 1 - caller) / CALLERS;
        callers.spawn(call(locks.clone(), random, share));
    }
    while let Some(done) = callers.join_next().await {
        let done = done.expect("a caller that ends well");
        counts.granted += done.granted;
        counts.refused += done.refused;
        counts.timed_out += done.timed_out;
        counts.aborted += done.aborted;
    }

    in_time(locks.settled()).await;
    assert_eq!(fleet.keys(), [""; 0], "keys are left");
    assert_eq!(clients(&fleet), fleet.servers.len(), "one connection per node");
    drop(locks);
    soon("no connection is left", || clients(&fleet) == 0).await;
    soon("nothing else is left", || Left::here() == before).await;
    counts
}

/// One caller's share of the acquires, each ended at random.
async fn call(locks: Locks, mut random: Random, acquires: u64) -> Counts {
    let mut counts = Counts::default();
    for _ in 0..acquires {
        let name = format!("lock:{}", random.below(NAMES));
        let request = match random.below(4) {
            0 => locks.lock_all([name, format!("set:{}", random.below(NAMES))]),
            _ => locks.lock(name),
        };
        let request = request.wait(random.below(20_000) * MICROSECOND);
        let patience = random.below(3_000) * MICROSECOND;
        match random.below(3) {
            0 => {
                let task = tokio::spawn(request.into_future());
                tokio::time::sleep(patience).await;
                task.abort();
                match task.await {
                    Err(_) => counts.aborted += 1,
                    Ok(Ok(_dropped)) => counts.granted += 1,
                    Ok(Err(_)) => counts.refused += 1,
                }
            }
            1 => match tokio::time::timeout(patience, request.into_future()).await {
                Err(_) => counts.timed_out += 1,
                Ok(Ok(_dropped)) => counts.granted += 1,
                Ok(Err(_)) => counts.refused += 1,
            },
            _ => match request.await {
                Err(_) => counts.refused += 1,
                Ok(guard) => {
                    counts.granted += 1;
                    end(guard, &mut random).await;
                }
            },
        }
    }
    counts
}

/// The ways to be done with a guard.
async fn end(guard: redlatch::Guard, random: &mut Random) {
    let patience = random.below(1_000) * MICROSECOND;
    match random.below(4) {
        0 => drop(guard),
        1 => drop(guard.release().await),
        2 => drop(tokio::time::timeout(patience, guard.release()).await),
        _ => {
            let _ = tokio::time::timeout(patience, guard.extend()).await;
            drop(guard);
        }
    }
}

fn clients(fleet: &Fleet) -> usize {
    fleet.servers.iter().map(redlatch_testbed::Server::connected_clients).sum()
}

/// What a process can leave lying about.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    file_descriptors: usize,
    threads: usize,
    tasks: usize,
}

impl Left {
    fn here() -> Self {
        let count = |path| fs::read_dir(path).expect("our own process").count();
        Left {
            file_descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            tasks: runtime::Handle::current().metrics().num_alive_tasks(),
        }
    }
}

const MICROSECOND: Duration = Duration::from_micros(1);

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let random = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from((random * u64::from(bound)) >> 32).expect("less than the bound")
    }
}
