//! Bugs in lines, and in waking clients.

use super::{Bug, broken::Broken};
use redlatch_core::{
    Command, Place, Reply, Then, Ticket, Token, Vote, Waiter, Wake,
    line::Line,
    reference::{Contents, Key, Presence, Reading},
};
use std::{collections::BTreeMap, time::Duration};
use tokio::sync::mpsc::UnboundedSender;

/// The links whose clients can be woken, by their numbers.
pub(super) type Listeners = BTreeMap<usize, (u64, UnboundedSender<Wake>)>;

impl Broken {
    /// Records which client a link belongs to, when its first ticket arrives.
    pub(super) fn listen(&mut self, link: usize, client: u64, wakes: &UnboundedSender<Wake>) {
        self.listeners.entry(link).or_insert_with(|| (client, wakes.clone()));
        self.count_listeners();
    }

    pub(super) fn hang_up(&mut self, link: usize) {
        self.listeners.remove(&link);
        self.count_listeners();
    }

    fn count_listeners(&mut self) {
        let clients = self.listeners.values().map(|(client, _)| *client).collect();
        self.node.listening = (self.bug != Bug::ServesTheGone).then_some(clients);
    }

    /// How it misreads what a command says about the line.
    pub(super) fn misread_line(&self, now: Reading, command: &Command) -> Command {
        let mut asked = command.clone();
        let wall = u64::try_from(now.wall.as_micros()).expect("microseconds");
        match &mut asked {
            Command::Take { place, .. } => match (self.bug, &mut *place) {
                (Bug::KeepsNoLines, place) => *place = None,
                (Bug::JoinsWithoutTicket, place @ None) => {
                    let waiter = Waiter::new(1, 1);
                    let ticket = Ticket { arrived: wall, waiter, patience: 1 };
                    *place = Some(Place { ticket, known: false });
                }
                (Bug::ServesByJoining, Some(place)) => place.ticket.arrived = wall,
                (Bug::JoinsTwice, Some(Place { ticket, .. })) => {
                    let line = u16::try_from(wall % 65_536).expect("a remainder");
                    ticket.waiter = Waiter::new(ticket.waiter.client(), line);
                }
                (Bug::GrantsKeepThePlace, Some(place)) => place.known = false,
                (Bug::NobodyOvertakes, Some(Place { ticket, .. })) => ticket.arrived = u64::MAX,
                _ => {}
            },
            Command::Plant { ticket, .. } => {
                let ignored = matches!(self.bug, Bug::PlantsNothingReserved | Bug::KeepsNoLines);
                *ticket = ticket.filter(|_| !ignored);
            }
            Command::Release { then, .. } => {
                *then = match (self.bug, *then) {
                    (Bug::KeepsNoLines, _)
                    | (Bug::NobodyLeaves, Some(Then::Leave(_)))
                    | (Bug::NobodyWaits, Some(Then::Wait(_)))
                    | (Bug::PassesToTheFirst, Some(Then::Pass(_))) => None,
                    (_, then) => then,
                }
            }
            _ => {}
        }
        asked
    }

    /// What it does to lines and reservations before it carries out a command.
    pub(super) fn meddle_with_lines(&mut self, now: Reading, asked: &Command) {
        let Contents { keys, lines, .. } = &mut self.node.contents;
        let waiters = &mut self.node.waiters;
        match (self.bug, asked) {
            (Bug::AnyoneTakesTheReserved, Command::Take { resources, .. })
            | (Bug::PlantsOvertake, Command::Plant { resources, ticket: Some(_), .. }) => {
                for name in resources {
                    let reserved = keys.get(name).map(|key| Ticket::reserved_in(&key.value));
                    if let Some(Some(_)) = reserved {
                        keys.remove(name);
                    }
                }
            }
            (
                Bug::AnyoneWaits,
                Command::Release { resources, then: Some(Then::Wait(ticket)), .. },
            ) => {
                let dies = now.now.after(Duration::from_secs(30));
                for name in resources {
                    let line = lines.entry(name.clone()).or_insert((Line::default(), dies));
                    line.0.join(*ticket);
                }
                let presence = Presence { owner: None, dies };
                waiters.get_or_insert_default().insert(ticket.waiter, presence);
            }
            (Bug::AnyoneServes, Command::Release { resources, token, .. }) => {
                for name in resources.iter().filter(|name| lines.contains_key(*name)) {
                    if let Some(key) = keys.get_mut(name) {
                        key.value = token.as_bytes().into();
                    }
                }
            }
            _ => {}
        }
    }

    /// How it corrupts lines and reservations, and whom it wakes.
    pub(super) fn spoil_lines(
        &mut self,
        now: Reading,
        asked: &Command,
        before: &Contents,
        reply: &Reply,
    ) {
        let Contents { keys, lines, .. } = &mut self.node.contents;
        let mut wakes = std::mem::take(&mut self.node.wakes);
        match (self.bug, asked) {
            (Bug::WakesNobody, _) => wakes.clear(),
            (Bug::WakesEverybody, _) => {
                for Wake { resource, .. } in wakes.clone() {
                    let others = lines.get(&resource).map(|(line, _)| line.tickets());
                    let others = others.unwrap_or_default().iter();
                    wakes.extend(others.map(|it| Wake { resource: resource.clone(), ticket: *it }));
                }
            }
            (
                Bug::WakesWhoPasses,
                Command::Release { resources, then: Some(Then::Pass(ticket)), .. },
            ) => {
                let wake = |name: &_| Wake { resource: Clone::clone(name), ticket: *ticket };
                wakes.extend(resources.iter().map(wake));
            }
            (Bug::WakesForTheFirstName, Command::Release { resources, .. }) => {
                let first = resources.iter().next().expect("a name");
                for wake in &mut wakes {
                    wake.resource = first.clone();
                }
            }
            (Bug::ReservesNamelessly, Command::Release { .. }) => {
                for wake in &wakes {
                    if let Some(key) = keys.get_mut(&wake.resource) {
                        key.value = wake.ticket.reservation().into_bytes().into();
                    }
                }
            }
            (Bug::ReservesNoLock, Command::Release { resources, .. }) => {
                resources.iter().for_each(|name| drop(keys.remove(name)));
            }
            (Bug::ReservationsStay | Bug::ReservationsLapseEarly, Command::Release { .. }) => {
                for wake in &wakes {
                    let lasts = match self.bug {
                        Bug::ReservationsStay => Duration::from_secs(3600),
                        _ => wake.ticket.patience() / 2,
                    };
                    if let Some(key) = keys.get_mut(&wake.resource) {
                        key.dies = now.now.after(lasts);
                    }
                }
            }
            (Bug::ServesOneLine, Command::Release { .. }) => {
                for wake in wakes.drain(1.min(wakes.len())..) {
                    keys.remove(&wake.resource);
                }
            }
            (Bug::DropsTheUnheard, Command::Release { .. }) => {
                let hears = |client| self.listeners.values().any(|(of, _)| *of == client);
                for (line, _) in lines.values_mut() {
                    let tickets = line.tickets().iter().copied();
                    *line = tickets.filter(|it| hears(it.waiter.client())).collect();
                }
            }
            (
                Bug::KeepsWhatIsReserved,
                Command::Release { resources, then: Some(Then::Leave(ticket)), .. },
            ) => {
                for name in resources {
                    let key = before.keys.get(name);
                    let reserved = key.and_then(|key| Ticket::reserved_in(&key.value));
                    if reserved.is_some_and(|other| other.waiter == ticket.waiter) {
                        keys.extend(key.map(|key| (name.clone(), key.clone())));
                        wakes.clear();
                    }
                }
            }
            (Bug::ReservesForNobody, Command::Release { resources, .. }) => {
                let dies = now.now.after(Duration::from_secs(60));
                for name in resources.iter().filter(|name| before.keys.contains_key(*name)) {
                    let value = Token::from_bytes(b"nobody").as_bytes().into();
                    keys.entry(name.clone()).or_insert(Key { value, dies });
                }
            }
            (Bug::JoinsEveryLine, Command::Take { resources, place: Some(place), .. })
                if matches!(reply, Reply::Vote(Vote::Held(_))) =>
            {
                let dies = now.now.after(Duration::from_secs(30));
                for name in resources.iter().filter(|name| keys.contains_key(*name)) {
                    let line = lines.entry(name.clone()).or_insert((Line::default(), dies));
                    line.0.join(place.ticket);
                }
            }
            (Bug::ForgetsTheOvertaken, Command::Take { resources, .. })
                if *reply == Reply::Vote(Vote::Granted) =>
            {
                resources.iter().for_each(|name| drop(lines.remove(name)));
            }
            _ => {}
        }
        for wake in wakes {
            let client = wake.ticket.waiter.client();
            for (_, (_, to)) in self.listeners.iter().filter(|(_, (of, _))| *of == client) {
                let _ = to.send(wake.clone());
            }
        }
    }
}
