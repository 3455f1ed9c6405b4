//! Servers that forget, on real servers: they do not vote until every lock they
//! may have forgotten has expired. The numbers are those of the table of faults.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{
    AdmitError, Builder, Cause, ConnectError, FencingToken, Guard, LockError, LockState, Locks,
    NodeStanding, ReleaseError, ReplaceError, RestartGuard, Standing, Vote, Votes,
};
use redlatch_testbed::{Proxy, Server, ServerOptions, Servers};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use support::{Fleet, LIMIT, MS, NAME, SEC, no_majority, soon, vouch};

const TTL: Duration = Duration::from_secs(2);
const SKEW: Duration = Duration::from_secs(1);
/// `max_ttl` and `skew`: how long a node is quarantined.
const WINDOW: Duration = Duration::from_secs(3);

fn guarded(urls: impl IntoIterator<Item = String>) -> Builder {
    let builder = Locks::builder().nodes(urls).max_ttl(TTL).skew(SKEW);
    builder.ttl(TTL).node_timeout(500 * MS).wait(Duration::ZERO)
}

/// Servers that an operator has vouched for.
async fn admitted(fleet: Fleet) -> (Fleet, Builder) {
    let builder = guarded(fleet.servers.urls());
    vouch(&builder).await;
    (fleet, builder)
}

async fn standings(builder: &Builder) -> Vec<NodeStanding> {
    builder.observer().unwrap().standings().await
}

/// Which nodes are quarantined.
async fn out(builder: &Builder) -> Vec<usize> {
    let standings = standings(builder).await.into_iter().enumerate();
    let out = standings.filter(|(_, node)| matches!(node.standing, Standing::Quarantined(_)));
    out.map(|(at, _)| at).collect()
}

/// Waits until all nodes may vote.
async fn all_in(builder: &Builder) {
    let begin = Instant::now();
    while !out(builder).await.is_empty() {
        assert!(begin.elapsed() < LIMIT, "{:?}", standings(builder).await);
        tokio::time::sleep(50 * MS).await;
    }
}

fn quarantined(votes: &Votes) -> Vec<usize> {
    let votes = votes.iter().enumerate();
    let out = votes.filter(|(_, vote)| matches!(vote.vote, Vote::Quarantined(_)));
    out.map(|(at, _)| at).collect()
}

#[tokio::test]
async fn fault_1_a_server_that_comes_back_empty_does_not_vote_and_leases_go_on() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let holder = builder.clone().connect().await.unwrap();
    let other = builder.clone().connect().await.unwrap();
    let guard = holder.lock(NAME).await.unwrap();

    fleet.servers[0].restart_empty();
    let back = Instant::now();
    // Its vote would not be enough; with it gone, neither is the other's.
    let mut votes = failed_or_held(other.lock(NAME).await);
    while matches!(votes.iter().next().unwrap().vote, Vote::Failed(_) | Vote::Pending) {
        assert!(back.elapsed() < LIMIT, "{votes}"); // a connection to the old one, or slower than the others
        votes = failed_or_held(other.lock(NAME).await);
    }
    // A machine that was busy for the whole window is too late to see it out.
    assert!(quarantined(&votes) == [0] || back.elapsed() >= WINDOW, "{votes}");

    soon("its key is back", || fleet.value(0, NAME).is_some()).await;
    all_in(&builder).await;
    assert!(back.elapsed() >= WINDOW, "after {:?}", back.elapsed());
    assert!(guard.is_held());
}

fn failed_or_held(result: Result<Guard, LockError>) -> Votes {
    match result {
        Err(
            LockError::NoMajority { votes }
            | LockError::Quarantined { votes, .. }
            | LockError::Held { votes },
        ) => votes,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn fault_2_a_server_of_the_majority_that_restarts_in_a_loop_lets_nobody_in() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let (holder, other) = (builder.clone().connect().await.unwrap(), builder.connect().await);
    let (guard, other) = (holder.lock(NAME).await.unwrap(), other.unwrap());

    // Two of three have it: one of them forgets, and the third never had it.
    for _ in 0..8 {
        fleet.remove(2, NAME);
        fleet.servers[0].restart_empty();
        let second = other.try_lock(NAME).await;

        assert!(!matches!(second, Ok(Some(_))) || !guard.is_held(), "both have it");
    }
}

#[tokio::test]
async fn fault_3_a_clock_that_jumps_at_boot_does_not_open_a_strict_guard_early() {
    let options = ServerOptions::default().fake_clock();
    let fleet = Fleet::with(3, &options);
    let builder = guarded(fleet.servers.urls()).restart_guard(RestartGuard::Strict);
    vouch(&builder).await;
    let locks = builder.clone().connect().await.unwrap();
    let _guard = locks.lock("something to ask the nodes for").await.unwrap();

    fleet.servers[0].restart_empty();
    let back = Instant::now();
    fleet.servers[0].clock_ahead(3600 * SEC);
    let uptime = || fleet.servers[0].info("uptime_in_seconds").unwrap().parse::<i64>().unwrap();
    soon("it says it has been up for an hour", || uptime() > 3000).await;

    assert_eq!(out(&builder).await, [0]);
    all_in(&builder).await;
    assert!(back.elapsed() >= WINDOW, "after {:?}", back.elapsed());
}

#[tokio::test]
async fn fault_4_an_old_dump_is_forgetting() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.clone().connect().await.unwrap();
    assert!(fleet.servers[0].run(&["SAVE"]).is_ok());

    let guard = locks.lock(NAME).await.unwrap();
    fleet.servers[0].kill();
    fleet.servers[0].restart();

    assert_eq!(fleet.value(0, NAME), None, "the dump is older than the lock");
    assert_eq!(out(&builder).await, [0]);
    assert!(guard.is_held());
}

#[tokio::test]
async fn fault_5_a_flush_quarantines_the_server_and_no_number_falls_back() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.clone().connect().await.unwrap();
    let mut last = number(&locks).await;
    for flush in [&["FLUSHALL"][..], &["FLUSHDB"], &["SWAPDB", "0", "1"]] {
        fleet.servers[1].run(flush);

        let guard = locks.lock(NAME).await.unwrap();
        assert_eq!(out(&builder).await, [1], "{flush:?}");
        assert!(guard.fencing_token() > Some(last), "{flush:?}");
        guard.release().await.unwrap();
        all_in(&builder).await;
        let next = number(&locks).await;
        assert!(next > last, "{flush:?}: {next} after {last}");
        last = next;
    }
}

/// The databases are swapped, the node is admitted without what it had, and then
/// they are swapped back: the old marker comes with them.
#[tokio::test]
async fn fault_5_a_database_that_is_swapped_back_has_forgotten_what_was_granted_meanwhile() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let _locks = builder.clone().connect().await.unwrap();
    let swap = || fleet.servers[0].run(&["SWAPDB", "0", "3"]);

    swap();
    let _look = builder.clone().connect().await.unwrap();
    assert_eq!(out(&builder).await, [0]);
    all_in(&builder).await;
    swap();

    assert_eq!(out(&builder).await, [0]);
}

async fn number(locks: &Locks) -> FencingToken {
    let guard = locks.lock(NAME).wait(LIMIT).await.unwrap();
    let number = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    number
}

#[tokio::test]
async fn fault_6_a_key_deleted_by_hand_is_a_loss_within_one_renewal_and_numbers_grow() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.connect().await.unwrap();
    let guard = locks.lock(NAME).await.unwrap();
    let first = guard.fencing_token().unwrap();

    fleet.remove(0, NAME);
    fleet.remove(1, NAME);
    support::in_time(guard.lost()).await;

    assert!(number(&locks).await > first);
}

#[tokio::test]
async fn fault_7_a_server_that_evicts_is_refused_unless_that_is_allowed() {
    for policy in ["volatile-lru", "allkeys-lru", "volatile-ttl"] {
        let options = ServerOptions::default().config("maxmemory 100mb");
        let server = options.config(format!("maxmemory-policy {policy}")).start().unwrap();

        let refused = Locks::connect([server.url()]).await.unwrap_err();
        assert!(matches!(&refused, ConnectError::Unfit(_)), "{refused}");
        assert!(refused.to_string().contains(policy), "{refused}");

        let allowed = format!("{}?allow_eviction=yes", server.url());
        let locks = Locks::connect([allowed]).await.unwrap();
        assert!(locks.lock(NAME).await.is_ok());
    }
    let unlimited = ServerOptions::default().config("maxmemory-policy allkeys-lru");
    assert!(Locks::connect([unlimited.start().unwrap().url()]).await.is_ok());
}

#[tokio::test]
async fn fault_12_a_server_that_was_a_replica_for_a_while_has_forgotten() {
    let fleet = Fleet::of(4);
    let nodes = fleet.servers.urls()[..3].to_vec();
    let builder = guarded(nodes);
    vouch(&builder).await;
    let locks = builder.clone().connect().await.unwrap();
    let guard = locks.lock(NAME).await.unwrap();
    let port = fleet.servers[3].port().to_string();

    fleet.servers[0].run(&["REPLICAOF", "127.0.0.1", &port]);
    soon("it follows", || fleet.servers[0].info("master_link_status").as_deref() == Some("up"))
        .await;
    soon("the lock is still held", || guard.is_held()).await;
    fleet.servers[0].run(&["REPLICAOF", "NO", "ONE"]);
    let back = Instant::now();

    assert_eq!(out(&builder).await, [0]);
    all_in(&builder).await;
    assert!(back.elapsed() + 100 * MS >= WINDOW, "after {:?}", back.elapsed());
    assert!(guard.is_held());
}

#[tokio::test]
async fn fault_12_a_server_that_comes_back_as_a_copy_of_itself_has_forgotten() {
    let fleet = Fleet::of(4);
    let builder = guarded(fleet.servers.urls()[..3].to_vec());
    vouch(&builder).await;
    let (node, copy) = (&fleet.servers[0], &fleet.servers[3]);
    let uptime = || node.info("uptime_in_seconds").unwrap().parse::<u64>().unwrap();
    soon("it has been up for longer than the window", || uptime() > WINDOW.as_secs() + 1).await;

    comes_back_as_its_copy(node, copy).await;

    assert_eq!(out(&builder).await, [0]);
    let _locks = builder.clone().connect().await.unwrap();
    assert_eq!(out(&builder).await, [0], "its uptime says nothing");
}

/// Nothing was sent while it was a replica, so nothing was refused by one; and
/// the first command that is sent afterwards is not a vote.
#[tokio::test]
async fn fault_12_a_connection_that_slept_over_the_change_of_roles_casts_no_vote() {
    let fleet = Fleet::of(4);
    let builder = guarded(fleet.servers.urls()[..3].to_vec()).max_ttl(30 * SEC);
    vouch(&builder).await;
    let locks = builder.connect().await.unwrap();
    let other = locks.lock("other").ttl(30 * SEC).no_renewal().await.unwrap();

    comes_back_as_its_copy(&fleet.servers[0], &fleet.servers[3]).await;
    let _ = other.release().await;
    fleet.servers.freeze(&[1]);
    let result = locks.lock(NAME).await;
    fleet.servers.thaw(&[1]);

    match result {
        Err(LockError::NoMajority { votes }) => {
            assert!(votes.to_string().contains("changed its role"), "{votes}");
        }
        // On a busy machine, it may be connected again by then.
        Err(LockError::Quarantined { votes, .. }) => assert_eq!(votes.tally().quarantined, 1),
        granted => panic!("{granted:?}"),
    }
}

/// A server's data goes to its own copy and comes back: the marker with it.
async fn comes_back_as_its_copy(node: &Server, copy: &Server) {
    let follows = |server: &Server| server.info("master_link_status").as_deref() == Some("up");
    copy.run(&["REPLICAOF", "127.0.0.1", &node.port().to_string()]);
    soon("the copy follows", || follows(copy)).await;
    copy.run(&["REPLICAOF", "NO", "ONE"]);
    node.run(&["REPLICAOF", "127.0.0.1", &copy.port().to_string()]);
    soon("the node follows its copy", || follows(node)).await;
    node.run(&["REPLICAOF", "NO", "ONE"]);
    assert!(node.run(&["HGET", "redlatch:node", "admitted"]).text().is_some());
}

#[tokio::test]
async fn a_server_that_restarts_while_it_is_quarantined_is_watched_anew() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let _locks = builder.clone().connect().await.unwrap();
    fleet.servers[0].run(&["FLUSHALL"]);
    let look = builder.clone().connect().await.unwrap();
    assert_eq!(out(&builder).await, [0]);

    fleet.servers[0].restart_with_data();
    let back = Instant::now();
    // The next check finds the mark of the previous run.
    let _ = look.lock(NAME).await;

    all_in(&builder).await;
    assert!(back.elapsed() >= WINDOW, "after {:?}", back.elapsed());
}

#[tokio::test]
async fn fault_14_clients_with_another_list_of_nodes_are_refused_and_shown_both() {
    let fleet = Fleet::of(5);
    let three = guarded(fleet.servers.urls()[..3].to_vec());
    vouch(&three).await;
    let locks = three.connect().await.unwrap();
    let _guard = locks.lock(NAME).await.unwrap();

    let refused = guarded(fleet.servers.urls()).connect().await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Disagree(_)), "{refused}");
    for server in &fleet.servers.urls()[..3] {
        assert!(refused.to_string().matches(server.as_str()).count() > 1, "{refused}");
    }
    let said = "its clients have another list of nodes (without ";
    assert_eq!(refused.to_string().matches(said).count(), 1, "once for all nodes: {refused}");
    let other_times = guarded(fleet.servers.urls()[..3].to_vec()).max_ttl(TTL + SEC);
    let refused = other_times.clone().connect().await.unwrap_err();
    assert!(matches!(&refused, ConnectError::Disagree(_)), "{refused}");
    let said = format!("its clients have max_ttl {TTL:?} instead of ");
    assert_eq!(refused.to_string().matches(&said).count(), 1, "once for all nodes: {refused}");
    let health = other_times.connect_lazy().unwrap().health().await.unwrap().to_string();
    assert!(health.contains(&said), "{health}");
}

/// Clients with the right list would find the wrong one on every server.
#[tokio::test]
async fn an_operator_admits_no_server_that_has_two_names_in_the_list() {
    let fleet = Fleet::of(2);
    let alias = fleet.servers[1].url().replace("127.0.0.1", "localhost");
    let twice = guarded(fleet.servers.urls().into_iter().chain([alias.clone()]));
    let observer = twice.observer().unwrap();
    let names: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();

    for refused in [observer.admit(&names).await, observer.replace(&names).await] {
        let refused = refused.unwrap_err();
        assert!(matches!(&refused, AdmitError::SameServer { .. }), "{refused}");
        assert!(refused.to_string().contains(&alias), "{refused}");
    }

    vouch(&guarded(fleet.servers.urls())).await;
    assert!(guarded(fleet.servers.urls()).connect().await.is_ok());
}

/// One node has no guard by default, so it could not see the marker.
#[tokio::test]
async fn fault_14_a_client_that_counts_one_of_three_nodes_is_refused_though_it_has_no_guard() {
    let fleet = Fleet::of(3);
    let urls = fleet.servers.urls();
    let free = Locks::builder().node(&urls[0]).connect().await;
    assert!(free.is_ok(), "nobody counts it yet: {free:?}");
    vouch(&guarded(urls.clone())).await;
    let off = |count: usize| {
        let builder = Locks::builder().nodes(&urls[..count]).max_ttl(TTL).ttl(TTL);
        builder.restart_guard(RestartGuard::Off).fencing(false).connect()
    };

    let refused = Locks::builder().node(&urls[0]).connect().await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Disagree(_)), "{refused}");
    assert!(urls.iter().all(|url| refused.to_string().contains(url.as_str())), "{refused}");
    let observer = Locks::builder().node(&urls[0]).observer().unwrap();
    let seen = observer.status(NAME).await.unwrap().state;
    assert!(matches!(seen, LockState::Unclear(_)), "{seen}");
    assert!(matches!(off(2).await, Err(ConnectError::Disagree(_))));
    assert!(off(3).await.is_ok(), "it counts the same nodes");
    fleet.servers.freeze(&[0]);
    assert!(off(3).await.is_ok(), "who does not tell is not waited for");
    fleet.servers.thaw(&[0]);
}

#[tokio::test]
async fn a_node_is_taken_from_the_clients_of_another_list_only_after_their_locks_are_over() {
    let fleet = Fleet::of(4);
    let old = guarded(fleet.servers.urls()[..3].to_vec());
    vouch(&old).await;
    let new = guarded(fleet.servers.urls());
    let observer = new.observer().unwrap();
    let node: Arc<str> = standings(&new).await[0].node.clone();

    let taken = Instant::now();
    let after = observer.replace(&[node]).await.unwrap();
    let Standing::Quarantined(quarantine) = &after[0].standing else { panic!("{after:?}") };
    assert_eq!(quarantine.cause, Cause::Forgot);
    assert!(matches!(after[1].standing, Standing::Quarantined(_)), "{after:?}");

    let begin = Instant::now();
    let first = || async { standings(&new).await.swap_remove(0).standing };
    let watching = observer.watch(|_| false);
    let admitted = async {
        while first().await != Standing::Admitted {
            assert!(begin.elapsed() < LIMIT);
            tokio::time::sleep(50 * MS).await;
        }
    };
    tokio::select! {
        _ = watching => panic!("the others belong to another list"),
        () = admitted => {}
    }
    assert!(taken.elapsed() >= WINDOW, "after {:?}", taken.elapsed());
}

#[tokio::test]
async fn nodes_are_taken_only_by_lists_that_share_a_node_with_every_majority_of_the_old_one() {
    let fleet = Fleet::of(5);
    let urls = fleet.servers.urls();
    let may = |urls: &[String]| {
        let observer = guarded(urls.to_vec()).observer().unwrap();
        async move { observer.may_replace().await }
    };
    vouch(&guarded(urls[..3].to_vec())).await;

    for list in [&urls[..3], &urls[..2], &urls[..4]] {
        may(list).await.unwrap();
    }
    for list in [&urls[..], &urls[1..4], &urls[2..]] {
        let refused = may(list).await.unwrap_err();
        let words = refused.to_string();
        assert!(matches!(refused, ReplaceError::TooDifferent { .. }), "{words}");
        assert!(words.contains(&urls[0]) && words.contains(&urls[2]), "{words}");
    }

    let observer = guarded(urls[..4].to_vec()).observer().unwrap();
    let first = Arc::from(observer.nodes().next().unwrap());
    observer.replace(&[first]).await.unwrap();
    may(&urls[..4]).await.unwrap();
    assert!(matches!(may(&urls[..2]).await, Err(ReplaceError::UnderWay { .. })));

    fleet.servers.kill(&[1]);
    assert!(matches!(may(&urls[..4]).await, Err(ReplaceError::Unseen { .. })));
}

#[tokio::test]
async fn a_watch_ends_when_its_caller_has_seen_enough_or_all_may_vote() {
    let fleet = Fleet::of(3);
    let observer = guarded(fleet.servers.urls()).observer().unwrap();
    let mut looks = 0;

    let begin = Instant::now();
    let standings = observer.watch(|_| true).await.unwrap();
    let all_in = standings.iter().all(|node| node.standing == Standing::Admitted);
    assert!(!all_in || begin.elapsed() >= WINDOW, "it waited for all: {standings:?}");
    let standings = observer.watch(|nodes| {
        looks += 1;
        assert_eq!(nodes.len(), 3);
        false
    });

    let standings = standings.await.unwrap();
    assert!(standings.iter().all(|node| node.standing == Standing::Admitted), "{standings:?}");
    assert!(looks > 1 && begin.elapsed() + SEC >= WINDOW, "{looks} in {:?}", begin.elapsed());
}

#[tokio::test]
async fn a_lock_is_not_called_free_by_nodes_that_may_have_forgotten_it() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.clone().connect().await.unwrap();
    assert_eq!(locks.status(NAME).await.unwrap().state, LockState::Free);

    fleet.servers[0].restart_empty();
    fleet.servers[1].restart_empty();
    let observer = builder.observer().unwrap();
    for status in [observer.status(NAME).await.unwrap(), locks.status(NAME).await.unwrap()] {
        assert!(matches!(status.state, LockState::Unclear(_)), "{status:?}");
        let out = status.nodes.iter().map(|node| node.quarantine.is_some());
        assert_eq!(out.collect::<Vec<_>>(), [true, true, false], "{status:?}");
    }
}

#[tokio::test]
async fn fault_20_numbers_grow_when_the_clocks_of_servers_jump() {
    let options = ServerOptions::default().fake_clock();
    let (fleet, builder) = admitted(Fleet::with(3, &options)).await;
    let locks = builder.connect().await.unwrap();
    let mut last = number(&locks).await;

    for (server, hours) in [(0, 1), (1, -1), (2, 2), (0, -2), (1, 0), (2, 0), (0, 0)] {
        let by = SEC * 3600 * u32::try_from(i32::abs(hours)).unwrap();
        match hours {
            0.. => fleet.servers[server].clock_ahead(by),
            _ => fleet.servers[server].clock_behind(by),
        }
        for _ in 0..3 {
            let next = number(&locks).await;
            assert!(next > last, "{next} after {last}: server {server}, {hours} h");
            last = next;
        }
    }
}

#[tokio::test]
async fn fault_36_one_lease_outlives_the_restart_of_every_server() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.clone().connect().await.unwrap();
    let guard = locks.lock(NAME).await.unwrap();
    let token = guard.fencing_token();

    for node in 0..3 {
        fleet.servers[node].restart_empty();
        soon("the key is back", || fleet.value(node, NAME).is_some()).await;
        assert!(guard.is_held(), "after server {node}");
    }

    assert_eq!(guard.fencing_token(), token);
    soon("the number came along", || number_of(&fleet) >= token.map(FencingToken::get)).await;
}

/// Where the register of the lock stands on the last server.
fn number_of(fleet: &Fleet) -> Option<u64> {
    let resources = redlatch_core::Resources::new([NAME]).unwrap();
    let field = redlatch_core::fence::registers(&resources)[0].to_string();
    fleet.servers[2].run(&["HGET", "redlatch:node", &field]).text()?.parse().ok()
}

/// What was planted on the node meanwhile is in the other database.
#[tokio::test]
async fn fault_5_a_database_that_was_away_while_the_server_was_marked_is_quarantined_when_it_is_back()
 {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.clone().connect().await.unwrap();
    let swap = || drop(fleet.servers[0].run(&["SWAPDB", "0", "1"]));

    swap();
    let _guard = locks.lock(NAME).wait(LIMIT).await.unwrap();
    let mark = || fleet.servers[0].run(&["HGET", "redlatch:node", "watched"]).text();
    soon("it is marked", || mark().is_some_and(|mark| !mark.is_empty())).await;
    swap();

    let back = Instant::now();
    assert_eq!(out(&builder).await, [0]);
    all_in(&builder).await;
    assert!(back.elapsed() >= WINDOW, "after {:?}", back.elapsed());
}

#[tokio::test]
async fn fault_46_servers_that_were_all_emptied_under_a_holder_have_no_second_one() {
    let empties: [&[&[&str]]; 5] = [
        &[&["FLUSHALL"]],
        &[&["DEL", NAME, "redlatch:node"]],
        &[&["FLUSHDB"]],
        &[&["SWAPDB", "0", "1"]],
        &[&["FLUSHALL"], &["CONFIG", "RESETSTAT"]],
    ];
    for commands in empties {
        let fleet = Fleet::of(3);
        // Longer than the window: the uptime of a server that was emptied proves nothing.
        tokio::time::sleep(WINDOW + 1500 * MS).await;
        let (fleet, builder) = admitted(fleet).await;
        let holder = builder.clone().connect().await.unwrap();
        let guard = holder.lock(NAME).no_renewal().await.unwrap();

        for command in commands {
            fleet.servers.iter().for_each(|server| drop(server.run(command)));
        }
        let second = builder.clone().connect().await.unwrap();
        while guard.is_held() {
            let taken = second.lock(NAME).await;
            assert!(taken.is_err() || !guard.is_held(), "two holders after {commands:?}");
        }
    }
}

/// All addresses move at once to empty servers that have been up for long: their
/// uptime is not that of the servers before them.
#[tokio::test]
async fn spares_under_all_the_addresses_of_a_holder_have_no_second_one() {
    let fleet = Fleet::of(6);
    tokio::time::sleep(WINDOW + 1500 * MS).await;
    let servers = fleet.servers.iter();
    let network = servers.take(3).map(|server| Proxy::to(server).unwrap());
    let network: Vec<Proxy> = network.collect();
    let builder = guarded(network.iter().map(Proxy::url));
    vouch(&builder).await;
    let holder = builder.clone().connect().await.unwrap();
    let guard = holder.lock(NAME).no_renewal().await.unwrap();

    for (address, spare) in network.iter().zip(fleet.servers.iter().skip(3)) {
        address.lead_to(spare);
        address.reset_all();
    }
    let second = builder.clone().connect().await.unwrap();

    while guard.is_held() {
        let taken = second.lock(NAME).await;
        assert!(taken.is_err() || !guard.is_held(), "two holders");
    }
}

#[tokio::test]
async fn fault_48_a_client_with_other_settings_takes_no_server_from_the_others() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let wrong = guarded(fleet.servers.urls()).skew(SKEW + SEC);
    let stranger = Locks::builder().nodes(fleet.servers.urls()).max_ttl(TTL).skew(SKEW + SEC);
    let stranger = stranger.ttl(TTL).wait(Duration::ZERO).connect().await;
    assert!(matches!(stranger, Err(ConnectError::Disagree(_))), "{stranger:?}");

    fleet.servers[0].restart_empty();
    // Its operator insists, for longer than its window.
    let observer = wrong.observer().unwrap();
    let names: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();
    let begin = Instant::now();
    let watched = observer.watch(|_| begin.elapsed() > WINDOW + 2 * SEC).await.unwrap();
    assert!(watched.iter().all(|node| node.standing != Standing::Admitted), "{watched:?}");
    observer.admit(&names).await.unwrap();
    let kept = fleet.servers[0].run(&["EXISTS", "redlatch:node"]);
    assert_eq!(kept.int(), Some(0), "it left something behind");

    let locks = builder.clone().connect().await.unwrap();
    let _guard = locks.lock(NAME).await.unwrap();
    all_in(&builder).await;
}

/// The figures are what a server sent to all clients, not how long it took.
#[tokio::test]
async fn a_client_of_another_database_disturbs_nobody_though_it_uses_the_same_names() {
    let fleet = Fleet::of(3);
    let named = |database: &str| -> Vec<String> {
        let urls = fleet.servers.urls().into_iter().zip(["a", "b", "c"]);
        urls.map(|(url, name)| format!("{url}{database}?name={name}")).collect()
    };
    let builder = guarded(named(""));
    vouch(&builder).await;
    let other = guarded(named("/2"));

    let refused = other.clone().connect().await.unwrap().lock(NAME).await.unwrap_err();
    vouch(&other).await;

    assert!(matches!(refused, LockError::Quarantined { .. }), "{refused}");
    assert_eq!(out(&builder).await, [0; 0]);
    let standings = standings(&other).await;
    assert_eq!(standings.iter().map(|node| &*node.node).collect::<Vec<_>>(), ["a/2", "b/2", "c/2"]);
}

#[tokio::test]
async fn fault_52_a_hundred_clients_that_see_a_window_end_ask_for_little() {
    const CLIENTS: usize = 100;
    /// The bytes sent to one client in all: examinations, votes and greetings.
    const SAID: u64 = 500_000;
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let fill = "for at = 0, 65535 do redis.call('HSET', KEYS[1], at, 1700000000000000 + at) end";
    fleet.servers.iter().for_each(|server| drop(server.run(&["EVAL", fill, "1", "redlatch:node"])));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(builder.clone().connect().await.unwrap());
    }
    let said = |server: &Server| -> u64 {
        let stats = server.run(&["INFO", "stats"]).text().unwrap();
        let line = stats.lines().find(|line| line.starts_with("total_net_output_bytes:"));
        line.unwrap().rsplit(':').next().unwrap().trim().parse().unwrap()
    };
    let before = said(&fleet.servers[1]);

    fleet.servers[0].restart_empty();
    let mut at_work = tokio::task::JoinSet::new();
    for (number, locks) in clients.into_iter().enumerate() {
        let builder = builder.clone();
        at_work.spawn(async move {
            let begin = Instant::now();
            while begin.elapsed() < WINDOW + SEC || !out(&builder).await.is_empty() {
                let guard = locks.lock(format!("client {number}")).wait(LIMIT).await.unwrap();
                tokio::time::sleep(200 * MS).await;
                // A busy machine may answer too late for us to know.
                let released = guard.release().await;
                let known = matches!(released, Ok(_) | Err(ReleaseError::Unknown { .. }));
                assert!(known, "{released:?}");
            }
        });
    }
    while let Some(done) = at_work.join_next().await {
        done.unwrap();
    }

    let each = (said(&fleet.servers[1]) - before) / CLIENTS as u64;
    assert!(each < SAID, "{each} bytes for each client");
}

#[tokio::test]
async fn without_a_guard_every_server_votes_at_once() {
    let fleet = Fleet::of(3);
    let builder = guarded(fleet.servers.urls()).restart_guard(RestartGuard::Off);

    let locks = builder.clone().connect().await.unwrap();

    assert!(locks.lock(NAME).await.is_ok());
    let refused = builder.observer().unwrap().admit(&[]).await;
    assert!(matches!(refused, Err(AdmitError::NoGuard)), "{refused:?}");
}

#[tokio::test]
async fn one_server_has_no_guard_unless_it_is_asked_for() {
    let server = Servers::start(1).unwrap();
    let builder = guarded(server.urls());

    assert!(builder.clone().connect().await.unwrap().lock(NAME).await.is_ok());
    let locks = builder.restart_guard(RestartGuard::On).connect().await.unwrap();
    assert_eq!(quarantined(&no_majority(locks.lock("other").await)), [0]);
}

#[tokio::test]
async fn a_server_that_forgot_counts_from_what_the_others_have_given() {
    let (fleet, builder) = admitted(Fleet::of(3)).await;
    let locks = builder.clone().connect().await.unwrap();
    // As if the clocks had been an hour ahead.
    let hour = 3_600_000_000;
    let resources = redlatch_core::Resources::new([NAME]).unwrap();
    let register = redlatch_core::fence::registers(&resources)[0].to_string();
    let given = locks.lock(NAME).await.unwrap().fencing_token().unwrap().get() + hour;
    for server in [1, 2] {
        let number = given.to_string();
        fleet.servers[server].run(&["HSET", "redlatch:node", &register, &number]);
    }
    let before = locks.lock(NAME).wait(LIMIT).await.unwrap().fencing_token().unwrap();
    assert!(before.get() > given);

    fleet.servers[0].restart_empty();
    let _guard = locks.lock("another").wait(LIMIT).await.unwrap();
    all_in(&builder).await;

    let floor = fleet.servers[0].run(&["HGET", "redlatch:node", "floor"]).text();
    let floor: u64 = floor.unwrap().parse().unwrap();
    assert!(floor >= before.get(), "{floor} against {before}");
    // It and one of those whose registers were set by hand.
    fleet.servers.freeze(&[2]);
    let after = locks.lock(NAME).wait(LIMIT).await.unwrap().fencing_token().unwrap();
    fleet.servers.thaw(&[2]);
    assert!(after > before, "{after} after {before}");
}

/// An address that leads to one server and the other in turn.
fn balancer(servers: &Servers) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let ports: Vec<u16> = servers.iter().map(Server::port).collect();
    std::thread::spawn(move || {
        for (at, client) in listener.incoming().enumerate() {
            let server = std::net::TcpStream::connect(("127.0.0.1", ports[at % ports.len()]));
            let (Ok(client), Ok(server)) = (client, server) else { continue };
            for (mut from, mut to) in
                [(client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client)]
            {
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    url
}

#[tokio::test]
async fn fault_13_an_address_that_leads_to_several_servers_in_turn_is_refused() {
    let (behind, fleet) = (Servers::start(2).unwrap(), Fleet::of(2));
    let nodes = fleet.servers.urls().into_iter().chain([balancer(&behind)]);

    let refused = support::in_time(guarded(nodes).connect()).await.unwrap_err();

    assert!(matches!(&refused, ConnectError::Unfit(_)), "{refused}");
    assert!(refused.to_string().contains("several servers"), "{refused}");
}
