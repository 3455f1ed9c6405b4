//! Whether live leases are back on a node that votes again.
//!
//! A node that forgot its locks gets them back when their holders extend them. A
//! rolling restart that goes on before that takes the majority from under a
//! lease. After `max_ttl` every lease that still lives was extended.

use super::Watcher;
use crate::look::why_unlisted;
use redlatch::observer::Listing;
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

/// How long from one look to the next.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// What a node has not got.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Missing {
    node: Arc<str>,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A lock that is to be seen elsewhere.
    Lock(String),
    /// A word about its locks, for this reason.
    Listing(String),
}

impl Watcher<'_> {
    /// Waits until nothing is missing on these nodes, or everything that lives
    /// must be there. What is still missing when our time is over.
    pub(super) async fn wait_for_leases(
        &self,
        named: &[Arc<str>],
        max_ttl: Duration,
    ) -> Vec<Missing> {
        let extended = Instant::now() + max_ttl;
        let mut before: Option<BTreeSet<Missing>> = None;
        loop {
            let seen = missing(&self.observer.list("*").await, named);
            // Nodes are not looked at in the same instant: a lock that is new
            // may be missed once.
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
    let mut missing = BTreeSet::new();
    for node in named {
        let silent = listing.failed.iter().filter(|(failed, _)| failed == node);
        let silent = silent.map(|(_, fault)| What::Listing(why_unlisted(fault)));
        let locks = listing.locks.iter().filter(|lock| !lock.on.contains(node));
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

/// What is missing, the first of it by name.
pub(super) fn in_words(missing: &[Missing]) -> String {
    let Some(first) = missing.first() else { return String::new() };
    let node = &first.node;
    let what = match &first.what {
        What::Lock(lock) => format!("{lock} is not on {node} yet"),
        What::Listing(why) => format!("{node} does not tell its locks: {why}"),
    };
    match missing.len() - 1 {
        0 => what,
        more => format!("{what}, and {more} more"),
    }
}
