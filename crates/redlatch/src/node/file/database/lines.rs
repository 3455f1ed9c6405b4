//! Who waits for which lock: one row for each line.
//!
//! The core's [`Line`] decides the order; the row holds its tickets as text. A line
//! past its deadline counts as empty.

use super::{Database, Outcome, after};
use redlatch_core::{
    Resource, Ticket, Waiter,
    line::{LINE_LIFE, Line},
};
use rusqlite::{OptionalExtension, params};

/// How many lapsed lines joining one cleans up: more than it can create, so that
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
    pub(super) fn join(&self, now: i64, name: &Resource, ticket: Ticket) -> Outcome<usize> {
        let mut line = self.line(now, name)?;
        let ahead = line.join(ticket);
        self.keep_line(now, name, &line)?;
        let lapsed = "DELETE FROM lines WHERE name IN \
                      (SELECT name FROM lines WHERE deadline <= ?1 ORDER BY deadline LIMIT ?2)";
        self.statement(lapsed)?.execute([now, SWEEP])?;
        Ok(ahead)
    }

    /// Leaves the line for a lock.
    pub(super) fn leave(&self, now: i64, name: &Resource, waiter: Waiter) -> Outcome<()> {
        let mut line = self.line(now, name)?;
        if !line.is_empty() {
            line.leave(waiter);
            self.keep_line(now, name, &line)?;
        }
        Ok(())
    }
}
