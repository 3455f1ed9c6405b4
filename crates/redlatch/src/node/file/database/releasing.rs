//! How a lock is released: to the next in line, or to anyone.

use super::{Database, Outcome, after};
use crate::driver::clock::wall_micros;
use redlatch_core::{
    Resource, Resources, Then, Ticket, Token, Vote, Wake,
    line::{Hears, Line},
    token::signature_of,
};
use rusqlite::params;

impl Database {
    /// Deletes each key that holds the token, or reserves it for the next in line.
    pub(super) fn release(
        &self,
        now: i64,
        resources: &Resources,
        token: &Token,
        then: Option<Then>,
    ) -> Outcome<Vote> {
        let mut released = 0;
        for name in resources {
            let line = self.line(now, name)?;
            let ours = if line.is_empty() && then.is_none() {
                self.delete_ours(now, name, token)?
            } else {
                self.hand_over(now, name, token, then, line)?
            };
            released += usize::from(ours);
        }
        Ok(if released == resources.count() { Vote::Granted } else { Vote::Gone })
    }

    /// Returns whether the key held the token.
    fn delete_ours(&self, now: i64, name: &Resource, token: &Token) -> Outcome<bool> {
        let ours = "DELETE FROM locks WHERE name = ?1 AND value = ?2 AND deadline > ?3";
        let deleted =
            self.statement(ours)?.execute(params![name.as_bytes(), token.as_bytes(), now])?;
        Ok(deleted > 0)
    }

    /// Releases a key that has a line, or whose client says what to do about the line.
    /// Returns whether the key held the token.
    fn hand_over(
        &self,
        now: i64,
        name: &Resource,
        token: &Token,
        then: Option<Then>,
        mut line: Line,
    ) -> Outcome<bool> {
        let value = self.find(now, name)?.map(|row| row.value);
        let ours = value.as_deref() == Some(token.as_bytes());
        let reserved = value.as_deref().and_then(Ticket::reserved_in);
        let before = line.clone();
        match then {
            Some(Then::Leave(ticket)) => {
                self.take_out(&mut line, ticket.waiter)?;
                if ours || reserved.is_some_and(|other| other.waiter == ticket.waiter) {
                    self.serve_next(now, name, &mut line)?;
                }
            }
            Some(Then::Wait(ticket)) if ours => {
                if self.can_wake(ticket.waiter.client()) {
                    let ticket = ticket.at_node(wall_micros());
                    self.put_in(now, &mut line, ticket, signature_of(token.as_bytes()))?;
                }
                self.serve_next(now, name, &mut line)?;
            }
            Some(Then::Pass(ticket)) if ours => {
                self.take_out(&mut line, ticket.waiter)?;
                self.reserve(now, name, ticket, None)?;
            }
            None if ours => self.serve_next(now, name, &mut line)?,
            _ => return Ok(ours),
        }
        if line != before || !line.is_empty() {
            self.keep_line(now, name, &line)?;
        }
        Ok(ours)
    }

    /// Reserves a key for the next in line whose client listens, or deletes it.
    fn serve_next(&self, now: i64, name: &Resource, line: &mut Line) -> Outcome<()> {
        let mut found = None;
        let first = line.take_first_who_hears(|Ticket { waiter, .. }| -> Outcome<_> {
            let Some(owner) = self.owner_in_line(now, waiter)? else {
                self.forget_waiter(waiter)?;
                return Ok(Hears::Nevermore);
            };
            let Some(reached) = self.wakes.reach(waiter.client()) else {
                self.is_unheard(now, waiter)?;
                return Ok(Hears::NotNow);
            };
            found = Some((owner, reached));
            Ok(Hears::Yes)
        })?;
        let (Some(ticket), Some((owner, reached))) = (first, found) else {
            self.statement("DELETE FROM locks WHERE name = ?1")?.execute([name.as_bytes()])?;
            return Ok(());
        };
        self.forget_waiter(ticket.waiter)?;
        let wake = Wake { resource: name.clone(), ticket };
        self.outgoing.borrow_mut().push((reached, wake));
        self.reserve(now, name, ticket, owner.as_deref())
    }

    fn reserve(
        &self,
        now: i64,
        name: &Resource,
        ticket: Ticket,
        owner: Option<&str>,
    ) -> Outcome<()> {
        let (value, deadline) = (ticket.reservation_for(owner), after(now, ticket.patience()));
        self.statement("REPLACE INTO locks VALUES (?1, ?2, ?3)")?.execute(params![
            name.as_bytes(),
            value.as_bytes(),
            deadline
        ])?;
        Ok(())
    }
}
