//! The time since the machine booted, and which boot it was.

use redlatch_core::Fault;
use rustix::time::{ClockId, clock_gettime};
use std::{fs, sync::Arc};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const OFFSETS: &str = "/proc/self/timens_offsets";

#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const CLOCK: ClockId = ClockId::Monotonic;

const SECOND: i64 = 1_000_000_000;

/// One boot of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Boot {
    /// Different for every boot.
    pub(super) id: Arc<str>,
    /// How far this process's boot clock is ahead of the machine's, in ns: a
    /// container may have its own clock offset.
    ahead: i64,
}

impl Boot {
    /// The current boot.
    pub(super) fn present() -> Result<Self, Fault> {
        let id = fs::read_to_string(BOOT_ID).map_err(|error| {
            let text = format!(
                "{BOOT_ID} cannot be read ({error}): the embedded node needs it to tell a \
                 reboot; make /proc available, or use a Redis node"
            );
            Fault::Unfit(text.into())
        })?;
        // Kernels without time namespaces have no such file, and no offset.
        let offsets = fs::read_to_string(OFFSETS).unwrap_or_default();
        Ok(Boot { id: id.trim().into(), ahead: offset_in(&offsets).unwrap_or(0) })
    }

    /// Nanoseconds since boot, the same for all processes of the machine.
    pub(super) fn now(&self) -> i64 {
        let time = clock_gettime(CLOCK);
        let nanos = time.tv_sec.saturating_mul(SECOND).saturating_add(time.tv_nsec);
        nanos.saturating_sub(self.ahead)
    }
}

/// Parses the line `boottime SECONDS NANOSECONDS` of a list of clock offsets.
fn offset_in(offsets: &str) -> Option<i64> {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(seconds.saturating_mul(SECOND).saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_with_a_boot_clock_of_its_own_agrees_with_the_machine() {
        let offsets = "monotonic           5         0\nboottime      -86400        17\n";
        assert_eq!(offset_in(offsets), Some(-86_400 * SECOND + 17));
        assert_eq!(offset_in(""), None);

        let here = Boot { ahead: 0, ..Boot::present().unwrap() };
        let there = Boot { ahead: -60 * SECOND, ..here.clone() };
        let (now, ahead) = (here.now(), there.now());
        assert!((60 * SECOND..61 * SECOND).contains(&(ahead - now)), "{now} and {ahead}");
    }
}
