//! One look at the nodes, before it is compared with the previous one.

use super::{
    lock::{Lock, State},
    node::{Node, Stands},
};
use crate::{
    admit::{cause_for, for_another, for_now, is_unbegun},
    doctor::{
        Finding, Level, clocks, endless, node_timeout, one_less, refusing, speed, unlisted, user_in,
    },
    duration::show,
    failure::{Failure, to_paste},
    look::{bare, failed_text},
    name,
    settings::Settings,
    who,
};
use redlatch::{
    Cause, Fault, FencingToken, LockState, Standing,
    observer::{Examined, Listed, Listing, Observer, advice_to},
};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

/// What was seen at one moment.
#[derive(Debug, Clone)]
pub(super) struct Sight {
    pub(super) at: Instant,
    pub(super) time: SystemTime,
    pub(super) nodes: Vec<Node>,
    /// By name.
    pub(super) locks: Vec<Lock>,
    /// What is wrong, as far as one look can show.
    pub(super) findings: Vec<Finding>,
}

/// Which nodes to ask, and what to judge their answers by.
pub(super) struct Looker {
    pub(super) observer: Observer,
    users: Vec<String>,
    /// The options that another command needs to find the same nodes.
    pub(super) typed: String,
    /// The command that checks the same nodes.
    pub(super) doctor: String,
    ttl: Duration,
    max_ttl: Duration,
    node_timeout: Duration,
}

impl Looker {
    pub(super) fn new(settings: &Settings) -> Result<Self, Failure> {
        Ok(Looker {
            observer: settings.builder().observer()?,
            users: settings.nodes().iter().map(|url| user_in(url)).collect(),
            typed: settings.typed().to_owned(),
            doctor: settings.doctor(""),
            ttl: settings.ttl(),
            max_ttl: settings.max_ttl(),
            node_timeout: node_timeout(settings.ttl(), settings.node_timeout()),
        })
    }

    pub(super) async fn look(&self) -> Sight {
        let (reports, listing) = tokio::join!(self.observer.reports(), self.observer.list("*"));
        let (at, time) = (Instant::now(), SystemTime::now());
        let mut findings = Vec::new();
        let standings = self.observer.standings_of(&reports);
        let causes = standings.iter().filter_map(|node| Some(node.quarantine()?.cause.clone()));
        let causes: Vec<Cause> = causes.collect();
        let is_fast = |node: &&Examined| node.facts.is_ok() && node.round_trip < self.node_timeout;
        let too_slow = one_less(reports.iter().filter(is_fast).count() > reports.len() / 2);
        let nodes = reports.iter().zip(standings).enumerate();
        let nodes = nodes.map(|(position, (node, standing))| {
            let (node, found) = self.node(position, node, standing, (&listing, &causes, too_slow));
            findings.extend(found);
            node
        });
        let nodes = nodes.collect();
        findings.extend(clocks(&reports, self.observer.agreement().skew()));
        findings.extend(endless(&listing));
        findings.extend(self.too_long(&listing));
        let locks = listing.locks.iter().map(|lock| seen(lock, at, time)).collect();
        Sight { at, time, nodes, locks, findings }
    }

    /// A node, and what is wrong with it.
    fn node(
        &self,
        at: usize,
        node: &Examined,
        standing: Standing,
        (listing, causes, too_slow): (&Listing, &[Cause], Level),
    ) -> (Node, Vec<Finding>) {
        let unlisted_for = listing.failed.iter().find(|(failed, _)| *failed == node.node);
        let mut found = Vec::new();
        let facts = node.facts.as_ref().ok();
        let mut has_begun = None;
        let other = self.observer.other_name(&node.node, &standing);
        let (stands, left, reason) = match (standing, node.refuses()) {
            (Standing::Admitted, None) => (Stands::Admitted, None, None),
            (Standing::Admitted | Standing::Failed(_), Some(why)) => {
                let finding = refusing(why);
                let words = finding.words.clone();
                found.push(finding);
                (Stands::Refusing, None, Some(words))
            }
            (Standing::Quarantined(out), _) => {
                let cause = cause_for(&self.observer, &out.cause);
                has_begun = facts.map(|facts| !is_unbegun(&out, facts));
                // A client that one node refuses does not begin the time of any other.
                let is_refused = causes.iter().any(Cause::is_conflict);
                let quarantined_for = match facts.filter(|_| !is_refused) {
                    Some(facts) => to_paste(&for_now(&out, facts), &self.typed),
                    None => for_another(&out),
                };
                let finding = Finding::warning(format!("{quarantined_for}: {cause}"));
                let ours = self.observer.agreement();
                let (name, typed) = (&node.node, &self.typed);
                let advice = advice_to(ours, other.as_ref(), causes, &out.cause, name, typed);
                let other = other.map_or(String::new(), |other| format!("{other}; "));
                found.push(finding.fix(other + &advice));
                (Stands::Quarantined, out.remaining, Some(cause))
            }
            (Standing::Failed(fault), None) => failed(&fault, &mut found),
            (other, _) => (Stands::Down, None, Some(format!("{other:?}"))),
        };
        if node.facts.is_ok() {
            found.extend(speed(node.round_trip, self.node_timeout, self.ttl, too_slow));
            found.extend(unlisted_for.and_then(|(_, fault)| unlisted(fault, &self.users[at])));
        }
        for finding in &mut found {
            finding.node = Some(node.label().into_owned());
        }
        let answers = node.facts.is_ok();
        let run = node.facts.as_ref().ok().map(|facts| Arc::clone(&facts.identity.run));
        let node = Node {
            name: node.node.to_string(),
            address: (node.address != node.node).then(|| node.address.to_string()),
            standing: stands,
            left,
            has_begun,
            reason,
            round_trip: answers.then_some(node.round_trip),
            clock_ahead: node.ahead.filter(|_| answers),
            lists: unlisted_for.is_none(),
            run,
        };
        (node, found)
    }

    /// The first lock that lives longer than any client may ask for.
    fn too_long(&self, listing: &Listing) -> Option<Finding> {
        let is_long = |lock: &&Listed| matches!(lock.state, LockState::Held { remaining: Some(left), .. } if left > self.max_ttl);
        let lock = listing.locks.iter().find(is_long)?;
        let words = format!(
            "the lock {} lives longer than max_ttl, {}: was a server's clock set back?",
            name::shown(lock.name.as_bytes()),
            show(self.max_ttl)
        );
        Some(Finding::warning(words))
    }
}

/// The standing of a node that reports nothing, and why it does not.
fn failed(fault: &Fault, found: &mut Vec<Finding>) -> (Stands, Option<Duration>, Option<String>) {
    found.push(Finding::warning(failed_text(fault)));
    (Stands::of(fault), None, Some(bare(fault)))
}

/// A lock, as if it were seen for the first time.
fn seen(lock: &Listed, at: Instant, time: SystemTime) -> Lock {
    let (state, left) = match lock.state {
        LockState::Held { remaining, .. } => (State::Held, remaining),
        LockState::Reserved { remaining, .. } => (State::Reserved, remaining),
        LockState::Free => (State::Free, None),
        _ => (State::Unclear, None),
    };
    let fencing_token = match lock.state {
        LockState::Held { fencing_token, .. } => fencing_token.map(FencingToken::get),
        _ => None,
    };
    let parts = lock.owner_parts.as_ref();
    let since = parts.and_then(|parts| parts.since).map(who::at);
    Lock {
        id: name::id(lock.name.as_bytes()),
        name: name::text(lock.name.as_bytes()),
        state,
        owner: lock.owner.clone(),
        host: parts.and_then(|parts| parts.host.clone()),
        pid: parts.and_then(|parts| parts.pid),
        user: parts.and_then(|parts| parts.user.clone()),
        command: parts.and_then(|parts| parts.command.clone()),
        since,
        held_for: since.and_then(|since| time.duration_since(since).ok()).unwrap_or_default(),
        first_seen: at,
        seen: Duration::ZERO,
        waiters: Some(lock.waiters),
        fencing_token,
        remaining: left,
        longest: left.unwrap_or_default(),
        is_renewed: true,
        runs_out: None,
        was_held: false,
        is_unseen: false,
        on: lock.nodes,
    }
}
