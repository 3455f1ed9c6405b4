//! Ten thousand locks that are cancelled, timed out or dropped at random leave no
//! key, connection, task, thread or file descriptor. Alone in its file, because it
//! counts what the whole process has.

mod support;

use redlatch::Locks;
use redlatch_core::dice::Dice;
use std::{fs, sync::Arc, time::Duration};
use support::{Fleet, in_time, soon};
use tokio::{runtime, task::JoinSet};

const ACQUIRES: u64 = 10_000;
const CALLERS: u64 = 64;
/// Few enough that most callers meet somebody.
const NAMES: u64 = 24;

#[test]
fn ten_thousand_acquires_ended_at_random_leave_nothing() {
    for (nodes, seed) in [(3, 0x5eed), (5, 42)] {
        let fleet = Arc::new(Fleet::of(nodes));
        let others = pollers();
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let of_a_runtime = pollers() - others;

        let counts = runtime.block_on(storm(fleet, seed, of_a_runtime));

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

async fn storm(fleet: Arc<Fleet>, seed: u64, of_a_runtime: usize) -> Counts {
    // The keeper, and all that is made once per process.
    let warm_up = fleet.locks().await;
    drop(warm_up.lock("warm-up").await.expect("a lock"));
    soon("the keeper has a runtime as well", || pollers() >= 2 * of_a_runtime).await;
    warm_up.settled().await;
    drop(warm_up);
    soon("the warm-up is over", || clients(&fleet) == 0).await;
    let before = Left::here();

    let locks = fleet.locks().await;
    let mut counts = Counts::default();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let random = Dice::of(seed, &[caller]);
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
    // The keeper may have helped an engine that got no processor.
    soon("one connection per node is left", || clients(&fleet) == fleet.servers.len()).await;
    drop(locks);
    soon("no connection is left", || clients(&fleet) == 0).await;
    soon("nothing else is left", || Left::here().is_no_more_than(&before)).await;
    counts
}

/// One caller's share of the acquires, each ended at random.
async fn call(locks: Locks, mut random: Dice, acquires: u64) -> Counts {
    let mut counts = Counts::default();
    for _ in 0..acquires {
        let name = format!("lock:{}", random.below(NAMES));
        let request = match random.below(4) {
            0 => locks.lock_all([name, format!("set:{}", random.below(NAMES))]),
            _ => locks.lock(name),
        };
        let request = request.wait(random.time(Duration::ZERO, Duration::from_millis(20)));
        let patience = random.time(Duration::ZERO, Duration::from_millis(3));
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
async fn end(guard: redlatch::Guard, random: &mut Dice) {
    let patience = random.time(Duration::ZERO, Duration::from_millis(1));
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

/// How many file descriptors of this process wait for others: every runtime has some.
fn pollers() -> usize {
    let all = fs::read_dir("/proc/self/fd").expect("our own process").flatten();
    let leads_to = all.filter_map(|entry| fs::read_link(entry.path()).ok());
    leads_to.filter(|path| path.ends_with("anon_inode:[eventpoll]")).count()
}

/// What a process can leave lying about.
#[derive(Debug)]
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

    /// It may be less: what the warm-up left may have been on its way out.
    fn is_no_more_than(&self, before: &Self) -> bool {
        self.file_descriptors <= before.file_descriptors
            && self.threads <= before.threads
            && self.tasks <= before.tasks
    }
}
