//! Matches names against patterns, as Redis does.

/// Returns whether `pattern` matches the whole of `name`: `*` matches any text, `?` any
/// byte, `[abc]`, `[a-z]` and `[^a-z]` one byte in or not in the class, and `\` escapes the
/// byte after it.
///
/// Takes time at most proportional to the product of both lengths.
#[must_use]
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    // What follows the last `*`, and the part of the name it has not consumed yet.
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            star = Some((rest, name));
            pattern = rest;
            continue;
        }
        let step = match (pattern, name) {
            ([], []) => return true,
            ([], _) | (_, []) => None,
            (_, [byte, after @ ..]) => one(pattern, *byte).map(|rest| (rest, after)),
        };
        (pattern, name) = match (step, star) {
            (Some(next), _) => next,
            // Let the `*` consume one more byte, and try again.
            (None, Some((behind, [_, uneaten @ ..]))) => {
                star = Some((behind, uneaten));
                (behind, uneaten)
            }
            (None, _) => return false,
        };
    }
}

/// Returns the rest of a pattern whose first element, not a `*`, matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (is_like, rest) = match pattern {
        [b'?', rest @ ..] => (true, rest),
        [b'[', rest @ ..] => class(rest, byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (*literal == byte, rest),
        [] => return None,
    };
    is_like.then_some(rest)
}

/// Parses a class after its `[`: whether `byte` is in it, and what follows it.
fn class(inside: &[u8], byte: u8) -> (bool, &[u8]) {
    let (negated, mut rest) = match inside {
        [b'^', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut found = false;
    loop {
        rest = match rest {
            [] => return (found != negated, rest),
            [b']', rest @ ..] => return (found != negated, rest),
            [b'\\', literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
            [low, b'-', high, rest @ ..] => {
                found |= (*low.min(high)..=*low.max(high)).contains(&byte);
                rest
            }
            [literal, rest @ ..] => {
                found |= *literal == byte;
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn patterns_match_as_in_redis() {
        for (pattern, name, is_like) in [
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("deploy:*", "deploy:web", true),
            ("deploy:*", "deploy", false),
            ("*:web", "deploy:web", true),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("[a-c]x", "bx", true),
            ("[c-a]x", "bx", true),
            ("[a-c]x", "dx", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("[\\]]", "]", true),
            ("[ab", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), is_like, "{pattern} {name}");
        }
    }

    #[test]
    fn a_wicked_pattern_takes_no_time() {
        let pattern = b"*a".repeat(500);
        let name = vec![b'b'; 1024];

        assert!(!matches(&pattern, &name));
    }
}
