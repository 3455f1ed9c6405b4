//! Tables of figures, and the bounds they are held to.

use crate::spread::Spread;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::fmt;

/// The figures of one measurement.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    rows: Vec<Row>,
    pub(crate) bounds: Vec<Bound>,
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
    Ratio(Spread),
    Text(String),
}

/// What must be reached, and what was.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Bound {
    table: String,
    what: String,
    measured: String,
    limit: String,
    pub(crate) met: bool,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new(), bounds: Vec::new() }
    }

    pub(crate) fn row(&mut self, name: impl Into<String>, cells: Vec<(&'static str, Cell)>) {
        self.rows.push(Row { name: name.into(), cells });
    }

    /// A figure that was measured must be at most this.
    pub(crate) fn at_most(&mut self, what: &str, measured: impl Into<Cell>, bound: f64) {
        let cell = measured.into();
        let met = cell.median().is_some_and(|median| median <= bound);
        self.bound(what, &cell, format!("at most {bound}"), met);
    }

    /// A figure that was measured must be at least this.
    pub(crate) fn at_least(&mut self, what: &str, measured: impl Into<Cell>, bound: f64) {
        let cell = measured.into();
        let met = cell.median().is_some_and(|median| median >= bound);
        self.bound(what, &cell, format!("at least {bound}"), met);
    }

    /// Something that must not happen, and how often it did.
    pub(crate) fn never(&mut self, what: &str, times: u64) {
        self.bound(what, times, "never".to_owned(), times == 0);
    }

    pub(crate) fn bound(
        &mut self,
        what: &str,
        measured: impl fmt::Display,
        limit: String,
        met: bool,
    ) {
        let (table, measured) = (self.title.clone(), measured.to_string());
        self.bounds.push(Bound { table, what: what.to_owned(), measured, limit, met });
    }

    pub(crate) fn to_json(&self) -> Value {
        let row = |row: &Row| {
            let mut fields = Map::from_iter([("name".to_owned(), json!(row.name))]);
            fields
                .extend(row.cells.iter().map(|(name, cell)| ((*name).to_owned(), cell.to_json())));
            Value::Object(fields)
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        json!({ "title": self.title, "rows": rows, "bounds": self.bounds })
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

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Bound { table, what, measured, limit, met } = self;
        let word = if *met { "met   " } else { "MISSED" };
        write!(f, "{word}  {table}; {what}: {measured}, {limit}")
    }
}

impl Cell {
    fn median(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Ratio(spread) => Some(spread.median),
            Self::Nothing | Self::Count(_) | Self::Text(_) => None,
        }
    }

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

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Spread> for Cell {
    fn from(ratio: Spread) -> Self {
        Self::Ratio(ratio)
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(figure: Option<T>) -> Self {
        figure.map_or(Self::Nothing, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_misses_its_bound() {
        let mut table = Table::new("hand-over");

        table.at_most("p50", None::<f64>, 1.5);
        table.at_least("rate", None::<Spread>, 1.5);
        table.at_most("p50", Spread::of([1.5]), 1.5);
        table.at_least("rate", 1.4, 1.5);
        table.never("two holders", 0);

        let met: Vec<bool> = table.bounds.iter().map(|bound| bound.met).collect();
        assert_eq!(met, [false, false, true, false, true]);
    }

    #[test]
    fn a_bound_is_shown_with_what_was_measured() {
        let mut table = Table::new("hand-over");

        table.at_most("p50 over the floor's", Spread::of([1.75]), 1.5);

        let text = table.bounds[0].to_string();
        assert_eq!(text, "MISSED  hand-over; p50 over the floor's: 1.75 (1.75–1.75), at most 1.5");
    }
}
