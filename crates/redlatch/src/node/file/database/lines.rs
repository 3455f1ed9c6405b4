//! The lines of waiters, by lock: one row for each line, and one for each waiter.
//!
//! The core's [`Line`] decides the order; the row holds its tickets as text. A line past its
//! deadline counts as empty, and a ticket counts only while its waiter is within its own deadline.

use super::{Database, Outcome, after};
use redlatch_core::{
    LineState, Resource, Ticket, Waiter, Waiting,
    line::{LINE_LIFE, Line, MOST_TOLD, TICKET_LIFE, UNHEARD_LIFE},
};
use rusqlite::{OptionalExtension, params};
use std::sync::Arc;

/// How many lapsed lines and waiters each join cleans up: more than it can create, so that
/// they cannot pile up.
const SWEEP: i64 = 4;

impl Database {
    /// Reads the line for a lock. It is empty if nobody waits.
    pub(super) fn line(&self, now: i64, name: &Resource) -> Outcome<Line> {
        let kept = "SELECT tickets FROM lines WHERE name = ?1 AND deadline > ?2";
        let tickets = self
            .statement(kept)?
            .query_row(params![name.as_bytes(), now], |row| {
                let texts = row.get_ref(0)?.as_blob()?.chunks(Ticket::LENGTH);
                Ok(texts.filter_map(Ticket::parse).collect())
            })
            .optional()?;
        Ok(tickets.unwrap_or_default())
    }

    /// Reads the line for a lock, and who is in it.
    pub(super) fn line_state(&self, now: i64, name: &Resource) -> Outcome<LineState> {
        let mut living = Vec::new();
        for ticket in self.line(now, name)?.tickets() {
            let owner = self.owner_in_line(now, ticket.waiter)?;
            living.extend(owner.map(|owner| Waiting { ticket: *ticket, owner }));
        }
        let count = living.len();
        living.truncate(MOST_TOLD);
        Ok(LineState { first: living.into(), count })
    }

    /// Keeps the line for a while longer, or deletes it if nobody waits.
    pub(super) fn keep_line(&self, now: i64, name: &Resource, line: &Line) -> Outcome<()> {
        if line.is_empty() {
            self.statement("DELETE FROM lines WHERE name = ?1")?.execute([name.as_bytes()])?;
            return Ok(());
        }
        let tickets: String = line.tickets().iter().map(ToString::to_string).collect();
        self.statement("REPLACE INTO lines VALUES (?1, ?2, ?3)")?.execute(params![
            name.as_bytes(),
            tickets.as_bytes(),
            after(now, LINE_LIFE)
        ])?;
        Ok(())
    }

    /// Joins the line for a lock. Returns how many are ahead.
    pub(super) fn join(
        &self,
        now: i64,
        name: &Resource,
        ticket: Ticket,
        owner: Option<&str>,
    ) -> Outcome<usize> {
        let mut line = self.line(now, name)?;
        let ahead = self.put_in(now, &mut line, ticket, owner)?;
        self.keep_line(now, name, &line)?;
        for lapsed in [
            "DELETE FROM lines WHERE name IN \
             (SELECT name FROM lines WHERE deadline <= ?1 ORDER BY deadline LIMIT ?2)",
            "DELETE FROM waiters WHERE waiter IN \
             (SELECT waiter FROM waiters WHERE deadline <= ?1 ORDER BY deadline LIMIT ?2)",
        ] {
            self.statement(lapsed)?.execute([now, SWEEP])?;
        }
        Ok(ahead)
    }

    /// Puts a ticket into a line, and drops tickets of dead waiters that it finds. Returns
    /// how many are ahead.
    pub(super) fn put_in(
        &self,
        now: i64,
        line: &mut Line,
        ticket: Ticket,
        owner: Option<&str>,
    ) -> Outcome<usize> {
        let known = "REPLACE INTO waiters VALUES (?1, ?2, ?3)";
        let deadline = after(now, TICKET_LIFE);
        let owner = owner.unwrap_or_default();
        self.statement(known)?.execute(params![ticket.waiter.to_string(), owner, deadline])?;
        line.join_the_living(ticket, |waiter| Ok(self.owner_in_line(now, waiter)?.is_some()))
    }

    /// Leaves the line for a lock.
    pub(super) fn leave(&self, now: i64, name: &Resource, waiter: Waiter) -> Outcome<()> {
        let mut line = self.line(now, name)?;
        if self.take_out(&mut line, waiter)? {
            self.keep_line(now, name, &line)?;
        }
        Ok(())
    }

    /// Takes a waiter out of a line. Returns whether it was in it.
    pub(super) fn take_out(&self, line: &mut Line, waiter: Waiter) -> Outcome<bool> {
        let was_there = line.leave(waiter);
        if was_there {
            self.forget_waiter(waiter)?;
        }
        Ok(was_there)
    }

    /// Records that a waiter could not be notified: its ticket counts only a moment longer,
    /// unless it asks again.
    pub(super) fn is_unheard(&self, now: i64, waiter: Waiter) -> Outcome<()> {
        let sooner = "UPDATE waiters SET deadline = min(deadline, ?2) WHERE waiter = ?1";
        let deadline = after(now, UNHEARD_LIFE);
        self.statement(sooner)?.execute(params![waiter.to_string(), deadline])?;
        Ok(())
    }

    pub(super) fn forget_waiter(&self, waiter: Waiter) -> Outcome<()> {
        let forget = "DELETE FROM waiters WHERE waiter = ?1";
        self.statement(forget)?.execute([waiter.to_string()])?;
        Ok(())
    }

    /// The owner's text of a waiter, if it has one; `None` if its ticket does not count.
    pub(super) fn owner_in_line(&self, now: i64, waiter: Waiter) -> Outcome<Option<OwnerText>> {
        let known = "SELECT owner FROM waiters WHERE waiter = ?1 AND deadline > ?2";
        let owner: Option<Arc<str>> = self
            .statement(known)?
            .query_row(params![waiter.to_string(), now], |row| row.get(0))
            .optional()?;
        Ok(owner.map(|owner| Some(owner).filter(|owner| !owner.is_empty())))
    }
}

/// `None` if the waiter did not identify itself.
type OwnerText = Option<Arc<str>>;
