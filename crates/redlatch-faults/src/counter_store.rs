//! The workers' counters: two per resource, one fenced and one not, on a server
//! that is not a node.
//!
//! Seal, read, think, write one more: this is what the lock protects.

use crate::history::Counter;
use redis::{Commands as _, Connection, RedisError};
use redlatch::FencingToken;
use redlatch_fence::{
    WriteError,
    redis::{Value, ValueError},
};

/// One worker's connection to the counters.
pub(crate) struct CounterStore {
    connection: Connection,
}

/// The values of both counters of a resource.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    fenced: u64,
    unfenced: u64,
}

/// The outcome of a fenced write or seal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fenced {
    Done,
    Stale,
}

impl CounterStore {
    pub(crate) fn open(url: &str) -> Result<Self, RedisError> {
        Ok(Self { connection: redis::Client::open(url)?.get_connection()? })
    }

    /// Shuts out late writers, then reads. `None` if this writer is late itself.
    pub(crate) fn seal_and_read(
        &mut self,
        resource: &str,
        token: FencingToken,
    ) -> anyhow::Result<Option<Reading>> {
        let sealed = fenced_value(resource).seal_blocking(&mut self.connection, token);
        if settle(sealed)? == Fenced::Stale {
            return Ok(None);
        }
        let fenced = self.read(Counter::Fenced, resource)?;
        Ok(Some(Reading { fenced, unfenced: self.read(Counter::Unfenced, resource)? }))
    }

    pub(crate) fn write_fenced(
        &mut self,
        resource: &str,
        token: FencingToken,
        value: u64,
    ) -> anyhow::Result<Fenced> {
        let value = value.to_string();
        settle(fenced_value(resource).write_blocking(&mut self.connection, token, value))
    }

    /// Writes the unfenced counter, like a program without tokens.
    pub(crate) fn write_unfenced(&mut self, resource: &str, value: u64) -> anyhow::Result<()> {
        let () = self.connection.set(key(Counter::Unfenced, resource), value)?;
        Ok(())
    }

    /// The value of a counter; zero at first.
    pub(crate) fn read(&mut self, counter: Counter, resource: &str) -> anyhow::Result<u64> {
        Ok(self.connection.get::<_, Option<u64>>(key(counter, resource))?.unwrap_or(0))
    }
}

impl Reading {
    pub(crate) fn one_more(self, counter: Counter) -> u64 {
        match counter {
            Counter::Fenced => self.fenced + 1,
            Counter::Unfenced => self.unfenced + 1,
        }
    }
}

fn key(counter: Counter, resource: &str) -> String {
    format!("{}:{resource}", counter.word())
}

fn fenced_value(resource: &str) -> Value {
    Value::new(key(Counter::Fenced, resource))
}

fn settle(result: Result<(), WriteError<ValueError>>) -> anyhow::Result<Fenced> {
    match result {
        Ok(()) => Ok(Fenced::Done),
        Err(error) if error.stale().is_some() => Ok(Fenced::Stale),
        Err(error) => Err(error.into()),
    }
}
