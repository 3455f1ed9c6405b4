//! The locks in one `SQLite` database.
//!
//! In:  commands, one at a time. Out: replies.
//!
//! Promise: each command is one transaction, and the time is read inside it,
//! when nobody else can write any more. Expired rows count as free.
//! Needs: a path that leads to the same file for all users. A file that was
//! deleted or replaced is noticed with the next command, which fails.

use super::{
    boot::Boot,
    opening::{self, Watched, fault, in_transaction, is_busy, unfit},
};
use crate::{clock::wall_micros, node::Store};
use redlatch_core::{
    Command, Facts, Fault, FencingToken, HeldKey, Holder, Identity, KeyState, Ledger, Page,
    Proposal, Quarantine, Reply, Resource, Resources, Token, Vote,
    fence::{register, registers},
    glob,
    resource::MAX_RESOURCES,
    token::owner_of,
};
use rusqlite::{CachedStatement, Connection, OptionalExtension, params};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// How many expired locks a take cleans up: more than it may make, so that they
/// cannot pile up.
const SWEEP: usize = MAX_RESOURCES + 8;

/// How many locks are listed at once.
const PAGE: i64 = 200;

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    files: [Watched; 3],
    boot: Boot,
    identity: Identity,
}

type Outcome<T> = rusqlite::Result<T>;

impl Database {
    /// Opens the database, made if there is none yet.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        let boot = Boot::present()?;
        let (connection, id) = opening::open(path, &boot)?;
        let identity = Identity {
            run: format!("{}/{id}", boot.id).into(),
            version: format!("file, SQLite {}", rusqlite::version()).into(),
        };
        let files = Watched::database(path)?;
        Ok(Database { connection, path: path.into(), files, boot, identity })
    }

    fn carry_out(&self, command: &Command) -> Outcome<Reply> {
        // Reading needs no lock: a writer that hangs must not hide the locks.
        let begin = match command {
            Command::Inspect { .. }
            | Command::Identify
            | Command::List { .. }
            | Command::Examine => "BEGIN",
            _ => "BEGIN IMMEDIATE",
        };
        in_transaction(&self.connection, begin, || {
            if !self.is_of_this_boot()? {
                return Ok(Reply::failed(self.shared_by_machines()));
            }
            let now = self.boot.now();
            if let Some(objection) = self.objection(now, command)? {
                return Ok(Reply::Vote(Vote::Quarantined(objection)));
            }
            Ok(match command {
                Command::Take { resources, token, ttl, fence: None, .. }
                | Command::Plant { resources, token, ttl, .. } => {
                    Reply::Vote(self.take(now, resources, token, *ttl)?)
                }
                Command::Take { resources, token, ttl, fence: Some(proposal), .. } => {
                    self.take_fenced(now, resources, token, *ttl, *proposal)?
                }
                Command::Raise { resources, token, to, .. } => {
                    Reply::Vote(self.raise(now, resources, token, *to)?)
                }
                Command::Extend { resources, token, ttl, fence, .. } => {
                    let vote = self.extend(now, resources, token, *ttl)?;
                    if let (Vote::Granted, Some(to)) = (&vote, fence) {
                        self.raise(now, resources, token, *to)?;
                    }
                    Reply::Vote(vote)
                }
                Command::Release { resources, token } => {
                    Reply::Vote(self.release(now, resources, token)?)
                }
                Command::Inspect { resources } => self.inspect(now, resources)?,
                Command::Identify => Reply::Identity(self.identity.clone()),
                Command::List { pattern, after } => {
                    Reply::Page(self.list(now, pattern, after.as_deref())?)
                }
                Command::Examine => {
                    let mut facts = self.facts(now)?;
                    self.ledger()?.tell(&mut facts);
                    Reply::Facts(facts.into())
                }
                Command::Watch { guard, nonce, replace } => {
                    let (mut facts, before) = (self.facts(now)?, self.ledger()?);
                    let mut ledger = before.clone();
                    ledger.watch(&mut facts, *guard, *nonce, *replace);
                    if ledger != before {
                        self.keep(&ledger)?;
                    }
                    Reply::Facts(facts.into())
                }
                Command::Admit { guard, agreement, mark, floor } => {
                    let mut ledger = self.ledger()?;
                    if !ledger.admit(&self.identity.run, *guard, agreement, mark) {
                        return Ok(Reply::Vote(Vote::Gone));
                    }
                    self.keep(&ledger)?;
                    self.raise_floor(*floor)?;
                    Reply::Vote(Vote::Granted)
                }
                _ => Reply::failed(unfit(&self.path, "does not know this command")),
            })
        })
    }

    /// Why the node may not vote on this.
    fn objection(&self, now: i64, command: &Command) -> Outcome<Option<Quarantine>> {
        let Some(guard) = command.guard() else { return Ok(None) };
        let keeps = match command {
            Command::Plant { .. } => true,
            Command::Extend { resources, token, .. } => self.are_ours(now, resources, token)?,
            _ => false,
        };
        let (ledger, run) = (self.ledger()?, &self.identity.run);
        Ok(if keeps { ledger.refusal(run, guard) } else { ledger.objection(run, guard) })
    }

    fn ledger(&self) -> Outcome<Ledger> {
        self.statement("SELECT admitted, agreement, reserved, watched FROM node")?.query_row(
            [],
            |row| {
                Ok(Ledger {
                    admitted: row.get(0)?,
                    agreement: row.get(1)?,
                    reserved: row.get(2)?,
                    watched: row.get(3)?,
                })
            },
        )
    }

    fn keep(&self, ledger: &Ledger) -> Outcome<()> {
        let Ledger { admitted, agreement, reserved, watched } = ledger;
        let texts = "UPDATE node SET admitted = ?1, agreement = ?2, reserved = ?3, watched = ?4";
        self.statement(texts)?.execute(params![admitted, agreement, reserved, watched])?;
        Ok(())
    }

    fn take(&self, now: i64, resources: &Resources, token: &Token, ttl: Duration) -> Outcome<Vote> {
        let held = resources.iter().filter_map(|resource| self.find(now, resource).transpose());
        let held = held.collect::<Outcome<Vec<_>>>()?;
        if let Some(row) = held.into_iter().max_by_key(|row| row.deadline) {
            let owner = owner_of(&row.value).map(Arc::from);
            return Ok(Vote::Held(Holder::new(owner, Some(row.remaining(now)))));
        }
        let mut insert = self.statement("REPLACE INTO locks VALUES (?1, ?2, ?3)")?;
        for resource in resources {
            insert.execute(params![resource.as_bytes(), token.as_bytes(), after(now, ttl)])?;
        }
        self.sweep(now)?;
        Ok(Vote::Granted)
    }

    fn take_fenced(
        &self,
        now: i64,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
        proposal: Proposal,
    ) -> Outcome<Reply> {
        let greatest = self.greatest(resources)?;
        let Some(number) = proposal.settle(wall_micros(), greatest) else {
            return Ok(Reply::failed(unfit(&self.path, "has no fencing number left")));
        };
        let vote = self.take(now, resources, token, ttl)?;
        if vote != Vote::Granted {
            return Ok(Reply::Vote(vote));
        }
        self.move_registers(resources, number)?;
        Ok(Reply::Vote(Vote::Numbered(number)))
    }

    fn raise(
        &self,
        now: i64,
        resources: &Resources,
        token: &Token,
        to: FencingToken,
    ) -> Outcome<Vote> {
        if !self.are_ours(now, resources, token)? {
            return Ok(Vote::Gone);
        }
        let is = FencingToken::new(self.greatest(resources)?);
        let number = is.map_or(to, |is| is.max(to));
        self.move_registers(resources, number)?;
        Ok(Vote::Numbered(number))
    }

    /// The greatest number in the registers of these resources.
    fn greatest(&self, resources: &Resources) -> Outcome<u64> {
        let mut select = self.statement("SELECT number FROM fences WHERE register = ?1")?;
        let mut greatest = self.number("SELECT floor FROM node")?;
        for register in registers(resources) {
            let number: Option<i64> = select.query_row([register], |row| row.get(0)).optional()?;
            greatest = greatest.max(number.unwrap_or(0).unsigned_abs());
        }
        Ok(greatest)
    }

    /// The greatest number that was ever given here.
    fn highest(&self) -> Outcome<u64> {
        let greatest = self.number("SELECT coalesce(max(number), 0) FROM fences")?;
        Ok(greatest.max(self.number("SELECT floor FROM node")?))
    }

    fn number(&self, sql: &str) -> Outcome<u64> {
        let number: i64 = self.statement(sql)?.query_row([], |row| row.get(0))?;
        Ok(number.unsigned_abs())
    }

    fn move_registers(&self, resources: &Resources, number: FencingToken) -> Outcome<()> {
        let mut replace = self.statement("REPLACE INTO fences VALUES (?1, ?2)")?;
        for register in registers(resources) {
            replace.execute(params![register, number.get().cast_signed()])?;
        }
        Ok(())
    }

    /// Lets every register count from there on.
    fn raise_floor(&self, floor: Option<FencingToken>) -> Outcome<()> {
        let floor = floor.map_or(0, FencingToken::get).cast_signed();
        self.statement("UPDATE node SET floor = max(floor, ?1)")?.execute([floor])?;
        Ok(())
    }

    fn are_ours(&self, now: i64, resources: &Resources, token: &Token) -> Outcome<bool> {
        for resource in resources {
            match self.find(now, resource)? {
                Some(row) if row.value == token.as_bytes() => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    fn extend(
        &self,
        now: i64,
        resources: &Resources,
        token: &Token,
        ttl: Duration,
    ) -> Outcome<Vote> {
        if !self.are_ours(now, resources, token)? {
            return Ok(Vote::Gone);
        }
        let longer = "UPDATE locks SET deadline = max(deadline, ?2) WHERE name = ?1";
        let mut lengthen = self.statement(longer)?;
        for resource in resources {
            lengthen.execute(params![resource.as_bytes(), after(now, ttl)])?;
        }
        Ok(Vote::Granted)
    }

    fn release(&self, now: i64, resources: &Resources, token: &Token) -> Outcome<Vote> {
        let ours = "DELETE FROM locks WHERE name = ?1 AND value = ?2 AND deadline > ?3";
        let mut delete = self.statement(ours)?;
        let mut deleted = 0;
        for resource in resources {
            deleted += delete.execute(params![resource.as_bytes(), token.as_bytes(), now])?;
        }
        Ok(if deleted == resources.count() { Vote::Granted } else { Vote::Gone })
    }

    fn inspect(&self, now: i64, resources: &Resources) -> Outcome<Reply> {
        let mut select = self.statement("SELECT number FROM fences WHERE register = ?1")?;
        let state = |resource| {
            let Some(row) = self.find(now, resource)? else { return Ok(KeyState::Free) };
            let number = select.query_row([register(resource)], |row| row.get(0)).optional()?;
            Ok(KeyState::Held {
                remaining: Some(row.remaining(now)),
                value: Some(row.value.into()),
                number: number.and_then(|is: i64| FencingToken::new(is.unsigned_abs())),
            })
        };
        Ok(Reply::Keys(resources.iter().map(state).collect::<Outcome<_>>()?))
    }

    fn list(&self, now: i64, pattern: &[u8], after: Option<&[u8]>) -> Outcome<Page> {
        let live = "SELECT name, value, deadline FROM locks \
                    WHERE name > ?1 AND deadline > ?2 ORDER BY name LIMIT ?3";
        let mut select = self.statement(live)?;
        let mut rows = select.query(params![after.unwrap_or_default(), now, PAGE])?;
        let (mut locks, mut read, mut last) = (Vec::new(), 0, None);
        while let Some(row) = rows.next()? {
            let name: Vec<u8> = row.get(0)?;
            let held = Row { value: row.get(1)?, deadline: row.get(2)? };
            if let (Ok(name), true) = (Resource::new(&name), glob::matches(pattern, &name)) {
                let remaining = Some(held.remaining(now));
                locks.push(HeldKey { name, value: held.value.into(), remaining });
            }
            read += 1;
            last = Some(Arc::from(name));
        }
        Ok(Page { locks: locks.into(), next: last.filter(|_| read == PAGE) })
    }

    /// The locks survive whoever dies, and end with the machine's uptime.
    fn facts(&self, now: i64) -> Outcome<Facts> {
        let since: i64 =
            self.statement("SELECT since FROM node")?.query_row([], |row| row.get(0))?;
        let uptime = Duration::from_nanos(now.saturating_sub(since).max(0).unsigned_abs());
        Ok(Facts {
            clock: Some(Duration::from_micros(wall_micros())),
            uptime: Some(Duration::from_secs(uptime.as_secs())), // as servers tell it
            journal: Some(true),
            // Nothing but a new file empties it, and that is another run.
            intact: true,
            highest: FencingToken::new(self.highest()?),
            ..Facts::of(self.identity.clone())
        })
    }

    /// The lock of that name, unless it has expired.
    fn find(&self, now: i64, resource: &Resource) -> Outcome<Option<Row>> {
        let live = "SELECT value, deadline FROM locks WHERE name = ?1 AND deadline > ?2";
        self.statement(live)?
            .query_row(params![resource.as_bytes(), now], |row| {
                Ok(Row { value: row.get(0)?, deadline: row.get(1)? })
            })
            .optional()
    }

    /// Deletes expired locks, the oldest first.
    fn sweep(&self, now: i64) -> Outcome<()> {
        let expired = "DELETE FROM locks WHERE name IN \
                       (SELECT name FROM locks WHERE deadline <= ?1 ORDER BY deadline LIMIT ?2)";
        self.statement(expired)?.execute(params![now, SWEEP.cast_signed()])?;
        Ok(())
    }

    fn statement(&self, sql: &str) -> Outcome<CachedStatement<'_>> {
        self.connection.prepare_cached(sql)
    }

    fn is_of_this_boot(&self) -> Outcome<bool> {
        self.statement("SELECT boot FROM node")?
            .query_row([], |row| Ok(row.get_ref(0)?.as_str()? == &*self.boot.id))
    }

    /// The present start of the machine was written down when the database was
    /// opened, and cannot have changed since: the file has users elsewhere.
    fn shared_by_machines(&self) -> Fault {
        let reason = "is used from two machines, or from containers with boot ids of their own, \
                      at the same time: give each its own file, or use a Redis node";
        unfit(&self.path, reason)
    }
}

impl Store for Database {
    fn execute(&mut self, command: &Command) -> Result<Reply, Fault> {
        let outcome = self.carry_out(command);
        // Afterwards, so that what was written is in the file that others see.
        self.files.iter().try_for_each(Watched::check)?;
        match outcome {
            Ok(reply) => Ok(reply),
            Err(error) if is_busy(&error) => Ok(Reply::failed(fault(&self.path, &error))),
            Err(error) => Err(fault(&self.path, &error)),
        }
    }
}

#[derive(Debug)]
struct Row {
    value: Vec<u8>,
    deadline: i64,
}

impl Row {
    fn remaining(&self, now: i64) -> Duration {
        Duration::from_nanos(self.deadline.saturating_sub(now).max(0).unsigned_abs())
    }
}

fn after(now: i64, ttl: Duration) -> i64 {
    now.saturating_add(i64::try_from(ttl.as_nanos()).unwrap_or(i64::MAX))
}
