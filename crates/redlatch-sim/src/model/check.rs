//! One scenario, searched and compared with what is known of it.
//!
//! In:  a scenario, and a mistake to make, if any.
//! Out: what was found, and whether it is what the scenario says.

use super::{
    explore::{self, Found, Violation},
    history,
    properties::{Property, missing},
    scenario::{Expect, Scenario},
    world::{Setting, World},
};
use crate::{node::Flaw, trace::Trace};
use std::{
    rc::Rc,
    time::{Duration, Instant},
};

/// A mistake outside the core: of the nodes, or of what carries commands to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mistake {
    /// The nodes' own.
    pub flaw: Option<Flaw>,
    /// Undos overtake what was sent before them.
    pub undos_overtake: bool,
    /// Drivers count windows by the clock of leases.
    pub one_clock: bool,
}

/// What came of one scenario.
#[derive(Debug)]
pub struct Outcome {
    /// How many states there are.
    pub states: u64,
    /// How many steps lead from one to another.
    pub transitions: u64,
    /// How long the search took.
    pub took: Duration,
    /// What is not as the scenario says; nothing if all is.
    pub complaints: Vec<String>,
    /// The promise that was broken, if one was.
    pub broken: Option<Broken>,
}

/// A promise that was broken.
#[derive(Debug)]
pub struct Broken {
    /// Which one.
    pub property: Property,
    /// How.
    pub text: String,
    /// By how many steps.
    pub steps: usize,
    /// The shortest history that breaks it.
    pub trace: Trace,
}

/// More states than this are not kept to find the shortest history.
const MOST_FOR_A_TRACE: usize = 12_000_000;

/// Searches every state and compares with what is known.
#[must_use]
pub fn prove(scenario: &Scenario) -> Outcome {
    prove_within(scenario, usize::MAX)
}

/// The same, but gives up after so many states.
pub(super) fn prove_within(scenario: &Scenario, most: usize) -> Outcome {
    let start = Instant::now();
    let first = first_state(scenario, Mistake::default());
    let found = match scenario.expect {
        Expect::Holds => explore::depth_first(first.clone(), scenario.promises, most),
        Expect::Broken(_) => {
            explore::breadth_first(first.clone(), scenario.promises, MOST_FOR_A_TRACE)
        }
    };
    let complaints = complaints(scenario, &found);
    let surprising = !complaints.is_empty() && scenario.expect == Expect::Holds;
    let violation = match found.violation {
        Some(_) if surprising => shortest(scenario, &first).violation,
        violation => violation,
    };
    Outcome {
        states: found.states,
        transitions: found.transitions,
        took: start.elapsed(),
        complaints,
        broken: violation.map(|violation| broken(scenario, &first, violation)),
    }
}

/// Looks for the shortest history in which the mistake breaks a promise.
#[must_use]
pub fn hunt(scenario: &Scenario, mistake: Mistake) -> Outcome {
    let start = Instant::now();
    let first = first_state(scenario, mistake);
    let found = shortest(scenario, &first);
    Outcome {
        states: found.states,
        transitions: found.transitions,
        took: start.elapsed(),
        complaints: Vec::new(),
        broken: found.violation.map(|violation| broken(scenario, &first, violation)),
    }
}

fn first_state(scenario: &Scenario, mistake: Mistake) -> World {
    World::new(&Rc::new(Setting::new(scenario.clone(), mistake)))
}

fn shortest(scenario: &Scenario, first: &World) -> Found {
    explore::breadth_first(first.clone(), scenario.promises, MOST_FOR_A_TRACE)
}

fn complaints(scenario: &Scenario, found: &Found) -> Vec<String> {
    let mut complaints = Vec::new();
    match (scenario.expect, &found.violation) {
        (Expect::Holds, Some(violation)) => {
            complaints.push(format!("{} is broken: {}", violation.property, violation.text));
        }
        (Expect::Broken(wanted), None) => {
            complaints.push(format!("{wanted} holds, but should not"));
        }
        (Expect::Broken(wanted), Some(violation)) if violation.property != wanted => {
            complaints.push(format!("{} is broken instead of {wanted}", violation.property));
        }
        _ => {}
    }
    if scenario.expect == Expect::Holds && found.violation.is_none() {
        let never = missing(scenario.must_happen, found.marks);
        complaints.extend(never.into_iter().map(|mark| format!("{mark} never happens")));
    }
    complaints
}

fn broken(scenario: &Scenario, first: &World, violation: Violation) -> Broken {
    let Violation { property, text, steps } = violation;
    let title = format!("{}: {}. Broken: {property}.", scenario.name, scenario.about);
    let trace = history::trace(title, first, &steps, &text);
    Broken { property, text, steps: steps.len(), trace }
}
