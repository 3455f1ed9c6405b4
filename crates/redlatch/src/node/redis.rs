//! A Redis or Valkey server as a node.

mod connect;
mod link;
mod look;
mod observe;
mod password;
mod plain;
mod resp;
mod runs;
mod scripts;
#[cfg(feature = "tls")]
mod tls;
mod translate;
mod turn;
mod wakes;

pub use observe::REDIS_PERMISSIONS;
pub(crate) use observe::refusal_in;
pub(super) use password::Password;

use super::{Link, Node, url::encode};
use crate::driver::clock::Clock;
use std::{
    fmt,
    fmt::Write as _,
    path::{self, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// A Redis (6.2 or newer) or Valkey server: a standalone master, not a cluster.
#[derive(Debug)]
pub struct Redis {
    name: String,
    /// The address as displayed.
    place: String,
    address: Arc<Address>,
}

impl Redis {
    #[cfg_attr(
        not(feature = "tls"),
        expect(clippy::unnecessary_wraps, reason = "only the files of TLS can be wrong")
    )]
    pub(super) fn new(address: Address) -> Result<Self, String> {
        #[cfg(feature = "tls")]
        if let Some(files) = &address.tls {
            tls::client_config(files)?;
        }
        let (name, place) = (address.name(), address.to_string());
        Ok(Redis { name, place, address: Arc::new(address) })
    }
}

impl Node for Redis {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> &str {
        &self.place
    }

    fn url(&self) -> Option<String> {
        Some(self.address.url())
    }

    fn has_login(&self) -> bool {
        let Address { user, password, .. } = &*self.address;
        user.is_some() || password.as_ref().is_some_and(|password| password.file().is_none())
    }

    fn has_answered(&self) -> bool {
        !self.address.runs.is_empty()
    }

    fn hint(&self) -> Option<&'static str> {
        self.address.hint()
    }

    fn needs_io(&self) -> bool {
        true
    }

    fn open(&self, _clock: Clock) -> Box<dyn Link> {
        Box::new(link::RedisLink::new(self.address.clone()))
    }
}

/// Where a server is and how to log in.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) transport: Transport,
    pub(super) user: Option<String>,
    pub(super) password: Option<Password>,
    pub(super) database: u32,
    pub(super) tls: Option<TlsFiles>,
    /// Accept a server that may evict keys when its memory is full.
    pub(super) allow_eviction: bool,
    /// The node's name; its address if `None`.
    pub(super) name: Option<String>,
    /// The runs of servers that have answered at this address.
    runs: runs::Runs,
    /// Whether the last TLS handshake was started but not completed.
    handshaking: AtomicBool,
}

#[derive(Debug)]
pub(super) enum Transport {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The files for a TLS connection; without `ca`, the system's roots are used.
#[derive(Debug, Default)]
pub(super) struct TlsFiles {
    pub(super) ca: Option<PathBuf>,
    pub(super) cert: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
}

impl Address {
    pub(super) fn new(transport: Transport) -> Self {
        Address {
            transport,
            user: None,
            password: None,
            database: 0,
            tls: None,
            allow_eviction: false,
            name: None,
            runs: runs::Runs::default(),
            handshaking: AtomicBool::new(false),
        }
    }

    /// A name stands for one database of a server: locks in another database are
    /// different locks, and a client with the wrong database number must not pass for one
    /// of the others.
    pub(super) fn name(&self) -> String {
        let Some(name) = &self.name else { return self.to_string() };
        // How the address of a server or of a socket ends.
        let endings = [format!("/{}", self.database), format!("?db={}", self.database)];
        let says_so = self.database == 0 || endings.iter().any(|end| name.ends_with(end));
        if says_so { name.clone() } else { name.clone() + &endings[0] }
    }

    /// Records whether a TLS handshake is in progress.
    fn note_handshake(&self, under_way: bool) {
        self.handshaking.store(under_way, Ordering::Relaxed);
    }

    /// What an unfinished TLS handshake hints at.
    fn hint(&self) -> Option<&'static str> {
        const IS_IT_TLS: &str = "the TLS handshake is not finished; is this a TLS port?";
        self.handshaking.load(Ordering::Relaxed).then_some(IS_IT_TLS)
    }

    /// The URL with all options but the login.
    fn url(&self) -> String {
        let mut url = match &self.transport {
            Transport::Tcp { .. } => self.to_string(),
            Transport::Unix(path) => format!("redis+unix://{}", encode(&path.to_string_lossy())),
        };
        let mut joint = '?';
        let mut add = |option: &str, value: &str| {
            let _ = write!(url, "{joint}{option}={}", encode(value));
            joint = '&';
        };
        if matches!(self.transport, Transport::Unix(_)) && self.database != 0 {
            add("db", &self.database.to_string());
        }
        let file = self.password.as_ref().and_then(Password::file);
        let tls = self.tls.as_ref();
        let files = [
            ("password_file", file),
            ("ca", tls.and_then(|tls| tls.ca.as_deref())),
            ("cert", tls.and_then(|tls| tls.cert.as_deref())),
            ("key", tls.and_then(|tls| tls.key.as_deref())),
        ];
        for (option, file) in files {
            let Some(file) = file else { continue };
            // The command may be run in another directory.
            let file = path::absolute(file).unwrap_or_else(|_| file.into());
            add(option, &file.to_string_lossy());
        }
        if self.allow_eviction {
            add("allow_eviction", "yes");
        }
        if let Some(name) = &self.name {
            add("name", name);
        }
        url
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        match &self.transport {
            Transport::Tcp { host, port } if host.contains(':') => {
                write!(f, "{scheme}://[{host}]:{port}")?;
            }
            Transport::Tcp { host, port } => write!(f, "{scheme}://{host}:{port}")?,
            Transport::Unix(path) => write!(f, "redis+unix://{}", path.display())?,
        }
        match (&self.transport, self.database) {
            (_, 0) => Ok(()),
            (Transport::Tcp { .. }, database) => write!(f, "/{database}"),
            (Transport::Unix(_), database) => write!(f, "?db={database}"),
        }
    }
}
