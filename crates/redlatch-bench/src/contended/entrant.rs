//! Who takes part, and as which program.

use super::{peers::Peer, worker::Kind};
use std::{env, path::PathBuf, process::Command};

#[derive(Debug, Clone)]
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) role: Role,
    program: Program,
    /// The TTL of its locks, in milliseconds, if not the usual one.
    ttl_ms: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Floor,
    Ours,
    /// As it comes, or as its README uses it.
    Peer,
    /// A peer with settings that nobody would guess: shown, and not a bound.
    Tuned,
}

#[derive(Debug, Clone)]
enum Program {
    /// This one.
    Own(Kind),
    Driver(&'static Peer, PathBuf),
}

impl Entrant {
    pub(crate) fn floor() -> Self {
        Self::own("floor", Role::Floor, Kind::Floor)
    }

    pub(crate) fn ours() -> Self {
        Self::own("redlatch", Role::Ours, Kind::Redlatch)
    }

    pub(crate) fn ours_with_ttl(ttl_ms: u64) -> Self {
        Self { ttl_ms: Some(ttl_ms), ..Self::ours() }
    }

    pub(crate) fn foreign() -> Self {
        Self::own("foreign", Role::Peer, Kind::Foreign)
    }

    pub(crate) fn etcd() -> Self {
        Self::own("etcd", Role::Peer, Kind::Etcd)
    }

    /// The peers that are linked into this program.
    pub(crate) fn rslock() -> [Self; 2] {
        [
            Self::own("rslock", Role::Peer, Kind::Rslock),
            Self::own("rslock 5ms", Role::Tuned, Kind::RslockTuned),
        ]
    }

    pub(crate) fn driver(peer: &'static Peer, home: PathBuf) -> Self {
        let program = Program::Driver(peer, home);
        Self { name: peer.name, role: Role::Peer, program, ttl_ms: None }
    }

    /// Whether it is a program in another language.
    pub(crate) fn is_driver(&self) -> bool {
        matches!(self.program, Program::Driver(..))
    }

    fn own(name: &'static str, role: Role, kind: Kind) -> Self {
        Self { name, role, program: Program::Own(kind), ttl_ms: None }
    }

    /// The command that starts one process of it.
    pub(crate) fn command(&self, urls: &[String]) -> anyhow::Result<Command> {
        let mut command = match &self.program {
            Program::Own(kind) => {
                let mut own = Command::new(env::current_exe()?);
                let kind = clap::ValueEnum::to_possible_value(kind);
                own.arg("contended-worker");
                own.arg(kind.map(|kind| kind.get_name().to_owned()).unwrap_or_default());
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
