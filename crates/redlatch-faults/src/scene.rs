//! Where a load runs: servers, the network in front of them, workers, and whatever
//! breaks them.
//!
//! In:  a [`Load`].
//! Out: the history, in which every fault is recorded.

use crate::{
    counter_store::CounterStore,
    crew::Crew,
    dice::{self, Dice},
    disk::Disk,
    history::{self, Counter, HARNESS, Recorder, Track, What},
    orders::{GuardSetting, Orders},
    scenario::Load,
    vouch::{Memory, vouch},
};
use anyhow::Context as _;
use redlatch::OwnerParts;
use redlatch_testbed::{FakeClock, Proxy, Scratch, Server, Servers, faketime_library, wait_until};
use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest time for anything that must happen, such as the first grants, a node
/// that votes again, workers that stop: far more than the busiest machine needs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How long undoing may take beyond the TTL.
const TIDYING: Duration = Duration::from_secs(30);

pub(crate) struct Scene {
    // Dropped in this order: users of the servers before the servers.
    pub(crate) crew: Crew,
    pub(crate) proxies: Vec<Proxy>,
    /// They are in the directories of the servers, so they are dropped first.
    pub(crate) disks: Vec<Disk>,
    pub(crate) servers: Servers,
    counters: Server,
    pub(crate) dice: Dice,
    pub(crate) ttl: Duration,
    pub(crate) window: Duration,
    /// Checks the nodes, if they are guarded.
    memory: Option<Memory>,
    /// The workers' own clock, if they have one.
    pub(crate) clock: Option<FakeClock>,
    resources: usize,
    notes: Recorder,
    faults: u64,
    over: Instant,
    dir: Scratch,
}

impl Scene {
    /// Starts everything; the load is running when this returns.
    pub(crate) fn set(load: &Load, lasts: Duration) -> anyhow::Result<Self> {
        let dir = Scratch::in_memory().context("make a directory")?;
        let servers = Servers::start_each(load.servers())?;
        let counters = Server::start()?;
        let proxies = if load.proxied {
            servers.iter().map(Proxy::to).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        let urls =
            if load.proxied { proxies.iter().map(Proxy::url).collect() } else { servers.urls() };
        let builder = load.habits.builder(&urls);
        let guarded = load.habits.guard != GuardSetting::Off;
        let memory = guarded.then(|| Memory::new(&builder)).transpose()?;
        if guarded {
            vouch(&builder)?;
        }
        let clock = load.workers_clock.then(|| clock(&dir)).transpose()?;
        let orders = Orders {
            name: String::new(),
            dir: dir.path().to_owned(),
            nodes: urls,
            counters: counters.url(),
            resources: 0..0,
            callers: load.callers,
            acquires: load.acquires,
            habits: load.habits,
        };
        let crew = Crew::hire(dir.path(), load.orders(&orders), clock.clone())
            .context("start the workers")?;
        let notes = Recorder::new(dir.path(), HARNESS)?;
        let mut scene = Self {
            crew,
            proxies,
            disks: Vec::new(),
            servers,
            counters,
            dice: dice::roll(),
            ttl: load.habits.ttl,
            window: load.habits.window(),
            memory,
            clock,
            resources: load.counters(),
            notes,
            faults: 0,
            over: Instant::now() + lasts,
            dir,
        };
        scene.await_first_grants()?;
        scene.over = Instant::now() + lasts;
        Ok(scene)
    }

    /// Waits until the load is running: earlier faults would be wasted.
    fn await_first_grants(&mut self) -> anyhow::Result<()> {
        let all = wait_until(PATIENCE, || self.fences().iter().all(Option::is_some));
        anyhow::ensure!(all, "not every lock was taken within {PATIENCE:?}");
        Ok(())
    }

    /// The greatest token each counter has seen: every grant raises one.
    fn fences(&self) -> Vec<Option<String>> {
        let fence = |number| format!("redlatch:fence:fenced:{}", Orders::resource(number));
        (0..self.resources)
            .map(|number| self.counters.run(&["GET", &fence(number)]).text())
            .collect()
    }

    /// Whether the time is up, or the workers are done.
    pub(crate) fn is_over(&mut self) -> bool {
        Instant::now() >= self.over || self.crew.is_done()
    }

    /// Continues the load and its faults for this much longer.
    pub(crate) fn go_on(&mut self, longer: Duration) {
        self.over = Instant::now() + longer;
    }

    pub(crate) fn history(&self) -> anyhow::Result<Vec<Track>> {
        history::read(self.dir.path())
    }

    /// Records a fault from begin to end.
    pub(crate) fn fault(&mut self, what: &str, act: impl FnOnce(&mut Self)) {
        self.faults += 1;
        let number = self.faults;
        self.notes.note(number, What::Begin(what.to_owned()));
        act(self);
        self.notes.note(number, What::End(what.to_owned()));
    }

    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// Lets some time pass without faults, at most until the load has ended.
    pub(crate) fn wait(&mut self, time: Duration) {
        thread::sleep(time.min(self.over.saturating_duration_since(Instant::now())));
    }

    /// Like [`wait`](Self::wait), for a random time.
    pub(crate) fn wait_between(&mut self, least: Duration, most: Duration) {
        let time = self.dice.time(least, most);
        self.wait(time);
    }

    /// Waits until `more` nodes may forget and a majority still remembers, which
    /// the promises need. How long that takes depends on the machine, so no fault
    /// is injected earlier.
    ///
    /// Panics if the nodes are never admitted: the history would show nothing.
    pub(crate) fn await_memory(&mut self, more: usize) {
        let (Some(memory), nodes) = (&self.memory, self.servers.len()) else { return };
        let spare = ((nodes - 1) / 2).checked_sub(more);
        let Some(spare) = spare else { panic!("{more} of {nodes} nodes are a majority") };
        let crew = &mut self.crew;
        assert!(
            // Once all workers have ended, nobody admits a node and nothing can go
            // wrong.
            wait_until(PATIENCE, || memory.forgotten() <= spare || crew.is_done()),
            "assumption not met: more than {spare} of {nodes} nodes are still out after {PATIENCE:?}"
        );
    }

    /// Waits until every node has the long-held lock.
    ///
    /// Panics if that never happens.
    pub(crate) fn await_lease_everywhere(&mut self) {
        let resource = Orders::resource(0);
        let servers = &self.servers;
        let has = |server: &Server| {
            server.try_run(&["EXISTS", &resource]).ok().and_then(|reply| reply.int()) == Some(1)
        };
        assert!(
            wait_until(PATIENCE, || servers.iter().all(has)),
            "assumption not met: the lease is not back on every node after {PATIENCE:?}"
        );
    }

    pub(crate) fn some_node(&mut self) -> usize {
        self.dice.index(self.servers.len())
    }

    /// A random minority: as many nodes as may fail together.
    pub(crate) fn minority(&mut self) -> Vec<usize> {
        let (nodes, first) = (self.servers.len(), self.some_node());
        (0..(nodes - 1) / 2).map(|next| (first + next) % nodes).collect()
    }

    /// A random majority: one node more than may fail together.
    pub(crate) fn majority(&mut self) -> Vec<usize> {
        let (nodes, first) = (self.servers.len(), self.some_node());
        (0..=nodes / 2).map(|next| (first + next) % nodes).collect()
    }

    /// The worker that holds a random lock, if a random node shows it.
    pub(crate) fn holder(&mut self) -> Option<usize> {
        let resource = Orders::resource(self.dice.index(self.resources));
        let node = self.some_node();
        let value = self.servers[node].try_run(&["GET", &resource]).ok()?.text()?;
        self.crew.find(&OwnerParts::of_value(value.as_bytes())?.label)
    }

    /// Waits until locks are granted again after the last fault. The first new
    /// token may belong to an earlier grant; the second cannot.
    pub(crate) fn await_recovery(&mut self) {
        let mut seen = self.fences();
        let mut changes = vec![0; self.resources];
        wait_until(PATIENCE, || {
            let now = self.fences();
            for (number, change) in changes.iter_mut().enumerate() {
                *change += u32::from(now[number] != seen[number]);
            }
            seen = now;
            changes.iter().any(|&change| change >= 2)
        });
    }

    /// Ends the load, reads the counters, records keys that are left, and returns
    /// the whole history. All servers must be up again.
    pub(crate) fn close(mut self) -> anyhow::Result<(Vec<Track>, Scratch)> {
        self.crew.dismiss(PATIENCE)?;
        let mut counters = CounterStore::open(&self.counters.url())?;
        for number in 0..self.resources {
            let resource = Orders::resource(number);
            for counter in Counter::ALL {
                let value = counters.read(counter, &resource)?;
                let resource = resource.clone();
                self.notes.note(0, What::Final { counter, resource, value });
            }
        }
        self.note_what_is_left();
        Ok((self.history()?, self.dir))
    }

    fn note_what_is_left(&mut self) {
        let servers = &self.servers;
        let locks = |server: &Server| {
            server.keys().into_iter().filter(|key| key.starts_with("stock:")).collect::<Vec<_>>()
        };
        let is_tidy = || servers.iter().all(|server| locks(server).is_empty());
        if wait_until(self.ttl + TIDYING, is_tidy) {
            return;
        }
        for server in servers {
            for key in locks(server) {
                self.notes.note(0, What::Left { node: server.url(), key });
            }
        }
    }
}

fn clock(dir: &Scratch) -> anyhow::Result<FakeClock> {
    let library = faketime_library().context("libfaketime is not here")?;
    Ok(FakeClock::new(library, dir.path())?)
}
