//! The lines of waiters, by lock: one row for each line, and one for each waiter.
//!
//! The core's [`Line`] decides the order; the row holds its tickets as text. A line
//! past its deadline counts as empty. Who a waiter is, is there while it is in line.

use super::{Database, Outcome, after};
use redlatch_core::{
    LineState, Resource, Ticket, Waiter, Waiting,
    line::{LINE_LIFE, Line, MOST_TOLD},
};
use rusqlite::{OptionalExtension, params};
use std::sync::Arc;

/// How many lapsed lines and waiters joining one cleans up: more than it can create, so
/// that they cannot pile up.
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
        let line = self.line(now, name)?;
        let first = line.tickets().iter().take(MOST_TOLD).map(|ticket| {
            Ok(Waiting { ticket: *ticket, owner: self.waiting_owner(ticket.waiter)? })
        });
        Ok(LineState { first: first.collect::<Outcome<_>>()?, count: line.tickets().len() })
    }

    /// Keeps the line for a while from now on, or deletes it if nobody waits.
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
        let ahead = line.join(ticket);
        self.keep_line(now, name, &line)?;
        self.keep_owner(now, ticket.waiter, owner)?;
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
            self.forget_owner(waiter)?;
        }
        Ok(was_there)
    }

    /// Remembers who the waiter is, for as long as a line is kept.
    pub(super) fn keep_owner(&self, now: i64, waiter: Waiter, owner: Option<&str>) -> Outcome<()> {
        if let Some(owner) = owner {
            let known = "REPLACE INTO waiters VALUES (?1, ?2, ?3)";
            let deadline = after(now, LINE_LIFE);
            self.statement(known)?.execute(params![waiter.to_string(), owner, deadline])?;
        }
        Ok(())
    }

    /// Forgets who the waiter is, and returns it.
    pub(super) fn forget_owner(&self, waiter: Waiter) -> Outcome<Option<Arc<str>>> {
        let forget = "DELETE FROM waiters WHERE waiter = ?1 RETURNING owner";
        self.statement(forget)?.query_row([waiter.to_string()], |row| row.get(0)).optional()
    }

    fn waiting_owner(&self, waiter: Waiter) -> Outcome<Option<Arc<str>>> {
        let known = "SELECT owner FROM waiters WHERE waiter = ?1";
        self.statement(known)?.query_row([waiter.to_string()], |row| row.get(0)).optional()
    }
}
