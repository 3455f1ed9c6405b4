//! Waiting in line on real servers: woken, in order, and nothing left behind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{LockError, Locks, RestartGuard};
use redlatch_core::line::LARGEST_SKEW;
use std::sync::{Arc, Mutex};
use support::{Fleet, LIMIT, MS, NAME, in_time, soon};

/// Locks with everything on, as by default, on servers that nobody has used.
async fn guarded(fleet: &Fleet) -> Locks {
    let builder = fleet.builder().restart_guard(RestartGuard::On).admit_new_servers();
    builder.wait(LIMIT).connect().await.unwrap()
}

/// How many tickets one server keeps for the lock.
fn tickets(fleet: &Fleet, node: usize) -> usize {
    let line = fleet.servers[node].run(&["GET", &format!("redlatch:line:{NAME}")]).text();
    line.map_or(0, |line| line.split(' ').count())
}

/// Starts a caller and waits until it is in line.
async fn joins(
    fleet: &Fleet,
    locks: &Locks,
    number: usize,
    served: &Arc<Mutex<Vec<usize>>>,
) -> tokio::task::JoinHandle<()> {
    let before = tickets(fleet, 0);
    let (locks, served) = (locks.clone(), Arc::clone(served));
    let task = tokio::spawn(async move {
        let guard = locks.lock(NAME).await.unwrap();
        served.lock().unwrap().push(number);
        guard.release().await.unwrap();
    });
    soon("it is in line", || tickets(fleet, 0) > before).await;
    task
}

#[tokio::test]
async fn clients_are_served_in_the_order_of_their_arrival() {
    for nodes in [1, 3] {
        let fleet = Fleet::of(nodes);
        let guard = guarded(&fleet).await.lock(NAME).await.unwrap();
        let served = Arc::<Mutex<Vec<usize>>>::default();
        let mut tasks = Vec::new();
        for number in 0..5 {
            let locks = guarded(&fleet).await;
            tasks.push(joins(&fleet, &locks, number, &served).await);
        }

        guard.release().await.unwrap();
        for task in tasks {
            in_time(task).await.unwrap();
        }

        assert_eq!(*served.lock().unwrap(), [0, 1, 2, 3, 4]);
        soon("nothing is left", || fleet.keys().iter().all(|key| key == "redlatch:node")).await;
    }
}

/// The clients that listen on a server: the ids of their connections.
fn listening(fleet: &Fleet, node: usize) -> Vec<String> {
    let list = fleet.servers[node].run(&["CLIENT", "LIST", "TYPE", "pubsub"]).text();
    let ids = |line: &str| Some(line.strip_prefix("id=")?.split(' ').next()?.to_owned());
    list.unwrap_or_default().lines().filter_map(ids).collect()
}

/// The first in line is cut off from all servers as the lock is released, when it has waited
/// for so long that they would not believe it any more. Others hold the lock until it
/// listens again, so that it is overtaken by one of them at most.
#[tokio::test]
async fn a_waiter_that_is_cut_off_as_the_lock_is_released_keeps_its_place() {
    for nodes in [1, 3] {
        let fleet = Fleet::of(nodes);
        let holder = guarded(&fleet).await;
        let guard = holder.lock(NAME).fair(false).await.unwrap();
        let served = Arc::<Mutex<Vec<usize>>>::default();
        let clients = 5;
        let (mut tasks, mut first) = (Vec::new(), Vec::new());
        let mut all = Vec::new();
        for number in 0..clients {
            let locks = guarded(&fleet).await;
            all.push(locks.clone());
            let served = Arc::clone(&served);
            let request = locks.lock(NAME);
            let before = tickets(&fleet, nodes - 1);
            tasks.push(tokio::spawn(async move {
                let guard = request.await.unwrap();
                served.lock().unwrap().push(number);
                guard
            }));
            soon("it is in line", || tickets(&fleet, nodes - 1) > before).await;
            if number == 0 {
                first = (0..nodes).map(|node| listening(&fleet, node)).collect();
            }
        }
        tokio::time::sleep(LARGEST_SKEW + LARGEST_SKEW / 10).await;

        for (node, ids) in first.iter().enumerate() {
            assert_eq!(ids.len(), 1);
            let killed = fleet.servers[node].run(&["CLIENT", "KILL", "ID", &ids[0]]);
            assert_eq!(killed.int(), Some(1));
        }
        guard.release().await.unwrap();
        for turn in 1..=clients {
            soon("the next has its turn", || served.lock().unwrap().len() == turn).await;
            let listen = |node| listening(&fleet, node).len() == clients;
            soon("all listen", || (0..nodes).all(listen)).await;
            let number = served.lock().unwrap()[turn - 1];
            let guard = in_time(&mut tasks[number]).await.unwrap();
            guard.release().await.unwrap();
        }

        let served = served.lock().unwrap().clone();
        let others: Vec<_> = served.iter().copied().filter(|number| *number > 0).collect();
        assert!(served[..2].contains(&0), "{served:?}");
        assert!(others.is_sorted(), "{served:?}");
    }
}

#[tokio::test]
async fn callers_of_one_client_are_served_in_the_order_of_their_arrival() {
    let fleet = Fleet::of(3);
    let locks = guarded(&fleet).await;
    let guard = locks.lock(NAME).await.unwrap();
    let served = Arc::<Mutex<Vec<usize>>>::default();
    let callers: Vec<_> = (0..50)
        .map(|number| {
            let (request, served) = (locks.lock(NAME), Arc::clone(&served));
            async move {
                let guard = request.await.unwrap();
                served.lock().unwrap().push(number);
                guard.release().await.unwrap();
            }
        })
        .collect();
    let all = futures_util::future::join_all(callers);

    let ((), _) = in_time(async {
        tokio::join!(
            async {
                tokio::time::sleep(20 * MS).await;
                guard.release().await.unwrap();
            },
            all
        )
    })
    .await;

    assert!(served.lock().unwrap().is_sorted());
    soon("nothing is left", || fleet.keys().iter().all(|key| key == "redlatch:node")).await;
}

#[tokio::test]
async fn a_guard_that_is_dropped_wakes_the_next_as_well() {
    let fleet = Fleet::of(3);
    let (holder, waiter) = (guarded(&fleet).await, guarded(&fleet).await);
    let guard = holder.lock(NAME).await.unwrap();
    let served = Arc::<Mutex<Vec<usize>>>::default();
    let task = joins(&fleet, &waiter, 0, &served).await;

    drop(guard);

    in_time(task).await.unwrap();
    assert_eq!(*served.lock().unwrap(), [0]);
}

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_no_ticket() {
    let fleet = Fleet::of(3);
    let (holder, waiter) = (guarded(&fleet).await, guarded(&fleet).await);
    let guard = holder.lock(NAME).await.unwrap();

    let timed_out = waiter.lock(NAME).wait(100 * MS).await;
    let cancelled = tokio::time::timeout(100 * MS, waiter.lock(NAME).into_future()).await;

    assert!(matches!(timed_out, Err(LockError::Held { .. })), "{timed_out:?}");
    cancelled.unwrap_err();
    waiter.settled().await;
    assert_eq!([0, 1, 2].map(|node| tickets(&fleet, node)), [0; 3]);
    guard.release().await.unwrap();
    soon("nothing is left", || fleet.keys().iter().all(|key| key == "redlatch:node")).await;
}

#[tokio::test]
async fn an_error_says_how_many_are_ahead() {
    let fleet = Fleet::of(1);
    let holder = guarded(&fleet).await;
    let _guard = holder.lock(NAME).await.unwrap();
    let served = Arc::<Mutex<Vec<usize>>>::default();
    let first = guarded(&fleet).await;
    let _task = joins(&fleet, &first, 0, &served).await;

    let refused = guarded(&fleet).await.lock(NAME).wait(50 * MS).await.unwrap_err();

    assert!(refused.to_string().contains("1 ahead of us in line"), "{refused}");
}

/// It barges, which is what it asked for.
#[tokio::test]
async fn a_request_that_does_not_wait_in_line_leaves_no_ticket() {
    let fleet = Fleet::of(3);
    let (holder, waiter) = (guarded(&fleet).await, guarded(&fleet).await);
    let guard = holder.lock(NAME).await.unwrap();

    let unfair = waiter.lock(NAME).fair(false).wait(50 * MS).await;

    assert!(matches!(unfair, Err(LockError::Held { .. })), "{unfair:?}");
    assert_eq!(fleet.calls(0, "publish"), 0);
    assert_eq!(tickets(&fleet, 0), 0);
    guard.release().await.unwrap();
}
