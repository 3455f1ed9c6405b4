//! The scenarios, each with what is known of it.
//!
//! Those of `prove` are as large as minutes allow. Those a mutant is hunted in
//! are as small as the mistake allows, so that its history is short.

mod large;
mod small;

use super::{
    properties::{ALL, Mark, Property},
    scenario::{Expect, Faults, Guarded, NODES, Renewed, Scenario, Script, Times},
};

/// All of them, the small ones first.
pub(crate) fn all() -> Vec<Scenario> {
    small::all().into_iter().chain(large::all()).collect()
}

/// Wants the lock once, tries once, and gives it back.
const ONCE: Script = Script {
    locks: 1,
    after_ms: 0,
    looks: 0,
    wait_ms: 0,
    fenced: false,
    ahead: 0,
    renewal: None,
    extends: 0,
    extend_ms: 1000,
    releases: true,
    cancels: false,
    jumps: false,
    disagrees: false,
};

/// Wants no lock, but looks once which nodes may vote.
const WATCHES: Script = Script { locks: 0, looks: 1, ..ONCE };

/// The same, and never gives it back.
const KEEPS: Script = Script { releases: false, ..ONCE };

const FENCED: Script = Script { fenced: true, ..ONCE };

const FENCED_KEEPS: Script = Script { fenced: true, ..KEEPS };

const RENEWS: Script =
    Script { renewal: Some(Renewed { every_ms: 400, max_hold_ms: 1200 }), ..ONCE };

const NO_FAULTS: Faults = Faults {
    cuts: 0,
    stragglers: false,
    refusals: 0,
    repeats: 0,
    echoes: 0,
    expiries: 0,
    removals: 0,
    lags: 0,
    restarts: 0,
    failovers: 0,
    foreign: 0,
    flushes: 0,
    jumps: 0,
};

/// Keys of a second, and patience of half of it: with round numbers many things
/// fall on the same moment, so that there are few.
const TIMES: Times =
    Times { ttl_ms: 1000, node_timeout_ms: 500, horizon_ms: 0, beat_ms: 0, skew_us: 0 };

/// The promises that need no assumption about time or keys.
const NUMBERS: &[Property] = &[Property::FencingOrder, Property::UniqueTokens];

/// All but that nothing is left: what comes late, after everything is over, puts
/// a key down that dies by itself.
const LEFT_APART: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
];

const PLAIN: Scenario = Scenario {
    name: "",
    about: "",
    scripts: &[ONCE, ONCE],
    faults: NO_FAULTS,
    times: TIMES,
    late_replies: true,
    guard: None,
    registers: [0; NODES],
    promises: ALL,
    must_happen: &[Mark::Grant, Mark::GrantToAnother],
    expect: Expect::Holds,
    states: 0,
};

/// Up to that many milliseconds.
const fn until(horizon_ms: u32) -> Times {
    Times { horizon_ms, ..TIMES }
}
