//! What `doctor` recognises, in the words an operator needs.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Certificates, Direction, Flavour, Proxy, Server, Servers};
use std::{
    fs,
    net::{TcpListener, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};
use support::{PATIENCE, Running, Sandbox, eventually, redlatch, says, start};

#[test]
fn tls_on_one_side_only_is_recognised() {
    let server = Server::options().tls(Certificates::good()).start().unwrap();
    let sandbox = Sandbox::embedded();
    let ca = server.dir().join("ca.pem");
    let plain_to_tls = format!("redis://127.0.0.1:{}", server.tls_port());
    let tls_to_plain = format!("rediss://127.0.0.1:{}", server.port());

    let wants = redlatch(&sandbox, &["doctor", "--node", &plain_to_tls]).exits_with(2).stdout;
    let node = format!("{tls_to_plain}?ca={}", ca.display());
    let has_none = redlatch(&sandbox, &["doctor", "--node", &node]).exits_with(2).stdout;

    says(&wants, "it wants TLS, and the address says redis://");
    says(&wants, &format!("fix: write rediss://127.0.0.1:{}", server.tls_port()));
    says(&has_none, "it has no TLS at this port");
    says(&has_none, &format!("write redis://127.0.0.1:{}", server.port()));
}

#[test]
fn doctor_counts_the_problems_that_it_lists() {
    let sandbox = Sandbox::embedded();
    let nodes = ["redis://127.0.0.1:1", "redis://127.0.0.1:2", "redis://127.0.0.1:3"];

    let args: Vec<_> = nodes.iter().flat_map(|node| ["--node", node]).collect();
    let three = redlatch(&sandbox, &[&["doctor"], &args[..]].concat()).exits_with(2).stdout;
    let one = redlatch(&sandbox, &[&["doctor"], &args[..2]].concat()).exits_with(2).stdout;

    for (said, count) in [(three, 3), (one, 1)] {
        says(&said, "No lock can be taken");
        assert_eq!(said.matches("  problem  ").count(), count, "{said}");
        says(&said, &format!("Problems: {count}, "));
    }
}

#[test]
fn a_server_that_accepts_few_more_clients_is_named() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let few = "clients are connected, and it accepts 100: at that limit it refuses";
    assert!(servers[1].run(&["CONFIG", "SET", "maxclients", "100"]).is_ok());
    if servers[1].info("maxclients").is_none() {
        eprintln!("SKIPPED: this server does not tell how many clients it accepts");
        return;
    }
    let before = redlatch(&sandbox, &["doctor"]).stdout;
    assert!(!before.contains(few), "{before}");

    let clients: Vec<_> =
        (0..90).map(|_| TcpStream::connect(("127.0.0.1", servers[1].port())).unwrap()).collect();
    // Those that connect are counted a moment later.
    eventually(PATIENCE, || redlatch(&sandbox, &["doctor"]).stdout.contains(few));

    drop(clients);
    eventually(PATIENCE, || !redlatch(&sandbox, &["doctor"]).stdout.contains(few));
}

/// A Sentinel, and its port.
fn sentinel(sandbox: &Sandbox) -> (Running, u16) {
    let program = Flavour::ALL.iter().find_map(|flavour| flavour.find().ok()).unwrap().program;
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = sandbox.path("sentinel.conf");
    fs::write(&config, format!("port {port}\nsentinel monitor m 127.0.0.1 1 1\n")).unwrap();
    let mut command = Command::new(program);
    command.arg(&config).arg("--sentinel").current_dir(sandbox.dir());
    let running = Running::of(command.stdout(Stdio::null()).spawn().unwrap());
    eventually(PATIENCE, || TcpStream::connect(("127.0.0.1", port)).is_ok());
    (running, port)
}

#[test]
fn a_sentinel_is_recognised() {
    let sandbox = Sandbox::embedded();
    let (_sentinel, port) = sentinel(&sandbox);
    let node = format!("redis://127.0.0.1:{port}");

    let found = redlatch(&sandbox, &["doctor", "--node", &node]).exits_with(2).stdout;
    let refused = redlatch(&sandbox, &["run", "x", "--node", &node, "--", "true"]).exits_with(125);

    says(&found, "it is a Sentinel");
    says(&refused.stderr, &format!("{node} cannot be used: it knows no scripts"));
    assert!(!refused.stderr.contains("KEYS"), "{}", refused.stderr);
}

#[test]
fn a_file_that_cannot_be_used_is_not_called_a_server() {
    let sandbox = Sandbox::embedded();
    let node = "file:/proc/locks.db";

    let refused = redlatch(&sandbox, &["run", "x", "--node", node, "--", "true"]).exits_with(125);

    says(&refused.stderr, "redlatch: file:/proc/locks.db cannot be used: ");
    assert!(!refused.stderr.contains("server"), "{}", refused.stderr);
}

#[test]
fn a_majority_down_is_broken_and_a_minority_is_degraded() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers);
    servers[2].kill();
    redlatch(&sandbox, &["doctor"]).exits_with(1);
    servers[1].kill();

    let found = redlatch(&sandbox, &["doctor"]).exits_with(2).stdout;

    assert!(found.starts_with("No lock can be taken: 1 of 3 nodes may vote, 2 must."), "{found}");
}

#[test]
fn one_node_of_three_that_cannot_be_used_is_degraded() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let evict = |server: &Server| {
        server.run(&["CONFIG", "SET", "maxmemory", "1gb"]);
        server.run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    };
    evict(&servers[2]);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);

    let found = redlatch(&sandbox, &["doctor"]).exits_with(1).stdout;

    says(&found, "warning  it cannot be used: it may throw locks away");
    says(&found, "fix: CONFIG SET maxmemory-policy noeviction");
    evict(&servers[1]);
    let found = redlatch(&sandbox, &["doctor"]).exits_with(2).stdout;
    says(&found, "problem  it cannot be used: it may throw locks away");
}

#[test]
fn a_user_who_may_not_list_locks_is_told_what_is_missing() {
    let rules = "~* resetchannels -@all +eval +evalsha +script|load +get +getrange +set +del +exists \
                 +pexpire +pttl +hmget +hset +ping +info +time +select";
    let server = Server::options().appendonly().user("locks", "pw", rules).start().unwrap();
    let sandbox = Sandbox::embedded();
    let node = server.url_as("locks", "pw");

    let found = redlatch(&sandbox, &["doctor", "--node", &node]).exits_with(1).stdout;

    says(&found, "this user may not list locks");
    says(&found, "fix: ACL SETUSER locks +scan");
}

#[test]
fn a_lock_that_never_expires_is_reported_by_run_and_by_doctor() {
    let servers = Servers::start(1).unwrap();
    let sandbox = Sandbox::on(&servers);
    redlatch(&sandbox, &["acquire", "x", "--owner", "ada"]).exits_with(0);
    servers[0].run(&["PERSIST", "x"]);
    servers[0].run(&["SET", "by hand", "something"]);

    let found = redlatch(&sandbox, &["doctor"]).exits_with(1).stdout;
    let held = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(121).stderr;
    let foreign = redlatch(&sandbox, &["run", "by hand", "--", "true"]).exits_with(121).stderr;

    says(&found, "the lock x never expires: its key has no TTL");
    says(&found, "delete its key on every node");
    says(&held, "x is held by ada, and never expires: its key has no TTL");
    let data = "by hand is not available: the key has no TTL, so it is data and not a lock; give";
    says(&foreign, data);
    says(&foreign, "give the lock another name");
    assert!(!foreign.contains("delete"), "{foreign}");
}

#[test]
fn data_under_the_name_of_a_lock_is_a_failure_that_quiet_does_not_hide() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    for (at, server) in servers.iter().enumerate() {
        server.run(&["SET", "same", "data"]);
        server.run(&["SET", "different", &format!("data {at}")]);
    }

    for name in ["same", "different"] {
        let run = ["run", name, "--quiet", "-E", "0", "--", "echo", "never"];
        let ran = redlatch(&sandbox, &run).exits_with(0);
        let acquired = redlatch(&sandbox, &["acquire", name, "--quiet"]).exits_with(121);

        for ended in [ran, acquired] {
            assert_eq!(ended.stdout, "");
            says(&ended.stderr, "the key has no TTL, so it is data and not a lock");
            says(&ended.stderr, "give the lock another name");
        }
    }
    redlatch(&sandbox, &["acquire", "held"]).exits_with(0);
    let held = redlatch(&sandbox, &["run", "held", "--quiet", "--", "true"]).exits_with(121);
    assert_eq!(held.stderr, "");
}

#[test]
fn a_password_that_the_server_does_not_take_has_a_fix() {
    let server = Server::start().unwrap();
    server.run(&["ACL", "SETUSER", "ada", "on", ">right", "+@all", "~*"]);
    let node = server.url_as("ada", "wrong");
    let sandbox = Sandbox::embedded();

    let found = redlatch(&sandbox, &["doctor", "--node", &node]).exits_with(2).stdout;

    says(&found, "WRONGPASS");
    says(&found, "fix: write the user and the password that the server has");
}

#[test]
fn one_slow_node_of_three_is_degraded_and_two_are_broken() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let proxies: Vec<Proxy> = servers.iter().map(|server| Proxy::to(server).unwrap()).collect();
    let nodes = proxies.iter().map(Proxy::url).collect::<Vec<_>>().join(",");
    let doctor = || {
        let mut command = sandbox.redlatch(["doctor", "--node-timeout", "500ms"]);
        command.env("REDLATCH_NODES", &nodes);
        start(command).end()
    };
    let slow = Duration::from_millis(600);
    let words = "and has 500ms with a TTL of 30s: it would never vote";

    proxies[1].delay(Direction::Replies, slow);
    let degraded = doctor().exits_with(1).stdout;
    proxies[2].delay(Direction::Replies, slow);
    let broken = doctor().exits_with(2).stdout;

    says(&degraded, "  warning  it answers in 6");
    says(&degraded, words);
    says(&broken, "No lock can be taken: 1 of 3 nodes may vote, 2 must.");
    says(&broken, "  problem  it answers in 6");
}

#[test]
fn the_commands_that_make_a_server_remember_can_be_pasted_each_by_itself() {
    let (servers, sandbox) = Sandbox::with_servers(3);

    let found = redlatch(&sandbox, &["doctor"]).exits_with(1).stdout;

    let fixes = found.lines().filter(|line| line.contains("appendonly"));
    let fixes: Vec<&str> = fixes.collect();
    assert_eq!(fixes.len(), 3, "{found}");
    for (server, fix) in servers.iter().zip(fixes) {
        let commands: Vec<&str> = fix.split('`').skip(1).step_by(2).collect();
        assert_eq!(commands.len(), 3, "{fix}");
        for command in commands {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(server.run(&words).is_ok(), "{command}");
        }
    }
    let found = redlatch(&sandbox, &["doctor"]).stdout;
    assert!(!found.contains("makes it forget its locks"), "{found}");
}
