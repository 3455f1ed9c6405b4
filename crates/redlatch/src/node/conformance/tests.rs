//! The suite is proved by planted bugs: each check catches a node that breaks
//! its sentence, and passes one that does not.

use super::{Problem, checks, run};
use crate::{
    clock::Clock,
    node::{Link, Memory, Node, Store, Threaded},
};
use redlatch_core::{
    Command, Fault, FencingToken, Holder, Identity, KeyState, Proposal, Reply, Resource, Tag, Vote,
    fence,
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
async fn a_report_says_in_words_what_failed() {
    let node = Memory::new("memory:down");
    node.fail(true);

    let report = run(&node).await;

    let text = report.to_string();
    assert!(!report.is_passed());
    assert!(text.starts_with("the node memory:down passes 0 of 34 checks\n"), "{text}");
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
        let registers = Arc::clone(&self.registers);
        let inner = Threaded::new(move || {
            let (keys, registers) = (Arc::clone(&keys), Arc::clone(&registers));
            Ok(Counter { bug, link, keys, registers })
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
}

impl Store for Counter {
    fn execute(&mut self, command: &Command) -> Result<Reply, Fault> {
        if let Command::Raise { resources, token, to, .. } = command {
            let (resources, token) = (resources.clone(), token.clone());
            let ours =
                Command::Extend { resources, token, ttl: Duration::ZERO, fence: None, guard: None };
            let ours = self.plain(&ours) == vote(true) || self.bug == Bug::AnyoneRaises;
            return Ok(if ours { self.raise(command, *to) } else { vote(false) });
        }
        let reply = self.plain(command);
        Ok(match command {
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
        })
    }
}

impl Counter {
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
                let mut names: Vec<_> = resources.iter().map(|name| self.name(name)).collect();
                if bug == Bug::InspectsSorted {
                    names.sort();
                }
                let state = |name: Vec<u8>| match keys.get(&name).filter(live) {
                    None => KeyState::Free,
                    Some(key) => KeyState::Held {
                        value: Some(key.value.clone().into()),
                        remaining: Some(key.until.saturating_duration_since(now)),
                    },
                };
                Reply::Keys(names.into_iter().map(state).collect())
            }
            _ => Reply::Identity(Identity {
                run: if bug == Bug::AnotherRunPerLink { self.link } else { 0 }.to_string().into(),
                version: if bug == Bug::NoVersion { "" } else { "toy 1" }.into(),
            }),
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
