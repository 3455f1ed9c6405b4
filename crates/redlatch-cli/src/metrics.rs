//! Metrics in Prometheus' text format.

mod running;
mod text;
mod textfile;

pub(crate) use text::Metrics;
pub(crate) use textfile::TextFile;
