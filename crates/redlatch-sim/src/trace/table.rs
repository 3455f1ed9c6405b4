//! The table of a trace: a row per step, a column per participant.

use super::{Event, Fate, Step, Trace};
use std::fmt;

/// A state that did not change is not repeated.
const SAME: &str = "·";

pub(super) fn write(trace: &Trace, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rows = rows(trace);
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| count(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    writeln!(f, "{}\n", trace.title)?;
    for (number, row) in rows.iter().enumerate() {
        write_row(row, &widths, f)?;
        if number == 0 {
            let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
            write_row(&rule, &widths, f)?;
        }
    }
    Ok(())
}

fn rows(trace: &Trace) -> Vec<Vec<String>> {
    let mut header = vec!["#".to_owned(), "ms".to_owned(), "what happens".to_owned()];
    header.extend(trace.participants.iter().map(|participant| participant.name.clone()));
    let mut known = vec![String::new(); trace.participants.len()];
    let mut rows = vec![header];
    for (number, step) in trace.steps.iter().enumerate() {
        let mut row = vec![(number + 1).to_string(), millis(step), describe(trace, &step.event)];
        row.extend(known.iter_mut().enumerate().map(|(who, known)| change(step, who, known)));
        rows.push(row);
    }
    rows
}

fn change(step: &Step, who: usize, known: &mut String) -> String {
    match step.notes.iter().find(|(whose, _)| *whose == who) {
        Some((_, note)) if note != known => {
            known.clone_from(note);
            note.clone()
        }
        _ => SAME.to_owned(),
    }
}

fn describe(trace: &Trace, event: &Event) -> String {
    match event {
        Event::Message { from, to, text, fate, .. } => {
            let (from, to) = (trace.name(*from), trace.name(*to));
            let arrow = if *fate == Fate::Arrived { "→" } else { "✗" };
            format!("{from} {arrow} {to}: {text}")
        }
        Event::Local { who, text } => format!("{}: {text}", trace.name(*who)),
        Event::World { text } => text.clone(),
    }
}

fn millis(step: &Step) -> String {
    let micros = step.at.as_micros();
    match micros % 1000 {
        0 => (micros / 1000).to_string(),
        rest => format!("{}.{rest:03}", micros / 1000),
    }
}

fn write_row(row: &[String], widths: &[usize], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut line = String::new();
    for (cell, width) in row.iter().zip(widths) {
        line += cell;
        line += &" ".repeat(width - count(cell) + 2);
    }
    writeln!(f, "{}", line.trim_end())
}

fn count(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use crate::trace::{Event, Fate, Participant, Trace};
    use std::time::Duration;

    #[test]
    fn a_trace_is_a_table_that_repeats_nothing() {
        let participants = vec![Participant::client("c1"), Participant::node("A")];
        let mut trace = Trace::new("One take, one loss.", participants);
        let ms = Duration::from_millis;
        let message = |from, to, text: &str, fate| {
            let text = text.to_owned();
            Event::Message { from, to, sent: ms(0), text, fate }
        };
        let held = || vec![(0, "waits".to_owned()), (1, "key c1.1 until 1000".to_owned())];

        trace.push(ms(0), message(0, 1, "take", Fate::Arrived), held());
        trace.push(ms(5), message(1, 0, "granted", Fate::Lost), held());
        trace.push(Duration::from_micros(988_500), Event::World { text: "time".into() }, vec![]);

        let expected = "\
One take, one loss.

#  ms       what happens     c1     A
-  -------  ---------------  -----  -------------------
1  0        c1 → A: take     waits  key c1.1 until 1000
2  5        A ✗ c1: granted  ·      ·
3  988.500  time             ·      ·
";
        assert_eq!(trace.to_string(), expected);
    }
}
