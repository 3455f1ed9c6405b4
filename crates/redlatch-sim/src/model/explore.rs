//! Explores every history of a scenario.
//!
//! In:  a first state.
//! Out: how many states and steps there are, which marks were seen, and the
//!      first broken promise, if any.
//!
//! Depth-first search needs little memory: it is for proofs. Breadth-first search
//! finds the shortest history: it is for mistakes. Both visit the same states.

use super::{
    hash::AsItIs,
    properties::{Marks, Property},
    step::Step,
    world::World,
};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::BuildHasherDefault,
};

type Hashed = BuildHasherDefault<AsItIs>;

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) states: u64,
    pub(super) transitions: u64,
    pub(super) marks: Marks,
    pub(super) violation: Option<Violation>,
}

/// A promise that was broken, and by which history.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) property: Property,
    pub(super) text: String,
    /// The steps from the first state; empty if not recorded.
    pub(super) steps: Vec<Step>,
}

/// Visits every state until a promise is broken or more than `most` are known.
pub(super) fn depth_first(first: World, promises: &[Property], most: usize) -> Found {
    let mut found = Found::default();
    let mut known: HashSet<u64, Hashed> = HashSet::default();
    known.insert(first.fingerprint());
    let mut open = vec![first];
    while let Some(world) = open.pop().filter(|_| known.len() < most) {
        for step in world.steps() {
            let (next, broken) = follow(&world, step, promises, &mut found);
            if let Some((property, text)) = broken {
                found.violation = Some(Violation { property, text, steps: Vec::new() });
                found.states = known.len() as u64;
                return found;
            }
            if known.insert(next.fingerprint()) {
                open.push(next);
            }
        }
    }
    found.states = known.len() as u64;
    found
}

/// Like [`depth_first`], but nearest states first, so that the first violation has
/// the shortest history.
pub(super) fn breadth_first(first: World, promises: &[Property], most: usize) -> Found {
    let mut found = Found::default();
    let mut known: HashMap<u64, Option<(u64, Step)>, Hashed> = HashMap::default();
    known.insert(first.fingerprint(), None);
    let mut open = VecDeque::from([first]);
    while let Some(world) = open.pop_front().filter(|_| known.len() < most) {
        let here = world.fingerprint();
        for step in world.steps() {
            let (next, broken) = follow(&world, step, promises, &mut found);
            if let Some((property, text)) = broken {
                let steps = way_to(&known, here, step);
                found.violation = Some(Violation { property, text, steps });
                found.states = known.len() as u64;
                return found;
            }
            let there = next.fingerprint();
            known.entry(there).or_insert_with(|| {
                open.push_back(next);
                Some((here, step))
            });
        }
    }
    found.states = known.len() as u64;
    found
}

fn follow(
    world: &World,
    step: Step,
    promises: &[Property],
    found: &mut Found,
) -> (World, Option<(Property, String)>) {
    let (next, heard) = world.after(step);
    found.transitions += 1;
    found.marks.join(heard.marks);
    let broken = |property: &Property| Some((*property, property.broken(&next, &heard)?));
    let broken = promises.iter().find_map(broken);
    (next, broken)
}

fn way_to(known: &HashMap<u64, Option<(u64, Step)>, Hashed>, last: u64, step: Step) -> Vec<Step> {
    let mut steps = vec![step];
    let mut at = last;
    while let Some(Some((before, step))) = known.get(&at) {
        steps.push(*step);
        at = *before;
    }
    steps.reverse();
    steps
}
