//! Passwords stay where they were written.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use std::fs;
use support::{Ended, Sandbox, start};

#[test]
fn no_error_repeats_a_password() {
    let sandbox = Sandbox::embedded();
    let url = "redis://:Secret@127.0.0.1:1";
    for config in [
        format!("nodes = \"{url}\""),
        "nodes = \"redis://:my Secret@127.0.0.1:1\"".into(),
        format!("nodes = [{{ url = \"{url}\", password_env = \"UNSET\" }}]"),
        format!("\"{url}\" = 1"),
        format!("ttl = \"{url}\""),
        format!("ttl = \"{}\"", url.replace(":Secret@", "").replace(":1", ":1?password=Secret")),
    ] {
        fs::write(sandbox.path("redlatch.toml"), &config).unwrap();
        for args in [&["doctor"][..], &["ls", "--json"], &["run", "x", "--", "true"]] {
            let ended = start(sandbox.redlatch(args)).end().exits_with(125);
            assert!(!format!("{ended:?}").contains("Secret"), "{config}: {ended:?}");
        }
    }
    fs::remove_file(sandbox.path("redlatch.toml")).unwrap();
    for variable in ["REDLATCH_MAX_TTL", "REDLATCH_CONFIG", "REDLATCH_RESTART_GUARD"] {
        let mut command = sandbox.redlatch(["ls"]);
        command.env(variable, url);
        let ended = start(command).end().exits_with(125);
        assert!(!ended.stderr.contains("Secret"), "{variable}: {}", ended.stderr);
        assert!(ended.stderr.contains("redis://…@127.0.0.1:1"), "{}", ended.stderr);
    }
    // Torn apart at what separates addresses.
    for (nodes, which) in [
        ("redis://:p@Secret:x,y@127.0.0.1:1", "2nd"),
        ("redis://127.0.0.1:1,redis://:Secret Secret@127.0.0.1:1", "3rd"),
        ("redis://127.0.0.1:1?password=a,Secret", "2nd"),
        ("redis://me:1?name=Secret,y@127.0.0.1:1", "2nd"),
        (":Secret@127.0.0.1:1", "1st"),
    ] {
        for args in [&["status", "a"][..], &["run", "x", "--json", "--", "true"]] {
            let mut command = sandbox.redlatch(args);
            command.env("REDLATCH_NODES", nodes);
            let ended = start(command).end().exits_with(125);
            assert!(!format!("{ended:?}").contains("Secret"), "{nodes}: {ended:?}");
            let words = format!("REDLATCH_NODES: the {which} address has no scheme");
            assert!(ended.stderr.contains(&words), "{nodes}: {}", ended.stderr);
            assert!(ended.stderr.contains("an @ as %40"), "{nodes}: {}", ended.stderr);
        }
    }
    // No name holds an `@`: this is a password.
    for node in ["redis://me:1?name=Secret@127.0.0.1:1", "redis://:1?name=Secret@127.0.0.1:1"] {
        for args in [&["doctor", "--node", node][..], &["ls", "--json", "--node", node]] {
            let ended = start(sandbox.redlatch(args)).end();
            assert!(!format!("{ended:?}").contains("Secret"), "{node}: {ended:?}");
            assert!(!ended.status.success(), "{ended:?}");
        }
    }
    for args in [&["doctor", url][..], &["ls", "--ttl", url], &[url], &["admit", url]] {
        let ended = start(sandbox.redlatch(args)).end().exits_with(125);
        assert!(!ended.stderr.contains("Secret"), "{args:?}: {}", ended.stderr);
    }
}

/// Addresses with a password that are mistyped in one way or another. None of them can
/// be used.
fn mistyped() -> Vec<String> {
    let mut shapes: Vec<String> = [
        "redis://u:PW",
        "redis://:PW",
        "redis://u:PW/0",
        "redis://u:PW?db=1",
        "redis://u:PW@",
        "redis://u:PW@:6379",
        "redis://u:PW@127.0.0.1:x",
        "redis://u:x@PW@127.0.0.1:0",
        "redis://127.0.0.1:1?pasword=PW",
        "redis://127.0.0.1:1?db=1&PW",
        "redis+unix:u:PW@/x",
        "redis+unix://u:PW@/x",
        "unix:PW@x",
        "file:u:PW@/x",
        "PW",
        "PW:6379",
        "PW@127.0.0.1",
    ]
    .map(String::from)
    .into();
    for scheme in ["", "redis:", "redis:/", "redis//", "redis", "rediss:", "http://", "tcp:", "//"]
    {
        for login in ["u:PW@", ":PW@", "PW:@", "u:P%57PW@"] {
            for place in ["127.0.0.1", "127.0.0.1:6379", ""] {
                shapes.push(format!("{scheme}{login}{place}"));
            }
        }
    }
    shapes.into_iter().map(|shape| shape.replace("PW", MARK)).collect()
}

/// A password.
const MARK: &str = "s3cr3tPW";

/// Whatever was mistyped, and wherever.
#[test]
fn no_output_shows_the_password_of_an_address_that_is_mistyped() {
    let sandbox = Sandbox::embedded();
    let log = sandbox.path("runs.jsonl");
    let asked: [&[&str]; 9] = [
        &["run", "x", "-v", "--", "true"],
        &["run", "x", "--json", "--", "true"],
        &["acquire", "x", "-v"],
        &["status", "x", "--json"],
        &["ls", "-v"],
        &["doctor"],
        &["doctor", "--json"],
        &["admit", "--all"],
        &["top", "--json"],
    ];
    let started = |args: &[&str]| {
        let mut command = sandbox.redlatch(args);
        command.env("REDLATCH_LOG", &log).env("REDLATCH_SYSLOG", "off");
        command
    };
    for (at, node) in mistyped().iter().enumerate() {
        let args = asked[at % asked.len()];
        let typed = [&[args[0], "--node", node][..], &args[1..]].concat();
        // As an argument that nothing expects, if it looks like an address at all.
        let astray = node.contains(['@', '?']).then_some(["doctor", node]);
        for args in [&typed[..]].into_iter().chain(astray.as_ref().map(|args| &args[..])) {
            let ended = start(started(args)).end();
            assert!(!ended.status.success(), "{node}: {ended:?}");
            assert!(!format!("{ended:?}").contains(MARK), "{args:?}: {ended:?}");
        }
        for nodes in ["REDLATCH_NODES", "config", "torn"] {
            let mut command = started(asked[at / 2 % asked.len()]);
            match nodes {
                "config" => fs::write(sandbox.path("redlatch.toml"), format!("nodes = [{node:?}]")),
                "torn" => fs::write(sandbox.path("redlatch.toml"), format!("nodes = [\"{node}]")),
                _ => Ok(()),
            }
            .unwrap();
            if nodes == "REDLATCH_NODES" {
                command.env("REDLATCH_NODES", node);
            } else {
                command.env("REDLATCH_CONFIG", sandbox.path("redlatch.toml"));
            }
            let ended = start(command).end();
            assert!(!ended.status.success(), "{nodes}, {node}: {ended:?}");
            assert!(!format!("{ended:?}").contains(MARK), "{nodes}, {node}: {ended:?}");
            fs::remove_file(sandbox.path("redlatch.toml")).unwrap_or_default();
        }
    }
    let kept = fs::read_to_string(&log).unwrap();
    assert!(kept.contains("\"failed\""), "{kept}");
    assert!(!kept.contains(MARK), "{kept}");
    for args in [&["log"][..], &["log", "--json"]] {
        // More than a pipe holds: it has to be read while it is written.
        let told = Ended::of(&started(args).output().unwrap()).exits_with(0);
        assert!(!told.stdout.is_empty() && !told.stdout.contains(MARK), "{}", told.stdout);
    }
}

/// Where something else is expected: the name of a node, or a path.
#[test]
fn no_output_shows_the_password_of_an_address_in_the_wrong_place() {
    let (_servers, sandbox) = Sandbox::with_servers(1);
    let log = sandbox.path("runs.jsonl");
    let started = |args: &[&str]| {
        let mut command = sandbox.redlatch(args);
        command.env("REDLATCH_LOG", &log).env("REDLATCH_SYSLOG", "off");
        start(command).end()
    };
    for typed in [":PW:127.0.0.1:1", "127.0.0.1?pass=PW", ":PW@127.0.0.1:1", "u:PW/x@h:1"] {
        let typed = &*format!("redis://{}", typed.replace("PW", MARK));
        let admitted = started(&["admit", typed]).exits_with(125);
        let mut doctor = sandbox.redlatch(["doctor"]);
        doctor.env("REDLATCH_LOG", typed).env("REDLATCH_METRICS_DIR", typed);
        let others = [
            start(doctor).end(),
            started(&["run", "x", "--log", typed, "--", "true"]),
            started(&["run", "x", "--metrics-dir", typed, "--", "true"]),
            started(&["log", "--log", typed]),
        ];

        for ended in others.iter().chain([&admitted]) {
            assert!(!format!("{ended:?}").contains(MARK), "{typed}: {ended:?}");
        }
        assert!(admitted.stderr.contains(" is not one of the nodes: "), "{admitted:?}");
    }
    let named = started(&["admit", "other"]).exits_with(125);
    assert!(named.stderr.contains("other is not one of the nodes"), "{named:?}");
    assert!(!fs::read_to_string(&log).unwrap().contains(MARK));
}

/// Errors and `Debug` of the library.
#[test]
fn the_library_shows_no_password_of_an_address_that_is_mistyped() {
    for node in mistyped() {
        let error = redlatch::node::parse(&node).expect_err(&node);
        let builder = redlatch::Locks::builder().node(&node);
        let told = format!("{builder:?}");
        let refused = builder.observer().expect_err(&node);
        let told = format!("{error} {error:?} {} {told} {refused} {refused:?}", error.address());
        assert!(!told.contains(MARK), "{node}: {told}");
    }
}

/// A name that no server has accepted may be a password in the wrong place.
#[test]
fn doctor_names_a_user_only_once_a_server_has_accepted_the_login() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    servers[0].run(&["ACL", "SETUSER", "ada", "on", "nopass", "~*", "&*", "+@all"]);
    let doctor = |user: &str| {
        let mut command = sandbox.redlatch(["doctor"]);
        command.env("REDLATCH_NODES", servers[0].url().replace("://", &format!("://{user}@")));
        start(command).end()
    };

    let refused = doctor(MARK);
    let accepted = doctor("ada");

    assert!(!format!("{refused:?}").contains(MARK), "{refused:?}");
    assert!(!refused.status.success(), "{refused:?}");
    assert!(accepted.stdout.contains("the user ada may lock"), "{accepted:?}");
}
