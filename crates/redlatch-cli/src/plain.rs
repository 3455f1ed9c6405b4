//! Makes text safe to show to people: names, owners and messages come from anywhere.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Escapes what must not reach a terminal as it is: a name, or a server's message, must not
/// move the cursor, look like another line or like another name.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown.into()
}

/// Whether it cannot be seen: a control character, white space other than a blank, or a
/// character that Unicode lets programs ignore, such as marks that change the direction of
/// text. `visible` of the page escapes the same ones.
fn is_hidden(c: char) -> bool {
    let is_blank = c.is_whitespace() && c != ' ';
    let is_ignored = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}');
    c.is_control() || is_blank || is_ignored
}

/// The beginning of a text that fits into this many columns of a terminal, with an ellipsis
/// if the text is longer.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let (mut shown, mut used) = (String::new(), 0);
    for char in text.chars() {
        used += char.width().unwrap_or(0);
        if used + 1 > width {
            break;
        }
        shown.push(char);
    }
    if width > 0 {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_nothing_else_is() {
        assert_eq!(plain("a\nb\t\u{1b}[31m\u{9b}"), "a\\nb\\t\\u{1b}[31m\\u{9b}");
        assert_eq!(
            plain("Grüße \\ \"x\" e\u{301} 日本語 שלום"),
            "Grüße \\ \"x\" e\u{301} 日本語 שלום"
        );
    }

    #[test]
    fn what_cannot_be_seen_or_turns_the_text_around_is_escaped() {
        let ranges = ['\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}', '\u{200b}'..='\u{200f}'];
        let single = ['\u{feff}', '\u{2060}', '\u{2028}', '\u{a0}', '\u{ad}', '\u{e0041}'];

        for c in ranges.into_iter().flatten().chain(single) {
            assert_eq!(plain(&format!("a{c}b")), format!("a\\u{{{:x}}}b", u32::from(c)));
        }
    }

    #[test]
    fn what_does_not_fit_is_cut_by_the_columns_it_takes() {
        assert_eq!(cut("Grüße", 5), "Grüße");
        assert_eq!(cut("Grüße", 4), "Grü…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("x", 0), "");
    }
}
