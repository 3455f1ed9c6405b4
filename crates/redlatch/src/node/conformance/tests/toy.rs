//! A node with planted bugs.

use crate::{
    clock::Clock,
    node::{Link, Node, Store, Threaded},
};
use redlatch_core::{
    Cause, Command, Facts, Fault, FencingToken, Fingerprint, Holder, Identity, KeyState, Ledger,
    Proposal, Quarantine, Reply, Resource, Resources, Tag, Token, Vote, fence,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Context,
    time::{Duration, Instant},
};

/// What can be wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    None,
    GrantsAlways,
    GrantsItsOwnTokenAgain,
    TellsTheWrongOwner,
    TellsTheWrongTime,
    EveryLinkForItself,
    AnyoneReleases,
    ReleasesTwice,
    AnyoneExtends,
    NeverLengthens,
    Shortens,
    Recreates,
    ExpiresEarly,
    NeverExpires,
    ExpiresDespiteExtension,
    ReleasesTheExpired,
    TakesPart,
    ReleasesAllOrNothing,
    ExtendsPart,
    CutsNames,
    IgnoresCase,
    NamesEndAtNul,
    CutsValues,
    InspectsSorted,
    InspectsWithoutNumbers,
    AnswersInReverse,
    CarriesOutInReverse,
    AnswersTwice,
    SwallowsSome,
    AnotherRunPerLink,
    NoVersion,
    WipesOnDrop,
    IgnoresProposals,
    BelievesProposals,
    NumbersStandStill,
    RepeatsAProposal,
    BelievesTwiceTheSkew,
    RaisesPart,
    NumbersTheRefused,
    MovesOneRegister,
    RaisesOneRegister,
    AnyoneRaises,
    RaisesDown,
    ExtendsWithoutNumber,
    ForgetsNumbersOnRelease,
    GrantsThoughOut,
    ComparesTooLate,
    RaisesThoughOut,
    ExtendsNothingThoughOut,
    PlantsNothingThoughOut,
    PlantsForEverybody,
    GuardsReleases,
    GuardsTheUnguarded,
    AdmitsInWordsOnly,
    MarksAnew,
    MarksAlike,
    MarksStayYoung,
    MarksAreBornOld,
    WatchTakesOut,
    ReplaceTakesOut,
    AdmitsByAnyMark,
    AdmitsByTheSameMarkAgain,
    RaisesThoughNotAdmitted,
    AdmitsWithoutFloor,
    FloorIsForMovedRegisters,
    AdmissionLowersTheFloor,
    VotesForEverybody,
    HidesTheAgreement,
    WatchReplaces,
    NeverReplaces,
    ReservesNothing,
    ReplacesTheAgreementToo,
    StaysReserved,
    AdmitsForAnyone,
    ExaminesNoGuard,
    TellsNoLedger,
    TellsNoNumbers,
    TellsLowerNumbers,
    TellsTheLastNumber,
    TellsNoFloor,
}

/// A node as plain as can be, with a bug.
#[derive(Debug)]
pub(super) struct Toy {
    name: &'static str,
    bug: Bug,
    keys: Arc<Mutex<Keys>>,
    registers: Arc<Mutex<Registers>>,
    ledger: Arc<Mutex<Ledger>>,
    links: AtomicUsize,
}

type Registers = HashMap<u32, u64>;

/// Where the floor stands among the registers: behind all of them.
const FLOOR: u32 = fence::REGISTERS;

/// Where the number stands that a register was last moved to.
const LAST: u32 = FLOOR + 1;

type Keys = HashMap<Vec<u8>, Key>;

#[derive(Debug, Clone)]
struct Key {
    value: Vec<u8>,
    until: Instant,
}

impl Toy {
    pub(super) fn with(bug: Bug) -> Self {
        Toy {
            name: "toy",
            bug,
            keys: Arc::default(),
            registers: Arc::default(),
            ledger: Arc::default(),
            links: AtomicUsize::new(0),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.lock().unwrap().is_empty()
    }
}

impl Node for Toy {
    fn name(&self) -> &str {
        self.name
    }

    fn open(&self, _: Clock) -> Box<dyn Link> {
        let (bug, link) = (self.bug, self.links.fetch_add(1, Ordering::Relaxed));
        let keys = match bug {
            Bug::EveryLinkForItself => Arc::default(),
            _ => Arc::clone(&self.keys),
        };
        let copy = Arc::clone(&keys);
        let (registers, ledger) = (Arc::clone(&self.registers), Arc::clone(&self.ledger));
        let inner = Threaded::new(move || {
            let (keys, registers) = (Arc::clone(&keys), Arc::clone(&registers));
            Ok(Counter { bug, link, keys, registers, ledger: Arc::clone(&ledger) })
        });
        Box::new(Wire { bug, inner, keys: copy, held_back: Vec::new() })
    }
}

/// Bugs on the way.
struct Wire {
    bug: Bug,
    inner: Threaded,
    keys: Arc<Mutex<Keys>>,
    held_back: Vec<(Tag, Command)>,
}

impl Link for Wire {
    fn send(&mut self, tag: Tag, command: Command) {
        match self.bug {
            Bug::CarriesOutInReverse => self.held_back.push((tag, command)),
            Bug::SwallowsSome if matches!(command, Command::Extend { .. }) => {}
            _ => self.inner.send(tag, command),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        while let Some((tag, command)) = self.held_back.pop() {
            self.inner.send(tag, command);
        }
        self.inner.poll(cx, replies);
        match self.bug {
            Bug::AnswersInReverse => replies.reverse(),
            Bug::AnswersTwice => replies.extend(replies.first().cloned()),
            _ => {}
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if self.bug == Bug::WipesOnDrop {
            self.keys.lock().unwrap().clear();
        }
    }
}

/// Bugs on the server.
struct Counter {
    bug: Bug,
    link: usize,
    keys: Arc<Mutex<Keys>>,
    registers: Arc<Mutex<Registers>>,
    ledger: Arc<Mutex<Ledger>>,
}

impl Store for Counter {
    fn execute(&mut self, command: &Command) -> Result<Reply, Fault> {
        if let Some(reply) = self.guarding(command) {
            return Ok(reply);
        }
        let objection = self.objection(command).map(|out| Reply::Vote(Vote::Quarantined(out)));
        if let (Some(objection), true) = (&objection, self.bug != Bug::ComparesTooLate) {
            return Ok(objection.clone());
        }
        let reply = self.fenced(command);
        Ok(objection.unwrap_or(reply))
    }
}

impl Counter {
    /// What concerns the restart guard alone.
    fn guarding(&self, command: &Command) -> Option<Reply> {
        let (clock, highest) = (Some(Clock::System.wall()), self.highest());
        let mut facts = Facts { clock, highest, ..Facts::of(self.identity()) };
        let mut ledger = self.ledger.lock().unwrap();
        match command {
            Command::Examine => {
                if self.bug != Bug::ExaminesNoGuard {
                    ledger.tell(&mut facts);
                }
                Some(Reply::Facts(facts.into()))
            }
            Command::Watch { guard, nonce, replace } => {
                self.watch(&mut ledger, &mut facts, *guard, *nonce, *replace);
                Some(Reply::Facts(facts.into()))
            }
            Command::Ledger if self.bug == Bug::TellsNoLedger => {
                Some(Reply::Ledger(Ledger::default().into()))
            }
            Command::Ledger => Some(Reply::Ledger(ledger.clone().into())),
            Command::Admit { floor, .. } => {
                let admitted = self.admit(&mut ledger, command);
                if admitted && self.bug != Bug::AdmitsWithoutFloor
                    || self.bug == Bug::RaisesThoughNotAdmitted
                {
                    self.raise_floor(floor.map_or(0, FencingToken::get));
                }
                Some(vote(admitted))
            }
            _ => None,
        }
    }

    fn watch(
        &self,
        ledger: &mut Ledger,
        facts: &mut Facts,
        guard: Fingerprint,
        nonce: u64,
        replace: bool,
    ) {
        let before = ledger.clone();
        let replace = match self.bug {
            Bug::WatchReplaces => true,
            // Of a node that is admitted; else there were none that is out.
            Bug::NeverReplaces => replace && before.admitted.is_none(),
            _ => replace,
        };
        let nonce = if self.bug == Bug::MarksAlike { 0 } else { nonce };
        match self.bug {
            Bug::MarksAnew => ledger.watched = None,
            Bug::MarksAreBornOld | Bug::MarksAlike => facts.clock = Some(Duration::ZERO),
            Bug::WatchTakesOut if !replace => ledger.admitted = None,
            Bug::ReplaceTakesOut if replace => ledger.admitted = None,
            _ => {}
        }
        ledger.watch(facts, guard, nonce, replace);
        match self.bug {
            Bug::ReservesNothing if before.admitted.is_some() => ledger.reserved = None,
            Bug::ReplacesTheAgreementToo if ledger.reserved.is_some() => ledger.agreement = None,
            _ => {}
        }
        facts.clock = Some(Clock::System.wall());
        ledger.tell(facts);
        if let (Some(mark), Bug::MarksStayYoung) = (&mut facts.mark, self.bug) {
            mark.age = Duration::ZERO;
        }
    }

    fn admit(&self, ledger: &mut Ledger, command: &Command) -> bool {
        let Command::Admit { guard, agreement, mark, .. } = command else { return false };
        let (run, before) = (self.identity().run, ledger.clone());
        if self.bug == Bug::AdmitsByAnyMark && before.watched.is_some() {
            ledger.watched = Some(mark.clone());
        }
        if self.bug == Bug::AdmitsForAnyone {
            ledger.reserved = None;
        }
        let admitted = ledger.admit(&run, *guard, agreement, mark);
        match self.bug {
            Bug::AdmitsInWordsOnly => *ledger = before,
            Bug::AdmitsByTheSameMarkAgain => ledger.watched = before.watched,
            Bug::StaysReserved => ledger.reserved = before.reserved,
            _ => {}
        }
        admitted
    }

    fn objection(&self, command: &Command) -> Option<Quarantine> {
        let guard = match command {
            Command::Take { .. } if self.bug == Bug::GrantsThoughOut => None,
            Command::Raise { .. } if self.bug == Bug::RaisesThoughOut => None,
            Command::Plant { .. } if self.bug == Bug::PlantsForEverybody => None,
            _ => command.guard(),
        };
        let keeps = match command {
            Command::Plant { .. } => self.bug != Bug::PlantsNothingThoughOut,
            Command::Extend { resources, token, .. } => {
                self.bug != Bug::ExtendsNothingThoughOut && self.are_ours(resources, token)
            }
            _ => false,
        };
        let ledger = self.ledger.lock().unwrap();
        let out = Quarantine::new(Cause::Forgot);
        match (self.bug, command) {
            (Bug::GuardsTheUnguarded, Command::Take { guard: None, .. })
            | (Bug::GuardsReleases, Command::Release { .. }) => {
                return ledger.admitted.is_none().then_some(out);
            }
            (Bug::VotesForEverybody, _) if ledger.admitted.is_some() => return None,
            _ => {}
        }
        let mut objection = ledger.objection(&self.identity().run, guard?)?;
        if keeps && objection.cause == Cause::Forgot {
            return None;
        }
        if let (Cause::Disagrees(theirs), Bug::HidesTheAgreement) = (&mut objection.cause, self.bug)
        {
            *theirs = None;
        }
        Some(objection)
    }

    fn highest(&self) -> Option<FencingToken> {
        let moved = self.registers.lock().unwrap();
        let highest = moved.values().copied().max().unwrap_or(0);
        match self.bug {
            Bug::TellsNoNumbers => None,
            Bug::TellsLowerNumbers => FencingToken::new(highest.saturating_sub(1)),
            Bug::TellsTheLastNumber => moved.get(&LAST).copied().and_then(FencingToken::new),
            Bug::TellsNoFloor => {
                let given = moved.iter().filter(|(at, _)| **at != FLOOR);
                given.map(|(_, number)| *number).max().and_then(FencingToken::new)
            }
            _ => FencingToken::new(highest),
        }
    }

    fn raise_floor(&self, floor: u64) {
        let mut moved = self.registers.lock().unwrap();
        let is = moved.entry(FLOOR).or_default();
        let lower = self.bug == Bug::AdmissionLowersTheFloor;
        *is = if lower { floor } else { floor.max(*is) };
    }

    fn are_ours(&self, resources: &Resources, token: &Token) -> bool {
        let (resources, token) = (resources.clone(), token.clone());
        let ttl = Duration::ZERO;
        self.plain(&Command::Extend { resources, token, ttl, fence: None, guard: None })
            == vote(true)
    }

    fn identity(&self) -> Identity {
        Identity {
            run: if self.bug == Bug::AnotherRunPerLink { self.link } else { 0 }.to_string().into(),
            version: if self.bug == Bug::NoVersion { "" } else { "toy 1" }.into(),
        }
    }

    /// All but the restart guard.
    fn fenced(&self, command: &Command) -> Reply {
        if let Command::Raise { resources, token, to, .. } = command {
            let mut asked = resources.clone();
            if let (Some(first), Bug::RaisesPart) = (resources.iter().next(), self.bug) {
                asked = Resources::new([first.as_bytes()]).unwrap();
            }
            let ours = self.are_ours(&asked, token) || self.bug == Bug::AnyoneRaises;
            return if ours { self.raise(command, *to) } else { vote(false) };
        }
        let reply = self.plain(command);
        match command {
            Command::Take { fence: Some(proposal), .. }
                if reply == vote(true) || self.bug == Bug::NumbersTheRefused =>
            {
                let number = self.number(command, *proposal);
                if reply == vote(true) { Reply::Vote(Vote::Numbered(number)) } else { reply }
            }
            Command::Extend { fence: Some(to), .. }
                if reply == vote(true) && self.bug != Bug::ExtendsWithoutNumber =>
            {
                self.raise(command, *to);
                reply
            }
            Command::Release { .. } if self.bug == Bug::ForgetsNumbersOnRelease => {
                self.registers.lock().unwrap().clear();
                reply
            }
            _ => reply,
        }
    }

    fn registers(&self, command: &Command) -> Vec<u32> {
        let (Command::Take { resources, .. }
        | Command::Raise { resources, .. }
        | Command::Extend { resources, .. }) = command
        else {
            return Vec::new();
        };
        let mut registers = fence::registers(resources);
        let raises = !matches!(command, Command::Take { .. });
        if self.bug == Bug::MovesOneRegister || self.bug == Bug::RaisesOneRegister && raises {
            registers.truncate(1);
        }
        registers
    }

    fn greatest(&self, command: &Command) -> u64 {
        let moved = self.registers.lock().unwrap();
        let own = self.registers(command).into_iter().filter_map(|at| moved.get(&at));
        let own = own.copied().max();
        let floor = moved.get(&FLOOR).filter(|_| {
            // Where a register was moved before.
            own.is_some() || self.bug != Bug::FloorIsForMovedRegisters
        });
        own.max(floor.copied()).unwrap_or(0)
    }

    fn number(&self, command: &Command, proposal: Proposal) -> FencingToken {
        let (clock, greatest) = (crate::clock::wall_micros(), self.greatest(command));
        let number = match self.bug {
            Bug::IgnoresProposals => FencingToken::new(greatest + 1),
            Bug::BelievesProposals => FencingToken::new(proposal.micros().max(greatest + 1)),
            Bug::NumbersStandStill => proposal.settle(clock, 0),
            Bug::BelievesTwiceTheSkew => {
                let skew = Duration::from_micros(2 * proposal.skew_micros());
                let proposal = Proposal::new(proposal.micros(), skew);
                proposal.settle(clock, greatest)
            }
            Bug::RepeatsAProposal => proposal.settle(clock, greatest.saturating_sub(1)),
            _ => proposal.settle(clock, greatest),
        };
        let number = number.expect("a number is left");
        self.set(command, number);
        number
    }

    fn raise(&self, command: &Command, to: FencingToken) -> Reply {
        let is = FencingToken::new(self.greatest(command));
        let down = self.bug == Bug::RaisesDown;
        let number = is.filter(|_| !down).map_or(to, |is| is.max(to));
        self.set(command, number);
        Reply::Vote(Vote::Numbered(number))
    }

    fn set(&self, command: &Command, number: FencingToken) {
        let mut moved = self.registers.lock().unwrap();
        for register in self.registers(command) {
            moved.insert(register, number.get());
        }
        moved.insert(LAST, number.get());
    }

    /// All but fencing.
    fn plain(&self, command: &Command) -> Reply {
        let mut keys = self.keys.lock().unwrap();
        let (bug, now) = (self.bug, Instant::now());
        if bug != Bug::NeverExpires && bug != Bug::ReleasesTheExpired {
            keys.retain(|_, key| key.until > now);
        }
        let live = |key: &&Key| key.until > now || bug == Bug::NeverExpires;
        match command {
            Command::Take { resources, token, ttl, .. }
            | Command::Plant { resources, token, ttl, .. } => {
                let mut taken = resources.iter().filter_map(|name| {
                    keys.get(&self.name(name)).filter(live).filter(|key| match bug {
                        Bug::GrantsAlways => false,
                        Bug::GrantsItsOwnTokenAgain => key.value != token.as_bytes(),
                        _ => true,
                    })
                });
                let held = taken.next().cloned();
                if held.is_none() || bug == Bug::TakesPart {
                    for name in resources {
                        let key = self.key(token.as_bytes(), now, *ttl);
                        keys.entry(self.name(name)).or_insert(key);
                    }
                }
                Reply::Vote(held.map_or(Vote::Granted, |key| Vote::Held(self.holder(now, &key))))
            }
            Command::Extend { resources, token, ttl, .. } => {
                let ours = |name: &Resource| {
                    let key = keys.get(&self.name(name)).filter(live);
                    key.is_some_and(|key| {
                        bug == Bug::AnyoneExtends || key.value == token.as_bytes()
                    })
                };
                let good = resources.iter().all(ours);
                if bug == Bug::Recreates {
                    for name in resources {
                        let key = self.key(token.as_bytes(), now, *ttl);
                        keys.entry(self.name(name)).or_insert(key);
                    }
                }
                if good || bug == Bug::ExtendsPart {
                    for name in resources {
                        if let Some(key) = keys.get_mut(&self.name(name)) {
                            key.until = match bug {
                                Bug::NeverLengthens | Bug::ExpiresDespiteExtension => key.until,
                                Bug::Shortens => now + *ttl,
                                _ => key.until.max(now + *ttl),
                            };
                        }
                    }
                }
                vote(good || bug == Bug::Recreates)
            }
            Command::Release { resources, token } => {
                let mut good = resources.iter().collect::<Vec<_>>();
                good.retain(|name| {
                    let key = keys.get(&self.name(name));
                    let key = key.filter(|key| live(key) || bug == Bug::ReleasesTheExpired);
                    key.is_some_and(|key| {
                        bug == Bug::AnyoneReleases || key.value == self.value(token.as_bytes())
                    })
                });
                let all = good.len() == resources.count();
                if all || bug != Bug::ReleasesAllOrNothing {
                    for name in good {
                        keys.remove(&self.name(name));
                    }
                }
                vote(all || bug == Bug::ReleasesTwice)
            }
            Command::Inspect { resources } => {
                let moved = self.registers.lock().unwrap();
                let known = |name: &Resource| (self.name(name), fence::register(name));
                let mut names: Vec<_> = resources.iter().map(known).collect();
                if bug == Bug::InspectsSorted {
                    names.sort();
                }
                let state = |(name, register): (Vec<u8>, u32)| match keys.get(&name).filter(live) {
                    None => KeyState::Free,
                    Some(key) => KeyState::Held {
                        value: Some(key.value.clone().into()),
                        remaining: Some(key.until.saturating_duration_since(now)),
                        number: moved
                            .get(&register)
                            .and_then(|is| FencingToken::new(*is))
                            .filter(|_| bug != Bug::InspectsWithoutNumbers),
                    },
                };
                Reply::Keys(names.into_iter().map(state).collect())
            }
            _ => Reply::Identity(self.identity()),
        }
    }
}

fn vote(good: bool) -> Reply {
    Reply::Vote(if good { Vote::Granted } else { Vote::Gone })
}

impl Counter {
    fn key(&self, value: &[u8], now: Instant, ttl: Duration) -> Key {
        let ttl = if self.bug == Bug::ExpiresEarly { ttl / 2 } else { ttl };
        Key { value: self.value(value), until: now + ttl }
    }

    fn holder(&self, now: Instant, key: &Key) -> Holder {
        let owner = match self.bug {
            Bug::TellsTheWrongOwner => "somebody",
            _ => super::super::site::OWNER,
        };
        let remaining = match self.bug {
            Bug::TellsTheWrongTime => Duration::from_millis(60),
            _ => key.until.saturating_duration_since(now),
        };
        Holder::new(Some(owner.into()), Some(remaining))
    }

    fn value(&self, value: &[u8]) -> Vec<u8> {
        match self.bug {
            Bug::CutsValues => value.split(|byte| *byte == 0).next().unwrap_or_default().into(),
            _ => value.into(),
        }
    }

    fn name(&self, name: &Resource) -> Vec<u8> {
        let name = name.as_bytes();
        match self.bug {
            Bug::CutsNames => name.iter().copied().take(512).collect(),
            Bug::IgnoresCase => name.to_ascii_lowercase(),
            Bug::NamesEndAtNul => name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
            _ => name.into(),
        }
    }
}
