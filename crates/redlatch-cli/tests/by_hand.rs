//! `acquire`, `extend` and `release` while servers are slow or silent.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Servers;
use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use support::{Ended, PATIENCE, Sandbox, eventually, redlatch, start};

const TTL: Duration = Duration::from_secs(10);

/// How long the lock of a handle is good for, at this moment.
fn left(handle: &str) -> Duration {
    let until = handle.split(':').nth(2).and_then(|until| until.parse().ok());
    let until = Duration::from_millis(until.expect("a handle knows its end"));
    until.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

/// Servers of which the last one is mute, and a lock that somebody holds.
fn held_while_one_is_mute() -> (Servers, Sandbox, String) {
    let (servers, sandbox) = Sandbox::with_servers(3);
    servers.freeze(&[2]);
    let first = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    (servers, sandbox, first)
}

#[test]
fn a_mute_node_does_not_use_up_the_lease_before_its_handle_is_printed() {
    let (servers, sandbox, first) = held_while_one_is_mute();
    let script = "lock=$(redlatch acquire x --ttl 10s --wait 1m) && echo \"$lock\"";
    let waiting = start(sandbox.shell(script));
    // Attempts were made, and have to be undone on the mute node.
    thread::sleep(Duration::from_secs(2));

    redlatch(&sandbox, &["release", first.trim()]).exits_with(0);
    let released = Instant::now();

    let handle = waiting.end().exits_with(0).stdout;
    assert!(left(&handle) >= TTL / 2, "{:?} left after {:?}", left(&handle), released.elapsed());
    // What is left of those attempts is cleaned up behind the script's back.
    servers.thaw(&[2]);
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);
    eventually(PATIENCE, || servers.keys_everywhere() == [[""; 0]; 3]);
}

#[test]
fn releasing_and_extending_do_not_wait_for_a_mute_node() {
    let (_servers, sandbox, first) = held_while_one_is_mute();
    let began = Instant::now();

    let longer = redlatch(&sandbox, &["extend", first.trim()]).exits_with(0).stdout;
    redlatch(&sandbox, &["release", longer.trim()]).exits_with(0);

    assert!(began.elapsed() < TTL, "{:?}", began.elapsed());
    assert!(sandbox.is_free("x"));
}

#[test]
fn a_signal_ends_acquire_at_any_time_and_leaves_no_key() {
    let (servers, sandbox, _) = held_while_one_is_mute();
    for (signal, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let waiting = start(sandbox.redlatch(["acquire", "x", "y", "--wait", "1m"]));
        thread::sleep(Duration::from_millis(300));

        waiting.signal(signal);

        waiting.end().exits_with(code);
    }
    servers.thaw(&[2]);
    eventually(PATIENCE, || servers.keys_everywhere() == [vec!["x"], vec!["x"], vec![]]);
}

#[test]
fn acquire_that_is_killed_while_it_waits_takes_nothing_later() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    let first = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    let waiting = start(sandbox.redlatch(["acquire", "x", "--wait", "1m"]));
    thread::sleep(Duration::from_millis(300));

    waiting.signal("KILL");
    let _ = waiting.end();
    redlatch(&sandbox, &["release", first.trim()]).exits_with(0);

    // Longer than any pause between two attempts.
    thread::sleep(Duration::from_secs(1));
    assert!(sandbox.is_free("x"));
}

#[test]
fn a_handle_that_cannot_be_printed_leaves_nothing_locked() {
    let sandbox = Sandbox::embedded();

    let ended = sandbox.shell("redlatch acquire x > /dev/full").output().unwrap();

    Ended::of(&ended).exits_with(125);
    assert!(sandbox.is_free("x"));
}

#[test]
fn the_script_of_the_guide_gives_the_lock_back_whatever_fails() {
    let guide = include_str!("../../../docs/cli.md");
    let script = guide.split("```sh\n").find(|script| script.contains("redlatch acquire deploy"));
    let script = script.unwrap().split("```").next().unwrap();
    for (failing, code) in [("extend", 122), ("nothing", 0)] {
        let sandbox = Sandbox::embedded();
        // Stands in for nodes that answer again by the time of the release.
        let setup = format!(
            "redlatch() {{ [ $1 = {failing} ] && return 122; command redlatch \"$@\"; }}; \
             for step in build upload; do echo > $step.sh; chmod +x $step.sh; done"
        );

        let ended = start(sandbox.shell(&format!("{setup}\n{script}"))).end();

        ended.exits_with(code);
        assert!(sandbox.is_free("deploy"), "{failing}");
    }
}

#[test]
fn a_key_that_is_no_lock_stays_and_is_called_what_it_is() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    for server in &servers {
        server.run(&["RPUSH", "stuck", "a"]);
        server.run(&["SET", "text", "a"]);
    }

    for name in ["stuck", "text"] {
        let forced = redlatch(&sandbox, &["release", "--force", name, "--yes"]).exits_with(125);
        let words =
            format!("{name} was not taken away on any node; on 3 of 3 nodes the key is no lock");
        assert!(forced.stderr.contains(&words), "{forced:?}");
        assert!(forced.stderr.contains("if nobody needs it, delete it there"), "{forced:?}");
        for wrong in ["server error", "was free"] {
            assert!(!forced.stderr.contains(wrong), "{forced:?}");
        }
        let seen = redlatch(&sandbox, &["status", name]).exits_with(121).stdout;
        let words = "the key has no TTL, so it is data and not a lock";
        assert_eq!(seen.matches(words).count(), 4, "{seen}");
    }
}

#[test]
fn the_nodes_where_a_lock_was_not_taken_away_are_named_as_such() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    redlatch(&sandbox, &["acquire", "x", "--owner", "ada"]).exits_with(0);
    servers[1].kill();
    servers[2].kill();

    let forced = redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(122).stderr;

    let words = "x was held by ada; taken away on 1 of 3 nodes; the outcome is not known on 2 of 3 nodes: redis://";
    assert!(forced.contains(words), "{forced}");
    assert!(forced.contains("; it is not known whether x is free"), "{forced}");
    let told = redlatch(&sandbox, &["log", "--last", "1"]).stdout;
    assert!(told.contains(words) && !told.contains("not released"), "{told}");
}

#[test]
fn a_forced_release_that_no_node_answers_says_what_is_not_known_once() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    servers[0].kill();

    let forced = redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(122).stderr;

    let words = "it is not known whether x is free: the only node failed: redis://";
    assert!(forced.contains(words) && forced.trim_end().ends_with("; try again"), "{forced}");
    assert!(!forced.contains("1 of 1") && !forced.contains("not taken away"), "{forced}");
}

#[test]
fn a_lock_of_another_library_is_taken_away_however_long_its_value_is() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let put = |length| {
        for server in &servers {
            server.run(&["SET", "x", &"v".repeat(length), "PX", "600000"]);
        }
        redlatch(&sandbox, &["status", "x"]).exits_with(121);
    };
    for length in [512, 513, 65_536] {
        put(length);
        let forced = redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(0);
        let words = "x was held by another owner; taken away on 3 of 3 nodes";
        assert!(forced.stdout.contains(words), "{length}: {forced:?}");
        assert!(sandbox.is_free("x"), "{length}");
    }

    put(65_537);
    let forced = redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(125).stderr;

    assert!(forced.contains("the key is no lock and stays, since"), "{forced}");
    assert!(forced.contains("is longer than 64 KiB; if nobody"), "{forced}");
    let told = redlatch(&sandbox, &["log", "--last", "1"]).stdout;
    assert!(told.contains("not released: x was not taken away on any node"), "{told}");
    assert!(!sandbox.is_free("x"));
}

#[test]
fn a_name_instead_of_a_handle_is_answered_with_how_to_release_by_name() {
    let sandbox = Sandbox::embedded();

    let refused = redlatch(&sandbox, &["release", "deploy"]).exits_with(125).stderr;

    assert!(refused.contains("`redlatch release --force NAME`"), "{refused}");
}

#[test]
fn a_release_after_a_forced_one_says_that_it_may_have_been_taken_away() {
    let sandbox = Sandbox::embedded();
    let handle = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(0);

    let gone = redlatch(&sandbox, &["release", handle.trim()]).exits_with(123).stderr;

    assert!(gone.contains("somebody took it away"), "{gone}");
}

#[test]
fn what_a_minority_still_had_of_a_lost_lock_is_said_to_be_released() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let handle = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    for server in [&servers[0], &servers[1]] {
        server.run(&["DEL", "x"]);
    }

    let said = redlatch(&sandbox, &["release", handle.trim()]).exits_with(123).stderr;

    assert!(
        said.contains("; if a node still had it, it was removed there; no other lock was touched"),
        "{said}"
    );
    assert!(!servers[2].keys().iter().any(|key| key == "x"));
}

#[test]
fn asking_nodes_that_the_lock_is_not_on_is_reported_as_a_possible_cause() {
    let (servers, sandbox) = Sandbox::with_servers(2);
    let [here, there] = [0, 1].map(|at| servers[at].url());
    let take = ["acquire", "x", "--node", &here];
    let handle = redlatch(&sandbox, &take).exits_with(0).stdout;

    for task in ["release", "extend"] {
        let ended = redlatch(&sandbox, &[task, handle.trim(), "--node", &there]).exits_with(123);

        assert!(ended.stderr.contains("or it was taken on other nodes"), "{ended:?}");
    }
}

#[test]
fn a_handle_that_was_released_before_is_told_so_first() {
    let sandbox = Sandbox::embedded();
    let handle = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);

    let released = redlatch(&sandbox, &["release", handle.trim()]).exits_with(123).stderr;
    let extended = redlatch(&sandbox, &["extend", handle.trim()]).exits_with(123).stderr;

    for said in [released, extended] {
        let words = "the lock is no longer yours: it has been released already, it has expired, ";
        assert!(said.contains(words), "{said}");
    }
}
