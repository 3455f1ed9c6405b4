//! What `redlatch run` adds to a command, beside `flock`.
//!
//! In:  nothing; servers are started for the run.
//! Out: the time of `true` alone, and what each way of locking adds to it.
//!
//! The machine may be shared: all of them take turns, in every round, and only
//! what was measured in the same round is compared. Exit status 1 if the median
//! of what `redlatch run` adds is not below 30 ms.
//!
//! `cargo bench -p redlatch-cli --bench added`

use redlatch_testbed::{Scratch, Servers};
use std::{
    env,
    error::Error,
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

const ROUNDS: usize = 100;
const BOUND: Duration = Duration::from_millis(30);

type Failure = Box<dyn Error>;

/// One way to run `true`.
struct Way {
    name: &'static str,
    command: Vec<String>,
    nodes: Option<String>,
    /// Over the bare command, round by round.
    added: Vec<f64>,
}

impl Way {
    fn new(name: &'static str, command: &[&str]) -> Self {
        let command = command.iter().map(ToString::to_string).collect();
        Way { name, command, nodes: None, added: Vec::new() }
    }

    fn on(mut self, servers: &Servers) -> Self {
        self.nodes = Some(servers.urls().join(","));
        self
    }

    fn command(&self, words: &[String], dir: &Path) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(dir).env("XDG_STATE_HOME", dir);
        command.env("HOME", dir).env("XDG_CONFIG_HOME", dir).env_remove("REDLATCH_NODES");
        command.envs(self.nodes.as_ref().map(|nodes| ("REDLATCH_NODES", nodes)));
        command
    }

    /// Vouches for servers that were just started, where there is a restart guard.
    fn admit(&self, dir: &Path) -> Result<(), Failure> {
        let words = [&self.command[0], "admit", "--all", "--quiet"].map(str::to_string);
        let status = self.command(&words, dir).stdout(Stdio::null()).status()?;
        if status.success() { Ok(()) } else { Err(format!("admit: {status}").into()) }
    }

    fn time(&self, dir: &Path) -> Result<Duration, Failure> {
        let mut command = self.command(&self.command, dir);
        let began = Instant::now();
        let status = command.status()?;
        let time = began.elapsed();
        if status.success() { Ok(time) } else { Err(format!("{}: {status}", self.name).into()) }
    }

    /// Of what it adds, in ms: the tenth, the fiftieth and the ninetieth of a hundred.
    fn spread(&mut self) -> [f64; 3] {
        self.added.sort_by(f64::total_cmp);
        [10, 50, 90].map(|percent| self.added[self.added.len() * percent / 100])
    }
}

fn main() -> Result<ExitCode, Failure> {
    // `cargo test` runs benches, too, to see whether they still work.
    let rounds = if env::args().any(|arg| arg == "--bench") { ROUNDS } else { 3 };
    compare(rounds, Scratch::new()?.path())
}

fn compare(rounds: usize, dir: &Path) -> Result<ExitCode, Failure> {
    let redlatch = env!("CARGO_BIN_EXE_redlatch");
    let run = [redlatch, "run", "bench", "--", "true"];
    let (one, five) = (Servers::start(1)?, Servers::start(5)?);
    let bare = Way::new("true", &["true"]);
    let mut ways = [
        Way::new("flock", &["flock", "lock", "true"]),
        Way::new("redlatch run, embedded node", &run),
        Way::new("redlatch run, 1 server", &run).on(&one),
        Way::new("redlatch run, 5 servers", &run).on(&five),
    ];
    ways[3].admit(dir)?;
    let mut alone = Vec::new();
    for round in 0..=rounds {
        let without = bare.time(dir)?;
        for way in &mut ways {
            let time = way.time(dir)?;
            // The first round warms up.
            if round > 0 {
                way.added.push((time.as_secs_f64() - without.as_secs_f64()) * 1e3);
            }
        }
        alone.push(without.as_secs_f64() * 1e3);
    }
    alone.sort_by(f64::total_cmp);
    println!("`true` alone takes {:.1} ms; {rounds} rounds", alone[alone.len() / 2]);
    println!("{:28} {:>8} {:>8} {:>8}", "added, in ms", "p10", "p50", "p90");
    let mut is_met = true;
    for way in &mut ways {
        let [p10, p50, p90] = way.spread();
        println!("{:28} {p10:8.1} {p50:8.1} {p90:8.1}", way.name);
        is_met &= p50 < BOUND.as_secs_f64() * 1e3;
    }
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
