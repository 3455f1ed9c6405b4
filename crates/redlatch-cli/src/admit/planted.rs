//! Whether a node that votes again has back the locks that are held.
//!
//! A node that forgot its locks gets them back when their holders extend them. If a
//! rolling restart continues before that, a lease may lose its majority. After
//! `max_ttl`, every lease that is still held has been extended.

use super::Watcher;
use crate::look::{ANY_USER, why_unlisted};
use redlatch::{
    LockState,
    observer::{Listed, Listing},
};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// The pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Something that a node lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missing {
    node: Arc<str>,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A lock that another node has.
    Lock(String),
    /// The list of its locks, for this reason.
    Listing(String),
    /// Unknown: it has keys that this user may not read.
    Unread,
}

impl Watcher<'_> {
    /// Waits until these nodes lack nothing, or until every lease that is still held
    /// must have been extended. Returns what is still missing when the time is up.
    pub(super) async fn wait_for_leases(
        &self,
        named: &[Arc<str>],
        max_ttl: Duration,
    ) -> Vec<Missing> {
        let extended = Instant::now() + max_ttl;
        let mut before: Option<BTreeSet<Missing>> = None;
        loop {
            let seen = missing(&self.observer.list("*").await, named);
            // The nodes are not read at the same instant, so a new lock may seem
            // to be missing once.
            let still: Vec<Missing> = match &before {
                Some(before) => seen.intersection(before).cloned().collect(),
                None => seen.iter().cloned().collect(),
            };
            let now = Instant::now();
            let is_over = self.until.is_some_and(|until| now >= until);
            if still.is_empty() || now >= extended || is_over {
                self.say.end_progress();
                return if is_over { still } else { Vec::new() };
            }
            self.say.progress(&waiting_line(&still));
            before = Some(seen);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn missing(listing: &Listing, named: &[Arc<str>]) -> BTreeSet<Missing> {
    // We do not know which of these keys are locks, nor which of the named nodes lack
    // them.
    let unread = listing.unread.iter();
    let unread = unread.map(|(node, _)| Missing { node: node.clone(), what: What::Unread });
    let mut missing: BTreeSet<Missing> = unread.collect();
    for node in named {
        let silent = listing.failed.iter().filter(|(failed, _)| failed == node);
        let silent = silent.map(|(_, fault)| What::Listing(why_unlisted(fault, ANY_USER)));
        let is_held = |lock: &&Listed| !matches!(lock.state, LockState::Reserved { .. });
        let locks = listing.locks.iter().filter(is_held).filter(|lock| !lock.on.contains(node));
        let locks = locks.map(|lock| What::Lock(lock.name.to_string()));
        missing.extend(locks.chain(silent).map(|what| Missing { node: node.clone(), what }));
    }
    missing
}

fn waiting_line(missing: &[Missing]) -> String {
    format!("waiting for {} to be extended: {}", count(missing), in_words(missing))
}

fn count(missing: &[Missing]) -> String {
    match missing.len() {
        1 => "1 lock".into(),
        many => format!("{many} locks"),
    }
}

/// What is missing: the first by name, and how many more.
pub(super) fn in_words(missing: &[Missing]) -> String {
    let Some(first) = missing.first() else { return String::new() };
    let node = &first.node;
    let what = match &first.what {
        What::Lock(lock) => format!("{lock} is not on {node} yet"),
        What::Unread => {
            format!("{node} has keys that this user may not read and that may be locks")
        }
        What::Listing(why) => format!("{node} does not list its locks: {why}"),
    };
    match missing.len() - 1 {
        0 => what,
        more => format!("{what}, and {more} more"),
    }
}
