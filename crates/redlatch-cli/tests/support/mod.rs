//! Shared by the tests of the command: a sandbox for each test, the command in it,
//! and helpers that inspect processes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses another part of it")]
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

pub mod browser;
pub mod http;
pub mod pty;
pub mod scraping;
pub mod tmux;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use redlatch_testbed::{Scratch, Servers};
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::{Duration, Instant},
};

pub use redlatch_testbed::{eventually, wait_until};

/// Far longer than anything takes that a test waits for, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A directory, with an embedded node or servers, that vanishes with the test.
#[derive(Debug)]
pub struct Sandbox {
    dir: Scratch,
    nodes: Option<String>,
    guard: Vec<(&'static str, &'static str)>,
}

impl Sandbox {
    /// With an embedded node of its own.
    pub fn embedded() -> Self {
        Sandbox {
            dir: Scratch::new().unwrap(),
            nodes: None,
            guard: vec![("REDLATCH_RESTART_GUARD", "off")],
        }
    }

    /// With new servers as nodes, and without the restart guard.
    pub fn with_servers(count: usize) -> (Servers, Self) {
        let servers = Servers::start(count).unwrap();
        let sandbox = Sandbox::on(&servers);
        (servers, sandbox)
    }

    /// With new servers as nodes, and the restart guard with a window of 3 s.
    pub fn with_guarded_servers(count: usize) -> (Servers, Self) {
        let servers = Servers::start(count).unwrap();
        let sandbox = Sandbox::guarded(&servers);
        (servers, sandbox)
    }

    /// With these servers as nodes.
    pub fn on(servers: &Servers) -> Self {
        let mut sandbox = Sandbox::embedded();
        sandbox.nodes = Some(servers.urls().join(","));
        sandbox
    }

    /// With these servers as nodes, and the restart guard with a window of 3 s.
    /// Elsewhere it is off: it would quarantine every new server for a minute.
    pub fn guarded(servers: &Servers) -> Self {
        Sandbox::first(servers, servers.len())
    }

    /// The same, with the first nodes only.
    pub fn first(servers: &Servers, count: usize) -> Self {
        let mut sandbox = Sandbox::embedded();
        sandbox.nodes = Some(servers.urls()[..count].join(","));
        sandbox.guard = vec![("REDLATCH_MAX_TTL", "2s"), ("REDLATCH_SKEW", "1s")];
        sandbox
    }

    /// With these times for the restart guard.
    pub fn with_times(mut self, max_ttl: &'static str, skew: &'static str) -> Self {
        self.guard = vec![("REDLATCH_MAX_TTL", max_ttl), ("REDLATCH_SKEW", skew)];
        self
    }

    /// With the default window of the restart guard: a minute.
    pub fn guarded_long(servers: &Servers) -> Self {
        let mut sandbox = Sandbox::on(servers);
        sandbox.guard.clear();
        sandbox
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.file(name)
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The content of a file, once it is there.
    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        let path = self.path(name);
        let mut text = String::new();
        let there = wait_until(PATIENCE, || {
            text = fs::read_to_string(&path).unwrap_or_default();
            text.ends_with('\n')
        });
        assert!(there, "nobody wrote {name}");
        text.trim().into()
    }

    /// A process id that a command wrote into a file.
    #[track_caller]
    pub fn read_pid(&self, name: &str) -> u32 {
        self.read(name).parse().unwrap()
    }

    /// The command, ready to be run here.
    pub fn redlatch<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(binary());
        command.args(args);
        command
    }

    /// Starts `redlatch run` with these options and a script for the shell.
    pub fn run(&self, options: &str, script: &str) -> Running {
        let options: Vec<_> = options.split(' ').collect();
        start(self.redlatch([&["run"], &options[..], &["--", "sh", "-c", script]].concat()))
    }

    /// Starts `redlatch run` with these options, which then holds the lock.
    pub fn hold(&self, options: &str) -> Running {
        let holder = self.run(options, "echo up > up; sleep 100");
        self.read("up");
        holder
    }

    /// A script for the shell, with the command on its path.
    pub fn shell(&self, script: &str) -> Command {
        let mut command = self.command("sh");
        command.arg("-c").arg(script);
        command
    }

    /// A program, ready to be run here. Signals work, even if the tests were started in the
    /// background of a script, where Ctrl-C is ignored, or by `nohup`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,PIPE,QUIT").arg(program);
        let bin = binary().parent().unwrap();
        let (bin, path) = (bin.display(), std::env::var("PATH").unwrap());
        let path = format!("{bin}:{bin}/examples:{path}");
        command.current_dir(self.dir()).env("PATH", path).env("XDG_STATE_HOME", self.dir());
        command.env("XDG_CONFIG_HOME", self.path("config")).env("HOME", self.dir());
        let ours = |name: &OsStr| name.to_string_lossy().starts_with("REDLATCH_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        // The directory that the machine's users share is not for tests.
        let shared = self.path("shared");
        command.env("REDLATCH_SHARED", if shared.exists() { shared } else { "off".into() });
        command.envs(self.guard.iter().copied());
        command.envs(self.nodes.as_ref().map(|nodes| ("REDLATCH_NODES", nodes)));
        command.stdin(Stdio::null());
        command
    }

    /// Whether nobody holds the lock.
    pub fn is_free(&self, name: &str) -> bool {
        self.redlatch(["status", name]).output().unwrap().status.success()
    }
}

pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_redlatch"))
}

/// Runs the command with these arguments.
#[track_caller]
pub fn redlatch(sandbox: &Sandbox, args: &[impl AsRef<OsStr>]) -> Ended {
    start(sandbox.redlatch(args)).end()
}

/// Runs a script, with the command on its path.
#[track_caller]
pub fn shell(sandbox: &Sandbox, script: &str) -> Ended {
    start(sandbox.shell(script)).end()
}

/// Starts it, with its output caught.
pub fn start(mut command: Command) -> Running {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    Running::of(child)
}

/// A process that is killed when the test ends.
pub struct Running {
    child: Option<Child>,
}

impl Running {
    pub fn of(child: Child) -> Self {
        Running { child: Some(child) }
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn signal(&self, signal: &str) {
        send(signal, self.pid());
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let began = Instant::now();
        let mut child = self.child.take().unwrap();
        let ended = wait_until(PATIENCE, || child.try_wait().unwrap().is_some());
        if !ended {
            let _ = child.kill();
            panic!("it is still running after {:?}", began.elapsed());
        }
        // Output that grandchildren keep open would be waited for: only ask for it now.
        Ended::of(&child.wait_with_output().unwrap())
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.as_mut().unwrap().try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(output: &Output) -> Self {
        Ended {
            status: output.status,
            stdout: String::from_utf8_lossy(&output.stdout).into(),
            stderr: String::from_utf8_lossy(&output.stderr).into(),
        }
    }

    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self
    }
}

#[track_caller]
pub fn says(text: &str, words: &str) {
    assert!(text.contains(words), "{words:?} is not in {text:?}");
}

#[track_caller]
pub fn says_all(text: &str, words: &[&str]) {
    for words in words {
        says(text, words);
    }
}

#[track_caller]
pub fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
}

/// What is said in JSON, one object per line.
#[track_caller]
pub fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(json_of).collect()
}

/// Runs it with this input.
pub fn with_input(mut command: Command, input: &str) -> Ended {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Ended::of(&child.wait_with_output().unwrap())
}

pub fn send(signal: &str, pid: u32) {
    let signal: Signal = format!("SIG{signal}").parse().unwrap();
    let process = Pid::from_raw(pid.try_into().unwrap());
    kill(process, signal).unwrap_or_else(|error| panic!("{signal} to {pid}: {error}"));
}

/// Copies the command to where other users can run it. A process of its own does so: one
/// that another test starts meanwhile would inherit the file, open for writing, from us, and
/// nobody can run such a file.
pub fn copy_command(sandbox: &Sandbox) {
    let copied = Command::new("cp").arg(binary()).arg(sandbox.path("command")).status();
    assert!(copied.unwrap().success());
}

/// Compiles one of the programs in `tests/helpers`, with these options.
pub fn compile(sandbox: &Sandbox, name: &str, options: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/helpers/{name}.c"));
    let program = sandbox.path(name);
    let mut cc = Command::new("cc");
    let cc = cc.args(options.split(' ')).arg(source).arg("-o").arg(&program).status();
    assert!(cc.expect("Rust needs a linker: cc").success());
    program
}

/// Kills a process with everything that runs below it, at once: none of them can say
/// anything any more.
#[track_caller]
pub fn kill_all(running: &Running) {
    let mut all = Vec::new();
    // One that was not stopped yet may have started another one meanwhile.
    loop {
        let found = with_descendants(running.pid());
        if found == all {
            break;
        }
        for pid in &found {
            send("STOP", *pid);
        }
        all = found;
    }
    for pid in &all {
        send("KILL", *pid);
    }
    // Nobody has reaped the last one yet.
    all[..all.len() - 1].iter().copied().for_each(dies);
}

/// Everything that runs below a process, and the process itself.
pub fn with_descendants(pid: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    let below = children.split_whitespace().flat_map(|pid| with_descendants(pid.parse().unwrap()));
    below.chain([pid]).collect()
}

/// Whether any thread of the process runs; a zombie's does not.
pub fn is_alive(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.into_iter().any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    })
}

#[track_caller]
pub fn dies(pid: u32) {
    eventually(PATIENCE, || !is_alive(pid));
}

/// The child of a process: the holder, of the front's.
pub fn child_of(pid: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().next().unwrap().parse().unwrap()
}
