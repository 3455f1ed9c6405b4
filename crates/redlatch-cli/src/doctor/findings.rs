//! What the facts mean for locks.
//!
//! In:  what every node reported. Out: findings, with fixes.

use super::probe::Listener;
use crate::{
    admit::{for_another, for_now},
    duration::show,
    event::Scope,
    exit::Exit,
    failure::to_paste,
    look::{grant_reading, unread},
    settings::quoted,
    share,
};
use redlatch::{
    Cause, Fault, LockState, RestartGuard, Standing, Vote,
    node::OtherName,
    observer::{Agreement, Examined, Facts, Listed, Listing, Refusal, Taking, Trial, advice_to},
};
use serde::Serialize;
use std::{path::Path, time::Duration};

/// Clocks kept in sync by NTP differ by less than this, in seconds.
const CLOCKS_DIFFER: f64 = 1.0;
/// The shortest and the longest default node timeout.
const NODE_TIMEOUTS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(500)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Level {
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

/// An observation, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) node: Option<String>,
    pub(crate) words: String,
    pub(crate) fix: Option<String>,
    /// Whether it says that no lock can be taken.
    #[serde(skip)]
    pub(super) is_outage: bool,
}

impl Finding {
    fn new(level: Level, words: impl Into<String>) -> Self {
        Finding { level, node: None, words: words.into(), fix: None, is_outage: false }
    }

    pub(crate) fn problem(words: impl Into<String>) -> Self {
        Finding::new(Level::Problem, words)
    }

    pub(crate) fn warning(words: impl Into<String>) -> Self {
        Finding::new(Level::Warning, words)
    }

    pub(super) fn note(words: impl Into<String>) -> Self {
        Finding::new(Level::Note, words)
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// What we know about the nodes and our settings.
pub(super) struct Evidence<'a> {
    pub(super) examined: &'a [Examined],
    /// What listens where a node does not answer.
    pub(super) listeners: &'a [Option<Listener>],
    /// Each node's standing.
    pub(super) standings: &'a [Standing],
    /// The other name that each node's clients use for it, if any.
    pub(super) other_names: &'a [Option<OtherName>],
    /// How far others have got with taking each node from our list.
    pub(super) takings: &'a [Option<Taking>],
    pub(super) guard: RestartGuard,
    /// What all clients must agree on.
    pub(super) agreement: &'a Agreement,
    /// The user that logs in, for each node.
    pub(super) users: &'a [String],
    pub(super) prefix: &'a str,
    pub(super) scope: Scope,
    /// The options that another command needs to find the same nodes.
    pub(super) typed: &'a str,
    pub(super) ttl: Duration,
    pub(super) node_timeout: Option<Duration>,
}

impl Evidence<'_> {
    /// How the settings of that node's clients differ from ours, in words, if they do.
    fn other(&self, facts: &Facts) -> Option<String> {
        // A node that was never admitted has no clients with the guard.
        facts.marker.as_ref()?;
        let theirs = facts.agreement.as_deref().and_then(Agreement::parse);
        // Which node of the list it is, is not compared here: the standing says that.
        let same = theirs.as_ref().is_some_and(|theirs| {
            let terms = |of: &Agreement| (of.nodes().to_vec(), of.max_ttl(), of.skew());
            terms(theirs) == terms(self.agreement)
        });
        let difference = |theirs| self.agreement.difference(theirs);
        (!same).then(|| theirs.as_ref().map_or("settings that are not known".into(), difference))
    }

    /// How many nodes may vote, and do.
    fn votes(&self) -> usize {
        let nodes = self.standings.iter().zip(self.examined);
        let votes = |(stands, node): &(&Standing, &Examined)| {
            let is_tried = !matches!(node.trial, Trial::Failed { .. });
            let is_fast = node.round_trip < self.limit();
            **stands == Standing::Admitted && node.refuses().is_none() && is_tried && is_fast
        };
        nodes.filter(votes).count()
    }

    /// How long a node has for its answer.
    fn limit(&self) -> Duration {
        node_timeout(self.ttl, self.node_timeout)
    }

    /// Whether locks can be taken.
    fn has_majority(&self) -> bool {
        self.votes() > self.standings.len() / 2
    }

    /// A problem if it is a reason why no lock can be taken, else a warning.
    fn one_less(&self, words: impl Into<String>) -> Finding {
        Finding::new(one_less(self.has_majority()), words)
    }

    /// A node that would vote, but refuses writes.
    fn refusing(&self, why: Refusal) -> Finding {
        let Finding { words, fix, .. } = refusing(why);
        Finding { fix, ..self.one_less(words) }
    }

    /// Whether any node says what its clients agree on.
    pub(super) fn is_told(&self) -> bool {
        known(self.examined).any(|(_, facts)| facts.marker.is_some())
    }
}

/// How bad it is that a node does not vote, depending on whether the others form a
/// majority.
pub(crate) fn one_less(have_majority: bool) -> Level {
    if have_majority { Level::Warning } else { Level::Problem }
}

pub(super) fn examine_all(evidence: &Evidence<'_>) -> Vec<Finding> {
    let mut findings = Vec::from_iter(outage(evidence));
    for (at, node) in evidence.examined.iter().enumerate() {
        let mut of_node = match &node.facts {
            Ok(facts) => {
                let guarded = guarded(facts, &node.node, at, evidence);
                guarded.into_iter().chain(examine(facts, at, evidence)).collect()
            }
            Err(_) if node.refuses().is_some() => Vec::new(),
            Err(fault) => vec![match evidence.listeners[at] {
                Some(listener) => mistaken(listener, &node.address, evidence),
                None => unfit(fault, &node.address, evidence),
            }],
        };
        of_node.extend(match node.refuses() {
            Some(why) => Some(evidence.refusing(why)),
            None => trial(&node.trial, &evidence.users[at], evidence.prefix)
                .map(|Finding { words, fix, .. }| Finding { fix, ..evidence.one_less(words) }),
        });
        for finding in &mut of_node {
            finding.node = Some(node.node.to_string());
        }
        findings.append(&mut of_node);
    }
    findings.extend(same_server(evidence.examined));
    findings.extend(clocks(evidence.examined, evidence.agreement.skew()));
    findings.extend(versions(evidence.examined));
    findings.extend(count(evidence));
    findings.extend(unguarded(evidence));
    findings.extend(untried(evidence));
    findings
}

/// Says that no majority of the nodes votes.
pub(crate) fn too_few(votes: usize, nodes: usize) -> String {
    let how_many = match nodes {
        1 => "the only node does not vote".into(),
        nodes => format!("{votes} of {nodes} nodes may vote, {} must", nodes / 2 + 1),
    };
    format!("no lock can be taken: {how_many}")
}

/// No majority may vote. The first of all findings.
fn outage(evidence: &Evidence<'_>) -> Option<Finding> {
    if evidence.has_majority() {
        return None;
    }
    let (votes, nodes) = (evidence.votes(), evidence.standings.len());
    let finding = Finding { is_outage: true, ..Finding::problem(too_few(votes, nodes)) };
    // It is no use waiting for nodes that serve clients with other settings.
    let in_vain = known(evidence.examined).any(|(_, facts)| evidence.other(facts).is_some());
    let nodes = evidence.examined.iter().zip(evidence.standings);
    let forgot = nodes.filter(|(_, standing)| {
        standing.quarantine().is_some_and(|out| out.cause == Cause::Forgot)
    });
    let forgot: Vec<_> = forgot.map(|(node, _)| quoted(&node.node)).collect();
    if in_vain || forgot.is_empty() {
        return Some(finding);
    }
    // Without names, it would wait for those that are down as well.
    let is_all = votes + forgot.len() == evidence.standings.len();
    let which = if is_all { String::new() } else { format!(" {}", forgot.join(" ")) };
    let fix = format!("redlatch admit --wait{which} {}", evidence.typed);
    Some(finding.fix(fix.trim_end()))
}

/// A different kind of server or protocol than the address says.
fn mistaken(listener: Listener, address: &str, evidence: &Evidence<'_>) -> Finding {
    let (words, fix) = match listener {
        Listener::Tls => (
            "it does not answer: it wants TLS, and the address says redis://",
            format!("write {}", address.replacen("redis://", "rediss://", 1)),
        ),
        Listener::Plain => (
            "it does not answer: it has no TLS at this port, and the address says rediss://",
            format!(
                "name its TLS port; or, if the network is trusted, write {}",
                address.replacen("rediss://", "redis://", 1)
            ),
        ),
        Listener::Sentinel => (
            "it cannot be used: it is a Sentinel, which keeps no keys",
            "name the independent servers themselves; a failover group is not suitable for locks"
                .into(),
        ),
    };
    let finding = match listener {
        Listener::Sentinel => Finding::problem(words),
        _ => evidence.one_less(words),
    };
    finding.fix(fix)
}

/// A node that would vote, but refuses writes.
pub(crate) fn refusing(why: Refusal) -> Finding {
    let finding = Finding::warning(format!("refuses writes: {why}"));
    match why {
        Refusal::MemoryFull => finding.fix("give it more memory (maxmemory), or delete other data"),
        Refusal::CannotSave => finding.fix("make room on its disk; its log says what fails"),
        Refusal::DiskFull => finding.fix(MAKE_ROOM),
        Refusal::TooFewReplicas => finding.fix("CONFIG SET min-replicas-to-write 0"),
        _ => finding,
    }
}

/// A user who may take locks, but not list them.
pub(crate) fn unlisted(fault: &Fault, user: &str) -> Option<Finding> {
    let is_denied = is_permission(&fault.to_string()) && !matches!(fault, Fault::Unfit(_));
    is_denied.then(|| {
        let words = "this user may not list locks: `redlatch ls` and `redlatch admit` need that";
        Finding::warning(words).fix(format!("ACL SETUSER {user} +scan"))
    })
}

/// A user who may not read all keys.
pub(crate) fn left_out(keys: usize, user: &str) -> Finding {
    let words = format!("`redlatch ls`, `top` and the exporter leave out {}", unread(keys));
    Finding::note(words).fix(grant_reading(user))
}

/// What to do about the key of a lock that never expires.
pub(crate) const DELETE: &str = "if nobody is at work under the lock, delete its key on every node";

/// Locks that never expire, because their keys have no TTL.
pub(crate) fn endless(listing: &Listing) -> Option<Finding> {
    let is_endless = |lock: &&Listed| matches!(lock.state, LockState::Held { remaining: None, .. });
    let endless: Vec<&Listed> = listing.locks.iter().filter(is_endless).collect();
    let first = endless.first()?.name.to_string();
    let more = match endless.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let words = format!("the lock {first}{more} never expires: its key has no TTL");
    Some(Finding::warning(words).fix(DELETE))
}

fn unfit(fault: &Fault, address: &str, evidence: &Evidence<'_>) -> Finding {
    let finding = match fault {
        // Nobody can connect with such a list.
        Fault::WrongAddress(why) => Finding::problem(format!("it cannot be used: {why}")),
        Fault::Unfit(why) => {
            let file = address.strip_prefix("file:").map(Path::new);
            let obstacle = file.and_then(share::obstacle);
            let why = obstacle.as_deref().unwrap_or(why);
            let asked = ["; grant it: ", share::TO_SHARE];
            let (why, fix) = match asked.iter().find_map(|fix| why.split_once(fix)) {
                Some((why, fix)) => (why, Some(fix.to_owned())),
                None => (why, None),
            };
            Finding { fix, ..evidence.one_less(format!("it cannot be used: {why}")) }
        }
        fault if evidence.has_majority() => {
            Finding::warning(format!("it does not answer: {fault}; the others work without it"))
        }
        fault => Finding::problem(format!("it does not answer: {fault}")),
    };
    let words = fault.to_string();
    if words.contains("maxmemory-policy") {
        finding.fix(KEEP)
    } else if words.contains("WRONGPASS") {
        finding.fix(LOG_IN)
    } else {
        finding
    }
}

/// What to do about a password that a server does not accept.
const LOG_IN: &str = "write the user and the password that the server has: the user in the address, the \
                      password in password_file or password_env; or change it there (ACL SETUSER)";

/// What to do about an embedded node whose disk is full.
const MAKE_ROOM: &str = "free some space on the disk that it is on";

/// The command that stops a server from evicting keys.
const KEEP: &str = "CONFIG SET maxmemory-policy noeviction";

/// What the restart guard says about a node.
fn guarded(facts: &Facts, name: &str, at: usize, evidence: &Evidence<'_>) -> Option<Finding> {
    if let Some(theirs) = evidence.other(facts) {
        let words = format!("its clients have {theirs}");
        let other = evidence.other_names[at].as_ref();
        let other = other.map_or(String::new(), |other| format!("{other}; "));
        let cause = Cause::Disagrees(facts.agreement.clone());
        // What works depends on the servers, no matter what they are called.
        let theirs = facts.agreement.as_deref().and_then(Agreement::parse);
        let in_their_words =
            theirs.map(|theirs| evidence.agreement.in_words_of(&theirs, known(evidence.examined)));
        let ours = in_their_words.as_ref().unwrap_or(evidence.agreement);
        let fix = other + &advice_to(ours, None, [], &cause, name, evidence.typed);
        return Some(evidence.one_less(words).fix(fix));
    }
    let Standing::Quarantined(quarantine) = &evidence.standings[at] else { return None };
    let causes = || evidence.standings.iter().filter_map(|node| Some(&node.quarantine()?.cause));
    // A client that one node refuses does not begin the time of any other.
    let is_refused = causes().any(Cause::is_conflict);
    let out = if is_refused { for_another(quarantine) } else { for_now(quarantine, facts) };
    let out = to_paste(&out, evidence.typed);
    let (ours, cause) = (evidence.agreement, &quarantine.cause);
    let fix = advice_to(ours, None, causes(), cause, name, evidence.typed);
    Some(match &quarantine.cause {
        Cause::OtherNode { is, .. } => Finding::problem(format!(
            "another server answers under this address: it is admitted as {is}, and does not vote \
             as {name}"
        ))
        .fix(fix),
        Cause::Disagrees(_) => taken(&out, name, at, evidence),
        _ => Finding::warning(format!("{out}: {}", quarantine.cause)).fix(fix),
    })
}

/// A node that clients with other settings have begun to take.
fn taken(out: &str, name: &str, at: usize, evidence: &Evidence<'_>) -> Finding {
    let back = format!("redlatch admit --replace {} {}", quoted(name), evidence.typed);
    let back = back.trim_end();
    let others = "clients with another list of nodes, or other times";
    let (words, fix) = match evidence.takings[at] {
        Some(Taking::Abandoned) => (
            format!("{out}: {others} began to take it, and stopped halfway"),
            format!("take it back: {back}"),
        ),
        Some(_) => (
            format!("{out}: it is being taken by {others}"),
            format!(
                "if that is meant, give this host their settings; if not, take it back: {back}"
            ),
        ),
        None => (
            format!("{out}: it is being taken by {others}"),
            "let that end, or finish it with their settings".into(),
        ),
    };
    evidence.one_less(words).fix(fix)
}

/// Reports that several nodes have no restart guard.
fn unguarded(evidence: &Evidence<'_>) -> Option<Finding> {
    let finding = Finding::warning(
        "the restart guard is off: a node that has forgotten its locks votes at once, and two \
         can hold one lock",
    );
    (evidence.guard == RestartGuard::Off && evidence.examined.len() > 1)
        .then(|| finding.fix("restart_guard = \"on\", for all who share the nodes"))
}

fn examine(facts: &Facts, at: usize, evidence: &Evidence<'_>) -> Vec<Finding> {
    let (node, user) = (&evidence.examined[at], &evidence.users[at]);
    let mut findings = Vec::new();
    let policy = facts.eviction.as_deref();
    match policy {
        None => {}
        Some("noeviction") => findings.push(Finding::note(
            "its memory is limited: when it is full, no lock can be taken here",
        )),
        // The address allows eviction, or the node would have been refused.
        Some(policy) => findings.push(
            Finding::warning(format!(
                "it evicts keys, even locks that are held, when its memory is full ({policy}); \
                 ?allow_eviction=yes lets it vote anyway"
            ))
            .fix(KEEP),
        ),
    }
    if let Some(evicted @ 1..) = facts.evicted {
        let words = format!("it has evicted {evicted} keys since it started");
        findings.push(Finding::warning(words));
    }
    if facts.journal == Some(false) {
        let forgets = "a crash or restart makes it forget its locks";
        findings.push(if evidence.guard == RestartGuard::Off {
            let words = format!("{forgets}: others can take locks that are still held");
            Finding::warning(words).fix(REMEMBER)
        } else {
            let window = show(evidence.agreement.window());
            Finding::note(format!("{forgets}: it does not vote for {window} then"))
        });
    }
    if let Some(replicas @ 1..) = facts.replicas {
        findings.push(Finding::warning(format!(
            "it has {replicas} replicas: after a failover, locks may be forgotten; \
             do not let it fail over by itself"
        )));
    }
    if facts.promoted {
        let words = "it was a replica: whatever its master had not replicated in time is lost";
        findings.push(Finding::warning(words));
    }
    findings.extend(crowded(facts));
    findings.extend(unwoken(facts, user));
    let too_slow = one_less(evidence.has_majority());
    findings.extend(speed(node.round_trip, evidence.limit(), evidence.ttl, too_slow));
    findings
}

/// A user who may take locks, but not wake others or be woken.
fn unwoken(facts: &Facts, user: &str) -> Option<Finding> {
    let lacks = facts.unwoken.as_deref()?;
    let words = format!("waiting clients are woken late: this user lacks {lacks}");
    Some(Finding::warning(words).fix(format!("ACL SETUSER {user} {lacks}")))
}

/// What makes a server remember its locks.
const REMEMBER: &str = "`CONFIG SET appendonly yes`, `CONFIG SET appendfsync always`, and \
                        `CONFIG REWRITE`, or both last only until the next restart";

/// A server that has nearly as many clients as it accepts.
fn crowded(facts: &Facts) -> Option<Finding> {
    let (clients, most) = (facts.clients?, facts.max_clients?);
    (clients.saturating_mul(10) >= most.saturating_mul(9)).then(|| {
        let words = format!(
            "{clients} clients are connected, and it accepts {most}: at that limit it refuses \
             further clients, and does not vote for them"
        );
        Finding::warning(words).fix(
            "raise maxclients (CONFIG SET maxclients N), or close what is not needed (CLIENT LIST)",
        )
    })
}

/// How long a node has for its answer.
pub(crate) fn node_timeout(ttl: Duration, set: Option<Duration>) -> Duration {
    let [least, most] = NODE_TIMEOUTS;
    set.unwrap_or((ttl / 20).clamp(least, most))
}

/// A node that answers too slowly (as bad as the given level), or almost too slowly.
pub(crate) fn speed(
    round_trip: Duration,
    limit: Duration,
    ttl: Duration,
    too_slow: Level,
) -> Option<Finding> {
    let ttl = show(ttl);
    let words = format!("it answers in {round_trip:.1?}, and has {limit:?} with a TTL of {ttl}");
    let fix = "raise --node-timeout, or --ttl";
    if round_trip >= limit {
        Some(Finding::new(too_slow, format!("{words}: it would never vote")).fix(fix))
    } else if round_trip >= limit / 2 {
        Some(Finding::warning(words).fix(fix))
    } else {
        None
    }
}

fn trial(trial: &Trial, user: &str, prefix: &str) -> Option<Finding> {
    let Trial::Failed { vote, .. } = trial else { return None };
    let finding = Finding::problem(trial.to_string());
    // To a script that may not read a key, the key looks gone.
    let words = vote.to_string();
    let denied = matches!(vote, Vote::Gone) || (is_permission(&words) && words.contains(" key"));
    Some(if denied { finding.fix(acl_line(user, prefix)) } else { finding })
}

fn is_permission(words: &str) -> bool {
    words.contains("NOPERM")
        || words.contains("can't run this command")
        || words.contains("permission")
}

/// The command that lets a user lock names that start with this.
fn acl_line(user: &str, prefix: &str) -> String {
    let keys = if prefix == UNNAMED { "redlatch:" } else { prefix };
    format!("ACL SETUSER {user} ~{keys}*")
}

/// How the name of the test lock starts by default. No job can lock such a name.
pub(crate) const UNNAMED: &str = "redlatch:doctor:";

/// A user other than the default one may be allowed to lock only some names, but only a
/// name of ours was tried.
fn untried(evidence: &Evidence<'_>) -> Option<Finding> {
    // A user name that no server has accepted may be a password in the wrong place.
    let accepted =
        evidence.users.iter().zip(evidence.examined).filter(|(_, node)| node.facts.is_ok());
    let (user, _) = accepted.into_iter().find(|(user, _)| *user != "default")?;
    (evidence.prefix == UNNAMED).then(|| {
        let words =
            format!("whether the user {user} may lock the names of your jobs was not checked");
        Finding::note(words).fix("redlatch doctor --prefix NAME")
    })
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

/// Clocks that are far apart.
pub(crate) fn clocks(examined: &[Examined], skew: Duration) -> Option<Finding> {
    let nodes = examined.iter().filter_map(|node| Some((node.ahead?, &*node.node)));
    let (apart, mut words) = far_apart(nodes.collect())?;
    if apart >= skew.as_secs_f64() {
        words.push_str(
            ": locks work, since clocks need not show the same time; but a server whose clock is \
             then set forward drops locks early",
        );
    }
    let fix = "run chrony or another NTP client on all of them; let it adjust the clocks slowly";
    Some(Finding::warning(words).fix(fix))
}

/// How far apart the clocks of the nodes and of this machine are, in seconds and in words;
/// `None` if they agree. Each node comes with the seconds that it is ahead of this
/// machine.
fn far_apart(mut clocks: Vec<(f64, &str)>) -> Option<(f64, String)> {
    clocks.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let [(first, _), .., (last, _)] = clocks[..]
        && last - first < CLOCKS_DIFFER
    {
        let ahead = first.midpoint(last);
        let side = if ahead < 0.0 { "ahead of" } else { "behind" };
        let apart = ahead.abs();
        let words = format!("the clock of this machine is {apart:.1} s {side} those of all nodes");
        return (apart >= CLOCKS_DIFFER).then_some((apart, words));
    }
    clocks.push((0.0, "this machine"));
    clocks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((slow, behind), (fast, ahead)) = (*clocks.first()?, *clocks.last()?);
    let apart = fast - slow;
    let words = format!("the clock of {ahead} is {apart:.1} s ahead of that of {behind}");
    (apart >= CLOCKS_DIFFER).then_some((apart, words))
}

fn versions(examined: &[Examined]) -> Option<Finding> {
    let mut versions: Vec<&str> =
        known(examined).map(|(_, facts)| &*facts.identity.version).collect();
    versions.sort_unstable();
    versions.dedup();
    (versions.len() > 1).then(|| Finding::note(format!("versions differ: {}", versions.join(", "))))
}

/// The finding about the file in the directory for all users. A user who may not use it has
/// been told why.
fn of_all(file: &Path) -> Option<Finding> {
    match share::withheld(file) {
        Some((whose, fix)) => share::obstacle(file).is_none().then(|| {
            let words = format!(
                "the directory is for all users of this machine, but the file in it is not: \
                 {whose}; others are refused"
            );
            Finding::warning(words).fix(fix)
        }),
        None => Some(Finding::note("the locks are in a file that the users of this machine share")),
    }
}

fn count(evidence: &Evidence<'_>) -> Option<Finding> {
    let examined = evidence.examined;
    let nodes = examined.len();
    match nodes {
        1 if examined[0].address.starts_with("file:") => match evidence.scope {
            Scope::User => {
                let words = "the locks are in a file of this user: they exclude no other user of \
                             this machine";
                let fix = format!("as root, for all: install -d -m 2770 -g GROUP {}", share::PLACE);
                Some(Finding::note(words).fix(fix))
            }
            Scope::Machine => of_all(Path::new(examined[0].address.trim_start_matches("file:"))),
            Scope::Nodes => {
                Some(Finding::note("the locks are in a file: they hold on this machine only"))
            }
        },
        1 => Some(Finding::warning(
            "there is only one node: if it fails, no lock can be taken, and what it forgets is lost; \
             3 or 5 nodes survive that",
        )),
        2 => Some(Finding::warning(
            "there are 2 nodes: if either of them fails, no lock can be taken; use 3",
        )),
        _ if nodes.is_multiple_of(2) => Some(Finding::warning(format!(
            "there are {nodes} nodes: they survive no more failures than {} would; use an odd number",
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
    fn a_denied_key_is_answered_with_the_line_that_allows_it() {
        let denied = "NOPERM this user has no permissions to access one of the keys";
        let denied = Fault::Refused(denied.into());
        let failed = Trial::Failed { step: "take", vote: Vote::Failed(denied) };

        let fix = trial(&failed, "ada", "deploy:").unwrap().fix.unwrap();

        assert_eq!(fix, "ACL SETUSER ada ~deploy:*");
        let held = Trial::Failed { step: "take", vote: Vote::Held(Holder::default()) };
        assert_eq!(trial(&held, "ada", "").unwrap().fix, None);
    }

    #[test]
    fn where_the_nodes_agree_the_clock_of_this_machine_is_to_blame() {
        let words = |clocks: &[f64]| {
            let names = clocks.iter().copied().zip(["a", "b", "c"]);
            far_apart(names.collect()).map(|(_, words)| words)
        };

        let behind = "the clock of this machine is 7200.2 s behind those of all nodes";
        assert_eq!(words(&[7200.1, 7200.3, 7200.2]).as_deref(), Some(behind));
        let ahead = "the clock of this machine is 5.0 s ahead of those of all nodes";
        assert_eq!(words(&[-5.0, -5.0]).as_deref(), Some(ahead));
        let one = "the clock of b is 9.0 s ahead of that of a";
        assert_eq!(words(&[0.0, 9.0, 0.1]).as_deref().unwrap_or_default(), one);
        assert_eq!(
            words(&[7.0]).as_deref(),
            Some("the clock of a is 7.0 s ahead of that of this machine")
        );
        assert_eq!(words(&[0.2, -0.3, 0.0]), None);
        assert_eq!(words(&[]), None);
    }

    #[test]
    fn a_node_too_slow_for_the_ttl_is_a_problem() {
        let ttl = Duration::from_secs(1);
        let level = |ms, timeout: Option<Duration>| {
            let limit = node_timeout(ttl, timeout);
            let found = speed(Duration::from_millis(ms), limit, ttl, Level::Problem);
            found.map(|finding| finding.level)
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
