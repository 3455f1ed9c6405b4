//! Bugs in the server.

use super::{Bug, lines::Listeners};
use crate::driver::clock::{Clock, wall_micros};
use redlatch_core::{
    Cause, Command, FencingToken, Identity, KeyState, Ledger, LineState, Proposal, Quarantine,
    Reply, Resource, Resources, Token, Vote,
    fence::registers,
    reference::{Contents, Key, Reading, ReferenceNode},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A server with a bug.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) bug: Bug,
    pub(super) node: ReferenceNode,
    /// The number that a register was last moved to.
    last: u64,
    pub(super) listeners: Listeners,
}

impl Broken {
    pub(super) fn with(bug: Bug) -> Arc<Mutex<Self>> {
        let version = if bug == Bug::NoVersion { "" } else { "toy 1" }.into();
        let node = ReferenceNode::new(Identity { run: "0".into(), version });
        let node = ReferenceNode { waiters: Some(BTreeMap::new()), ..node };
        Arc::new(Mutex::new(Broken { bug, node, last: 0, listeners: Listeners::default() }))
    }

    pub(super) fn execute(&mut self, command: &Command) -> Reply {
        let wall = Duration::from_micros(wall_micros());
        let now = Reading { now: Clock::System.now(), wall, uptime: None };
        if let Some(refusal) = self.refuses(now, command) {
            return refusal;
        }
        let before = self.node.contents.clone();
        let command = &self.misread_line(now, command);
        let objection = self.node.objection(now.now, command);
        let (read, asked) = (self.misread_clock(now, command), self.misread(command));
        self.meddle(now, &asked);
        self.meddle_with_lines(now, &asked);
        let mut reply = match command {
            Command::Inspect { resources } => self.inspect(now, resources),
            _ => self.node.carry_out(read, &asked),
        };
        self.spoil_lines(now, &asked, &before, &reply);
        self.spoil_votes(now, &asked, &before, &mut reply);
        self.spoil_numbers(now, &asked, &before, &reply);
        self.spoil_ledger(command, before.ledger, reply == Reply::Vote(Vote::Granted));
        if matches!(command, Command::Watch { .. }) {
            reply = self.node.carry_out(now, &Command::Examine);
        }
        self.spoil_words(command, &mut reply);
        match objection {
            Some(out) if self.bug == Bug::ComparesTooLate => Reply::Vote(Vote::Quarantined(out)),
            _ => reply,
        }
    }

    /// What it wrongly refuses.
    fn refuses(&self, now: Reading, command: &Command) -> Option<Reply> {
        let Contents { ledger, .. } = &self.node.contents;
        let out = ledger.admitted.is_none().then(|| Quarantine::new(Cause::Forgot));
        let run = &self.node.identity.run;
        let refusal = match (self.bug, command) {
            (Bug::GuardsTheUnguarded, Command::Take { fingerprint: None, .. })
            | (Bug::GuardsReleases, Command::Release { .. }) => out,
            (Bug::ExtendsNothingThoughQuarantined, Command::Extend { fingerprint, .. })
            | (Bug::PlantsNothingThoughQuarantined, Command::Plant { fingerprint, .. }) => {
                fingerprint.and_then(|fingerprint| ledger.objection(run, fingerprint))
            }
            (Bug::ReleasesAllOrNothing, Command::Release { resources, token, .. }) => {
                let all = self.node.has_all(now.now, resources, token);
                return (!all).then_some(Reply::Vote(Vote::Gone));
            }
            _ => None,
        };
        refusal.map(|out| Reply::Vote(Vote::Quarantined(out)))
    }

    fn misread_clock(&self, now: Reading, command: &Command) -> Reading {
        match (self.bug, command) {
            (Bug::BelievesTickets, command) => {
                let arrived = command.ticket().map(|it| Duration::from_micros(it.arrived));
                Reading { wall: arrived.unwrap_or(now.wall), ..now }
            }
            (Bug::IgnoresProposals | Bug::BelievesProposals, Command::Take { .. })
            | (Bug::MarksAreBornOld | Bug::MarksAlike, Command::Watch { .. }) => {
                Reading { wall: Duration::ZERO, ..now }
            }
            _ => now,
        }
    }

    /// How it misreads a command.
    fn misread(&self, command: &Command) -> Command {
        let (bug, admitted) = (self.bug, self.node.contents.ledger.admitted.is_some());
        let mut asked = command.clone();
        self.misread_guard(&mut asked);
        match &mut asked {
            Command::Take { resources, token, ttl, fence, .. } => {
                (*resources, *token) = (self.names(resources), self.value(token));
                *ttl = match bug {
                    Bug::ExpiresEarly => *ttl / 2,
                    Bug::NeverExpires => Duration::from_secs(3600),
                    _ => *ttl,
                };
                *fence = fence.map(|proposal| self.proposal(proposal));
            }
            Command::Release { resources, token, .. } => {
                (*resources, *token) = (self.names(resources), self.value(token));
            }
            Command::Extend { resources, fence, .. } => {
                *resources = self.names(resources);
                *fence = fence.filter(|_| bug != Bug::ExtendsWithoutNumber);
            }
            Command::Plant { resources, .. } | Command::Raise { resources, .. } => {
                *resources = self.names(resources);
            }
            Command::Watch { nonce, replace, .. } => match bug {
                Bug::WatchReplaces => *replace = true,
                // Only on an admitted node; otherwise no node would ever be quarantined.
                Bug::NeverReplaces => *replace &= !admitted,
                Bug::MarksAlike => *nonce = 0,
                _ => {}
            },
            Command::Admit { floor, .. } => {
                *floor = floor.filter(|_| bug != Bug::AdmitsWithoutFloor);
            }
            _ => {}
        }
        asked
    }

    /// Which client it believes a command to come from.
    fn misread_guard(&self, asked: &mut Command) {
        let for_everybody = match self.bug {
            Bug::ComparesTooLate => true,
            Bug::VotesForEverybody => self.node.contents.ledger.admitted.is_some(),
            _ => false,
        };
        let (bug, fingerprint) = match asked {
            Command::Take { fingerprint, .. } => (Some(Bug::GrantsThoughQuarantined), fingerprint),
            Command::Raise { fingerprint, .. } => (Some(Bug::RaisesThoughQuarantined), fingerprint),
            Command::Plant { fingerprint, .. } => (Some(Bug::PlantsForEverybody), fingerprint),
            Command::Extend { fingerprint, .. } => (None, fingerprint),
            _ => return,
        };
        if for_everybody || bug == Some(self.bug) {
            *fingerprint = None;
        }
    }

    fn proposal(&self, proposal: Proposal) -> Proposal {
        let (micros, skew) = (proposal.micros(), proposal.skew_micros());
        let of = |micros, skew| Proposal::new(micros, Duration::from_micros(skew));
        match self.bug {
            Bug::IgnoresProposals => of(0, 0),
            Bug::BelievesProposals => of(micros, u64::MAX),
            Bug::BelievesTwiceTheSkew => of(micros, 2 * skew),
            _ => proposal,
        }
    }

    fn value(&self, token: &Token) -> Token {
        let mut parts = token.as_bytes().split(|byte| *byte == 0);
        match (self.bug, parts.next()) {
            (Bug::CutsValues, Some(first)) => Token::from_bytes(first),
            _ => token.clone(),
        }
    }

    fn names(&self, resources: &Resources) -> Resources {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for name in resources {
            let name = name.as_bytes();
            let name = match self.bug {
                Bug::CutsNames => name[..name.len().min(512)].into(),
                Bug::IgnoresCase => name.to_ascii_lowercase(),
                Bug::NamesEndAtNul => name.split(|byte| *byte == 0).next().unwrap_or(name).into(),
                _ => name.to_vec(),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Resources::new(names).expect("names that are good still")
    }

    /// Asks for each name by itself: names that it confuses get the same answer.
    fn inspect(&mut self, now: Reading, resources: &Resources) -> Reply {
        let mut names: Vec<Resource> = resources.iter().cloned().collect();
        if self.bug == Bug::InspectsSorted {
            names.sort();
        }
        let mut states = Vec::new();
        for name in names {
            let resources = self.names(&name.into());
            if let Reply::Keys(state) = self.node.carry_out(now, &Command::Inspect { resources }) {
                states.extend(state);
            }
        }
        Reply::Keys(states.into())
    }

    /// What it does to itself before it carries out a command.
    fn meddle(&mut self, now: Reading, asked: &Command) {
        let (now, greatest) = (now.now, asked_for(asked).map(|names| self.node.register(names)));
        let Contents { keys, ledger, floor, .. } = &mut self.node.contents;
        match (self.bug, asked) {
            (Bug::AnyoneReleases, Command::Release { resources, token, .. })
            | (Bug::AnyoneExtends, Command::Extend { resources, token, .. }) => {
                for key in named(keys, resources) {
                    key.value = token.as_bytes().into();
                }
            }
            (Bug::ReleasesTheExpired, Command::Release { resources, token, .. }) => {
                for key in named(keys, resources) {
                    if *key.value == *token.as_bytes() {
                        key.dies = now.after(Duration::from_secs(1));
                    }
                }
            }
            (Bug::Recreates, Command::Extend { resources, token, ttl, .. }) => {
                self.node.take(now, resources, token, *ttl);
            }
            (Bug::RepeatsAProposal, Command::Take { resources, .. }) => {
                self.node.set_register(resources, greatest.unwrap_or(0).saturating_sub(1));
            }
            (Bug::NumbersStandStill, Command::Take { resources, .. }) => {
                *floor = 0;
                self.hide_registers(resources, 0);
            }
            (Bug::MovesOneRegister | Bug::RaisesOneRegister, _) => {
                if let Some(resources) = asked_for(asked).filter(|_| self.cuts_registers(asked)) {
                    self.hide_registers(resources, 1);
                }
            }
            (Bug::FloorIsForMovedRegisters, _) => {
                let moved = &self.node.contents.registers;
                let resources = asked_for(asked);
                let known =
                    |resources| registers(resources).iter().any(|at| moved.contains_key(at));
                if resources.is_some_and(|resources| !known(resources)) {
                    self.node.contents.floor = 0;
                }
            }
            (Bug::MarksAnew, Command::Watch { .. }) => ledger.watched = None,
            (Bug::WatchTakesOut, Command::Watch { replace: false, .. })
            | (Bug::ReplaceTakesOut, Command::Watch { replace: true, .. }) => {
                ledger.admitted = None;
            }
            (Bug::AdmitsByAnyMark, Command::Admit { mark, .. }) => {
                ledger.watched = ledger.watched.as_ref().map(|_| mark.clone());
            }
            (Bug::AdmitsForAnyone, Command::Admit { .. }) => ledger.reserved = None,
            _ => {}
        }
    }

    fn cuts_registers(&self, asked: &Command) -> bool {
        self.bug == Bug::MovesOneRegister
            || self.bug == Bug::RaisesOneRegister && !matches!(asked, Command::Take { .. })
    }

    /// Forgets all registers of these names but the first few.
    fn hide_registers(&mut self, resources: &Resources, but: usize) {
        for at in registers(resources).iter().skip(but) {
            self.node.contents.registers.remove(at);
        }
    }

    /// How it corrupts keys and votes.
    fn spoil_votes(&mut self, now: Reading, asked: &Command, before: &Contents, reply: &mut Reply) {
        let Reply::Vote(vote) = reply else { return };
        let (bug, now) = (self.bug, now.now);
        match (asked, &mut *vote) {
            (
                Command::Take { resources, token, ttl, .. }
                | Command::Plant { resources, token, ttl, .. },
                Vote::Held(holder),
            ) => match bug {
                Bug::GrantsAlways => *vote = Vote::Granted,
                Bug::GrantsItsOwnTokenAgain if self.node.has_all(now, resources, token) => {
                    *vote = Vote::Granted;
                }
                Bug::TakesPart => {
                    let key = Key { value: token.as_bytes().into(), dies: now.after(*ttl) };
                    for name in resources {
                        let keys = &mut self.node.contents.keys;
                        keys.entry(name.clone()).or_insert_with(|| key.clone());
                    }
                }
                Bug::TellsTheWrongOwner => holder.owner = Some("somebody".into()),
                Bug::TellsTheWrongTime => holder.remaining = Some(Duration::from_millis(60)),
                _ => {}
            },
            (Command::Extend { resources, ttl, .. }, vote) => {
                let keys = &mut self.node.contents.keys;
                for key in named(keys, resources) {
                    match bug {
                        Bug::Shortens if *vote == Vote::Granted => key.dies = now.after(*ttl),
                        Bug::ExtendsPart => key.dies = key.dies.max(now.after(*ttl)),
                        _ => {}
                    }
                }
                if matches!(bug, Bug::NeverLengthens | Bug::ExpiresDespiteExtension) {
                    keys.clone_from(&before.keys);
                }
            }
            (Command::Release { .. }, vote) if bug == Bug::ReleasesTwice => *vote = Vote::Granted,
            (Command::Raise { resources, token, to, .. }, vote) => {
                let first = resources.iter().next().cloned().map(Resources::from);
                let part = first.is_some_and(|first| self.node.has_all(now, &first, token));
                let number = match (bug, &vote) {
                    (Bug::RaisesPart, Vote::Gone) if !part => return,
                    (Bug::RaisesPart | Bug::AnyoneRaises, Vote::Gone) => {
                        self.node.register(resources).max(to.get())
                    }
                    (Bug::RaisesDown, Vote::Numbered(_)) => to.get(),
                    _ => return,
                };
                self.node.set_register(resources, number);
                *vote = Vote::Numbered(FencingToken::new(number).expect("a number"));
            }
            _ => {}
        }
    }

    /// How it corrupts registers.
    fn spoil_numbers(&mut self, now: Reading, asked: &Command, before: &Contents, reply: &Reply) {
        match (self.bug, asked, reply) {
            (
                Bug::NumbersTheRefused,
                Command::Take { resources, fence: Some(proposal), .. },
                Reply::Vote(Vote::Held(_)),
            ) => {
                let wall = u64::try_from(now.wall.as_micros()).expect("microseconds");
                let number = proposal.settle(wall, self.node.register(resources));
                self.node.set_register(resources, number.expect("a number is left").get());
            }
            (Bug::MovesOneRegister | Bug::RaisesOneRegister, ..) if self.cuts_registers(asked) => {
                for at in asked_for(asked).into_iter().flat_map(registers).skip(1) {
                    let known = before.registers.get(&at).map(|is| (at, *is));
                    self.node.contents.registers.extend(known);
                }
            }
            (Bug::FloorIsForMovedRegisters, ..) => {
                self.node.contents.floor = self.node.contents.floor.max(before.floor);
            }
            (Bug::ForgetsNumbersOnRelease, Command::Release { .. }, _) => {
                self.node.contents.registers.clear();
            }
            _ => {}
        }
        let moved = asked_for(asked).filter(|_| self.node.contents.registers != before.registers);
        self.last = moved.map_or(self.last, |resources| self.node.register(resources));
    }

    /// How it corrupts its ledger.
    fn spoil_ledger(&mut self, asked: &Command, before: Ledger, admitted: bool) {
        match (asked, self.bug) {
            (Command::Admit { floor, .. }, Bug::RaisesThoughNotAdmitted) => {
                self.node.raise_floor(*floor);
            }
            (Command::Admit { floor, .. }, Bug::AdmissionLowersTheFloor) if admitted => {
                self.node.contents.floor = floor.map_or(0, FencingToken::get);
            }
            _ => {}
        }
        let ledger = &mut self.node.contents.ledger;
        match (asked, self.bug) {
            (Command::Watch { .. }, Bug::ReservesNothing) if before.admitted.is_some() => {
                ledger.reserved = None;
            }
            (Command::Watch { .. }, Bug::ReplacesTheAgreementToo) if ledger.reserved.is_some() => {
                ledger.agreement = None;
            }
            (Command::Admit { .. }, Bug::AdmitsInWordsOnly) => *ledger = before,
            (Command::Admit { .. }, Bug::AdmitsByTheSameMarkAgain) => {
                ledger.watched = before.watched;
            }
            (Command::Admit { .. }, Bug::StaysReserved) => ledger.reserved = before.reserved,
            _ => {}
        }
    }

    /// What it reports wrongly.
    fn spoil_words(&self, asked: &Command, reply: &mut Reply) {
        match (self.bug, asked, reply) {
            (Bug::TellsNobodyWaits, _, Reply::Line(line)) => *line = LineState::default(),
            (Bug::TellsTheLastFirst, _, Reply::Line(line)) => line.first.reverse(),
            (Bug::ForgetsWhoWaits, _, Reply::Line(line)) => {
                line.first.iter_mut().for_each(|waiting| waiting.owner = None);
            }
            (Bug::CountsNobody, _, Reply::Page(page)) => {
                page.locks.iter_mut().for_each(|lock| lock.waiters = 0);
            }
            (Bug::TellsNoNumbers, _, Reply::Facts(facts)) => facts.highest = None,
            (Bug::TellsNoLocks, _, Reply::Facts(facts)) => facts.empty = true,
            (Bug::TellsLowerNumbers, _, Reply::Facts(facts)) => {
                facts.highest = FencingToken::new(self.node.highest().saturating_sub(1));
            }
            (Bug::TellsTheLastNumber, _, Reply::Facts(facts)) => {
                facts.highest = FencingToken::new(self.last);
            }
            (Bug::TellsNoFloor, _, Reply::Facts(facts)) => {
                let given = self.node.contents.registers.values().max();
                facts.highest = given.and_then(|number| FencingToken::new(*number));
            }
            (Bug::MarksStayYoung, Command::Watch { .. }, Reply::Facts(facts)) => {
                facts.mark.iter_mut().for_each(|mark| mark.age = Duration::ZERO);
            }
            (Bug::ExaminesNoGuard, Command::Examine, Reply::Facts(facts)) => {
                Ledger::default().tell(facts);
            }
            (Bug::TellsNoLedger, _, Reply::Ledger(ledger)) => **ledger = Ledger::default(),
            (Bug::InspectsWithoutNumbers, _, Reply::Keys(states)) => {
                for state in states {
                    if let KeyState::Held { number, .. } = state {
                        *number = None;
                    }
                }
            }
            (Bug::HidesTheAgreement, _, Reply::Vote(Vote::Quarantined(out))) => {
                if let Cause::Disagrees(theirs) = &mut out.cause {
                    *theirs = None;
                }
            }
            _ => {}
        }
    }
}

/// The keys of these names.
fn named<'a>(
    keys: &'a mut BTreeMap<Resource, Key>,
    resources: &Resources,
) -> impl Iterator<Item = &'a mut Key> {
    let wanted = |name: &Resource| resources.iter().any(|wanted| wanted == name);
    keys.iter_mut().filter(move |(name, _)| wanted(name)).map(|(_, key)| key)
}

/// The names whose registers a command reads and moves.
fn asked_for(command: &Command) -> Option<&Resources> {
    match command {
        Command::Take { resources, .. }
        | Command::Raise { resources, .. }
        | Command::Extend { resources, .. } => Some(resources),
        _ => None,
    }
}
