//! `admit`: shows which nodes may vote, waits for them, or vouches for them.

mod doubts;
mod planted;
mod seen;
mod strangers;

use crate::{
    background::Signals,
    cli::AdmitArgs,
    duration::{readable, show},
    exit::Exit,
    failure::Failure,
    live::Stands,
    look::bare,
    say::{Event, Say, millis},
    secrets::shown_node,
    settings::Settings,
    trace::Trace,
};
use nix::sys::signal::Signal;
use redlatch::{
    Cause, NodeStanding, Quarantine, ReplaceError, RestartGuard, Standing, node,
    observer::{Examined, Facts, Observer},
};
use seen::Seen;
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

/// Fails if the arguments do not say which nodes to vouch for or to take.
pub(crate) fn names_nodes(args: &AdmitArgs) -> Result<(), Failure> {
    if !args.which.is_empty() || args.all {
        return Ok(());
    }
    let words = "which nodes? name them, or say --all, to vouch for them; `redlatch admit --wait` \
                 waits for all of them instead, and is always safe";
    Err(Failure::new(Exit::Failed, words))
}

pub(crate) async fn admit(
    args: AdmitArgs,
    settings: Settings,
    say: Say,
    mut trace: Option<&mut Trace>,
) -> Result<Exit, Failure> {
    let observer = settings.builder().observer()?;
    let named = named(&args, &settings, &observer)?;
    if let Some(trace) = &mut trace {
        trace.on_nodes(named.iter().map(|name| &**name));
    }
    let watcher = Watcher { observer: &observer, say, until: until(args.timeout) };
    let mut missing = Vec::new();
    let standings = if args.replace {
        if !args.all_stopped {
            observer.may_replace().await?;
        }
        if !args.yes {
            doubts::ask_to_replace(&observer, &named, args.all_stopped).await?;
        }
        if let Some(trace) = &mut trace {
            // It takes minutes, and may be interrupted.
            note_options(&args, trace);
            trace.write_start();
        }
        let mut taken = Vec::new();
        let mut signals = Signals::unless_ignored()?;
        let replaced = tokio::select! {
            replaced = watcher.replace(&named, &mut taken) => replaced,
            signal = signals.next() => Err(interrupted(signal)),
        };
        say.end_progress();
        replaced.map_err(|failure| but_taken(failure, &taken, trace.as_deref_mut()))?
    } else if args.wait && observer.restart_guard() == RestartGuard::Off {
        let message = "the restart guard is off, so this client waits for no admission".into();
        say.say(&Event::Waiting { message, is_trouble: true });
        observer.standings().await
    } else if args.wait {
        let message = doubts::before_waiting(&observer, &named, settings.max_ttl()).await;
        if let Some(message) = message {
            say.say(&Event::Waiting { message, is_trouble: true });
        }
        // A client that one node refuses admits no other, so any refusal ends the wait.
        let all: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();
        let standings = watcher.wait_for(&named, &all, disagrees).await?;
        if named.iter().all(|name| may_vote(&standings, name)) {
            missing = watcher.wait_for_leases(&named, settings.max_ttl()).await;
        }
        standings
    } else {
        if !args.yes {
            doubts::ask_to_vouch(&observer, &named, settings.typed()).await?;
        }
        observer.admit(&named).await?
    };
    let seen = Seen::now(&observer, standings).await;
    if let Some(trace) = trace {
        seen.record(&named, args.replace, trace);
        if !args.replace {
            note_options(&args, trace);
        }
    }
    let exit = seen.tell(&named, settings.typed(), args.words.json, say)?;
    if missing.is_empty() {
        return Ok(exit);
    }
    let words = format!("restart no other node yet: {}", planted::in_words(&missing));
    say.say(&Event::failed(words, Exit::NoMajority));
    Ok(Exit::NoMajority)
}

/// A signal ended `--replace`.
fn interrupted(signal: Signal) -> Failure {
    Failure::new(Exit::Signal(signal as i32), format!("{signal} ended it"))
}

/// The same failure, which came when these nodes had been taken from their clients.
fn but_taken(mut failure: Failure, taken: &[Arc<str>], trace: Option<&mut Trace>) -> Failure {
    let is_interrupted = matches!(failure.exit, Exit::Signal(_));
    let taken = match taken {
        [] if is_interrupted => "none, as far as is known".into(),
        [] => return failure,
        taken => taken.join(", "),
    };
    if let Some(trace) = trace.filter(|_| !is_interrupted) {
        trace.succeeded();
    }
    let _ = write!(failure.message, "; taken so far: {taken}");
    failure
}

/// Records what the user answers for.
fn note_options(args: &AdmitArgs, trace: &mut Trace) {
    let options = [(args.yes, "--yes"), (args.all_stopped, "--all-stopped")];
    let given: Vec<&str> =
        options.iter().filter(|(is_given, _)| *is_given).map(|it| it.1).collect();
    if !given.is_empty() {
        trace.note(&format!("with {}", given.join(" and ")));
    }
}

fn until(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// The names of the nodes that were typed; all nodes if none were.
fn named(
    args: &AdmitArgs,
    settings: &Settings,
    observer: &Observer,
) -> Result<Vec<Arc<str>>, Failure> {
    let names: Vec<&str> = observer.nodes().collect();
    if args.which.is_empty() {
        return Ok(names.into_iter().map(Arc::from).collect());
    }
    let find = |typed: &String| {
        let parsed = node::parse(typed).ok();
        let (name, address) = parsed.as_ref().map(|node| (node.name(), node.address())).unzip();
        let given = || settings.nodes().iter().position(|url| url == typed);
        let known = || names.iter().position(|of_node| of_node == typed || Some(*of_node) == name);
        let placed = || names.iter().position(|of_node| observer.address(of_node) == address);
        // An address typed with a different `?name=` means a different node.
        let bare = address.filter(|_| name == address);
        let at = given().or_else(known).or_else(|| bare.and_then(|_| placed()));
        at.map(|at| Arc::from(names[at])).ok_or_else(|| {
            // Text that is none of our addresses may still contain a password.
            let typed = shown_node(typed);
            let shown = name.unwrap_or(if typed == "…" { "that" } else { &typed });
            let labels: Vec<_> = names.iter().map(|name| observer.label(name)).collect();
            let words = format!("{shown} is not one of the nodes: {}", labels.join(", "));
            Failure::new(Exit::Failed, words)
        })
    };
    args.which.iter().map(find).collect()
}

/// How long to wait before a node that has forgotten is taken again.
const AGAIN: Duration = Duration::from_millis(500);

struct Watcher<'a> {
    observer: &'a Observer,
    say: Say,
    until: Option<Instant>,
}

impl Watcher<'_> {
    /// Waits until the `named` nodes may vote, the time is up, or waiting for one of
    /// the `needed` nodes is in `vain`. Returns all standings.
    async fn wait_for(
        &self,
        named: &[Arc<str>],
        needed: &[Arc<str>],
        vain: impl Fn(&Standing) -> bool,
    ) -> Result<Vec<NodeStanding>, Failure> {
        let (mut seen, mut told) = (Vec::new(), Vec::new());
        let watching = self.observer.watch(|nodes| {
            seen = nodes.to_vec();
            let out = out(nodes, named);
            let is_over = out.is_empty()
                || nodes.iter().any(|node| needed.contains(&node.node) && vain(&node.standing));
            if !is_over {
                self.tell(&out, named.len(), &mut told);
            }
            is_over
        });
        let left = self
            .until
            .map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
        let watched = tokio::time::timeout(left, watching).await;
        self.say.end_progress();
        match watched {
            Ok(standings) => Ok(standings?),
            Err(_) if seen.is_empty() => Ok(self.observer.standings().await),
            Err(_) => Ok(seen),
        }
    }

    /// Says which nodes we wait for: continuously on a terminal, elsewhere once and
    /// then on every change.
    fn tell(&self, out: &[&NodeStanding], nodes: usize, told: &mut Vec<(Arc<str>, Option<bool>)>) {
        let words = waiting_line(out, nodes);
        self.say.progress(&words);
        let is_timed = |node: &NodeStanding| match &node.standing {
            Standing::Quarantined(quarantine) => Some(quarantine.remaining.is_some()),
            _ => None,
        };
        let news: Vec<_> = out.iter().map(|node| (node.node.clone(), is_timed(node))).collect();
        if news != *told && !self.say.has_progress() {
            let nodes = out.iter().map(|node| node_json(self.observer, node)).collect();
            self.say.say(&Event::Awaited { nodes, words });
            *told = news;
        }
    }

    /// Takes a node from its clients and waits until it votes for ours, the time is
    /// up, or waiting is in vain. Returns all standings.
    async fn take(
        &self,
        name: &Arc<str>,
        taken: &mut Vec<Arc<str>>,
    ) -> Result<Vec<NodeStanding>, Failure> {
        let node = std::slice::from_ref(name);
        let standings = self.observer.replace(node).await?;
        if stands(&standings, name, is_down) {
            return Ok(standings);
        }
        if !taken.contains(name) {
            taken.push(name.clone());
        }
        self.say.say(&Event::Replaced { node: name.to_string() });
        let vain = |standing: &Standing| disagrees(standing) || is_left(standing);
        self.wait_for(node, node, vain).await
    }

    fn is_time_left(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }

    /// Takes the nodes from their clients one by one, each after the previous one votes
    /// for our clients, and notes which were `taken`. Returns all standings when that is done
    /// or has failed.
    async fn replace(
        &self,
        named: &[Arc<str>],
        taken: &mut Vec<Arc<str>>,
    ) -> Result<Vec<NodeStanding>, Failure> {
        let mut standings = self.observer.standings().await;
        for name in named {
            if may_vote(&standings, name) {
                continue;
            }
            standings = self.take(name, taken).await?;
            // It has forgotten that it was taken, or is about to forget it: nobody else
            // would admit it.
            let mut forgot = stands(&standings, name, |node| is_left(node) || is_cut_off(node));
            while forgot && self.is_time_left() {
                tokio::time::sleep(AGAIN).await;
                standings = self.take(name, taken).await?;
                forgot = stands(&standings, name, |node| is_left(node) || is_down(node));
            }
            if !may_vote(&standings, name) {
                break;
            }
        }
        Ok(standings)
    }
}

fn may_vote(standings: &[NodeStanding], name: &Arc<str>) -> bool {
    standings.iter().any(|node| node.node == *name && node.standing == Standing::Admitted)
}

fn disagrees(standing: &Standing) -> bool {
    matches!(standing, Standing::Quarantined(quarantine) if quarantine.cause.is_conflict())
}

/// Whether the node has forgotten its locks, and neither list would admit it.
fn is_left(standing: &Standing) -> bool {
    let Standing::Quarantined(quarantine) = standing else { return false };
    quarantine.cause == Cause::Forgot && quarantine.remaining.is_none()
}

fn is_down(standing: &Standing) -> bool {
    matches!(standing, Standing::Failed(_))
}

/// Whether the connection broke while the node was being taken: it may have been.
fn is_cut_off(standing: &Standing) -> bool {
    matches!(standing, Standing::Failed(fault) if !fault.never_sent())
}

fn stands(nodes: &[NodeStanding], name: &Arc<str>, standing: fn(&Standing) -> bool) -> bool {
    nodes.iter().any(|node| node.node == *name && standing(&node.standing))
}

/// The named nodes that may not vote.
fn out<'a>(nodes: &'a [NodeStanding], named: &[Arc<str>]) -> Vec<&'a NodeStanding> {
    let ours = nodes.iter().filter(|node| named.contains(&node.node));
    ours.filter(|node| node.standing != Standing::Admitted).collect()
}

/// The progress line.
fn waiting_line(out: &[&NodeStanding], nodes: usize) -> String {
    let told = out.iter().map(|node| match &node.standing {
        Standing::Quarantined(quarantine) => format!("{} {}", node.node, for_another(quarantine)),
        Standing::Failed(fault) if !fault.is_silence() => {
            format!("{} answers, but cannot be used", node.node)
        }
        _ => format!("{} down", node.node),
    });
    let told: Vec<String> = told.collect();
    let told = told.join(", ");
    if nodes == 1 {
        return format!("waiting for {told}");
    }
    format!("waiting for {} of {nodes} nodes: {told}", out.len())
}

/// Says that a node with these facts is quarantined, and for how much longer.
pub(crate) fn for_now(quarantine: &Quarantine, facts: &Facts) -> String {
    if is_unbegun(quarantine, facts) {
        "quarantined, and its time has not begun: `redlatch admit --wait` begins it, or any client \
         that takes a lock"
            .into()
    } else {
        for_another(quarantine)
    }
}

/// Whether no client that could admit the node has marked it yet.
pub(crate) fn is_unbegun(quarantine: &Quarantine, facts: &Facts) -> bool {
    quarantine.cause == Cause::Forgot && facts.mark.is_none()
}

/// Says that a node is quarantined, and for how much longer.
pub(crate) fn for_another(quarantine: &Quarantine) -> String {
    match quarantine.remaining {
        Some(left) => format!("quarantined for another {}", show(left)),
        None => "quarantined".into(),
    }
}

/// Why a node may not vote and, if its clients have other settings, how those differ.
pub(crate) fn cause_for(observer: &Observer, cause: &Cause) -> String {
    readable(&cause.for_client_of(observer.agreement()))
}

/// What the nodes report, if that is needed to say how long some are quarantined.
pub(crate) async fn reports_on<'a>(
    observer: &Observer,
    out: impl Iterator<Item = &'a Quarantine> + Clone,
) -> Vec<Examined> {
    let is_untimed = |out: &Quarantine| out.cause == Cause::Forgot && out.remaining.is_none();
    // A client that one node refuses does not begin the time of any other.
    let is_refused = out.clone().any(|out| out.cause.is_conflict());
    if is_refused || !out.clone().any(is_untimed) {
        return Vec::new();
    }
    observer.reports().await
}

/// Says that the node with this name is quarantined and, judging by what the nodes
/// report, for how much longer.
pub(crate) fn quarantined_for(name: &str, quarantine: &Quarantine, reports: &[Examined]) -> String {
    let report = reports.iter().find(|report| *report.node == *name);
    match report.map(|report| &report.facts) {
        Some(Ok(facts)) => for_now(quarantine, facts),
        _ => for_another(quarantine),
    }
}

fn node_json(observer: &Observer, node: &NodeStanding) -> Value {
    let mut json = standing_json(&node.standing);
    json["node"] = (*node.node).into();
    tell_address(&mut json, observer.address(&node.node));
    if let Some(other) = observer.other_name(&node.node, &node.standing) {
        json["admitted_as"] = (*other.is).into();
    }
    json
}

/// Adds a node's address to its JSON, unless the address is its name.
pub(crate) fn tell_address(node: &mut Value, address: Option<&str>) {
    if let Some(address) = address.filter(|address| node["node"] != **address) {
        node["address"] = address.into();
    }
}

/// A node's standing as JSON.
pub(crate) fn standing_json(standing: &Standing) -> Value {
    match standing {
        Standing::Admitted => json!({ "standing": "admitted" }),
        Standing::Quarantined(quarantine) => json!({
            "standing": "quarantined",
            "remaining_ms": quarantine.remaining.map(millis),
            "reason": readable(&quarantine.cause.to_string()),
        }),
        Standing::Failed(fault) => {
            json!({ "standing": Stands::of(fault).word(), "reason": bare(fault) })
        }
        _ => json!({ "standing": null }),
    }
}

impl From<ReplaceError> for Failure {
    fn from(error: ReplaceError) -> Self {
        let (exit, first) = match &error {
            ReplaceError::Unseen { .. } => {
                (Exit::NoMajority, "bring it back, or leave it out of the list, first")
            }
            ReplaceError::TooDifferent { .. } => {
                (Exit::Failed, "change the list one node at a time, and replace after each change")
            }
            ReplaceError::UnderWay { .. } => {
                (Exit::Failed, "wait until that is done, or finish it with their settings")
            }
            ReplaceError::Forgot { .. } => {
                (Exit::NoMajority, "wait for that with their settings first")
            }
            _ => return Failure::new(Exit::Failed, error),
        };
        let words = format!("{error}; {first}; or stop all other clients and add --all-stopped");
        Failure::new(exit, readable(&words))
    }
}
