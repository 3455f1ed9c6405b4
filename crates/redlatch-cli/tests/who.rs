//! Who has a lock and who waits for it, as shown to an operator.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Servers;
use serde_json::Value;
use std::{process::Command, time::SystemTime};
use support::{PATIENCE, Running, Sandbox, eventually, json_of, redlatch};

fn json(sandbox: &Sandbox, args: &[&str]) -> Value {
    json_of(&redlatch(sandbox, args).stdout)
}

/// The output of a program.
fn output(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().into()
}

/// A holder and two who wait, in this order.
fn crowd(sandbox: &Sandbox) -> [Running; 3] {
    let holder = sandbox.hold("x");
    let first = sandbox.run("x --wait 1m", "true");
    eventually(PATIENCE, || json(sandbox, &["status", "--json", "x"])["waiters"] == 1);
    let second = sandbox.run("x --wait 1m --owner second --no-log-command", "true");
    eventually(PATIENCE, || json(sandbox, &["status", "--json", "x"])["waiters"] == 2);
    [holder, first, second]
}

#[track_caller]
fn is_recent(since: &Value) {
    let since = humantime::parse_rfc3339(since.as_str().unwrap()).unwrap();
    assert!(SystemTime::now().duration_since(since).unwrap() < 10 * PATIENCE, "{since:?}");
}

fn status_and_ls_name_the_holder_and_who_waits(sandbox: &Sandbox, nodes: u64) {
    let (host, user) = (output("uname", "-n"), output("id", "-un"));
    let [holder, first, second] = crowd(sandbox);

    let status = json(sandbox, &["status", "--json", "x"]);
    let listed = json(sandbox, &["ls", "--json"]);
    let (text, table) = (redlatch(sandbox, &["status", "x"]), redlatch(sandbox, &["ls"]));

    for json in [&status, &listed] {
        assert_eq!(json["owner"], format!("{host}/{}", holder.pid()), "{json}");
        assert_eq!((&json["host"], &json["pid"]), (&host.clone().into(), &holder.pid().into()));
        assert_eq!((&json["user"], &json["command"]), (&user.clone().into(), &"sh".into()));
        assert!(json["fencing_token"].is_u64(), "{json}");
        assert_eq!(json["waiters"], 2);
        is_recent(&json["since"]);
    }
    let line = status["line"].as_array().unwrap();
    assert_eq!(line[0]["owner"], format!("{host}/{}", first.pid()));
    assert_eq!((&line[1]["owner"], &line[1]["host"]), (&"second".into(), &host.clone().into()));
    assert_eq!((&line[0]["command"], &line[1]["command"]), (&"sh".into(), &Value::Null));
    for (waiter, pid) in line.iter().zip([first.pid(), second.pid()]) {
        assert_eq!((&waiter["pid"], &waiter["nodes"]), (&pid.into(), &nodes.into()), "{waiter}");
        assert_eq!(waiter["user"], user);
        is_recent(&waiter["since"]);
    }
    let text = text.exits_with(121).stdout;
    for words in [
        format!("held by {host}/{}", holder.pid()),
        format!("  user {user}, command sh, since 2"),
        "waiting in line: 2".into(),
        format!("    1. {host}/{}, user {user}, command sh, since 2", first.pid()),
        format!("    2. second, host {host}, pid {}, user {user}, since 2", second.pid()),
    ] {
        assert!(text.contains(&words), "{words:?} is not in {text}");
    }
    let row = table.exits_with(0).stdout.lines().nth(1).unwrap().to_owned();
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row[..4], ["x", &format!("{host}/{}", holder.pid()), &user, "sh"], "{row:?}");
    assert!(row.contains(&"2"), "{row:?}");
}

#[test]
fn on_servers() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    status_and_ls_name_the_holder_and_who_waits(&sandbox, 3);
}

#[test]
fn on_the_embedded_node() {
    status_and_ls_name_the_holder_and_who_waits(&Sandbox::embedded(), 1);
}

#[test]
fn looking_changes_nothing() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    let ticket = format!("{:016x}{:016x}00fa", 1_700_000_000_000_000_u64, 0xabc);
    let token = format!("{}@web-1/1", "0123456789".repeat(4));
    for (key, value) in [
        ("x", &*token),
        ("redlatch:line:x", &format!("{ticket} ")),
        ("redlatch:waiter:0000000000000abc", "web-2/7"),
        ("y", &format!("redlatch:next:{ticket}@web-2/7")),
    ] {
        servers[0].run(&["SET", key, value, "PX", "600000"]);
    }
    let changes = || {
        let info = servers[0].run(&["INFO", "persistence"]).text().unwrap();
        info.lines().find(|line| line.contains("changes_since_last_save")).unwrap().to_owned()
    };
    let before = changes();

    let seen = redlatch(&sandbox, &["status", "x", "y"]).exits_with(121).stdout;
    redlatch(&sandbox, &["ls"]).exits_with(0);

    assert!(seen.contains("1. web-2/7, since 2023-11-1"), "{seen}");
    assert_eq!(changes(), before);
}

/// Values of older versions and of other libraries, and what is broken.
#[test]
fn other_values_are_shown_as_well_as_they_can_be() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    let token = "0123456789".repeat(4);
    let put = |value: &str| servers[0].run(&["SET", "x", value, "PX", "60000"]);
    let status = || json(&sandbox, &["status", "--json", "x"]);

    put(&format!("{token}@web-1/4711"));
    let older = status();
    put(&format!("{token}@ci;user=%zz;since=soon"));
    let broken = status();
    put("my_random_value");
    let foreign = status();

    assert_eq!((&older["owner"], &older["host"]), (&"web-1/4711".into(), &"web-1".into()));
    assert_eq!((&older["pid"], &older["user"]), (&4711.into(), &Value::Null));
    assert_eq!(broken["owner"], "ci;user=%zz;since=soon");
    assert_eq!((&foreign["state"], &foreign["owner"]), (&"held".into(), &Value::Null));
}

#[test]
fn what_is_reserved_is_not_called_held() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let reserved = format!("redlatch:next:{}@web-2/7;user=ada", "0".repeat(36));
    for server in &servers {
        server.run(&["SET", "x", &reserved, "PX", "60000"]);
    }

    let status = redlatch(&sandbox, &["status", "x"]).exits_with(121).stdout;
    let state = json(&sandbox, &["status", "--json", "x"]);
    let table = redlatch(&sandbox, &["ls"]).exits_with(0).stdout;
    let listed = json(&sandbox, &["ls", "--json"]);
    let run = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(121).stderr;
    let log = redlatch(&sandbox, &["log", "x"]).stdout;

    assert!(status.contains("x: not held; reserved for the next in line, web-2/7\n"), "{status}");
    assert!(!status.contains("held by"), "{status}");
    assert_eq!((&state["state"], &state["owner"]), (&"reserved".into(), &"web-2/7".into()));
    assert!(table.contains("(reserved for web-2/7)"), "{table}");
    assert_eq!((&listed["state"], &listed["user"]), (&"reserved".into(), &"ada".into()));
    for words in [run, log] {
        assert!(words.contains("reserved for the next in line, web-2/7"), "{words}");
        assert!(!words.contains("held by"), "{words}");
    }
}

/// A register that is ahead, as on a server whose clock is, belongs to no grant.
#[test]
fn status_shows_the_fencing_token_that_was_granted_whatever_one_register_says() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::on(&servers);
    let _holder = sandbox.run("x", "echo $REDLATCH_FENCING_TOKEN > token; sleep 100");
    let granted = sandbox.read("token");
    let shown = |args: &[&str]| json(&sandbox, args)["fencing_token"].to_string();
    assert_eq!(shown(&["status", "--json", "x"]), granted);
    let ahead = (granted.parse::<u64>().unwrap() + 600_000_000).to_string();
    let fields = servers[0].run(&["HGETALL", "redlatch:node"]);
    let fields: Vec<String> = fields.items().iter().map(|item| item.text().unwrap()).collect();
    let registers = fields.chunks(2).filter(|pair| pair[1] == granted).map(|pair| &pair[0]);
    let registers: Vec<_> = registers.collect();
    assert!(!registers.is_empty(), "{fields:?}");

    for register in registers {
        servers[0].run(&["HSET", "redlatch:node", register, &ahead]);
    }

    assert_eq!(shown(&["status", "--json", "x"]), granted);
    assert_eq!(shown(&["ls", "--json"]), granted);
}
