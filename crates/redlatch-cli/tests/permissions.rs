//! What a server refuses is named once, with what to grant.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Server;
use support::{PATIENCE, Sandbox, eventually, redlatch, says, start};

/// Three servers with the user `ada`, who may do this, and their addresses.
fn with_ada(rules: &str) -> (Vec<Server>, Sandbox, Vec<String>) {
    let start = || Server::options().appendonly().user("ada", "pw", rules).start().unwrap();
    let servers: Vec<Server> = (0..3).map(|_| start()).collect();
    let sandbox = Sandbox::embedded();
    let nodes = servers.iter().flat_map(|server| ["--node".into(), server.url_as("ada", "pw")]);
    let nodes = nodes.collect();
    (servers, sandbox, nodes)
}

fn on<'a>(args: &[&'a str], nodes: &'a [String]) -> Vec<&'a str> {
    args.iter().copied().chain(nodes.iter().map(|node| &**node)).collect()
}

#[test]
fn a_user_who_lacks_permissions_gets_the_command_that_grants_them_once() {
    let (_servers, sandbox, nodes) = with_ada("~* resetchannels -@all +ping +eval +info");

    let ended = redlatch(&sandbox, &[&on(&["run", "x"], &nodes)[..], &["--", "true"]].concat());

    let said = ended.exits_with(122).stderr;
    assert_eq!(said.matches("ACL SETUSER ada +eval ").count(), 1, "{said}");
}

/// The command in a text that begins with `ACL SETUSER`, up to the end of its line or
/// sentence.
fn acl_in(text: &str) -> Option<Vec<&str>> {
    let rest = &text[text.find("ACL SETUSER ")?..];
    let end = rest.find(['\n', '`', ';', ')']).unwrap_or(rest.len());
    Some(rest[..end].trim_end().split(' ').collect())
}

#[test]
fn the_commands_that_grant_what_is_missing_can_be_pasted_and_take_nothing_away() {
    for rules in [
        "~* &* -@all +ping +mget",
        "~* &* +@all -hset -pexpire",
        "~mine:* resetchannels -@all +ping +mget",
    ] {
        let (servers, sandbox, nodes) = with_ada(rules);
        let off = on(&["--restart-guard", "off"], &nodes);
        let run = [&["run", "nightly", "--wait", "2s"], &off[..], &["--", "true"]].concat();
        let doctor = [&["doctor", "--prefix", "nightly"], &off[..]].concat();
        let paste = |text: &str| {
            let command = acl_in(text)?;
            for server in &servers {
                let answer = server.run(&command);
                assert!(answer.is_ok(), "{rules}: {command:?}: {answer:?}");
            }
            Some(())
        };

        paste(&redlatch(&sandbox, &run).exits_with(122).stderr).unwrap();
        let fixed = |_: &i32| paste(&redlatch(&sandbox, &doctor).stdout).is_some();
        assert!((0..4).take_while(fixed).count() < 4, "{rules}: the fixes have no effect");

        redlatch(&sandbox, &run).exits_with(0);
        let has = servers[0].run(&["ACL", "GETUSER", "ada"]);
        let has = format!("{has:?}");
        assert!(has.contains("+mget") || has.contains("+@all"), "{has}");
    }
}

#[test]
fn a_user_who_may_not_lock_a_name_is_told_which_key_to_grant() {
    let rules = format!("{} ~redlatch:*", redlatch::node::REDIS_PERMISSIONS);
    let (servers, sandbox, nodes) = with_ada(&rules);
    let off = on(&["--restart-guard", "off"], &nodes);
    let run = [&["run", "acl", "--wait", "2s"], &off[..], &["--", "true"]].concat();

    let said = redlatch(&sandbox, &run).exits_with(122).stderr;

    says(&said, "`ACL SETUSER ada ~acl`");
    says(&said, "`redlatch doctor --prefix acl --node redis://…@");
    says(&said, "; answering with errors: ");
    assert!(!said.contains("; down: "), "{said}");
    for server in &servers {
        server.run(&["ACL", "SETUSER", "ada", "~acl"]);
    }
    redlatch(&sandbox, &run).exits_with(0);
}

#[test]
fn a_user_whose_names_were_not_tried_is_told_so() {
    let rules = format!("{} ~redlatch:* ~nightly", redlatch::node::REDIS_PERMISSIONS);
    let (_servers, sandbox, nodes) = with_ada(&rules);
    let off = on(&["--restart-guard", "off"], &nodes);

    let found = redlatch(&sandbox, &[&["doctor"], &off[..]].concat()).stdout;

    says(&found, "whether the user ada may lock the names of your jobs was not checked");
    assert!(!found.contains("ACL SETUSER"), "nothing is missing: {found}");
}

#[test]
fn a_password_that_is_missing_is_asked_for_as_the_guide_says() {
    let server = Server::options().password("pw").start().unwrap();
    let node = format!("redis://127.0.0.1:{}", server.port());
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["run", "x", "--node", &node, "--", "true"]).exits_with(122);

    for args in [&["run", "x", "--node", &node, "--", "true"][..], &["ls", "--node", &node]] {
        let said = redlatch(&sandbox, args).stderr;
        says(&said, "?password_file=FILE");
        says(&said, "password_env");
        assert!(!said.contains('…'), "{said}");
        says(&said, "cannot be used: it wants a password");
    }
    says(&redlatch(&sandbox, &["log", "x"]).stdout, "?password_file=FILE");
}

#[test]
fn a_user_who_cannot_be_woken_is_told_what_is_missing() {
    let all = format!("{} ~*", redlatch::node::REDIS_PERMISSIONS);
    for lacks in ["+publish", "+subscribe", "&redlatch:*"] {
        let (servers, sandbox, nodes) = with_ada(&all.replace(lacks, ""));
        if lacks == "+subscribe" && servers[0].info("redis_version").unwrap().starts_with("6.") {
            eprintln!("SKIPPED: this server does not tell");
            continue;
        }
        let doctor = on(&["doctor", "--restart-guard", "off"], &nodes);

        let found = redlatch(&sandbox, &doctor).exits_with(1).stdout;

        says(&found, &format!("waiting clients are woken late: this user lacks {lacks}"));
        for server in &servers {
            assert!(server.run(&acl_in(&found).unwrap()).is_ok(), "{found}");
        }
        let found = redlatch(&sandbox, &doctor).stdout;
        assert!(!found.contains("woken late"), "{found}");
    }
}

#[test]
fn ls_tells_a_user_who_may_not_run_scripts_so_and_not_that_scan_is_missing() {
    let all = format!("{} ~*", redlatch::node::REDIS_PERMISSIONS);
    let (servers, sandbox, nodes) = with_ada(&all.replace(" +eval ", " "));
    let off = on(&["--restart-guard", "off"], &nodes);
    let ls = [&["ls"], &off[..]].concat();

    let said = redlatch(&sandbox, &ls).exits_with(122).stderr;

    says(&said, "ACL SETUSER ada +eval ");
    assert!(!said.contains("may not list locks"), "{said}");
    for server in &servers {
        assert!(server.run(&acl_in(&said).unwrap()).is_ok(), "{said}");
    }
    redlatch(&sandbox, &ls).exits_with(0);
}

#[test]
fn ls_shows_a_user_who_may_not_list_locks_the_command_that_allows_it() {
    let all = format!("{} ~*", redlatch::node::REDIS_PERMISSIONS);
    let (servers, sandbox, nodes) = with_ada(&all.replace(" +scan ", " "));
    let ls = on(&["ls", "--restart-guard", "off"], &nodes);

    let said = redlatch(&sandbox, &ls).exits_with(122).stderr;

    says(&said, "this user may not list locks; grant it: ACL SETUSER ada +scan");
    for server in &servers {
        assert!(server.run(&acl_in(&said).unwrap()).is_ok(), "{said}");
    }
    redlatch(&sandbox, &ls).exits_with(0);
}

/// The rules of the guide's user, who may lock `deploy:…` alone.
fn deployer() -> String {
    format!("{} ~redlatch:* ~deploy:*", redlatch::node::REDIS_PERMISSIONS)
}

#[test]
fn keys_that_a_user_may_not_read_are_counted_and_hide_no_locks() {
    let (servers, sandbox, nodes) = with_ada(&deployer());
    let off = on(&["--restart-guard", "off"], &nodes);
    let run = [&["run", "deploy:web"], &off[..], &["--", "sleep", "60"]].concat();
    let _held = start(sandbox.redlatch(run));
    let looked = |args: &[&str]| redlatch(&sandbox, &[args, &off[..]].concat());
    eventually(PATIENCE, || looked(&["ls"]).stdout.contains("deploy:web"));
    for server in &servers {
        server.run(&["SET", "session:1", "abc"]);
    }

    let found = looked(&["ls"]).exits_with(0);

    says(&found.stdout, "deploy:web");
    assert_eq!(found.stderr.matches("left out: 1 key that this user may not read").count(), 1);
    let some = looked(&["ls", "deploy:*"]).exits_with(0);
    assert_eq!(some.stderr, "");
    let top = looked(&["top", "--once"]).exits_with(0).stdout;
    says(&top, "deploy:web");
    assert!(!top.contains("DEGRADED"), "{top}");
    says(&looked(&["doctor", "--prefix", "deploy:"]).stdout, "1 key that this user may not read");
    if servers[0].info("redis_version").unwrap().starts_with("6.") {
        eprintln!("SKIPPED: this server knows no permission to read alone");
        return;
    }
    for server in &servers {
        assert!(server.run(&acl_in(&found.stderr).unwrap()).is_ok(), "{}", found.stderr);
    }
    assert_eq!(looked(&["ls"]).exits_with(0).stderr, "");
}

#[test]
fn nobody_vouches_unasked_where_a_key_that_cannot_be_read_may_be_a_lock() {
    let (servers, sandbox, nodes) = with_ada(&deployer());
    let guarded = on(&["--restart-guard", "on"], &nodes);
    let admit = |args: &[&str]| redlatch(&sandbox, &[&["admit"], args, &guarded[..]].concat());
    admit(&["--all"]).exits_with(0);
    for server in &servers {
        server.run(&["SET", "webl2", "abc"]);
    }
    servers[0].run(&["FLUSHALL"]);

    let refused = admit(&["--all"]).exits_with(125).stderr;

    says(&refused, "1 key that this user may not read and that may be a lock");
    says(&refused, "--yes");
    admit(&["--all", "--yes"]).exits_with(0);
    let said = admit(&["--wait", "--timeout", "1s"]).exits_with(122).stderr;
    says(&said, "restart no other node yet");
    says(&said, "has keys that this user may not read");
}
