//! All contenders of one measurement, side by side: they take turns, round by round.

use super::{
    entrant::{Entrant, Role},
    history::{History, p50},
    report::Quartiles,
    team::{Slice, Team},
};
use std::time::Duration;

/// A slice that is forgotten: connections are made, scripts loaded.
const WARM_UP: Duration = Duration::from_millis(50);

/// What a slice leaves behind, undos for example, is none of the next one's business.
const SETTLE: Duration = Duration::from_millis(20);

/// How many processes, and callers in each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) processes: usize,
    pub(crate) tasks: usize,
}

pub(crate) struct Lane {
    team: Team,
    shape: Shape,
    /// What came of each round.
    pub(crate) rounds: Vec<History>,
}

#[derive(Default)]
pub(crate) struct Field(Vec<Lane>);

impl Field {
    /// Starts a contender. A peer that does not start is left out.
    pub(crate) fn enter(
        &mut self,
        entrant: &Entrant,
        shape: Shape,
        urls: &[String],
    ) -> anyhow::Result<()> {
        match Team::start(entrant, shape.processes, urls) {
            Ok(team) => self.0.push(Lane { team, shape, rounds: Vec::new() }),
            Err(why) if is_peer(entrant) => eprintln!("skipped {}: {why:#}", entrant.name),
            Err(why) => return Err(why),
        }
        Ok(())
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
                Err(why) if is_peer(&lane.team.entrant) => {
                    eprintln!("skipped {}: {why:#}", lane.team.entrant.name);
                    failed.push(lane.name());
                }
                Err(why) => return Err(why),
            }
            std::thread::sleep(SETTLE);
        }
        self.0.retain(|lane| !failed.contains(&lane.name()));
        Ok(())
    }

    pub(crate) fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.0.iter()
    }

    pub(crate) fn with_role(&self, role: Role) -> impl Iterator<Item = &Lane> {
        self.0.iter().filter(move |lane| lane.team.entrant.role == role)
    }

    /// Redlatch itself.
    pub(crate) fn ours(&self) -> anyhow::Result<&Lane> {
        let ours = self.with_role(Role::Ours).next();
        ours.ok_or_else(|| anyhow::anyhow!("redlatch was not measured"))
    }
}

impl Lane {
    pub(crate) fn name(&self) -> &'static str {
        self.team.entrant.name
    }

    pub(crate) fn role(&self) -> Role {
        self.team.entrant.role
    }

    /// p50 of the hand-overs of each round, in seconds.
    pub(crate) fn handover_each(&self) -> impl Iterator<Item = Option<f64>> {
        self.rounds.iter().map(|history| p50(&history.handovers()))
    }

    /// All hand-overs of all rounds.
    pub(crate) fn handovers(&self) -> Vec<f64> {
        self.rounds.iter().flat_map(History::handovers).collect()
    }

    /// Locks per second of each round.
    pub(crate) fn rate_each(&self) -> impl Iterator<Item = Option<f64>> {
        self.rounds.iter().map(|history| Some(history.per_second()))
    }

    pub(crate) fn rate_over(&self, other: &Self) -> Option<Quartiles> {
        Quartiles::of_ratios(self.rate_each(), other.rate_each())
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

fn is_peer(entrant: &Entrant) -> bool {
    matches!(entrant.role, Role::Peer | Role::Tuned)
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
