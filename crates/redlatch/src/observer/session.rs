//! A connection to one node for questions, one at a time.

use super::{
    others::Unseen,
    reports::{Examined, Removal, Trial},
};
use crate::{
    client::{GrantId, judgement::grant_in},
    driver::clock::{Clock, wall_micros},
    node::{Link, Node, explained},
};
use redlatch_core::{
    Command, Fault, FencingToken, HeldKey, KeyState, Page, Proposal, Reply, Resource, Resources,
    Tag, Ticket, Token, Vote, fence::DEFAULT_SKEW, link::CONNECT_TIMEOUT, resource::MAX_RESOURCES,
    token::owner_of,
};
use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// How long a node may take to answer one question: the first one has to connect.
const PATIENCE: Duration = CONNECT_TIMEOUT;
/// How long the lock of a trial lives if it cannot be released.
const TRIAL_TTL: Duration = Duration::from_secs(2);

/// How many pages of other keys are read: about 100,000 keys of a node.
const MOST_PAGES: usize = 500;

/// A lock on one node, and the number of its fencing register.
pub(super) struct Found {
    pub(super) key: HeldKey,
    pub(super) number: Option<FencingToken>,
}

impl Found {
    pub(super) fn state(&self) -> KeyState {
        let (value, remaining) = (Some(self.key.value.clone()), self.key.remaining);
        KeyState::Held { value, remaining, number: self.number }
    }
}

/// A connection for questions, one at a time.
pub(super) struct Session {
    node: Arc<dyn Node>,
    link: Box<dyn Link>,
    asked: u32,
}

impl Session {
    pub(super) fn to(node: &Arc<dyn Node>) -> Self {
        Session { node: Arc::clone(node), link: node.open(Clock::System), asked: 0 }
    }

    pub(super) async fn ask(&mut self, command: Command) -> Reply {
        self.asked += 1;
        let ours = Tag::of_driver(self.asked);
        self.link.send(ours, command);
        let mut replies = Vec::new();
        let answer = poll_fn(|cx| {
            self.link.poll(cx, &mut replies);
            match replies.drain(..).find(|(tag, _)| *tag == ours) {
                Some((_, reply)) => Poll::Ready(reply),
                None => Poll::Pending,
            }
        });
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.unwrap_or_else(|_| Reply::failed(explained(&*self.node, Fault::TimedOut(PATIENCE))))
    }

    /// The locks, how many keys this user may not read, and why locks may be missing.
    pub(super) async fn pages(&mut self, pattern: Arc<[u8]>) -> (Vec<Found>, usize, Option<Fault>) {
        let (mut locks, mut unread) = (Vec::new(), 0);
        let mut after = None;
        loop {
            match self.ask(Command::List { pattern: pattern.clone(), after }).await {
                Reply::Page(Page { locks: found, denied, next }) => {
                    unread += denied;
                    if let Err(fault) = self.number(found, &mut locks).await {
                        return (locks, unread, Some(fault));
                    }
                    match next {
                        Some(next) => after = Some(next),
                        None => return (locks, unread, None),
                    }
                }
                reply => return (locks, unread, Some(fault_in(reply))),
            }
        }
    }

    /// The keys that may be locks of other libraries, and why some may be missing.
    pub(super) async fn others(mut self) -> (Vec<HeldKey>, Option<Unseen>) {
        let (mut keys, mut unread) = (Vec::new(), 0);
        let mut after = None;
        for _ in 0..MOST_PAGES {
            match self.ask(Command::Others { after }).await {
                Reply::Page(Page { locks, denied, next }) => {
                    keys.extend(locks);
                    unread += denied;
                    match next {
                        Some(next) => after = Some(next),
                        None => return (keys, (unread > 0).then_some(Unseen::Denied(unread))),
                    }
                }
                reply => return (keys, Some(Unseen::Failed(fault_in(reply)))),
            }
        }
        (keys, Some(Unseen::TooMany))
    }

    /// Adds the numbers of the locks' fencing registers, which a list does not contain.
    async fn number(&mut self, found: Box<[HeldKey]>, locks: &mut Vec<Found>) -> Result<(), Fault> {
        for some in found.chunks(MAX_RESOURCES) {
            let mut names: Vec<_> = some.iter().map(|key| key.name.as_bytes()).collect();
            names.sort_unstable();
            names.dedup();
            let Ok(resources) = Resources::new(&names) else { continue };
            let states = match self.ask(Command::Inspect { resources: resources.clone() }).await {
                Reply::Keys(states) => states,
                reply => match fault_in(reply) {
                    // Scripts may name only keys that this user may also write.
                    fault if is_denied(&fault) => self.one_by_one(&resources).await?,
                    fault => return Err(fault),
                },
            };
            for key in some {
                let at = resources.iter().position(|name| *name == key.name);
                let number = match at.and_then(|at| states.get(at)) {
                    // Unless somebody else has taken it meanwhile.
                    Some(KeyState::Held { value, number, .. })
                        if value.as_deref() == Some(&*key.value) =>
                    {
                        *number
                    }
                    _ => None,
                };
                locks.push(Found { key: key.clone(), number });
            }
        }
        Ok(())
    }

    /// The states of these keys; those that this user may not name count as free.
    async fn one_by_one(&mut self, resources: &Resources) -> Result<Box<[KeyState]>, Fault> {
        let mut states = Vec::new();
        for resource in resources {
            states.push(match self.look(&resource.clone().into()).await {
                Err(fault) if is_denied(&fault) => KeyState::Free,
                looked => looked?,
            });
        }
        Ok(states.into())
    }

    /// The keys that exist under these names.
    pub(super) async fn keys(
        mut self,
        names: &[Resource],
    ) -> Result<BTreeMap<Resource, KeyState>, Fault> {
        let mut keys = BTreeMap::new();
        for some in names.chunks(MAX_RESOURCES) {
            let Ok(resources) = Resources::new(some.iter().map(Resource::as_bytes)) else {
                continue;
            };
            match self.ask(Command::Inspect { resources: resources.clone() }).await {
                Reply::Keys(states) => {
                    let found = resources.iter().cloned().zip(states);
                    keys.extend(found.filter(|(_, key)| *key != KeyState::Free));
                }
                reply => return Err(fault_in(reply)),
            }
        }
        Ok(keys)
    }

    /// Removes the lock if it belongs to one of these grants.
    pub(super) async fn force(
        mut self,
        resources: Resources,
        grants: Arc<[GrantId]>,
    ) -> (Option<String>, Result<Removal, Fault>) {
        let key = match self.look(&resources).await {
            Ok(key) => key,
            Err(fault) => return (None, Err(fault)),
        };
        let KeyState::Held { value, .. } = &key else { return (None, Ok(Removal::Free)) };
        let value = value.as_deref().unwrap_or_default();
        let owner = owner_of(value);
        let removal = match grant_in(&key) {
            Some(grant) if !grants.contains(&grant) => Removal::Other,
            // The lock may have gone between the two; nothing else is removed.
            Some(_) => {
                let token = Token::from_bytes(value);
                let release = Command::Release { resources: resources.clone(), token, then: None };
                match self.ask(release).await {
                    Reply::Vote(Vote::Granted) => Removal::Removed,
                    Reply::Vote(Vote::Gone) => return self.what_is_there(&resources).await,
                    reply => return (owner, Err(fault_in(reply))),
                }
            }
            None if Ticket::reserved_in(value).is_some() => Removal::Free,
            // Not a lock but data: of another type, or without expiry.
            None => Removal::NoLock,
        };
        (owner, Ok(removal))
    }

    /// What is now under the name of a lock that is gone.
    async fn what_is_there(
        &mut self,
        resources: &Resources,
    ) -> (Option<String>, Result<Removal, Fault>) {
        match self.look(resources).await {
            Ok(KeyState::Held { value, .. }) => {
                let value = value.as_deref().unwrap_or_default();
                let is_free = Ticket::reserved_in(value).is_some();
                (owner_of(value), Ok(if is_free { Removal::Free } else { Removal::Other }))
            }
            Ok(KeyState::Free) => (None, Ok(Removal::Free)),
            Err(fault) => (None, Err(fault)),
        }
    }

    async fn look(&mut self, resources: &Resources) -> Result<KeyState, Fault> {
        match self.ask(Command::Inspect { resources: resources.clone() }).await {
            Reply::Keys(keys) => Ok(keys.into_iter().next().unwrap_or(KeyState::Free)),
            reply => Err(fault_in(reply)),
        }
    }

    pub(super) async fn examine(mut self, resources: Resources, token: Token) -> Examined {
        let mut told = self.report().await;
        // A node that may not report its facts may still grant locks.
        if matches!(told.facts, Ok(_) | Err(Fault::Refused(_))) {
            told.trial = self.attempt(resources, token).await;
        }
        told
    }

    /// What the node says about itself, without a trial.
    pub(super) async fn report(&mut self) -> Examined {
        // The first question connects; the second one is timed.
        let first = self.ask(Command::Examine).await;
        let sent = (SystemTime::now(), Instant::now());
        let reply = match first {
            Reply::Facts(_) => self.ask(Command::Examine).await,
            reply => reply,
        };
        let round_trip = sent.1.elapsed();
        let facts = match reply {
            Reply::Facts(facts) => Ok(*facts),
            reply => Err(fault_in(reply)),
        };
        let clock = facts.as_ref().ok().and_then(|facts| facts.clock);
        let ours = sent.0.duration_since(UNIX_EPOCH).unwrap_or_default() + round_trip / 2;
        let ahead = clock.map(|clock| clock.as_secs_f64() - ours.as_secs_f64());
        let (node, address) = (self.node.name().into(), self.node.address().into());
        Examined { node, address, facts, round_trip, ahead, trial: Trial::Skipped }
    }

    /// Tries every step that a lock needs.
    async fn attempt(&mut self, resources: Resources, token: Token) -> Trial {
        let ttl = TRIAL_TTL;
        let (named, signed) = (|| resources.clone(), || token.clone());
        let fence = Some(Proposal::new(wall_micros(), DEFAULT_SKEW));
        let fingerprint = None;
        let steps = [
            (
                "take",
                Command::Take {
                    resources: named(),
                    token: signed(),
                    ttl,
                    fence,
                    fingerprint,
                    place: None,
                },
            ),
            (
                "extend",
                Command::Extend {
                    resources: named(),
                    token: signed(),
                    ttl,
                    fence: None,
                    fingerprint,
                },
            ),
            ("release", Command::Release { resources: named(), token: signed(), then: None }),
        ];
        for (step, command) in steps {
            match self.ask(command).await {
                Reply::Vote(Vote::Granted | Vote::Numbered(_)) => {}
                Reply::Vote(vote) => return Trial::Failed { step, vote },
                reply => return Trial::Failed { step, vote: Vote::Failed(fault_in(reply)) },
            }
        }
        match self.ask(Command::Inspect { resources }).await {
            Reply::Keys(_) => Trial::Passed,
            reply => Trial::Failed { step: "look at", vote: Vote::Failed(fault_in(reply)) },
        }
    }
}

/// Whether this user may not access a key.
fn is_denied(fault: &Fault) -> bool {
    matches!(fault, Fault::Refused(why) if why.starts_with("NOPERM") && why.contains(" key"))
}

pub(super) fn fault_in(reply: Reply) -> Fault {
    match reply {
        Reply::Vote(Vote::Failed(fault)) => fault,
        _ => Fault::Nonsense("not an answer to the question".into()),
    }
}
