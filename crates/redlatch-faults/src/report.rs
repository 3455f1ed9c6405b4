//! The results: a table as text and Markdown, and JSON.

use crate::{
    checker::Findings,
    scenario::{Scale, Shown},
};
use serde::Serialize;
use std::{
    fmt::{self, Write as _},
    fs,
    path::Path,
    time::Duration,
};

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct ReportLine {
    pub(crate) row: u32,
    pub(crate) fault: String,
    pub(crate) how: String,
    /// The names of the tests that show it, if any.
    pub(crate) tests: Vec<String>,
    /// How many times the fault was injected; `None` if tests inject it.
    pub(crate) injected: Option<usize>,
    pub(crate) acquisitions: usize,
    /// The figures, if workers counted under locks.
    pub(crate) load: Option<Figures>,
    /// What went wrong; empty if nothing did.
    pub(crate) missed: Vec<String>,
    pub(crate) note: String,
    #[serde(serialize_with = "seconds")]
    pub(crate) took: Duration,
}

#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Figures {
    pub(crate) overlaps: usize,
    pub(crate) token_faults: usize,
    pub(crate) lost_fenced: u64,
    pub(crate) lost_unfenced: u64,
    pub(crate) stale_writes: u64,
    pub(crate) guards_lost: usize,
    pub(crate) keys_left: usize,
    pub(crate) granted_during_faults: usize,
    pub(crate) recovery_ms: Option<u128>,
    pub(crate) refusals: Vec<(String, usize)>,
}

fn seconds<S: serde::Serializer>(took: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(took.as_secs_f64())
}

impl ReportLine {
    pub(crate) fn of(findings: &Findings, missed: Vec<String>) -> Self {
        let load = Figures {
            overlaps: findings.overlaps.len(),
            token_faults: findings.token_faults.len(),
            lost_fenced: findings.fenced.lost,
            lost_unfenced: findings.unfenced.lost,
            stale_writes: findings.fenced.stale,
            guards_lost: findings.losses,
            keys_left: findings.left.len(),
            granted_during_faults: findings.recovery.during,
            recovery_ms: findings.slowest_recovery().map(|slowest| slowest.as_millis()),
            refusals: findings.refusals.clone(),
        };
        Self {
            injected: Some(findings.recovery.faults),
            acquisitions: findings.acquisitions,
            load: Some(load),
            missed,
            ..Self::default()
        }
    }

    pub(crate) fn shown(how: String, shown: Shown) -> Self {
        let Shown { injected, acquisitions, note } = shown;
        Self { how, injected: Some(injected), acquisitions, note, ..Self::default() }
    }

    pub(crate) fn failed(how: String, error: &anyhow::Error) -> Self {
        Self { how, missed: vec![format!("{error:#}")], ..Self::default() }
    }

    fn verdict(&self) -> String {
        match (&self.missed[..], self.note.as_str()) {
            ([], "") => "ok".into(),
            ([], note) => format!("ok: {note}"),
            (missed, _) => format!("MISSED: {}", missed.join("; ")),
        }
    }

    fn cells(&self) -> [String; COLUMNS] {
        let figure = |pick: &dyn Fn(&Figures) -> String| {
            self.load.as_ref().map_or_else(|| "–".to_owned(), pick)
        };
        [
            self.row.to_string(),
            self.fault.clone(),
            self.how.clone(),
            self.injected.map_or_else(|| "–".into(), |count| count.to_string()),
            self.acquisitions.to_string(),
            figure(&|figures| figures.overlaps.to_string()),
            figure(&|figures| figures.token_faults.to_string()),
            figure(&|figures| format!("{} / {}", figures.lost_fenced, figures.lost_unfenced)),
            figure(&|figures| figures.recovery_ms.map_or("–".into(), |ms| format!("{ms} ms"))),
            self.verdict(),
        ]
    }
}

const COLUMNS: usize = 10;
const HEADS: [&str; COLUMNS] = [
    "#",
    "fault",
    "how",
    "injected",
    "acquisitions",
    "overlaps",
    "token faults",
    "lost fenced / unfenced",
    "recovery",
    "verdict",
];

/// A line while the run goes on.
impl fmt::Display for ReportLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.cells();
        let took = self.took.as_secs_f64();
        write!(f, "{took:>6.1} s  ")?;
        let [row, fault, how, injected, taken, overlaps, tokens, lost, recovery, verdict] = cells;
        write!(f, "{row:>2} {fault} [{how}] injected {injected}, acquired {taken}, ")?;
        write!(f, "overlaps {overlaps}, token faults {tokens}, lost {lost}, ")?;
        write!(f, "recovery {recovery}: {verdict}")
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) scale: &'static str,
    pub(crate) acquisitions: usize,
    pub(crate) seconds: f64,
    pub(crate) missed: usize,
    pub(crate) lines: Vec<ReportLine>,
}

impl Report {
    pub(crate) fn new(scale: Scale, took: Duration, lines: Vec<ReportLine>) -> Self {
        Self {
            scale: if scale == Scale::Short { "short" } else { "full" },
            acquisitions: lines.iter().map(|line| line.acquisitions).sum(),
            seconds: took.as_secs_f64(),
            missed: lines.iter().filter(|line| !line.missed.is_empty()).count(),
            lines,
        }
    }

    /// Aligned columns; the misses are repeated at the end, where readers of a long
    /// log look first.
    pub(crate) fn text(&self) -> String {
        let rows: Vec<_> = self.lines.iter().map(ReportLine::cells).collect();
        let wide = |text: &str| text.chars().count();
        let widths: Vec<_> = (0..COLUMNS)
            .map(|column| {
                let cells = rows.iter().map(|row| wide(&row[column]));
                cells.chain([wide(HEADS[column])]).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&HEADS.map(str::to_owned)).chain(&rows) {
            let padded: Vec<_> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - wide(cell))))
                .collect();
            let _ = writeln!(text, "{}", padded.join("  ").trim_end());
        }
        let _ = writeln!(text, "{}", self.summary());
        for line in self.lines.iter().filter(|line| !line.missed.is_empty()) {
            let ReportLine { row, fault, how, .. } = line;
            let _ = writeln!(text, "row {row}, {fault}, {how}: {}", line.verdict());
        }
        text
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = String::from("# Faults on real servers\n\n");
        text += &line(&HEADS.map(str::to_owned));
        text += &line(&[(); COLUMNS].map(|()| "---".to_owned()));
        for row in &self.lines {
            text += &line(&row.cells());
        }
        text.push_str("\nThe tests:\n\n");
        for ReportLine { row, tests, .. } in self.lines.iter().filter(|line| !line.tests.is_empty())
        {
            let _ = writeln!(text, "- {row}: `{}`", tests.join("`, `"));
        }
        let _ = writeln!(text, "\n{}.", self.summary());
        text
    }

    fn summary(&self) -> String {
        let Self { scale, acquisitions, seconds, missed, lines } = self;
        let parts = lines.len();
        format!(
            "{scale} run: {parts} parts, {acquisitions} acquisitions, {seconds:.0} s, {missed} missed"
        )
    }

    pub(crate) fn save(&self, dir: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(dir)?;
        fs::write(dir.join("faults.json"), serde_json::to_string_pretty(self)?)?;
        fs::write(dir.join("faults.md"), self.markdown())?;
        fs::write(dir.join("faults.txt"), self.text())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(missed: &[&str]) -> ReportLine {
        let missed = missed.iter().map(|&what| what.to_owned()).collect();
        ReportLine { row: 7, fault: "a|b".into(), missed, ..ReportLine::default() }
    }

    #[test]
    fn one_miss_is_counted_and_shown() {
        let lines = vec![line(&[]), line(&["2 overlaps", "1 token fault"])];

        let report = Report::new(Scale::Short, Duration::from_secs(3), lines);

        assert_eq!(report.missed, 1);
        assert!(report.text().contains("MISSED: 2 overlaps; 1 token fault"), "{}", report.text());
        assert!(
            report
                .text()
                .ends_with("3 s, 1 missed\nrow 7, a|b, : MISSED: 2 overlaps; 1 token fault\n")
        );
    }

    #[test]
    fn a_bar_in_a_cell_does_not_break_the_markdown_table() {
        let report = Report::new(Scale::Full, Duration::ZERO, vec![line(&[])]);

        assert!(report.markdown().contains(r"| 7 | a\|b |"), "{}", report.markdown());
    }
}
