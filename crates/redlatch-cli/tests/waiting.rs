//! Waiting in line, and what can go wrong around it, as the command tells it.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use std::{
    fs,
    io::Write,
    net::TcpStream,
    time::{Duration, Instant},
};
use support::{PATIENCE, Running, Sandbox, child_of, eventually, redlatch, says, send, start};

/// Somebody who waits for `x`, and is in line.
fn in_line(sandbox: &Sandbox) -> Running {
    let waiter = sandbox.run("x --wait 1m", "true");
    eventually(PATIENCE, || {
        redlatch(sandbox, &["status", "x"]).stdout.contains("waiting in line: 1")
    });
    waiter
}

/// A lock on `x` whose command goes on until the file `go` is there.
fn held_until_told(sandbox: &Sandbox) -> Running {
    let running = sandbox.run("x", "echo > up; while [ ! -e go ]; do sleep 0.01; done");
    eventually(PATIENCE, || sandbox.path("up").exists());
    running
}

/// A server with a user who may do all that locks need, on these keys.
fn with_user(keys: &[&str]) -> (Server, Sandbox, String) {
    let server = Server::start().unwrap();
    let permissions = redlatch::node::REDIS_PERMISSIONS.split_whitespace();
    let rules = ["ACL", "SETUSER", "ada", "on", ">pw"].into_iter().chain(permissions);
    let rules: Vec<_> = rules.chain(keys.iter().copied()).collect();
    assert_eq!(server.run(&rules).text().as_deref(), Some("OK"));
    let node = server.url().replace("//", "//ada:pw@");
    (server, Sandbox::embedded(), node)
}

#[test]
fn a_user_who_may_not_use_our_own_keys_is_told_so_before_a_lock_is_taken() {
    for keys in [&["~x"][..], &["~x", "~redlatch:node"]] {
        let (_server, sandbox, node) = with_user(keys);

        let ended = redlatch(&sandbox, &["run", "x", "--node", &node, "--", "echo", "never"]);

        let ended = ended.exits_with(122);
        says(&ended.stderr, "may not access the keys under redlatch:");
        says(&ended.stderr, "~redlatch:*");
        assert_eq!(ended.stdout, "");
    }
}

#[test]
fn a_release_that_a_server_refuses_names_the_cause() {
    let (server, sandbox, node) = with_user(&["~x", "~redlatch:*"]);
    let script = "echo > up; while [ ! -e go ]; do sleep 0.01; done";
    let command = ["run", "x", "--node", &node, "--", "sh", "-c", script];
    let running = start(sandbox.redlatch(command));
    eventually(PATIENCE, || sandbox.path("up").exists());

    server.run(&["ACL", "SETUSER", "ada", "resetkeys", "~x", "~redlatch:node"]);
    fs::write(sandbox.path("go"), "").unwrap();

    let ended = running.end().exits_with(0);
    says(&ended.stderr, "it is not known whether the lock is released: ");
    says(&ended.stderr, &format!("redis://127.0.0.1:{}: server error: ", server.port()));
    assert!(ended.stderr.contains("ermission") || ended.stderr.contains("access"), "{ended:?}");
}

#[test]
fn a_waiter_that_is_killed_is_not_said_to_have_held_the_lock() {
    let sandbox = Sandbox::embedded();
    let _holder = sandbox.hold("x");
    let waiter = in_line(&sandbox);

    send("KILL", child_of(waiter.pid()));

    let ended = waiter.end().exits_with(125);
    says(&ended.stderr, "the process that waited for the lock was killed; it never had the lock");
    let log = redlatch(&sandbox, &["log", "x", "--failed"]).stdout;
    assert!(log.contains("it never had the lock"), "{log}");
    for words in [ended.stderr, log] {
        assert!(!words.contains("the process that held the lock"), "{words}");
    }
}

#[test]
fn a_waiter_that_ends_leaves_no_socket_behind() {
    let sandbox = Sandbox::embedded();
    let sockets = sandbox.path("redlatch/locks.db-wake");
    for how in ["its turn", "a signal", "its turn", "a signal"] {
        let holder = held_until_told(&sandbox);
        let waiter = in_line(&sandbox);
        assert!(fs::read_dir(&sockets).unwrap().count() > 0, "nobody listens");
        if how == "a signal" {
            waiter.signal("TERM");
            waiter.end().exits_with(143);
        } else {
            fs::write(sandbox.path("go"), "").unwrap();
            waiter.end().exits_with(0);
        }
        fs::write(sandbox.path("go"), "").unwrap();
        holder.end().exits_with(0);

        let left = fs::read_dir(&sockets).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{how} left a socket");
        fs::remove_file(sandbox.path("go")).unwrap();
        fs::remove_file(sandbox.path("up")).unwrap();
    }
}

#[test]
fn what_is_no_ticket_costs_nobody_a_release() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    let ticket = "0123456789abcdef".repeat(2);
    // Somebody listens, as a client would: nobody is passed over.
    let mut client = TcpStream::connect(("127.0.0.1", servers[0].port())).unwrap();
    let channels = "SUBSCRIBE redlatch:wake:0123456789ab redlatch:wake:xxxxxxxxxxxx\r\n";
    client.write_all(channels.as_bytes()).unwrap();
    let listens = || servers[0].run(&["PUBSUB", "CHANNELS"]).items().len() == 2;
    eventually(PATIENCE, listens);
    for line in [format!("{ticket}zzzz "), "x".repeat(37), format!("{ticket}0\n0  ")] {
        let running = held_until_told(&sandbox);
        servers[0].run(&["SET", "redlatch:line:x", &line]);
        servers[0].run(&["SET", "redlatch:waits:x", ""]);

        fs::write(sandbox.path("go"), "").unwrap();

        let ended = running.end().exits_with(0);
        assert_eq!(ended.stderr, "", "{line:?}");
        assert_eq!(servers[0].keys(), [""; 0], "{line:?}");
        fs::remove_file(sandbox.path("go")).unwrap();
        fs::remove_file(sandbox.path("up")).unwrap();
    }
}

#[test]
fn the_time_waited_is_not_taken_for_the_time_to_wait() {
    let sandbox = Sandbox::embedded();
    let _holder = sandbox.hold("x --owner ada");

    let waited = redlatch(&sandbox, &["run", "x", "--wait", "2s", "-v", "--", "true"]);

    says(&waited.stderr, "x is held by ada; waited ");
    says(&waited.stderr, " so far, gives up in ");
}

#[test]
fn servers_that_refuse_the_password_are_waited_for_like_servers_that_are_down() {
    let (server, sandbox, _) = with_user(&["~*"]);
    let node = server.url_as("ada", "new");
    let run = |options: &[&str]| {
        let words = [&["run", "x", "--node", &node], options, &["--", "true"]].concat();
        start(sandbox.redlatch(words))
    };

    let ended = run(&[]).end().exits_with(122);
    let status = redlatch(&sandbox, &["status", "x", "--node", &node]);
    server.run(&["ACL", "LOG", "RESET"]);
    let patient = run(&["--wait", "1m"]);
    eventually(PATIENCE, || !server.run(&["ACL", "LOG"]).items().is_empty());
    server.run(&["ACL", "SETUSER", "ada", ">new"]);

    says(&ended.stderr, "cannot be used: WRONGPASS");
    assert!(status.stdout.contains("answers, but cannot be used: WRONGPASS"), "{status:?}");
    assert!(!status.stdout.contains("down"), "{status:?}");
    patient.end().exits_with(0);
}

#[test]
fn a_wait_for_nodes_whose_memory_is_full_says_so_and_is_on_record() {
    for task in ["run x --wait 1m -- true", "acquire x --wait 1m --json"] {
        let (servers, sandbox) = Sandbox::with_servers(3);
        let limit = |most| {
            for server in servers.iter().take(2) {
                server.run(&["CONFIG", "SET", "maxmemory", most]);
            }
        };
        limit("1mb");
        let waiting = start(sandbox.shell(&format!("exec redlatch {task} 2> said")));

        let mut said = String::new();
        eventually(PATIENCE, || {
            said = fs::read_to_string(sandbox.path("said")).unwrap_or_default();
            said.contains("cannot be taken; waited ")
        });

        let why = "refuses writes: its memory is full (maxmemory); give it more memory";
        let both = format!("{}, {}: {why}", servers[0].url(), servers[1].url());
        assert!(said.contains("1 of 3 nodes would vote") && said.contains(&both), "{said}");
        let log = redlatch(&sandbox, &["log"]).exits_with(0).stdout;
        assert!(log.contains("has been waiting for the lock") && log.contains(why), "{log}");
        limit("0");
        waiting.end().exits_with(0);
    }
}

#[test]
fn giving_up_on_nodes_whose_memory_is_full_says_what_to_do() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    servers[0].run(&["CONFIG", "SET", "maxmemory", "1mb"]);

    let ended = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122);
    let log = redlatch(&sandbox, &["log"]).exits_with(0).stdout;

    let words =
        "refuses writes: its memory is full (maxmemory); give it more memory (maxmemory), or";
    says(&ended.stderr, words);
    assert!(log.contains(words), "{log}");
}

#[test]
fn a_wait_for_nodes_that_deny_the_key_says_why() {
    let (server, sandbox, node) = with_user(&["~redlatch:*"]);
    let script = format!("exec redlatch run x --wait 1m --node '{node}' -- true 2> said");
    let waiting = start(sandbox.shell(&script));

    let mut said = String::new();
    eventually(PATIENCE, || {
        said = fs::read_to_string(sandbox.path("said")).unwrap_or_default();
        said.contains("answering with errors")
    });

    let reason = said.split("answering with errors: ").nth(1).unwrap();
    assert!(reason.contains("NOPERM") || reason.contains("permission"), "{said}");
    server.run(&["ACL", "SETUSER", "ada", "~x"]);
    waiting.end().exits_with(0);
}

#[test]
fn a_wait_for_a_holder_says_at_once_that_the_nodes_refuse_writes() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let _holder = sandbox.hold("x --owner ada --log off");
    let waiting = start(sandbox.shell("exec redlatch run x --wait 1m -v -- true 2> said"));
    let said = || fs::read_to_string(sandbox.path("said")).unwrap_or_default();
    eventually(PATIENCE, || said().contains("x is held by ada; waited "));

    for server in &servers {
        server.run(&["CONFIG", "SET", "maxmemory", "1"]);
    }

    // Long before the next reminder, after 30 s.
    let why = "refuses writes: its memory is full (maxmemory); give it more memory";
    eventually(PATIENCE, || said().contains(why));
    waiting.signal("TERM");
    waiting.end().exits_with(143);
}

#[test]
fn a_signal_that_ends_a_wait_does_not_hide_what_was_waited_for() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let holder = sandbox.hold("x --owner ada --log off");
    let waits = |task: &str| {
        let waiting = start(sandbox.shell(&format!("exec redlatch {task}")));
        let log = || redlatch(&sandbox, &["log", "x", "--last", "1"]).stdout;
        eventually(PATIENCE, || log().contains(" has been waiting for the lock since "));
        waiting.signal("TERM");
        (waiting.end().exits_with(143).stderr, log())
    };

    for task in ["run x --wait 1m -- true", "acquire x --wait 1m"] {
        let (said, log) = waits(task);

        for words in [said, log] {
            let told = words.contains("SIGTERM ended the wait for the lock: x is held by ada");
            assert!(told, "{task}: {words}");
        }
    }
    drop(holder);
    servers.kill(&[0, 1]);
    for task in ["run x --wait 1m -- true", "acquire x --wait 1m"] {
        let (said, log) = waits(task);

        for words in [said, log] {
            assert!(
                words.contains("SIGTERM ended the wait for the lock: 2 of 3 nodes do not"),
                "{task}: {words}"
            );
        }
    }
}

#[test]
fn a_wait_for_dead_nodes_uses_all_of_its_time() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    servers.kill(&[0, 1, 2]);

    for task in ["run x --wait 1100ms -- true", "acquire x --wait 1100ms"] {
        let began = Instant::now();
        start(sandbox.shell(&format!("exec redlatch {task}"))).end().exits_with(122);

        assert!(began.elapsed() >= Duration::from_millis(1100), "{task}: {:?}", began.elapsed());
    }
    let log = redlatch(&sandbox, &["log", "x", "--json"]).stdout;
    for line in log.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(record["waited_ms"].as_u64() >= Some(1100), "{line}");
    }
}

#[test]
fn the_time_that_nodes_were_dead_is_part_of_the_wait() {
    for task in ["run x --wait 3s -- true", "acquire x --wait 3s"] {
        let servers = Servers::start_with(1, &Server::options().appendonly()).unwrap();
        let sandbox = Sandbox::on(&servers);
        let handle = redlatch(&sandbox, &["acquire", "x", "--log", "off"]).stdout;
        servers.kill(&[0]);
        let began = Instant::now();
        let waiter = start(sandbox.shell(&format!("exec redlatch {task}")));
        eventually(PATIENCE, || began.elapsed() > Duration::from_secs(2));

        // It is there again, and so is the lock: until a second after the wait.
        servers.restart(&[0]);
        eventually(PATIENCE, || began.elapsed() > Duration::from_secs(4));
        redlatch(&sandbox, &["release", handle.trim(), "--log", "off"]);

        let ended = waiter.end();
        assert!(!ended.status.success(), "{task}: it waited on: {ended:?}");
    }
}
