//! Why a lock needs a fence: a process that was paused past its lease wakes up
//! and writes. With real servers, a real second process and a real `SIGSTOP`.
//!
//! `cargo run --release --example paused_client`
//!
//! Five Redis servers are started for it and are gone afterwards. Without Redis
//! on this machine the lock is on the embedded node instead.

use redlatch::{Locks, RestartGuard, blocking, fence};
use redlatch_testbed::{Scratch, Servers};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use std::{
    error::Error,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

const TTL: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(20);
const FENCED: &str = "fenced.txt";
const UNFENCED: &str = "unfenced.txt";

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    match args.next() {
        None => bob(),
        // This program again, as the process that is paused.
        Some(dir) => alice(Path::new(&dir), &args.collect::<Vec<_>>()),
    }
}

/// Takes over from Alice while she is paused. Also the one who pauses her.
fn bob() -> Result<(), Box<dyn Error>> {
    let dir = Scratch::new()?;
    // Held on to: they end with this.
    let (nodes, _servers) = match Servers::start(5) {
        Ok(servers) => {
            println!("The lock `report` is on five Redis servers, started for this.");
            (servers.urls(), Some(servers))
        }
        Err(error) => {
            println!("The lock `report` is on an embedded node, because: {error}");
            (vec![format!("file:{}", dir.file("locks.db").display())], None)
        }
    };
    println!("Who holds it writes two files: {FENCED}, which checks the fencing token,");
    println!("and {UNFENCED}, which does not.\n");

    let mut alice = Alice::start(dir.path(), &nodes)?;
    println!("Alice, process {}, takes the lock for {TTL:?}, to be renewed.", alice.process.id());
    println!("  {}", alice.hear()?);
    println!("SIGSTOP: she stands still, and so does the renewal of her lease.\n");
    alice.stop()?;

    println!("Bob waits for the lock.");
    let begin = Instant::now();
    let locks = connect(&nodes)?;
    let guard = locks.lock("report").wait(LIMIT).acquire()?;
    let token = guard.fencing_token().ok_or("fencing is off")?;
    fence::File::new(dir.file(FENCED)).write(token, "by Bob")?;
    fs::write(dir.file(UNFENCED), "by Bob")?;
    println!("  After {:.1?} her lease is over and he has it, with", begin.elapsed());
    println!("  fencing token {token}. He writes both files.\n");

    println!("SIGCONT: Alice wakes up in the middle of her work and writes both files.");
    alice.go_on()?;
    for _ in 0..3 {
        println!("  {}", alice.hear()?);
    }
    alice.end()?;

    let [fenced, unfenced] = [FENCED, UNFENCED].map(|name| fs::read_to_string(dir.file(name)));
    let (fenced, unfenced) = (fenced?, unfenced?);
    println!("\nWhat the files say in the end, while Bob holds the lock ({}):", guard.is_held());
    println!("  {FENCED:<14}{fenced:<18}the late write was refused: its number is smaller");
    println!("  {UNFENCED:<14}{unfenced:<18}what Bob wrote is lost, and nobody noticed");
    assert_eq!((&*fenced, &*unfenced), ("by Bob", "by Alice, late"));
    assert!(guard.is_held());
    guard.release()?;
    Ok(())
}

/// The process that is paused. What it prints Bob prints on.
fn alice(dir: &Path, nodes: &[String]) -> Result<(), Box<dyn Error>> {
    // Stopped, it would not see that the other one is gone.
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let locks = connect(nodes)?;
    let guard = locks.lock("report").ttl(TTL).node_timeout(TTL / 4).acquire()?;
    let token = guard.fencing_token().ok_or("fencing is off")?;
    let fenced = fence::File::new(dir.join(FENCED));
    fenced.write(token, "by Alice")?;
    fs::write(dir.join(UNFENCED), "by Alice")?;
    println!("She has fencing token {token}, and writes both files.");

    // Here she is stopped, and here she wakes up.
    io::stdin().read_line(&mut String::new())?;

    println!("Had she asked whether she holds the lock: {}. She did not.", guard.is_held());
    match fenced.write(token, "by Alice, late") {
        Ok(()) => println!("{FENCED:<14}written"),
        Err(refused) => println!("{FENCED:<14}{refused}"),
    }
    fs::write(dir.join(UNFENCED), "by Alice, late")?;
    println!("{UNFENCED:<14}written");
    Ok(())
}

fn connect(nodes: &[String]) -> Result<blocking::Locks, redlatch::ConnectError> {
    // The servers are a moment old: with the guard they would not vote yet.
    Locks::builder().nodes(nodes).restart_guard(RestartGuard::Off).connect_blocking()
}

/// Alice, as Bob sees her. She does not outlive this.
struct Alice {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Alice {
    fn start(dir: &Path, nodes: &[String]) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(dir).args(nodes).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let output = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Alice { process, output: BufReader::new(output) })
    }

    fn hear(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(io::Error::other("Alice has ended")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }

    /// Returns when she stands still.
    fn stop(&self) -> io::Result<()> {
        let pid = Pid::from_child(&self.process);
        rustix::process::kill_process(pid, Signal::STOP)?;
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(pid), stopped)?;
        Ok(())
    }

    fn go_on(&mut self) -> io::Result<()> {
        let input = self.process.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        writeln!(input)?;
        Ok(rustix::process::kill_process(Pid::from_child(&self.process), Signal::CONT)?)
    }

    fn end(mut self) -> io::Result<()> {
        let status = self.process.wait()?;
        if status.success() { Ok(()) } else { Err(io::Error::other(status.to_string())) }
    }
}

impl Drop for Alice {
    fn drop(&mut self) {
        // Both fail only if she has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
