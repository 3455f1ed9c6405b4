//! The contenders, and the program that each is.

use crate::{
    peers::Peer,
    worker::{Kind, Runtime},
};
use std::{env, path::PathBuf, process::Command};

#[derive(Debug, Clone)]
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    program: Program,
    /// The TTL of its locks, in milliseconds, if not the usual one.
    ttl_ms: Option<u64>,
    runtime: Runtime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Floor,
    /// Redlatch with default settings.
    Ours,
    /// A lock library with default settings, or as its README uses it.
    Peer,
    /// Shown for comparison, without a bound: not a lock library with default settings.
    Other,
}

#[derive(Debug, Clone)]
enum Program {
    /// This one.
    Own(Kind),
    Driver(&'static Peer, PathBuf),
}

pub(crate) const FLOOR: Entrant = own("floor", Role::Floor, Kind::Floor);
/// The floor of a hand-over.
pub(crate) const RELAY: Entrant = own("floor", Role::Floor, Kind::Relay);
pub(crate) const OURS: Entrant = own("redlatch", Role::Ours, Kind::Redlatch);
pub(crate) const PLAIN: Entrant = own("redlatch, plain", Role::Other, Kind::Plain);
pub(crate) const BY_HAND: Entrant = own("redis, by hand", Role::Other, Kind::Redis);
pub(crate) const RSLOCK: Entrant = own("rslock", Role::Peer, Kind::Rslock);
pub(crate) const RSLOCK_TUNED: Entrant = own("rslock 5ms", Role::Other, Kind::RslockTuned);
pub(crate) const ETCD: Entrant = own("etcd", Role::Peer, Kind::Etcd);

const fn own(name: &'static str, role: Role, kind: Kind) -> Entrant {
    let program = Program::Own(kind);
    Entrant { name, role, program, ttl_ms: None, runtime: Runtime::Current }
}

impl Entrant {
    pub(crate) fn driver(peer: &'static Peer, home: PathBuf) -> Self {
        Self { name: peer.name, program: Program::Driver(peer, home), ..RSLOCK }
    }

    pub(crate) fn with_ttl(self, ttl_ms: u64) -> Self {
        Self { ttl_ms: Some(ttl_ms), ..self }
    }

    pub(crate) fn on(self, runtime: Runtime) -> Self {
        Self { runtime, ..self }
    }

    /// Whether it can lock on this many servers.
    pub(crate) fn takes(&self, nodes: usize) -> bool {
        !matches!(self.program, Program::Driver(Peer { single: true, .. }, _)) || nodes == 1
    }

    /// The command that starts one process of it.
    pub(crate) fn command(&self, urls: &[String]) -> anyhow::Result<Command> {
        let mut command = match &self.program {
            Program::Own(kind) => {
                let mut own = Command::new(env::current_exe()?);
                own.args(["worker", &value(kind), "--runtime", &value(&self.runtime)]);
                if let Some(ttl) = self.ttl_ms {
                    own.args(["--ttl-ms", &ttl.to_string()]);
                }
                own
            }
            Program::Driver(peer, home) => peer.command(home),
        };
        command.args(urls);
        Ok(command)
    }
}

fn value(of: &impl clap::ValueEnum) -> String {
    of.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
