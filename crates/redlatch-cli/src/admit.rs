//! `admit`: which nodes may vote, and an operator's word for them.

mod doubts;
mod planted;

use crate::{
    cli::AdmitArgs,
    duration::show,
    exit::Exit,
    failure::Failure,
    say::{Event, Paint, Say, millis, print_json},
    settings::Settings,
};
use redlatch::{NodeStanding, Quarantine, ReplaceError, Standing, node, observer::Observer};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    io::{self, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

pub(crate) async fn admit(args: AdmitArgs, settings: Settings, say: Say) -> Result<Exit, Failure> {
    let observer = settings.builder().observer()?;
    let named = named(&args, &settings, &observer)?;
    let watcher = Watcher { observer: &observer, say, until: until(args.timeout) };
    let mut missing = Vec::new();
    let standings = if args.replace {
        if !args.all_stopped {
            observer.may_replace().await?;
        }
        if !args.yes {
            doubts::ask_to_replace(&observer, &named).await?;
        }
        watcher.replace(&named).await?
    } else if args.wait {
        // Who is refused by one node admits no other: any that refuses us ends it.
        let all: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();
        let standings = watcher.wait_for(&named, &all).await?;
        if named.iter().all(|name| may_vote(&standings, name)) {
            missing = watcher.wait_for_leases(&named, settings.max_ttl()).await;
        }
        standings
    } else {
        if !args.yes {
            doubts::ask_to_vouch(&observer, &named).await?;
        }
        observer.admit(&named).await?
    };
    let exit = report(&standings, &named, args.words.json, say)?;
    if missing.is_empty() {
        return Ok(exit);
    }
    let words = format!("restart no other node yet: {}", planted::in_words(&missing));
    say.say(&Event::failed(words, Exit::TooFewNodes));
    Ok(Exit::TooFewNodes)
}

fn until(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// The names of the nodes that were meant; all of them if none was typed.
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
        let address = node::parse(typed).ok();
        let meant = address.as_ref().map(|node| node.name());
        let given = settings.nodes().iter().position(|url| url == typed);
        let known = names.iter().position(|name| name == typed || Some(*name) == meant);
        given.or(known).map(|at| Arc::from(names[at])).ok_or_else(|| {
            // What is no address of ours may still hold a password.
            let shown = meant.unwrap_or(if typed.contains('@') { "that" } else { typed });
            let words = format!("{shown} is none of the nodes; they are {}", names.join(", "));
            Failure::new(Exit::Failed, words)
        })
    };
    args.which.iter().map(find).collect()
}

struct Watcher<'a> {
    observer: &'a Observer,
    say: Say,
    until: Option<Instant>,
}

impl Watcher<'_> {
    /// Where all nodes stand when these may vote, or the time is over, or one of
    /// those that are `needed` for it serves clients with other settings.
    async fn wait_for(
        &self,
        named: &[Arc<str>],
        needed: &[Arc<str>],
    ) -> Result<Vec<NodeStanding>, Failure> {
        let mut seen = Vec::new();
        let watching = self.observer.watch(|nodes| {
            seen = nodes.to_vec();
            self.say.progress(&waiting_line(nodes, named));
            named.iter().all(|name| may_vote(nodes, name))
                || nodes.iter().any(|node| needed.contains(&node.node) && disagrees(&node.standing))
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

    /// Takes the nodes from their clients, each after the one before votes for
    /// ours; where all stand when that is done, or cannot be.
    async fn replace(&self, named: &[Arc<str>]) -> Result<Vec<NodeStanding>, Failure> {
        let mut standings = self.observer.standings().await;
        for name in named {
            if may_vote(&standings, name) {
                continue;
            }
            let node = std::slice::from_ref(name);
            standings = self.observer.replace(node).await?;
            let stands = |standing: fn(&Standing) -> bool| {
                standings.iter().any(|node| node.node == *name && standing(&node.standing))
            };
            if stands(|standing| matches!(standing, Standing::Failed(_))) {
                break;
            }
            self.say.say(&Event::Replaced { node: name.to_string() });
            standings = self.wait_for(node, node).await?;
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

/// What a person sees while waiting.
fn waiting_line(nodes: &[NodeStanding], named: &[Arc<str>]) -> String {
    let ours = nodes.iter().filter(|node| named.contains(&node.node));
    let out: Vec<String> = ours
        .filter_map(|node| match &node.standing {
            Standing::Admitted => None,
            Standing::Quarantined(quarantine) => {
                Some(format!("{} {}", node.node, for_another(quarantine)))
            }
            _ => Some(format!("{} down", node.node)),
        })
        .collect();
    format!("waiting for {} of {} nodes: {}", out.len(), named.len(), out.join(", "))
}

/// For people: that a node is out, and for how long still.
pub(crate) fn for_another(quarantine: &Quarantine) -> String {
    match quarantine.remaining {
        Some(left) => format!("quarantined for another {}", show(left)),
        None => "quarantined".into(),
    }
}

fn report(
    standings: &[NodeStanding],
    named: &[Arc<str>],
    as_json: bool,
    say: Say,
) -> Result<Exit, Failure> {
    if as_json {
        let nodes: Vec<Value> = standings.iter().map(node_json).collect();
        print_json(&json!({ "nodes": nodes }))?;
    } else {
        io::stdout().write_all(text(standings, Paint::stdout()).as_bytes())?;
    }
    let out = named.iter().filter(|name| !may_vote(standings, name)).count();
    if out == 0 {
        return Ok(Exit::Done);
    }
    let elsewhere = |node: &NodeStanding| !named.contains(&node.node) && disagrees(&node.standing);
    let why = if standings.iter().any(elsewhere) {
        "; other nodes serve clients with another list, or other times: waiting does not help"
    } else {
        ""
    };
    let words = format!("{out} of {} nodes may not vote{why}", named.len());
    say.say(&Event::failed(words, Exit::TooFewNodes));
    Ok(Exit::TooFewNodes)
}

fn text(standings: &[NodeStanding], paint: Paint) -> String {
    let widest = standings.iter().map(|node| node.node.len()).max().unwrap_or(0);
    let mut text = String::new();
    for node in standings {
        let stands = match &node.standing {
            Standing::Admitted => paint.green("admitted"),
            Standing::Quarantined(quarantine) => {
                paint.yellow(&format!("{}: {}", for_another(quarantine), quarantine.cause))
            }
            Standing::Failed(fault) => paint.red(&format!("down: {fault}")),
            _ => "not known".into(),
        };
        let _ = writeln!(text, "{:widest$}  {stands}", node.node);
    }
    text
}

fn node_json(node: &NodeStanding) -> Value {
    let mut json = standing_json(&node.standing);
    json["node"] = (*node.node).into();
    json
}

/// Where a node stands, for scripts.
pub(crate) fn standing_json(standing: &Standing) -> Value {
    match standing {
        Standing::Admitted => json!({ "standing": "admitted" }),
        Standing::Quarantined(quarantine) => json!({
            "standing": "quarantined",
            "remaining_ms": quarantine.remaining.map(millis),
            "reason": quarantine.cause.to_string(),
        }),
        Standing::Failed(fault) => json!({ "standing": "down", "reason": fault.to_string() }),
        _ => json!({ "standing": null }),
    }
}

impl From<ReplaceError> for Failure {
    fn from(error: ReplaceError) -> Self {
        let (exit, first) = match &error {
            ReplaceError::Unseen { .. } => {
                (Exit::TooFewNodes, "bring it back, or leave it out of the list, first")
            }
            ReplaceError::TooDifferent { .. } => {
                (Exit::Failed, "change the list one node at a time, and replace after each change")
            }
            ReplaceError::UnderWay { .. } => (Exit::Failed, "let that end first"),
            _ => return Failure::new(Exit::Failed, error),
        };
        let words = format!("{error}; {first}; or stop all other clients and add --all-stopped");
        Failure::new(exit, words)
    }
}
