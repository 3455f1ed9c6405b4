//! Plots how fast which share of the locks is granted.

use super::{
    Plan,
    figures::{Figures, question, time},
};
use crate::svg::page::{Anchor, Page};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 28.0;
const TOP: f64 = 72.0;
const BOTTOM: f64 = 84.0;
const COLOURS: [&str; 4] = ["one", "two", "three", "four"];

/// A curve for each topology, over time on a logarithmic scale.
pub(super) fn latencies(plan: &Plan, figures: &[Figures]) -> String {
    let mut page = Page::default();
    let title = "How long it takes to get a lock";
    page.text("title", Anchor::Start, (16.0, 26.0), title);
    page.text("quiet", Anchor::Start, (16.0, 46.0), &question(plan));
    let scale = Scale::of(figures);
    grid(&mut page, &scale);
    for (figure, colour) in figures.iter().zip(COLOURS.iter().cycle()) {
        let points = figure.curve.iter().enumerate().filter(|(_, micros)| **micros > 0);
        let points: Vec<(f64, f64)> = points
            .map(|(number, micros)| (scale.x(*micros), share(number + 1, figure.availability)))
            .collect();
        page.path(&format!("curve {colour}"), &points);
    }
    legend(&mut page, figures);
    page.finish(WIDTH, HEIGHT, title)
}

/// The powers of ten around all times.
struct Scale {
    from: i32,
    to: i32,
}

impl Scale {
    fn of(figures: &[Figures]) -> Self {
        let all = || figures.iter().flat_map(|figure| figure.curve.iter().copied());
        let least = all().filter(|micros| *micros > 0).min().unwrap_or(1);
        let most = all().max().unwrap_or(10).max(least + 1);
        Scale { from: decade(least), to: decade(most) + 1 }
    }

    fn x(&self, micros: u32) -> f64 {
        let along = f64::from(micros).log10() - f64::from(self.from);
        let span = f64::from(self.to - self.from);
        LEFT + (WIDTH - LEFT - RIGHT) * along / span
    }
}

fn decade(micros: u32) -> i32 {
    i32::try_from(micros.max(1).ilog10()).unwrap_or(0)
}

/// The height of a share of all requests.
fn share(thousandths: usize, availability: f64) -> f64 {
    let part = f64::from(u32::try_from(thousandths).unwrap_or(0)) / 1000.0 * availability;
    HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * part
}

fn grid(page: &mut Page, scale: &Scale) {
    for tenth in (0..=10).step_by(2) {
        let y = share(tenth * 100, 1.0);
        page.line("grid", (LEFT, y), (WIDTH - RIGHT, y));
        page.text("number", Anchor::End, (LEFT - 8.0, y + 4.0), &format!("{} %", tenth * 10));
    }
    for decade in scale.from..=scale.to {
        let micros = 10_u32.saturating_pow(u32::try_from(decade).unwrap_or(0));
        let x = scale.x(micros);
        page.line("grid", (x, TOP), (x, HEIGHT - BOTTOM));
        page.text("number", Anchor::Middle, (x, HEIGHT - BOTTOM + 16.0), &plain(micros));
    }
}

/// A power of ten, without decimals.
fn plain(micros: u32) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

fn legend(page: &mut Page, figures: &[Figures]) {
    for (number, (figure, colour)) in figures.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let x = LEFT + 258.0 * f64::from(u32::try_from(number).unwrap_or(0));
        let y = HEIGHT - 38.0;
        page.rect(&format!("{colour} key"), (x, y - 9.0), (10.0, 10.0), figure.topology.name());
        page.text("head", Anchor::Start, (x + 16.0, y), figure.topology.name());
        let acquire = figure.acquire;
        let words = format!(
            "p50 {}, p99 {}, {:.1} % granted",
            time(acquire.p50),
            time(acquire.p99),
            figure.availability * 100.0
        );
        page.text("quiet", Anchor::Start, (x + 16.0, y + 16.0), &words);
    }
}
