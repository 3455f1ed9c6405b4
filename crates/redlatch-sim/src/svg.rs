//! Draws a recorded history as a sequence diagram.
//!
//! In:  a [`Trace`].
//! Out: an SVG: a lifeline per participant, an arrow per message from sending to
//!      arrival, bars for leases and troubles.
//!
//! Time runs down the page, but not evenly: each step has its own row, so that a
//! busy millisecond is as easy to read as a pause. The numbers on the left are the
//! true times.

pub(crate) mod page;

use crate::trace::{Bar, BarKind, Event, Fate, Kind, Step, Trace};
use page::{Anchor, Page, brief, cut};
use std::time::Duration;

const ROW: f64 = 20.0;
const TOP: f64 = 86.0;
const LEFT: f64 = 90.0;
const COLUMN: f64 = 190.0;
/// The longest text of a message or local event, in characters.
const LONGEST: usize = 34;
/// Shorter bars are not drawn.
const MOMENT: Duration = Duration::from_micros(1);

pub fn sequence(trace: &Trace) -> String {
    let diagram = Diagram { trace };
    let mut page = Page::default();
    diagram.heads(&mut page);
    for bar in &trace.bars {
        diagram.bar(&mut page, bar);
    }
    for (row, step) in trace.steps.iter().enumerate() {
        diagram.step(&mut page, row, step);
    }
    page.finish(diagram.width(), diagram.bottom() + 24.0, &trace.title)
}

struct Diagram<'a> {
    trace: &'a Trace,
}

impl Diagram<'_> {
    fn width(&self) -> f64 {
        self.column(self.trace.participants.len()) - COLUMN / 2.0 + 140.0
    }

    fn bottom(&self) -> f64 {
        y(self.trace.steps.len())
    }

    /// The lifeline of a participant.
    fn column(&self, who: usize) -> f64 {
        let nodes = self.trace.participants.iter().take(who);
        let gap = nodes.filter(|before| before.kind == Kind::Client).count();
        let gap = if gap < who || self.kind(who) == Some(Kind::Node) { 40.0 } else { 0.0 };
        LEFT + COLUMN / 2.0 + gap + count(who) * COLUMN
    }

    fn kind(&self, who: usize) -> Option<Kind> {
        self.trace.participants.get(who).map(|participant| participant.kind)
    }

    /// The height of a time, between the rows of the steps around it.
    fn at(&self, time: Duration) -> f64 {
        let steps = &self.trace.steps;
        let next = steps.partition_point(|step| step.at < time);
        let after = steps.get(next).map(|step| step.at);
        let before = next.checked_sub(1).map(|last| steps[last].at);
        match (before, after) {
            (_, None) => self.bottom(),
            (None, Some(_)) => y(next),
            (Some(_), Some(after)) if after == time => y(next),
            (Some(before), Some(after)) => {
                let since = |later: Duration| later.saturating_sub(before).as_secs_f64();
                let part = since(time) / since(after);
                y(next) - ROW * (1.0 - part)
            }
        }
    }

    /// Where a message starts: beside the event that caused it, if shown.
    fn sent(&self, who: usize, time: Duration) -> f64 {
        let steps = &self.trace.steps;
        let first = steps.partition_point(|step| step.at < time);
        let cause = steps[first..].iter().take_while(|step| step.at == time).position(|step| {
            match &step.event {
                Event::Message { to, fate, .. } => *to == who && *fate == Fate::Arrived,
                Event::Local { who: whose, .. } => *whose == who,
                Event::World { .. } => false,
            }
        });
        cause.map_or_else(|| self.at(time), |row| y(first + row))
    }

    fn heads(&self, page: &mut Page) {
        page.text("title", Anchor::Start, (16.0, 26.0), &cut(&self.trace.title, 120));
        page.text("number", Anchor::End, (LEFT - 24.0, TOP - 24.0), "ms");
        for (who, participant) in self.trace.participants.iter().enumerate() {
            let x = self.column(who);
            page.line("rule", (x, TOP - 16.0), (x, self.bottom()));
            page.rect("box", (x - 44.0, TOP - 40.0), (88.0, 24.0), &participant.name);
            let kind = if participant.kind == Kind::Client { "client" } else { "node" };
            let words = format!("{kind} {}", participant.name);
            page.text("head", Anchor::Middle, (x, TOP - 24.0), &words);
        }
    }

    fn bar(&self, page: &mut Page, bar: &Bar) {
        let (x, from, until) = (self.column(bar.who), self.at(bar.from), self.at(bar.until));
        let (class, width) = match bar.kind {
            BarKind::Lease => ("lease", 12.0),
            BarKind::Trouble => ("trouble", 18.0),
        };
        if bar.until > bar.from + MOMENT {
            let size = (width, (until - from).max(3.0));
            page.rect(class, (x - width / 2.0, from), size, &bar.text);
        }
    }

    fn step(&self, page: &mut Page, row: usize, step: &Step) {
        let y = y(row);
        let earlier = row.checked_sub(1).map(|before| self.trace.steps[before].at);
        if earlier != Some(step.at) {
            let millis = format!("{:.3}", step.at.as_secs_f64() * 1000.0);
            page.text("number", Anchor::End, (LEFT - 24.0, y + 4.0), &millis);
        }
        match &step.event {
            Event::Message { from, to, sent, text, fate } => {
                self.message(page, (*from, *to), (self.sent(*from, *sent).min(y), y), text, *fate);
            }
            Event::Local { who, text } => {
                let x = self.column(*who);
                page.dot("tip-back", (x, y));
                let class = local_class(text);
                let class = format!("{class} halo");
                page.text(&class, Anchor::Start, (x + 12.0, y + 4.0), &cut(&brief(text), LONGEST));
            }
            Event::World { text } => {
                let class = if text.starts_with("BROKEN") { "broken halo" } else { "quiet halo" };
                page.line("grid", (LEFT - 16.0, y), (self.width() - 20.0, y));
                page.text(class, Anchor::Start, (LEFT, y + 4.0), &cut(&brief(text), 150));
            }
        }
    }

    fn message(
        &self,
        page: &mut Page,
        (from, to): (usize, usize),
        (sent, arrived): (f64, f64),
        text: &str,
        fate: Fate,
    ) {
        let (x1, x2) = (self.column(from), self.column(to));
        let away = if x2 > x1 { 1.0 } else { -1.0 };
        let style = match (fate, text.starts_with("late "), self.kind(from)) {
            (Fate::Lost, ..) => "lost",
            (_, true, _) => "late",
            (_, _, Some(Kind::Client)) => "there",
            _ => "back",
        };
        let end = match fate {
            Fate::Arrived => (x2, arrived),
            Fate::Lost => (x1 + (x2 - x1) * 0.7, sent + (arrived - sent) * 0.7),
        };
        page.line(style, (x1, sent), end);
        if fate == Fate::Lost {
            page.text("broken", Anchor::Middle, (end.0, end.1 + 4.0), "✗");
        } else {
            let tip = [
                (end.0, end.1),
                (end.0 - 8.0 * away, end.1 - 4.0),
                (end.0 - 8.0 * away, end.1 + 4.0),
            ];
            page.path(&format!("tip-{style}"), &tip);
        }
        let anchor = if away > 0.0 { Anchor::End } else { Anchor::Start };
        let class = if fate == Fate::Lost { "wrong halo" } else { "halo" };
        page.text(class, anchor, (end.0 - 14.0 * away, end.1 - 3.0), &cut(&brief(text), LONGEST));
    }
}

fn local_class(text: &str) -> &'static str {
    if text.starts_with("TROUBLE") || text.starts_with("lost") {
        "wrong"
    } else if text.starts_with("HOLDS") {
        "held"
    } else {
        "quiet"
    }
}

fn y(row: usize) -> f64 {
    TOP + count(row) * ROW
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Participant;

    #[test]
    fn every_participant_message_lease_and_loss_is_in_the_picture() {
        let ms = Duration::from_millis;
        let mut trace =
            Trace::new("One lock", vec![Participant::client("c1"), Participant::node("A")]);
        let message = |from, to, text: &str, fate| {
            let text = text.to_owned();
            Event::Message { from, to, sent: ms(0), text, fate }
        };
        trace.push(ms(1), message(0, 1, "take", Fate::Arrived), vec![]);
        trace.push(ms(2), message(1, 0, "granted", Fate::Lost), vec![]);
        trace.push(ms(3), Event::World { text: "BROKEN, a promise".into() }, vec![]);
        let (from, until) = (ms(1), ms(3));
        let kind = BarKind::Lease;
        trace.bars.push(Bar { who: 0, kind, from, until, text: "r0 #7".into() });

        let drawn = sequence(&trace);

        for part in
            ["client c1", "node A", ">take<", "class=\"lost\"", "r0 #7", "BROKEN, a promise"]
        {
            assert!(drawn.contains(part), "{part} is missing");
        }
    }
}
