//! Waiting in line: who is served next when a lock is released.
//!
//! In:  tickets of clients that wait, and of clients that no longer do.
//! Out: whose turn it is.
//!
//! A client that finds a lock held leaves a [`Ticket`] on each node, the same on all of them,
//! so that all nodes serve clients in the same order. When the lock is released, a node does
//! not delete its key: it *reserves* it for the first in line ([`Ticket::reservation`]) and
//! tells that client ([`Wake`]). A reservation that is not used lapses.
//!
//! Promise: none that a lock relies on. A reservation is not a lock and a ticket is not a
//! vote: even if they are lost, repeated or given to anyone, exclusion and fencing hold. A
//! wrong line only costs time.

use crate::{
    resource::Resource,
    vote::{Ballot, Holder},
};
use alloc::{boxed::Box, string::String, sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

/// How far a ticket may differ from a node's clock. A client with a wrong clock gains or
/// loses no more than this.
pub const LARGEST_SKEW: Duration = Duration::from_secs(1);
/// How long a node keeps a line that nobody joins, leaves or checks.
pub const LINE_LIFE: Duration = Duration::from_secs(30);
/// How long a ticket counts after its client last asked for the lock: three times the
/// longest pause between two checks. That is how dead clients drop out of line.
pub const TICKET_LIFE: Duration = Duration::from_secs(30);
/// How long a ticket counts after a release that its client could not be notified of, unless
/// it asks again: a client that lost its connection is back by then, and keeps its place.
pub const UNHEARD_LIFE: Duration = Duration::from_secs(3);
/// A key lives up to a millisecond longer than it says, and timers tick in milliseconds.
const EXPIRY: Duration = Duration::from_millis(2);
/// How often the first in line checks the nodes, in case a wake is lost.
pub const LOOK: Duration = Duration::from_secs(1);
/// How often the last in a very long line checks the nodes.
pub(crate) const LONGEST_LOOK: Duration = Duration::from_secs(10);
/// Checks become rarer with each group of this many places in line.
const PLACES: u32 = 8;
/// The default of [`InLine::poll_max`].
pub const DEFAULT_POLL_MAX: Duration = Duration::from_millis(250);
/// How often a client that passes a lock on among its own callers leaves it free for a
/// moment: other libraries do not wait in line, and would otherwise never get a turn.
pub const OPEN_EVERY: Duration = Duration::from_secs(1);
/// How long it then stays free. A client that asks more often than this gets a turn.
pub const OPEN_FOR: Duration = Duration::from_millis(10);
/// The default of [`InLine::local_batch`].
pub const DEFAULT_LOCAL_BATCH: u32 = 4;
/// The shortest reservation: a busy machine takes a while to schedule a process.
const LEAST_PATIENCE: Duration = Duration::from_millis(250);
/// The longest reservation: the most that a frozen client costs the others, once.
const MOST_PATIENCE: Duration = Duration::from_secs(2);
/// How many waiters of a line a node reports: reading more would delay others.
pub const MOST_TOLD: usize = 100;
/// The prefix of a reserved key's value; the ticket follows and, if known, `@` and the
/// owner's text.
pub const RESERVED_FOR: &str = "redlatch:next:";

/// Identifies one line of one client: 48 bits of the client, 16 of the line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(u64);

impl Waiter {
    /// Creates the waiter for the line with this number, of the client with these 48
    /// bits.
    #[must_use]
    pub const fn new(client: u64, line: u16) -> Self {
        Waiter(client << 16 | line as u64)
    }

    /// Returns the client's 48 bits. Every line of a client is woken the same way.
    #[must_use]
    pub const fn client(self) -> u64 {
        self.0 >> 16
    }

    /// Returns the number of the line, which only its client knows.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the lower 16 bits are the line")]
    pub const fn line(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for Waiter {
    /// 16 hex digits, as in a ticket.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiter({:012x}/{})", self.client(), self.line())
    }
}

/// A place in line. Earlier arrivals come first.
///
/// As text it is 36 hex digits: 16 for the arrival, 16 for the waiter, 4 for the
/// patience. Texts compare as tickets do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    /// When its client began to wait, in microseconds since 1970. Nodes bring it
    /// within [`LARGEST_SKEW`] of their own clock, so it may differ between nodes.
    pub arrived: u64,
    /// Whose ticket it is. A waiter has at most one ticket in a line.
    pub waiter: Waiter,
    /// How long a reservation for it lasts, in milliseconds.
    pub patience: u16,
}

impl Ticket {
    /// The length of a ticket as text.
    pub const LENGTH: usize = 36;

    /// Returns how long a reservation for it lasts.
    #[must_use]
    pub fn patience(self) -> Duration {
        Duration::from_millis(u64::from(self.patience))
    }

    /// Returns what a key holds while it is reserved for this ticket.
    #[must_use]
    pub fn reservation(self) -> String {
        self.reservation_for(None)
    }

    /// Returns what a key holds while it is reserved for this ticket of this owner.
    #[must_use]
    pub fn reservation_for(self, owner: Option<&str>) -> String {
        match owner {
            Some(owner) => alloc::format!("{RESERVED_FOR}{self}@{owner}"),
            None => alloc::format!("{RESERVED_FOR}{self}"),
        }
    }

    /// Parses a ticket from its text.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok().filter(|text| text.len() == Self::LENGTH)?;
        let hex = |from, to| u64::from_str_radix(text.get(from..to)?, 16).ok();
        let patience = u16::try_from(hex(32, 36)?).ok()?;
        Some(Ticket { arrived: hex(0, 16)?, waiter: Waiter(hex(16, 32)?), patience })
    }

    /// Returns the ticket that a key with this value is reserved for, if any.
    #[must_use]
    pub fn reserved_in(value: &[u8]) -> Option<Self> {
        Waiting::reserved_in(value).map(|waiting| waiting.ticket)
    }

    /// Returns the ticket as kept by a node whose clock shows `wall` (in microseconds).
    #[must_use]
    pub fn at_node(self, wall: u64) -> Self {
        let skew = u64::try_from(LARGEST_SKEW.as_micros()).unwrap_or(u64::MAX);
        let arrived = self.arrived.clamp(wall.saturating_sub(skew), wall.saturating_add(skew));
        Ticket { arrived, ..self }
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{}{:04x}", self.arrived, self.waiter, self.patience)
    }
}

/// How one request waits in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InLine {
    /// When it arrived, by the client's wall clock, in microseconds since 1970.
    pub arrived: u64,
    /// Other libraries notify nobody when they release a lock: if one of them holds it, the
    /// first in line checks at least this often, and more often if the lock changes hands.
    pub poll_max: Duration,
    /// A client passes the lock on among its own callers this many times in a row; then an
    /// earlier caller of another client gets its turn.
    pub local_batch: u32,
}

impl InLine {
    /// Returns the defaults for a request that arrived at this time.
    #[must_use]
    pub fn at(arrived: u64) -> Self {
        InLine { arrived, poll_max: DEFAULT_POLL_MAX, local_batch: DEFAULT_LOCAL_BATCH }
    }

    /// Returns the ticket of this request, given how long nodes may take to answer.
    #[must_use]
    pub fn ticket(&self, waiter: Waiter, node_timeout: Duration) -> Ticket {
        let patience = node_timeout.clamp(LEAST_PATIENCE, MOST_PATIENCE).as_millis();
        let patience = u16::try_from(patience).unwrap_or(u16::MAX);
        Ticket { arrived: self.arrived, waiter, patience }
    }

    /// Returns when to check the nodes again after these votes, if nobody wakes us. `None`
    /// if no node keeps a line.
    #[must_use]
    pub fn look_again(&self, ballot: &Ballot) -> Option<Duration> {
        let holders = || ballot.casts().iter().filter_map(|cast| cast.vote.holder());
        let ahead = holders().filter_map(|holder| holder.ahead).min()?;
        if ahead > 0 {
            return Some((LOOK + LOOK / PLACES * u32::from(ahead)).min(LONGEST_LOOK));
        }
        let is_foreign = foreign(ballot).next().is_some();
        let usual = if is_foreign { self.poll_max.min(LOOK) } else { LOOK };
        // When enough keys have expired for a majority, if nobody extends them.
        let mut lives: Vec<_> = holders().filter_map(|holder| holder.remaining).collect();
        lives.sort_unstable();
        let tally = ballot.tally();
        let missing = tally.majority().saturating_sub(tally.granted + 1);
        let free = lives.get(missing).map_or(usual, |left| *left + EXPIRY);
        Some(free.min(usual))
    }
}

/// Returns how much longer another library's lock lives, if another library holds it and
/// nobody is ahead of us in line.
#[must_use]
pub(crate) fn stranger_leaves_in(ballot: &Ballot) -> Option<Duration> {
    let lives = foreign(ballot).filter(|holder| holder.ahead == Some(0));
    lives.map(|holder| holder.remaining.unwrap_or(Duration::MAX)).max()
}

/// Returns the answers of nodes on which another library holds the lock.
fn foreign(ballot: &Ballot) -> impl Iterator<Item = &Holder> {
    let holders = ballot.casts().iter().filter_map(|cast| cast.vote.holder());
    holders.filter(|holder| holder.owner.is_none() && !holder.reserved)
}

/// What a take does about the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// Joins the line with this ticket if the lock is held. If the key is reserved for it,
    /// or for a later ticket, the take is granted.
    pub ticket: Ticket,
    /// Whether the ticket may already be in line: then a grant removes it.
    pub known: bool,
}

/// What a release does about the line, besides serving the next waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Then {
    /// Removes the ticket from the line, and passes on what is reserved for it.
    Leave(Ticket),
    /// If the key was ours, puts the ticket into the line before the next waiter is served.
    Wait(Ticket),
    /// If the key was ours, reserves it for this ticket, whoever else waits. The
    /// ticket's client already knows, so nobody is woken.
    Pass(Ticket),
}

/// A node has reserved a key for a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wake {
    /// The key.
    pub resource: Resource,
    /// For whom it is reserved.
    pub ticket: Ticket,
}

/// A waiter, as reported by a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// Its place in line.
    pub ticket: Ticket,
    /// The owner's text (see [`owner`](crate::owner)) in the token of its last take;
    /// `None` if the node does not know it.
    pub owner: Option<Arc<str>>,
}

impl Waiting {
    /// Returns for whom a key with this value is reserved, if for anyone.
    #[must_use]
    pub fn reserved_in(value: &[u8]) -> Option<Self> {
        let rest = value.strip_prefix(RESERVED_FOR.as_bytes())?;
        let (ticket, rest) = rest.split_at_checked(Ticket::LENGTH)?;
        let owner = match rest.split_first() {
            None => None,
            Some((b'@', owner)) => core::str::from_utf8(owner).ok().map(Arc::from),
            Some(_) => return None,
        };
        Some(Waiting { ticket: Ticket::parse(ticket)?, owner })
    }
}

/// The line for one key, as reported by a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct LineState {
    /// The waiters, the first in line first: at most [`MOST_TOLD`] of them.
    pub first: Box<[Waiting]>,
    /// How many wait.
    pub count: usize,
}

/// Whether the client of a ticket can be notified that it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hears {
    /// It can.
    Yes,
    /// Nobody listens for it, though it asked recently: its connection may have broken.
    NotNow,
    /// Its ticket no longer counts.
    Nevermore,
}

/// The line for one key on one node, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Line(Vec<Ticket>);

impl Line {
    /// Joins the line, unless the waiter is already in it. Returns how many are ahead.
    pub fn join(&mut self, ticket: Ticket) -> usize {
        if let Some(at) = self.position(ticket.waiter) {
            return at;
        }
        let at = self.0.partition_point(|other| *other < ticket);
        self.0.insert(at, ticket);
        at
    }

    /// Joins the line like [`join`](Self::join), and drops tickets whose clients no longer
    /// ask: those just ahead of it and the last ones in line. Every live client drops the
    /// dead ones ahead of it, so all of them are gone once every client has checked.
    ///
    /// # Errors
    ///
    /// Those of `is_alive`.
    pub fn join_the_living<E>(
        &mut self,
        ticket: Ticket,
        mut is_alive: impl FnMut(Waiter) -> Result<bool, E>,
    ) -> Result<usize, E> {
        let mut at = self.join(ticket);
        while let Some(last) = self.0.last()
            && last.waiter != ticket.waiter
            && !is_alive(last.waiter)?
        {
            self.0.pop();
        }
        while at > 0 && !is_alive(self.0[at - 1].waiter)? {
            at -= 1;
            self.0.remove(at);
        }
        Ok(at)
    }

    /// Leaves the line. Returns whether the waiter was in it.
    pub fn leave(&mut self, waiter: Waiter) -> bool {
        let before = self.0.len();
        self.0.retain(|ticket| ticket.waiter != waiter);
        self.0.len() < before
    }

    /// Removes and returns the first ticket.
    pub fn take_first(&mut self) -> Option<Ticket> {
        if self.0.is_empty() { None } else { Some(self.0.remove(0)) }
    }

    /// Removes and returns the first ticket whose client can be notified. Tickets ahead of
    /// it that no longer count are dropped; those that cannot be notified keep their places.
    ///
    /// # Errors
    ///
    /// Those of `hears`.
    pub fn take_first_who_hears<E>(
        &mut self,
        mut hears: impl FnMut(Ticket) -> Result<Hears, E>,
    ) -> Result<Option<Ticket>, E> {
        let mut at = 0;
        while let Some(ticket) = self.0.get(at).copied() {
            match hears(ticket)? {
                Hears::Yes => return Ok(Some(self.0.remove(at))),
                Hears::NotNow => at += 1,
                Hears::Nevermore => drop(self.0.remove(at)),
            }
        }
        Ok(None)
    }

    /// Returns the tickets, the first in line first.
    #[must_use]
    pub fn tickets(&self) -> &[Ticket] {
        &self.0
    }

    /// Returns whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the waiter is in line.
    #[must_use]
    pub fn contains(&self, waiter: Waiter) -> bool {
        self.position(waiter).is_some()
    }

    fn position(&self, waiter: Waiter) -> Option<usize> {
        self.0.iter().position(|ticket| ticket.waiter == waiter)
    }
}

impl FromIterator<Ticket> for Line {
    /// Sorts tickets of different waiters.
    fn from_iter<I: IntoIterator<Item = Ticket>>(tickets: I) -> Self {
        let mut tickets: Vec<_> = tickets.into_iter().collect();
        tickets.sort_unstable();
        Line(tickets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec};

    fn ticket(arrived: u64, client: u64) -> Ticket {
        Ticket { arrived, waiter: Waiter::new(client, 7), patience: 250 }
    }

    #[test]
    fn a_ticket_is_read_back_from_its_text_and_texts_compare_as_tickets_do() {
        let tickets = [ticket(1, 9), ticket(2, 1), ticket(2, 2), ticket(1 << 50, 0)];

        for ticket in tickets {
            let text = ticket.to_string();
            assert_eq!(text.len(), Ticket::LENGTH);
            assert_eq!(Ticket::parse(text.as_bytes()), Some(ticket));
            assert_eq!(Ticket::reserved_in(ticket.reservation().as_bytes()), Some(ticket));
            for owner in [None, Some("web-1/7")] {
                let value = ticket.reservation_for(owner);
                let waiting = Waiting { ticket, owner: owner.map(Arc::from) };
                assert_eq!(Waiting::reserved_in(value.as_bytes()), Some(waiting));
            }
            assert_eq!(Ticket::reserved_in((ticket.reservation() + "0").as_bytes()), None);
        }
        assert!(tickets.is_sorted_by_key(Ticket::to_string));
        for wrong in ["", "x", &"g".repeat(36), &"1".repeat(35), &"é".repeat(18)] {
            assert_eq!(Ticket::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_waiter_names_its_client_and_its_line() {
        let waiter = Waiter::new(0xffff_ffff_ffff, 3);

        assert_eq!((waiter.client(), waiter.line()), (0xffff_ffff_ffff, 3));
    }

    #[test]
    fn the_earliest_is_served_first_and_each_waiter_once() {
        let mut line = Line::default();

        assert_eq!(line.join(ticket(20, 2)), 0);
        assert_eq!(line.join(ticket(30, 3)), 1);
        assert_eq!(line.join(ticket(10, 1)), 0);
        assert_eq!(line.join(ticket(5, 3)), 2, "it keeps its place");
        line.leave(ticket(0, 2).waiter);

        assert_eq!(line.tickets(), vec![ticket(10, 1), ticket(30, 3)]);
        assert_eq!(line.take_first(), Some(ticket(10, 1)));
        assert_eq!(line.take_first(), Some(ticket(30, 3)));
        assert_eq!(line.take_first(), None);
    }

    #[test]
    fn a_client_that_cannot_be_notified_keeps_its_place_and_one_that_is_gone_does_not() {
        let (gone, deaf, next, last) = (ticket(1, 1), ticket(2, 2), ticket(3, 3), ticket(4, 4));
        let mut line: Line = [gone, deaf, next, last].into_iter().collect();
        let hears = |ticket: Ticket| {
            Ok::<_, core::convert::Infallible>(match ticket.waiter.client() {
                1 => Hears::Nevermore,
                2 => Hears::NotNow,
                _ => Hears::Yes,
            })
        };

        assert_eq!(line.take_first_who_hears(hears), Ok(Some(next)));
        assert_eq!(line.tickets(), [deaf, last]);
        assert_eq!(line.take_first_who_hears(hears), Ok(Some(last)));
        assert_eq!(line.take_first_who_hears(hears), Ok(None));

        assert_eq!(line.tickets(), [deaf]);
    }

    #[test]
    fn joining_or_checking_a_line_drops_the_dead_ahead_and_at_the_end() {
        let mut line: Line = (1..=7).map(|client| ticket(10 * client, client)).collect();
        let dead = |waiter: Waiter| Ok::<_, ()>(![2, 3, 6, 7].contains(&waiter.client()));

        assert_eq!(line.join_the_living(ticket(0, 1), dead), Ok(0));
        assert_eq!(line.tickets().len(), 5, "the last two are gone");
        assert_eq!(line.join_the_living(ticket(0, 4), dead), Ok(1));
        assert_eq!(line.join_the_living(ticket(80, 8), dead), Ok(3));

        let clients = line.tickets().iter().map(|ticket| ticket.waiter.client());
        assert_eq!(clients.collect::<Vec<_>>(), [1, 4, 5, 8]);
        assert_eq!(line.join_the_living(ticket(90, 9), |_| Err("broken")), Err("broken"));
    }

    #[test]
    fn a_clock_that_is_wrong_gains_a_second_at_most() {
        let now = 10_000_000;

        assert_eq!(ticket(0, 1).at_node(now).arrived, 9_000_000);
        assert_eq!(ticket(u64::MAX, 1).at_node(now).arrived, 11_000_000);
        assert_eq!(ticket(9_500_000, 1).at_node(now).arrived, 9_500_000);
    }
}
