//! Durations as they are typed: `30s`, `1h30m`, `200ms`, and `forever`.

use std::time::Duration;

/// Reads a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|_| format!("`{text}` is not a duration; write it like 30s, 1h30m or 200ms"))
}

/// Reads a duration that may have no end.
pub(crate) fn parse_or_forever(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "forever" => Ok(Duration::MAX),
        _ => parse(text).map_err(|error| format!("{error}, or `forever`")),
    }
}

/// A duration for people: whole seconds from ten on, tenths below.
pub(crate) fn show(duration: Duration) -> String {
    if duration == Duration::MAX {
        return "forever".into();
    }
    match duration.as_secs() {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        seconds => humantime::format_duration(Duration::from_secs(seconds)).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(parse("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(parse(" 1h30m "), Ok(Duration::from_secs(5400)));
        assert_eq!(parse("0s"), Ok(Duration::ZERO));
        for bad in ["", "5", "-1s", "1 fortnight", "forever", "999999999999999999999s"] {
            assert!(parse(bad).unwrap_err().contains("is not a duration"), "{bad}");
        }
        assert_eq!(parse_or_forever("forever"), Ok(Duration::MAX));
        assert!(parse_or_forever("for ever").is_err());
    }

    #[test]
    fn durations_are_shown_as_exactly_as_people_need_them() {
        let shown = [3, 1_500, 59_999, 3_600_000].map(|ms| show(Duration::from_millis(ms)));

        assert_eq!(shown, ["3ms", "1.5s", "59s", "1h"]);
        assert_eq!(show(Duration::MAX), "forever");
    }
}
