//! Keys that may be locks of other libraries, in words. Such locks exclude ours, so
//! they matter before someone vouches for a node that may have forgotten one.
//!
//! On a server that is also a cache, there are very many of them, so a message gives
//! their number and names a few: those that expire soonest, as locks do.

use super::doubts::NAMED;
use crate::{
    duration::show,
    look::{ANY_USER, unread, why_unlisted},
};
use redlatch::{
    LockState,
    observer::{Listing, Observer, OtherKey, Others, Unseen},
};
use std::{sync::Arc, time::Duration};

/// A key, the nodes that have it, and how long until it expires.
type Key<'a> = (String, &'a [Arc<str>], Duration);

/// The keys that may be locks of another library, in one line, if there are any or if
/// nodes have too many keys to tell.
pub(super) fn in_words(observer: &Observer, others: &Others) -> Option<String> {
    let keys: Vec<Key<'_>> = others.keys.iter().map(key).collect();
    let found = match keys.len() {
        0 => None,
        1 => Some("1 key may be a lock of another library".into()),
        many => Some(format!("{many} keys may be locks of other libraries")),
    };
    let found = found.map(|found| format!("{found}: {}", named(observer, keys)));
    let unseen = others.unseen.iter().map(|(node, why)| {
        let node = observer.label(node);
        match why {
            Unseen::Failed(fault) => {
                format!("{node} cannot be read: {}", why_unlisted(fault, ANY_USER))
            }
            Unseen::Denied(keys) => format!("{node} has {}", unread(*keys)),
            why => format!("{node}: {why}, and more may be locks of other libraries"),
        }
    });
    let words: Vec<String> = found.into_iter().chain(unseen).collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The keys that live longer than the restart guard waits for, in one line, if there
/// are any.
pub(super) fn outliving(
    observer: &Observer,
    listing: &Listing,
    others: &Others,
    max_ttl: Duration,
) -> Option<String> {
    let ours = listing.locks.iter().filter_map(|lock| match &lock.state {
        LockState::Held { remaining: Some(left), .. } => {
            Some((lock.name.to_string(), &*lock.on, *left))
        }
        _ => None,
    });
    let all = ours.chain(others.keys.iter().map(key));
    let keys: Vec<Key<'_>> = all.filter(|(_, _, left)| *left > max_ttl).collect();
    let (found, lock) = match keys.len() {
        0 => return None,
        1 => ("1 key lives".into(), "it is a lock"),
        many => (format!("{many} keys live"), "one of them is a lock"),
    };
    let named = named(observer, keys);
    let max_ttl = show(max_ttl);
    Some(format!(
        "{found} longer than max_ttl, {max_ttl}: {named}; if {lock} of another library, nodes that \
         forgot it may vote before it ends, and it can get a second holder"
    ))
}

fn key(key: &OtherKey) -> Key<'_> {
    (key.name.to_string(), &key.on, key.remaining)
}

/// The first few of them.
fn named(observer: &Observer, mut keys: Vec<Key<'_>>) -> String {
    keys.sort_by_key(|(_, _, left)| *left);
    let more = keys.len() > NAMED;
    let few = keys.into_iter().take(NAMED).map(|(name, on, left)| {
        let on: Vec<_> = on.iter().map(|node| observer.label(node)).collect();
        format!("{name} (on {}, {} left)", on.join(", "), show(left))
    });
    few.chain(more.then(|| "…".into())).collect::<Vec<_>>().join(", ")
}
