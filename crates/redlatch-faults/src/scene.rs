//! Where a scenario plays: servers, the network in front of them, workers, and
//! the hand that breaks things.
//!
//! What it does to them it writes down as faults in the history.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use redlatch_testbed::{FakeClock, Proxy, Scratch, Server, Servers, faketime_library, wait_until};

use crate::crew::Crew;
use crate::dice::Dice;
use crate::disk::Disk;
use crate::history::{self, HARNESS, Place, Recorder, Track, What};
use crate::ledger::Ledger;
use crate::orders::{Guarding, Orders};
use crate::scenario::Load;
use crate::vouch::{Memory, vouch};

/// How long anything may take that has to happen, such as the first grants, a
/// node that votes again, workers that stop: far longer than on the busiest
/// machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// How long undoing may take beyond the TTL.
const TIDYING: Duration = Duration::from_secs(30);

/// Where a scenario plays.
pub(crate) struct Scene {
    // Dropped in this order: who uses the servers before the servers.
    pub(crate) crew: Crew,
    pub(crate) proxies: Vec<Proxy>,
    /// In the directories of the servers, which cannot go before them.
    pub(crate) disks: Vec<Disk>,
    pub(crate) servers: Servers,
    ledger: Server,
    pub(crate) dice: Dice,
    pub(crate) ttl: Duration,
    pub(crate) window: Duration,
    /// Who looks at the nodes, where they have a guard.
    memory: Option<Memory>,
    /// The clock of the workers, where they have one of their own.
    pub(crate) clock: Option<FakeClock>,
    resources: usize,
    notes: Recorder,
    faults: u64,
    over: Instant,
    dir: Scratch,
}

impl Scene {
    /// Starts everything; the load is on when this returns.
    pub(crate) fn set(load: &Load, lasts: Duration) -> anyhow::Result<Self> {
        let dir = Scratch::in_memory().context("make a directory")?;
        let servers = Servers::start_each(load.servers())?;
        let ledger = Server::start()?;
        let proxies = if load.proxied {
            servers.iter().map(Proxy::to).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        let urls =
            if load.proxied { proxies.iter().map(Proxy::url).collect() } else { servers.urls() };
        let builder = load.habits.builder(&urls);
        let guarded = load.habits.guard != Guarding::Off;
        let memory = guarded.then(|| Memory::new(&builder)).transpose()?;
        if guarded {
            vouch(&builder)?;
        }
        let clock = load.workers_clock.then(|| clock(&dir)).transpose()?;
        let orders = Orders {
            name: String::new(),
            dir: dir.path().to_owned(),
            nodes: urls,
            ledger: ledger.url(),
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
            ledger,
            dice: Dice::new(),
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

    /// Until the load is on: faults before that would be wasted.
    fn await_first_grants(&mut self) -> anyhow::Result<()> {
        let all = wait_until(PATIENCE, || self.fences().iter().all(Option::is_some));
        anyhow::ensure!(all, "not every lock was taken within {PATIENCE:?}");
        Ok(())
    }

    /// The greatest token that each counter has seen: every grant raises one.
    fn fences(&self) -> Vec<Option<String>> {
        let fence = |number| format!("redlatch:fence:fenced:{}", Orders::resource(number));
        (0..self.resources).map(|number| self.ledger.run(&["GET", &fence(number)]).text()).collect()
    }

    /// Whether the time is up, or the workers have done all they should.
    pub(crate) fn is_over(&mut self) -> bool {
        Instant::now() >= self.over || self.crew.is_done()
    }

    /// Lets the load and its faults last so much longer.
    pub(crate) fn go_on(&mut self, longer: Duration) {
        self.over = Instant::now() + longer;
    }

    /// What was written down so far.
    pub(crate) fn history(&self) -> anyhow::Result<Vec<Track>> {
        history::read(self.dir.path())
    }

    /// One fault, from its begin to its end.
    pub(crate) fn fault(&mut self, what: &str, act: impl FnOnce(&mut Self)) {
        self.faults += 1;
        let number = self.faults;
        self.notes.note(number, What::Begin(what.to_owned()));
        act(self);
        self.notes.note(number, What::End(what.to_owned()));
    }

    /// How many faults there were so far.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// A while in which nothing more is broken.
    pub(crate) fn wait(&mut self, time: Duration) {
        thread::sleep(time.min(self.over.saturating_duration_since(Instant::now())));
    }

    /// As [`wait`](Self::wait), of a random length.
    pub(crate) fn wait_between(&mut self, least: Duration, most: Duration) {
        let time = self.dice.between(least..=most);
        self.wait(time);
    }

    /// Waits until so few of the nodes have forgotten that `more` of them may
    /// forget now, and a majority still remembers: what the promises need. How
    /// long that takes is up to the machine, so no fault is injected before.
    ///
    /// Panics if the nodes are never admitted: the history shows nothing then.
    pub(crate) fn await_memory(&mut self, more: usize) {
        let (Some(memory), nodes) = (&self.memory, self.servers.len()) else { return };
        let spare = ((nodes - 1) / 2).checked_sub(more);
        let Some(spare) = spare else { panic!("{more} of {nodes} nodes are a majority") };
        let crew = &mut self.crew;
        assert!(
            // Nobody admits a node, and nothing can go wrong, once all have ended.
            wait_until(PATIENCE, || memory.forgotten() <= spare || crew.is_done()),
            "assumption not met: more than {spare} of {nodes} nodes are still out after {PATIENCE:?}"
        );
    }

    /// Waits until every node has the lock of whoever holds it for long.
    ///
    /// Panics if that never comes.
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

    /// One node, by chance.
    pub(crate) fn some_node(&mut self) -> usize {
        self.dice.below(self.servers.len())
    }

    /// As many nodes as may fail together, by chance.
    pub(crate) fn minority(&mut self) -> Vec<usize> {
        let (nodes, first) = (self.servers.len(), self.some_node());
        (0..(nodes - 1) / 2).map(|next| (first + next) % nodes).collect()
    }

    /// One node more than may fail together.
    pub(crate) fn majority(&mut self) -> Vec<usize> {
        let (nodes, first) = (self.servers.len(), self.some_node());
        (0..=nodes / 2).map(|next| (first + next) % nodes).collect()
    }

    /// The worker that holds a lock, if one can be seen to.
    pub(crate) fn holder(&mut self) -> Option<usize> {
        let resource = Orders::resource(self.dice.below(self.resources));
        let node = self.some_node();
        let value = self.servers[node].try_run(&["GET", &resource]).ok()?.text()?;
        let (_, owner) = value.split_once('@')?;
        self.crew.find(owner)
    }

    /// Waits until locks are granted again after the last fault. The first new
    /// token may be of a grant that came before, the second may not.
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

    /// Ends the load, reads the counters, looks for keys that are left, and
    /// returns the whole history. Faults must be over: all servers up.
    pub(crate) fn close(mut self) -> anyhow::Result<(Vec<Track>, Scratch)> {
        self.crew.dismiss(PATIENCE)?;
        let mut ledger = Ledger::open(&self.ledger.url())?;
        for number in 0..self.resources {
            let resource = Orders::resource(number);
            for place in Place::ALL {
                let value = ledger.read(place, &resource)?;
                let resource = resource.clone();
                self.notes.note(0, What::Final { place, resource, value });
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
