//! Text that is safe to print on a terminal.

use std::borrow::Cow;

/// Escapes control characters: a name, or a server's message, must not move the
/// cursor or look like another line.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let escaped = |c: char| {
        let control = c.is_control().then(|| c.escape_default());
        let other = (!c.is_control()).then_some(c);
        control.into_iter().flatten().chain(other)
    };
    text.chars().flat_map(escaped).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else_is() {
        assert_eq!(plain("a\nb\t\u{1b}[31m\u{9b}"), "a\\nb\\t\\u{1b}[31m\\u{9b}");
        assert_eq!(plain("Grüße \\ \"x\""), "Grüße \\ \"x\"");
    }
}
