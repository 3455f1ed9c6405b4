//! Every kind of node answers all commands as the reference node does, whether they are
//! sent one by one or many in one turn.

use super::super::site::{OWNER, PATIENCE, Site};
use crate::{
    driver::clock::wall_micros,
    node::{self, Memory, Node},
};
use redlatch_core::{
    Agreement, Command, Facts, FencingToken, Holder, Identity, KeyState, Mark, Moment, Owner,
    Place, Proposal, Reply, Resources, Then, Ticket, Token, Vote, Waiter,
    dice::Dice,
    line::LARGEST_SKEW,
    reference::{Reading, ReferenceNode},
};
use redlatch_testbed::{Flavour, Server};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

const COMMANDS: usize = 8000;
/// How many commands use the same names: few, because reservations lapse.
const CHAPTER: usize = 100;
const HOUR: Duration = Duration::from_secs(3600);
/// Ten minutes, in microseconds.
const MINUTES: u64 = 600_000_000;

#[tokio::test]
async fn memory_answers_as_the_reference_node_does() {
    answers_as_the_reference_node_does(&Memory::new("memory:oracle"), true).await;
}

#[cfg(feature = "file")]
#[tokio::test]
async fn a_file_answers_as_the_reference_node_does() {
    let scratch = redlatch_testbed::Scratch::in_memory().unwrap();
    answers_as_the_reference_node_does(&node::File::new(scratch.file("locks.db")), true).await;
}

#[tokio::test]
async fn every_server_answers_as_the_reference_node_does() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).start().unwrap();
        let node = node::parse(&server.url()).unwrap();
        answers_as_the_reference_node_does(&*node, true).await;
    }
}

async fn answers_as_the_reference_node_does(node: &dyn Node, lines: bool) {
    let begin = wall_micros();
    let mut draw = Draw::new(begin, lines);
    let mut reference = ReferenceNode::new(Identity { run: "1".into(), version: "".into() });
    reference.waiters = Some(BTreeMap::new());
    let mut link = Site::new(node, PATIENCE).link();
    let (mut mark, mut own_mark): (Option<Mark>, Option<Mark>) = (None, None);
    let (mut said, mut woken, mut chapter) = (String::new(), 0, Instant::now());
    let mut number = 0;
    while number < COMMANDS {
        if number / CHAPTER != draw.chapter || number == 0 {
            (draw.chapter, chapter) = (number / CHAPTER, Instant::now());
        }
        let turn = draw.turn();
        let asked = turn.iter().map(|command| marked(command, mark.as_ref()));
        let answers = link.ask_all(asked).await.unwrap();

        let known = own_mark.clone();
        for (command, answer) in turn.iter().zip(answers) {
            // Time stands still for the reference node, so nothing expires; but on its wall
            // clock, every ticket is later than the one before.
            let (now, wall) = (Moment::START, Duration::from_micros(draw.wall()));
            let at = Reading { now, wall, uptime: None };
            let right = reference.carry_out(at, &marked(command, known.as_ref()));

            if let (Reply::Facts(told), Reply::Facts(right)) = (&answer, &right) {
                (mark, own_mark) = (told.mark.clone(), right.mark.clone());
            }
            let (answer, right) = (timeless(answer), timeless(right));
            if answer != right && chapter.elapsed() >= LARGEST_SKEW {
                return; // so slow that earlier waiters may be ahead by now, or gone
            }
            assert_eq!(answer, right, "{}: {number}: {command:?} of {turn:#?}", node.name());
            said += &right;
            number += 1;
        }
        let was_slow = chapter.elapsed() >= LARGEST_SKEW;
        for wake in reference.wakes.drain(..) {
            let told = link.wake().await.unwrap().map(|told| (told.resource, told.ticket.waiter));
            if was_slow && told != Some((wake.resource.clone(), wake.ticket.waiter)) {
                return;
            }
            assert_eq!(told, Some((wake.resource, wake.ticket.waiter)), "{number}: {turn:#?}");
            woken += 1;
        }
        assert_eq!(link.woken(), None, "{number}: {turn:#?}");
    }
    // A history in which one of these never happens proves nothing.
    for vote in ["Granted", "Numbered", "Held", "Gone", "Forgot", "Disagrees"] {
        assert!(said.matches(vote).count() > 20, "{vote} was hardly ever said");
    }
    if lines {
        assert!(said.matches(&format!("Some({OWNER:?})")).count() > 5, "hardly anybody was told");
        for words in ["ahead: Some(0)", "ahead: Some(1)", "reserved for"] {
            assert!(said.matches(words).count() > 20, "{words} was hardly ever said");
        }
        assert!(woken > 20, "hardly anybody was woken");
    }
}

/// Fills in the node's latest mark, if the draw left an admission's mark empty.
fn marked(command: &Command, told: Option<&Mark>) -> Command {
    let mut command = command.clone();
    if let (Command::Admit { mark, .. }, Some(told)) = (&mut command, told)
        && mark.is_empty()
    {
        *mark = told.id.clone();
    }
    command
}

/// The parts that depend neither on the time nor on the server.
fn timeless(mut reply: Reply) -> String {
    match &mut reply {
        // A plain Redis take does not say who holds the lock.
        Reply::Vote(Vote::Held(holder)) => {
            *holder = Holder::default().with_ahead(holder.ahead.map(usize::from));
        }
        Reply::Keys(states) => {
            for state in &mut *states {
                if let KeyState::Held { value, remaining, .. } = state {
                    *remaining = None;
                    let reserved = value.as_deref().and_then(Ticket::reserved_in);
                    if let Some(Ticket { waiter, .. }) = reserved {
                        return format!("reserved for {waiter:?}, and more: {}", states.len());
                    }
                }
            }
        }
        Reply::Line(line) => {
            let first = line.first.iter().map(|it| (it.ticket.waiter, it.owner.as_deref()));
            return format!("in line: {} {:?}", line.count, first.collect::<Vec<_>>());
        }
        Reply::Facts(facts) => {
            let Facts { marker, agreement, reserved, mark, highest, .. } = &**facts;
            let (marker, mark) = (marker.as_ref().map(|it| it.fingerprint), mark.is_some());
            return format!("{marker:?} {agreement:?} {reserved:?} {mark} {highest:?}");
        }
        _ => {}
    }
    format!("{reply:?}")
}

/// The kinds of commands in one turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kinds {
    All,
    /// What a client has ready by the hundred: votes on and releases of single names.
    Everyday,
    /// The commands that plain Redlock needs: they may be sent without a script.
    Plain,
}

struct Draw {
    dice: Dice,
    begin: u64,
    tokens: [Token; 3],
    agreements: [Agreement; 2],
    lines: bool,
    /// Gives each chapter different names.
    chapter: usize,
    kinds: Kinds,
    /// Which agreement, and whether with the restart guard.
    agreed: usize,
    guarded: bool,
    /// How many there are in this turn.
    commands: usize,
    /// What all takes of this turn propose, if they propose the same.
    proposed: Option<u64>,
    /// The last reading of the wall clock.
    last: u64,
}

impl Draw {
    fn new(begin: u64, lines: bool) -> Self {
        let mut dice = Dice::of(11, &[]);
        let owner = Owner::new(OWNER).unwrap();
        let tokens = [(); 3].map(|()| Token::fresh(&mut dice, &owner));
        let agreements = ["us", "them"].map(|name| Agreement::new([name.into()], HOUR, HOUR));
        Draw {
            dice,
            begin,
            tokens,
            agreements,
            lines,
            chapter: 0,
            kinds: Kinds::All,
            agreed: 0,
            guarded: false,
            commands: 1,
            proposed: None,
            last: begin,
        }
    }

    /// Commands to send at once: one, a few, or more than fit into one call.
    fn turn(&mut self) -> Vec<Command> {
        self.commands = self.dice.pick(&[1, 1, 5, 20, 90]);
        self.kinds = self.dice.pick(&[
            Kinds::All,
            Kinds::All,
            Kinds::Everyday,
            Kinds::Everyday,
            Kinds::Plain,
        ]);
        self.agreed = usize::from(self.dice.percent(20));
        self.guarded = self.kinds != Kinds::Plain && self.dice.percent(70);
        self.proposed = None;
        let together = self.number();
        self.proposed = self.dice.percent(50).then_some(together);
        (0..self.commands).map(|_| self.command()).collect()
    }

    fn command(&mut self) -> Command {
        if self.kinds == Kinds::All {
            self.agreed = usize::from(self.dice.percent(20));
            self.guarded = self.dice.percent(70);
        }
        let single = [&["a"][..], &["b"], &["c"], &["d"], &["e"], &["f"], &["g"]];
        let several = [&["a"][..], &["b"], &["a", "b"], &["c", "a"]];
        let names: &[&str] = if self.kinds == Kinds::All {
            self.dice.pick(&several)
        } else {
            self.dice.pick(&single)
        };
        let names = names.iter().map(|name| format!("{name}{}", self.chapter));
        let resources = Resources::new(names).unwrap();
        let ticket = self.ticket();
        let token = self.tokens[self.dice.index(3)].clone();
        // However slow this machine is, nothing expires during the test.
        let ttl = self.dice.pick(&[1, 1, 2, 3]) * HOUR;
        let micros = self.number();
        let number = FencingToken::new(micros);
        let fence = number.filter(|_| self.kinds != Kinds::Plain && self.dice.percent(50));
        let agreement = &self.agreements[self.agreed];
        let by = agreement.fingerprint();
        let fingerprint = self.guarded.then_some(by);
        let plain = [0, 1, 2, 3, 4, 5, 8, 9, 10];
        let everyday = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13];
        match match self.kinds {
            Kinds::All => self.dice.below(20),
            Kinds::Everyday => self.dice.pick(&everyday),
            Kinds::Plain => self.dice.pick(&plain),
        } {
            0..5 => {
                let fence = fence.map(|_| Proposal::new(micros, HOUR));
                let known = self.dice.percent(50);
                let place = ticket.map(|ticket| Place { ticket, known });
                Command::Take { resources, token, ttl, fence, fingerprint, place }
            }
            5..8 => Command::Extend { resources, token, ttl, fence, fingerprint },
            8..11 => {
                let then = [Then::Leave, Then::Wait, Then::Pass][self.dice.index(3)];
                Command::Release { resources, token, then: ticket.map(then) }
            }
            11 => Command::Raise { resources, token, to: number.unwrap(), fingerprint },
            12 => Command::Plant { resources, token, ttl, fingerprint, ticket },
            13 => Command::Inspect { resources },
            14 if self.dice.percent(50) => Command::Examine,
            14 => Command::Line { resource: resources.iter().next().unwrap().clone() },
            15..17 => {
                let (nonce, replace) = (self.dice.roll(), self.dice.percent(20));
                Command::Watch { fingerprint: by, nonce, replace }
            }
            _ => {
                let mark = if self.dice.percent(10) { "1 2 3 4" } else { "" }.into();
                let agreement = Arc::from(agreement.to_string());
                Command::Admit { fingerprint: by, agreement, mark, floor: fence }
            }
        }
    }

    /// Ahead of every clock, and within the skew, so that both nodes settle on the same number.
    fn number(&mut self) -> u64 {
        let drawn = self.begin + self.dice.between(MINUTES, 2 * MINUTES);
        self.proposed.unwrap_or(drawn)
    }

    /// A ticket of one of a few waiters, all of one client. A ticket sent by itself arrived
    /// long ago or will arrive in ages; nodes turn that into a second before or after they
    /// see it. Tickets sent together, which a node may see at the same time, arrived in turn.
    fn ticket(&mut self) -> Option<Ticket> {
        let arrived = match self.commands {
            1 if self.dice.percent(50) => 0,
            1 => u64::MAX,
            _ => self.wall(),
        };
        let line = u16::try_from(self.dice.below(4)).unwrap();
        let ticket = Ticket { arrived, waiter: Waiter::new(7, line), patience: u16::MAX };
        (self.lines && self.dice.percent(60)).then_some(ticket)
    }

    /// The wall clock, never the same twice.
    fn wall(&mut self) -> u64 {
        self.last = wall_micros().max(self.last + 1);
        self.last
    }
}
