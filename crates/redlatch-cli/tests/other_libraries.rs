//! Locks of other libraries on our servers: they exclude ours, and cannot be told from
//! other data.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use support::{Sandbox, pty::Terminal, redlatch, says_all};

/// Three servers; the first has forgotten what another library locked on the first two.
fn forgotten_by_the_first(sandbox: fn(&Servers) -> Sandbox, lock: &[&str]) -> (Servers, Sandbox) {
    let servers = Servers::start(3).unwrap();
    let sandbox = sandbox(&servers);
    redlatch(&sandbox, &["admit", "--all"]).exits_with(0);
    for server in servers.iter().take(2) {
        server.run(lock);
        server.run(&["PEXPIRE", "job", "120000"]);
    }
    servers[0].run(&["FLUSHALL"]);
    (servers, sandbox)
}

#[track_caller]
fn nobody_vouches_unasked_with(lock: &[&str]) {
    let (servers, sandbox) = forgotten_by_the_first(Sandbox::guarded_long, lock);
    // Data, which no library would lock by.
    servers[1].run(&["SET", "data", "x"]);
    servers[1].run(&["RPUSH", "list", "x"]);
    servers[1].run(&["EXPIRE", "list", "1000"]);
    let first = servers[0].url();

    for which in [&["admit", "--all"][..], &["admit", &first]] {
        let refused = redlatch(&sandbox, which).exits_with(125).stderr;
        let on = format!("job (on {}, ", servers[1].url());
        says_all(&refused, &["1 key may be a lock of another library", &on, "left)", "--yes"]);
    }
    // One of the two that vote has the lock.
    redlatch(&sandbox, &["run", "job", "--", "true"]).exits_with(122);

    servers[1].run(&["DEL", "job"]);
    redlatch(&sandbox, &["admit", "--all"]).exits_with(0);
    redlatch(&sandbox, &["run", "job", "--", "true"]).exits_with(0);
}

#[test]
fn nobody_vouches_unasked_where_a_uuid_may_be_a_lock() {
    nobody_vouches_unasked_with(&["SET", "job", "6f1c2f0e-2c1d-4d7c-9a55-3a5d8f1c9b11"]);
}

#[test]
fn nobody_vouches_unasked_where_forty_hex_digits_may_be_a_lock() {
    nobody_vouches_unasked_with(&["SET", "job", "0123456789abcdef0123456789abcdef01234567"]);
}

#[test]
fn nobody_vouches_unasked_where_a_hash_may_be_a_lock() {
    nobody_vouches_unasked_with(&["HSET", "job", "6f1c2f0e-2c1d-4d7c-9a55-3a5d8f1c9b11:1", "1"]);
}

#[test]
fn a_person_is_shown_what_may_be_a_lock_of_another_library_before_vouching() {
    let (_servers, sandbox) = forgotten_by_the_first(Sandbox::guarded_long, &["SET", "job", "x"]);

    let mut terminal = Terminal::with(&sandbox, &["redlatch", "admit", "--all"]);
    terminal.shows("1 key may be a lock of another library: job (on ");
    terminal.shows("[y/N]");
    terminal.press("n\n");
    assert_eq!(terminal.end(), Some(125));
}

/// Many strings at once: with or without an expiry.
fn fill(server: &Server, count: usize, expiry: &str) {
    let script =
        format!("for i = 1, {count} do redis.call('SET', 'cached:' .. i, 'x'{expiry}) end");
    server.run(&["EVAL", &script, "0"]);
}

#[test]
fn on_a_server_with_a_cache_the_keys_are_counted_and_a_few_are_named() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    fill(&servers[0], 1000, ", 'EX', 1000");

    let refused = redlatch(&sandbox, &["admit", "--all"]).exits_with(125).stderr;

    says_all(&refused, &["1000 keys may be locks of other libraries: cached:", ", …;"]);
    assert_eq!(refused.matches("cached:").count(), 3, "{refused}");
    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
}

#[test]
fn vouching_says_if_there_were_too_many_keys_to_check() {
    let servers = Servers::start(1).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    fill(&servers[0], 150_000, "");
    let guard = ["--restart-guard", "on"];

    let refused = redlatch(&sandbox, &[&["admit", "--all"][..], &guard].concat());

    says_all(&refused.exits_with(125).stderr, &["it has too many keys to look at all of them"]);
}

#[test]
fn a_wait_for_nodes_reports_keys_that_outlive_the_wait() {
    let (servers, sandbox) = forgotten_by_the_first(Sandbox::guarded, &["SET", "job", "x"]);

    let waited = redlatch(&sandbox, &["admit", "--wait"]).exits_with(0).stderr;
    let on = format!("job (on {}, ", servers[1].url());
    says_all(&waited, &["1 key lives longer than max_ttl, 2.0s: ", &on, "another library"]);

    // By now every forgotten lock has expired.
    let calm = redlatch(&sandbox, &["admit", "--wait"]).exits_with(0).stderr;
    assert!(!calm.contains("max_ttl"), "{calm}");
}
