//! Records what happens, for people.

use super::World;
use crate::{
    search::{
        event::Wire,
        invariants::Violation,
        leases::{Lease, LeaseId},
        schedule::{Schedule, Way, Wrong},
        server::{EPOCH, Server},
    },
    trace::{Bar, BarKind, Event, Fate, Participant, Trace},
};
use redlatch_core::{Command, Facts, Moment, Reply, Vote};
use std::{collections::BTreeMap, time::Duration};

/// Further clients are left out.
const MOST_SHOWN: usize = 48;

/// A history being recorded.
pub(super) struct Record {
    trace: Trace,
    /// How many clients are shown; the nodes follow.
    clients: usize,
    leases: BTreeMap<LeaseId, usize>,
}

impl Record {
    pub(super) fn of(schedule: &Schedule) -> Self {
        let clients = schedule.clients.len().min(MOST_SHOWN);
        let mut who: Vec<_> = (0..clients).map(|n| Participant::client(format!("c{n}"))).collect();
        who.extend((0..schedule.nodes.len()).map(|n| Participant::node(node_name(n))));
        let (jobs, troubles) = (schedule.jobs.len(), schedule.troubles.len());
        let title = format!(
            "Seed {}: {} nodes, {} clients, {jobs} locks wanted, {troubles} troubles, calm at {:?}.",
            schedule.seed,
            schedule.nodes.len(),
            schedule.clients.len(),
            schedule.calm_at.get(),
        );
        Record { trace: Trace::new(title, who), clients, leases: BTreeMap::new() }
    }

    pub(super) fn finish(mut self, now: Moment, violation: Option<&Violation>) -> Trace {
        let end = at(now);
        for bar in self.leases.values() {
            self.trace.bars[*bar].until = end;
        }
        let text = match violation {
            Some(Violation { invariant, what, .. }) => format!("BROKEN, {invariant}: {what}"),
            None => "nothing is left to happen".to_owned(),
        };
        self.trace.push(end, Event::World { text }, Vec::new());
        self.trace
    }

    fn client(&self, client: usize) -> Option<usize> {
        (client < self.clients).then_some(client)
    }

    fn node(&self, node: usize) -> usize {
        self.clients + node
    }

    fn message(&mut self, ends: [Option<usize>; 2], times: [Moment; 2], text: String, fate: Fate) {
        let ([Some(from), Some(to)], [sent, now]) = (ends, times) else { return };
        let event = Event::Message { from, to, sent: at(sent), text, fate };
        self.trace.push(at(now), event, Vec::new());
    }

    fn local(&mut self, now: Moment, who: Option<usize>, text: String) {
        if let Some(who) = who {
            self.trace.push(at(now), Event::Local { who, text }, Vec::new());
        }
    }

    fn bar(&mut self, who: Option<usize>, kind: BarKind, from: Moment, until: Moment, text: &str) {
        if let Some(who) = who {
            let (from, until, text) = (at(from), at(until), text.to_owned());
            self.trace.bars.push(Bar { who, kind, from, until, text });
        }
    }
}

impl World<'_> {
    /// Records something a client said.
    pub(super) fn note(&mut self, client: usize, text: impl FnOnce() -> String) {
        if let Some(record) = &mut self.record {
            let who = record.client(client);
            record.local(self.now, who, text());
        }
    }

    pub(super) fn lost_on_the_way(&mut self, wire: Wire, sent: Moment, command: &Command) {
        if let Some(record) = &mut self.record {
            let ends = [record.client(wire.client), Some(record.node(wire.server))];
            record.message(ends, [sent, self.now], told(command), Fate::Lost);
        }
    }

    pub(super) fn served(&mut self, wire: Wire, sent: Moment, command: &Command, reply: &Reply) {
        let Some(record) = &mut self.record else { return };
        let late = self.clients[wire.client].links[wire.node].epoch != wire.epoch;
        let late = if late { "late " } else { "" };
        let ends = [record.client(wire.client), Some(record.node(wire.server))];
        let text = format!("{late}{}: {}", told(command), answer(reply));
        record.message(ends, [sent, self.now], text, Fate::Arrived);
        if let (Some(step), Some(_)) = (record.trace.steps.last_mut(), ends[0]) {
            let keys = keys(&self.servers[wire.server], self.now);
            step.notes = vec![(record.clients + wire.server, keys)];
        }
    }

    pub(super) fn replied(&mut self, wire: Wire, sent: Moment, reply: &Reply) {
        if let Some(record) = &mut self.record {
            let ends = [Some(record.node(wire.server)), record.client(wire.client)];
            record.message(ends, [sent, self.now], answer(reply), Fate::Arrived);
        }
    }

    pub(super) fn begin_bar(&mut self, lease: &Lease) {
        let LeaseId::Ours(client, ..) = lease.id else { return };
        let until = self.clients[client].clock.when(lease.until);
        let Some(record) = &mut self.record else { return };
        let number = lease.fence.map(|number| format!(" #{number}")).unwrap_or_default();
        let text = format!("{}{number}", lease.resources);
        let who = record.client(client);
        let usable = until.since(self.now);
        record.local(self.now, who, format!("HOLDS {text}, usable for {usable:.1?}"));
        if who.is_some() {
            record.leases.insert(lease.id, record.trace.bars.len());
        }
        record.bar(who, BarKind::Lease, self.now, until, &text);
    }

    pub(super) fn end_bar(&mut self, id: LeaseId, how: &str) {
        let Some(record) = &mut self.record else { return };
        if let (Some(bar), LeaseId::Ours(client, ..)) = (record.leases.remove(&id), id) {
            let bar = &mut record.trace.bars[bar];
            bar.until = at(self.now);
            let text = format!("{how}: {}", bar.text);
            let who = record.client(client);
            record.local(self.now, who, text);
        }
    }

    pub(super) fn record_trouble(&mut self, wrong: &Wrong) {
        let calm = self.schedule.calm_at.in_true_time();
        let now = self.now;
        let Some(record) = &mut self.record else { return };
        let (who, lasts, text) = describe(record, wrong);
        if let Some(lasts) = lasts {
            record.bar(who, BarKind::Trouble, now, now.after(lasts).min(calm), &text);
        }
        let text = format!("TROUBLE {text}");
        match who {
            Some(_) => record.local(now, who, text),
            None => record.trace.push(at(now), Event::World { text }, Vec::new()),
        }
    }

    pub(super) fn record_relief(&mut self, wrong: &Wrong) {
        let Some(record) = &mut self.record else { return };
        let (who, _, text) = describe(record, wrong);
        record.local(self.now, who, format!("over: {text}"));
    }
}

/// Whom a trouble concerns, for how long, and what it is.
fn describe(record: &Record, wrong: &Wrong) -> (Option<usize>, Option<Duration>, String) {
    let node = |node: &usize| Some(record.node(*node));
    let client = |client: &usize| record.client(*client);
    match wrong {
        Wrong::Break { client: c, node: n, late } => {
            let late = late.map_or("is lost".into(), |late| format!("is {late:?} late"));
            (node(n), None, format!("connection of c{c} breaks, what is under way {late}"))
        }
        Wrong::Cut { client, node: n, way, lasts } => {
            let whom = client.map_or("everybody".into(), |client| format!("c{client}"));
            let way = match way {
                Way::ToNode => "from",
                Way::ToClient => "to",
                Way::Both => "from and to",
            };
            (node(n), Some(lasts.get()), format!("cut off {way} {whom}"))
        }
        Wrong::Slow { node: n, lasts, .. } => (node(n), Some(lasts.get()), "slow".into()),
        Wrong::CrashNode { node: n, forgets, spare, silent, lasts } => {
            let memory = match (forgets, spare) {
                (_, true) => "a spare in its place",
                (true, false) => "its memory lost",
                (false, false) => "its memory kept",
            };
            let silent = if *silent { ", silently" } else { "" };
            (node(n), Some(lasts.get()), format!("down{silent}, {memory}"))
        }
        Wrong::Reroute { client: c, node: n, to, lasts } => {
            (client(c), Some(lasts.get()), format!("the address of node {n} leads to node {to}"))
        }
        Wrong::Flush { node: n } => (node(n), None, "flushed".into()),
        Wrong::FlushAll => (None, None, "all nodes flushed".into()),
        Wrong::Swap { node: n, lasts } => (node(n), Some(lasts.get()), "swapped away".into()),
        Wrong::Garble { node: n, percent, lasts } => {
            (node(n), Some(lasts.get()), format!("{percent} % of the replies garbled"))
        }
        Wrong::Vouch { client: c, node: n } => {
            (node(n), None, format!("an operator vouches for it, if it is true, by c{c}"))
        }
        Wrong::Replace { client: c, node: n } => {
            (node(n), None, format!("an operator takes it from its clients, by c{c}"))
        }
        Wrong::FailOver { node: n, registers } => {
            let with = if *registers { "with" } else { "without" };
            (node(n), None, format!("a replica takes over {with} the registers"))
        }
        Wrong::PauseNode { node: n, lasts } => (node(n), Some(lasts.get()), "paused".into()),
        Wrong::StepNode { node: n, by } => (node(n), None, format!("clock set by {by} µs")),
        Wrong::CrashClient { client: c, lasts, .. } => {
            (client(c), Some(lasts.get()), "dead".into())
        }
        Wrong::PauseClient { client: c, lasts, .. } => {
            (client(c), Some(lasts.get()), "paused".into())
        }
        Wrong::StepClient { client: c, by } => (client(c), None, format!("clock set by {by} µs")),
        Wrong::Foreign { resource, ttl, .. } => {
            (None, None, format!("another library takes r{resource} for {ttl:?}"))
        }
    }
}

fn told(command: &Command) -> String {
    match command {
        Command::Take { resources, ttl, fence, .. } => {
            let fence = if fence.is_some() { " fenced" } else { "" };
            format!("take {resources}{fence} for {ttl:?}")
        }
        Command::Raise { resources, to, .. } => format!("raise {resources} to {to}"),
        Command::Extend { resources, ttl, .. } => format!("extend {resources} by {ttl:?}"),
        Command::Plant { resources, ttl, .. } => format!("plant {resources} for {ttl:?}"),
        Command::Release { resources, .. } => format!("release {resources}"),
        Command::Watch { replace: true, .. } => "take it from its clients".into(),
        Command::Watch { .. } => "leave a mark".into(),
        Command::Admit { .. } => "admit".into(),
        other => format!("{other:.40?}"),
    }
}

fn answer(reply: &Reply) -> String {
    match reply {
        Reply::Vote(Vote::Numbered(number)) => format!("granted #{number}"),
        Reply::Vote(vote) => vote.to_string(),
        Reply::Facts(facts) => standing(facts),
        other => format!("{other:.40?}"),
    }
}

/// What a node says when it is examined.
fn standing(facts: &Facts) -> String {
    let run = &facts.identity.run;
    match (&facts.marker, &facts.mark) {
        (Some(marker), _) if marker.run == *run => format!("in, by {}", marker.fingerprint),
        (_, Some(mark)) => format!("quarantined for {:.1?}", mark.age),
        _ => "out".into(),
    }
}

/// The keys on a node, in a few words.
fn keys(server: &Server, now: Moment) -> String {
    let clock = server.clock.read(now);
    let keys = server.keys(now).map(|(name, key)| {
        let owner = redlatch_core::token::owner_of(&key.value).unwrap_or_else(|| "other".into());
        format!("{name}={owner}(+{:.0?})", key.dies.since(clock))
    });
    let keys: Vec<String> = keys.collect();
    if keys.is_empty() { "free".into() } else { keys.join(" ") }
}

fn node_name(node: usize) -> String {
    let letter = u8::try_from(node).ok().and_then(|node| b'A'.checked_add(node));
    letter.map_or_else(|| format!("n{node}"), |letter| char::from(letter).to_string())
}

/// True time since the start; wall clocks are of no use to a reader.
fn at(moment: Moment) -> Duration {
    debug_assert!(moment.as_nanos() < EPOCH, "true time, not a wall clock's");
    moment.since(Moment::START)
}
