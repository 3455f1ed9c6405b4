//! Sequence diagrams.

use crate::trace::Trace;

/// One
pub fn sequence(trace: &Trace) -> String {
    trace.title.clone()
}
