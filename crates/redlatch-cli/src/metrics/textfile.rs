//! Metrics of finished runs, in a file for `node_exporter`'s textfile collector.
//!
//! In:  the record of a run that has begun or is over. Out: the file, with all counters as
//! of this run.
//!
//! Promise: a reader sees the file before or after a run, never in between. Writers take
//! turns, but none waits for long. A run that begins is noted. If nobody is left to count
//! it, because all of its processes were killed or the machine went down, the next writer
//! does.

use super::{
    running::{self, is_running},
    text::{Described, Metrics, labelled},
};
use crate::{
    trace::{End, Ending, Life, Record, life},
    writable,
};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write},
    os::{
        fd::AsFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant, UNIX_EPOCH},
};

/// How long to wait for other writers.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many locks the file covers; the one that was tried least recently is dropped
/// first.
const LOCKS: usize = 500;

const ATTEMPTS: &str = "redlatch_attempts_total";
const WAIT: &str = "redlatch_wait_seconds";
const HOLD: &str = "redlatch_hold_seconds";
const LAST_ATTEMPT: &str = "redlatch_last_attempt_timestamp_seconds";
const LAST_SUCCESS: &str = "redlatch_last_success_timestamp_seconds";
const SKIPPED_SINCE: &str = "redlatch_skipped_since_timestamp_seconds";

/// Runs that have begun, with what they count as if nothing more becomes known: only we read
/// these.
const UNFINISHED: &str = "unfinished";

const DESCRIBED: [Described; 6] = [
    (ATTEMPTS, "counter", "Attempts to run a command under a lock, by outcome."),
    (WAIT, "summary", "How long attempts waited for the lock."),
    (HOLD, "summary", "How long the lock was held."),
    (LAST_ATTEMPT, "gauge", "When the last attempt began."),
    (LAST_SUCCESS, "gauge", "Start time of the last run whose command ended with status 0."),
    (
        SKIPPED_SINCE,
        "gauge",
        "When the current series of skipped attempts began; 0 if the last attempt ran its command, or it is running.",
    ),
];

/// Whether this process has counted its only run: the beginning may be written after
/// the end.
static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// The file of one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFile {
    dir: PathBuf,
}

impl TextFile {
    pub(crate) fn in_dir(dir: &Path) -> Self {
        TextFile { dir: dir.into() }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Checks whether it could be written, without writing it.
    pub(crate) fn check(&self) -> io::Result<()> {
        if !fs::metadata(&self.dir)?.is_dir() {
            return Err(io::Error::other("it is not a directory"));
        }
        writable::check(&self.dir)
    }

    /// Records that a command runs, or has run and its lock is kept: an attempt that is
    /// refused meanwhile does not miss a run.
    pub(crate) fn begin(&self, record: &Record) -> io::Result<()> {
        let ours: Vec<String> = record.names.iter().map(|name| label(name)).collect();
        running::begin(self.lock_file(record)?, &ours)?;
        self.update(record, |metrics, lock| {
            if IS_COUNTED.load(Ordering::Relaxed) {
                return;
            }
            finish(metrics, record);
            let runs = |name: &str| !ours.iter().any(|own| own == name) && is_running(lock, name);
            bury(metrics, record, runs);
            for name in &record.names {
                let of = [("name", &**name), ("user", &*record.user)];
                metrics.set(LAST_ATTEMPT, &of, began(record));
                metrics.set(SKIPPED_SINCE, &of, 0.0);
                note(metrics, name, record);
            }
        })
    }

    /// Adds a finished run.
    pub(crate) fn add(&self, record: &Record) -> io::Result<()> {
        self.update(record, |metrics, lock| {
            IS_COUNTED.store(true, Ordering::Relaxed);
            finish(metrics, record);
            bury(metrics, record, |name| is_running(lock, name));
            for name in &record.names {
                let runs = record.ending().is_run() || is_running(lock, &label(name));
                count(metrics, name, record, runs);
            }
        })
    }

    /// Replaces the file. `change` also gets the locked file.
    fn update(&self, record: &Record, change: impl Fn(&mut Metrics, &File)) -> io::Result<()> {
        let name = name_for(record);
        let path = self.dir.join(format!("{name}.prom"));
        let lock = self.lock_file(record)?;
        wait_for(&lock)?;
        let mut metrics = Metrics::parse(&fs::read_to_string(&path).unwrap_or_default());
        change(&mut metrics, &lock);
        forget_oldest(&mut metrics);
        let new = self.dir.join(format!(".{name}.new"));
        let mut file = open(&new)?;
        file.set_len(0)?;
        // `node_exporter` runs as another user, and must be able to read it, whatever the
        // umask.
        file.set_permissions(Permissions::from_mode(0o644))?;
        let text = metrics.text(&DESCRIBED) + &metrics.notes(UNFINISHED);
        let written = file.write_all(text.as_bytes()).and_then(|()| fs::rename(&new, &path));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// The lock is beside the file, which is replaced.
    fn lock_file(&self, record: &Record) -> io::Result<File> {
        open(&self.dir.join(format!(".{}.lock", name_for(record))))
    }
}

fn name_for(record: &Record) -> String {
    format!("redlatch-{}", record.user.replace(['/', '.'], "_"))
}

fn began(record: &Record) -> f64 {
    record.time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(path)
}

fn wait_for(lock: &File) -> io::Result<()> {
    let since = Instant::now();
    while flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
        if since.elapsed() > PATIENCE {
            return Err(io::Error::other("others are writing it"));
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// `runs`: whether the command ran, or runs now.
fn count(metrics: &mut Metrics, name: &str, record: &Record, runs: bool) {
    let of = [("name", name), ("user", &*record.user)];
    let ending = record.ending();
    *metrics.sample(ATTEMPTS, &[of[0], ("outcome", ending.name()), of[1]]) += 1.0;
    *metrics.sample(&format!("{WAIT}_sum"), &of) += seconds(record.waited_ms);
    *metrics.sample(&format!("{WAIT}_count"), &of) += 1.0;
    if let Some(held) = record.held_ms {
        *metrics.sample(&format!("{HOLD}_sum"), &of) += seconds(held);
        *metrics.sample(&format!("{HOLD}_count"), &of) += 1.0;
    }
    let began = began(record);
    metrics.set(LAST_ATTEMPT, &of, began);
    if ending == Ending::Succeeded {
        metrics.set(LAST_SUCCESS, &of, began);
    }
    let skipped = metrics.sample(SKIPPED_SINCE, &of);
    if runs {
        *skipped = 0.0;
    } else if *skipped == 0.0 {
        *skipped = began;
    }
}

fn label(name: &str) -> String {
    labelled(&[("name", name)])
}

/// Notes that this run has begun: what it counts as, and whose process will count it.
fn note(metrics: &mut Metrics, name: &str, record: &Record) {
    let Some(identity) = &record.process else { return };
    let ending = if record.ended.is_some() { record.ending() } else { Ending::Ended(End::Killed) };
    let process = format!("{} {identity}", record.pid);
    // In the order of the labels that it is counted with.
    let labels = [
        ("name", name),
        ("outcome", ending.name()),
        ("user", &*record.user),
        ("process", &*process),
    ];
    metrics.set(UNFINISHED, &labels, began(record));
}

/// Removes what was noted about this run: it is counted now, or noted again.
fn finish(metrics: &mut Metrics, record: &Record) {
    let (process, began) = (format!(",process=\"{} ", record.pid), began(record));
    let is_ours = |labels: &str, at: f64| labels.contains(&process) && at.total_cmp(&began).is_eq();
    metrics.retain(UNFINISHED, |labels, at| !is_ours(labels, at));
}

/// Counts the runs that no process is left to count: neither the front nor the holder.
/// `runs` says, by the label of a name, whether there is a holder.
fn bury(metrics: &mut Metrics, record: &Record, runs: impl Fn(&str) -> bool) {
    let parts = |labels: &str| -> Option<(String, String, u32, String)> {
        let (counted, process) = labels.rsplit_once(",process=\"")?;
        let (name, _) = counted.rsplit_once(",outcome=")?;
        let (pid, identity) = process.strip_suffix('"')?.split_once(' ')?;
        Some((counted.into(), name.into(), pid.parse().ok()?, identity.into()))
    };
    let is_left = |labels: &str, _| {
        parts(labels).is_some_and(|(_, name, pid, identity)| {
            runs(&name) || life(pid, &identity, &record.host) == Life::Runs
        })
    };
    for labels in metrics.retain(UNFINISHED, is_left) {
        if let Some((counted, ..)) = parts(&labels) {
            *metrics.labelled(ATTEMPTS, counted) += 1.0;
        }
    }
}

fn forget_oldest(metrics: &mut Metrics) {
    let mut tried: Vec<(String, f64)> = metrics
        .series(LAST_ATTEMPT)
        .map(|(labels, at)| (labels.split(",user=").next().unwrap_or(labels).into(), at))
        .collect();
    tried.sort_by(|a, b| a.1.total_cmp(&b.1));
    let over = tried.len().saturating_sub(LOCKS);
    for (name, _) in &tried[..over] {
        metrics.forget(name);
    }
}

fn seconds(ms: u64) -> f64 {
    Duration::from_millis(ms).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_that_was_tried_least_recently_is_forgotten_first() {
        let mut metrics = Metrics::default();
        let mut now = 0.0;
        for at in 0..=LOCKS {
            let name = format!("job{at}");
            let of = [("name", &*name), ("user", "ada")];
            metrics.set(LAST_ATTEMPT, &of, now);
            now += 1.0;
            metrics.set(SKIPPED_SINCE, &of, 0.0);
        }

        forget_oldest(&mut metrics);

        assert_eq!(metrics.series(LAST_ATTEMPT).count(), LOCKS);
        let gone = labelled(&[("name", "job0"), ("user", "ada")]);
        assert!(metrics.series(SKIPPED_SINCE).all(|(labels, _)| labels != gone));
    }
}
