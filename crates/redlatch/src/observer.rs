//! Looking at locks and nodes without taking part.
//!
//! In:  nodes, reachable or not. Out: what each of them says.
//!
//! Questions go over connections of their own, so that they never stand in
//! front of the commands of a lock, and a node that is down is an answer like
//! any other. Nothing here holds a lock.

use crate::{
    admission::quarantine,
    clock::{Clock, wall_micros},
    error::{ConnectError, InvalidRequest},
    locks::{Builder, one},
    node::{Link, Node, conformance::tag},
    status::{LockState, Status},
};
pub use redlatch_core::{Agreement, Facts};
use redlatch_core::{
    Command, Fault, Guard, HeldKey, KeyState, Page, Proposal, Reply, Resource, Resources, Token,
    Vote, fence::DEFAULT_SKEW, token::owner_of,
};
use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::task::JoinSet;

/// How long a node may take to answer one question.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the lock of a trial would live if it could not be released.
const TRIAL_TTL: Duration = Duration::from_secs(2);

/// Looks at locks and nodes without taking part, for operators.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use redlatch::{LockState, Locks};
///
/// let observer = Locks::builder().node("memory:").observer()?;
///
/// assert_eq!(observer.status("deploy").await?.state, LockState::Free);
/// assert!(observer.list("deploy*").await.locks.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) nodes: Arc<[Arc<dyn Node>]>,
    pub(crate) guard: Option<Guard>,
    pub(crate) agreement: Agreement,
}

/// The locks that are held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listing {
    /// The locks by name.
    pub locks: Vec<Listed>,
    /// The nodes that did not tell all they have, and why.
    pub failed: Vec<(Arc<str>, Fault)>,
}

/// A lock that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// What is locked.
    pub name: Resource,
    /// What the nodes amount to: held, or unclear if only a minority has it.
    pub state: LockState,
    /// How many nodes have it.
    pub nodes: usize,
    /// The nodes that have it under one and the same token, most of all there
    /// are: the holder's, if it is held.
    pub on: Vec<Arc<str>>,
    /// Who signs that token; none for a lock of another library.
    pub owner: Option<String>,
}

/// What became of a lock on one node that was taken away by force.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forced {
    /// The node.
    pub node: Arc<str>,
    /// Whose it was; none for nobody's, or a lock of another library.
    pub owner: Option<String>,
    /// Whether a lock was there and was taken away.
    pub outcome: Result<bool, Fault>,
}

/// What one node says of itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Examined {
    /// The node.
    pub node: Arc<str>,
    /// What it tells, or why it cannot be a node.
    pub facts: Result<Facts, Fault>,
    /// How long one question and its answer take.
    pub round_trip: Duration,
    /// How far its clock is ahead of ours, in seconds; behind, if negative.
    pub ahead: Option<f64>,
    /// What became of a lock that was tried.
    pub trial: Trial,
}

/// What became of a lock that was tried on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trial {
    /// It was taken, extended, seen and released.
    Passed,
    /// It was not tried.
    Skipped,
    /// This step did not work.
    Failed {
        /// Which step.
        step: &'static str,
        /// What the node answered.
        vote: Vote,
    },
}

impl Builder {
    /// Looks at these nodes without taking part. Nothing is connected yet.
    pub fn observer(&self) -> Result<Observer, ConnectError> {
        let nodes = self.checked_nodes()?;
        let (guard, agreement) = (self.guard(&nodes), self.agreement(&nodes));
        Ok(Observer { nodes, guard, agreement })
    }
}

impl Observer {
    /// Who holds a lock, by every node, without taking it.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn status(&self, resource: impl AsRef<[u8]>) -> Result<Status, InvalidRequest> {
        let resources = one(resource)?;
        let replies = self
            .each(move |_, mut line| {
                let command = Command::Inspect { resources: resources.clone() };
                async move {
                    let keys = line.ask(command).await;
                    let answers = matches!(keys, Reply::Keys(_));
                    let facts = if answers { Some(line.ask(Command::Examine).await) } else { None };
                    (keys, facts)
                }
            })
            .await;
        let (keys, facts): (Vec<_>, Vec<_>) = replies.into_iter().unzip();
        let quarantines = facts
            .iter()
            .enumerate()
            .map(|(node, facts)| quarantine(facts.as_ref()?, |facts| self.standing(node, facts)));
        Ok(Status::new(&self.nodes, &keys, quarantines.collect()))
    }

    /// The locks whose names are like `pattern`: see
    /// [`glob`](redlatch_core::glob). Servers are read in small steps that hold
    /// up nobody; locks that come and go meanwhile may be missed. Locks of
    /// other libraries are left out: their keys look like any other.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn list(&self, pattern: impl AsRef<[u8]>) -> Listing {
        let pattern: Arc<[u8]> = pattern.as_ref().into();
        let told = self
            .each(move |_, line| {
                let pattern = pattern.clone();
                async move { line.pages(pattern).await }
            })
            .await;
        Listing::new(&self.nodes, told)
    }

    /// Takes a lock away from whoever holds it, on every node that answers.
    ///
    /// Its holder notices with its next renewal, and works without the lock
    /// until then. What is not a lock, as far as one can tell, stays.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the lock on some nodes and not on others.
    pub async fn force_release(
        &self,
        resource: impl AsRef<[u8]>,
    ) -> Result<Vec<Forced>, InvalidRequest> {
        let resources = one(resource)?;
        let done = self
            .each(move |_, line| {
                let resources = resources.clone();
                async move { line.force(resources).await }
            })
            .await;
        let names = self.nodes.iter().map(|node| Arc::from(node.name()));
        let forced =
            names.zip(done).map(|(node, (owner, outcome))| Forced { node, owner, outcome });
        Ok(forced.collect())
    }

    /// What every node says of itself, and whether a lock can be taken there:
    /// one is tried under a random name that starts with `prefix`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future may leave the lock that was tried, for two seconds.
    pub async fn examine(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<Examined>, InvalidRequest> {
        let mut name = prefix.as_ref().to_vec();
        let random = getrandom::u64().unwrap_or_default();
        name.extend(format!("{random:016x}:").bytes());
        let token = format!("{random:040x}@examiner");
        // A name for each node: two addresses may lead to one server.
        let names = (0..self.nodes.len()).map(|at| {
            let mut name = name.clone();
            name.extend(format!("{at}").bytes());
            one(name)
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let told = self
            .each(move |at, line| {
                let token = Token::from_bytes(token.as_bytes());
                let resources = names[at].clone();
                async move { line.examine(resources, token).await }
            })
            .await;
        Ok(told)
    }

    /// What every node says of itself.
    pub(crate) async fn facts(&self) -> Vec<Result<Facts, Fault>> {
        let told = self.each(|_, mut line| async move { line.ask(Command::Examine).await }).await;
        let told = told.into_iter().map(|reply| match reply {
            Reply::Facts(facts) => Ok(*facts),
            reply => Err(fault_in(reply)),
        });
        told.collect()
    }

    /// Asks all nodes at the same time.
    async fn each<T, F>(&self, ask: impl Fn(usize, Line) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let mut asking = JoinSet::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let answer = ask(at, Line::to(node));
            asking.spawn(async move { (at, answer.await) });
        }
        let mut answers: Vec<(usize, T)> = asking.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}

/// A connection for questions, one at a time.
struct Line {
    name: Arc<str>,
    link: Box<dyn Link>,
    asked: u64,
}

impl Line {
    fn to(node: &Arc<dyn Node>) -> Self {
        Line { name: node.name().into(), link: node.open(Clock::System), asked: 0 }
    }

    async fn ask(&mut self, command: Command) -> Reply {
        self.asked += 1;
        let ours = tag(self.asked);
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
        answer.unwrap_or_else(|_| Reply::failed(Fault::TimedOut(PATIENCE)))
    }

    async fn pages(mut self, pattern: Arc<[u8]>) -> (Vec<HeldKey>, Option<Fault>) {
        let mut locks = Vec::new();
        let mut after = None;
        loop {
            match self.ask(Command::List { pattern: pattern.clone(), after }).await {
                Reply::Page(Page { locks: found, next }) => {
                    locks.extend(found);
                    match next {
                        Some(next) => after = Some(next),
                        None => return (locks, None),
                    }
                }
                reply => return (locks, Some(fault_in(reply))),
            }
        }
    }

    async fn force(mut self, resources: Resources) -> (Option<String>, Result<bool, Fault>) {
        let found = self.ask(Command::Inspect { resources: resources.clone() }).await;
        let value = match &found {
            Reply::Keys(keys) => match keys.first() {
                Some(KeyState::Held { value: Some(value), remaining: Some(_), .. }) => {
                    value.clone()
                }
                Some(KeyState::Free) => return (None, Ok(false)),
                // Somebody's data: of another type, or there for ever.
                _ => {
                    let reason = "what stands there is no lock: it does not expire, or is no text";
                    return (None, Err(Fault::Refused(reason.into())));
                }
            },
            _ => return (None, Err(fault_in(found))),
        };
        let token = Token::from_bytes(&value);
        let outcome = match self.ask(Command::Release { resources, token }).await {
            Reply::Vote(Vote::Granted) => Ok(true),
            Reply::Vote(Vote::Gone) => Ok(false),
            reply => Err(fault_in(reply)),
        };
        (owner_of(&value), outcome)
    }

    async fn examine(mut self, resources: Resources, token: Token) -> Examined {
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
        let trial = match &facts {
            // What it may not tell, it may still lock.
            Ok(_) | Err(Fault::Refused(_)) => self.attempt(resources, token).await,
            Err(_) => Trial::Skipped,
        };
        let clock = facts.as_ref().ok().and_then(|facts| facts.clock);
        let ours = sent.0.duration_since(UNIX_EPOCH).unwrap_or_default() + round_trip / 2;
        let ahead = clock.map(|clock| clock.as_secs_f64() - ours.as_secs_f64());
        Examined { node: self.name, facts, round_trip, ahead, trial }
    }

    /// Tries out all that a lock needs.
    async fn attempt(&mut self, resources: Resources, token: Token) -> Trial {
        let ttl = TRIAL_TTL;
        let (named, signed) = (|| resources.clone(), || token.clone());
        let fence = Some(Proposal::new(wall_micros(), DEFAULT_SKEW));
        let guard = None;
        let steps = [
            ("take", Command::Take { resources: named(), token: signed(), ttl, fence, guard }),
            (
                "extend",
                Command::Extend { resources: named(), token: signed(), ttl, fence: None, guard },
            ),
            ("release", Command::Release { resources: named(), token: signed() }),
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

impl Listing {
    fn new(nodes: &[Arc<dyn Node>], told: Vec<(Vec<HeldKey>, Option<Fault>)>) -> Self {
        let majority = nodes.len() / 2 + 1;
        let mut locks: BTreeMap<Resource, BTreeMap<usize, HeldKey>> = BTreeMap::new();
        let mut failed = Vec::new();
        for (at, (found, fault)) in told.into_iter().enumerate() {
            for lock in found {
                locks.entry(lock.name.clone()).or_default().insert(at, lock);
            }
            failed.extend(fault.map(|fault| (Arc::from(nodes[at].name()), fault)));
        }
        let listed = locks.into_iter().map(|(name, keys)| {
            let count = keys.len();
            let party = largest_party(&keys);
            let owner = party.first().and_then(|at| owner_of(&keys[at].value));
            let on = party.into_iter().map(|at| Arc::from(nodes[at].name())).collect();
            // A list tells no numbers.
            let states = keys.into_values().map(|lock| KeyState::Held {
                value: Some(lock.value),
                remaining: lock.remaining,
                number: None,
            });
            let states: Vec<KeyState> = states.collect();
            Listed {
                name,
                state: crate::status::held_state(&states.iter().collect::<Vec<_>>(), majority),
                nodes: count,
                on,
                owner,
            }
        });
        Listing { locks: listed.collect(), failed }
    }
}

/// The nodes that agree on a value, most of all there are.
fn largest_party(keys: &BTreeMap<usize, HeldKey>) -> Vec<usize> {
    let with = |value| keys.iter().filter(move |(_, key)| key.value == value).map(|(at, _)| *at);
    let values = keys.values().map(|key| &key.value);
    let parties = values.map(|value| with(value.clone()).collect::<Vec<_>>());
    parties.max_by_key(Vec::len).unwrap_or_default()
}

fn fault_in(reply: Reply) -> Fault {
    match reply {
        Reply::Vote(Vote::Failed(fault)) => fault,
        _ => Fault::Nonsense("not an answer to the question".into()),
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trial::Passed => f.write_str("a lock can be taken, extended and released"),
            Trial::Skipped => f.write_str("no lock was tried"),
            Trial::Failed { step, vote } => write!(f, "it could not {step} a lock: {vote}"),
        }
    }
}
