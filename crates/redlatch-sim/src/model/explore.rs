//! Every history of a scenario.
//!
//! In:  a first state.
//! Out: how many states and steps there are, what happened in some of them, and
//!      the first promise that is broken, if one is.
//!
//! Depth first needs little memory and is for proofs; breadth first finds the
//! shortest history and is for mistakes. Both see the same states.

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

/// What was found.
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
    /// The steps from the first state; empty if they were not recorded.
    pub(super) steps: Vec<Step>,
}

/// Goes through every state until a promise is broken or there are more than
/// `most`.
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

/// Goes through the states in the order of how many steps they are away, until
/// a promise is broken or there are more states than `most`.
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
