//! The scenarios, each with what is known of it.

use super::{
    properties::{ALL, Mark, Property},
    scenario::{Expect, Faults, NODES, Renewed, Scenario, Script, Times},
};

/// Wants the lock once, tries once, and gives it back.
const ONCE: Script = Script {
    locks: 1,
    wait_ms: 0,
    fenced: false,
    ahead: 0,
    renewal: None,
    extends: 0,
    extend_ms: 1000,
    releases: true,
    cancels: false,
};

const FENCED: Script = Script { fenced: true, ..ONCE };

const NO_FAULTS: Faults = Faults {
    cuts: 0,
    stragglers: false,
    refusals: 0,
    repeats: 0,
    lags: 0,
    restarts: 0,
    failovers: 0,
    foreign: 0,
};

/// Keys of a second, nodes that are waited for for 300 ms.
const TIMES: Times =
    Times { ttl_ms: 1000, node_timeout_ms: 300, horizon_ms: 0, beat_ms: 0, skew_us: 0 };

const PLAIN: Scenario = Scenario {
    name: "",
    about: "",
    scripts: &[ONCE, ONCE],
    faults: NO_FAULTS,
    times: TIMES,
    guard: None,
    registers: [0; NODES],
    promises: ALL,
    must_happen: &[Mark::Grant, Mark::GrantToAnother],
    expect: Expect::Holds,
    states: 0,
    short: false,
};

/// All of them.
pub fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "two",
            about: "two clients, no fencing, nothing goes wrong",
            short: true,
            ..PLAIN
        },
        Scenario {
            name: "two-fenced",
            about: "two clients with fencing, nothing goes wrong",
            scripts: &[FENCED, FENCED],
            short: true,
            ..PLAIN
        },
        Scenario {
            name: "two-late",
            about: "two clients, replies later than the lease, clients paused",
            faults: Faults { lags: 2, ..NO_FAULTS },
            times: Times { horizon_ms: 1300, ..TIMES },
            ..PLAIN
        },
        Scenario {
            name: "two-fenced-late",
            about: "two clients with fencing, replies later than the lease, clients paused",
            scripts: &[FENCED, FENCED],
            faults: Faults { lags: 2, ..NO_FAULTS },
            times: Times { horizon_ms: 1300, ..TIMES },
            must_happen: &[Mark::SecondRound],
            ..PLAIN
        },
        Scenario {
            name: "three",
            about: "three clients, nothing goes wrong",
            scripts: &[ONCE, ONCE, ONCE],
            ..PLAIN
        },
        Scenario {
            name: "extend-late",
            about: "the first client extends by hand and is paused",
            scripts: &[Script { extends: 1, ..ONCE }, ONCE],
            faults: Faults { lags: 2, ..NO_FAULTS },
            times: Times { horizon_ms: 1300, ..TIMES },
            must_happen: &[Mark::Renewal],
            ..PLAIN
        },
        Scenario {
            name: "renew",
            about: "the first client renews",
            scripts: &[
                Script { renewal: Some(Renewed { every_ms: 400, max_hold_ms: 1200 }), ..ONCE },
                ONCE,
            ],
            times: Times { horizon_ms: 1300, ..TIMES },
            must_happen: &[Mark::Renewal],
            ..PLAIN
        },
        Scenario {
            name: "cuts",
            about: "connections break",
            faults: Faults { cuts: 2, ..NO_FAULTS },
            ..PLAIN
        },
        Scenario {
            name: "forgets",
            about: "a node restarts with nothing in its memory, and nobody guards it",
            faults: Faults { restarts: 1, ..NO_FAULTS },
            promises: &[Property::Exclusion],
            expect: Expect::Broken(Property::Exclusion),
            ..PLAIN
        },
    ]
}
