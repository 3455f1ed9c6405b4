//! Commands, replies and outputs in a few words each.

use super::world::{BEGIN, name_of};
use redlatch_core::{
    Command, Fault, Moment, Output, Reply, Then, Ticket, Vote, Waiter, lease::Loss,
};

pub(super) fn command_text(command: &Command) -> String {
    match command {
        Command::Take { token, .. } => format!("take {}", name_of(token.as_bytes())),
        Command::Raise { token, to, .. } => {
            format!("raise {} to {}", name_of(token.as_bytes()), number_text(to.get()))
        }
        Command::Extend { token, ttl, .. } => {
            format!("extend {} by {}", name_of(token.as_bytes()), ttl.as_millis())
        }
        Command::Release { token, then, .. } => {
            let then = match then {
                None => String::new(),
                Some(Then::Leave(ticket)) => format!(", {} leaves", waiter_text(ticket.waiter)),
                Some(Then::Wait(ticket)) => format!(", {} waits", waiter_text(ticket.waiter)),
                Some(Then::Pass(ticket)) => format!(", for {}", waiter_text(ticket.waiter)),
            };
            let name = Ticket::reserved_in(token.as_bytes());
            let name = name.map_or_else(|| name_of(token.as_bytes()), |_| "a reservation".into());
            format!("undo {name}{then}")
        }
        Command::Plant { token, .. } => format!("plant {}", name_of(token.as_bytes())),
        Command::Watch { .. } => "leave a mark".to_owned(),
        Command::Admit { .. } => "admit".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Names a line by its client and number: `c2/1`.
pub(super) fn waiter_text(waiter: Waiter) -> String {
    format!("c{}/{}", waiter.client() + 1, waiter.line())
}

pub(super) fn reply_text(reply: &Reply) -> String {
    match reply {
        Reply::Vote(Vote::Granted) => "yes".to_owned(),
        Reply::Vote(Vote::Numbered(number)) => format!("yes, {}", number_text(number.get())),
        Reply::Vote(Vote::Held(_)) => "held".to_owned(),
        Reply::Vote(Vote::Quarantined(_)) => "quarantined".to_owned(),
        Reply::Vote(Vote::Gone) => "gone".to_owned(),
        Reply::Vote(Vote::Failed(Fault::Disconnected(_))) => "connection lost".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn output_text(now: Moment, output: &Output) -> Option<String> {
    let text = match output {
        Output::Acquired(_, Ok(grant)) => {
            let fence = grant.fence.map(|fence| format!(" with {}", number_text(fence.get())));
            let until = moment_text(grant.deadlines.ends_at);
            format!("is GRANTED the lock to {until}{}", fence.unwrap_or_default())
        }
        Output::Acquired(_, Err(error)) => format!("does not get it: {error}"),
        Output::Retrying(_, error, pause) => {
            format!("{error}; again at {}", moment_text(now.after(*pause)))
        }
        Output::Kept(_, kept) => {
            format!("KEEPS the lock to {}", moment_text(kept.deadlines.ends_at))
        }
        Output::NotKept(_, ballot) => format!("cannot extend it: {}", ballot.tally()),
        Output::Admitted(node) => format!("{} is admitted again", ["A", "B", "C"][*node]),
        Output::Lost(_, loss) => format!("is told: LOST, {}", loss_text(loss)),
        _ => return None,
    };
    Some(text)
}

fn loss_text(loss: &Loss) -> &'static str {
    match loss {
        Loss::Gone(_) => "gone",
        Loss::MaxHold => "max_hold is reached",
        _ => "expired",
    }
}

pub(super) fn number_text(number: u64) -> String {
    format!("#{number}")
}

pub(super) fn moment_text(moment: Moment) -> String {
    let micros = moment.since(BEGIN).as_micros();
    match micros % 1000 {
        0 => (micros / 1000).to_string(),
        rest => format!("{}.{rest:03}", micros / 1000),
    }
}
