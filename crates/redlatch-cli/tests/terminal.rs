//! `redlatch run` in a terminal, as a person uses it.

mod support;

use support::{PATIENCE, Sandbox, dies, eventually, pty::Terminal, send};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_S: &str = "\x13";
const CTRL_Q: &str = "\x11";
/// A command that runs until somebody writes to `go`. It starts nothing: a shell whose child
/// is stopped before it has executed anything (`vfork`) cannot be stopped itself.
const BUSY: &str = "sh -c 'mkfifo go; echo up > up; exec cat go'";

#[test]
fn ctrl_c_ends_the_command_and_the_script_around_it() {
    let sandbox = Sandbox::embedded();
    let script = "redlatch run x --quiet -- sh -c 'echo $$ > pid; exec cat'; echo not reached";
    let mut terminal = Terminal::script(&sandbox, script);
    // Not before `cat` answers: a shell that is about to execute it may miss it.
    terminal.press("up\n");
    terminal.shows("up\r\nup");

    terminal.press(CTRL_C);

    terminal.end();
    dies(sandbox.read_pid("pid"));
    assert!(sandbox.is_free("x"));
    terminal.press("");
    assert!(!terminal.has_shown("not reached"));
}

#[test]
fn a_command_that_catches_ctrl_c_goes_on() {
    let sandbox = Sandbox::embedded();
    let command = "trap 'echo caught; exit 7' INT; echo up; while :; do sleep 0.01; done";
    let script = format!("redlatch run x -- sh -c \"{command}\"; echo status $?");
    let mut terminal = Terminal::script(&sandbox, &script);
    terminal.shows("up");

    terminal.press(CTRL_C);

    terminal.shows("caught");
    terminal.shows("status 7");
}

#[test]
fn the_command_reads_from_the_terminal() {
    let sandbox = Sandbox::embedded();
    let script = "redlatch run x -- sh -c 'echo name?; read name; echo hello $name'; read back; echo got $back";
    let mut terminal = Terminal::script(&sandbox, script);
    terminal.shows("name?");

    terminal.press("ada\n");
    terminal.shows("hello ada");

    // The terminal is ours again.
    terminal.press("it\n");
    terminal.shows("got it");
    assert_eq!(terminal.end(), Some(0));
}

/// Nothing was stopped in this shell.
#[track_caller]
fn ends_without_a_stop(mut terminal: Terminal) {
    terminal.press("exit\n");
    terminal.end();
    assert!(!terminal.has_ever_shown("Stopped"));
}

/// Somebody types a name for a command that asks for it, followed by this.
#[track_caller]
fn reads_a_name(rest: &str) {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    let command = "sh -c 'echo na\"\"me; read name; echo hello $name'";
    terminal.press(&format!("redlatch run x -- {command}{rest}\n"));
    terminal.shows("name\r\n");

    terminal.press("ada\n");
    terminal.shows("hello ada");

    ends_without_a_stop(terminal);
}

#[test]
fn the_command_is_in_the_foreground_from_the_start() {
    reads_a_name("");
}

#[test]
fn ctrl_c_ends_the_waiting() {
    let sandbox = Sandbox::embedded();
    let holder = sandbox.hold("x --owner ada");
    let script = "redlatch run x --wait 1m -- true; echo not reached";
    let mut terminal = Terminal::script(&sandbox, script);
    terminal.shows("x is held by ada; waited");

    terminal.press(CTRL_C);

    terminal.end();
    assert!(!terminal.has_shown("not reached"));
    holder.signal("TERM");
    holder.end().exits_with(143);
    assert!(sandbox.is_free("x"));
}

#[test]
fn ctrl_z_stops_the_command_and_fg_goes_on_with_it() {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    let command = "echo $$ > pid; echo up; read line; echo line $line";
    terminal.press(&format!("redlatch run x --ttl 1s -- sh -c '{command}'\n"));
    terminal.shows("up\r\n");

    terminal.press(CTRL_Z);
    terminal.shows("Stopped");
    let pid = sandbox.read_pid("pid");
    eventually(PATIENCE, || is_stopped(pid));
    // The lock outlives its TTL, because it is renewed all the time.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert!(!sandbox.is_free("x"));
    terminal.press("fg\n");
    eventually(PATIENCE, || !is_stopped(pid));
    terminal.press("again\n");

    terminal.shows("line again");
    terminal.press("echo status $?\n");
    terminal.shows("status 0");
    assert!(sandbox.is_free("x"));
}

#[test]
fn ctrl_z_while_waiting_waits_no_longer_until_fg() {
    let sandbox = Sandbox::embedded();
    let holder = sandbox.hold("x --owner ada");
    let mut terminal = Terminal::shell(&sandbox);
    terminal.press("redlatch run x --wait 1m -- expr 40 + 2\n");
    terminal.shows("x is held by ada");

    terminal.press(CTRL_Z);
    terminal.shows("Stopped");
    holder.signal("TERM");
    holder.end().exits_with(143);
    std::thread::sleep(std::time::Duration::from_millis(1200));
    assert!(sandbox.is_free("x"), "nobody is there to use it");

    terminal.press("fg\n");
    terminal.shows("42\r\n");
}

#[test]
fn time_in_which_we_were_stopped_counts_as_waited() {
    let sandbox = Sandbox::embedded();
    let _holder = sandbox.hold("x --owner ada");
    let mut terminal = Terminal::shell(&sandbox);
    terminal.press("redlatch run x --wait 5m -- true\n");
    terminal.shows("x is held by ada; waited ");

    terminal.press(CTRL_Z);
    terminal.shows("Stopped");
    std::thread::sleep(std::time::Duration::from_secs(3));
    terminal.press("fg\n");
    terminal.shows("x is held by ada; waited ");

    let waited = terminal.shown_before(" so far, gives up in 4m ");
    let seconds = waited.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok());
    // On a busy machine it may even be minutes.
    assert!(!waited.ends_with("ms") && seconds.is_none_or(|seconds| seconds >= 3.0), "{waited}");
}

#[test]
fn a_command_in_the_background_may_not_take_the_terminal() {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    terminal.press("redlatch run x -- sh -c 'echo $$ > pid; read line; echo line $line' &\n");
    let pid = sandbox.read_pid("pid");
    // All of it, or the shell would not know yet that there is something to continue.
    let front = parent(parent(pid));
    eventually(PATIENCE, || is_stopped(pid) && is_stopped(front));

    // The shell still reads what is typed.
    terminal.press("echo sh''ell\n");
    terminal.shows("shell");
    terminal.press("fg\n");
    eventually(PATIENCE, || !is_stopped(pid));
    terminal.press("typed\n");

    terminal.shows("line typed");
}

#[test]
fn a_terminal_that_is_held_with_ctrl_s_holds_up_no_lock() {
    let sandbox = Sandbox::embedded();
    let command =
        "echo up > up; until [ -e held ]; do sleep 0.01; done; sleep 8; echo end > through";
    let script = format!("redlatch run x --json --ttl 5s -- sh -c '{command}'; echo status $?");
    let mut terminal = Terminal::script(&sandbox, &script);
    sandbox.read("up");

    terminal.press(CTRL_S);
    std::fs::write(sandbox.path("held"), "").unwrap();

    sandbox.read("through");
    terminal.press(CTRL_Q);
    terminal.shows("status 0");
}

#[test]
fn the_terminal_stays_with_the_rest_of_a_pipeline() {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    let pager = "sh -c 'cat > /dev/null & read key < /dev/tty; echo key $key'";
    terminal.press(&format!("{{ redlatch run x -- {BUSY}; }} 3>&1 | {pager}\n"));
    sandbox.read("up");

    terminal.press("one\n");
    terminal.shows("key one");
    std::fs::write(sandbox.path("go"), "").unwrap();

    ends_without_a_stop(terminal);
}

#[test]
fn a_group_in_a_pipeline_leaves_the_terminal_alone_too() {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    // Only its neighbour tells: stdin is the terminal, and stdout is a file.
    let pager = "sh -c 'echo > pager; read key < /dev/tty; echo key $key'";
    let run = format!("(echo $BASHPID > front; exec redlatch run x -- {BUSY} > out)");
    terminal.press(&format!("{{ until [ -e pager ]; do sleep 0.01; done; {run}; }} | {pager}\n"));
    sandbox.read("up");

    // Also after it was stopped. The shell waits for its own children only.
    terminal.press(CTRL_Z);
    terminal.shows("Stopped");
    let front = sandbox.read("front").trim().parse().unwrap();
    eventually(PATIENCE, || is_stopped(front));
    terminal.press("fg\n");
    terminal.shows(pager);
    terminal.press("one\n");
    terminal.shows("key one");
    std::fs::write(sandbox.path("go"), "").unwrap();
}

#[test]
fn the_terminal_stays_with_a_script_that_goes_on() {
    let sandbox = Sandbox::embedded();
    let script = format!(
        "redlatch run x -- {BUSY} & until [ -e up ]; do sleep 0.01; done; \
                          read line; echo line $line; echo > go; wait"
    );
    let mut terminal = Terminal::script(&sandbox, &script);
    sandbox.read("up");

    terminal.press("typed\n");

    terminal.shows("line typed");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_command_in_a_pipeline_gets_the_terminal_when_it_asks_for_it() {
    reads_a_name(" | cat");
}

#[test]
fn ctrl_c_ends_a_command_without_the_terminal_and_the_script_around_it() {
    let sandbox = Sandbox::embedded();
    let script = format!("redlatch run x -- {BUSY} < /dev/null; echo not reached");
    let mut terminal = Terminal::script(&sandbox, &script);
    sandbox.read("up");

    terminal.press(CTRL_C);

    terminal.end();
    assert!(sandbox.is_free("x"));
    assert!(!terminal.has_shown("not reached"));
}

#[test]
fn a_background_job_whose_holder_is_killed_leaves_the_terminal_alone() {
    let sandbox = Sandbox::embedded();
    let mut terminal = Terminal::shell(&sandbox);
    terminal.press("redlatch run x -- sh -c 'echo $PPID > holder; exec sleep 100' &\n");

    send("KILL", sandbox.read_pid("holder"));

    terminal.shows("the process that held the lock was killed");
    terminal.press("wait; echo sh''ell\n");
    terminal.shows("shell\r\n");
}

#[test]
fn the_terminal_comes_back_from_a_command_whose_holder_is_killed() {
    let sandbox = Sandbox::embedded();
    let command = "sh -c 'echo $PPID > holder; exec sleep 100'";
    let script = format!("redlatch run x -- {command}; read line; echo line $line");
    let mut terminal = Terminal::script(&sandbox, &script);

    send("KILL", sandbox.read_pid("holder"));

    terminal.shows("the process that held the lock was killed");
    terminal.press("typed\n");
    terminal.shows("line typed");
}

#[test]
fn force_asks_and_takes_no_for_an_answer() {
    let sandbox = Sandbox::embedded();
    let taken = sandbox.redlatch(["acquire", "x", "--owner", "ada"]).output().unwrap();
    assert!(taken.status.success());

    let ask = ["redlatch", "release", "--force", "x"];
    let mut terminal = Terminal::with(&sandbox, &ask);
    terminal.shows("x is held by ada. Take it away? Its holder may still be at work. [y/N]");
    terminal.press("n\n");
    assert_eq!(terminal.end(), Some(125));
    assert!(!sandbox.is_free("x"));

    let mut terminal = Terminal::with(&sandbox, &ask);
    terminal.shows("[y/N]");
    terminal.press("y\n");
    terminal.shows("x was held by ada; taken away on the only node");
    assert_eq!(terminal.end(), Some(0));
    assert!(sandbox.is_free("x"));
}

#[test]
fn status_is_drawn_again_and_again() {
    let sandbox = Sandbox::embedded();
    let mut terminal =
        Terminal::with(&sandbox, &["redlatch", "status", "x", "--watch", "--every", "50ms"]);
    terminal.shows("free");

    let taken = sandbox.redlatch(["acquire", "x", "--owner", "ada"]).output().unwrap();

    assert!(taken.status.success());
    terminal.shows("held by ada");
    terminal.press(CTRL_C);
    terminal.end();
}

/// The state of a process, and the process that started it.
fn state_and_parent(pid: u32) -> (char, u32) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("X 0", |(_, fields)| fields);
    let mut fields = fields.split(' ');
    let state = fields.next().and_then(|state| state.chars().next());
    let parent = fields.next().and_then(|parent| parent.parse().ok());
    (state.unwrap_or('X'), parent.unwrap_or(0))
}

fn is_stopped(pid: u32) -> bool {
    state_and_parent(pid).0 == 'T'
}

fn parent(pid: u32) -> u32 {
    state_and_parent(pid).1
}

#[test]
fn a_line_of_progress_never_wraps() {
    let sandbox = Sandbox::embedded();
    let owner = "somebody-with-a-long-name-that-does-not-fit-into-forty-columns";
    let take = format!("redlatch acquire x --ttl 5s --owner {owner} > /dev/null");
    let script = format!("stty cols 40; {take}; redlatch run x --wait 10s -- echo done");
    let mut terminal = Terminal::with(&sandbox, &["sh", "-c", &script]);

    terminal.shows("\r\u{1b}[Kx is held by somebody-with-a-long-name…");

    terminal.shows("done");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn letters_that_take_two_columns_do_not_wrap_a_line_of_progress_either() {
    let sandbox = Sandbox::embedded();
    let name = "日本語の夜間バックアップ";
    let take = format!("redlatch acquire {name} --ttl 5s --owner ada > /dev/null");
    let script = format!("stty cols 40; {take}; redlatch run {name} --wait 10s -- echo done");
    let mut terminal = Terminal::with(&sandbox, &["sh", "-c", &script]);

    terminal.shows(&format!("\r\u{1b}[K{name} is held by ad…"));

    terminal.shows("done");
    assert_eq!(terminal.end(), Some(0));
}
