//! Starts, pauses, kills, replaces and ends the workers of a run.

use crate::orders::Orders;
use anyhow::Context as _;
use redlatch_testbed::{FakeClock, Process, wait_until};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

pub(crate) struct Crew {
    dir: PathBuf,
    workers: Vec<Worker>,
    hired: usize,
    /// Their wall clock, from which they propose fencing tokens.
    clock: Option<FakeClock>,
}

struct Worker {
    orders: Orders,
    process: Process,
}

impl Crew {
    /// Starts a worker for each of the orders, and gives it a name.
    pub(crate) fn hire(
        dir: &Path,
        orders: impl IntoIterator<Item = Orders>,
        clock: Option<FakeClock>,
    ) -> io::Result<Self> {
        let mut crew = Self { dir: dir.to_owned(), workers: Vec::new(), hired: 0, clock };
        for orders in orders {
            let worker = crew.start(orders)?;
            crew.workers.push(worker);
        }
        Ok(crew)
    }

    fn start(&mut self, mut orders: Orders) -> io::Result<Worker> {
        self.hired += 1;
        orders.name = format!("w{}", self.hired);
        let errors = self.dir.join(format!("{}.err", orders.name));
        let errors = fs::File::options().create(true).append(true).open(errors)?;
        let json = serde_json::to_string(&orders).expect("orders are plain");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["worker", &json]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        if let Some(clock) = &self.clock {
            clock.preload(&mut command);
        }
        Ok(Worker { orders, process: Process::spawn(command)? })
    }

    pub(crate) fn len(&self) -> usize {
        self.workers.len()
    }

    /// The worker with that name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.workers.iter().position(|worker| worker.orders.name == name)
    }

    /// Freezes a worker at whatever point it has reached.
    pub(crate) fn pause(&self, which: usize) -> io::Result<()> {
        self.workers[which].process.freeze()
    }

    pub(crate) fn wake(&self, which: usize) -> io::Result<()> {
        self.workers[which].process.thaw()
    }

    /// Kills a worker (`SIGKILL`) and starts another one in its place.
    pub(crate) fn replace(&mut self, which: usize) -> io::Result<()> {
        self.workers[which] = self.start(self.workers[which].orders.clone())?;
        Ok(())
    }

    /// Whether all have ended by themselves.
    pub(crate) fn is_done(&mut self) -> bool {
        self.workers.iter_mut().all(|worker| worker.process.has_ended())
    }

    /// Tells all workers to stop and waits for them. A worker that hangs, or that
    /// ended badly, is an error.
    pub(crate) fn dismiss(&mut self, limit: Duration) -> anyhow::Result<()> {
        fs::write(self.dir.join(Orders::STOP), "").context("tell the workers to stop")?;
        for worker in &mut self.workers {
            let ended = wait_until(limit, || worker.process.has_ended());
            anyhow::ensure!(ended, "{} did not stop within {limit:?}", worker.orders.name);
        }
        complaints(&self.dir)
    }
}

/// Fails if a worker wrote to stderr: it panicked, or ended with an error.
fn complaints(dir: &Path) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "err") {
            let text = fs::read_to_string(&path)?;
            anyhow::ensure!(text.is_empty(), "{} said: {text}", path.display());
        }
    }
    Ok(())
}
