//! Everything the library tells `tracing`, kept as text.

use std::{
    fmt::{Debug, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// A subscriber that writes all levels, spans and fields into one text.
#[derive(Clone, Default)]
pub(crate) struct Log {
    text: Arc<Mutex<String>>,
    spans: Arc<AtomicU64>,
}

impl Log {
    /// Listens to all threads of this process from here on.
    pub(crate) fn everything() -> Self {
        let log = Log::default();
        tracing::subscriber::set_global_default(log.clone()).expect("one log per process");
        log
    }

    /// Listens to this thread until the guard is dropped.
    pub(crate) fn of_this_thread() -> (Self, DefaultGuard) {
        let log = Log::default();
        let here = tracing::subscriber::set_default(log.clone());
        (log, here)
    }

    pub(crate) fn text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.text().lines().filter(|line| line.starts_with("WARN")).map(Into::into).collect()
    }

    fn line(&self, write: impl FnOnce(&mut Fields<'_>)) {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut Fields(&mut text));
        text.push('\n');
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.line(|line| span.record(line));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        self.line(|line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        self.line(|line| {
            let _ = write!(line.0, "{} ", event.metadata().level());
            event.record(line);
        });
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
