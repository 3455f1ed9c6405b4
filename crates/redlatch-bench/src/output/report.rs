//! The figures of a run, to look up by table, row and column.

use anyhow::Context as _;
use serde_json::Value;
use std::fmt;

pub(super) struct Report(Value);

impl Report {
    pub(super) fn new(report: Value) -> Self {
        Self(report)
    }

    #[cfg(test)]
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        Ok(Self(serde_json::from_str(text)?))
    }

    pub(super) fn setup(&self, field: &str) -> anyhow::Result<String> {
        match self.0["setup"].get(field) {
            Some(Value::String(text)) => Ok(text.clone()),
            other => Ok(other.with_context(|| format!("no `{field}` in the setup"))?.to_string()),
        }
    }

    /// A figure or the median of several; `None` if it was not measured.
    pub(super) fn figure(&self, table: &str, row: &str, column: &str) -> Option<f64> {
        let cell = self.cell(table, row, column)?;
        cell.as_f64().or_else(|| cell["median"].as_f64())
    }

    /// A ratio with its spread, or a figure; a dash if it was not measured.
    pub(super) fn text(&self, table: &str, row: &str, column: &str) -> String {
        let number = |number: f64| match number {
            number if number >= 100.0 => format!("{number:.0}"),
            number if number >= 10.0 => format!("{number:.1}"),
            number => format!("{number:.2}"),
        };
        let cell = self.cell(table, row, column).unwrap_or(&Value::Null);
        let part = |name: &str| cell[name].as_f64().map(number);
        match (part("median"), part("p10"), part("p90")) {
            (Some(median), Some(p10), Some(p90)) => format!("{median} ({p10}–{p90})"),
            _ => cell.as_f64().map_or("–".to_owned(), number),
        }
    }

    fn cell(&self, table: &str, row: &str, column: &str) -> Option<&Value> {
        let table = self.0["tables"].as_array()?.iter().find(|one| one["title"] == table)?;
        let row = table["rows"].as_array()?.iter().find(|one| one["name"] == row)?;
        row.get(column).filter(|cell| !cell.is_null())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_with_their_spread() -> anyhow::Result<()> {
        let report = Report::parse(
            r#"{ "tables": [{ "title": "t", "rows": [{ "name": "floor", "n": 12.345,
               "x": { "p10": 0.5, "median": 1, "p90": 123.4 }, "none": null }] }] }"#,
        )?;

        assert_eq!(report.text("t", "floor", "x"), "1.00 (0.50–123)");
        assert_eq!(report.text("t", "floor", "n"), "12.3");
        assert_eq!(report.text("t", "floor", "none"), "–");
        assert_eq!(report.text("t", "nobody", "x"), "–");
        assert_eq!(report.figure("t", "floor", "x"), Some(1.0));
        assert_eq!(report.figure("u", "floor", "x"), None);
        Ok(())
    }
}
