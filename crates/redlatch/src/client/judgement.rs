//! Decides what all nodes' answers about one lock add up to, for its status and for lists.

use super::{
    grant_id::GrantId,
    status::{Doubt, LockState},
};
use redlatch_core::{FencingToken, Holder, KeyState, OwnerParts, Waiting};
use std::time::Duration;

/// One node's answer about a lock.
pub(crate) struct Told<'a> {
    pub(crate) key: &'a KeyState,
    /// A node that may not vote may have forgotten the lock, so its missing key proves nothing.
    pub(crate) may_vote: bool,
}

/// What the answers of all nodes add up to.
pub(crate) struct Judgement {
    pub(crate) state: LockState,
    pub(crate) owner: Option<OwnerParts>,
    pub(crate) grants: Vec<GrantId>,
}

/// Judges the answers. The lock is free if a majority may vote and has no key; held if a
/// majority has the same value, or if other data blocks it for everybody; reserved if each
/// node of a majority has no value or has reserved it for somebody.
///
/// `nodes` is how many nodes there are; those that said nothing count as silent.
pub(crate) fn judge(told: &[Told<'_>], nodes: usize) -> Judgement {
    let majority = nodes / 2 + 1;
    let has_none = |told: &&Told<'_>| told.may_vote && *told.key == KeyState::Free;
    let free = told.iter().filter(has_none).count();
    let keys: Vec<&KeyState> = told.iter().map(|told| told.key).collect();
    let of = |state, owner| Judgement { state, owner, grants: grants_in(&keys) };
    if free >= majority {
        return of(LockState::Free, None);
    }
    if let Some(held) = held(&keys, majority) {
        return held;
    }
    // Whatever the values are, nobody can take the lock.
    if nodes - keys.iter().filter(|key| is_data(key)).count() < majority {
        return of(LockState::Held { owner: None, remaining: None, fencing_token: None }, None);
    }
    let reserved: Vec<_> = keys.iter().filter_map(|key| reservation(key)).collect();
    let is_kept = |told: &&Told<'_>| told.may_vote && reservation(told.key).is_some();
    let not_held = free + told.iter().filter(is_kept).count();
    if reserved.is_empty() || not_held < majority {
        let (silent, quarantined) =
            (nodes - told.len(), told.iter().filter(|told| !told.may_vote).count());
        return of(LockState::Unclear(Doubt { nodes, silent, unusable: 0, quarantined }), None);
    }
    // Nodes may have reserved it for different waiters: the earliest goes first.
    let earliest = reserved.iter().min_by_key(|(waiting, _)| waiting.ticket);
    let parts = earliest.and_then(|(waiting, _)| parts_of(waiting));
    let owner = parts.as_ref().map(|parts| parts.label.clone());
    let remaining = reserved.iter().filter_map(|(_, left)| *left).max();
    of(LockState::Reserved { owner, remaining }, parts)
}

/// Held if a majority has the same value.
fn held(keys: &[&KeyState], majority: usize) -> Option<Judgement> {
    for candidate in keys {
        let KeyState::Held { value, .. } = candidate else { continue };
        let same = keys.iter().filter_map(|key| match key {
            KeyState::Held { value: other, remaining, number } if other == value => {
                Some((*remaining, *number))
            }
            _ => None,
        });
        let (mut remaining, numbers): (Vec<Option<Duration>>, Vec<_>) = same.unzip();
        if remaining.len() < majority || reservation(candidate).is_some() {
            continue;
        }
        // Longest first, keys that never expire before all others: the last of the majority
        // decides.
        remaining.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
        let parts = value.as_deref().and_then(OwnerParts::of_value);
        let fencing_token = agreed(&numbers, majority).filter(|_| parts.is_some());
        let owner = parts.as_ref().map(|parts| parts.label.clone());
        let remaining = remaining[majority - 1];
        let state = LockState::Held { owner, remaining, fencing_token };
        return Some(Judgement { state, owner: parts, grants: grants_in(&[candidate]) });
    }
    None
}

/// Whether a key is not a lock.
fn is_data(key: &KeyState) -> bool {
    let KeyState::Held { value, remaining, .. } = key else { return false };
    let known = value.as_deref().map(|value| Holder::of_value(value, *remaining));
    known.unwrap_or_default().with_endless(remaining.is_none()).is_data()
}

/// The grants that these keys belong to, each once.
fn grants_in(keys: &[&KeyState]) -> Vec<GrantId> {
    let mut grants: Vec<_> = keys.iter().filter_map(|key| grant_in(key)).collect();
    grants.sort_unstable();
    grants.dedup();
    grants
}

/// The grant that a key belongs to, if it can be a lock: text that expires and is not a
/// reservation.
pub(crate) fn grant_in(key: &KeyState) -> Option<GrantId> {
    match key {
        KeyState::Held { value: Some(value), remaining: Some(_), .. } => {
            reservation(key).is_none().then(|| GrantId::of(value))
        }
        _ => None,
    }
}

/// The number that a majority has, since a grant has its number on a majority. A single
/// register may be ahead of it, on a node whose clock is ahead.
fn agreed(numbers: &[Option<FencingToken>], majority: usize) -> Option<FencingToken> {
    let has_majority = |number: &FencingToken| {
        numbers.iter().filter(|other| **other == Some(*number)).count() >= majority
    };
    numbers.iter().flatten().copied().find(has_majority)
}

/// For whom a key is reserved, and for how long.
pub(super) fn reservation(key: &KeyState) -> Option<(Waiting, Option<Duration>)> {
    let KeyState::Held { value: Some(value), remaining, .. } = key else { return None };
    Some((Waiting::reserved_in(value)?, *remaining))
}

/// What is known of a waiter. It has waited since it got its ticket.
pub(super) fn parts_of(waiting: &Waiting) -> Option<OwnerParts> {
    let mut parts = OwnerParts::parse(waiting.owner.as_deref()?)?;
    parts.since = Some(Duration::from_micros(waiting.ticket.arrived));
    Some(parts)
}
