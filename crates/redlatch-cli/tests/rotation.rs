//! A password that is changed while jobs run and operators watch.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use nix::{sys::stat::Mode, unistd::mkfifo};
use redlatch_testbed::{Server, Servers};
use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
};
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
fn a_password_file_that_is_no_file_is_refused_at_once() {
    let (_servers, sandbox) = rotating();
    fs::remove_file(sandbox.path("pw")).unwrap();
    mkfifo(&sandbox.path("pw"), Mode::from_bits_truncate(0o600)).unwrap();

    let refused = start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(125);

    let words = "the password file pw cannot be read: it is a pipe, and must be a file";
    assert!(refused.stderr.contains(words), "{}", refused.stderr);
}

#[test]
fn doctor_names_a_password_file_that_others_can_read_and_what_to_do() {
    let (_servers, sandbox) = rotating();
    let doctor = |mode| {
        fs::set_permissions(sandbox.path("pw"), Permissions::from_mode(mode)).unwrap();
        start(sandbox.redlatch(["doctor"])).end().stdout
    };
    let private = doctor(0o600);
    let (group, open) = (doctor(0o640), doctor(0o644));

    assert!(!private.contains("password file"), "{private}");
    let note = "note     the password file pw is open to its group (mode 0640)\n           fix: chmod 600 \
                pw, unless";
    assert!(group.contains(note), "{group}");
    let warning = "warning  the password file pw is open to every user of this machine (mode 0644)\n           \
                   fix: chmod 600 pw\n";
    assert!(open.contains(warning), "{open}");
    assert_eq!(open.matches("chmod").count(), 1, "one file, and three nodes: {open}");
}

#[test]
fn jobs_and_watchers_go_on_when_the_password_changes() {
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

    // The file is missing for a moment.
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
