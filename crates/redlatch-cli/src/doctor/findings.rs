//! What the facts mean for locks.
//!
//! In:  what every node told. Out: findings, with the way to fix them.

use crate::{admit::for_another, duration::show, exit::Exit};
use redlatch::{
    Cause, Fault, RestartGuard, Standing, Vote,
    node::REDIS_PERMISSIONS,
    observer::{Agreement, Examined, Facts, Trial},
};
use serde::Serialize;
use std::time::Duration;

/// Clocks that NTP looks after are closer than this, in seconds.
const CLOCKS_DIFFER: f64 = 1.0;
/// The shortest answer time of a node that counts, and the longest.
const NODE_TIMEOUTS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    Note,
    Warning,
    Problem,
}

impl Level {
    pub(super) fn exit(self) -> Exit {
        match self {
            Level::Note => Exit::Done,
            Level::Warning => Exit::Warned,
            Level::Problem => Exit::Broken,
        }
    }
}

/// Something to know, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) node: Option<String>,
    pub(super) words: String,
    pub(super) fix: Option<String>,
}

impl Finding {
    fn new(level: Level, words: impl Into<String>) -> Self {
        Finding { level, node: None, words: words.into(), fix: None }
    }

    pub(super) fn problem(words: impl Into<String>) -> Self {
        Finding::new(Level::Problem, words)
    }

    pub(super) fn warning(words: impl Into<String>) -> Self {
        Finding::new(Level::Warning, words)
    }

    fn note(words: impl Into<String>) -> Self {
        Finding::new(Level::Note, words)
    }

    fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// What is known.
pub(super) struct Place<'a> {
    pub(super) examined: &'a [Examined],
    /// Where each node stands.
    pub(super) standings: &'a [Standing],
    pub(super) guard: RestartGuard,
    /// What all clients must agree on.
    pub(super) agreement: &'a Agreement,
    /// Who logs in, by node.
    pub(super) users: &'a [String],
    pub(super) prefix: &'a str,
    pub(super) ttl: Duration,
    pub(super) node_timeout: Option<Duration>,
}

impl Place<'_> {
    fn node_timeout(&self) -> Duration {
        let [least, most] = NODE_TIMEOUTS;
        self.node_timeout.unwrap_or((self.ttl / 20).clamp(least, most))
    }

    /// What the clients of that node agree on, in words, if it is not what we do.
    fn other(&self, facts: &Facts) -> Option<String> {
        // A node that was never admitted serves nobody with the guard.
        facts.marker.as_ref()?;
        let theirs = facts.agreement.as_deref().and_then(Agreement::parse);
        // Which of the nodes it is says the standing.
        let same = theirs.as_ref().is_some_and(|theirs| {
            let terms = |of: &Agreement| (of.nodes().to_vec(), of.max_ttl(), of.skew());
            terms(theirs) == terms(self.agreement)
        });
        (!same).then(|| theirs.as_ref().map_or("settings that are not known".into(), in_a_line))
    }

    /// Whether the nodes tell what their clients agree on.
    pub(super) fn is_told(&self) -> bool {
        known(self.examined).any(|(_, facts)| facts.marker.is_some())
    }
}

pub(super) fn examine_all(place: &Place<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, node) in place.examined.iter().enumerate() {
        let mut of_node = match &node.facts {
            Ok(facts) => {
                let guarded = guarded(facts, &node.node, &place.standings[at], place);
                guarded.into_iter().chain(examine(facts, node, place)).collect()
            }
            Err(fault) => vec![unfit(fault, &place.users[at], place.prefix)],
        };
        of_node.extend(trial(&node.trial, &place.users[at], place.prefix));
        for finding in &mut of_node {
            finding.node = Some(node.node.to_string());
        }
        findings.append(&mut of_node);
    }
    findings.extend(same_server(place.examined));
    findings.extend(clocks(place));
    findings.extend(versions(place.examined));
    findings.extend(count(place.examined));
    findings.extend(votes(place));
    findings
}

fn unfit(fault: &Fault, user: &str, prefix: &str) -> Finding {
    let finding = match fault {
        Fault::Unfit(why) | Fault::WrongAddress(why) => {
            Finding::problem(format!("it cannot be a node: {why}"))
        }
        fault => Finding::problem(format!("it does not answer: {fault}")),
    };
    let words = fault.to_string();
    if is_permission(&words) {
        finding.fix(acl_line(user, prefix))
    } else if words.contains("maxmemory-policy") {
        finding.fix(KEEP)
    } else {
        finding
    }
}

/// How a server is told to keep its keys.
const KEEP: &str = "CONFIG SET maxmemory-policy noeviction";

/// What the restart guard makes of a node.
fn guarded(facts: &Facts, name: &str, stands: &Standing, place: &Place<'_>) -> Option<Finding> {
    if let Some(theirs) = place.other(facts) {
        let words = format!(
            "its clients have another list of nodes, or other times: {theirs}; ours: {}",
            in_a_line(place.agreement)
        );
        let fix = format!(
            "give all clients the same settings; if the change is meant for all clients: \
             redlatch admit --replace {name}"
        );
        return Some(Finding::problem(words).fix(fix));
    }
    let Standing::Quarantined(quarantine) = stands else { return None };
    let out = for_another(quarantine);
    Some(match &quarantine.cause {
        Cause::OtherNode { is, .. } => Finding::problem(format!(
            "another server answers under this address: it is admitted as {is}, and does not vote \
             as {name}"
        ))
        .fix(format!(
            "point {name} back to a server of its own (DNS, NAT, proxy, port forward); or, if \
             names were swapped for good: redlatch admit --replace --all"
        )),
        Cause::Forgot => Finding::warning(format!(
            "{out}: it may have forgotten locks (restarted, flushed, promoted or new)"
        ))
        .fix(format!(
            "redlatch admit --wait {name}; or, if no lock that it held can still be in use: \
             redlatch admit {name}"
        )),
        _ => Finding::problem(format!(
            "{out}: it is being taken by clients with another list of nodes, or other times"
        ))
        .fix(format!("let that end; or, to take it back: redlatch admit --replace {name}")),
    })
}

fn in_a_line(agreement: &Agreement) -> String {
    let (nodes, times) = (agreement.nodes().join(", "), [agreement.max_ttl(), agreement.skew()]);
    let [max_ttl, skew] = times.map(show);
    format!("{nodes} with max_ttl {max_ttl} and skew {skew}")
}

/// Whether there are enough nodes that may vote, and a guard over them.
fn votes(place: &Place<'_>) -> Option<Finding> {
    let nodes = place.examined.len();
    if place.guard == RestartGuard::Off {
        let finding = Finding::warning(
            "the restart guard is off: a node that has forgotten its locks votes at once, and two \
             can hold one lock",
        );
        return (nodes > 1)
            .then(|| finding.fix("restart_guard = \"on\", for all who share the nodes"));
    }
    let quarantined = |stands: &&Standing| matches!(stands, Standing::Quarantined(_));
    let admitted = place.standings.iter().filter(|stands| **stands == Standing::Admitted).count();
    let out = place.standings.iter().filter(quarantined).count();
    (out > 0 && admitted <= nodes / 2).then(|| {
        let words = format!("{admitted} of {nodes} nodes may vote: no lock can be taken now");
        let finding = Finding::problem(words);
        // Those with other clients would be waited for in vain.
        let waiting = !known(place.examined).any(|(_, facts)| place.other(facts).is_some());
        if waiting { finding.fix("redlatch admit --wait") } else { finding }
    })
}

fn examine(facts: &Facts, node: &Examined, place: &Place<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let policy = facts.eviction.as_deref();
    match policy {
        None => {}
        Some("noeviction") => findings.push(Finding::note(
            "its memory is limited: when it is full, no lock can be taken here",
        )),
        // Otherwise it would have been refused.
        Some(policy) => findings.push(
            Finding::warning(format!(
                "it throws away keys, also locks that are held, when its memory is full ({policy}); \
                 ?allow_eviction=yes lets it vote all the same"
            ))
            .fix(KEEP),
        ),
    }
    if let Some(evicted @ 1..) = facts.evicted {
        let words = format!("it has thrown away {evicted} keys since it was started");
        findings.push(Finding::warning(words));
    }
    if facts.journal == Some(false) {
        let forgets = "a crash or restart makes it forget its locks";
        findings.push(match place.guard {
            RestartGuard::Off => {
                let words = format!("{forgets}: others can take locks that are still held");
                Finding::warning(words).fix("CONFIG SET appendonly yes, and appendfsync always")
            }
            RestartGuard::On | RestartGuard::Strict => {
                let window = show(place.agreement.window());
                Finding::note(format!("{forgets}: it does not vote for {window} then"))
            }
        });
    }
    if let Some(replicas @ 1..) = facts.replicas {
        findings.push(Finding::warning(format!(
            "it has {replicas} replicas: after a failover, locks may be forgotten; \
             do not let it fail over by itself"
        )));
    }
    if facts.promoted {
        let words = "it was a replica: what its master did not pass on in time is forgotten";
        findings.push(Finding::warning(words));
    }
    findings.extend(speed(node.round_trip, place));
    findings
}

fn speed(round_trip: Duration, place: &Place<'_>) -> Option<Finding> {
    let (limit, ttl) = (place.node_timeout(), show(place.ttl));
    let words = format!("it answers in {round_trip:.1?}, and has {limit:?} with a TTL of {ttl}");
    let fix = "raise --node-timeout, or --ttl";
    if round_trip >= limit {
        Some(Finding::problem(format!("{words}: it would never vote")).fix(fix))
    } else if round_trip >= limit / 2 {
        Some(Finding::warning(words).fix(fix))
    } else {
        None
    }
}

fn trial(trial: &Trial, user: &str, prefix: &str) -> Option<Finding> {
    let Trial::Failed { vote, .. } = trial else { return None };
    let finding = Finding::problem(trial.to_string());
    // A script that may not read a key finds it gone.
    let denied = matches!(vote, Vote::Gone) || is_permission(&vote.to_string());
    Some(if denied { finding.fix(acl_line(user, prefix)) } else { finding })
}

fn is_permission(words: &str) -> bool {
    words.contains("NOPERM")
        || words.contains("can't run this command")
        || words.contains("permission")
}

/// What gives a user all that locks need, and nothing more.
fn acl_line(user: &str, prefix: &str) -> String {
    format!("ACL SETUSER {user} {REDIS_PERMISSIONS} ~redlatch:* ~{prefix}*")
}

fn known(examined: &[Examined]) -> impl Iterator<Item = (&str, &Facts)> {
    examined.iter().filter_map(|node| Some((&*node.node, node.facts.as_ref().ok()?)))
}

fn same_server(examined: &[Examined]) -> Vec<Finding> {
    let nodes: Vec<_> = known(examined).collect();
    let mut findings = Vec::new();
    for (at, (name, facts)) in nodes.iter().enumerate() {
        let same = |(_, other): &&(&str, &Facts)| other.identity.run == facts.identity.run;
        if let Some((first, _)) = nodes[..at].iter().find(same) {
            let words = format!(
                "{first} and {name} are one and the same server: its vote would count twice"
            );
            findings.push(Finding::problem(words));
        }
    }
    findings
}

fn clocks(place: &Place<'_>) -> Option<Finding> {
    let mut clocks: Vec<(f64, &str)> =
        place.examined.iter().filter_map(|node| Some((node.ahead?, &*node.node))).collect();
    clocks.push((0.0, "this machine"));
    clocks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((slow, behind), (fast, ahead)) = (*clocks.first()?, *clocks.last()?);
    let apart = fast - slow;
    if apart < CLOCKS_DIFFER {
        return None;
    }
    let words = format!("the clock of {ahead} is {apart:.1} s ahead of that of {behind}");
    let finding = if apart < place.agreement.skew().as_secs_f64() {
        Finding::warning(words)
    } else {
        Finding::problem(words)
    };
    Some(finding.fix("run chrony or another NTP client on all of them"))
}

fn versions(examined: &[Examined]) -> Option<Finding> {
    let mut versions: Vec<&str> =
        known(examined).map(|(_, facts)| &*facts.identity.version).collect();
    versions.sort_unstable();
    versions.dedup();
    (versions.len() > 1).then(|| Finding::note(format!("versions differ: {}", versions.join(", "))))
}

fn count(examined: &[Examined]) -> Option<Finding> {
    let nodes = examined.len();
    match nodes {
        1 if examined[0].node.starts_with("file:") => {
            Some(Finding::note("the locks are in a file: they hold on this machine only"))
        }
        1 => Some(Finding::warning(
            "there is one node: without it there are no locks, and what it forgets is forgotten; \
             3 or 5 nodes survive that",
        )),
        _ if nodes.is_multiple_of(2) => Some(Finding::warning(format!(
            "there are {nodes} nodes: they stand no more failures than {} would; use an odd number",
            nodes - 1
        ))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redlatch::Holder;

    #[test]
    fn a_denied_command_is_answered_with_the_line_that_allows_it() {
        let denied = Fault::Refused("NOPERM this user has no permissions".into());
        let failed = Trial::Failed { step: "take", vote: Vote::Failed(denied) };

        let fix = trial(&failed, "ada", "deploy:").unwrap().fix.unwrap();

        assert!(fix.starts_with("ACL SETUSER ada ") && fix.ends_with(" ~deploy:*"), "{fix}");
        assert!(fix.contains("+evalsha"), "{fix}");
        let held = Trial::Failed { step: "take", vote: Vote::Held(Holder::default()) };
        assert_eq!(trial(&held, "ada", "").unwrap().fix, None);
    }

    #[test]
    fn a_node_too_slow_for_the_ttl_is_a_problem() {
        let agreement = Agreement::new([], Duration::from_secs(30), Duration::from_secs(30));
        let place = |node_timeout| Place {
            examined: &[],
            standings: &[],
            guard: RestartGuard::Off,
            agreement: &agreement,
            users: &[],
            prefix: "",
            ttl: Duration::from_secs(1),
            node_timeout,
        };
        let level = |ms, timeout: Option<Duration>| {
            speed(Duration::from_millis(ms), &place(timeout)).map(|finding| finding.level)
        };

        assert_eq!(level(1, None), None);
        assert_eq!(level(30, None), Some(Level::Warning));
        assert_eq!(level(60, None), Some(Level::Problem));
        assert_eq!(level(60, Some(Duration::from_secs(1))), None);
    }

    #[test]
    fn the_worst_finding_decides() {
        let findings = [Finding::note("a"), Finding::problem("b"), Finding::warning("c")];

        let worst =
            findings.iter().map(|finding| finding.level.exit()).fold(Exit::Done, Exit::worse);

        assert_eq!(worst, Exit::Broken);
    }
}
