//! `redlatch top`: in a terminal, as a person uses it, and without one.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::{Server, Servers};
use std::fs;
use support::{Ended, PATIENCE, Sandbox, eventually, json_of, pty::Terminal, start};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const ESCAPE: &str = "\x1b";
const DOWN: &str = "\x1b[B";
/// Another screen, and back.
const ENTER_SCREEN: &str = "\x1b[?1049h";
const LEAVE_SCREEN: &str = "\x1b[?1049l";

/// A terminal with `top` in it. When that ends, it says so, and whether the terminal is as
/// it was.
fn top(sandbox: &Sandbox, options: &str) -> Terminal {
    let script = format!(
        "stty cols 100 rows 40; before=$(stty -g); redlatch top --every 100ms {options}; \
         echo status $?; test \"$before\" = \"$(stty -g)\" && echo as before; read line; echo $line"
    );
    let mut terminal = Terminal::with(sandbox, &["bash", "-c", &script]);
    terminal.shows(ENTER_SCREEN);
    terminal.shows("votes");
    terminal
}

/// `top` has ended well, and the shell can be used.
#[track_caller]
fn ended(mut terminal: Terminal) {
    terminal.shows(LEAVE_SCREEN);
    terminal.shows("status 0");
    terminal.shows("as before");
    terminal.press("typed\n");
    // What the terminal echoes, and what the shell does.
    terminal.shows("typed\r\ntyped");
}

fn take(sandbox: &Sandbox, name: &str, options: &str) -> Ended {
    let args = ["acquire", name].into_iter().chain(options.split_whitespace());
    start(sandbox.redlatch(args)).end().exits_with(0)
}

#[test]
fn top_shows_a_lock_that_is_taken_and_lost_and_nodes_that_go_down() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let mut terminal = top(&sandbox, "");
    terminal.shows("OK");
    terminal.shows("votes 3 of 3");

    take(&sandbox, "backup", "--owner ada");
    terminal.shows("backup");
    terminal.shows("3 of 3");
    terminal.shows("taken by ada");
    // Two nodes lose it: now nobody knows.
    servers[0].run(&["DEL", "backup"]);
    servers[1].run(&["DEL", "backup"]);
    terminal.shows("the lock backup is free, but 1 of 3 nodes has ada's lock");
    terminal.shows("no majority: 1 of 3 nodes has ada's lock");
    terminal.shows("lost 1 since ");

    servers[1].kill();
    terminal.shows("DEGRADED");
    terminal.shows(&format!("{}: down: ", servers[1].url()));
    servers[2].kill();
    terminal.shows("NO LOCK CAN BE TAKEN");
    terminal.shows("locks ?");
    terminal.shows("no lock can be taken: 1 of 3 nodes may vote, 2 must");
    terminal.press("q");
    ended(terminal);
}

#[test]
fn top_says_that_a_lock_gone_after_an_outage_may_have_been_lost() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "backup", "--owner ada");
    let mut terminal = top(&sandbox, "");
    terminal.shows("lost 0 since ");

    servers.kill(&[0, 1, 2]);
    terminal.shows("locks ?  waiting ?");
    servers.iter().for_each(Server::restart_empty);

    terminal.shows("DEGRADED");
    terminal.shows("gone during the outage, nobody could see whether released or lost: backup");
    terminal.shows("ada's lock is gone during the outage: released or lost, nobody could see");
    terminal.shows("lost 0 to 1 since ");
    terminal.press("q");
    ended(terminal);
}

#[test]
fn top_shows_who_has_a_lock_and_who_waits_for_it() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    let _holder = sandbox.hold("backup --owner ada");
    let mut terminal = top(&sandbox, "");
    terminal.shows("backup");
    let _waiter = sandbox.run("backup --owner bob --wait 1m", "true");

    terminal.shows("waiting 1");
    terminal.press("\n");
    terminal.shows("waiting in line: 1");
    terminal.shows("1. bob, ");
    terminal.shows("command sh");
    terminal.press("q");
    ended(terminal);
}

#[test]
fn top_distinguishes_a_quarantined_node_from_one_that_is_down() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    start(sandbox.redlatch(["admit", "--all", "--yes"])).end().exits_with(0);
    let mut terminal = top(&sandbox, "");
    terminal.shows("votes 3 of 3");

    servers[2].restart_empty();

    terminal.shows("DEGRADED");
    terminal.shows(&format!("{}: quarantined", servers[2].url()));
    servers[1].kill();
    terminal.shows("NO LOCK CAN BE TAKEN");
    terminal.shows("down");
    terminal.shows("quarantined");
    terminal.press("q");
    ended(terminal);
}

#[test]
fn top_shows_a_node_that_answers_but_cannot_be_used() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let mut terminal = top(&sandbox, "");
    terminal.shows("votes 3 of 3");

    servers[1].run(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    servers[1].run(&["CONFIG", "SET", "maxmemory", "100mb"]);

    terminal.shows("DEGRADED");
    terminal.shows(&format!("{}: answers, but cannot be used: ", servers[1].url()));
    terminal.shows("unusable");
    terminal.press("q");
    ended(terminal);
}

#[test]
fn keys_filter_sort_and_look_into_a_lock() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "alpha", "--owner ada");
    take(&sandbox, "beta\x1b[31m", "--owner bob");
    let mut terminal = top(&sandbox, "");
    terminal.shows("alpha");
    terminal.shows("beta\\u{1b}[31m");

    terminal.press("?");
    terminal.shows("look into it: what each node says");
    terminal.press(ESCAPE);
    terminal.shows("sorted by trouble");
    terminal.press("s");
    terminal.shows("sorted by name");
    terminal.press("/BET");
    terminal.shows("filter: BET");
    terminal.press("\n");
    terminal.shows("only \"BET\"");
    assert!(!terminal.next_frame().contains("alpha"));
    terminal.press("\n");
    terminal.shows("fencing token ");
    terminal.shows(&format!("{}  held by bob", servers[2].url()));
    terminal.press(ESCAPE);
    terminal.shows("only \"BET\"");
    terminal.press(ESCAPE);
    terminal.shows("alpha");
    terminal.press("ss");
    terminal.press(DOWN);
    terminal.shows("\x1b[7m");
    terminal.press("q");
    ended(terminal);
}

#[test]
fn the_terminal_is_restored_after_every_signal() {
    let sandbox = Sandbox::embedded();
    for signal in ["TERM", "HUP", "QUIT", "INT"] {
        let mut terminal = top(&sandbox, "");
        let pid = terminal.foreground();

        support::send(signal, pid);

        terminal.shows(LEAVE_SCREEN);
        terminal.shows("as before");
    }
    let mut terminal = top(&sandbox, "");
    terminal.press(CTRL_C);
    terminal.shows(LEAVE_SCREEN);
}

#[test]
fn ctrl_z_gives_the_terminal_back_until_fg() {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    terminal.press("stty -g > before; TERM=xterm redlatch top --every 100ms\n");
    terminal.shows(ENTER_SCREEN);
    terminal.shows("votes 1 of 1");

    terminal.press(CTRL_Z);

    terminal.shows(LEAVE_SCREEN);
    terminal.shows("Stopped");
    terminal.shows("$ ");
    terminal.press("stty -g > stopped; echo do\"\"ne\n");
    terminal.shows("done\r\n");
    terminal.shows("$ ");
    terminal.press("fg\n");
    terminal.shows(ENTER_SCREEN);
    terminal.shows("votes 1 of 1");
    terminal.press("q");
    terminal.shows(LEAVE_SCREEN);
    terminal.shows("$ ");
    terminal.press("stty -g > after; echo aft\"\"er\n");
    terminal.shows("after\r\n");
    // The shell itself has other modes while it reads a line.
    let modes = ["before", "stopped", "after"].map(|name| {
        fs::read_to_string(sandbox.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    });
    assert_eq!([&modes[1], &modes[2]], [&modes[0]; 2]);
}

#[test]
fn a_smaller_window_cuts_lines_and_no_color_means_none() {
    let sandbox = Sandbox::embedded();
    take(&sandbox, "a-name-that-is-longer-than-the-window-will-be", "--owner ada");
    let mut terminal = Terminal::with(
        &sandbox,
        &["bash", "-c", "stty cols 100 rows 40; NO_COLOR=1 redlatch top --every 100ms"],
    );
    terminal.shows("a-name-that-is-longer-than-the-window-will-be");

    terminal.resize(40, 12);

    let mut frame = String::new();
    eventually(PATIENCE, || {
        frame = terminal.next_frame();
        frame.split("\r\n").count() == 12
    });
    assert!(frame.contains("a-name-"), "{frame:?}");
    let lines: Vec<_> = frame.split("\r\n").collect();
    let codes = regex_lite::Regex::new("\x1b\\[[0-9;]*[A-Za-z]").unwrap();
    for line in lines {
        assert!(codes.replace_all(line.trim_end(), "").chars().count() <= 40, "{line:?}");
    }
    terminal.press("q");
    terminal.end();
    assert!(!terminal.has_ever_shown("\x1b[32m"), "there are colours");
}

/// `timeout` puts its command into the background of the terminal.
#[test]
fn in_the_background_of_a_terminal_it_is_plain_text_and_ends_when_it_is_told_to() {
    let sandbox = Sandbox::embedded();
    let script = "timeout 2 redlatch top --every 100ms; echo status $?";

    let mut terminal = Terminal::with(&sandbox, &["bash", "-c", script]);

    terminal.shows("votes 1 of 1");
    terminal.shows("status 124");
    assert!(!terminal.has_ever_shown(ENTER_SCREEN), "it drew on somebody else's terminal");
}

#[test]
fn without_a_terminal_it_is_plain_text_snapshot_after_snapshot() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "a\nb\x1b[31m", "--owner ada");
    servers[2].kill();

    let one = start(sandbox.redlatch(["top", "--once"])).end().exits_with(0);
    let many = sandbox.shell("redlatch top --every 10ms | grep -m 3 ^redlatch").output().unwrap();

    assert!(!one.stdout.contains('\x1b'), "{one:?}");
    let lines: Vec<&str> = one.stdout.lines().collect();
    assert!(lines[0].starts_with("redlatch  DEGRADED  "), "{one:?}");
    assert!(lines[1].starts_with(&format!("! {}: down: ", servers[2].url())), "{one:?}");
    assert!(one.stdout.contains("a\\nb\\u{1b}[31m  ada "), "{one:?}");
    let many = Ended::of(&many).exits_with(0);
    assert_eq!((many.stdout.lines().count(), &*many.stderr), (3, ""));
}

#[test]
fn json_is_one_line_per_snapshot() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "x", "--owner ada");
    servers[0].kill();

    let once = start(sandbox.redlatch(["top", "--once", "--json"])).end().exits_with(0);

    assert_eq!(once.stdout.lines().count(), 1);
    let told = json_of(&once.stdout);
    assert_eq!(told["votes"], 2);
    assert_eq!(told["findings"][0]["level"], "warning");
    assert_eq!(told["nodes"][0]["standing"], "down");
    assert_eq!(told["nodes"][1]["standing"], "admitted");
    assert_eq!(told["locks"][0]["name"], "x");
    assert_eq!(told["locks"][0]["owner"], "ada");
    assert_eq!(told["locks"][0]["nodes"], 2);
}
