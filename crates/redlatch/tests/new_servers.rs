//! Servers that were just started: what a newcomer sees, and how it goes on.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{Builder, LockError, Locks, Standing};
use redlatch_testbed::Server;
use std::time::{Duration, Instant};
use support::{Fleet, LIMIT, MS, NAME, SEC};

/// With the window that is the default: a minute.
fn guarded(fleet: &Fleet) -> Builder {
    Locks::builder().nodes(fleet.servers.urls()).node_timeout(SEC / 2).wait(5 * SEC)
}

#[tokio::test]
async fn new_servers_are_an_error_of_their_own_at_once_that_says_how_long_and_what_to_type() {
    let fleet = Fleet::of(3);
    let locks = guarded(&fleet).connect().await.unwrap();
    let begin = Instant::now();

    let error = locks.lock(NAME).wait(30 * SEC).await.unwrap_err();

    assert!(begin.elapsed() < 30 * SEC, "waiting could not help");
    let LockError::Quarantined { votes, remaining, admit } = &error else { panic!("{error}") };
    assert_eq!(votes.tally().quarantined, 3, "{votes}");
    let remaining = remaining.expect("they are being watched");
    assert!(remaining > 30 * SEC && remaining <= 60 * SEC, "{remaining:?}");
    let nodes: Vec<String> =
        fleet.servers.urls().iter().map(|url| format!("--node {url}")).collect();
    assert_eq!(**admit, *format!("redlatch admit --all {}", nodes.join(" ")));
    let text = error.to_string();
    let start = format!("{NAME}: 3 of 3 nodes are new or restarted and may not vote yet, ");
    assert!(text.starts_with(&start) && text.contains(" s to go; try again later"), "{text}");
    assert!(text.contains(&format!("`{admit}`")), "{text}");
}

#[tokio::test]
async fn new_servers_of_which_one_does_not_answer_are_not_vouched_for_and_the_error_says_so() {
    let fleet = Fleet::of(3);
    fleet.servers.kill(&[2]);
    let locks = guarded(&fleet).admit_new_servers().connect().await.unwrap();

    let error = locks.lock(NAME).wait(Duration::ZERO).await.unwrap_err();

    assert!(matches!(error, LockError::Quarantined { .. }), "{error}");
    let text = error.to_string();
    let down = format!("{NAME}: {} has never answered (unreachable: ", fleet.servers[2].url());
    assert!(text.starts_with(&down), "{text}");
    assert!(text.contains("): check its address first; 2 of 3 nodes are new"), "{text}");
    let then = format!(": see to {}, then connect again", fleet.servers[2].url());
    assert!(text.ends_with(&then), "{text}");
    assert!(!text.contains("in development and CI"), "it is in use already: {text}");
}

#[tokio::test]
async fn a_client_that_looks_too_late_to_vouch_for_new_servers_is_not_advised_to() {
    let fleet = Fleet::of(3);
    let vouching = guarded(&fleet).admit_new_servers().connect_lazy().unwrap_err();
    assert!(vouching.to_string().contains("`admit_new_servers` has no effect"), "{vouching}");
    let lazy = guarded(&fleet).connect_lazy().unwrap();

    let error = lazy.lock(NAME).wait(Duration::ZERO).await.unwrap_err();

    assert!(matches!(error, LockError::Quarantined { .. }), "{error}");
    assert!(!error.to_string().contains("admit_new_servers"), "{error}");
}

#[tokio::test]
async fn a_node_that_went_down_is_not_called_mistyped() {
    let fleet = Fleet::of(3);
    let locks = guarded(&fleet).connect().await.unwrap();
    fleet.servers.kill(&[2]);

    let text = locks.lock(NAME).wait(Duration::ZERO).await.unwrap_err().to_string();

    assert!(text.starts_with(&format!("{NAME}: {}: ", fleet.servers[2].url())), "{text}");
    assert!(!text.contains("has never answered"), "{text}");
}

#[tokio::test]
async fn logins_that_the_command_for_new_servers_lacks_are_asked_for() {
    let fleet = Fleet::with(3, &Server::options().password("sesame"));
    let urls =
        fleet.servers.iter().map(|node| format!("redis://:sesame@127.0.0.1:{}", node.port()));
    let locks = Locks::builder().nodes(urls).connect().await.unwrap();

    let text = locks.lock(NAME).wait(Duration::ZERO).await.unwrap_err().to_string();

    assert!(
        text.contains("` (add the logins to the addresses; they are not shown here)"),
        "{text}"
    );
    assert!(!text.contains("sesame"), "{text}");
}

#[tokio::test]
async fn the_command_for_new_servers_keeps_the_options_that_it_needs_to_reach_them() {
    let fleet = Fleet::with(3, &Server::options().password("sesame"));
    let file = fleet.servers[0].dir().join("password");
    std::fs::write(&file, "sesame\n").unwrap();
    let url = |server: &Server| {
        let port = server.port();
        format!("redis://127.0.0.1:{port}?password_file={}&name=n{port}", file.display())
    };
    let urls: Vec<String> = fleet.servers.iter().map(url).collect();
    let locks = Locks::builder().nodes(&urls).connect().await.unwrap();

    let error = locks.lock(NAME).wait(Duration::ZERO).await.unwrap_err();

    let LockError::Quarantined { admit, .. } = &error else { panic!("{error}") };
    let nodes: Vec<String> = urls.iter().map(|url| format!("--node '{url}'")).collect();
    assert_eq!(**admit, *format!("redlatch admit --all {}", nodes.join(" ")));
}

#[tokio::test]
async fn an_error_that_no_majority_can_be_reached_names_the_nodes_that_failed_and_no_others() {
    let fleet = Fleet::of(3);
    fleet.servers.kill(&[1, 2]);

    let error = guarded(&fleet).connect().await.unwrap_err().to_string();

    let first = format!("no majority, 2 of 3 nodes failed: {}: ", fleet.servers[1].url());
    assert!(error.starts_with(&first), "{error}");
    assert!(!error.contains(&fleet.servers[0].url()), "{error}");
}

#[tokio::test]
async fn an_error_that_main_returns_is_as_readable_as_its_words() {
    let fleet = Fleet::of(3);
    let locks = guarded(&fleet).connect().await.unwrap();

    let error = locks.lock(NAME).await.unwrap_err();
    let text = error.to_string();
    let boxed: Box<dyn std::error::Error> = error.into();

    assert_eq!(format!("{boxed:?}"), text, "`main` prints it like this");
}

#[tokio::test]
async fn waiting_for_longer_picks_new_servers_up_when_they_are_admitted() {
    let fleet = Fleet::of(3);
    let builder = guarded(&fleet).max_ttl(2 * SEC).ttl(2 * SEC).skew(SEC);
    let locks = builder.connect().await.unwrap();

    let guard = locks.lock(NAME).wait(LIMIT).await.unwrap();

    assert!(guard.is_held());
}

#[tokio::test]
async fn new_servers_that_the_program_vouches_for_vote_at_once() {
    let fleet = Fleet::of(3);
    let builder = guarded(&fleet).admit_new_servers();

    for _ in 0..2 {
        let locks = builder.clone().connect().await.unwrap();
        let guard = locks.lock(NAME).wait(Duration::ZERO).await.unwrap();
        guard.release().await.unwrap();
    }
}

/// Clients without the guard admit nothing: only what they left shows that they were there.
#[tokio::test]
async fn servers_of_which_one_is_used_without_the_guard_are_not_new() {
    let fleet = Fleet::of(3);
    let url = fleet.servers[0].url();
    let plain = Locks::builder().nodes([&url]).fencing(false).connect().await.unwrap();
    let held = plain.lock(NAME).wait(Duration::ZERO).await.unwrap();
    let builder = guarded(&fleet).admit_new_servers();
    let refused = async || {
        let locks = builder.clone().connect().await.unwrap();
        let result = locks.lock(NAME).wait(Duration::ZERO).await;
        assert!(matches!(result, Err(LockError::Quarantined { .. })), "{result:?}");
    };

    refused().await;
    assert!(held.is_held());
    held.release().await.unwrap();

    // The lock is gone, but the server has given a number.
    fleet.servers.iter().for_each(Server::restart_empty);
    let fenced = Locks::connect([&url]).await.unwrap();
    fenced.lock(NAME).wait(LIMIT).await.unwrap().release().await.unwrap();
    refused().await;
}

#[tokio::test]
async fn servers_with_other_data_are_not_new_but_other_databases_do_not_matter() {
    let fleet = Fleet::of(3);
    fleet.servers[0].run(&["SET", "somebody:else", "1"]);
    let locks = guarded(&fleet).admit_new_servers().connect().await.unwrap();

    let result = locks.lock(NAME).wait(Duration::ZERO).await;

    assert!(matches!(result, Err(LockError::Quarantined { .. })), "{result:?}");
    let others = fleet.servers.urls().into_iter().map(|url| format!("{url}/3"));
    let locks = Locks::builder().nodes(others).admit_new_servers().connect().await.unwrap();
    assert!(locks.lock(NAME).wait(Duration::ZERO).await.unwrap().is_held());
}

#[tokio::test]
async fn servers_of_which_one_was_ever_admitted_are_not_new() {
    let fleet = Fleet::of(3);
    let builder = guarded(&fleet).admit_new_servers();
    builder.clone().connect().await.unwrap();
    fleet.servers[0].restart_empty();
    fleet.servers[1].restart_empty();

    // The third still knows of the others, whose locks may still be in use.
    let locks = builder.clone().connect().await.unwrap();
    let result = locks.lock(NAME).wait(100 * MS).await;

    assert!(matches!(result, Err(LockError::Quarantined { .. })), "{result:?}");
    let standings = builder.observer().unwrap().standings().await;
    let admitted = standings.iter().map(|node| node.standing == Standing::Admitted);
    assert_eq!(admitted.collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test]
async fn vouching_for_new_servers_is_not_advised_for_restarted_ones() {
    let fleet = Fleet::of(3);
    guarded(&fleet).admit_new_servers().connect().await.unwrap();
    let refused = async |locks: &Locks| {
        let error = locks.lock(NAME).wait(Duration::ZERO).await.unwrap_err();
        assert!(matches!(error, LockError::Quarantined { .. }), "{error}");
        error.to_string()
    };
    let before = guarded(&fleet).connect().await.unwrap();
    fleet.servers[0].restart_empty();
    fleet.servers[1].restart_empty();

    // The third knows that they were admitted, and so do we.
    for locks in [&before, &guarded(&fleet).connect().await.unwrap()] {
        let text = refused(locks).await;
        assert!(!text.contains("admit_new_servers"), "{text}");
    }
    fleet.servers[2].restart_empty();
    let text = refused(&before).await;
    assert!(!text.contains("admit_new_servers"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn nodes_in_memory_are_not_advised_a_command_that_cannot_reach_them() {
    let nodes = redlatch::testing::Nodes::new(3);
    let locks = nodes.builder().connect().await.unwrap();
    (0..3).for_each(|node| nodes.forget(node));

    let error = locks.lock(NAME).wait(Duration::ZERO).await.unwrap_err();

    assert!(matches!(error, LockError::Quarantined { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("skip the wait: `Observer::admit`"), "{text}");
    assert!(!text.contains("redlatch admit") && !text.contains("admit_new_servers"), "{text}");
}
