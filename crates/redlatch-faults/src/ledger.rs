//! The counters that workers keep: two for each resource, on a server that is
//! no node, one behind a fence and one not.
//!
//! Seal, read, think, write one more: what the lock is there to protect.

use redis::{Commands as _, Connection, RedisError};
use redlatch::FencingToken;
use redlatch::fence::WriteError;
use redlatch::fence::redis::{Value, ValueError};

use crate::history::Place;

/// One worker's way to the counters.
pub(crate) struct Ledger {
    connection: Connection,
}

/// What both counters of a resource stood at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    fenced: u64,
    unfenced: u64,
}

/// What became of a fenced write or seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    Done,
    Stale,
}

impl Ledger {
    pub(crate) fn open(url: &str) -> Result<Self, RedisError> {
        Ok(Self { connection: redis::Client::open(url)?.get_connection()? })
    }

    /// Has late writers refused, then reads. None if this one is late itself.
    pub(crate) fn seal_and_read(
        &mut self,
        resource: &str,
        token: FencingToken,
    ) -> anyhow::Result<Option<Reading>> {
        let sealed = fenced_value(resource).seal_blocking(&mut self.connection, token);
        if settle(sealed)? == Fenced::Stale {
            return Ok(None);
        }
        let fenced = self.read(Place::Fenced, resource)?;
        Ok(Some(Reading { fenced, unfenced: self.read(Place::Unfenced, resource)? }))
    }

    /// Writes one more behind the fence.
    pub(crate) fn write_fenced(
        &mut self,
        resource: &str,
        token: FencingToken,
        value: u64,
    ) -> anyhow::Result<Fenced> {
        let value = value.to_string();
        settle(fenced_value(resource).write_blocking(&mut self.connection, token, value))
    }

    /// Writes as everyone writes who knows nothing of tokens.
    pub(crate) fn write_unfenced(&mut self, resource: &str, value: u64) -> anyhow::Result<()> {
        let () = self.connection.set(key(Place::Unfenced, resource), value)?;
        Ok(())
    }

    /// What a counter stands at; nothing at first.
    pub(crate) fn read(&mut self, place: Place, resource: &str) -> anyhow::Result<u64> {
        Ok(self.connection.get::<_, Option<u64>>(key(place, resource))?.unwrap_or(0))
    }
}

impl Reading {
    /// What to write back.
    pub(crate) fn one_more(self, place: Place) -> u64 {
        match place {
            Place::Fenced => self.fenced + 1,
            Place::Unfenced => self.unfenced + 1,
        }
    }
}

fn key(place: Place, resource: &str) -> String {
    format!("{}:{resource}", place.word())
}

fn fenced_value(resource: &str) -> Value {
    Value::new(key(Place::Fenced, resource))
}

fn settle(result: Result<(), WriteError<ValueError>>) -> anyhow::Result<Fenced> {
    match result {
        Ok(()) => Ok(Fenced::Done),
        Err(error) if error.stale().is_some() => Ok(Fenced::Stale),
        Err(error) => Err(error.into()),
    }
}
