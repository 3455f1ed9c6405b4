//! Why a server could not be started.

use std::io;

use crate::flavour::{Flavour, Missing};

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program is not on this machine, or too old.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// No server on this machine can do what was asked.
    #[error("no server found that can do this: run `cargo xtask servers`")]
    NoServer,
    /// The faked clock was asked for, but libfaketime is not on this machine.
    #[error("libfaketime not found: run `cargo xtask servers`")]
    NoFaketime,
    /// No PostgreSQL on this machine.
    #[error("PostgreSQL not found: run `cargo xtask servers`, or set REDLATCH_POSTGRES")]
    NoPostgres,
    /// PostgreSQL is there, but does not start.
    #[error("PostgreSQL {what}, its log says:\n{log}")]
    Postgres {
        /// What became of it.
        what: &'static str,
        /// Its log.
        log: String,
    },
    /// This build of the server cannot do what was asked.
    #[error("{flavour} was built without {what}")]
    Unsupported {
        /// The server that was asked.
        flavour: Flavour,
        /// What it cannot do.
        what: &'static str,
    },
    /// The server ended before it answered.
    #[error("{flavour} ended at once, its log says:\n{log}")]
    Ended {
        /// The server that ended.
        flavour: Flavour,
        /// The end of its log.
        log: String,
    },
    /// The server runs, but did not answer in time.
    #[error("{flavour} did not answer within {limit:?}, its log says:\n{log}")]
    Mute {
        /// The server that did not answer.
        flavour: Flavour,
        /// How long it was given.
        limit: std::time::Duration,
        /// The end of its log.
        log: String,
    },
    /// No port could be had.
    #[error("no free port on loopback")]
    NoPort,
    /// The operating system refused a file, a socket or a process.
    #[error("could not {what}: {source}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl StartError {
    /// For `map_err`: what was being done when the system refused.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
