//! Locks that are there before their servers, and for more than one runtime.

mod support;

use redlatch::{LazyError, LockError, Locks, NodesError, RestartGuard, Vote};
use redlatch_testbed::Server;
use std::sync::LazyLock;
use support::{Fleet, LIMIT, MS, NAME, SEC, in_time, patient};
use tokio::runtime::{Builder, Runtime};

#[tokio::test]
async fn a_service_may_start_before_its_servers() {
    let server = Server::start().unwrap();
    server.kill();
    let locks = patient().node(server.url()).connect_lazy().unwrap();
    let nobody = locks.lock(NAME).await;
    assert!(matches!(nobody, Err(LockError::NoMajority { .. })), "{nobody:?}");

    let waiting = tokio::spawn(locks.lock(NAME).wait(LIMIT).into_future());
    server.restart();

    assert!(in_time(waiting).await.unwrap().unwrap().is_held());
}

#[tokio::test]
async fn without_the_guard_a_server_that_stands_twice_in_the_list_votes_once() {
    let fleet = Fleet::of(2);
    let alias = fleet.servers[0].url().replace("127.0.0.1", "localhost");
    let urls = [fleet.servers[0].url(), alias.clone(), fleet.servers[1].url()];
    fleet.servers[1].kill();
    let locks = patient().nodes(urls).connect_lazy().unwrap();

    let refused = locks.lock(NAME).await;

    let Err(LockError::NoMajority { votes }) = refused else { panic!("{refused:?}") };
    let granted = votes.iter().filter(|node| matches!(node.vote, Vote::Numbered(_))).count();
    assert!(granted <= 1, "{votes}");
    assert!(votes.to_string().contains("the same server as"), "{votes}");
}

#[tokio::test]
async fn with_the_guard_a_server_that_stands_twice_in_the_list_never_makes_a_majority() {
    let fleet = Fleet::of(2);
    let alias = fleet.servers[0].url().replace("127.0.0.1", "localhost");
    let urls = [fleet.servers[0].url(), alias, fleet.servers[1].url()];
    fleet.servers[1].kill();
    let locks = patient().restart_guard(RestartGuard::On).max_ttl(SEC).skew(SEC);
    let locks = locks.ttl(SEC).node_timeout(300 * MS).nodes(urls).connect_lazy().unwrap();

    // Longer than any quarantine of these settings.
    let refused = locks.lock(NAME).wait(5 * SEC).await;

    assert!(refused.is_err(), "{refused:?}");
}

#[tokio::test]
async fn settings_that_are_wrong_are_refused_without_asking_anybody() {
    let none = Locks::builder().connect_lazy();
    let url = Locks::builder().node("localhost:6379").connect_lazy();
    let ttl = Locks::builder().node("memory:").ttl(31 * SEC).connect_lazy();

    assert!(matches!(none, Err(LazyError::Nodes(NodesError::None))), "{none:?}");
    assert!(matches!(url, Err(LazyError::Nodes(NodesError::Url(_)))), "{url:?}");
    assert!(matches!(ttl, Err(LazyError::Invalid(_))), "{ttl:?}");
}

#[test]
fn a_lazy_engine_needs_a_runtime_or_a_thread_of_its_own() {
    let nowhere = Locks::builder().node("memory:").connect_lazy();
    let thread = Locks::builder().node("memory:").dedicated_thread().connect_lazy();
    let blocking = Locks::builder().node("memory:").connect_lazy_blocking();

    assert!(matches!(nowhere, Err(LazyError::NoRuntime(_))), "{nowhere:?}");
    assert!(thread.is_ok(), "{thread:?}");
    assert!(blocking.unwrap().lock(NAME).acquire().unwrap().is_held());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn a_static_with_a_thread_of_its_own_serves_one_runtime_after_the_other_and_both_at_once() {
    static LOCKS: LazyLock<Locks> = LazyLock::new(|| {
        Locks::builder().node("memory:").dedicated_thread().connect_lazy().unwrap()
    });
    let first = runtime();
    let guard = first.block_on(async { LOCKS.lock("a").await }).unwrap();
    let second = runtime();
    // In time: an engine on the first runtime would have to wait for that to run.
    let other = second.block_on(async { in_time(LOCKS.try_lock("a").into_future()).await });
    assert!(other.unwrap().is_none());

    drop(first);

    assert!(guard.is_held(), "its engine is not the runtime's");
    second.block_on(guard.release()).unwrap();
    assert!(second.block_on(LOCKS.lock("a").into_future()).unwrap().is_held());
}

#[test]
fn a_static_on_a_runtime_ends_with_that_runtime() {
    static LOCKS: LazyLock<Locks> =
        LazyLock::new(|| Locks::builder().node("memory:").connect_lazy().unwrap());
    let first = runtime();
    assert!(first.block_on(async { LOCKS.lock("a").await }).is_ok());

    drop(first);

    let refused = runtime().block_on(LOCKS.lock("a").into_future());
    assert!(matches!(refused, Err(LockError::Stopped)), "{refused:?}");
}

#[test]
fn a_runtime_without_timers_or_io_is_refused_with_what_to_enable() {
    let server = Server::start().unwrap();
    let connect = |runtime: &Runtime, url: &str| {
        runtime.block_on(patient().node(url).connect()).map_err(|error| error.to_string())
    };
    let bare = Builder::new_current_thread().build().unwrap();
    let timed = Builder::new_current_thread().enable_time().build().unwrap();

    for (runtime, url, missing) in [
        (&bare, &*server.url(), "`enable_time`"),
        (&bare, "memory:", "`enable_time`"),
        (&timed, &*server.url(), "`enable_io`"),
    ] {
        let error = connect(runtime, url).unwrap_err();
        assert!(error.starts_with("no engine can be started: "), "{error}");
        assert!(error.contains(missing) && error.contains("`dedicated_thread`"), "{error}");
    }
    assert!(connect(&timed, "memory:").is_ok(), "it needs no I/O");
}
