//! Ports on loopback that stay reserved while nobody listens on them.
//!
//! A port assigned by the system is from the range that it also uses for
//! outgoing connections. While the server on it is down, a client that keeps
//! trying to connect can be assigned that very port, connect to itself and
//! block the restart. So ports are picked below that range, and a locked file
//! keeps other testbeds away from them while the server is down.

use crate::scratch;
use std::{
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    process,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

/// Attempts before giving up: far more than there can be ports in use.
const TRIES: u32 = 2_000;

/// A port on loopback, reserved among all testbeds of this user until dropped.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _lock: File,
}

impl Port {
    /// Reserves a port that nobody listens on.
    pub(crate) fn reserve() -> io::Result<Self> {
        Self::listen().map(|(port, _)| port)
    }

    /// Reserves a port and listens on it.
    pub(crate) fn listen() -> io::Result<(Self, TcpListener)> {
        let dir = scratch::root().join("ports");
        fs::create_dir_all(&dir)?;
        for _ in 0..TRIES {
            let number = next_candidate();
            let lock = File::create(dir.join(number.to_string()))?;
            if lock.try_lock().is_ok()
                && let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, number))
            {
                return Ok((Self { number, _lock: lock }, listener));
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port on loopback"))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

/// Walks through the range from a start that differs between processes.
fn next_candidate() -> u16 {
    static RANGE: LazyLock<Range<u16>> = LazyLock::new(range);
    static STEP: AtomicU32 = AtomicU32::new(0);
    let begin = process::id().wrapping_mul(2_654_435_761) >> 8;
    let step = STEP.fetch_add(1, Ordering::Relaxed);
    let offset = begin.wrapping_add(step) % u32::from(RANGE.end - RANGE.start);
    // The offset is less than the length of a range of `u16`.
    RANGE.start + u16::try_from(offset).unwrap_or(0)
}

/// From 10,000 up to the start of the system's own range.
fn range() -> Range<u16> {
    let begin = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .unwrap_or(32_768);
    10_000..u16::max(begin, 12_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ports_differ_as_long_as_they_are_reserved() {
        let ports: Vec<_> = (0..100).map(|_| Port::reserve().expect("port")).collect();

        let numbers: HashSet<_> = ports.iter().map(Port::number).collect();

        assert_eq!(numbers.len(), 100);
    }

    #[test]
    fn a_reserved_port_cannot_be_locked_by_another() {
        let port = Port::reserve().expect("port");

        let file = File::open(scratch::root().join("ports").join(port.number().to_string()))
            .expect("file");

        assert!(file.try_lock().is_err());
    }
}
