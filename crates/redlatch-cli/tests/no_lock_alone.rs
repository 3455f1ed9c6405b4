//! Settings that would lock nobody out are refused, not obeyed.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use nix::{sys::stat::Mode, unistd::mkfifo};
use std::{fs, os::unix::fs::symlink};
use support::{Sandbox, redlatch, says, shell};

#[test]
fn a_node_in_memory_is_refused_however_it_is_named() {
    let sandbox = Sandbox::embedded();
    fs::write(sandbox.path("memory.toml"), "nodes = ['memory:?name=a']\n").unwrap();

    for (script, by) in [
        ("redlatch run x --node memory: -- echo never", "--node"),
        ("redlatch acquire x --node MEMORY:a", "--node"),
        ("REDLATCH_NODES=redis://127.0.0.1:1,memory: redlatch status x", "REDLATCH_NODES"),
        ("redlatch run x --config memory.toml -- echo never", "memory.toml"),
        ("redlatch doctor --node memory:", "--node"),
    ] {
        let refused = shell(&sandbox, script).exits_with(125);

        assert_eq!(refused.stdout, "", "{script}");
        says(&refused.stderr, &format!("{by} names a node in memory"));
        says(&refused.stderr, "for tests of one process; name servers or a file");
    }
    let unknown = shell(&sandbox, "redlatch run x --node http://a -- true").exits_with(125).stderr;
    says(&unknown, "its scheme is not known");
    assert!(!unknown.contains("memory"), "{unknown}");
}

#[test]
fn a_config_file_that_is_no_file_is_refused_and_not_waited_for() {
    let sandbox = Sandbox::embedded();
    mkfifo(&sandbox.path("redlatch.toml"), Mode::S_IRUSR).unwrap();

    let pipe = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(125).stderr;
    fs::remove_file(sandbox.path("redlatch.toml")).unwrap();
    symlink("/dev/zero", sandbox.path("redlatch.toml")).unwrap();
    let device = redlatch(&sandbox, &["run", "x", "--", "true"]).exits_with(125).stderr;
    fs::remove_file(sandbox.path("redlatch.toml")).unwrap();
    let named = "echo 'ttl = \"20s\"' | redlatch run x --config /dev/stdin -- true";
    shell(&sandbox, named).exits_with(0);

    for refused in [pipe, device] {
        assert!(
            refused.contains("redlatch.toml cannot be read: it is not a regular file"),
            "{refused}"
        );
    }
}

#[test]
fn a_config_file_that_leads_nowhere_or_is_empty_is_refused() {
    let sandbox = Sandbox::embedded();
    let run = "redlatch run x -- echo never";
    let refused = |script: &str| {
        let refused = shell(&sandbox, script).exits_with(125);
        assert_eq!(refused.stdout, "", "{script}");
        refused.stderr
    };

    let here =
        refused(&format!("ln -s gone redlatch.toml; {run}; s=$?; rm redlatch.toml; exit $s"));
    let own = "mkdir -p c/redlatch d; ln -s gone c/redlatch/redlatch.toml; ln -s gone d/redlatch";
    let file = refused(&format!("{own}; XDG_CONFIG_HOME=$PWD/c {run}"));
    let dir = refused(&format!("XDG_CONFIG_HOME=$PWD/d {run}"));
    let empty = refused(&format!("echo > redlatch.toml; {run}; s=$?; rm redlatch.toml; exit $s"));

    for (error, link) in [(here, "redlatch.toml"), (file, "c/redlatch/redlatch.toml")] {
        says(&error, &format!("{link} is a link that leads nowhere"));
    }
    says(&dir, "d/redlatch is a link that leads nowhere");
    says(&empty, "redlatch.toml is empty");
    // Whoever comments the nodes out would lock alone.
    let comments = "printf '# nodes = [\"redis://a\"]\\n\\n  # later\\n' > redlatch.toml";
    says(&refused(&format!("{comments}; {run}")), "redlatch.toml is empty, or has only comments");
    shell(&sandbox, "echo 'ttl = \"9s\" # later' > redlatch.toml; redlatch run x -- true")
        .exits_with(0);
}

#[test]
fn a_variable_that_is_set_and_empty_is_an_error() {
    let sandbox = Sandbox::embedded();

    for variable in [
        "REDLATCH_LOG",
        "REDLATCH_LOG_SIZE",
        "REDLATCH_METRICS_DIR",
        "REDLATCH_SYSLOG",
        "REDLATCH_MAX_TTL",
        "REDLATCH_SKEW",
        "REDLATCH_RESTART_GUARD",
        "REDLATCH_NODES_REQUIRED",
    ] {
        for task in ["run x -- echo never", "doctor"] {
            let ended = shell(&sandbox, &format!("{variable}= redlatch {task}"));

            let ended = ended.exits_with(125);
            assert_eq!(ended.stdout, "", "{variable} {task}");
            says(&ended.stderr, &format!("{variable}: it is empty; "));
            says(&ended.stderr, "or unset it");
        }
    }
}

#[test]
fn a_file_in_a_directory_that_is_not_there_is_refused_and_nothing_is_made() {
    let sandbox = Sandbox::embedded();

    for script in [
        "redlatch run x --node file:$PWD/typo/deep/x.db -- echo never",
        "redlatch run x --node file:typo/deep/x.db -- echo never",
        "REDLATCH_NODES=file:$PWD/typo/deep/x.db redlatch doctor",
    ] {
        let refused = shell(&sandbox, script).exits_with(125);

        assert_eq!(refused.stdout, "", "{script}");
        let dir = sandbox.path("typo/deep");
        says(&refused.stderr, &format!("there is no directory {}: check the path", dir.display()));
        assert!(!sandbox.path("typo").exists(), "{script}");
    }
    assert!(!sandbox.path("redlatch").join("locks.db").exists());
    shell(&sandbox, "redlatch run x -- true").exits_with(0);
    assert!(sandbox.path("redlatch/locks.db").exists(), "the default place is made");
}

/// Its renewal used to make the directory and an empty file, where the next job got the lock.
#[test]
fn a_directory_that_is_moved_from_under_a_running_job_does_not_come_back_by_itself() {
    let sandbox = Sandbox::embedded();
    for (dir, node) in [("named", "--node file:named/l.db"), ("redlatch", "--log off")] {
        let dir = sandbox.path(dir);
        if node.starts_with("--node") {
            fs::create_dir(&dir).unwrap();
        }
        let holder = sandbox.hold(&format!("x --ttl 2s {node}"));

        fs::rename(&dir, sandbox.path("moved")).unwrap();
        let lost = holder.end().exits_with(123);

        assert!(!dir.exists(), "{node}: {lost:?}");
        says(&lost.stderr, "is gone, and so are the locks in it");
        fs::remove_dir_all(sandbox.path("moved")).unwrap();
        fs::remove_file(sandbox.path("up")).unwrap();
    }
}

#[test]
fn a_file_that_is_deleted_while_a_job_runs_is_not_made_anew_for_the_next_job() {
    let sandbox = Sandbox::embedded();
    let _holder = sandbox.hold("x --node file:l.db");
    fs::rename(sandbox.path("l.db"), sandbox.path("moved")).unwrap();

    let next = redlatch(&sandbox, &["run", "x", "--node", "file:l.db", "--", "echo", "never"]);

    let next = next.exits_with(125);
    assert_eq!(next.stdout, "");
    says(&next.stderr, "l.db was deleted or moved while it was in use: put it back, or stop all");
    fs::rename(sandbox.path("moved"), sandbox.path("l.db")).unwrap();
    redlatch(&sandbox, &["run", "x", "--node", "file:l.db", "--", "true"]).exits_with(121);
}

#[test]
fn doctor_warns_of_a_file_whose_path_depends_on_the_working_directory() {
    let sandbox = Sandbox::embedded();

    let relative = shell(&sandbox, "redlatch doctor --node file:x.db").exits_with(1).stdout;
    let absolute = shell(&sandbox, "redlatch doctor --node file:$PWD/x.db").exits_with(0).stdout;

    says(&relative, "the path of file:x.db is relative");
    assert!(!absolute.contains("relative"), "{absolute}");
}

#[test]
fn a_variable_that_does_not_exist_is_answered_with_one_that_can_be_set_or_an_option() {
    let sandbox = Sandbox::embedded();

    let wait = shell(&sandbox, "REDLATCH_WAIT=5s redlatch run x -- true").exits_with(125).stderr;
    let node = shell(&sandbox, "REDLATCH_NODE=x redlatch run x -- true").exits_with(125).stderr;

    says(&wait, "unknown environment variable REDLATCH_WAIT; use the option --wait, ");
    assert!(!wait.contains("REDLATCH_EXIT"), "{wait}");
    says(&node, "did you mean REDLATCH_NODES?");
}

#[test]
fn an_error_speaks_of_what_was_written_and_where() {
    let sandbox = Sandbox::embedded();
    shell(&sandbox, "redlatch run x -- true").exits_with(0);
    let refused = |script: &str| shell(&sandbox, script).exits_with(125).stderr;

    let config = refused("REDLATCH_CONFIG= redlatch run x -- true");
    let typed = refused("REDLATCH_CONFIG=x redlatch run x --config '' -- true");
    let grace = refused("redlatch run x --grace 1m -- true");
    let last = refused("redlatch log --last 0");

    says(&config, "REDLATCH_CONFIG is empty: name the config file there, or unset it");
    says(&typed, "--config");
    says(&grace, "--grace is too long");
    assert!(!grace.contains("notice"), "{grace}");
    says(&last, "use a number from 1 on");
}

#[test]
fn the_first_run_says_that_other_users_have_other_locks() {
    let words = "redlatch/locks.db (of this user alone; other users have other locks)";
    for task in ["run x -- true", "acquire x"] {
        let sandbox = Sandbox::embedded();
        let first = shell(&sandbox, &format!("redlatch {task}")).exits_with(0).stderr;
        assert!(first.starts_with("redlatch: nodes, by default: file:"), "{first}");
        says(&first, words);

        let second = shell(&sandbox, "redlatch run y -- true").exits_with(0).stderr;

        assert_eq!(second, "");
    }
    let quiet = shell(&Sandbox::embedded(), "redlatch run x --quiet -- true").exits_with(0);
    assert_eq!(quiet.stderr, "");
    let named = shell(&Sandbox::embedded(), "redlatch run x --node file:x.db -- true");
    assert_eq!(named.exits_with(0).stderr, "");
}

/// A namespace with a service called `redlatch-web`, or `redlatch`: every pod of it has
/// variables that look like ours.
#[test]
fn the_variables_that_kubernetes_sets_for_a_service_are_not_typos() {
    let sandbox = Sandbox::embedded();
    for service in ["REDLATCH_WEB", "REDLATCH"] {
        let variables = format!(
            "{service}_SERVICE_HOST=10.0.0.1 {service}_SERVICE_PORT=9735 {service}_SERVICE_PORT_HTTP=9735 \
             {service}_PORT=tcp://10.0.0.1:9735 {service}_PORT_9735_TCP_ADDR=10.0.0.1"
        );
        let run =
            |more: &str| shell(&sandbox, &format!("{variables} {more} redlatch run x -- true"));

        run("").exits_with(0);

        says(
            &run("REDLATCH_NODE=x").exits_with(125).stderr,
            "variable REDLATCH_NODE; did you mean",
        );
    }
    let alone = shell(&sandbox, "REDLATCH_PORT=9735 redlatch run x -- true").exits_with(125);
    says(&alone.stderr, "unknown environment variable REDLATCH_PORT");
}
