//! Tables of figures, and the bounds that were missed.

use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt;

/// The figures of one measurement.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    rows: Vec<Row>,
    pub(crate) missed: Vec<String>,
}

#[derive(Debug)]
struct Row {
    name: String,
    cells: Vec<(&'static str, Cell)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Nothing,
    Count(u64),
    Number(f64),
    Ratio(Quartiles),
    Text(String),
}

/// Many noisy figures as three.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Quartiles {
    pub(crate) q1: f64,
    pub(crate) median: f64,
    pub(crate) q3: f64,
}

impl Quartiles {
    /// `None` if there are no figures.
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let (q1, median, q3) = (last / 4, last.div_ceil(2), (3 * last).div_ceil(4));
        Some(Self { q1: sorted[q1], median: sorted[median], q3: sorted[q3] })
    }

    /// One figure over another, round by round.
    pub(crate) fn of_ratios(
        figures: impl IntoIterator<Item = Option<f64>>,
        base: impl IntoIterator<Item = Option<f64>>,
    ) -> Option<Self> {
        let pairs = figures.into_iter().zip(base);
        Self::of(pairs.filter_map(|(figure, base)| Some(figure? / base?)))
    }
}

impl fmt::Display for Quartiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2}–{:.2})", self.median, self.q1, self.q3)
    }
}

impl Table {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new(), missed: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, cells: Vec<(&'static str, Cell)>) {
        self.rows.push(Row { name: name.into(), cells });
    }

    /// Says what was missed, unless it was met.
    pub(crate) fn require(&mut self, met: bool, what: impl fmt::Display) {
        if !met {
            self.missed.push(format!("{}: {what}", self.title));
        }
    }

    /// The ratio must be there and its median at most this.
    pub(crate) fn at_most(&mut self, what: &str, ratio: Option<Quartiles>, bound: f64) {
        let met = ratio.is_some_and(|ratio| ratio.median <= bound);
        self.require(met, format_args!("{what} is {}, allowed are {bound}", Cell::from(ratio)));
    }

    /// The ratio must be there and its median at least this.
    pub(crate) fn at_least(&mut self, what: &str, ratio: Option<Quartiles>, bound: f64) {
        let met = ratio.is_some_and(|ratio| ratio.median >= bound);
        self.require(met, format_args!("{what} is {}, needed are {bound}", Cell::from(ratio)));
    }

    pub(crate) fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let mut fields = Map::from_iter([("name".to_owned(), json!(row.name))]);
            fields
                .extend(row.cells.iter().map(|(name, cell)| ((*name).to_owned(), cell.to_json())));
            Value::Object(fields)
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "title": self.title, "rows": rows, "missed": self.missed })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let Some(first) = self.rows.first() else {
            return writeln!(f, "  nothing");
        };
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row.cells[column].1.to_string());
            let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            widest.max(first.cells[column].0.chars().count())
        };
        let widths: Vec<usize> = (0..first.cells.len()).map(width).collect();
        let name = self.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        write!(f, "  {:name$}", "")?;
        for ((head, _), width) in first.cells.iter().zip(&widths) {
            write!(f, "  {head:>width$}")?;
        }
        writeln!(f)?;
        for row in &self.rows {
            write!(f, "  {:name$}", row.name)?;
            for ((_, cell), width) in row.cells.iter().zip(&widths) {
                write!(f, "  {:>width$}", cell.to_string())?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Cell {
    fn to_json(&self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Count(count) => json!(count),
            Self::Number(number) => json!(number),
            Self::Ratio(ratio) => json!(ratio),
            Self::Text(text) => json!(text),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("–"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Number(number) if number.is_infinite() => f.write_str("∞"),
            Self::Number(number) if *number >= 100.0 => write!(f, "{number:.0}"),
            Self::Number(number) => write!(f, "{number:.2}"),
            Self::Ratio(ratio) => write!(f, "{ratio}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Nothing, Self::Number)
    }
}

impl From<Option<Quartiles>> for Cell {
    fn from(ratio: Option<Quartiles>) -> Self {
        ratio.map_or(Self::Nothing, Self::Ratio)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_figures_that_were_measured() {
        let of = |figures: &[f64]| Quartiles::of(figures.iter().copied());

        assert_eq!(
            of(&[5.0, 1.0, 2.0, 4.0, 3.0]),
            Some(Quartiles { q1: 2.0, median: 3.0, q3: 4.0 })
        );
        assert_eq!(of(&[1.0, 9.0, 2.0]), Some(Quartiles { q1: 1.0, median: 2.0, q3: 9.0 }));
        assert_eq!(of(&[7.0]), Some(Quartiles { q1: 7.0, median: 7.0, q3: 7.0 }));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_was_not_measured_misses_its_bound() {
        let mut table = Table::new("hand-over");

        table.at_most("p50", None, 1.5);
        table.at_least("rate", None, 1.5);
        table.at_most("p50", Quartiles::of([1.5]), 1.5);

        assert_eq!(table.missed.len(), 2);
    }
}
