//! The locks in one `SQLite` database.
//!
//! In:  commands, one at a time. Out: replies.
//!
//! Promise: each command is one transaction, and the time is read inside it, once nobody
//! else can write. Expired rows count as free. Clients that a command wakes are notified
//! after the commit.
//! Needs: a path that leads to the same file for all users. If the file was deleted or
//! replaced, the next command notices and fails.

mod lines;
mod releasing;
mod taking;

use super::{
    boot::Boot,
    opening::{self, IfMissing, Watched, fault, in_transaction, is_busy, unfit},
    trust,
    wakes::{Ear, Reached, Wakes},
};
use crate::{driver::clock::wall_micros, node::Store};
use redlatch_core::{
    Command, Facts, Fault, FencingToken, HeldKey, Identity, KeyState, Ledger, Page, Proposal,
    Quarantine, Refusal, Reply, Resource, Resources, Token, Vote, Wake,
    fence::{register, registers},
    glob,
    resource::MAX_RESOURCES,
};
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, params};
use std::{
    cell::RefCell,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::sync::mpsc::UnboundedSender;

/// How many expired locks a take cleans up: more than it can create, so that
/// they cannot pile up.
const SWEEP: usize = MAX_RESOURCES + 8;

/// How many locks are listed at once.
const PAGE: i64 = 200;

/// How long to wait for another writer, which may also fail, when checking whether the
/// file can be written.
const A_MOMENT: Duration = Duration::from_millis(50);

/// Changes nothing, but writes every page that a lock would write. No lock has an empty name.
const NO_CHANGE: &str = "
    UPDATE node SET floor = floor;
    UPDATE fences SET number = number WHERE register = (SELECT max(register) FROM fences);
    INSERT INTO locks VALUES (x'', x'', 0);
    DELETE FROM locks WHERE name = x'';
";

/// An open database.
#[derive(Debug)]
pub(super) struct Database {
    connection: Connection,
    path: PathBuf,
    files: [Watched; 3],
    boot: Boot,
    identity: Identity,
    wakes: Wakes,
    /// Where wakes arrive, once its client has joined a line.
    ear: Arc<Ear>,
    /// The messages to send once the transaction is committed.
    outgoing: RefCell<Vec<(Reached, Wake)>>,
}

type Outcome<T> = rusqlite::Result<T>;

impl Database {
    /// Opens the database, and creates it if missing.
    pub(super) fn open(path: &Path) -> Result<Self, Fault> {
        Database::at(path, IfMissing::Create)
    }

    /// Opens a database that this client had open before.
    pub(super) fn reopen(path: &Path) -> Result<Self, Fault> {
        Database::at(path, IfMissing::Fail)
    }

    fn at(path: &Path, if_missing: IfMissing) -> Result<Self, Fault> {
        let boot = Boot::present()?;
        trust::check(path)?;
        let (connection, id) = opening::open(path, &boot, if_missing)?;
        trust::check(path)?;
        let identity = Identity {
            run: format!("{}/{id}", boot.id).into(),
            version: format!("file, SQLite {}", rusqlite::version()).into(),
        };
        let files = Watched::database(path)?;
        Ok(Database {
            connection,
            path: path.into(),
            files,
            boot,
            identity,
            wakes: Wakes::beside(path),
            ear: Arc::default(),
            outgoing: RefCell::default(),
        })
    }

    /// Reports keys that others reserve for our client, as long as the ear is open.
    pub(super) fn telling(mut self, told: UnboundedSender<Wake>, ear: Arc<Ear>) -> Self {
        self.wakes.tell(told);
        self.ear = ear;
        self
    }

    fn carry_out(&self, command: &Command) -> Outcome<Reply> {
        // Reads need no lock: a hung writer must not hide the locks.
        let begin = match command {
            Command::Inspect { .. }
            | Command::Line { .. }
            | Command::Identify
            | Command::List { .. }
            | Command::Others { .. }
            | Command::Examine
            | Command::Ledger => "BEGIN",
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
                Command::Take { resources, token, ttl, fence, place, .. } => {
                    self.take(now, resources, token, *ttl, *fence, *place)?
                }
                Command::Plant { resources, token, ttl, ticket, .. } => {
                    Reply::Vote(self.plant(now, resources, token, *ttl, *ticket)?)
                }
                Command::Raise { resources, token, to, .. } => {
                    Reply::Vote(self.raise(now, resources, token, *to)?)
                }
                Command::Extend { resources, token, ttl, fence, .. } => {
                    let vote = self.extend(now, resources, token, *ttl)?;
                    if let (Vote::Granted, Some(to)) = (&vote, fence) {
                        self.move_those_behind(resources, *to)?;
                    }
                    Reply::Vote(vote)
                }
                Command::Release { resources, token, then } => {
                    Reply::Vote(self.release(now, resources, token, *then)?)
                }
                Command::Inspect { resources } => self.inspect(now, resources)?,
                Command::Line { resource } => Reply::Line(self.line_state(now, resource)?),
                Command::Identify => Reply::Identity(self.identity.clone()),
                Command::List { pattern, after } => {
                    Reply::Page(self.list(now, pattern, after.as_deref())?)
                }
                // No other library uses this kind of node.
                Command::Others { .. } => Reply::Page(Page::default()),
                Command::Examine => {
                    let mut facts = self.facts(now)?;
                    self.ledger()?.tell(&mut facts);
                    Reply::Facts(facts.into())
                }
                Command::Watch { fingerprint, nonce, replace } => {
                    let (mut facts, before) = (self.facts(now)?, self.ledger()?);
                    let mut ledger = before.clone();
                    ledger.watch(&mut facts, *fingerprint, *nonce, *replace);
                    if ledger != before {
                        self.keep(&ledger)?;
                    }
                    Reply::Facts(facts.into())
                }
                Command::Ledger => Reply::Ledger(self.ledger()?.into()),
                Command::Admit { fingerprint, agreement, mark, floor } => {
                    let mut ledger = self.ledger()?;
                    if !ledger.admit(&self.identity.run, *fingerprint, agreement, mark) {
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

    /// Why the node may not vote on this command.
    fn objection(&self, now: i64, command: &Command) -> Outcome<Option<Quarantine>> {
        let Some(fingerprint) = command.fingerprint() else { return Ok(None) };
        let keeps = match command {
            Command::Plant { .. } => true,
            Command::Extend { resources, token, .. } => self.are_ours(now, resources, token)?,
            _ => false,
        };
        let (ledger, run) = (self.ledger()?, &self.identity.run);
        Ok(if keeps {
            ledger.refusal(run, fingerprint)
        } else {
            ledger.objection(run, fingerprint)
        })
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

    /// The number that a take with this proposal gets, if any is left.
    fn settle(&self, resources: &Resources, by: Proposal) -> Outcome<Option<FencingToken>> {
        Ok(by.settle(wall_micros(), self.greatest(resources)?))
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

    /// The highest number in the registers of these resources.
    fn greatest(&self, resources: &Resources) -> Outcome<u64> {
        let mut select = self.statement("SELECT number FROM fences WHERE register = ?1")?;
        let mut greatest = self.number("SELECT floor FROM node")?;
        for register in registers(resources) {
            let number: Option<i64> = select.query_row([register], |row| row.get(0)).optional()?;
            greatest = greatest.max(number.unwrap_or(0).unsigned_abs());
        }
        Ok(greatest)
    }

    /// The highest number ever granted here.
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

    /// Moves only the registers below the number.
    fn move_those_behind(&self, resources: &Resources, to: FencingToken) -> Outcome<()> {
        let raise = "INSERT INTO fences VALUES (?1, ?2) \
            ON CONFLICT (register) DO UPDATE SET number = max(number, excluded.number)";
        let mut raise = self.statement(raise)?;
        for register in registers(resources) {
            raise.execute(params![register, to.get().cast_signed()])?;
        }
        Ok(())
    }

    /// Makes every register count from the floor upwards.
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
                let waiters = self.line(now, &name)?.tickets().len();
                locks.push(HeldKey { name, value: held.value.into(), remaining, waiters });
            }
            read += 1;
            last = Some(Arc::from(name));
        }
        Ok(Page { locks: locks.into(), denied: 0, next: last.filter(|_| read == PAGE) })
    }

    /// Locks survive the death of any process, and end when the machine reboots.
    fn facts(&self, now: i64) -> Outcome<Facts> {
        let since: i64 =
            self.statement("SELECT since FROM node")?.query_row([], |row| row.get(0))?;
        let uptime = Duration::from_nanos(now.saturating_sub(since).max(0).unsigned_abs());
        Ok(Facts {
            clock: Some(Duration::from_micros(wall_micros())),
            uptime: Some(Duration::from_secs(uptime.as_secs())), // whole seconds, like servers
            journal: Some(true),
            // Only a new file is empty, and a new file is another run.
            intact: true,
            empty: self.is_empty(now)?,
            highest: FencingToken::new(self.highest()?),
            ..Facts::of(self.identity.clone())
        })
    }

    fn is_empty(&self, now: i64) -> Outcome<bool> {
        let live = "SELECT NOT EXISTS (SELECT 1 FROM locks WHERE deadline > ?1)";
        self.statement(live)?.query_row([now], |row| row.get(0))
    }

    /// Why no lock can be written, if none can: tries to write as much as a lock needs.
    /// Does not wait for long: if another process writes all that time, the file can be
    /// written.
    fn refusal(&mut self) -> Option<Refusal> {
        self.connection.busy_timeout(A_MOMENT).ok()?;
        let write = || self.connection.execute_batch(NO_CHANGE);
        let written = in_transaction(&self.connection, "BEGIN IMMEDIATE", write);
        let _ = opening::wait_patiently(&mut self.connection);
        match written.err()?.sqlite_error_code()? {
            ErrorCode::DiskFull => Some(Refusal::DiskFull),
            ErrorCode::SystemIoFailure | ErrorCode::ReadOnly => Some(Refusal::CannotSave),
            _ => None,
        }
    }

    /// The lock with this name, unless it has expired.
    fn find(&self, now: i64, resource: &Resource) -> Outcome<Option<Row>> {
        let live = "SELECT value, deadline FROM locks WHERE name = ?1 AND deadline > ?2";
        self.statement(live)?
            .query_row(params![resource.as_bytes(), now], |row| {
                Ok(Row { value: row.get(0)?, deadline: row.get(1)? })
            })
            .optional()
    }

    /// Whether the client can be notified of a key that is reserved for it. Our own
    /// client listens from now on.
    fn can_wake(&self, client: u64) -> bool {
        self.ear.hears(client, || self.wakes.listen(client)) || self.wakes.reach(client).is_some()
    }

    fn statement(&self, sql: &str) -> Outcome<CachedStatement<'_>> {
        self.connection.prepare_cached(sql)
    }

    fn is_of_this_boot(&self) -> Outcome<bool> {
        self.statement("SELECT boot FROM node")?
            .query_row([], |row| Ok(row.get_ref(0)?.as_str()? == &*self.boot.id))
    }

    /// The current boot id was recorded when the database was opened, and cannot
    /// have changed since: so the file is also in use on another machine.
    fn shared_by_machines(&self) -> Fault {
        let reason = "is used from two machines, or from containers with boot ids of their own, \
                      at the same time: give each its own file, or use a Redis node";
        unfit(&self.path, reason)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.ear.rest();
    }
}

impl Store for Database {
    fn execute(&mut self, command: &Command) -> Result<Reply, Fault> {
        let mut outcome = self.carry_out(command);
        if let (Command::Examine, Ok(Reply::Facts(facts))) = (command, &mut outcome) {
            facts.refuses = self.refusal();
        }
        // If we die here, the reservations lapse, which only costs time.
        for (reached, wake) in self.outgoing.get_mut().drain(..) {
            if outcome.is_ok() {
                reached.tell(&wake);
            }
        }
        // Comes last, so that what we wrote is in the file that others see.
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
