//! Real servers and bad networks for the tests of Redlatch.
//!
//! - [`Server`]: one real Redis or Valkey on loopback, which can be killed,
//!   frozen and restarted; [`Servers`]: several at once.
//! - [`Postgres`]: one real PostgreSQL, for fenced writes.
//! - [`Prometheus`]: one real Prometheus, for metrics.
//! - [`Chromium`]: where a real browser is, for pages.
//! - [`Flavour`]: the kinds of servers, and where to find them.
//! - [`Proxy`]: a bad network in front of a server: delays, losses, stalls, resets.
//! - [`Nonsense`]: a server that sends whatever a test wants.
//! - `Certificates`: for servers with TLS (feature `tls`, on by default).
//! - [`Process`]: a program that dies with us; [`FakeClock`]: a clock for it.
//! - [`Scratch`]: a directory that is removed with its owner.
//! - [`eventually`]: waits for a condition, with a deadline.
//!
//! Starting something returns a `Result`, because whether a server is installed
//! is not up to the test. Everything after that panics on failure, with the
//! reason, because a test would have nothing to decide.
//!
//! Nothing here outlives the process that started it, even if a test panics or
//! the process is killed with `SIGKILL`.
//!
//! ```
//! use redlatch_testbed::Servers;
//!
//! let servers = Servers::start(3)?;
//! servers[0].run(&["SET", "invoice:42", "me"]);
//! servers.freeze(&[1]);
//! servers[2].kill();
//!
//! assert_eq!(servers[0].keys(), ["invoice:42"]);
//! # Ok::<(), redlatch_testbed::StartError>(())
//! ```

#![allow(
    missing_docs,
    clippy::must_use_candidate,
    clippy::return_self_not_must_use,
    reason = "only tests use it; comments say what names cannot"
)]

mod chromium;
mod error;
mod eventually;
mod faketime;
mod flavour;
mod nonsense;
mod options;
mod port;
mod postgres;
mod process;
mod prometheus;
mod proxy;
mod resp;
mod scratch;
mod server;
mod servers;
#[cfg(feature = "tls")]
mod tls;

pub use chromium::Chromium;
pub use error::StartError;
pub use eventually::{eventually, wait_until};
pub use faketime::{FakeClock, faketime_library};
pub use flavour::{Flavour, Found, Missing};
pub use nonsense::Nonsense;
pub use options::ServerOptions;
pub use postgres::Postgres;
pub use process::Process;
pub use prometheus::Prometheus;
pub use proxy::{Direction, Proxy};
pub use resp::Reply;
pub use scratch::Scratch;
pub use server::Server;
pub use servers::Servers;
#[cfg(feature = "tls")]
pub use tls::Certificates;
