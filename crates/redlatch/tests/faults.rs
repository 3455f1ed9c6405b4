//! Broken servers and bad networks. A minority of them costs nothing; a majority
//! costs votes but causes no mistake; nothing is left behind.

mod support;

use redlatch::{ConnectError, Fault, Released, Vote, Votes};
use redlatch_core::link::LONGEST_SILENCE;
use redlatch_testbed::{Direction, Flavour, Nonsense, Proxy, Server, eventually};
use std::{
    io::Write,
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use support::{
    Fleet, LIMIT, MS, NAME, SEC, held, in_time, no_majority, patient, soon, turncoat::Turncoat,
    until_all_vote,
};

/// Two good nodes, and a third behind a bad network.
struct BadNetwork {
    fleet: Fleet,
    proxy: Proxy,
}

impl BadNetwork {
    fn new() -> Self {
        let fleet = Fleet::of(3);
        let proxy = Proxy::to(&fleet.servers[2]).expect("a proxy");
        BadNetwork { fleet, proxy }
    }

    async fn locks(&self) -> redlatch::Locks {
        let good = [self.fleet.servers[0].url(), self.fleet.servers[1].url()];
        patient().nodes(good).node(self.proxy.url()).connect().await.expect("locks")
    }
}

/// Takes, extends and releases, as if nothing were wrong.
async fn works(locks: &redlatch::Locks) -> Votes {
    let guard = in_time(locks.lock(NAME).into_future()).await.expect("a lock");
    in_time(guard.extend()).await.expect("an extension");
    let votes = guard.votes();
    assert_eq!(in_time(guard.release()).await.expect("an answer"), Released::Now);
    votes
}

fn vote(votes: &Votes, node: usize) -> Vote {
    votes.iter().nth(node).expect("a node").vote.clone()
}

#[tokio::test]
async fn a_minority_that_is_killed_costs_nothing() {
    let (fleet, locks) = Fleet::with_locks(5).await;
    let held_before = locks.lock("before").await.unwrap();

    fleet.servers.kill(&[1, 4]);

    works(&locks).await;
    held_before.extend().await.unwrap();
    assert_eq!(held_before.release().await.unwrap(), Released::Now);
}

#[tokio::test]
async fn a_majority_that_is_killed_is_no_majority_and_named() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.servers.kill(&[0, 2]);

    let error = in_time(locks.lock(NAME).into_future()).await.unwrap_err();

    let text = error.to_string();
    let votes = no_majority(Err(error));
    assert_eq!(votes.tally().failed, 2, "{votes}");
    assert!(text.contains(&fleet.servers[0].url()), "{text}");
    in_time(soon("the survivor is tidy", || fleet.servers[1].keys().is_empty())).await;
    let nobody = patient().nodes(fleet.servers.urls()).connect().await;
    assert!(matches!(nobody, Err(ConnectError::NoMajority(_))), "{nobody:?}");
}

#[tokio::test]
async fn a_node_frozen_during_the_take_and_thawed_after_the_ttl_keeps_nothing() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    let before = (fleet.calls(2, "set"), fleet.calls(2, "evalsha"));
    fleet.servers.freeze(&[2]);

    let request = locks.lock(NAME).ttl(2 * SEC).node_timeout(500 * MS).no_renewal();
    let guard = request.await.unwrap();
    in_time(guard.lost()).await;
    drop(guard);
    let others_are_tidy = || (0..2).all(|node| fleet.servers[node].keys().is_empty());
    soon("the others have forgotten it", others_are_tidy).await;
    in_time(locks.settled()).await;
    fleet.servers.thaw(&[2]);

    // The take that waited there is carried out now, and the undo behind it.
    soon("the undo came through", || fleet.calls(2, "evalsha") > before.1).await;
    assert_eq!(fleet.calls(2, "set"), before.0 + 1);
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn an_attempt_that_froze_with_its_nodes_is_undone_when_they_thaw() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    fleet.servers.freeze(&[0, 1]);

    let votes = no_majority(locks.lock(NAME).ttl(5 * SEC).node_timeout(300 * MS).await);
    fleet.servers.thaw(&[0, 1]);
    in_time(locks.settled()).await;

    assert!(matches!(vote(&votes, 0), Vote::Failed(Fault::TimedOut(_))), "{votes}");
    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn a_black_hole_in_front_of_a_minority_costs_nothing() {
    let network = BadNetwork::new();
    let locks = network.locks().await;

    network.proxy.black_hole();

    works(&locks).await;
    works(&locks).await;
}

/// The commands sent into it are lost, and the network does not say so: only a new
/// connection helps.
#[tokio::test]
async fn a_node_behind_a_black_hole_votes_again_when_the_hole_is_gone() {
    let network = BadNetwork::new();
    let locks = network.locks().await;
    network.proxy.black_hole();
    works(&locks).await;
    network.proxy.pass();

    // Half a minute without a sign of life, for the runtime's clock alone.
    tokio::time::pause();
    tokio::time::advance(31 * SEC).await;
    tokio::time::resume();

    until_all_vote(&locks).await;
    network.fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn a_one_way_network_in_front_of_a_minority_costs_nothing_and_leaves_nothing() {
    for direction in [Direction::Requests, Direction::Replies] {
        let network = BadNetwork::new();
        let locks = network.locks().await;

        network.proxy.hold(direction);
        works(&locks).await;
        works(&locks).await;
        network.proxy.pass();

        in_time(locks.settled()).await;
        assert_eq!(network.fleet.keys(), [""; 0], "{direction:?}");
        until_all_vote(&locks).await;
    }
}

#[tokio::test]
async fn connections_that_are_reset_are_made_again() {
    let network = BadNetwork::new();
    let locks = network.locks().await;

    for _ in 0..5 {
        network.proxy.reset_all();
        works(&locks).await;
    }

    until_all_vote(&locks).await;
    network.fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn a_take_whose_reply_is_lost_counts_as_failed_and_is_undone() {
    let fleet = Fleet::of(3);
    let proxies = [0, 1].map(|node| Proxy::to(&fleet.servers[node]).unwrap());
    let urls = proxies.iter().map(Proxy::url).chain([fleet.servers[2].url()]);
    let locks = patient().nodes(urls).connect().await.unwrap();
    let takes = || fleet.calls(0, "set") + fleet.calls(1, "set");
    let before = takes();
    proxies.iter().for_each(Proxy::lose_next_reply);

    let votes = no_majority(locks.lock(NAME).node_timeout(500 * MS).await);

    assert_eq!(proxies.iter().map(Proxy::lost_replies).sum::<usize>(), 2);
    assert_eq!(takes(), before + 2, "both takes were carried out, once");
    assert!(matches!(vote(&votes, 0), Vote::Failed(Fault::TimedOut(_))), "{votes}");
    fleet.is_tidy_soon().await;
}

#[tokio::test]
async fn a_connect_that_hangs_does_not_hold_up_the_others() {
    let network = BadNetwork::new();
    network.proxy.hang_connects();

    let locks = in_time(network.locks()).await;

    let votes = works(&locks).await;
    assert!(!matches!(vote(&votes, 2), Vote::Granted), "{votes}");
    network.proxy.pass();
    until_all_vote(&locks).await;
}

#[tokio::test]
async fn a_server_is_sent_the_scripts_once_until_it_forgets_them() {
    let fleet = Fleet::of(1);
    let loads = async || {
        let before = fleet.calls(0, "script|load");
        let locks = patient().node(fleet.servers[0].url()).connect().await.unwrap();
        locks.lock(NAME).await.unwrap().release().await.unwrap();
        fleet.calls(0, "script|load") - before
    };

    let (new, known) = (loads().await, loads().await);
    fleet.servers[0].run(&["SCRIPT", "FLUSH"]);
    let forgotten = loads().await;

    // One shows that it is allowed.
    assert_eq!(known, 1);
    assert!(new > 1 && forgotten == new, "{new}, {forgotten}");
}

#[tokio::test]
async fn script_flush_in_a_loop_is_not_noticed() {
    let fleet = Arc::new(Fleet::of(3));
    let locks = fleet.locks().await;
    let done = Arc::new(AtomicBool::new(false));
    let flushing = thread::spawn({
        let (fleet, done) = (fleet.clone(), done.clone());
        move || {
            let mut flushes = 0;
            while !done.load(Ordering::Acquire) {
                for server in &fleet.servers {
                    server.run(&["SCRIPT", "FLUSH"]);
                    flushes += 1;
                }
            }
            flushes
        }
    });

    for round in 0..100 {
        let guard = locks.lock_all([NAME, "b"]).wait(LIMIT).await.unwrap();
        guard.extend().await.unwrap();
        assert!(locks.status(NAME).await.is_ok());
        assert_eq!(guard.release().await.unwrap(), Released::Now, "round {round}");
    }
    done.store(true, Ordering::Release);

    assert!(flushing.join().unwrap() > 100);
    fleet.is_tidy_after(&locks).await;
}

#[tokio::test]
async fn out_of_memory_is_no_vote_and_does_not_stop_extend_and_release() {
    let fleet = Fleet::mixed();
    let locks = fleet.locks().await;
    let single = locks.lock(NAME).ttl(10 * SEC).await.unwrap();
    let set = locks.lock_all(["a", "b"]).ttl(10 * SEC).await.unwrap();
    soon("all have the keys", || fleet.keys().len() == 9).await;

    for server in &fleet.servers {
        server.run(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
        server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    }

    for votes in [no_majority(locks.lock("c").await), no_majority(locks.lock_all(["d", "e"]).await)]
    {
        assert!(votes.to_string().contains("refuses writes: its memory is full"), "{votes}");
    }
    single.extend_by(20 * SEC).await.unwrap();
    set.extend_by(20 * SEC).await.unwrap();
    soon("all extended", || (0..3).all(|node| fleet.time_to_live(node, "b") > 12 * SEC)).await;
    assert_eq!(single.release().await.unwrap(), Released::Now);
    assert_eq!(set.release().await.unwrap(), Released::Now);
    fleet.is_tidy_after(&locks).await;
    // A client that comes now gets in, and votes again when there is memory.
    let late = fleet.locks().await;
    for server in &fleet.servers {
        server.run(&["CONFIG", "SET", "maxmemory", "0"]);
    }
    until_all_vote(&late).await;
}

#[tokio::test]
async fn a_server_that_lies_costs_its_vote_alone_and_no_memory() {
    let fleet = Fleet::of(3);
    let liar = Turncoat::before(&fleet.servers[2]);
    let good = [fleet.servers[0].url(), fleet.servers[1].url()];
    let locks = patient().nodes(good).node(liar.url()).connect().await.unwrap();
    let texts = [b"*1024\r\n".to_vec(), b"$1000000\r\n".to_vec(), vec![b'x'; 1_000_000]].concat();
    let before = memory_from_here_on();

    let lies: [&[u8]; 8] = [
        b"$99999999999\r\n",
        b"*99999999\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"\x00\xff\xfe",
        b":7\r\n:7\r\n:7\r\n:7\r\n",
        b"*0\r\n",
        b"$-1\r\n",
        b"+OK\r\n+OK\r\n+OK\r\n",
    ];
    for lie in lies {
        liar.answer(lie);
        works(&locks).await;
    }
    for lie in [&b"*1\r\n"[..], b"x", b"+", b"$5\r\nhello\r\n", &texts] {
        liar.answer_endlessly(lie);
        works(&locks).await;
        works(&locks).await;
    }

    let grown = memory().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes more");
    liar.repent();
    until_all_vote(&locks).await;
}

#[tokio::test]
async fn an_answer_that_never_ends_costs_its_connection() {
    let fleet = Fleet::of(3);
    let (locks, liar) = with_a_liar(&fleet).await;
    liar.trickle("+on and on ");
    works(&locks).await;
    while !liar.has_lied() {
        tokio::time::sleep(MS).await;
    }

    liar.repent();
    for _ in 0..=LONGEST_SILENCE.as_secs() {
        tokio::time::pause();
        tokio::time::advance(SEC).await;
        tokio::time::resume();
        works(&locks).await;
    }

    until_all_vote(&locks).await;
}

#[tokio::test]
async fn a_liar_met_at_connect_is_refused_and_costs_no_memory() {
    let text = [b"$1000000\r\n".to_vec(), vec![b'x'; 1_000_000], b"\r\n".to_vec()].concat();
    let array = [b"*100\r\n".to_vec(), text.repeat(100)].concat();
    let liar = Nonsense::endless(array).unwrap();
    let before = memory_from_here_on();

    let refused = in_time(redlatch::Locks::connect([liar.url()])).await;

    let grown = memory().saturating_sub(before);
    assert!(refused.is_err(), "{refused:?}");
    assert!(grown < 48 << 20, "{grown} bytes more");
}

#[tokio::test]
async fn what_a_server_says_unasked_before_its_first_answer_costs_no_memory() {
    let push = [b">1\r\n$60000\r\n".to_vec(), vec![b'x'; 60_000], b"\r\n".to_vec()].concat();
    let liar = Nonsense::endless(push).unwrap();
    let before = memory_from_here_on();

    let refused = in_time(redlatch::Locks::connect([liar.url()])).await;

    let grown = memory().saturating_sub(before);
    let told = refused.expect_err("it never answers").to_string();
    assert!(grown < 48 << 20, "{grown} bytes more");
    assert!(told.contains("not a Redis server: it talks, and does not answer"), "{told}");
}

/// Two good nodes and one that serves until the test makes it lie.
async fn with_a_liar(fleet: &Fleet) -> (redlatch::Locks, Turncoat) {
    let liar = Turncoat::before(&fleet.servers[2]);
    let good = [fleet.servers[0].url(), fleet.servers[1].url()];
    let locks = patient().nodes(good).node(liar.url()).connect().await.expect("locks");
    (locks, liar)
}

#[tokio::test]
async fn fault_53_half_a_reply_that_trickles_in_does_not_keep_the_engine_from_the_others() {
    let fleet = Fleet::of(3);
    let (locks, liar) = with_a_liar(&fleet).await;
    let row = [b"*1024\r\n".to_vec(), b":1\r\n".repeat(1024)].concat();

    liar.trickle([b"*1024\r\n".to_vec(), row.repeat(990), b"*1024\r\n:1\r\n".to_vec()].concat());

    for _ in 0..20 {
        let votes = works(&locks).await;
        let granted = votes.iter().filter(|vote| vote.vote == Vote::Granted).count();
        assert_eq!(granted, 2, "{votes}");
    }
}

#[tokio::test]
async fn fault_53_a_script_that_the_server_says_it_has_not_is_sent_in_full_once() {
    let fleet = Fleet::of(1);
    let liar = Turncoat::before(&fleet.servers[0]);
    let locks = patient().node(liar.url()).connect().await.unwrap();
    let (by_hash, in_full) = (fleet.calls(0, "evalsha"), fleet.calls(0, "eval"));

    liar.answer("-NOSCRIPT No matching script.\r\n");
    let votes = no_majority(locks.lock(NAME).ttl(2 * SEC).node_timeout(SEC).await);
    locks.settled().await; // which it never confirms: as long as the key may live

    let failed = format!("{:?}", vote(&votes, 0));
    assert!(failed.contains("NOSCRIPT in answer to a script"), "{failed}");
    let (by_hash, in_full) =
        (fleet.calls(0, "evalsha") - by_hash, fleet.calls(0, "eval") - in_full);
    assert!((1..=by_hash).contains(&in_full), "{by_hash} by hash, {in_full} in full");
}

/// What this process has now, in bytes; the peak counts from here.
fn memory_from_here_on() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").expect("our own peak");
    memory()
}

/// The most memory this process has had since then, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("our own status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes << 10
}

#[tokio::test]
async fn a_server_busy_with_a_script_is_no_vote() {
    let fleet = Fleet::with(3, &Server::options().config("lua-time-limit 20"));
    let locks = fleet.locks().await;
    let endless = |node: usize| {
        let mut client = TcpStream::connect(("127.0.0.1", fleet.servers[node].port())).unwrap();
        client.write_all(b"EVAL 'while true do end' 0\r\n").unwrap();
        let says_busy = || {
            let answer = fleet.servers[node].run(&["GET", NAME]);
            answer.text().is_some_and(|text| text.starts_with("BUSY"))
        };
        eventually(LIMIT, says_busy);
        client
    };

    let _one = endless(0);
    works(&locks).await;
    let _two = endless(1);
    let votes = no_majority(locks.lock(NAME).await);
    let late = patient().nodes(fleet.servers.urls()).connect().await;
    for node in [0, 1] {
        assert!(fleet.servers[node].run(&["SCRIPT", "KILL"]).is_ok());
    }

    assert!(votes.to_string().contains("BUSY"), "{votes}");
    assert!(matches!(late, Err(ConnectError::NoMajority(_))), "it will pass: {late:?}");
    until_all_vote(&locks).await;
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_no_vote() {
    let loading = Server::options().config("key-load-delay 20000");
    let loading = loading.config("loading-process-events-interval-bytes 1024");
    let fleet = Arc::new(Fleet::with(3, &loading));
    let locks = fleet.locks().await;
    for number in 0..100 {
        fleet.servers[2].run(&["SET", &format!("data:{number}"), &"x".repeat(4096)]);
    }
    assert!(fleet.servers[2].run(&["SAVE"]).is_ok());

    let restarting = tokio::task::spawn_blocking({
        let fleet = fleet.clone();
        move || fleet.servers[2].restart()
    });
    let mut says_loading = false;
    while !says_loading && !restarting.is_finished() {
        let client = TcpStream::connect(("127.0.0.1", fleet.servers[2].port()));
        says_loading = client.is_ok_and(|client| answer_to_get(client).contains("LOADING"));
    }
    let late = fleet.builder().connect().await;
    works(&locks).await;
    restarting.await.unwrap();

    assert!(late.is_ok(), "it will pass: {late:?}");
    assert!(says_loading, "it loaded too fast for this test");
    until_all_vote(&locks).await;
}

fn answer_to_get(mut client: TcpStream) -> String {
    use std::io::{BufRead, BufReader};
    let mut line = String::new();
    let _ = client.set_read_timeout(Some(SEC));
    if client.write_all(b"GET a\r\n").is_ok() {
        let _ = BufReader::new(client).read_line(&mut line);
    }
    line
}

#[tokio::test]
async fn a_server_that_is_full_is_no_vote_until_it_has_room() {
    let full = Server::options().config("maxclients 2");
    let fleet = Fleet {
        servers: redlatch_testbed::Servers::start_each([
            Server::options(),
            Server::options(),
            full,
        ])
        .unwrap(),
    };
    // One connection is the testbed's own, this is the other.
    let guest = TcpStream::connect(("127.0.0.1", fleet.servers[2].port())).unwrap();
    eventually(LIMIT, || fleet.servers[2].connected_clients() == 1);

    let locks = fleet.locks().await;
    let votes = works(&locks).await;

    assert!(!matches!(vote(&votes, 2), Vote::Granted), "{votes}");
    drop(guest);
    until_all_vote(&locks).await;
}

#[tokio::test]
async fn a_server_that_was_restarted_votes_again() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    works(&locks).await;

    fleet.servers.restart(&[0, 1, 2]);

    until_all_vote(&locks).await;
}

#[tokio::test]
async fn servers_that_close_idle_connections_are_not_noticed() {
    let fleet = Fleet::with(3, &Server::options().config("timeout 1"));
    let locks = fleet.locks().await;
    works(&locks).await;

    let all_closed = || fleet.servers.iter().all(|server| server.connected_clients() == 0);
    soon("the servers closed the connections", all_closed).await;
    // The runtime polls its sockets and then lets the links read, even if the time has
    // passed by the first poll.
    tokio::time::sleep(MS).await;
    tokio::task::yield_now().await;
    let guard = locks.lock(NAME).await.unwrap();

    soon("all granted, none by a second attempt", || fleet.nodes_with(NAME) == 3).await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn a_master_that_becomes_a_replica_is_no_vote() {
    let (fleet, locks) = Fleet::with_locks(3).await;
    for node in [0, 1] {
        fleet.servers[node].run(&["REPLICAOF", "127.0.0.1", "1"]);
    }

    let votes = no_majority(locks.lock(NAME).await);

    assert!(votes.to_string().contains("READONLY"), "{votes}");
}

#[tokio::test]
async fn a_key_of_another_type_is_held_and_left_alone() {
    for flavour in Flavour::ALL {
        let fleet = Fleet::with(3, &Server::options().flavour(flavour));
        let locks = fleet.locks().await;
        for server in &fleet.servers {
            server.run(&["LPUSH", NAME, "not a string"]);
        }

        held(locks.lock(NAME).await);
        held(locks.lock_all(["a", NAME]).await);
        locks.settled().await;

        assert_eq!(fleet.keys(), [NAME; 3], "{flavour}");
    }
}
