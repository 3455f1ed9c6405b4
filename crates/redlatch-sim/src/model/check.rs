//! Searches one scenario and compares the outcome with the expected one.
//!
//! In:  a scenario, and a mistake to plant, if any.
//! Out: what was found, and how that differs from what the scenario expects.

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

/// A mistake outside the core: in the nodes, or in what drives the machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mistake {
    pub flaw: Option<Flaw>,
    /// Undos overtake commands sent before them.
    pub undos_overtake: bool,
    /// Drivers count windows by the lease clock.
    pub one_clock: bool,
}

#[derive(Debug)]
pub struct Outcome {
    pub states: u64,
    /// How many steps lead from one state to another.
    pub transitions: u64,
    pub took: Duration,
    /// How the outcome differs from what the scenario expects; empty if it does not.
    pub complaints: Vec<String>,
    pub broken: Option<Broken>,
}

#[derive(Debug)]
pub struct Broken {
    pub property: Property,
    pub text: String,
    pub steps: usize,
    /// The shortest history that breaks it.
    pub trace: Trace,
}

/// Beyond this many states we do not look for the shortest history.
const MOST_FOR_A_TRACE: usize = 12_000_000;

/// Searches every state and compares the outcome with the one that the scenario
/// expects.
pub fn prove(scenario: &Scenario) -> Outcome {
    prove_within(scenario, usize::MAX)
}

/// Like [`prove`], but gives up after `most` states.
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
