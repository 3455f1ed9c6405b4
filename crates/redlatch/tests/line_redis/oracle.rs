//! Servers keep lines as the reference node does, whatever they are asked.
//!
//! All waiters are of one client, and its link listens: so a server finds everybody
//! it wakes, as the reference node, which does not ask, believes of all.

use super::support::wire::{LONG, Wire};
use redlatch_core::{
    Command, Holder, Identity, KeyState, Moment, Place, Proposal, Reply, Resource, Resources, Then,
    Ticket, Token, Vote, Waiter, Wake,
    dice::Dice,
    line::{LARGEST_SKEW, Line},
    reference::{Reading, ReferenceNode},
};
use redlatch_testbed::{Flavour, Server};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant, SystemTime},
};

const COMMANDS: usize = 2500;
/// How many commands are about the same names.
const PER_SET: usize = 50;
const HOUR: Duration = Duration::from_secs(3600);
/// Ten minutes, in microseconds.
const MINUTES: u64 = 600_000_000;
const CLIENT: u64 = 0xabc_0000_0001;

#[tokio::test]
async fn every_server_keeps_lines_as_the_reference_node_does() {
    for flavour in Flavour::ALL {
        let mut tries = 0..100;
        let kept = loop {
            let seed = tries.next().expect("a try in which the machine does not pause for long");
            if let Some(said) = compare(flavour, seed).await {
                break said;
            }
        };
        // A history in which one of these never happens proves nothing.
        for words in [
            "Granted",
            "Numbered",
            "Gone",
            "ahead: Some(2)",
            "reserved: true",
            "Wake",
            "Some(\"1\")",
        ] {
            assert!(kept.matches(words).count() > 20, "{flavour}: {words} was hardly ever said");
        }
    }
}

/// What was said; `None` if the machine paused for so long that the tickets of a line
/// were no longer comparable.
async fn compare(flavour: Flavour, seed: u64) -> Option<String> {
    let server = Server::options().flavour(flavour).start().expect("a server");
    let mut wire = Wire::to(&server.url(), CLIENT);
    let mut reference = ReferenceNode::new(Identity { run: "1".into(), version: "".into() });
    reference.waiters = Some(BTreeMap::new());
    let mut draw = Draw::new(seed);
    let (mut said, mut wall, mut since) = (String::new(), micros(), Instant::now());
    for number in 0..COMMANDS {
        if number % PER_SET == 0 || since.elapsed() > LARGEST_SKEW / 2 {
            compare_lines(&server, &reference);
            (draw.set, since) = (number, Instant::now());
        }
        let command = draw.command();
        // Keys do not expire; tickets are brought near a clock that moves on.
        wall = micros().max(wall + 1);
        let at = Reading { now: Moment::START, wall: Duration::from_micros(wall), uptime: None };

        let right = reference.carry_out(at, &command);
        let answer = wire.ask(command.clone()).await;

        if since.elapsed() > LARGEST_SKEW + LARGEST_SKEW / 2 {
            return None;
        }
        let right = timeless(&command, right);
        assert_eq!(timeless(&command, answer), right, "{flavour}/{seed}: {number}: {command:?}");
        said += &right;
        for wake in reference.wakes.drain(..) {
            let woken = wire.woken().await;
            assert_eq!(brief(&woken), brief(&wake), "{flavour}/{seed}: {number}: {command:?}");
            said += "Wake";
        }
    }
    compare_lines(&server, &reference);
    assert!(!wire.is_woken().await);
    Some(said)
}

fn compare_lines(server: &Server, reference: &ReferenceNode) {
    for (name, (line, _)) in &reference.contents.lines {
        let text = server.run(&["GET", &format!("redlatch:line:{name}")]).text();
        let text = text.unwrap_or_default();
        let kept =
            text.split_whitespace().map(|text| Ticket::parse(text.as_bytes()).expect("a ticket"));
        assert_eq!(kept.map(|it| it.waiter).collect::<Vec<_>>(), waiters(line), "{name}");
        let flag = server.run(&["EXISTS", &format!("redlatch:waits:{name}")]).int();
        assert_eq!(flag, Some(i64::from(!line.is_empty())));
    }
}

fn waiters(line: &Line) -> Vec<Waiter> {
    line.tickets().iter().map(|ticket| ticket.waiter).collect()
}

fn brief(wake: &Wake) -> (&Resource, Waiter, u16) {
    (&wake.resource, wake.ticket.waiter, wake.ticket.patience)
}

/// The parts that do not depend on the time.
fn timeless(command: &Command, mut reply: Reply) -> String {
    match &mut reply {
        Reply::Vote(Vote::Held(holder)) => {
            holder.remaining = None;
            // A plain take does not say who holds the lock.
            if matches!(command, Command::Take { place: None, .. }) {
                *holder = Holder::default();
            }
        }
        Reply::Keys(states) => {
            for state in states {
                let KeyState::Held { value, remaining, .. } = state else { continue };
                *remaining = None;
                if let Some(ticket) = value.as_deref().and_then(Ticket::reserved_in) {
                    let reservation = Ticket { arrived: 0, ..ticket }.reservation();
                    *value = Some(reservation.into_bytes().into());
                }
            }
        }
        Reply::Line(line) => {
            let first = line.first.iter().map(|it| (it.ticket.waiter, it.owner.as_deref()));
            return format!("in line: {} {:?}", line.count, first.collect::<Vec<_>>());
        }
        _ => {}
    }
    format!("{reply:?}")
}

fn micros() -> u64 {
    let since =
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time since 1970");
    u64::try_from(since.as_micros()).expect("not too far from now")
}

struct Draw {
    dice: Dice,
    begin: u64,
    /// Makes names different from those before.
    set: usize,
}

impl Draw {
    fn new(seed: u64) -> Self {
        Draw { dice: Dice::of(seed, &[]), begin: micros(), set: 0 }
    }

    fn command(&mut self) -> Command {
        let names: &[&str] = self.dice.pick(&[&["a"][..], &["a"], &["a", "b"], &["b"]]);
        let names = names.iter().map(|name| format!("{name}{}", self.set));
        let resources = Resources::new(names).expect("good names");
        let owner = self.dice.below(3);
        let token = Token::from_bytes(format!("{owner:040}@{owner}").as_bytes());
        let (ttl, fingerprint) = (LONG, None);
        let ticket = self.ticket();
        match self.dice.below(20) {
            0..8 => {
                // Ahead of every clock, and within the skew: both settle on one number.
                let micros = self.begin + self.dice.between(MINUTES, 2 * MINUTES);
                let fence = self.dice.percent(50).then(|| Proposal::new(micros, HOUR));
                let known = self.dice.percent(50);
                let place = self.dice.percent(85).then_some(Place { ticket, known });
                Command::Take { resources, token, ttl, fence, fingerprint, place }
            }
            8..17 => {
                let then = match self.dice.below(10) {
                    0..5 => None,
                    5..7 => Some(Then::Leave(ticket)),
                    7 | 8 => Some(Then::Wait(ticket)),
                    _ => Some(Then::Pass(ticket)),
                };
                Command::Release { resources, token, then }
            }
            17 => {
                let ticket = self.dice.percent(80).then_some(ticket);
                Command::Plant { resources, token, ttl, fingerprint, ticket }
            }
            18 => Command::Inspect { resources },
            _ => Command::Line { resource: resources.iter().next().expect("a name").clone() },
        }
    }

    /// One that arrived a second ago or will in a second, as far as nodes believe it.
    fn ticket(&mut self) -> Ticket {
        let arrived = if self.dice.percent(30) { 0 } else { u64::MAX >> 12 };
        let line = u16::try_from(self.dice.below(6)).expect("below 6");
        Ticket { arrived, waiter: Waiter::new(CLIENT, line), patience: 60_000 }
    }
}
