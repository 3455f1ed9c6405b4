//! The suite is proved by planted bugs: each check catches a node that breaks
//! its sentence, and passes one that does not.

use super::{Problem, checks, party::Party, run};
use crate::{
    clock::Clock,
    node::{Link, Memory, Node, Store, Threaded},
};
use redlatch_core::{
    Cause, Command, Facts, Fault, FencingToken, Fingerprint, Holder, Identity, KeyState, Ledger,
    Proposal, Quarantine, Reply, Resource, Tag, Vote, fence,
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
use tokio::task::JoinSet;

/// What can be wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
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
    NumbersTheRefused,
    MovesOneRegister,
    AnyoneRaises,
    RaisesDown,
    ExtendsWithoutNumber,
    ForgetsNumbersOnRelease,
    GrantsThoughOut,
    ComparesTooLate,
    RaisesThoughOut,
    ExtendsThoughOut,
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
    AdmitsWithoutRegisters,
    AdmissionLowersRegisters,
    VotesForEverybody,
    HidesTheAgreement,
    WatchReplaces,
    NeverReplaces,
    ReservesNothing,
    ReplacesTheAgreementToo,
    StaysReserved,
    AdmitsForAnyone,
    ExaminesNoGuard,
    TellsNoRegisters,
    TellsRegistersInAnyOrder,
}

/// Which check catches which bug: its own, and perhaps others.
const CAUGHT: &[(Bug, &str)] = &[
    (Bug::GrantsAlways, "a_free_lock_is_granted_and_then_held"),
    (Bug::GrantsItsOwnTokenAgain, "a_take_by_the_same_token_is_held_too"),
    (Bug::TellsTheWrongOwner, "a_refusal_tells_the_truth_about_the_holder"),
    (Bug::TellsTheWrongTime, "a_refusal_tells_the_truth_about_the_holder"),
    (Bug::EveryLinkForItself, "one_of_many_takes_at_once_is_granted"),
    (Bug::EveryLinkForItself, "links_see_each_other"),
    (Bug::AnyoneReleases, "only_its_token_releases_a_lock"),
    (Bug::ReleasesTwice, "a_lock_is_released_once"),
    (Bug::AnyoneExtends, "only_its_token_extends_a_lock"),
    (Bug::NeverLengthens, "an_extension_lengthens"),
    (Bug::Shortens, "an_extension_never_shortens"),
    (Bug::Recreates, "an_extension_never_recreates_what_is_gone"),
    (Bug::ExpiresEarly, "a_lock_expires_but_not_early"),
    (Bug::NeverExpires, "a_lock_expires_but_not_early"),
    (Bug::ExpiresDespiteExtension, "an_extended_lock_outlives_its_first_ttl"),
    (Bug::ReleasesTheExpired, "an_expired_lock_belongs_to_who_takes_it_next"),
    (Bug::TakesPart, "several_are_taken_all_or_nothing"),
    (Bug::ReleasesAllOrNothing, "several_are_released_each_for_itself"),
    (Bug::ExtendsPart, "several_are_extended_all_or_nothing"),
    (Bug::CutsNames, "the_most_and_longest_names_are_taken_together"),
    (Bug::IgnoresCase, "names_are_any_bytes_and_all_different"),
    (Bug::NamesEndAtNul, "names_are_any_bytes_and_all_different"),
    (Bug::CutsValues, "values_are_any_bytes"),
    (Bug::InspectsSorted, "inspection_shows_value_and_time_in_order"),
    (Bug::InspectsWithoutNumbers, "inspection_shows_what_the_register_of_each_lock_stands_at"),
    (Bug::AnswersInReverse, "commands_sent_at_once_are_carried_out_in_order"),
    (Bug::CarriesOutInReverse, "commands_sent_at_once_are_carried_out_in_order"),
    (Bug::AnswersTwice, "every_command_is_answered_once"),
    (Bug::SwallowsSome, "every_command_is_answered_once"),
    (Bug::AnotherRunPerLink, "all_links_name_the_same_run"),
    (Bug::NoVersion, "all_links_name_the_same_run"),
    (Bug::WipesOnDrop, "a_dropped_link_does_no_harm"),
    (Bug::IgnoresProposals, "a_proposal_near_the_clock_is_the_number"),
    (Bug::BelievesProposals, "a_proposal_far_from_the_clock_is_clamped"),
    (Bug::NumbersStandStill, "numbers_grow_whatever_is_proposed"),
    (Bug::NumbersTheRefused, "a_refused_take_moves_no_register"),
    (Bug::MovesOneRegister, "several_get_one_number_above_all_theirs"),
    (Bug::AnyoneRaises, "only_its_token_raises_a_register"),
    (Bug::RaisesDown, "a_raise_reaches_at_least_its_number"),
    (Bug::ExtendsWithoutNumber, "an_extension_brings_its_number_along"),
    (Bug::ForgetsNumbersOnRelease, "a_release_keeps_the_number"),
    (Bug::GrantsThoughOut, "a_node_that_is_out_grants_no_take"),
    (Bug::ComparesTooLate, "a_node_that_is_out_grants_no_take"),
    (Bug::RaisesThoughOut, "a_node_that_is_out_raises_no_register"),
    (Bug::ComparesTooLate, "a_node_that_is_out_raises_no_register"),
    (Bug::ExtendsThoughOut, "a_node_that_is_out_extends_no_lock"),
    (Bug::ComparesTooLate, "a_node_that_is_out_extends_no_lock"),
    (Bug::GuardsReleases, "a_node_that_is_out_releases_all_the_same"),
    (Bug::GuardsTheUnguarded, "a_vote_without_guard_needs_no_marker"),
    (Bug::AdmitsInWordsOnly, "an_admitted_node_votes"),
    (Bug::MarksAnew, "a_node_that_is_out_keeps_its_first_mark"),
    (Bug::MarksAlike, "no_two_marks_are_alike"),
    (Bug::MarksStayYoung, "a_mark_tells_for_how_long_the_node_has_been_out"),
    (Bug::MarksAreBornOld, "a_mark_tells_for_how_long_the_node_has_been_out"),
    (Bug::WatchTakesOut, "a_watch_leaves_an_admitted_node_alone"),
    (Bug::ReplaceTakesOut, "a_watch_leaves_an_admitted_node_alone"),
    (Bug::AdmitsByAnyMark, "an_admission_needs_the_mark_that_is_there"),
    (Bug::AdmitsByTheSameMarkAgain, "an_admission_needs_the_mark_that_is_there"),
    (Bug::RaisesThoughNotAdmitted, "an_admission_needs_the_mark_that_is_there"),
    (Bug::AdmitsWithoutRegisters, "an_admission_raises_the_registers_that_are_behind"),
    (Bug::AdmissionLowersRegisters, "an_admission_raises_the_registers_that_are_behind"),
    (Bug::VotesForEverybody, "a_node_of_others_does_not_vote"),
    (Bug::HidesTheAgreement, "a_node_of_others_does_not_vote"),
    (Bug::WatchReplaces, "a_watch_leaves_a_node_of_others_alone"),
    (Bug::NeverReplaces, "a_replaced_node_is_out_and_reserved"),
    (Bug::ReservesNothing, "a_replaced_node_is_out_and_reserved"),
    (Bug::ReplacesTheAgreementToo, "a_replaced_node_is_out_and_reserved"),
    (Bug::StaysReserved, "a_replaced_node_is_out_and_reserved"),
    (Bug::AdmitsForAnyone, "a_replaced_node_is_out_and_reserved"),
    (Bug::ExaminesNoGuard, "an_examination_tells_what_a_watch_tells"),
    (Bug::TellsNoRegisters, "every_number_that_was_given_out_is_told"),
    (Bug::TellsRegistersInAnyOrder, "every_number_that_was_given_out_is_told"),
];

#[tokio::test]
async fn each_check_catches_its_bug() {
    let mut proofs = JoinSet::new();
    for &(bug, name) in CAUGHT {
        proofs.spawn(async move { (bug, name, problem_of(bug, name).await) });
    }

    let missed = proofs.join_all().await.into_iter().filter(|(.., problem)| problem.is_none());
    assert_eq!(missed.collect::<Vec<_>>(), []);
}

#[test]
fn no_check_is_without_a_bug_that_it_catches() {
    let unproved = checks::ALL.iter().map(|(name, _)| *name);
    let unproved = unproved.filter(|name| !CAUGHT.iter().any(|(_, caught)| caught == name));

    assert_eq!(unproved.collect::<Vec<_>>(), [""; 0]);
}

#[tokio::test]
async fn a_node_without_bugs_passes_and_keeps_nothing() {
    let node = Toy::with(Bug::None);

    super::check(&node).await;

    assert_eq!(node.keys.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn a_suite_gives_a_node_back_to_those_it_was_admitted_for() {
    let node = Memory::new("memory:in use");
    let site = super::Site::new(&node, Duration::from_secs(1));
    let (theirs, mut link) = (Party::new(), site.link());
    link.admitted(&theirs).await.unwrap();
    let before = link.facts(Command::Examine).await.unwrap();

    super::check(&node).await;

    let after = link.facts(Command::Examine).await.unwrap();
    assert_eq!(after, Facts { clock: after.clock, ..before });
}

#[tokio::test]
async fn a_suite_leaves_a_node_that_is_out_to_those_it_was_reserved_for() {
    let node = Memory::new("memory:in use");
    let site = super::Site::new(&node, Duration::from_secs(1));
    let (theirs, mut link) = (Party::new(), site.link());
    let before = link.out(&theirs).await.unwrap();

    super::check(&node).await;

    let after = theirs.awaits(&link.facts(Command::Examine).await.unwrap()).unwrap();
    assert_ne!(after.id, before.id, "it was admitted since");
}

#[tokio::test]
async fn a_report_says_in_words_what_failed() {
    let node = Memory::new("memory:down");
    node.fail(true);

    let report = run(&node).await;

    let text = report.to_string();
    assert!(!report.is_passed());
    let first = format!("the node memory:down passes 0 of {} checks\n", checks::ALL.len());
    assert!(text.starts_with(&first), "{text}");
    assert!(text.contains("\n  an extension lengthens: the take of redlatch:conf"), "{text}");
    assert!(text.contains("it was told to fail"), "{text}");
}

async fn problem_of(bug: Bug, name: &str) -> Option<Problem> {
    let (_, check) = checks::ALL.iter().find(|(known, _)| *known == name).expect("a known check");
    let node = Toy::with(bug);
    let site = super::Site::new(&node, Duration::from_secs(1));
    check(&site).await.err()
}

/// A node as plain as can be, with a bug.
#[derive(Debug)]
struct Toy {
    name: &'static str,
    bug: Bug,
    keys: Arc<Mutex<Keys>>,
    registers: Arc<Mutex<Registers>>,
    ledger: Arc<Mutex<Ledger>>,
    links: AtomicUsize,
}

type Registers = HashMap<u32, u64>;

type Keys = HashMap<Vec<u8>, Key>;

#[derive(Debug, Clone)]
struct Key {
    value: Vec<u8>,
    until: Instant,
}

impl Toy {
    fn with(bug: Bug) -> Self {
        Toy {
            name: "toy",
            bug,
            keys: Arc::default(),
            registers: Arc::default(),
            ledger: Arc::default(),
            links: AtomicUsize::new(0),
        }
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
        let mut facts = Facts { clock: Some(Clock::System.wall()), ..Facts::of(self.identity()) };
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
            Command::Registers => Some(Reply::Registers(self.told_registers())),
            Command::Admit { registers, .. } => {
                let admitted = self.admit(&mut ledger, command);
                if admitted && self.bug != Bug::AdmitsWithoutRegisters
                    || self.bug == Bug::RaisesThoughNotAdmitted
                {
                    self.raise_to(registers);
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
            Command::Extend { .. } if self.bug == Bug::ExtendsThoughOut => None,
            Command::Take { guard, .. }
            | Command::Raise { guard, .. }
            | Command::Extend { guard, .. } => *guard,
            _ => None,
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
        if let (Cause::Disagrees(theirs), Bug::HidesTheAgreement) = (&mut objection.cause, self.bug)
        {
            *theirs = None;
        }
        Some(objection)
    }

    fn told_registers(&self) -> redlatch_core::Registers {
        let moved = self.registers.lock().unwrap();
        let told = moved.iter().filter_map(|(at, is)| Some((*at, FencingToken::new(*is)?)));
        let mut told: Vec<_> = told.collect();
        told.sort_unstable();
        match self.bug {
            Bug::TellsNoRegisters => told.clear(),
            Bug::TellsRegistersInAnyOrder => told.reverse(),
            _ => {}
        }
        told.into()
    }

    fn raise_to(&self, registers: &[(u32, FencingToken)]) {
        let mut moved = self.registers.lock().unwrap();
        for (at, number) in registers {
            let is = moved.entry(*at).or_default();
            let lower = self.bug == Bug::AdmissionLowersRegisters;
            *is = if lower { number.get() } else { number.get().max(*is) };
        }
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
            let (resources, token) = (resources.clone(), token.clone());
            let ours =
                Command::Extend { resources, token, ttl: Duration::ZERO, fence: None, guard: None };
            let ours = self.plain(&ours) == vote(true) || self.bug == Bug::AnyoneRaises;
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
        if self.bug == Bug::MovesOneRegister {
            registers.truncate(1);
        }
        registers
    }

    fn greatest(&self, command: &Command) -> u64 {
        let moved = self.registers.lock().unwrap();
        let numbers = self.registers(command).into_iter().filter_map(|at| moved.get(&at));
        numbers.copied().max().unwrap_or(0)
    }

    fn number(&self, command: &Command, proposal: Proposal) -> FencingToken {
        let (clock, greatest) = (crate::clock::wall_micros(), self.greatest(command));
        let number = match self.bug {
            Bug::IgnoresProposals => FencingToken::new(greatest + 1),
            Bug::BelievesProposals => FencingToken::new(proposal.micros().max(greatest + 1)),
            Bug::NumbersStandStill => proposal.settle(clock, 0),
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
            Command::Take { resources, token, ttl, .. } => {
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
            _ => super::site::OWNER,
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
