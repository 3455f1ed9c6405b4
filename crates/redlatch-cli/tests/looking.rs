//! All commands that look say the same of one state of affairs.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use serde_json::{Value, json};
use std::fs;
use support::{
    Ended, PATIENCE, Sandbox, eventually,
    http::{get, serve},
    json_of, redlatch, says,
    scraping::{exporter, scrape},
    start,
};

fn top(sandbox: &Sandbox) -> Value {
    json_of(&redlatch(sandbox, &["top", "--once", "--json"]).exits_with(0).stdout)
}

/// Servers that keep ada's lock for as long as a test may take.
fn with_a_lock() -> (Servers, Sandbox) {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers).with_times("10m", "1s");
    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
    let take = ["acquire", "backup", "--owner", "ada", "--ttl", "10m"];
    redlatch(&sandbox, &take).exits_with(0);
    (servers, sandbox)
}

fn fill(server: &Server) {
    server.run(&["CONFIG", "SET", "maxmemory", "1mb"]);
}

#[test]
fn a_majority_that_refuses_writes_is_no_majority() {
    let (servers, sandbox) = with_a_lock();
    servers.iter().for_each(fill);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122);

    let seen = top(&sandbox);
    assert_eq!((&seen["votes"], &seen["held"]), (&json!(0), &json!(1)), "{seen}");
    let [first, of_node, ..] = &seen["findings"].as_array().unwrap()[..] else { panic!("{seen}") };
    assert_eq!(first["level"], "problem");
    assert_eq!(first["words"], "no lock can be taken: 0 of 3 nodes may vote, 2 must");
    assert_eq!(of_node["node"], servers[0].url());
    assert_eq!(of_node["words"], "refuses writes: its memory is full (maxmemory)");
    assert_eq!(seen["nodes"][0]["standing"], "refusing");
    let shown = redlatch(&sandbox, &["top", "--once"]).exits_with(0).stdout;
    says(&shown, "NO LOCK CAN BE TAKEN");
    let (_exporter, port) = exporter(&sandbox);
    let metrics = scrape(port);
    for sample in ["redlatch_majority 0", "redlatch_nodes{standing=\"refusing\"} 3"] {
        says(&metrics, sample);
    }
    let found = redlatch(&sandbox, &["doctor"]).exits_with(2).stdout;
    assert!(found.starts_with("No lock can be taken: 0 of 3 nodes may vote, 2 must."), "{found}");
    says(&found, "problem  refuses writes: its memory is full (maxmemory)");

    servers.iter().for_each(|server| drop(server.run(&["CONFIG", "SET", "maxmemory", "0"])));
    assert_eq!(top(&sandbox)["findings"], json!([]));
}

/// What these commands say of an embedded node on a disk that is full; `None` if this
/// user may not mount one.
fn on_a_full_disk(sandbox: &Sandbox, script: &str) -> Option<String> {
    let disk = sandbox.path("disk");
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=400k none {disk} || {{ echo NO MOUNT; exit 0; }}
         redlatch() {{ task=$1; shift; command redlatch $task --node file:{disk}/locks.db \"$@\"; }}
         redlatch acquire backup --ttl 30s > /dev/null || exit 1
         dd if=/dev/zero of={disk}/filler bs=1k 2> /dev/null
         {script}",
        disk = disk.display()
    );
    fs::write(sandbox.path("script"), script).unwrap();
    let ended = start(sandbox.shell("unshare -Urm sh script || echo NO MOUNT")).end();
    if ended.stdout.starts_with("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here: {}", ended.stderr);
        return None;
    }
    Some(ended.stdout)
}

#[test]
fn an_embedded_node_on_a_full_disk_is_no_majority() {
    let sandbox = Sandbox::embedded();
    let script = "redlatch run x -- true 2> /dev/null; echo $?
                  redlatch top --once --json
                  redlatch doctor; echo $?";
    let Some(said) = on_a_full_disk(&sandbox, script) else { return };

    let mut lines = said.lines();
    assert_eq!(lines.next(), Some("122"), "{said}");
    let seen = json_of(lines.next().unwrap());
    assert_eq!((&seen["votes"], &seen["held"]), (&json!(0), &json!(1)), "{seen}");
    assert_eq!(seen["nodes"][0]["standing"], "refusing");
    assert_eq!(seen["findings"][1]["words"], "refuses writes: its disk is full");
    says(&said, "\nNo lock can be taken: the only node does not vote.\n");
    says(&said, "problem  refuses writes: its disk is full\n           fix: free some space");
    assert!(said.ends_with("\n2\n"), "{said}");
}

/// As in a container whose root file system nobody may write to.
#[test]
fn a_read_only_file_system_is_not_reported_as_a_lack_of_permission() {
    let sandbox = Sandbox::embedded();
    fs::create_dir(sandbox.path("disk")).unwrap();
    let script = "mount -t tmpfs -o ro none disk || { echo NO MOUNT; exit 0; }
                  redlatch run x --node file:disk/x.db -- echo never 2>&1; echo $?";
    fs::write(sandbox.path("script"), script).unwrap();

    let said = start(sandbox.shell("unshare -Urm sh script || echo NO MOUNT")).end().stdout;

    if said.starts_with("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here");
        return;
    }
    says(&said, "disk/x.db cannot be used: ");
    says(&said, "disk is on a read-only file system: mount it writable, or name a file elsewhere");
    says(&said, "\n125\n");
    assert!(!said.contains("may not"), "{said}");
}

/// As after an error of its disk. Root may do all that modes and owners allow.
#[test]
fn a_file_system_that_became_read_only_is_not_reported_as_a_matter_of_owner_and_mode() {
    let sandbox = Sandbox::embedded();
    fs::create_dir(sandbox.path("disk")).unwrap();
    let script = "mount -t tmpfs none disk || { echo NO MOUNT; exit 0; }
                  redlatch run x --node file:disk/x.db -- true
                  mount -o remount,bind,ro disk || { echo NO MOUNT; exit 0; }
                  redlatch run x --node file:disk/x.db -- echo never 2>&1; echo $?
                  redlatch doctor --node file:disk/x.db; true";
    fs::write(sandbox.path("script"), script).unwrap();

    let said = start(sandbox.shell("unshare -Urm sh script || echo NO MOUNT")).end().stdout;

    if said.contains("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here");
        return;
    }
    let (run, doctor) = said.split_once("125\n").unwrap_or_else(|| panic!("{said}"));
    says(run, "disk/x.db cannot be used: ");
    for words in [run, doctor] {
        says(words, " is on a read-only file system: mount it writable, or name a file elsewhere");
        assert!(!words.contains("chmod") && !words.contains("owner"), "{said}");
    }
}

/// `SQLite` calls it a "disk I/O error".
#[test]
fn a_file_that_may_not_grow_is_named_with_what_keeps_it_from_growing() {
    let sandbox = Sandbox::embedded();
    // Output is not limited: it goes through a pipe.
    let script = "(ulimit -f 0; redlatch run x --log off -- echo never; echo $?) 2>&1 | cat";

    let said = start(sandbox.shell(script)).end().exits_with(0).stdout;

    says(&said, "the disk is full, or a limit on the size of files (ulimit -f) is reached");
    says(&said, "\n122\n");
    assert!(!said.contains("never"), "{said}");
}

#[test]
fn naming_one_node_of_three_gets_the_same_advice_from_all() {
    let (servers, sandbox) = with_a_lock();
    let one = ["--node", &servers[0].url(), "--restart-guard", "on"];
    let on_one = |args: &[&str]| redlatch(&sandbox, &[args, &one].concat());
    let fix = "this client names 1 of 3 nodes: give it the list that the others have";

    let seen = json_of(&on_one(&["top", "--once", "--json"]).exits_with(0).stdout);
    says(&on_one(&["doctor"]).exits_with(2).stdout, fix);
    says(&on_one(&["admit", "--wait"]).exits_with(122).stderr, fix);

    let findings = seen["findings"].as_array().unwrap();
    assert!(findings.iter().any(|finding| finding["fix"] == fix), "{seen}");
    assert!(!seen.to_string().contains("--replace"), "{seen}");
}

#[test]
fn waiting_for_nodes_without_the_guard_waits_for_nothing() {
    let sandbox = Sandbox::embedded();

    let waited = redlatch(&sandbox, &["admit", "--wait"]).exits_with(0);

    says(&waited.stderr, "the restart guard is off, so this client waits for no admission");
    says(&waited.stdout, "admitted");
}

#[test]
fn a_node_that_refuses_writes_is_one_vote_less() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    servers[1].run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let (_web, port) = serve(&sandbox, &["web", "--every", "100ms"]);

    let seen = get(port, "/snapshot").json();
    let keys = servers.keys_everywhere();
    let found = redlatch(&sandbox, &["doctor"]).exits_with(1).stdout;

    let words = "refuses writes: too few replicas follow it (min-replicas-to-write)";
    says(&found, &format!("warning  {words}"));
    assert_eq!((&seen["votes"], &seen["is_complete"]), (&json!(2), &json!(true)), "{seen}");
    assert_eq!(seen["findings"][0]["words"], words);
    assert_eq!(keys, [[""; 0]; 3], "looking changes nothing");
    servers[2].run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122);
    eventually(PATIENCE, || get(port, "/snapshot").json()["votes"] == 1);
    redlatch(&sandbox, &["doctor"]).exits_with(2);
}

#[test]
fn a_wait_for_nodes_that_refuse_writes_says_so_and_ends_with_an_error() {
    let (servers, sandbox) = with_a_lock();
    redlatch(&sandbox, &["admit", "--wait"]).exits_with(0);
    fill(&servers[1]);

    let waited = redlatch(&sandbox, &["admit", "--wait"]).exits_with(122);
    let json = redlatch(&sandbox, &["admit", "--wait", "--json"]).exits_with(122).stdout;
    redlatch(&sandbox, &["admit", "--wait", &servers[0].url()]).exits_with(0);

    let url = servers[1].url();
    let line = format!("{url}  admitted, but refuses writes: its memory is full (maxmemory)\n");
    says(&waited.stdout, &line);
    let words = format!(
        "1 of 3 nodes is admitted, but refuses writes: {url}: its memory is full (maxmemory); give \
         it more memory (maxmemory), or delete other data"
    );
    says(&waited.stderr, &words);
    let node = &json_of(&json)["nodes"][1];
    assert_eq!(node["standing"], "refusing");
    assert_eq!(node["reason"], "refuses writes: its memory is full (maxmemory)");

    servers[2].run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let waited = redlatch(&sandbox, &["admit", "--wait"]).exits_with(122).stderr;
    says(&waited, "2 of 3 nodes are admitted, but refuse writes: ");
}

#[test]
fn a_quarantine_whose_time_has_not_begun_says_what_begins_it() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
    servers[1].restart_empty();

    let words = "quarantined, and its time has not begun: `redlatch admit --wait` begins it, or \
                 any client that takes a lock";
    says(&redlatch(&sandbox, &["doctor"]).exits_with(1).stdout, words);
    let shown = redlatch(&sandbox, &["top", "--once"]).exits_with(0).stdout;
    says(&shown, words);
    says(&shown, "quarantined, not begun");
    says(&redlatch(&sandbox, &["status", "x"]).exits_with(0).stdout, words);
    says(&redlatch(&sandbox, &["ls"]).exits_with(0).stderr, words);
    assert_eq!(top(&sandbox)["nodes"][1]["has_begun"], false);

    redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(0);
    let first = servers[0].url();
    for args in [&["doctor"][..], &["status", "x"], &["ls"], &["admit", &first, "--yes"]] {
        let Ended { stdout, stderr, .. } = redlatch(&sandbox, args);
        says(&format!("{stdout}{stderr}"), "quarantined for another ");
    }
    assert_eq!(top(&sandbox)["nodes"][1]["has_begun"], true);
}

#[test]
fn without_a_majority_nobody_claims_to_know_who_waits() {
    let (servers, sandbox) = with_a_lock();
    servers.kill(&[1, 2]);
    let (_web, port) = serve(&sandbox, &["web", "--every", "100ms"]);

    let status = redlatch(&sandbox, &["status", "backup", "--json"]).exits_with(122).stdout;
    let listed = redlatch(&sandbox, &["ls", "--json"]).exits_with(122).stdout;
    let (status, listed) = (json_of(&status), json_of(&listed));
    let page = get(port, "/lock?id=backup").json();

    for seen in [&status, &page] {
        assert_eq!((&seen["waiters"], &seen["line"]), (&Value::Null, &Value::Null), "{seen}");
        assert!(seen.as_object().unwrap().contains_key("waiters"), "{seen}");
    }
    assert_eq!((&listed["waiters"], &listed["owner"]), (&Value::Null, &json!("ada")), "{listed}");
    assert!(listed.as_object().unwrap().contains_key("waiters"), "{listed}");
    let text = redlatch(&sandbox, &["status", "backup"]).exits_with(122).stdout;
    says(&text, "  waiting in line: ?\n");
    let table = redlatch(&sandbox, &["ls"]).exits_with(122).stdout;
    let row: Vec<_> = table.lines().nth(1).unwrap().split_whitespace().collect();
    assert!(row.contains(&"?"), "{table}");
}

#[test]
fn a_key_that_is_no_lock_of_ours_is_judged_alike_by_all() {
    let (servers, sandbox) = with_a_lock();
    for at in [0, 1] {
        servers[at].run(&["SET", "backup", "of another library", "PX", "600000"]);
    }

    let status = redlatch(&sandbox, &["status", "backup", "--json"]).exits_with(121).stdout;
    let listed = redlatch(&sandbox, &["ls", "--json"]).exits_with(0).stdout;
    let table = redlatch(&sandbox, &["ls"]).exits_with(0).stdout;
    let (_web, port) = serve(&sandbox, &["web", "--every", "100ms"]);
    let seen = get(port, "/snapshot").json();

    for lock in [&json_of(&status), &json_of(&listed), &seen["locks"][0]] {
        assert_eq!((&lock["state"], &lock["owner"]), (&json!("held"), &Value::Null), "{lock}");
    }
    says(&table, "another owner");
    assert_eq!(seen["locks"][0]["nodes"], 2, "{seen}");
}

#[test]
fn a_node_that_cannot_save_is_one_vote_less() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    // In the way of the file that it saves to.
    fs::create_dir(servers[1].dir().join("dump.rdb")).unwrap();
    servers[1].run(&["CONFIG", "SET", "save", "3600 1"]);
    servers[1].run(&["BGSAVE"]);
    eventually(PATIENCE, || servers[1].info("rdb_last_bgsave_status").as_deref() == Some("err"));

    let found = redlatch(&sandbox, &["doctor"]).exits_with(1).stdout;

    says(&found, "warning  refuses writes: it cannot save its data to disk");
    assert_eq!(top(&sandbox)["votes"], 2);
}

/// Keeps a server from saving, which makes it refuse writes.
fn stop_saving(server: &Server) {
    fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    server.run(&["CONFIG", "SET", "save", "3600 1"]);
    server.run(&["BGSAVE"]);
    eventually(PATIENCE, || server.info("rdb_last_bgsave_status").as_deref() == Some("err"));
}

#[test]
fn a_node_that_cannot_save_is_described_alike_by_all() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    stop_saving(&servers[1]);
    let (why, fix) =
        ("refuses writes: it cannot save its data to disk", "make room on its disk; its");

    let found = redlatch(&sandbox, &["doctor", "--json"]).exits_with(1).stdout;
    let seen = top(&sandbox);
    let status = redlatch(&sandbox, &["status", "x"]).exits_with(0).stdout;
    let (_exporter, port) = exporter(&sandbox);
    let metrics = scrape(port);
    stop_saving(&servers[2]);
    let run = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(122).stderr;

    for nodes in [&json_of(&found)["nodes"], &seen["nodes"]] {
        assert_eq!((&nodes[1]["standing"], &nodes[1]["reason"]), (&json!("refusing"), &json!(why)));
    }
    let of_node = &seen["findings"][0];
    assert_eq!(of_node["words"], why, "{seen}");
    says(of_node["fix"].as_str().unwrap(), fix);
    says(&metrics, "redlatch_nodes{standing=\"refusing\"} 1");
    for said in [status, run] {
        says(&said, &format!("{why}; {fix}"));
        assert!(!said.contains("MISCONF"), "{said}");
    }
}

#[test]
fn a_lock_that_cannot_be_released_because_the_disk_is_full_is_told_so() {
    let sandbox = Sandbox::embedded();
    let script = "rm disk/filler
                  redlatch run x -- sh -c 'dd if=/dev/zero of=disk/filler bs=1k 2> /dev/null; true' 2>&1";
    let Some(said) = on_a_full_disk(&sandbox, script) else { return };

    says(&said, "it is not known whether the lock is released: file:");
    says(&said, "locks.db: refuses writes: its disk is full; free some space");
}

#[test]
fn a_wait_for_a_file_on_a_full_disk_says_so() {
    let sandbox = Sandbox::embedded();
    let script = "redlatch run x --wait 3s -- true 2>&1; echo $?";
    let Some(said) = on_a_full_disk(&sandbox, script) else { return };

    says(&said, "x cannot be taken; waited 1.");
    says(&said, "locks.db: refuses writes: its disk is full; free some space");
    assert!(said.ends_with("\n122\n"), "{said}");
}

#[test]
fn a_host_with_other_names_is_told_what_to_write_by_top_as_by_doctor() {
    let (servers, sandbox) = with_a_lock();
    let others = servers.urls().join(",").replace("127.0.0.1", "localhost");
    let there = |args: &[&str]| {
        let mut command = sandbox.redlatch(args);
        command.env("REDLATCH_NODES", &others);
        start(command).end()
    };
    let port = servers[0].port();
    let write = format!("write redis://localhost:{port}?name=redis://127.0.0.1:{port}; give all");

    let seen = json_of(&there(&["top", "--once", "--json"]).exits_with(0).stdout);
    let found = there(&["doctor"]).exits_with(2).stdout;

    says(&found, &write);
    let fixes =
        seen["findings"].as_array().unwrap().iter().map(|finding| finding["fix"].to_string());
    assert!(fixes.into_iter().any(|fix| fix.contains(&write)), "{seen}");
}

#[test]
fn advice_on_nodes_whose_list_is_too_different_works() {
    let servers = Servers::start(4).unwrap();
    let urls = servers.urls();
    let sandbox = Sandbox::on(&servers).with_times("2s", "1s");
    let with = |nodes: [usize; 3], args: &[&str]| {
        let mut command = sandbox.redlatch(args);
        command.env("REDLATCH_NODES", nodes.map(|at| urls[at].clone()).join(","));
        start(command).end()
    };
    let here = |args: &[&str]| with([0, 1, 2], args);
    with([0, 1, 3], &["admit", "--all", "--yes"]).exits_with(0);

    let run = here(&["run", "x", "--", "true"]).exits_with(122).stderr;
    let found = here(&["doctor"]).exits_with(2).stdout;
    let seen = here(&["top", "--once", "--json"]).exits_with(0).stdout;
    let waited = here(&["admit", "--wait", &urls[2]]).exits_with(122);
    let vouched = here(&["admit", &urls[2], "--yes"]).exits_with(122);

    for said in [run, found, seen, waited.stderr, vouched.stderr] {
        says(
            &said,
            "stop all other clients first, then `redlatch admit --replace --all --all-stopped`",
        );
        for vain in ["admit --wait", "admit redis:", "--replace --all`"] {
            assert!(!said.contains(vain), "{vain:?} is in {said}");
        }
    }
    here(&["admit", "--replace", "--all", "--all-stopped", "--yes"]).exits_with(0);
    here(&["run", "x", "--", "true"]).exits_with(0);
}

#[test]
fn a_node_that_cannot_save_is_read_all_the_same() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let _holder = sandbox.hold("x --owner ada --log off");
    servers.iter().for_each(stop_saving);

    let status = redlatch(&sandbox, &["status", "x", "--json"]).exits_with(121).stdout;
    let shown = redlatch(&sandbox, &["status", "x"]).exits_with(121).stdout;
    let listed = redlatch(&sandbox, &["ls", "--json"]).exits_with(0).stdout;

    let status = json_of(&status);
    assert_eq!((&status["state"], &status["owner"]), (&json!("held"), &json!("ada")), "{status}");
    assert_eq!(status["nodes"][1]["state"], "held", "{status}");
    says(&shown, "refuses writes: it cannot save its data to disk; make room");
    let waited = redlatch(&sandbox, &["run", "x", "--wait", "2s", "--", "true"]).exits_with(122);
    says(&waited.stderr, "x is held by ada; waited ");
    says(&waited.stderr, "refuses writes: it cannot save its data to disk; make room");
    assert_eq!(json_of(&listed)["owner"], "ada", "{listed}");
}

#[test]
fn a_wait_for_nodes_that_refuse_writes_does_not_say_that_all_of_them_vote() {
    for guard in [true, false] {
        let servers = Servers::start(3).unwrap();
        let sandbox = if guard { Sandbox::guarded(&servers) } else { Sandbox::on(&servers) };
        if guard {
            redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
        }
        redlatch(&sandbox, &["admit", "--wait"]).exits_with(0);
        servers[0].run(&["CONFIG", "SET", "maxmemory", "1"]);
        stop_saving(&servers[1]);
        servers[2].run(&["CONFIG", "SET", "min-replicas-to-write", "1"]);

        let ended = redlatch(&sandbox, &["admit", "--wait", "--timeout", "2s"]).exits_with(122);

        says(&ended.stderr, "3 of 3 nodes");
        for why in ["its memory is full", "it cannot save its data", "too few replicas"] {
            says(&ended.stderr, why);
        }
    }
}
