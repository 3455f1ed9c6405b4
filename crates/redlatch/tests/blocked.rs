//! Blocked threads and stopped processes: the lease is renewed or its loss is
//! signalled in time, and no process wakes up believing in a lock that has ended.

mod support;

use redlatch::{Lease, Lost};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use support::{Fleet, LIMIT, MS, NAME, SEC, child::Child, log::Log};
use tokio::runtime::Builder;

const TTL: Duration = Duration::from_secs(2);
const MAX_HOLD: Duration = Duration::from_secs(3600);

/// Locks whose whole runtime, engine included, is blocked by its own task.
struct Blocked {
    leases: Vec<Lease>,
    unblock: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Blocked {
    fn on(fleet: &Fleet) -> Self {
        Blocked::holding(fleet, vec![NAME.to_owned()], TTL, MAX_HOLD)
    }

    fn holding(fleet: &Fleet, names: Vec<String>, ttl: Duration, max_hold: Duration) -> Self {
        let urls = fleet.servers.urls();
        let (send_leases, leases) = mpsc::channel();
        let (unblock, blocking) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let locks = support::patient().nodes(urls).connect().await.expect("locks");
                let mut guards = Vec::new();
                for name in names {
                    let request = locks.lock(name).ttl(ttl).max_hold(max_hold);
                    let request = request.node_timeout(ttl / 5).notice(ttl / 5);
                    guards.push(request.await.expect("a lock"));
                }
                let leases = guards.iter().map(redlatch::Guard::lease).collect();
                send_leases.send(leases).expect("the test listens");
                // Never yields: nothing else on this thread can go on.
                while blocking.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    thread::sleep(MS);
                }
                drop(guards);
                locks.settled().await;
            });
        });
        let leases = leases.recv().expect("leases");
        Blocked { leases, unblock, thread }
    }

    fn lease(&self) -> &Lease {
        &self.leases[0]
    }

    fn unblock(self) {
        self.unblock.send(()).expect("it waits for this");
        self.thread.join().expect("a thread that ends well");
    }
}

#[test]
fn a_lease_whose_runtime_is_blocked_for_three_ttls_is_renewed_all_the_time() {
    let fleet = Fleet::of(3);
    let blocked = Blocked::on(&fleet);
    let begin = Instant::now();

    let mut renewals = 0;
    let mut before = blocked.lease().remaining();
    while begin.elapsed() < 3 * TTL {
        let now = blocked.lease().remaining();
        renewals += u32::from(now > before);
        before = now;
        assert!(blocked.lease().is_held(), "lost after {:?}", begin.elapsed());
        assert!(fleet.nodes_with(NAME) >= 2, "no majority after {:?}", begin.elapsed());
        thread::sleep(20 * MS);
    }

    assert!(renewals >= 3, "{renewals} renewals");
    assert!((0..3).filter(|node| !fleet.time_to_live(*node, NAME).is_zero()).count() >= 2);
    blocked.unblock();
    assert_eq!(fleet.keys(), [""; 0], "the engine, awake again, knows what the keeper did");
}

/// It would race a release: the undo goes over the engine's connections.
#[test]
fn the_keeper_does_not_put_a_key_back_where_it_is_missing() {
    let fleet = Fleet::of(3);
    let blocked = Blocked::on(&fleet);
    redlatch_testbed::eventually(LIMIT, || fleet.remove(2, NAME));
    let extended = || fleet.calls(0, "pexpire");
    let before = extended();

    // Whatever followed the first extension is on the nodes with the third.
    redlatch_testbed::eventually(LIMIT, || extended() >= before + 3);

    assert_eq!(fleet.value(2, NAME), None);
    assert!(blocked.lease().is_held());
    blocked.unblock();
}

#[test]
fn fault_51_all_leases_of_a_blocked_runtime_are_renewed_over_one_connection_to_each_node() {
    const LONG: Duration = Duration::from_secs(6);
    let fleet = Fleet::of(3);
    let names = (0..300).map(|number| format!("invoice:{number}")).collect();
    let blocked = Blocked::holding(&fleet, names, LONG, MAX_HOLD);
    let begin = Instant::now();

    let mut most = 0;
    while begin.elapsed() < 3 * LONG {
        most = most.max((0..3).map(|node| fleet.connections(node)).max().unwrap_or(0));
        let lost = blocked.leases.iter().filter(|lease| !lease.is_held()).count();
        assert_eq!(lost, 0, "lost after {:?}", begin.elapsed());
        thread::sleep(20 * MS);
    }

    assert_eq!(most, 2, "the engine's and the keeper's");
    let held = blocked.leases.clone();
    blocked.unblock();
    assert!(held.iter().all(|lease| !lease.is_held()), "it released them all");
    assert_eq!(fleet.keys(), [""; 0], "the engine, awake again, knows what the keeper did");
    redlatch_testbed::eventually(LIMIT, || (0..3).all(|node| fleet.connections(node) == 0));
}

#[test]
fn the_keeper_closes_its_connections_when_the_runtime_is_awake_again() {
    let fleet = Fleet::of(3);
    let urls = fleet.servers.urls();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();

    runtime.block_on(async {
        let locks = support::patient().nodes(urls).connect().await.unwrap();
        let guard = locks.lock(NAME).ttl(TTL).node_timeout(TTL / 5).notice(TTL / 5).await.unwrap();
        redlatch_testbed::eventually(LIMIT, || fleet.connections(0) == 2); // blocks
        assert!(guard.is_held());

        support::soon("only the engine's is left", || fleet.connections(0) == 1).await;

        assert!(guard.is_held(), "the engine renews it again");
    });
}

#[test]
fn a_guard_that_a_blocked_runtime_dropped_is_released_by_the_keeper() {
    let fleet = Fleet::of(3);
    let urls = fleet.servers.urls();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();

    runtime.block_on(async {
        let locks = support::patient().nodes(urls).connect().await.unwrap();
        let guard = locks.lock(NAME).ttl(30 * SEC).await.unwrap();
        let lease = guard.lease();

        drop(guard);

        assert!(!lease.is_held(), "nobody holds it any more");
        redlatch_testbed::eventually(LIMIT, || fleet.keys().is_empty()); // blocks
        locks.settled().await;
    });
}

#[test]
fn a_lease_that_a_blocked_runtime_handed_over_is_not_renewed_by_the_keeper() {
    let fleet = Fleet::of(3);
    let urls = fleet.servers.urls();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();

    runtime.block_on(async {
        let locks = support::patient().nodes(urls).connect().await.unwrap();
        let guard = locks.lock(NAME).ttl(TTL).node_timeout(TTL / 5).notice(TTL / 5).await.unwrap();

        let _parts = guard.into_parts();

        redlatch_testbed::eventually(LIMIT, || fleet.keys().is_empty()); // blocks
    });
}

/// The engine's task was woken by a worker that then works on without yielding.
#[test]
fn what_a_busy_worker_gave_up_is_undone_by_another() {
    let fleet = Fleet::of(3);
    let urls = fleet.servers.urls();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();

    runtime.block_on(async move {
        let first = support::patient().nodes(&urls).connect().await.unwrap();
        let second = support::patient().nodes(&urls).connect().await.unwrap();
        let _guard = first.lock(NAME).ttl(30 * SEC).await.unwrap();
        let worker = async move {
            let line = format!("redlatch:waits:{NAME}");
            let waits = || fleet.servers[0].run(&["EXISTS", &line]).int() == Some(1);
            let mut waiting = Box::pin(second.lock(NAME).wait(LIMIT).into_future());
            tokio::select! {
                result = &mut waiting => panic!("{result:?}"),
                () = support::soon("it waits in line", waits) => (),
            }

            drop(waiting);

            redlatch_testbed::eventually(LIMIT, || !waits()); // never yields
        };
        tokio::spawn(worker).await.unwrap();
    });
}

#[test]
fn the_keeper_renews_the_lease_of_a_blocked_runtime_no_longer_than_max_hold() {
    let fleet = Fleet::of(3);
    let blocked = Blocked::holding(&fleet, vec![NAME.to_owned()], TTL, 2 * TTL);

    let (lost, _) = watch(blocked.lease());

    assert_eq!(lost, Lost::MaxHold);
    blocked.unblock();
}

#[test]
fn a_keeper_that_found_no_descriptors_rescues_leases_once_there_are_some() {
    let fleet = Fleet::of(3);
    let urls = fleet.servers.urls().join(" ");

    let mut child = Child::start("child_has_no_descriptors_for_its_keeper", &urls);

    assert_eq!(child.hear().as_deref(), Some("the keeper cannot run yet"));
    assert_eq!(child.hear().as_deref(), Some("held: true"));
    assert!(child.end().success());
}

#[test]
#[ignore = "a process of its own, started by another test"]
fn child_has_no_descriptors_for_its_keeper() {
    let Some(urls) = Child::handed() else { return };
    let log = Log::everything();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let locks = support::patient().nodes(urls.split(' ')).connect().await.expect("locks");
        let limit = getrlimit(Resource::Nofile);
        // What is open stays open; nothing can be opened.
        setrlimit(Resource::Nofile, Rlimit { current: Some(0), ..limit }).expect("a lower limit");
        // The first lease starts the keeper.
        let guard = locks.lock(NAME).ttl(TTL).node_timeout(TTL / 5).notice(TTL / 5);
        let guard = guard.await.expect("a lock over open connections");
        redlatch_testbed::eventually(LIMIT, || log.text().contains("the keeper cannot run yet"));
        setrlimit(Resource::Nofile, limit).expect("the limit as it was");
        Child::say("the keeper cannot run yet");

        thread::sleep(2 * TTL); // blocks the engine

        Child::say(&format!("held: {}", guard.is_held()));
    });
}

#[test]
fn with_all_nodes_frozen_loss_is_signalled_before_the_lease_of_a_blocked_runtime_ends() {
    for round in 0..5 {
        let fleet = Fleet::of(3);
        let blocked = Blocked::on(&fleet);

        fleet.servers.freeze(&[0, 1, 2]);
        let (lost, ends) = watch(blocked.lease());
        let seen = Instant::now();

        assert!(matches!(lost, Lost::Expired { .. }), "round {round}: {lost}");
        assert!(seen < ends, "round {round}: {:?} too late", seen - ends);
        assert!(!blocked.lease().is_held());
        fleet.servers.thaw(&[0, 1, 2]);
        blocked.unblock();
    }
}

#[test]
fn a_lease_that_the_keeper_could_not_extend_is_lost_with_the_votes_the_keeper_got() {
    let fleet = Fleet::of(3);
    let blocked = Blocked::holding(&fleet, vec![NAME.to_owned()], 6 * SEC, MAX_HOLD);

    fleet.servers.freeze(&[0, 2]);
    let (lost, _) = watch(blocked.lease());
    fleet.servers.thaw(&[0, 2]);

    let Lost::Expired { votes: Some(votes) } = &lost else { panic!("{lost:?}") };
    assert_eq!((votes.tally().granted, votes.tally().failed), (1, 2), "{lost}");
    assert_eq!(blocked.lease().votes(), *votes);
    blocked.unblock();
}

/// Waits for the loss from this thread; also the end that the lease last had.
fn watch(lease: &Lease) -> (Lost, Instant) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut ends = Instant::now();
    runtime.block_on(async {
        loop {
            match lease.remaining() {
                Duration::ZERO => {}
                left => ends = Instant::now() + left,
            }
            // Also woken by the signal itself, at once.
            match tokio::time::timeout(5 * MS, lease.lost()).await {
                Ok(lost) => return (lost, ends),
                Err(_) => assert!(ends + LIMIT > Instant::now(), "no signal at all"),
            }
        }
    })
}

#[test]
fn a_process_that_was_stopped_past_its_ttl_wakes_up_without_the_lock() {
    for renewal in ["renewed", "not renewed"] {
        let fleet = Fleet::of(3);
        let handed = format!("{renewal};{}", fleet.servers.urls().join(" "));
        let mut child = Child::start("child_holds_a_lock", &handed);
        assert_eq!(child.hear().as_deref(), Some("held: true"));

        child.freeze();
        redlatch_testbed::eventually(LIMIT, || fleet.keys().is_empty());
        child.go_on();
        child.thaw();

        // The first thing it does on waking is to look.
        assert_eq!(child.hear().as_deref(), Some("held: false"), "{renewal}");
        assert_eq!(child.hear().as_deref(), Some("0ns left"), "{renewal}");
        assert!(child.end().success());
    }
}

#[test]
#[ignore = "a process of its own, started by another test"]
fn child_holds_a_lock() {
    let Some(handed) = Child::handed() else { return };
    let (renewal, urls) = handed.split_once(';').expect("two parts");
    let locks = support::patient().nodes(urls.split(' ')).connect_blocking().expect("locks");
    let request = locks.lock(NAME).ttl(TTL).node_timeout(400 * MS);
    let request = if renewal == "renewed" { request } else { request.no_renewal() };
    let guard = request.acquire().expect("a lock");
    Child::say(&format!("held: {}", guard.is_held()));
    Child::wait_for_word();
    let (held, left) = (guard.is_held(), guard.remaining());
    Child::say(&format!("held: {held}"));
    Child::say(&format!("{left:?} left"));
    assert!(guard.extend().is_err());
}

#[test]
fn another_client_takes_over_from_a_stopped_process_and_keeps_the_lock_when_it_wakes() {
    let fleet = Fleet::of(3);
    let handed = format!("renewed;{}", fleet.servers.urls().join(" "));
    let mut child = Child::start("child_holds_a_lock", &handed);
    assert_eq!(child.hear().as_deref(), Some("held: true"));
    let other = fleet.blocking();

    child.freeze();
    let guard = other.lock(NAME).wait(LIMIT).acquire().expect("the lock of the stopped process");
    child.go_on();
    child.thaw();

    assert_eq!(child.hear().as_deref(), Some("held: false"));
    assert!(child.end().success());
    guard.extend().expect("what it undid was its own");
    assert_eq!(fleet.nodes_with(NAME), 3);
}

/// A runtime that is late reads, after the loss was signalled, the answer to an
/// extension it had sent before: by then nobody believes in the lock.
#[test]
fn a_lease_reported_as_lost_is_not_renewed_forever_by_a_late_engine() {
    let fleet = Fleet::of(3);
    let proxies: Vec<_> =
        fleet.servers.iter().map(|server| redlatch_testbed::Proxy::to(server).unwrap()).collect();
    let urls: Vec<_> = proxies.iter().map(redlatch_testbed::Proxy::url).collect();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let guard = runtime.block_on(async {
        let locks = support::patient().nodes(urls).connect().await.unwrap();
        let request = locks.lock(NAME).ttl(4 * SEC).node_timeout(1500 * MS).notice(2 * SEC);
        let guard = request.renew_every(300 * MS).await.unwrap();
        for proxy in &proxies {
            proxy.hold(redlatch_testbed::Direction::Replies);
        }
        // One extension leaves, and its answers are on the way …
        let calls = fleet.calls(0, "evalsha");
        support::soon("an extension is out", || fleet.calls(0, "evalsha") > calls).await;
        guard
    });
    for proxy in &proxies {
        proxy.release(redlatch_testbed::Direction::Replies);
    }
    // … when the runtime stands still, and the nodes as well.
    fleet.servers.freeze(&[0, 1, 2]);
    let (lost, _) = watch(&guard.lease());
    fleet.servers.thaw(&[0, 1, 2]);

    runtime.block_on(async {
        assert!(matches!(lost, Lost::Expired { .. }), "{lost}");
        assert!(!guard.is_held());
        fleet.is_tidy_soon().await;
    });
}
