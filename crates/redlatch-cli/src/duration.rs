//! Durations as they are typed: `30s`, `1h30m`, `200ms`, and `forever`.

use std::time::Duration;

/// Parses a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text.trim())
        .map_err(|_| format!("`{text}` is not a duration; write it like 30s, 1h30m or 200ms"))
}

/// Parses a duration greater than zero.
pub(crate) fn parse_some(text: &str) -> Result<Duration, String> {
    some(text, parse(text)?)
}

/// Parses a TTL of at least 100 ms. A shorter one would expire before a command starts.
pub(crate) fn parse_ttl(text: &str) -> Result<Duration, String> {
    const LEAST: Duration = Duration::from_millis(100);
    let ttl = parse_some(text)?;
    if ttl < LEAST {
        return Err(format!("`{text}` is too short for a lock; use at least {LEAST:?}"));
    }
    Ok(ttl)
}

/// Parses a duration or `forever`.
pub(crate) fn parse_or_forever(text: &str) -> Result<Duration, String> {
    match text.trim() {
        "forever" => Ok(Duration::MAX),
        _ => parse(text).map_err(|error| format!("{error}, or `forever`")),
    }
}

/// Parses a duration greater than zero, or `forever`.
pub(crate) fn parse_some_or_forever(text: &str) -> Result<Duration, String> {
    some(text, parse_or_forever(text)?)
}

fn some(text: &str, duration: Duration) -> Result<Duration, String> {
    if duration.is_zero() {
        return Err(format!("`{text}` must be longer than zero"));
    }
    Ok(duration)
}

/// Formats a duration for people: whole seconds from ten up, tenths below.
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

/// The same, with the two largest units only: `3h 20m`.
pub(crate) fn brief(duration: Duration) -> String {
    let shown = show(duration);
    shown.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// Rewrites the times of an agreement: `max_ttl 30000ms` becomes `max_ttl 30s`.
pub(crate) fn readable(text: &str) -> String {
    let is_time = |at: usize, word: &str| {
        let before = text[..at].trim_end();
        let is_named = before.ends_with("max_ttl") || before.ends_with("skew");
        is_named && word.strip_suffix("ms").is_some_and(|digits| digits.parse::<u64>().is_ok())
    };
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for piece in text.split_inclusive([' ', ',', ')', ';', ':']) {
        let word = piece.trim_end_matches([' ', ',', ')', ';', ':']);
        if is_time(at, word) {
            let ms = word.trim_end_matches("ms").parse().unwrap_or_default();
            let time = humantime::format_duration(Duration::from_millis(ms)).to_string();
            shown.push_str(&if ms == 0 { "0s".into() } else { time.replace(' ', "") });
            shown.push_str(&piece[word.len()..]);
        } else {
            shown.push_str(piece);
        }
        at += piece.len();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_an_agreement_are_told_as_they_are_typed() {
        let told =
            "they have max_ttl 30000ms, skew 1500ms, A (after 2000ms); max_ttl 90000ms, and ours";

        let shown =
            "they have max_ttl 30s, skew 1s500ms, A (after 2000ms); max_ttl 1m30s, and ours";
        assert_eq!(readable(told), shown);
    }

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
        assert!(parse_some("0s").unwrap_err().contains("longer than zero"));
        assert!(parse_some_or_forever("0ms").is_err());
        assert_eq!(parse_some_or_forever("forever"), Ok(Duration::MAX));
    }

    #[test]
    fn durations_are_shown_as_exactly_as_people_need_them() {
        let shown = [3, 1_500, 59_999, 3_600_000].map(|ms| show(Duration::from_millis(ms)));

        assert_eq!(shown, ["3ms", "1.5s", "59s", "1h"]);
        assert_eq!(show(Duration::MAX), "forever");
        assert_eq!(brief(Duration::from_secs(100_000)), "1day 3h");
        assert_eq!(brief(Duration::from_secs(12)), "12s");
    }
}
