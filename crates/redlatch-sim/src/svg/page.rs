//! The page that diagrams are drawn on: lines, boxes, text, two colour schemes.
//!
//! Promise: the output is well-formed for any text, and readable on light and dark
//! backgrounds.

use std::fmt::Write;

/// Colours by class, for light and dark screens.
const STYLE: &str = "
text { font-family: ui-sans-serif, system-ui, 'Helvetica Neue', Arial, sans-serif; font-size: 11px; fill: #24292f }
.paper { fill: #ffffff } .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600; font-size: 12px }
.quiet { fill: #6e7781 } .number { fill: #6e7781; font-size: 10px; font-variant-numeric: tabular-nums }
.box { fill: #f6f8fa; stroke: #8c959f } .rule { stroke: #afb8c1; stroke-width: 1 } .grid { stroke: #d8dee4; stroke-width: 1 }
.there { stroke: #0969da; stroke-width: 1.2; fill: none } .back { stroke: #57606a; stroke-width: 1.2; fill: none }
.late { stroke: #bc4c00; stroke-width: 1.4; stroke-dasharray: 6 3; fill: none } .lost { stroke: #cf222e; stroke-width: 1.4; stroke-dasharray: 2 3; fill: none }
.tip-there { fill: #0969da } .tip-back { fill: #57606a } .tip-late { fill: #bc4c00 } .tip-lost { fill: #cf222e }
.halo { paint-order: stroke; stroke: #ffffff; stroke-width: 3px; stroke-linejoin: round }
.lease { fill: #1a7f37; fill-opacity: .22; stroke: #1a7f37 } .trouble { fill: #cf222e; fill-opacity: .14; stroke: #cf222e; stroke-opacity: .5 }
.held { fill: #116329; font-weight: 600 } .wrong { fill: #a40e26 } .broken { fill: #cf222e; font-weight: 700; font-size: 12px }
.one { stroke: #0969da; fill: #0969da } .two { stroke: #1a7f37; fill: #1a7f37 } .three { stroke: #bc4c00; fill: #bc4c00 } .four { stroke: #8250df; fill: #8250df }
.curve { fill: none; stroke-width: 2 } .key { stroke: none }
@media (prefers-color-scheme: dark) {
text { fill: #d0d7de } .paper { fill: #0d1117 } .halo { stroke: #0d1117 } .box { fill: #161b22; stroke: #6e7681 }
.quiet, .number { fill: #8b949e } .rule { stroke: #484f58 } .grid { stroke: #21262d }
.there { stroke: #58a6ff } .back { stroke: #8b949e } .late { stroke: #f0883e } .lost { stroke: #ff7b72 }
.tip-there { fill: #58a6ff } .tip-back { fill: #8b949e } .tip-late { fill: #f0883e } .tip-lost { fill: #ff7b72 }
.held { fill: #56d364 } .wrong, .broken { fill: #ff7b72 } .one { stroke: #58a6ff; fill: #58a6ff } .two { stroke: #56d364; fill: #56d364 } .three { stroke: #f0883e; fill: #f0883e } .four { stroke: #bc8cff; fill: #bc8cff } .curve { fill: none } .key { stroke: none }
}
";

/// A drawing in progress.
#[derive(Debug, Default)]
pub(crate) struct Page {
    body: String,
    /// Drawn last, so that no line crosses them out.
    words: String,
}

/// Where words stand relative to their point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Page {
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(crate) fn rect(&mut self, class: &str, at: (f64, f64), size: (f64, f64), words: &str) {
        let ((x, y), (width, height)) = (at, size);
        let words = escape(words);
        self.put(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="3"><title>{words}</title></rect>"#
        ));
    }

    pub(crate) fn dot(&mut self, class: &str, at: (f64, f64)) {
        let (x, y) = at;
        self.put(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="2.5"/>"#));
    }

    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (number, (x, y)) in points.iter().enumerate() {
            let letter = if number == 0 { 'M' } else { 'L' };
            let _ = write!(path, "{letter}{x:.1} {y:.1}");
        }
        self.put(format_args!(r#"<path class="{class}" d="{path}"/>"#));
    }

    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, at: (f64, f64), words: &str) {
        let (x, y) = at;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escape(words);
        let _ = writeln!(
            self.words,
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#
        );
    }

    pub(crate) fn finish(self, width: f64, height: f64, title: &str) -> String {
        let title = escape(title);
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img"><title>{title}</title><style>{STYLE}</style><rect class="paper" width="100%" height="100%"/>
{}{}</svg>
"#,
            self.body, self.words
        )
    }

    fn put(&mut self, part: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(part);
        self.body.push('\n');
    }
}

/// Cuts text to at most this many characters.
pub(crate) fn cut(words: &str, most: usize) -> String {
    if words.chars().count() <= most {
        return words.to_owned();
    }
    let kept: String = words.chars().take(most - 1).collect();
    kept.trim_end().to_owned() + "…"
}

/// Shortens long numbers to their last digits, which are the ones that differ.
pub(crate) fn brief(words: &str) -> String {
    let mut brief = String::new();
    let mut digits = String::new();
    for letter in words.chars().chain([' ']) {
        if letter.is_ascii_digit() {
            digits.push(letter);
            continue;
        }
        match digits.len() {
            9.. => brief = brief + "…" + &digits[digits.len() - 6..],
            _ => brief += &digits,
        }
        digits.clear();
        brief.push(letter);
    }
    brief.pop();
    brief
}

fn escape(words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    words.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_break_out_of_the_drawing() {
        let mut page = Page::default();
        page.text("quiet", Anchor::Start, (0.0, 0.0), "<b> & \u{1b}[0m");

        let drawn = page.finish(10.0, 10.0, "a < b");

        assert!(drawn.contains("&lt;b&gt; &amp; [0m"));
        assert!(drawn.contains("<title>a &lt; b</title>"));
    }

    #[test]
    fn long_words_are_cut_and_say_so() {
        assert_eq!(cut("a lease of ten", 10), "a lease o…");
        assert_eq!(cut("short", 8), "short");
    }

    #[test]
    fn long_numbers_are_shortened_to_their_last_digits() {
        assert_eq!(brief("granted #1770000011324968"), "granted #…324968");
        assert_eq!(brief("for 2968 ms, 3 of 5"), "for 2968 ms, 3 of 5");
    }
}
