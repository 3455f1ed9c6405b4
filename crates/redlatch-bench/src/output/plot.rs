//! The plot: throughput over the number of callers, and hand-overs.

use super::report::Report;
use crate::{
    field::Shape,
    parts::{
        handover,
        uncontended::{self, LOADS},
    },
    spread::number,
    worker::Runtime,
};
use redlatch_testbed::Flavour;
use std::fmt::Write as _;

/// The size of one panel, in pixels.
const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 200.0;
const TOP: f64 = 50.0;
const LEFT: f64 = 50.0;
/// Where the bars of the second panel begin.
const BARS: f64 = LEFT + WIDTH + 170.0;
const BAR: f64 = 16.0;

const LINES: [(&str, &str); 5] = [
    ("floor", "#777777"),
    ("redlatch, plain", "#0a7d34"),
    ("redlatch", "#d1242f"),
    ("redis, by hand", "#8250df"),
    ("rslock", "#0969da"),
];
const HANDOVERS: [&str; 8] = [
    "floor",
    "redlatch",
    "rslock",
    "node redlock",
    "redis-semaphore",
    "redlock-py",
    "aioredlock",
    "pottery",
];

pub(super) fn of(report: &Report) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 840 300\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"840\" height=\"300\" fill=\"white\"/>\n",
    );
    throughput(&mut svg, report);
    handovers(&mut svg, report);
    svg.push_str("</svg>\n");
    svg
}

/// Locks per second, both axes logarithmic.
fn throughput(svg: &mut String, report: &Report) {
    text(svg, LEFT, 20.0, "start", "Locks per second by callers: 5 servers, one thread");
    let place = uncontended::place(5, Flavour::Redis7, Runtime::Current);
    let rate = |name: &str, callers: usize| {
        report.figure(&uncontended::title(callers, &place), name, "locks/s")
    };
    let (low, high) = (3.0, 5.5);
    let x = |index: usize| LEFT + WIDTH * number(index as u64) / number(LOADS.len() as u64 - 1);
    let y = |rate: f64| TOP + HEIGHT * (1.0 - (rate.log10().clamp(low, high) - low) / (high - low));
    for (index, callers) in LOADS.iter().enumerate() {
        text(svg, x(index), TOP + HEIGHT + 16.0, "middle", &callers.to_string());
    }
    for mark in [1_000_u32, 10_000, 100_000] {
        let at = y(f64::from(mark));
        line(svg, &format!("M{LEFT:.0} {at:.1}h{WIDTH:.0}"), "#dddddd");
        text(svg, LEFT - 6.0, at + 4.0, "end", &format!("{} k", mark / 1_000));
    }
    for (row, (name, colour)) in LINES.into_iter().enumerate() {
        let points = LOADS.iter().enumerate();
        let points =
            points.filter_map(|(index, callers)| Some((x(index), y(rate(name, *callers)?))));
        let path: Vec<String> = points.map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        if !path.is_empty() {
            line(svg, &format!("M{}", path.join("L")), colour);
            let at = LEFT + 78.0 * number(row as u64 % 4);
            let _ = writeln!(
                svg,
                "<text x=\"{at:.0}\" y=\"{:.0}\" fill=\"{colour}\">{name}</text>",
                TOP + HEIGHT + 34.0 + 14.0 * number(row as u64 / 4)
            );
        }
    }
}

/// p50 on a logarithmic axis.
fn handovers(svg: &mut String, report: &Report) {
    let title = handover::title(Shape::new(2, 1), 5);
    text(
        svg,
        BARS - 110.0,
        20.0,
        "start",
        "From a release to the waiter's grant, ms: 5 servers, 2 processes",
    );
    let mut top = TOP;
    for name in HANDOVERS {
        let Some(p50) = report.figure(&title, name, "p50 ms") else { continue };
        let length = 40.0 * (1.0 + (p50.max(0.1) * 10.0).log10());
        let colour = if name == "redlatch" { "#d1242f" } else { "#999999" };
        text(svg, BARS - 6.0, top + 12.0, "end", name);
        let _ = writeln!(
            svg,
            "<rect x=\"{BARS:.0}\" y=\"{top:.0}\" width=\"{length:.1}\" height=\"{BAR:.0}\" fill=\"{colour}\"/>"
        );
        text(svg, BARS + length + 5.0, top + 12.0, "start", &format!("{p50:.2}"));
        top += BAR + 7.0;
    }
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ =
        writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn line(svg: &mut String, path: &str, colour: &str) {
    let _ = writeln!(
        svg,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
    );
}
