//! A password that is changed while jobs run and operators watch.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use std::fs;
use support::{
    PATIENCE, Sandbox, eventually,
    http::{get, serve},
    start,
};

/// Servers with a password, and a config file that names the file with it.
fn rotating() -> (Servers, Sandbox) {
    let servers = Servers::start_with(3, &Server::options().password("old")).unwrap();
    let sandbox = Sandbox::embedded();
    fs::write(sandbox.path("pw"), "old\n").unwrap();
    let nodes: Vec<_> =
        (0..3).map(|at| format!("redis://127.0.0.1:{}", servers[at].port())).collect();
    let config = format!("nodes = {nodes:?}\npassword_file = \"pw\"\n");
    fs::write(sandbox.path("redlatch.toml"), config).unwrap();
    (servers, sandbox)
}

fn change_everywhere(servers: &Servers, password: &str) {
    for at in 0..3 {
        assert!(servers[at].run(&["CONFIG", "SET", "requirepass", password]).is_ok());
        servers[at].run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }
}

#[test]
fn jobs_and_whoever_watches_go_on_when_the_password_changes() {
    let (servers, sandbox) = rotating();
    let script = "echo up > up; while [ ! -e go ]; do sleep 0.01; done";
    let job =
        start(sandbox.redlatch(["run", "x", "--ttl", "10s", "--json", "--", "sh", "-c", script]));
    sandbox.read("up");
    let (_web, port) = serve(&sandbox, &["web", "--every", "100ms"]);
    let sees = |votes: u64| get(port, "/snapshot").json()["votes"] == votes;
    eventually(PATIENCE, || sees(3));

    change_everywhere(&servers, "new");
    eventually(PATIENCE, || sees(0));
    fs::write(sandbox.path("pw"), "new\n").unwrap();

    eventually(PATIENCE, || sees(3));
    assert!(!sandbox.is_free("x"));
    fs::write(sandbox.path("go"), "").unwrap();
    let ended = job.end().exits_with(0);
    assert!(ended.stderr.contains(r#""outcome":"the lock is released""#), "{}", ended.stderr);
}

#[test]
fn a_wait_that_began_with_a_password_that_is_refused_ends_when_it_is_put_right() {
    let (servers, sandbox) = rotating();
    change_everywhere(&servers, "new");
    let waiting = ["run", "x", "--wait", "1m", "--json", "--", "echo", "done"];
    let waiting = start(sandbox.redlatch(waiting));
    eventually(PATIENCE, || !servers[0].run(&["ACL", "LOG"]).items().is_empty());

    // For a moment, there is no file.
    fs::remove_file(sandbox.path("pw")).unwrap();
    servers[0].run(&["ACL", "LOG", "RESET"]);
    eventually(PATIENCE, || !servers[0].run(&["ACL", "LOG"]).items().is_empty());
    fs::write(sandbox.path("pw"), "new\n").unwrap();

    assert_eq!(waiting.end().exits_with(0).stdout, "done\n");
}

#[test]
fn a_wait_for_a_password_that_never_comes_ends_with_122_and_the_reason() {
    let (servers, sandbox) = rotating();
    change_everywhere(&servers, "new");

    let ended = start(sandbox.redlatch(["run", "x", "--wait", "2s", "--", "true"])).end();

    let ended = ended.exits_with(122);
    for words in ["WRONGPASS", "gave up after 2s"] {
        assert!(ended.stderr.contains(words), "{words:?} is not in {:?}", ended.stderr);
    }
}

#[test]
fn a_password_that_is_refused_is_not_blamed_on_its_file() {
    let (servers, sandbox) = rotating();
    change_everywhere(&servers, "new");

    // With the restart guard, each node is asked twice at once, and both look into the file.
    for _ in 0..30 {
        let mut command = sandbox.redlatch(["ls"]);
        command.env_remove("REDLATCH_RESTART_GUARD");
        let told = start(command).end().stderr;
        assert!(told.contains("password") && !told.contains("cannot be read"), "{told}");
    }
}
