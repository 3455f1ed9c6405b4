//! Passwords stay where they were written.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use std::fs;
use support::{Sandbox, start};

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
