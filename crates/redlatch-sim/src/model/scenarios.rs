//! All scenarios.
//!
//! Scenarios for proofs are as large as a few minutes allow. Scenarios for mutants are
//! as small as the mistake allows, so that its history is short.

mod large;
mod lines;
mod small;

use super::{
    properties::{ALL, Mark, Property},
    scenario::{Expect, Faults, Guarded, NODES, Renewed, Scenario, Script, Times},
};

pub(crate) fn all() -> Vec<Scenario> {
    small::all().into_iter().chain(large::all()).chain(lines::all()).collect()
}

/// Wants the lock once, tries once, and releases it.
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
    line: None,
    joins: false,
};

/// Wants no lock; checks once which nodes may vote.
const WATCHES: Script = Script { locks: 0, looks: 1, ..ONCE };

/// Wants the lock once, tries once, and never releases it.
const KEEPS: Script = Script { releases: false, ..ONCE };

const FENCED: Script = Script { fenced: true, ..ONCE };

const FENCED_KEEPS: Script = Script { fenced: true, ..KEEPS };

const RENEWS: Script =
    Script { renewal: Some(Renewed { every_ms: 400, max_hold_ms: 1200 }), ..ONCE };

/// A TTL of one second and a timeout of half: with round numbers, many events fall
/// on the same moment, which keeps the states few.
const TIMES: Times =
    Times { ttl_ms: 1000, node_timeout_ms: 500, horizon_ms: 0, beat_ms: 0, skew_us: 0 };

/// The promises that assume nothing about time or keys.
const NUMBERS: &[Property] = &[Property::FencingOrder, Property::UniqueTokens];

/// All except [`Property::NothingLeft`]: a command that arrives after everything is
/// over leaves a key, which expires by itself.
const LEFT_APART: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
];

fn plain() -> Scenario {
    Scenario {
        name: "",
        about: "",
        scripts: &[ONCE, ONCE],
        faults: Faults::default(),
        times: TIMES,
        late_replies: true,
        guard: None,
        settled: &[],
        registers: [0; NODES],
        promises: ALL,
        must_happen: &[Mark::Grant, Mark::GrantToAnother],
        expect: Expect::Holds,
        states: 0,
    }
}

/// A node forgets; the last client admits it again.
fn guarded() -> Scenario {
    Scenario {
        faults: Faults { restarts: 1, ..Faults::default() },
        times: until(1000),
        late_replies: false,
        guard: Some(Guarded { strict: false, slow: false }),
        must_happen: &[Mark::GrantToAnother, Mark::Admission],
        ..plain()
    }
}

const fn until(horizon_ms: u32) -> Times {
    Times { horizon_ms, ..TIMES }
}
