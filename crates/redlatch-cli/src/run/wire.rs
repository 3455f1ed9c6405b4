//! The messages between the front and the holder: nine bytes each.

use super::boot_time::BootTime;
use nix::sys::signal::Signal;
use std::io;

pub(super) const LENGTH: usize = 9;
pub(super) type Bytes = [u8; LENGTH];

/// From the front to the holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// The front received this signal for the command.
    Signal(Signal),
    /// The front was stopped and runs again, in the terminal's foreground or not.
    Continue { foreground: bool },
    /// The holder has not reported in time: the front kills the command in its place.
    TooLate,
}

/// From the holder to the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// The command may run until then. Without another message by then, the front must
    /// kill it. A point in time, since the front may have been stopped, and read it late.
    GoodUntil(BootTime),
    /// The same, while the holder kills the command, which may take longer than the lease
    /// lasts.
    AtWork(BootTime),
    /// The fencing token of the lock, for the log record.
    Fenced(u64),
    /// The command was started, as the leader of this process group.
    Started(u32),
    /// No command is running, so none can outlive its lock.
    NothingToGuard,
    /// The same: the command ended by itself, or by a signal, with this status, after it
    /// ran for this long.
    Ran { code: u8, by_signal: bool, ms: u64 },
    /// The command stopped, as on Ctrl-Z: stop, too. If it stopped because it wants the
    /// terminal, stop only if the front doesn't have the terminal by now.
    Stop { wants_terminal: bool },
    /// Ctrl-C in the terminal ended the command, or the wait: end the same way. If the
    /// terminal was lent to the command, nobody else has seen the signal.
    Interrupted { lent: bool },
    /// Exit with this code without waiting: the holder stays to undo the rest.
    CleansUp { code: u8 },
}

impl Order {
    pub(super) fn to_bytes(self) -> Bytes {
        match self {
            Order::Signal(signal) => message(b's', u64::try_from(signal as i32).unwrap_or(0)),
            Order::Continue { foreground } => message(b'c', u64::from(foreground)),
            Order::TooLate => message(b'l', 0),
        }
    }

    pub(super) fn from_bytes(bytes: Bytes) -> io::Result<Self> {
        match parts(bytes) {
            (b's', number) => {
                let number = i32::try_from(number).map_err(|_| nonsense())?;
                Ok(Order::Signal(Signal::try_from(number)?))
            }
            (b'c', foreground) => Ok(Order::Continue { foreground: foreground != 0 }),
            (b'l', _) => Ok(Order::TooLate),
            _ => Err(nonsense()),
        }
    }
}

impl News {
    pub(super) fn to_bytes(self) -> Bytes {
        match self {
            News::GoodUntil(BootTime(nanos)) => message(b'g', nanos),
            News::AtWork(BootTime(nanos)) => message(b'w', nanos),
            News::Fenced(number) => message(b'f', number),
            News::Started(group) => message(b'p', u64::from(group)),
            News::NothingToGuard => message(b'n', 0),
            News::Ran { code, by_signal, ms } => {
                message(b'r', ms << 9 | u64::from(by_signal) << 8 | u64::from(code))
            }
            News::Stop { wants_terminal } => message(b's', u64::from(wants_terminal)),
            News::Interrupted { lent } => message(b'i', u64::from(lent)),
            News::CleansUp { code } => message(b'u', u64::from(code)),
        }
    }

    pub(super) fn from_bytes(bytes: Bytes) -> io::Result<Self> {
        match parts(bytes) {
            (b'g', nanos) => Ok(News::GoodUntil(BootTime(nanos))),
            (b'w', nanos) => Ok(News::AtWork(BootTime(nanos))),
            (b'f', number) => Ok(News::Fenced(number)),
            (b'p', group) => Ok(News::Started(u32::try_from(group).map_err(|_| nonsense())?)),
            (b'n', _) => Ok(News::NothingToGuard),
            (b'r', number) => {
                let code = number.to_le_bytes()[0];
                Ok(News::Ran { code, by_signal: number & 1 << 8 != 0, ms: number >> 9 })
            }
            (b's', wants) => Ok(News::Stop { wants_terminal: wants != 0 }),
            (b'i', lent) => Ok(News::Interrupted { lent: lent != 0 }),
            (b'u', code) => {
                Ok(News::CleansUp { code: u8::try_from(code).map_err(|_| nonsense())? })
            }
            _ => Err(nonsense()),
        }
    }
}

fn message(kind: u8, number: u64) -> Bytes {
    let mut bytes = [kind; LENGTH];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn parts([kind, number @ ..]: Bytes) -> (u8, u64) {
    (kind, u64::from_le_bytes(number))
}

fn nonsense() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_arrives_as_it_was_sent() {
        for order in [
            Order::Signal(Signal::SIGTERM),
            Order::Continue { foreground: true },
            Order::Continue { foreground: false },
            Order::TooLate,
        ] {
            assert_eq!(Order::from_bytes(order.to_bytes()).unwrap(), order);
        }
        for news in [
            News::GoodUntil(BootTime(1_234_567_890)),
            News::AtWork(BootTime(u64::MAX)),
            News::Fenced(u64::MAX),
            News::Started(4_194_304),
            News::NothingToGuard,
            News::Ran { code: 255, by_signal: false, ms: 1 << 50 },
            News::Ran { code: 0, by_signal: true, ms: 0 },
            News::Stop { wants_terminal: true },
            News::Stop { wants_terminal: false },
            News::Interrupted { lent: true },
            News::CleansUp { code: 255 },
        ] {
            assert_eq!(News::from_bytes(news.to_bytes()).unwrap(), news);
        }
        assert!(News::from_bytes([0; LENGTH]).is_err());
    }
}
