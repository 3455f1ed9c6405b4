//! The processes of one contender, and one slice of work for all of them.
//!
//! They end with this process, however it ends.

use crate::{
    entrant::Entrant,
    history::History,
    wire::{Order, READY, Record, nanoseconds, now_ns},
};
use anyhow::{Context as _, bail, ensure};
use redlatch_testbed::{Process, Scratch};
use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, PipeWriter, Write as _, pipe},
    path::PathBuf,
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// How long a process may take to start and connect, and to answer after a slice.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is the same for all callers of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slice {
    /// Callers in each process.
    pub(crate) tasks: usize,
    pub(crate) hold: Duration,
    pub(crate) wait: Duration,
    pub(crate) span: Duration,
    pub(crate) style: Style,
    /// If not zero, callers ask all at once, this often.
    pub(crate) every: Duration,
    /// Begins as soon as a process has its order.
    pub(crate) at_once: bool,
}

/// What the callers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// All want the one lock, all the time.
    Shared,
    /// The same in strict turns: each asks only when it is the next.
    Strict,
    /// Some lose patience or change their minds.
    Crowd,
    /// Each has a lock of its own.
    Own,
}

impl Slice {
    pub(crate) fn new(tasks: usize, hold: Duration, span: Duration) -> Self {
        let (wait, every) = (Duration::from_secs(30), Duration::ZERO);
        Self { tasks, hold, wait, span, style: Style::Shared, every, at_once: false }
    }

    /// Callers that take and release a lock of their own.
    pub(crate) fn own(tasks: usize, span: Duration) -> Self {
        Self { style: Style::Own, ..Self::new(tasks, Duration::ZERO, span) }
    }

    /// How long until everybody has its order, and etcd's callers their leases.
    fn lead(&self, callers: usize) -> Duration {
        Duration::from_millis(match self.style {
            _ if self.at_once => 0,
            Style::Own => 10,
            _ => 20 + callers as u64,
        })
    }
}

pub(crate) struct Team {
    pub(crate) entrant: Entrant,
    workers: Vec<Worker>,
    scratch: Scratch,
}

struct Worker {
    // Dropped first: the process sees the end of its input, and is killed then.
    input: PipeWriter,
    lines: mpsc::Receiver<String>,
    _process: Process,
}

impl Team {
    /// Starts the processes and waits until all of them are connected.
    pub(crate) fn start(
        entrant: &Entrant,
        processes: usize,
        urls: &[String],
    ) -> anyhow::Result<Self> {
        let scratch = Scratch::in_memory()?;
        let workers: anyhow::Result<_> =
            (0..processes).map(|_| Worker::start(entrant, urls, &scratch)).collect();
        let team = Self { entrant: entrant.clone(), workers: workers?, scratch };
        for worker in &team.workers {
            let line = team.line(worker, PATIENCE)?;
            ensure!(line == READY, "{}: {line}", entrant.name);
        }
        Ok(team)
    }

    /// One slice with all processes, on a lock of its own.
    pub(crate) fn run(&mut self, slice: Slice) -> anyhow::Result<History> {
        self.begin(slice)?.finish()
    }

    /// Hands out the orders; `finish` collects the records.
    pub(crate) fn begin(&mut self, slice: Slice) -> anyhow::Result<Running<'_>> {
        self.begin_on(&next_key(), slice)
    }

    pub(crate) fn begin_on(&mut self, key: &str, slice: Slice) -> anyhow::Result<Running<'_>> {
        let callers = self.workers.len() * slice.tasks;
        let (lead, own) = (slice.lead(callers), slice.style == Style::Own);
        let begin = now_ns() + nanoseconds(lead);
        let end = begin + nanoseconds(slice.span);
        let baton = (slice.style == Style::Strict).then(|| self.scratch.file(key));
        for (index, worker) in self.workers.iter_mut().enumerate() {
            let order = Order {
                key: key.to_owned(),
                own,
                every_us: u64::try_from(slice.every.as_micros())?,
                tasks: slice.tasks,
                first: index * slice.tasks,
                callers,
                hold_us: u64::try_from(slice.hold.as_micros())?,
                wait_ms: u64::try_from(slice.wait.as_millis())?,
                begin_ns: begin,
                end_ns: end,
                baton: baton.clone(),
                crowd: slice.style == Style::Crowd,
            };
            let line = serde_json::to_string(&order)? + "\n";
            worker.input.write_all(line.as_bytes()).context(self.entrant.name)?;
        }
        let patience = lead + slice.span + slice.wait + PATIENCE;
        Ok(Running { team: self, begin, end, own, baton, patience })
    }

    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// Kills a process (`SIGKILL`), whatever it is doing.
    pub(crate) fn kill(&mut self, index: usize) {
        drop(self.workers.swap_remove(index));
    }

    fn line(&self, worker: &Worker, patience: Duration) -> anyhow::Result<String> {
        match worker.lines.recv_timeout(patience) {
            Ok(line) => Ok(line),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("{}: no answer within {patience:?}", self.entrant.name)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let words = fs::read_to_string(self.scratch.file("stderr")).unwrap_or_default();
                let last = words.trim_end().lines().last().unwrap_or("without a word");
                bail!("{} ended: {last}", self.entrant.name)
            }
        }
    }
}

/// A slice under way.
pub(crate) struct Running<'a> {
    pub(crate) team: &'a mut Team,
    begin: u64,
    pub(crate) end: u64,
    own: bool,
    baton: Option<PathBuf>,
    patience: Duration,
}

impl Running<'_> {
    pub(crate) fn finish(self) -> anyhow::Result<History> {
        let (begin, end, own) = (self.begin, self.end, self.own);
        let history = History::new(self.records()?, begin, end);
        Ok(if own { history.of_own_locks() } else { history })
    }

    /// The records of the processes that are still there.
    pub(crate) fn records(self) -> anyhow::Result<Vec<Record>> {
        let answer = |worker| {
            let line = self.team.line(worker, self.patience)?;
            serde_json::from_str(&line)
                .with_context(|| format!("{}: {line}", self.team.entrant.name))
        };
        let records = self.team.workers.iter().map(answer).collect();
        if let Some(baton) = &self.baton {
            let _ = fs::remove_file(baton);
        }
        records
    }

    /// How many grants there were, in a slice with strict turns.
    pub(crate) fn grants(&self) -> u64 {
        let size = |baton: &PathBuf| fs::metadata(baton).ok().map(|file| file.len());
        self.baton.as_ref().and_then(size).unwrap_or(0)
    }
}

impl Worker {
    fn start(entrant: &Entrant, urls: &[String], scratch: &Scratch) -> anyhow::Result<Self> {
        let (stdin, input) = pipe()?;
        let (output, stdout) = pipe()?;
        let stderr = File::options().create(true).append(true).open(scratch.file("stderr"))?;
        let mut command = entrant.command(urls)?;
        command.stdin(stdin).stdout(stdout).stderr(stderr);
        let process = Process::spawn(command).with_context(|| format!("start {}", entrant.name))?;
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { input, lines, _process: process })
    }
}

/// A new name for each slice: nothing that is left of one is in the way of another.
/// Eight letters and digits, see `worker/etcd.rs`.
pub(crate) fn next_key() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("lock{:04}", NEXT.fetch_add(1, Ordering::Relaxed))
}
