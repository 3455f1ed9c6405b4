//! Why a server could not be started.

use crate::flavour::{Flavour, Missing};
use std::io;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The program is not installed, or too old.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// No installed server can do what was asked.
    #[error("no server found that can do this: run `cargo xtask servers`")]
    NoServer,
    /// A fake clock was requested, but libfaketime is not installed.
    #[error("libfaketime not found: run `cargo xtask servers`")]
    NoFaketime,
    #[error("PostgreSQL not found: run `cargo xtask servers`, or set REDLATCH_POSTGRES")]
    NoPostgres,
    /// PostgreSQL is installed, but does not start.
    #[error("PostgreSQL {what}, its log says:\n{log}")]
    Postgres { what: &'static str, log: String },
    #[error("Prometheus not found: run `cargo xtask servers`, or set REDLATCH_PROMETHEUS")]
    NoPrometheus,
    /// Prometheus is installed, but does not start.
    #[error("Prometheus does not answer, its log says:\n{log}")]
    Prometheus { log: String },
    /// This build of the server cannot do what was asked.
    #[error("{flavour} was built without {what}")]
    Unsupported { flavour: Flavour, what: &'static str },
    /// The server exited before it answered.
    #[error("{flavour} ended at once, its log says:\n{log}")]
    Ended { flavour: Flavour, log: String },
    /// The server runs, but did not answer in time.
    #[error("{flavour} did not answer within {limit:?}, its log says:\n{log}")]
    Mute { flavour: Flavour, limit: std::time::Duration, log: String },
    #[error("no free port on loopback")]
    NoPort,
    /// The operating system refused a file, a socket or a process.
    #[error("could not {what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl StartError {
    /// For `map_err`: names the action that failed.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
