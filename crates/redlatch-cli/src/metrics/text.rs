//! Samples as text, and text as samples.

use std::{collections::BTreeMap, fmt::Write as _};

/// A metric's name, its type and what it means.
pub(crate) type Described = (&'static str, &'static str, &'static str);

/// How a line that only we read starts: to others it is a comment.
const OURS: &str = "# redlatch: ";

/// Samples, by metric and labels.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Metrics(BTreeMap<String, BTreeMap<String, f64>>);

impl Metrics {
    /// The sample with these labels, zero if it is new.
    pub(crate) fn sample(&mut self, metric: &str, labels: &[(&str, &str)]) -> &mut f64 {
        self.labelled(metric, labelled(labels))
    }

    /// The same, by its labels as text.
    pub(crate) fn labelled(&mut self, metric: &str, labels: String) -> &mut f64 {
        self.0.entry(metric.into()).or_default().entry(labels).or_default()
    }

    pub(crate) fn set(&mut self, metric: &str, labels: &[(&str, &str)], value: f64) {
        *self.sample(metric, labels) = value;
    }

    /// All samples of a metric, with their labels as text.
    pub(crate) fn series(&self, metric: &str) -> impl Iterator<Item = (&str, f64)> {
        self.0.get(metric).into_iter().flatten().map(|(labels, value)| (&**labels, *value))
    }

    /// Removes every sample whose labels contain this text.
    pub(crate) fn forget(&mut self, labels: &str) {
        for series in self.0.values_mut() {
            series.retain(|known, _| !known.contains(labels));
        }
    }

    /// Keeps only some samples of a metric. Returns the labels of the others.
    pub(crate) fn retain(&mut self, metric: &str, keep: impl Fn(&str, f64) -> bool) -> Vec<String> {
        let removed = self.series(metric).filter(|(labels, value)| !keep(labels, *value));
        let removed: Vec<String> = removed.map(|(labels, _)| labels.to_owned()).collect();
        if let Some(series) = self.0.get_mut(metric) {
            series.retain(|labels, _| !removed.contains(labels));
        }
        removed
    }

    /// Reads what [`text`](Self::text) wrote; leaves out what it cannot read.
    pub(crate) fn parse(text: &str) -> Self {
        let mut metrics = Metrics::default();
        let lines = text.lines().map(|line| line.strip_prefix(OURS).unwrap_or(line));
        for line in lines.filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Some((metric, labels)) = series.split_once('{') else { continue };
            let (Some(labels), Ok(value)) = (labels.strip_suffix('}'), value.parse()) else {
                continue;
            };
            metrics.0.entry(metric.into()).or_default().insert(labels.into(), value);
        }
        metrics
    }

    /// The samples of these metrics, in Prometheus' text format. A summary has two of
    /// them, `…_sum` and `…_count`.
    pub(crate) fn text(&self, described: &[Described]) -> String {
        let mut text = String::new();
        for (metric, kind, help) in described {
            let _ = write!(text, "# HELP {metric} {help}\n# TYPE {metric} {kind}\n");
            let parts = if *kind == "summary" { &["_sum", "_count"][..] } else { &[""] };
            for part in parts {
                for (labels, value) in self.series(&format!("{metric}{part}")) {
                    let labels =
                        if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
                    let _ = writeln!(text, "{metric}{part}{labels} {value}");
                }
            }
        }
        text
    }

    /// The samples of a metric that only we read.
    pub(crate) fn notes(&self, metric: &str) -> String {
        let line = |(labels, value)| format!("{OURS}{metric}{{{labels}}} {value}\n");
        self.series(metric).map(line).collect()
    }
}

/// `a="b",c="d"`, with what Prometheus wants escaped.
pub(crate) fn labelled(labels: &[(&str, &str)]) -> String {
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let labels: Vec<_> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    labels.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let described = [("a_total", "counter", "As."), ("b", "summary", "Bs.")];
        let mut metrics = Metrics::default();
        metrics.set("a_total", &[("name", "x\"y\\z\n {}"), ("user", "ada")], 3.0);
        metrics.set("b_sum", &[("name", "x")], 1.5);
        metrics.set("b_count", &[("name", "x")], 2.0);

        let text = metrics.text(&described);

        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..2], ["# HELP a_total As.", "# TYPE a_total counter"]);
        assert_eq!(lines[2], r#"a_total{name="x\"y\\z\n {}",user="ada"} 3"#);
        assert_eq!(lines[5..], [r#"b_sum{name="x"} 1.5"#, r#"b_count{name="x"} 2"#]);
        assert_eq!(Metrics::parse(&text), metrics);
        metrics.set("ours", &[("name", "x")], 4.0);
        let notes = metrics.notes("ours");
        assert_eq!(notes, "# redlatch: ours{name=\"x\"} 4\n");
        assert_eq!(Metrics::parse(&(text + &notes)), metrics);
        assert_eq!(Metrics::parse("nonsense\n{} \na{ 1\n"), Metrics::default());
    }
}
