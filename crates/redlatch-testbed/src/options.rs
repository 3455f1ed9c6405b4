//! Options for a server.

use crate::{
    error::StartError,
    flavour::{Flavour, Found},
    server::{Ports, Server},
};
use std::{
    fmt::Write,
    fs, io,
    path::{Path, PathBuf},
};

/// Options for a server; [`start`](Self::start) starts it.
///
/// Defaults: the first flavour found, on loopback, no password, nothing written to disk.
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
    /// Sets which server to run. Default: the first one found, preferably Redis 7.
    pub fn flavour(mut self, flavour: Flavour) -> Self {
        self.flavour = Some(flavour);
        self
    }

    /// Adds a line of configuration, as in `redis.conf`.
    pub fn config(mut self, line: impl Into<String>) -> Self {
        self.config.push(line.into());
        self
    }

    /// Requires a password. [`Server::url`] contains it.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds an ACL user with a password and rules such as `~lock:* +@all`.
    /// [`Server::url_as`] logs in as that user.
    pub fn user(self, name: &str, password: &str, rules: &str) -> Self {
        self.config(format!("user {name} on >{password} {rules}"))
    }

    /// Also listens on a Unix socket: see [`Server::unix_url`].
    pub fn unix_socket(mut self) -> Self {
        self.unix_socket = true;
        self
    }

    /// Also listens for TLS on a separate port: see [`Server::tls_url`]. Only
    /// Debian's Redis is built with TLS.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificates: crate::tls::Certificates) -> Self {
        self.tls = Some(certificates);
        self
    }

    /// Writes every change to disk before answering, so that the data survives
    /// [`Server::restart`].
    pub fn appendonly(self) -> Self {
        self.config("appendonly yes").config("appendfsync always")
    }

    /// Limits the memory, with a policy such as `noeviction` or `volatile-lru`.
    pub fn maxmemory(self, limit: &str, policy: &str) -> Self {
        self.config(format!("maxmemory {limit}")).config(format!("maxmemory-policy {policy}"))
    }

    /// Gives the server a clock that the test can set: see
    /// [`Server::clock_ahead`]. Needs libfaketime, which does not work with
    /// servers built with jemalloc, as Debian's are: the default is then the
    /// first flavour found that was built without it.
    pub fn fake_clock(mut self) -> Self {
        self.fake_clock = true;
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(&self) -> Result<Server, StartError> {
        Server::with(self)
    }

    /// The requested flavour, or the first one that can do what was asked.
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

    /// Writes the configuration file and the files it names.
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

    /// The configuration. The test's own lines come last and win.
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
