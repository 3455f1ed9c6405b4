//! Records as lines for syslog; journald listens at the same socket.

use super::{
    record::{End, Outcome, Record, Task},
    sentence::sentence,
};
use crate::{local_time::LocalTime, plain::plain};
use std::{fmt::Write as _, io, os::unix::net::UnixDatagram, path::Path, time::SystemTime};

/// Where syslog and journald listen.
pub(super) const SOCKET: &str = "/dev/log";

/// Scheduled jobs belong here, says the standard: "clock daemon".
const FACILITY: u8 = 9;

/// Sends a record and, if the log does not have it, the reason. A daemon that does not
/// read misses it; we never wait.
pub(super) fn send(socket: &Path, record: &Record, unlogged: Option<&String>) -> io::Result<()> {
    let mut line = line(record, SystemTime::now());
    if let Some(why) = unlogged {
        let _ = write!(line, "; {}", plain(why));
    }
    let ours = UnixDatagram::unbound()?;
    ours.set_nonblocking(true)?;
    ours.send_to(line.as_bytes(), socket)?;
    Ok(())
}

fn line(record: &Record, now: SystemTime) -> String {
    let priority = FACILITY * 8 + severity(record);
    let (time, pid) = (LocalTime::of(now).show_for_syslog(), record.pid);
    let (names, words) = (record.names.join(", "), sentence(record));
    format!("<{priority}>{time} redlatch[{pid}]: {}", plain(&format!("{names}: {words}")))
}

/// An error (3), a warning (4), a notice (5) or information (6).
fn severity(record: &Record) -> u8 {
    match (record.outcome, record.ended) {
        (Outcome::Held | Outcome::Interrupted, _) => 4,
        (Outcome::Granted, Some(End::Exited | End::Signal)) if record.exit != Some(0) => 4,
        // Anything that can give a lock two holders should stand out.
        (Outcome::Granted, _) if record.task == Task::ForceRelease || record.task.is_on_nodes() => {
            5
        }
        (Outcome::Granted, None | Some(End::Exited | End::Signal)) => 6,
        _ if record.task == Task::Run => 3,
        _ => 4,
    }
}
