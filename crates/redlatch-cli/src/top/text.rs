//! Lines with colours, and columns that fit.

use crate::plain::cut;
use std::fmt::Write as _;
use unicode_width::UnicodeWidthStr as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Good,
    Warning,
    Bad,
    Selected,
}

impl Style {
    /// The escape code for a terminal; without colours, only weight and reversal.
    fn code(self, colours: bool) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Bold => "1",
            Style::Selected => "7",
            _ if !colours => match self {
                Style::Bad | Style::Warning => "1",
                _ => "",
            },
            Style::Dim => "2",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "1;31",
        }
    }
}

/// One line, in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    pub(super) fn new(style: Style, text: impl Into<String>) -> Self {
        Line(vec![(style, text.into())])
    }

    pub(super) fn and(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    /// The whole line in one style.
    pub(super) fn all(self, style: Style) -> Self {
        Line::new(style, self.plain())
    }

    /// Its text alone.
    pub(super) fn plain(&self) -> String {
        let text: String = self.0.iter().map(|(_, text)| &**text).collect();
        text.trim_end().to_owned()
    }

    /// The line for a terminal of this width.
    pub(super) fn painted(&self, width: usize, colours: bool) -> String {
        let (mut line, mut left) = (String::new(), width);
        for (style, text) in &self.0 {
            let text = cut(text, left);
            left -= text.width();
            let code = style.code(colours);
            let _ = if code.is_empty() {
                write!(line, "{text}")
            } else {
                write!(line, "\x1b[{code}m{text}\x1b[0m")
            };
        }
        line
    }
}

/// Wraps a text between words, into lines that fit; all but the first are indented.
pub(super) fn wrapped(text: &str, width: usize, indent: usize) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive(' ') {
        let is_begun = line.chars().any(|letter| letter != ' ');
        if is_begun && line.width() + word.trim_end().width() > width {
            lines.push(line.trim_end().to_owned());
            line = " ".repeat(indent);
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// A cell, and how it looks.
pub(super) type Cell = (Style, String);

/// The least that a column is cut to.
const NARROW: usize = 12;

/// Columns, as wide as they must be, with two blanks between them. In a narrow
/// terminal, the widest columns shrink first; then the last ones are dropped.
pub(super) fn table<const N: usize>(
    head: [&str; N],
    rows: &[[Cell; N]],
    width: Option<usize>,
) -> Vec<Line> {
    let mut widths: Vec<usize> = (0..N)
        .map(|at| {
            let cells = rows.iter().map(|row| row[at].1.width());
            cells.chain([head[at].width()]).max().unwrap_or(0)
        })
        .collect();
    if let Some(width) = width {
        fit(&mut widths, width);
    }
    let row = |cells: &[Cell; N]| {
        let mut line = Line::default();
        for (at, ((style, text), width)) in cells.iter().zip(&widths).enumerate() {
            let text = cut(text, *width);
            let is_last = at + 1 == widths.len();
            let blanks = if is_last { 0 } else { width - text.width() + 2 };
            line = line.and(*style, text).and(Style::Plain, " ".repeat(blanks));
        }
        line
    };
    let head = head.map(|title| (Style::Dim, title.to_owned()));
    [row(&head)].into_iter().chain(rows.iter().map(row)).collect()
}

/// Cuts columns, and drops some, until they fit.
fn fit(widths: &mut Vec<usize>, width: usize) {
    let total = |widths: &[usize]| widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
    let least = |widths: &[usize]| {
        total(&widths.iter().map(|width| NARROW.min(*width)).collect::<Vec<_>>())
    };
    while widths.len() > 1 && least(widths) > width {
        widths.pop();
    }
    while total(widths) > width
        && let Some(widest) = widths.iter_mut().max()
        && *widest > 0
    {
        *widest -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_and_a_long_word_is_left_to_be_cut() {
        assert_eq!(wrapped("! one two three", 10, 2), ["! one two", "  three"]);
        assert_eq!(wrapped("! one two three", 15, 2), ["! one two three"]);
        assert_eq!(wrapped("  → unbreakable", 9, 4), ["  →", "    unbreakable"]);
        assert_eq!(wrapped("日本 語", 6, 2), ["日本", "  語"]);
        assert_eq!(wrapped("", 4, 2), [""]);
    }

    #[test]
    fn the_widest_columns_give_way() {
        let cell = |text: &str| (Style::Plain, text.to_owned());
        let rows = [[cell("short"), cell("a name that is very long")]];

        let lines = |width| -> Vec<String> {
            table(["ONE", "TWO"], &rows, width).iter().map(Line::plain).collect()
        };

        assert_eq!(lines(None), ["ONE    TWO", "short  a name that is very long"]);
        assert_eq!(lines(Some(19)), ["ONE    TWO", "short  a name that…"]);
        assert_eq!(lines(Some(18)), ["ONE", "short"]);
        assert_eq!(lines(Some(3)), ["ONE", "sh…"]);
    }

    #[test]
    fn a_line_never_wraps_and_colours_can_be_left_out() {
        let line = Line::new(Style::Bad, "down").and(Style::Plain, ": it is out");

        assert_eq!(line.painted(8, true), "\x1b[1;31mdown\x1b[0m: i…");
        assert_eq!(line.painted(99, false), "\x1b[1mdown\x1b[0m: it is out");
        assert_eq!(line.plain(), "down: it is out");
    }
}
