//! Real servers and bad networks for the tests of Redlatch.
//!
//! - [`Server`]: one real Redis or Valkey on loopback, which can be killed,
//!   frozen and restarted; [`Servers`]: several at once.
//! - [`Postgres`]: one real PostgreSQL, for writes that are fenced.
//! - [`Flavour`]: which servers there are, and where they are found.
//! - [`Proxy`]: the bad network in front of a server: late, lost, held, reset.
//! - [`Nonsense`]: a server that answers whatever it is told to.
//! - `Certificates`: for servers that speak TLS (feature `tls`, on by default).
//! - [`Process`]: a program that dies with us; [`FakeClock`]: a clock for it.
//! - [`Scratch`]: a directory that vanishes with its owner.
//! - [`eventually`]: waits for a condition, with a deadline.
//!
//! Starting something returns a `Result`: whether a server is installed is not
//! up to the test. Everything afterwards panics with the reason when it fails,
//! because a test would have nothing to decide.
//!
//! Nothing here outlives the process that started it: not when a test panics,
//! not when the process is killed with `SIGKILL`.
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

mod error;
mod eventually;
mod faketime;
mod flavour;
mod nonsense;
mod options;
mod port;
mod postgres;
mod process;
mod proxy;
mod resp;
mod scratch;
mod server;
mod servers;
#[cfg(feature = "tls")]
mod tls;

pub use error::StartError;
pub use eventually::{eventually, wait_until};
pub use faketime::{FakeClock, faketime_library};
pub use flavour::{Flavour, Found, Missing};
pub use nonsense::Nonsense;
pub use options::ServerOptions;
pub use postgres::Postgres;
pub use process::Process;
pub use proxy::{Direction, Proxy};
pub use resp::Reply;
pub use scratch::Scratch;
pub use server::Server;
pub use servers::Servers;
#[cfg(feature = "tls")]
pub use tls::Certificates;
