//! What a server should be like.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::StartError;
use crate::flavour::{Flavour, Found};
use crate::server::{Ports, Server};

/// What a server should be like; [`start`](Self::start) makes one.
///
/// The default: the first flavour found, on loopback, no password, nothing
/// written to disk.
///
/// ```
/// use redlatch_testbed::{Flavour, Server};
///
/// let server = Server::options()
///     .flavour(Flavour::Redis7)
///     .password("secret")
///     .config("maxmemory 2mb")
///     .start()?;
///
/// assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
/// # Ok::<(), redlatch_testbed::StartError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    flavour: Option<Flavour>,
    config: Vec<String>,
    pub(crate) password: Option<String>,
    pub(crate) unix_socket: bool,
    pub(crate) fake_clock: bool,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::Certificates>,
}

impl ServerOptions {
    /// Which server to run. Default: the first one found, Redis 7 preferred.
    #[must_use]
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = Some(flavour);
        self
    }

    /// Adds one line of configuration, as it would stand in `redis.conf`.
    #[must_use]
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Asks for a password. [`Server::url`] contains it.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds an ACL user with a password and rules such as `~lock:* +@all`.
    /// [`Server::url_as`] logs in as that user.
    #[must_use]
    pub fn user(self, name: &str, password: &str, rules: &str) -> Self {
        self.config(format!("user {name} on >{password} {rules}"))
    }

    /// Also listens on a unix socket: see [`Server::unix_url`].
    #[must_use]
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Also listens for TLS on a port of its own: see [`Server::tls_url`]. Only
    /// Debian's Redis was built with TLS.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, certificates: crate::tls::Certificates) -> Self {
        self.tls = Some(certificates);
        self
    }

    /// Writes every change to disk before it is answered, so that the data is
    /// still there after [`Server::restart`].
    #[must_use]
    pub fn appendonly(self) -> Self {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// Limits the memory, with a policy such as `noeviction` or `volatile-lru`.
    #[must_use]
    pub fn maxmemory(self, limit: &str, policy: &str) -> Self {
        self.config(format!("maxmemory {limit}")).config(format!("maxmemory-policy {policy}"))
    }

    /// Gives the server a clock that the test can move: see
    /// [`Server::clock_ahead`]. Needs libfaketime, which does not get along
    /// with servers built with jemalloc, as Debian's are: the default is then
    /// the first flavour found that was built without.
    #[must_use]
    pub fn fake_clock(mut self) -> Self {
        self.fake_clock = true;
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) -> Result<Server, StartError> {
        Server::with(self)
    }

    /// The flavour asked for, or the first one that can do what was asked.
    pub(crate) fn chosen(&self) -> Result<(Flavour, Found), StartError> {
        if let Some(flavour) = self.flavour {
            let found = flavour.find()?;
            return match self.fits(&found) {
                Ok(()) => Ok((flavour, found)),
                Err(what) => Err(StartError::Unsupported { flavour, what }),
            };
        }
        Flavour::ALL
            .into_iter()
            .filter_map(|flavour| Some((flavour, flavour.find().ok()?)))
            .find(|(_, found)| self.fits(found).is_ok())
            .ok_or(StartError::NoServer)
    }

    fn fits(&self, found: &Found) -> Result<(), &'static str> {
        if self.fake_clock && found.allocator.starts_with("jemalloc") {
            return Err("libc's allocator, which libfaketime needs");
        }
        Ok(())
    }

    #[cfg(feature = "tls")]
    pub(crate) fn wants_tls(&self) -> bool {
        self.tls.is_some()
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    pub(crate) fn wants_tls(&self) -> bool {
        false
    }

    /// Writes the configuration file, and those that it names.
    pub(crate) fn install(&self, ports: &Ports, dir: &Path, control: &str) -> io::Result<PathBuf> {
        let file = dir.join("server.conf");
        #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "only TLS adds to it"))]
        let mut text = self.text(ports.plain.number(), dir, control);
        #[cfg(feature = "tls")]
        if let (Some(certificates), Some(port)) = (&self.tls, &ports.tls) {
            let _ = write!(text, "tls-port {}\n{}", port.number(), certificates.install(dir)?);
        }
        fs::write(&file, text)?;
        Ok(file)
    }

    /// The configuration. What the test asked for comes last and wins.
    fn text(&self, port: u16, dir: &Path, control: &str) -> String {
        let dir = dir.display();
        let mut text = format!(
            "bind 127.0.0.1\nport {port}\ndir {dir}\nlogfile \"\"\ndaemonize no\n\
             save \"\"\nappendonly no\nuser {control} on >{control} ~* &* +@all\n"
        );
        if let Some(password) = &self.password {
            let _ = writeln!(text, "requirepass {password}");
        }
        if self.unix_socket {
            let _ = writeln!(text, "unixsocket {dir}/socket");
        }
        for line in &self.config {
            let _ = writeln!(text, "{line}");
        }
        text
    }
}
