//! How a lock is taken: if it is free, or reserved for the taker.

use super::{Database, Outcome, Row, SWEEP, after};
use crate::{driver::clock::wall_micros, node::file::opening::unfit};
use redlatch_core::{
    Holder, Place, Proposal, Reply, Resource, Resources, Ticket, Token, Vote, Waiting,
    token::signature_of,
};
use rusqlite::params;
use std::time::Duration;

/// The waiters whose reservations do not stop a take.
#[derive(Clone, Copy)]
pub(super) enum Room {
    /// Nobody's.
    None,
    /// Those of this ticket's waiter.
    Own(Ticket),
    /// Also those of tickets later than this one.
    OwnAndLater(Ticket),
}

/// The first key that stops a take.
type Stopped<'a> = Option<(&'a Resource, Row)>;

impl Database {
    /// Takes the lock, or joins the line for it.
    pub(super) fn take(
        &self,
        now: i64,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        fence: Option<Proposal>,
        place: Option<Place>,
    ) -> Outcome<Reply> {
        let number = match fence.map(|fence| self.settle(resources, fence)).transpose()? {
            Some(None) => {
                return Ok(Reply::failed(unfit(&self.path, "has no fencing number left")));
            }
            Some(number) => number,
            None => None,
        };
        let ticket = place.map(|place| place.ticket.at_node(wall_micros()));
        let room = ticket.map_or(Room::None, Room::OwnAndLater);
        if let Some((name, row)) = self.set(now, resources, token, ttl, room)? {
            // A repeated take is refused because of our own key.
            let joins = |ticket: &Ticket| {
                *row.value != *token.as_bytes() && self.can_wake(ticket.waiter.client())
            };
            let ahead = match ticket.filter(joins) {
                Some(ticket) => {
                    Some(self.join(now, name, ticket, signature_of(token.as_bytes()))?)
                }
                None => None,
            };
            return Ok(Reply::Vote(Vote::Held(row.holder(now).with_ahead(ahead))));
        }
        if let Some(Place { ticket, known: true }) = place {
            resources.iter().try_for_each(|name| self.leave(now, name, ticket.waiter))?;
        }
        let Some(number) = number else { return Ok(Reply::Vote(Vote::Granted)) };
        self.move_registers(resources, number)?;
        Ok(Reply::Vote(Vote::Numbered(number)))
    }

    /// Puts a lease back.
    pub(super) fn plant(
        &self,
        now: i64,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        ticket: Option<Ticket>,
    ) -> Outcome<Vote> {
        let room = ticket.map_or(Room::None, Room::Own);
        let stopped = self.set(now, resources, token, ttl, room)?;
        Ok(stopped.map_or(Vote::Granted, |(_, row)| Vote::Held(row.holder(now))))
    }

    /// Sets every key, unless one is in the way: then returns the first such key.
    fn set<'a>(
        &self,
        now: i64,
        resources: &'a Resources,
        token: &Token,
        ttl: Duration,
        room: Room,
    ) -> Outcome<Stopped<'a>> {
        let mut held = Vec::new();
        for name in resources {
            held.extend(self.find(now, name)?.map(|row| (name, row)));
        }
        if !held.iter().all(|(_, row)| room.lets_pass(row)) {
            return Ok(held.into_iter().next());
        }
        for (name, later) in held.iter().filter_map(|(name, row)| Some((name, room.later(row)?))) {
            self.join(now, name, later.ticket, later.owner.as_deref())?;
        }
        let mut insert = self.statement("REPLACE INTO locks VALUES (?1, ?2, ?3)")?;
        for resource in resources {
            insert.execute(params![resource.as_bytes(), token.as_bytes(), after(now, ttl)])?;
        }
        self.sweep(now)?;
        Ok(None)
    }

    /// Deletes expired locks, the oldest first.
    fn sweep(&self, now: i64) -> Outcome<()> {
        // Usually there are none, and SQLite would still build a table.
        if !self.statement("SELECT 1 FROM locks WHERE deadline <= ?1")?.exists([now])? {
            return Ok(());
        }
        let expired = "DELETE FROM locks WHERE name IN \
                       (SELECT name FROM locks WHERE deadline <= ?1 ORDER BY deadline LIMIT ?2)";
        self.statement(expired)?.execute(params![now, SWEEP.cast_signed()])?;
        Ok(())
    }
}

impl Room {
    fn lets_pass(self, row: &Row) -> bool {
        let Some(reserved) = Ticket::reserved_in(&row.value) else { return false };
        match self {
            Room::None => false,
            Room::Own(ticket) => reserved.waiter == ticket.waiter,
            Room::OwnAndLater(ticket) => reserved.waiter == ticket.waiter || reserved > ticket,
        }
    }

    /// Returns the other waiter whose reservation is overtaken: it goes back into line.
    fn later(self, row: &Row) -> Option<Waiting> {
        let Room::OwnAndLater(ticket) = self else { return None };
        let reserved = Waiting::reserved_in(&row.value);
        reserved.filter(|reserved| reserved.ticket.waiter != ticket.waiter)
    }
}

impl Row {
    fn holder(&self, now: i64) -> Holder {
        Holder::of_value(&self.value, Some(self.remaining(now)))
    }
}
