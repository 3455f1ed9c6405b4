//! Turns steps into a trace that a person can read.

use super::{
    act::Heard,
    caller::Stage,
    scenario::NODES,
    step::Step,
    words::{command_text, moment_text, number_text, output_text, reply_text, waiter_text},
    world::{BEGIN, World, name_of},
};
use crate::trace::{Event, Fate, Participant, Trace};
use redlatch_core::{Moment, Ticket};
use std::time::Duration;

/// Replays the steps one by one and records them.
pub(super) fn trace(title: String, first: &World, steps: &[Step], verdict: &str) -> Trace {
    let mut trace = Trace::new(title, participants(first));
    let mut world = first.clone();
    for step in steps {
        let (next, heard) = world.after(*step);
        let event = event(&world, *step, &next);
        trace.push(time(next.now), event, notes(&next));
        for event in spoken(&next, &heard) {
            trace.push(time(next.now), event, notes(&next));
        }
        world = next;
    }
    trace.push(time(world.now), Event::World { text: format!("BROKEN: {verdict}") }, Vec::new());
    trace
}

fn participants(world: &World) -> Vec<Participant> {
    let clients = (1..=world.clients()).map(|number| Participant::client(format!("c{number}")));
    let foreign = world.setting.scenario.faults.foreign > 0;
    let foreign = foreign.then(|| Participant::client("foreign"));
    let nodes = (0..NODES).map(|node| Participant::node(letter(node)));
    clients.chain(foreign).chain(nodes).collect()
}

fn column(world: &World, node: usize) -> usize {
    let foreign = world.setting.scenario.faults.foreign > 0;
    world.clients() + usize::from(foreign) + node
}

fn event(world: &World, step: Step, next: &World) -> Event {
    let local = |who, text: &str| Event::Local { who, text: text.to_owned() };
    match step {
        Step::Start { client } => local(client, "wants the lock"),
        Step::Release { client } => local(client, "releases the lock"),
        Step::Extend { client } => local(client, "extends the lease by hand"),
        Step::Cancel { client } => local(client, "no longer wants the lock"),
        Step::Look { client } => local(client, "looks which nodes may vote"),
        Step::Tick { client } => local(client, "its timer fires"),
        Step::CarryOut { client, node }
        | Step::Repeat { client, node }
        | Step::Echo { client, node } => request(world, step, client, node),
        Step::Answer { client, node } => reply(world, client, node),
        Step::Wake { client, node } => {
            let text = world.channel(client, node).wake().map_or_else(String::new, |wake| {
                format!("woken for {}", waiter_text(wake.ticket.waiter))
            });
            let (from, sent) = (column(world, node), time(world.now));
            Event::Message { from, to: client, sent, text, fate: Fate::Arrived }
        }
        Step::Mislay { node, how } => local(column(world, node), &how.to_string()),
        Step::Cut { client, node } => {
            local(client, &format!("its connection to {} breaks", letter(node)))
        }
        Step::Refuse { client, node } => {
            local(client, &format!("finds no connection to {}", letter(node)))
        }
        Step::Straggle { client, node } => straggler(world, client, node),
        Step::FlushAll => Event::World { text: "all nodes are flushed".to_owned() },
        Step::Jump { client } => local(client, "its wall clock is set forward"),
        Step::Restart { node } => {
            local(column(world, node), "restarts and has forgotten everything")
        }
        Step::Expire { node } => local(column(world, node), "its key dies before its time"),
        Step::Remove => Event::World { text: "somebody removes the lock by hand".to_owned() },
        Step::FailOver { node } => {
            local(column(world, node), "fails over to a replica without the keys")
        }
        Step::ForeignTake { node } | Step::ForeignDelete { node } => {
            let takes = matches!(step, Step::ForeignTake { .. });
            let text = if takes { "SET NX PX" } else { "compare and delete" };
            local(world.clients(), &format!("{text} on {}", letter(node)))
        }
        Step::Pass => Event::World { text: format!("time passes to {}", moment_text(next.now)) },
    }
}

fn request(world: &World, step: Step, client: usize, node: usize) -> Event {
    let waiting = world.channel(client, node).next();
    let text = waiting.map_or_else(String::new, |waiting| command_text(&waiting.command));
    let again = matches!(step, Step::Repeat { .. } | Step::Echo { .. });
    let text = if again { format!("{text}, and will once more") } else { text };
    let sent = waiting.map_or(world.now, |waiting| waiting.sent);
    message(client, column(world, node), sent, text)
}

fn reply(world: &World, client: usize, node: usize) -> Event {
    let waiting = world.channel(client, node).answer();
    let reply = waiting.and_then(|waiting| waiting.reply.as_deref());
    let sent = waiting.map_or(world.now, |waiting| waiting.answered);
    message(column(world, node), client, sent, reply.map_or_else(String::new, reply_text))
}

fn straggler(world: &World, client: usize, node: usize) -> Event {
    let command = world.channel(client, node).straggler();
    let text = command.map_or_else(String::new, |command| command_text(command));
    message(client, column(world, node), world.now, format!("{text}, sent long ago"))
}

fn message(from: usize, to: usize, sent: Moment, text: String) -> Event {
    Event::Message { from, to, sent: time(sent), text, fate: Fate::Arrived }
}

/// What the machines told their callers, one event each.
fn spoken(world: &World, heard: &Heard) -> Vec<Event> {
    let text = |client: usize, output| Some((client, output_text(world.now, output)?));
    let said = heard.said.iter().filter_map(|(client, output)| text(*client, output));
    said.map(|(who, text)| Event::Local { who, text }).collect()
}

fn notes(world: &World) -> Vec<(usize, String)> {
    let clients = (0..world.clients()).map(|client| (client, client_note(world, client)));
    let nodes = (0..NODES).map(|node| (column(world, node), node_note(world, node)));
    clients.chain(nodes).chain(foreign_note(world)).collect()
}

fn client_note(world: &World, client: usize) -> String {
    match &world.callers[client].stage {
        Stage::Idle if world.machines[world.home(client)].is_idle() => "idle".to_owned(),
        Stage::Idle => "undoing".to_owned(),
        Stage::Wanting => "wants it".to_owned(),
        Stage::Holding(lease) if world.now < lease.until => {
            let fence = if lease.fence > 0 { number_text(lease.fence) } else { String::new() };
            format!("HOLDS to {} {fence}", moment_text(lease.until)).trim_end().to_owned()
        }
        Stage::Holding(_) => "held it".to_owned(),
    }
}

fn node_note(world: &World, node: usize) -> String {
    let (at, node) = (node, &world.nodes[node]);
    let key = node.key(world.now, &world.setting.name);
    let key = key.map_or_else(
        || "-".to_owned(),
        |key| {
            let name = Ticket::reserved_in(&key.value).map_or_else(
                || name_of(&key.value),
                |ticket| format!("for {}", waiter_text(ticket.waiter)),
            );
            format!("{name} to {}", moment_text(key.dies))
        },
    );
    let line = node.contents.lines.get(&world.setting.name);
    let line = line.iter().flat_map(|(line, _)| line.tickets());
    let line: Vec<String> =
        line.map(|ticket| format!(" <{}", waiter_text(ticket.waiter))).collect();
    let key = format!("{key}{}", line.concat());
    let guard = world.setting.guard.as_ref();
    let out = guard.is_some_and(|guard| !node.is_admitted(guard.fingerprint(at)));
    let out = if out { " OUT" } else { "" };
    match node.register(&world.setting.resources) {
        0 => format!("{key}{out}"),
        number => format!("{key} {}{out}", number_text(number)),
    }
}

fn foreign_note(world: &World) -> Option<(usize, String)> {
    let foreign = world.setting.scenario.faults.foreign > 0;
    let until = world.foreign.holds_until().filter(|until| world.now < *until);
    let note = until.map_or("-".to_owned(), |until| format!("HOLDS to {}", moment_text(until)));
    foreign.then(|| (world.clients(), note))
}

fn letter(node: usize) -> String {
    ["A", "B", "C"][node].to_owned()
}

fn time(moment: Moment) -> Duration {
    moment.since(BEGIN)
}
