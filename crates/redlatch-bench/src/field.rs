//! All contenders of one measurement, side by side: they take turns, round by round.

use crate::{
    entrant::{Entrant, Role},
    history::History,
    spread::{Spread, median, quantiles},
    team::{Slice, Team},
};
use std::time::Duration;

/// A slice that is forgotten: connections are made, scripts loaded.
const WARM_UP: Duration = Duration::from_millis(50);

/// What a slice leaves behind, undos for example, is none of the next one's business.
const SETTLE: Duration = Duration::from_millis(10);

/// How many processes, and callers in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
}

pub(crate) struct Lane {
    pub(crate) name: String,
    team: Team,
    shape: Shape,
    /// What came of each round.
    pub(crate) rounds: Vec<History>,
}

#[derive(Default)]
pub(crate) struct Field(Vec<Lane>);

impl Field {
    /// Starts a contender. One of others that does not start is left out.
    pub(crate) fn enter(
        &mut self,
        entrant: &Entrant,
        shape: Shape,
        urls: &[String],
    ) -> anyhow::Result<()> {
        self.enter_as(entrant.name, entrant, shape, urls)
    }

    /// The same, where a contender takes part more than once.
    pub(crate) fn enter_as(
        &mut self,
        name: impl Into<String>,
        entrant: &Entrant,
        shape: Shape,
        urls: &[String],
    ) -> anyhow::Result<()> {
        match Team::start(entrant, shape.processes, urls) {
            Ok(team) => self.0.push(Lane { name: name.into(), team, shape, rounds: Vec::new() }),
            Err(why) if is_foreign(entrant) => eprintln!("skipped {}: {why:#}", entrant.name),
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// Gives every contender this many callers from now on.
    pub(crate) fn set_tasks(&mut self, tasks: usize) {
        self.0.iter_mut().for_each(|lane| lane.shape.tasks = tasks);
    }

    /// Lets everybody have one slice in each round.
    pub(crate) fn run(&mut self, rounds: usize, slice: Slice) -> anyhow::Result<()> {
        self.round(0, Slice { span: WARM_UP, ..slice })?;
        self.0.iter_mut().for_each(|lane| lane.rounds.clear());
        (0..rounds).try_for_each(|round| self.round(round, slice))
    }

    /// Somebody else begins each time: nobody always follows the same.
    fn round(&mut self, round: usize, slice: Slice) -> anyhow::Result<()> {
        let mut failed = Vec::new();
        let count = self.0.len();
        for index in (0..count).map(|turn| (round + turn) % count) {
            let lane = &mut self.0[index];
            match lane.team.run(Slice { tasks: lane.shape.tasks, ..slice }) {
                Ok(history) => lane.rounds.push(history),
                Err(why) if is_foreign(&lane.team.entrant) => {
                    eprintln!("skipped {}: {why:#}", lane.name);
                    failed.push(lane.name.clone());
                }
                Err(why) => return Err(why),
            }
            std::thread::sleep(SETTLE);
        }
        self.0.retain(|lane| !failed.contains(&lane.name));
        Ok(())
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.0.iter()
    }

    pub(crate) fn with_role(&self, role: Role) -> impl Iterator<Item = &Lane> {
        self.0.iter().filter(move |lane| lane.team.entrant.role == role)
    }

    pub(crate) fn floor(&self) -> Option<&Lane> {
        self.with_role(Role::Floor).next()
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Lane> {
        self.0.iter().find(|lane| lane.name == name)
    }

    /// The peer with the most of something.
    pub(crate) fn best_peer(&self, figure: impl Fn(&Lane) -> Option<f64>) -> Option<&Lane> {
        let figure = |lane: &&Lane| figure(lane).unwrap_or(f64::NEG_INFINITY);
        self.with_role(Role::Peer).max_by(|a, b| figure(a).total_cmp(&figure(b)))
    }

    /// Redlatch itself, with default settings.
    pub(crate) fn ours(&self) -> anyhow::Result<&Lane> {
        let ours = self.with_role(Role::Ours).next();
        ours.ok_or_else(|| anyhow::anyhow!("redlatch was not measured"))
    }
}

impl Lane {
    pub(crate) fn role(&self) -> Role {
        self.team.entrant.role
    }

    /// p50 of the hand-overs of each round, in seconds.
    pub(crate) fn handover_each(&self) -> impl Iterator<Item = Option<f64>> {
        self.rounds.iter().map(|history| median(history.handovers()))
    }

    /// p50 of the hand-overs of all rounds, in milliseconds.
    pub(crate) fn handover_ms(&self) -> Option<f64> {
        Some(median(self.handovers())? * 1e3)
    }

    /// All hand-overs of all rounds.
    pub(crate) fn handovers(&self) -> Vec<f64> {
        self.rounds.iter().flat_map(History::handovers).collect()
    }

    /// Locks per second of each round.
    pub(crate) fn rate_each(&self) -> impl Iterator<Item = Option<f64>> {
        self.rounds.iter().map(|history| Some(history.per_second()))
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        median(self.rate_each().flatten())
    }

    pub(crate) fn rate_over(&self, other: &Self) -> Option<Spread> {
        Spread::of_ratios(self.rate_each(), other.rate_each())
    }

    /// Processor time of the client for each lock, in microseconds.
    pub(crate) fn cpu(&self) -> Option<f64> {
        median(self.rounds.iter().filter_map(History::cpu_us))
    }

    pub(crate) fn cpu_over(&self, other: &Self) -> Option<Spread> {
        let each = |lane: &Self| lane.rounds.iter().map(History::cpu_us).collect::<Vec<_>>();
        Spread::of_ratios(each(self), each(other))
    }

    /// One percentage of acquire and release together, over all rounds.
    pub(crate) fn cycle(&self, percent: usize) -> Option<f64> {
        let [figure] = quantiles([percent], self.rounds.iter().flat_map(History::cycles_us))?;
        Some(figure)
    }

    /// The same of each round over another's.
    pub(crate) fn cycle_over(&self, other: &Self, percent: usize) -> Option<Spread> {
        let each = |lane: &Self| -> Vec<Option<f64>> {
            let one = |round: &History| Some(quantiles([percent], round.cycles_us())?[0]);
            lane.rounds.iter().map(one).collect()
        };
        Spread::of_ratios(each(self), each(other))
    }

    pub(crate) fn violations(&self) -> u64 {
        self.rounds.iter().map(History::violations).sum()
    }

    pub(crate) fn gave_up(&self) -> u64 {
        self.rounds.iter().map(|history| history.gave_up).sum()
    }

    /// Why somebody gave up.
    pub(crate) fn why(&self) -> String {
        self.rounds
            .iter()
            .map(|history| history.why.clone())
            .find(|why| !why.is_empty())
            .unwrap_or_default()
    }
}

fn is_foreign(entrant: &Entrant) -> bool {
    matches!(entrant.role, Role::Peer | Role::Other)
}

impl Shape {
    pub(crate) const fn new(processes: usize, tasks: usize) -> Self {
        Self { processes, tasks }
    }

    /// Two callers in as many processes as this has, at most two: the floor's.
    pub(crate) fn of_two(self) -> Self {
        if self.processes == 1 { Self::new(1, 2) } else { Self::new(2, 1) }
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self { processes: 1, tasks } => write!(f, "{tasks} tasks"),
            Self { processes, tasks: 1 } => write!(f, "{processes} processes"),
            Self { processes, tasks } => write!(f, "{processes} processes x {tasks} tasks"),
        }
    }
}
