//! What an operator finds in the morning: every failure is reported, and correctly.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use support::{
    PATIENCE, Running, Sandbox, child_of, eventually, redlatch, says, send, shell, start,
};

#[test]
fn quiet_hides_no_failure() {
    let sandbox = Sandbox::embedded();
    let quiet = |script: &str| shell(&sandbox, &format!("redlatch run x --quiet {script}"));

    let full = quiet("--max-hold 200ms -- sleep 100").exits_with(124);
    says(&full.stderr, "--max-hold is reached");
    let killed = "--max-hold 200ms --grace 100ms -- sh -c 'trap \"\" TERM; while :; do :; done'";
    says(&quiet(killed).exits_with(124).stderr, "was killed");
    let taken = "--ttl 600ms -- sh -c 'redlatch release --force x --yes >/dev/null; sleep 100'";
    says(&quiet(taken).exits_with(123).stderr, "the lock is lost");
    let unseen = "-- redlatch release --force x --yes --quiet";
    says(&quiet(unseen).exits_with(123).stderr, "gone before it was released");
}

#[test]
fn a_lock_that_another_owner_has_taken_is_reported_as_lost_and_left_alone() {
    let sandbox = Sandbox::embedded();
    let steal = "redlatch release --force x --yes && redlatch acquire x --owner thief > handle";
    let command = ["run", "x", "--", "sh", "-c", steal];

    let ended = redlatch(&sandbox, &command).exits_with(123);

    says(&ended.stderr, "someone else may have held it meanwhile");
    assert!(redlatch(&sandbox, &["status", "x"]).exits_with(121).stdout.contains("thief"));
}

#[test]
fn quiet_does_not_hide_an_outage_or_that_the_lock_may_stay() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let script = "echo > up; while [ ! -e frozen ]; do sleep 0.01; done";
    let running = sandbox.run("x --quiet", script);
    eventually(PATIENCE, || sandbox.path("up").exists());

    servers.freeze(&[1, 2]);
    std::fs::write(sandbox.path("frozen"), "").unwrap();

    says(&running.end().exits_with(0).stderr, "not known whether the lock is released");
    let ended = redlatch(&sandbox, &["run", "y", "--quiet", "-E", "0", "--", "true"]);
    says(&ended.exits_with(122).stderr, "2 of 3 nodes do not answer");
}

#[test]
fn quiet_says_nothing_of_a_lock_that_another_owner_has() {
    let sandbox = Sandbox::embedded();
    for (options, code) in [("--quiet", 121), ("--quiet -E 0", 0), ("--quiet -E 122", 122)] {
        let script = format!("redlatch run x --quiet -- redlatch run x {options} -- echo never");

        let ended = shell(&sandbox, &script).exits_with(code);

        assert_eq!((&*ended.stdout, &*ended.stderr), ("", ""), "{options}");
    }
}

#[test]
fn a_lock_that_was_lost_while_redlatch_was_stopped_past_at_least_is_reported_as_lost() {
    let sandbox = Sandbox::embedded();
    let running = start(sandbox.shell("exec redlatch run x --ttl 3s --at-least 10s -- true"));
    eventually(PATIENCE, || redlatch(&sandbox, &["log", "x"]).stdout.contains("its lock is kept"));
    let (holder, kept) = (child_of(running.pid()), Instant::now());

    send("STOP", holder);
    eventually(PATIENCE, || sandbox.is_free("x"));
    eventually(PATIENCE, || kept.elapsed() > Duration::from_secs(10));
    send("CONT", holder);

    let ended = running.end().exits_with(123);
    says(&ended.stderr, "the lock was lost before the end of --at-least");
}

/// A lock whose command is done, while it is kept for `--at-least`.
fn in_the_tail(sandbox: &Sandbox) -> Running {
    let options = ["--ttl", "2s", "--at-least", "1m", "--quiet"];
    let command = ["--", "sh", "-c", "echo > done"];
    let running = start(sandbox.redlatch(["run", "x"].iter().chain(&options).chain(&command)));
    eventually(PATIENCE, || sandbox.path("done").exists());
    running
}

#[test]
fn a_lock_lost_during_at_least_is_reported_as_lost_and_not_as_stolen() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let running = in_the_tail(&sandbox);

    servers.freeze(&[1, 2]);

    let ended = running.end().exits_with(123);
    says(&ended.stderr, "--at-least");
    says(&ended.stderr, "extended the lease in time");
    assert!(!ended.stderr.contains("taken away"), "{}", ended.stderr);
}

#[test]
fn a_signal_that_cuts_at_least_short_is_reported() {
    let sandbox = Sandbox::embedded();
    let running = in_the_tail(&sandbox);

    // Until the command's end has been noticed, the signal is the command's.
    eventually(PATIENCE, || {
        let holder = child_of(running.pid());
        let below = std::fs::read_to_string(format!("/proc/{holder}/task/{holder}/children"));
        below.unwrap().is_empty()
    });
    running.signal("TERM");

    says(&running.end().exits_with(0).stderr, "SIGTERM cut --at-least short");
    assert!(sandbox.is_free("x"));
}

#[test]
fn an_extended_lock_whose_new_handle_cannot_be_printed_stays_with_the_old_one() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    let handle = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    for sink in [">/dev/full", ">&-"] {
        let script = format!("redlatch extend {} {sink}", handle.trim());

        let ended = shell(&sandbox, &script).exits_with(125);

        says(&ended.stderr, "the handle you have");
        assert!(!sandbox.is_free("x"), "{sink}");
    }
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);
}

#[test]
fn output_that_cannot_be_written_is_a_failure_that_says_so() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["acquire", "x"]).exits_with(0);
    for task in ["status x", "status x --json", "ls", "ls --json", "doctor", "top --once", "log"] {
        let ended = shell(&sandbox, &format!("redlatch {task} >/dev/full")).exits_with(125);

        says(&ended.stderr, "could not write to stdout: No space left on device");
    }
}

#[test]
fn a_handle_that_nobody_can_read_leaves_nothing_locked() {
    let sandbox = Sandbox::embedded();
    for options in ["", "--json"] {
        let ended = shell(&sandbox, &format!("redlatch acquire x {options} >&-")).exits_with(125);

        says(&ended.stderr, "stdout is closed");
        assert!(sandbox.is_free("x"));
    }
    // If the handle is discarded on purpose, the TTL ends the lock.
    shell(&sandbox, "redlatch acquire x <>/dev/null >&0").exits_with(0);
    assert!(!sandbox.is_free("x"));
}

#[test]
fn a_release_by_handle_frees_the_nodes_that_answer_and_goes_on_with_the_others() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let handle = redlatch(&sandbox, &["acquire", "x"]).exits_with(0).stdout;
    servers.freeze(&[1, 2]);

    let ended = redlatch(&sandbox, &["release", handle.trim()]).exits_with(122);

    says(&ended.stderr, "not known whether the lock is released");
    eventually(PATIENCE, || servers[0].keys().is_empty());
    servers.thaw(&[1, 2]);
    eventually(PATIENCE, || servers.keys_everywhere() == [[""; 0]; 3]);
}

#[test]
fn a_wait_for_nodes_that_are_down_names_them() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    servers[1].kill();
    servers[2].kill();
    for task in ["run x --wait forever -- true", "acquire x --wait forever --json"] {
        let _ = std::fs::remove_file(sandbox.path("said"));
        let script = format!("redlatch {task} 2> said");
        let waiting = start(sandbox.shell(&script));

        let mut said = String::new();
        eventually(PATIENCE, || {
            said = std::fs::read_to_string(sandbox.path("said")).unwrap_or_default();
            said.contains("times in")
        });

        assert!(said.contains("2 of 3 nodes do not answer"), "{said}");
        assert!(said.contains(&servers[2].url()), "{said}");
        servers[1].restart();
        waiting.end().exits_with(0);
        servers[1].kill();
    }
}

#[test]
fn a_wait_for_a_lock_says_who_has_it_if_asked_to() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["acquire", "x", "--owner", "ada", "--ttl", "5s"]).exits_with(0);

    let waited = redlatch(&sandbox, &["run", "x", "--wait", "1m", "-v", "--", "true"]);

    says(&waited.exits_with(0).stderr, "x is held by ada; waited");
}

#[test]
fn completions_are_installed_as_their_help_says_on_a_new_account() {
    let sandbox = Sandbox::embedded();
    let help = redlatch(&sandbox, &["completions", "--help"]).exits_with(0).stdout;
    let line = help.lines().find(|line| line.contains("redlatch completions bash")).unwrap();

    shell(&sandbox, line.trim()).exits_with(0);

    let installed = sandbox.path(".local/share/bash-completion/completions/redlatch");
    assert!(std::fs::read_to_string(installed).unwrap().contains("_redlatch()"));
}

#[test]
fn a_command_that_waits_for_its_own_lock_is_told_so() {
    let sandbox = Sandbox::embedded();
    for options in ["", "--wait 2s"] {
        let script = format!("redlatch run x -- redlatch run x {options} -- true");

        let ended = shell(&sandbox, &script).exits_with(121);

        let (words, times) = match options {
            "" => ("this command runs under, so it can never get it", 1),
            _ => ("this command runs under: it would wait for itself", 2),
        };
        says(&ended.stderr, words);
        assert_eq!(ended.stderr.matches(words).count(), times, "{}", ended.stderr);
        assert_eq!(ended.stderr.matches("runs under").count(), times, "{}", ended.stderr);
    }
    let itself = "that this command runs under, so it can never get it";
    let inner = "redlatch run y --owner me -- redlatch run x -- redlatch run y -- true";
    says(&shell(&sandbox, inner).exits_with(121).stderr, itself);
    let cleared = "redlatch run x --owner me -- env -u REDLATCH_RESOURCE redlatch acquire x";
    says(&shell(&sandbox, cleared).exits_with(121).stderr, itself);
    let _other = sandbox.hold("z");
    let ended = shell(&sandbox, "redlatch run x -- redlatch run z -- true").exits_with(121);
    assert!(!ended.stderr.contains(itself), "{}", ended.stderr);
}

#[test]
fn a_frozen_minority_does_not_hold_up_the_end_of_a_run() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let script = "echo > up; while [ ! -e frozen ]; do sleep 0.01; done; date +%s%N > ended";
    let mut times = Vec::new();
    for _ in 0..3 {
        let _ = std::fs::remove_file(sandbox.path("up"));
        let running = sandbox.run("x", script);
        eventually(PATIENCE, || sandbox.path("up").exists());
        servers.freeze(&[2]);
        std::fs::write(sandbox.path("frozen"), "").unwrap();

        running.end().exits_with(0);

        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let ended: u64 = sandbox.read("ended").parse().unwrap();
        times.push(now.saturating_sub(Duration::from_nanos(ended)));
        servers.thaw(&[2]);
        std::fs::remove_file(sandbox.path("frozen")).unwrap();
        std::fs::remove_file(sandbox.path("ended")).unwrap();
        eventually(PATIENCE, || sandbox.is_free("x") && servers[2].keys().is_empty());
    }
    // A busy machine makes each of them longer, but hardly all.
    assert!(times.iter().min().unwrap() < &Duration::from_millis(400), "{times:?}");
}

#[test]
fn a_ttl_that_one_command_accepts_is_accepted_by_all() {
    let sandbox = Sandbox::embedded();
    for ttl in ["2s", "5s", "6s", "7s", "30s"] {
        redlatch(&sandbox, &["run", "x", "--ttl", ttl, "--", "true"]).exits_with(0);
        let handle = redlatch(&sandbox, &["acquire", "x", "--ttl", ttl]).exits_with(0).stdout;

        let extended = redlatch(&sandbox, &["extend", handle.trim()]);
        let released = redlatch(&sandbox, &["release", handle.trim()]);

        // A busy machine may come too late for the short ones.
        for ended in [extended, released] {
            assert!([0, 122, 123].contains(&ended.status.code().unwrap()), "{ttl}: {ended:?}");
        }
        eventually(PATIENCE, || sandbox.is_free("x"));
    }
    let long = ["acquire", "x", "--ttl", "1m", "--max-ttl", "1m"];
    let handle = redlatch(&sandbox, &long).exits_with(0).stdout;
    redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);
}

#[test]
fn too_few_descriptors_are_an_error_and_no_panic() {
    let sandbox = Sandbox::embedded();
    for limit in 4..=20 {
        // Each limit has locks of its own: how many descriptors it takes to get one
        // depends on what whoever started the tests has left open.
        let (held, free) = (format!("held-{limit}"), format!("free-{limit}"));
        let handle = redlatch(&sandbox, &["acquire", &held]).exits_with(0).stdout;
        let release = format!("release {}", handle.trim());
        let (run, acquire) = (format!("run {free} -- true"), format!("acquire {free}"));
        for task in [&run, &acquire, &release, "ls", "doctor"] {
            let close = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-";
            let script = format!("{close}; ulimit -n {limit}; redlatch {task}");

            let ended = shell(&sandbox, &script);

            let code = ended.status.code().unwrap();
            assert!([0, 2, 122, 125].contains(&code), "{limit}, {task}: {ended:?}");
            assert!(!ended.stderr.contains("panicked"), "{limit}, {task}: {ended:?}");
            assert!(
                code == 0 || !ended.stderr.contains("was killed"),
                "{limit}, {task}: {ended:?}"
            );
            // A caller that got an error has no lock to look after.
            let is_handed_out = task == acquire && !ended.stdout.is_empty();
            assert!(code == 0 || !is_handed_out, "{limit}, {task}: {ended:?}");
        }
    }
}

#[test]
fn too_small_a_stack_is_an_error_and_no_crash() {
    let sandbox = Sandbox::embedded();
    for limit in [64, 128, 256, 511, 512, 1024] {
        for task in ["run x -- true", "acquire x-LIMIT", "doctor", "ls", "log", "help run"] {
            let task = task.replace("LIMIT", &limit.to_string());

            let ended = shell(&sandbox, &format!("ulimit -s {limit}; redlatch {task}"));

            let code = ended.status.code();
            let is_refused = code == Some(125) && ended.stderr.contains("ulimit -s");
            assert!(is_refused || code == Some(0), "{limit}, {task}: {ended:?}");
            assert!(!is_refused || limit < 512, "{limit}, {task}: {ended:?}");
        }
    }
}

#[test]
fn the_words_for_what_was_killed_are_true() {
    let sandbox = Sandbox::embedded();
    let run = |script: &str| {
        shell(&sandbox, &format!("redlatch run x --max-hold 200ms {script}")).exits_with(124)
    };

    let late = run("--grace 2s -- sh -c 'trap \"\" TERM; while :; do sleep 0.01; done'");
    says(&late.stderr, "the command did not end in time and was killed");
    let no_time = run("--on-lost kill -- sleep 100");
    says(&no_time.stderr, "--max-hold is reached; the command is killed");
    assert!(!no_time.stderr.contains("in time"), "{}", no_time.stderr);
    let child = "sh -c '(trap \"\" TERM; exec sleep 100) & exec sleep 100'";
    let left_behind = run(&format!("--grace 2s -- {child}"));
    says(&left_behind.stderr, "the command ended, but processes that it had started did not");
}
