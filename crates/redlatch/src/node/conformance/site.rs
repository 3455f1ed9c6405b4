//! The fixture of a check: random names, links, questions, time limits.

use super::{Problem, party::Party};
use crate::{
    driver::clock::Clock,
    node::{Link, Node},
};
use redlatch_core::{
    Cause, Command, Entropy, Facts, FencingToken, Identity, KeyState, Ledger, Mark, Owner, Place,
    Proposal, Reply, Resource, Resources, Tag, Then, Ticket, Token, Vote, Wake, fence,
    fence::DEFAULT_SKEW, resource::MAX_NAME, token::signature_of,
};
use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// Longer than any check takes.
pub(super) const LONG: Duration = Duration::from_secs(60);
/// Short enough to wait for.
pub(super) const SHORT: Duration = Duration::from_millis(200);
/// How long a node may take to answer, or to notice that a lock expired.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The label in all tokens of the suite.
pub(super) const OWNER: &str = "redlatch-conformance";

pub(super) type Outcome<T = ()> = Result<T, Problem>;

/// The fixture of one check.
pub(super) struct Site<'a> {
    node: &'a dyn Node,
    prefix: String,
    patience: Duration,
    claims: Mutex<Vec<Claim>>,
    /// The clients that may be in line, and their tickets.
    waiting: Mutex<Vec<(Claim, Ticket)>>,
}

impl<'a> Site<'a> {
    pub(super) fn new(node: &'a dyn Node, patience: Duration) -> Self {
        let prefix = format!("redlatch:conformance:{:016x}:", random());
        Site { node, prefix, patience, claims: Mutex::default(), waiting: Mutex::default() }
    }

    pub(super) fn link(&self) -> CheckedLink {
        let link = self.node.open(Clock::System);
        CheckedLink {
            link,
            patience: self.patience,
            asked: 0,
            done: 0,
            told: Vec::new(),
            about: Vec::new(),
            woken: VecDeque::new(),
        }
    }

    /// Creates a client that wants these resources.
    pub(super) fn claim<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Claim {
        let owner = Owner::new(OWNER).expect("a good label");
        self.claim_by(names, Token::fresh(&mut System, &owner))
    }

    pub(super) fn claim_by<N: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = N>,
        token: Token,
    ) -> Claim {
        let full = |name: N| [self.prefix.as_bytes(), name.as_ref()].concat();
        let resources = Resources::new(names.into_iter().map(full)).expect("good names");
        let claim = Claim { resources, token };
        self.claims.lock().unwrap_or_else(PoisonError::into_inner).push(claim.clone());
        claim
    }

    /// The register that a name not yet claimed would have here.
    pub(super) fn unclaimed(&self, name: &str) -> (String, u32) {
        let full = [self.prefix.as_bytes(), name.as_bytes()].concat();
        let resource = Resource::new(full).expect("a good name");
        (name.into(), fence::register(&resource))
    }

    /// The longest possible name here.
    pub(super) fn room(&self) -> usize {
        MAX_NAME - self.prefix.len()
    }

    /// Remembers that the claim may wait in line.
    pub(super) fn waits(&self, claim: &Claim, ticket: Ticket) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((claim.clone(), ticket));
    }

    /// Leaves all lines, and releases whatever was taken.
    pub(super) async fn clear(self) {
        let mut link = self.link();
        let waiting = self.waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
        let leave = |(claim, ticket): &(Claim, _)| claim.release_then(Then::Leave(*ticket));
        let _ = link.ask_all(waiting.iter().map(leave)).await;
        let claims = self.claims.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A node that cannot even do this has already failed its checks.
        let _ = link.ask_all(claims.iter().map(Claim::release)).await;
    }
}

/// Resources and a token for them.
#[derive(Clone)]
pub(super) struct Claim {
    resources: Resources,
    token: Token,
}

impl Claim {
    pub(super) fn take(&self, ttl: Duration) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Take { resources, token, ttl, fence: None, fingerprint: None, place: None }
    }

    /// Asks who waits for the first of its resources.
    pub(super) fn line(&self) -> Command {
        Command::Line { resource: self.first().clone() }
    }

    /// Asks for the locks with the name of its first resource.
    pub(super) fn list(&self) -> Command {
        Command::List { pattern: self.first().as_bytes().into(), after: None }
    }

    /// The owner's text in its token.
    pub(super) fn owner(&self) -> Option<Arc<str>> {
        signature_of(self.token.as_bytes()).map(Arc::from)
    }

    /// A take that proposes a number.
    pub(super) fn take_fenced(&self, ttl: Duration, proposed: u64) -> Command {
        let Claim { resources, token } = self.clone();
        let fence = Some(Proposal::new(proposed, DEFAULT_SKEW));
        Command::Take { resources, token, ttl, fence, fingerprint: None, place: None }
    }

    /// A take that joins the line if it is refused.
    pub(super) fn take_in_line(&self, ttl: Duration, place: Place) -> Command {
        let Claim { resources, token } = self.clone();
        let place = Some(place);
        Command::Take { resources, token, ttl, fence: None, fingerprint: None, place }
    }

    /// Plants a lease, even where the lock is reserved for this ticket.
    pub(super) fn plant_with(&self, ttl: Duration, ticket: Ticket) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Plant { resources, token, ttl, fingerprint: None, ticket: Some(ticket) }
    }

    pub(super) fn release_then(&self, then: Then) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Release { resources, token, then: Some(then) }
    }

    /// Plants a lease again where it was lost.
    pub(super) fn plant(&self, ttl: Duration) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Plant { resources, token, ttl, fingerprint: None, ticket: None }
    }

    pub(super) fn raise(&self, to: FencingToken) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Raise { resources, token, to, fingerprint: None }
    }

    /// An extension that carries a number.
    pub(super) fn extend_fenced(&self, ttl: Duration, fence: FencingToken) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Extend { resources, token, ttl, fence: Some(fence), fingerprint: None }
    }

    pub(super) fn extend(&self, ttl: Duration) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Extend { resources, token, ttl, fence: None, fingerprint: None }
    }

    pub(super) fn release(&self) -> Command {
        let Claim { resources, token } = self.clone();
        Command::Release { resources, token, then: None }
    }

    /// The same claim to just one of its names.
    pub(super) fn only(&self, site: &Site<'_>, name: &str) -> Claim {
        site.claim_by([name], self.token.clone())
    }

    pub(super) fn inspect(&self) -> Command {
        Command::Inspect { resources: self.resources.clone() }
    }

    /// The first of its resources.
    pub(super) fn first(&self) -> &Resource {
        self.resources.iter().next().expect("a claim has a resource")
    }

    pub(super) fn value(&self) -> &[u8] {
        self.token.as_bytes()
    }

    /// The first of its registers.
    pub(super) fn register(&self) -> u32 {
        fence::registers(&self.resources)[0]
    }
}

/// A link that checks for exactly one answer per command, in order for each resource.
pub(super) struct CheckedLink {
    link: Box<dyn Link>,
    patience: Duration,
    asked: u32,
    /// How many of them were answered or given up.
    done: u32,
    /// The commands in words, for the report if one is not answered.
    told: Vec<String>,
    /// The resources that each of them concerns.
    about: Vec<Vec<Resource>>,
    /// The wakes that arrived in between.
    woken: VecDeque<Wake>,
}

impl CheckedLink {
    /// Sends a command without waiting.
    pub(super) fn send(&mut self, command: Command) {
        self.told.push(in_words(&command));
        self.about.push(concerned(&command));
        self.link.send(Tag::of_driver(self.asked), command);
        self.asked += 1;
    }

    /// Waits for the answers to everything sent.
    pub(super) async fn answers(&mut self) -> Outcome<Vec<Reply>> {
        let first = std::mem::replace(&mut self.done, self.asked);
        let (told, about) = (std::mem::take(&mut self.told), std::mem::take(&mut self.about));
        let mut replies = Vec::new();
        let all = poll_fn(|cx| {
            poll(&mut *self.link, &mut self.woken, cx, &mut replies);
            if replies.len() < told.len() { Poll::Pending } else { Poll::Ready(()) }
        });
        if tokio::time::timeout(self.patience, all).await.is_err() {
            let silent = &told[replies.len()];
            let patience = self.patience;
            return problem(format!("there was no answer to {silent} within {patience:?}"));
        }
        if replies.len() > told.len() {
            return problem(format!("{} commands got {} answers", told.len(), replies.len()));
        }
        let mut last = HashMap::new();
        let mut answers = vec![None; told.len()];
        for (tag, reply) in replies {
            let Some(at) = (0..told.len())
                .find(|at| tag == Tag::of_driver(first + u32::try_from(*at).unwrap_or(u32::MAX)))
            else {
                return problem("an answer came to something that was not asked");
            };
            if about[at].iter().any(|name| last.insert(name, at).is_some_and(|last| last > at)) {
                return problem("the answers came in another order than the commands");
            }
            answers[at] = Some(reply);
        }
        let answers: Option<Vec<Reply>> = answers.into_iter().collect();
        answers.map_or_else(|| problem("one command was answered twice, another never"), Ok)
    }

    /// Waits for a wake; `None` if none arrives.
    pub(super) async fn wake(&mut self) -> Outcome<Option<Wake>> {
        let mut replies = Vec::new();
        let any = poll_fn(|cx| {
            poll(&mut *self.link, &mut self.woken, cx, &mut replies);
            let came = !self.woken.is_empty() || !replies.is_empty();
            if came { Poll::Ready(()) } else { Poll::Pending }
        });
        let _ = tokio::time::timeout(self.patience, any).await;
        match replies.first() {
            Some((_, reply)) => problem(format!("{reply:?} is an answer to nothing")),
            None => Ok(self.woken()),
        }
    }

    /// Takes the oldest wake that has arrived.
    pub(super) fn woken(&mut self) -> Option<Wake> {
        self.woken.pop_front()
    }

    pub(super) async fn ask_all(
        &mut self,
        commands: impl IntoIterator<Item = Command>,
    ) -> Outcome<Vec<Reply>> {
        commands.into_iter().for_each(|command| self.send(command));
        self.answers().await
    }

    pub(super) async fn ask(&mut self, command: Command) -> Outcome<Reply> {
        let mut replies = self.ask_all([command]).await?;
        Ok(replies.remove(0))
    }

    /// The number that came with a grant.
    pub(super) async fn numbered(&mut self, command: Command) -> Outcome<FencingToken> {
        let vote = self.vote(command, "granted with a number", |vote| vote.number().is_some());
        match vote.await?.number() {
            Some(number) => Ok(number),
            None => problem("a grant has no number"),
        }
    }

    pub(super) async fn granted(&mut self, command: Command) -> Outcome {
        self.vote(command, "granted", |vote| *vote == Vote::Granted).await.map(drop)
    }

    pub(super) async fn gone(&mut self, command: Command) -> Outcome {
        self.vote(command, "gone", |vote| *vote == Vote::Gone).await.map(drop)
    }

    pub(super) async fn held(&mut self, command: Command) -> Outcome<Vote> {
        self.vote(command, "held", |vote| matches!(vote, Vote::Held(_))).await
    }

    /// Why the node did not vote.
    pub(super) async fn quarantined(&mut self, command: Command) -> Outcome<Cause> {
        let out = |vote: &Vote| matches!(vote, Vote::Quarantined(_));
        match self.vote(command, "quarantined", out).await? {
            Vote::Quarantined(quarantine) => Ok(quarantine.cause),
            _ => problem("a quarantine is something else"),
        }
    }

    /// Checks that the node may not vote on this because it has no marker.
    pub(super) async fn forgot(&mut self, command: Command) -> Outcome {
        let words = in_words(&command);
        match self.quarantined(command).await? {
            Cause::Forgot => Ok(()),
            cause => problem(format!("to {words} the node, which has no marker, said: {cause}")),
        }
    }

    /// Checks that the node may not vote on this because of another agreement.
    pub(super) async fn disagrees(&mut self, command: Command, others: &Party) -> Outcome {
        let words = in_words(&command);
        match self.quarantined(command).await? {
            Cause::Disagrees(Some(theirs)) if *theirs == *others.agreement() => Ok(()),
            cause => problem(format!("to {words} the node, which is of others, said: {cause:?}")),
        }
    }

    /// The node's reply to a watch or an examination.
    pub(super) async fn facts(&mut self, command: Command) -> Outcome<Facts> {
        let words = in_words(&command);
        match self.ask(command).await? {
            Reply::Facts(facts) => Ok(*facts),
            reply => problem(format!("{words} was answered with {reply:?} instead of facts")),
        }
    }

    pub(super) async fn ledger(&mut self) -> Outcome<Ledger> {
        match self.ask(Command::Ledger).await? {
            Reply::Ledger(ledger) => Ok(*ledger),
            reply => problem(format!("the question for the ledger was answered with {reply:?}")),
        }
    }

    /// Quarantines the node and reserves it for these clients.
    pub(super) async fn out(&mut self, party: &Party) -> Outcome<Mark> {
        party.awaits(&self.facts(party.replace()).await?)
    }

    /// Makes these clients admit the node.
    pub(super) async fn admitted(&mut self, party: &Party) -> Outcome {
        let mark = self.out(party).await?;
        self.granted(party.admit(&mark, None)).await
    }

    /// The highest number that the node says it has granted.
    pub(super) async fn highest(&mut self) -> Outcome<Option<FencingToken>> {
        Ok(self.facts(Command::Examine).await?.highest)
    }

    async fn vote(
        &mut self,
        command: Command,
        expected: &str,
        is_good: fn(&Vote) -> bool,
    ) -> Outcome<Vote> {
        let words = in_words(&command);
        match self.ask(command).await? {
            Reply::Vote(vote) if is_good(&vote) => Ok(vote),
            reply => problem(format!("{words} was answered with {reply:?} instead of {expected}")),
        }
    }

    /// The state of each name of a claim.
    pub(super) async fn states(&mut self, claim: &Claim) -> Outcome<Vec<KeyState>> {
        match self.ask(claim.inspect()).await? {
            Reply::Keys(keys) if keys.len() == claim.resources.count() => Ok(keys.into()),
            reply => problem(format!(
                "{} was answered with {reply:?} instead of one state per name",
                in_words(&claim.inspect())
            )),
        }
    }

    /// Checks that the claim holds all its resources. Returns for how much longer it does,
    /// at least.
    pub(super) async fn owned(&mut self, claim: &Claim) -> Outcome<Duration> {
        let mut shortest = Duration::MAX;
        for state in self.states(claim).await? {
            match state {
                KeyState::Held { value: Some(value), remaining: Some(remaining), .. }
                    if *value == *claim.value() =>
                {
                    shortest = shortest.min(remaining);
                }
                other => {
                    return problem(format!("{} should be ours, but is {other:?}", names(claim)));
                }
            }
        }
        Ok(shortest)
    }

    pub(super) async fn free(&mut self, claim: &Claim) -> Outcome {
        if self.is_free(claim).await? {
            return Ok(());
        }
        problem(format!("{} should be free, but is held", names(claim)))
    }

    /// Waits until all the claim's resources are free.
    pub(super) async fn expired(&mut self, claim: &Claim) -> Outcome {
        let start = Instant::now();
        while !self.is_free(claim).await? {
            let waited = start.elapsed();
            if waited > self.patience {
                return problem(format!("{} has not expired after {waited:?}", names(claim)));
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn is_free(&mut self, claim: &Claim) -> Outcome<bool> {
        Ok(self.states(claim).await?.iter().all(|state| *state == KeyState::Free))
    }

    pub(super) async fn identity(&mut self) -> Outcome<Identity> {
        match self.ask(Command::Identify).await? {
            Reply::Identity(identity) => Ok(identity),
            reply => problem(format!("the question who it is was answered with {reply:?}")),
        }
    }
}

/// Polls the link, and separates wakes from answers.
fn poll(
    link: &mut dyn Link,
    woken: &mut VecDeque<Wake>,
    cx: &mut Context<'_>,
    replies: &mut Vec<(Tag, Reply)>,
) {
    let mut incoming = Vec::new();
    link.poll(cx, &mut incoming);
    for (tag, reply) in incoming {
        match reply {
            Reply::Woken(wake) if tag == Tag::WAKE => woken.push_back(wake),
            Reply::Deaf if tag == Tag::WAKE => {}
            reply => replies.push((tag, reply)),
        }
    }
}

pub(super) fn problem<T>(sentence: impl Into<String>) -> Outcome<T> {
    Err(Problem(sentence.into()))
}

fn names(claim: &Claim) -> String {
    abridged(&claim.resources)
}

/// The resources that a command concerns.
fn concerned(command: &Command) -> Vec<Resource> {
    match command {
        Command::Take { resources, .. }
        | Command::Raise { resources, .. }
        | Command::Plant { resources, .. }
        | Command::Extend { resources, .. }
        | Command::Release { resources, .. }
        | Command::Inspect { resources } => resources.iter().cloned().collect(),
        Command::Line { resource } => vec![resource.clone()],
        _ => Vec::new(),
    }
}

fn in_words(command: &Command) -> String {
    match command {
        Command::Take { resources, ttl, .. } => {
            format!("the take of {} for {ttl:?}", abridged(resources))
        }
        Command::Extend { resources, ttl, .. } => {
            format!("the extension of {} to {ttl:?}", abridged(resources))
        }
        Command::Plant { resources, ttl, .. } => {
            format!("the planting of {} for {ttl:?}", abridged(resources))
        }
        Command::Release { resources, .. } => format!("the release of {}", abridged(resources)),
        Command::Raise { resources, to, .. } => {
            format!("the raise of {} to {to}", abridged(resources))
        }
        Command::Inspect { resources } => format!("the question for {}", abridged(resources)),
        Command::Watch { replace: false, .. } => "a watch".into(),
        Command::Watch { replace: true, .. } => "a watch that replaces".into(),
        Command::Examine => "an examination".into(),
        Command::Admit { .. } => "an admission".into(),
        other => format!("{other:?}"),
    }
}

/// The first name, truncated, and how many more there are.
fn abridged(resources: &Resources) -> String {
    let shown: Vec<_> = resources.iter().take(1).map(|name| format!("{name:.80}")).collect();
    match resources.count() {
        1 => shown.concat(),
        count => format!("{} and {} more", shown.concat(), count - 1),
    }
}

/// A random number.
pub(super) fn random() -> u64 {
    let mut random = [0; 8];
    System.fill(&mut random);
    u64::from_ne_bytes(random)
}

/// The system's randomness.
struct System;

impl Entropy for System {
    fn fill(&mut self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the system has randomness");
    }
}
