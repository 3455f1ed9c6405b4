//! Points in time as people read and type them: in the machine's time zone.

use crate::duration;
use nix::libc;
use std::{
    mem,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A date and a time of day, in the machine's time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalTime {
    year: i32,
    month: i32,
    day: i32,
    hour: i32,
    minute: i32,
    second: i32,
}

impl LocalTime {
    pub(crate) fn of(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = libc::time_t::try_from(seconds).unwrap_or(libc::time_t::MAX);
        #[expect(unsafe_code, reason = "the C library knows the time zone")]
        // SAFETY: all bytes zero is a valid `tm`, and both pointers are to our own memory.
        let tm = unsafe {
            let mut tm = mem::zeroed();
            libc::localtime_r(&raw const seconds, &raw mut tm);
            tm
        };
        LocalTime {
            year: tm.tm_year + 1900,
            month: tm.tm_mon + 1,
            day: tm.tm_mday,
            hour: tm.tm_hour,
            minute: tm.tm_min,
            second: tm.tm_sec,
        }
    }

    fn to_system_time(self) -> Option<SystemTime> {
        #[expect(unsafe_code, reason = "the C library knows the time zone")]
        // SAFETY: all bytes zero is a valid `tm`, and the pointer is to our own memory.
        let seconds = unsafe {
            let mut tm: libc::tm = mem::zeroed();
            tm.tm_year = self.year - 1900;
            tm.tm_mon = self.month - 1;
            tm.tm_mday = self.day;
            tm.tm_hour = self.hour;
            tm.tm_min = self.minute;
            tm.tm_sec = self.second;
            // Let the library find out whether daylight saving time applies.
            tm.tm_isdst = -1;
            libc::mktime(&raw mut tm)
        };
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds.try_into().ok()?))
    }

    /// `2026-11-17 01:00:00`.
    pub(crate) fn show(self) -> String {
        let LocalTime { year, month, day, hour, minute, second } = self;
        format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }

    /// `01:00:00`.
    pub(crate) fn clock(self) -> String {
        let LocalTime { hour, minute, second, .. } = self;
        format!("{hour:02}:{minute:02}:{second:02}")
    }

    /// `01:00:00` if that is today, and otherwise with the date.
    pub(crate) fn brief(self, now: LocalTime) -> String {
        let is_today = (self.year, self.month, self.day) == (now.year, now.month, now.day);
        if is_today { self.clock() } else { self.show() }
    }

    /// `Nov 17 01:00:00`, as syslog wants it.
    pub(crate) fn show_for_syslog(self) -> String {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        let LocalTime { month, day, hour, minute, second, .. } = self;
        let month = usize::try_from(month - 1).ok().and_then(|at| MONTHS.get(at)).unwrap_or(&"Jan");
        format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02}")
    }
}

/// Parses a point in the past: `8h` ago, the last occurrence of a time of day, a date,
/// or both.
pub(crate) fn parse_past(text: &str) -> Result<SystemTime, String> {
    past(text.trim(), SystemTime::now()).ok_or_else(|| {
        format!("`{text}` is not a time; write it like 8h, 01:00 or \"2026-11-17 01:00\"")
    })
}

fn past(text: &str, now: SystemTime) -> Option<SystemTime> {
    if let Ok(ago) = duration::parse(text) {
        return Some(now.checked_sub(ago).unwrap_or(UNIX_EPOCH));
    }
    if let Ok(exact) = humantime::parse_rfc3339(text) {
        return Some(exact);
    }
    let today = LocalTime { hour: 0, minute: 0, second: 0, ..LocalTime::of(now) };
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (Some(date), Some(time)),
        None if text.contains(':') => (None, Some(text)),
        None => (Some(text), None),
    };
    let date = date.map_or(Some(today), read_date)?;
    let [hour, minute, second] = time.map_or(Some([0; 3]), read_time)?;
    let found = LocalTime { hour, minute, second, ..date };
    let at = found.to_system_time()?;
    if text.contains('-') || at <= now {
        return Some(at);
    }
    // A time of day that is still to come was yesterday; mktime knows the 0th of a month.
    LocalTime { day: found.day - 1, ..found }.to_system_time()
}

fn read_date(text: &str) -> Option<LocalTime> {
    let [year, month, day] = numbers(text, '-')?[..] else { return None };
    let is_date = (1970..=9999).contains(&year) && (1..=12).contains(&month);
    let date = LocalTime { year, month, day, hour: 0, minute: 0, second: 0 };
    (is_date && (1..=31).contains(&day)).then_some(date)
}

fn read_time(text: &str) -> Option<[i32; 3]> {
    let time = match numbers(text, ':')?[..] {
        [hour, minute] => [hour, minute, 0],
        [hour, minute, second] => [hour, minute, second],
        _ => return None,
    };
    let [hour, minute, second] = time;
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61).contains(&second);
    is_time.then_some(time)
}

fn numbers(text: &str, separator: char) -> Option<Vec<i32>> {
    let is_number = |part: &str| part.chars().all(|c| c.is_ascii_digit());
    text.split(separator).map(|part| part.parse().ok().filter(|_| is_number(part))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_read_as_it_is_shown() {
        let time = UNIX_EPOCH + Duration::from_secs(1_763_341_234);

        let shown = LocalTime::of(time).show();

        assert_eq!(past(&shown, time), Some(time));
        assert_eq!(past(&shown.replace(' ', "T"), time), Some(time));
    }

    #[test]
    fn a_time_of_day_is_the_last_one_and_a_duration_is_ago() {
        let day = Duration::from_secs(24 * 3600);
        let noon = past("2026-01-01 12:00", UNIX_EPOCH).unwrap();

        assert_eq!(past("01:00", noon), past("2026-01-01 01:00:00", noon));
        assert_eq!(past("13:00", noon), past("2025-12-31 13:00", noon));
        assert_eq!(past("12:00", noon + day), Some(noon + day));
        assert_eq!(past("8h", noon), Some(noon - Duration::from_secs(8 * 3600)));
        assert_eq!(past("2026-01-01", noon), past("00:00", noon));
        for bad in ["", "yesterday", "25:00", "2026-13-01", "2026-1", "1:2:3:4", "+1:00"] {
            assert_eq!(past(bad, noon), None, "{bad}");
        }
    }
}
