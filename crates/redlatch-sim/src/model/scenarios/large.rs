//! Large scenarios: as many things at once as a few minutes allow.

use super::{
    FENCED, FENCED_KEEPS, Faults, Guarded, KEEPS, LEFT_APART, Mark, NUMBERS, ONCE, Property,
    RENEWS, Scenario, Script, Times, WATCHES, guarded, plain, until,
};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = three();
    all.extend(late());
    all.extend(broken());
    all.extend(guarding());
    all
}

fn three() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "three",
            about: "three clients, nothing goes wrong",
            scripts: &[ONCE, ONCE, ONCE],
            states: 898_054,
            ..plain()
        },
        Scenario {
            name: "three-fenced",
            about: "three clients with fencing, nothing goes wrong",
            scripts: &[FENCED, FENCED, FENCED],
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 2_635_920,
            ..plain()
        },
        Scenario {
            name: "three-expiry",
            about: "three clients with fencing, and a key dies before its time",
            scripts: &[FENCED_KEEPS, FENCED_KEEPS, FENCED_KEEPS],
            faults: Faults { expiries: 1, ..Faults::default() },
            promises: NUMBERS,
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 3_367_455,
            ..plain()
        },
        Scenario {
            name: "three-late",
            about: "three clients, prompt replies, late commands, leases that run out",
            scripts: &[KEEPS, KEEPS, Script { after_ms: 1000, ..KEEPS }],
            times: until(1000),
            late_replies: false,
            must_happen: &[Mark::GrantToAnother, Mark::Loss],
            states: 6_413_020,
            ..plain()
        },
        Scenario {
            name: "foreign",
            about: "two clients and one of another library",
            faults: Faults { foreign: 1, ..Faults::default() },
            must_happen: &[Mark::GrantToAnother, Mark::ForeignGrant, Mark::Refusal],
            states: 171_228,
            ..plain()
        },
        Scenario {
            name: "foreign-late",
            about: "one client that extends and one of another library, leases that run out",
            scripts: &[Script { extends: 1, ..ONCE }],
            faults: Faults { foreign: 1, lags: 1, ..Faults::default() },
            times: Times { beat_ms: 500, ..until(1000) },
            must_happen: &[Mark::Grant, Mark::ForeignGrant, Mark::Renewal, Mark::Loss],
            states: 7_533_795,
            ..plain()
        },
    ]
}

fn late() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "late",
            about: "two clients that release, late replies, paused clients",
            faults: Faults { lags: 1, ..Faults::default() },
            times: until(1000),
            must_happen: &[Mark::GrantToAnother, Mark::GrantAfterExpiry, Mark::Refusal],
            states: 8_541_247,
            ..plain()
        },
        Scenario {
            name: "late-fenced",
            about: "two clients with fencing, late replies, paused clients",
            scripts: &[FENCED_KEEPS, FENCED_KEEPS],
            faults: Faults { lags: 1, ..Faults::default() },
            times: until(1000),
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 2_744_213,
            ..plain()
        },
        Scenario {
            name: "renewal",
            about: "the first client renews its lease until it may not, and is paused",
            scripts: &[RENEWS, Script { after_ms: 800, ..KEEPS }],
            faults: Faults { lags: 1, ..Faults::default() },
            times: until(1000),
            late_replies: false,
            must_happen: &[Mark::GrantToAnother, Mark::Renewal, Mark::Loss],
            states: 12_106_705,
            ..plain()
        },
        Scenario {
            name: "retries",
            about: "both clients try again",
            scripts: &[Script { wait_ms: 1, ..KEEPS }, Script { wait_ms: 1, ..KEEPS }],
            times: until(1),
            must_happen: &[Mark::GrantToAnother, Mark::Retry],
            states: 95_053,
            ..plain()
        },
    ]
}

fn broken() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "cuts",
            about: "connections break while locks are taken and released",
            faults: Faults { cuts: 2, refusals: 1, ..Faults::default() },
            states: 253_515,
            ..plain()
        },
        Scenario {
            name: "cuts-late",
            about: "connections break, leases run out",
            scripts: &[ONCE, Script { after_ms: 1000, ..KEEPS }],
            faults: Faults { cuts: 2, ..Faults::default() },
            times: until(1000),
            late_replies: false,
            must_happen: &[Mark::GrantToAnother, Mark::Loss],
            states: 572_938,
            ..plain()
        },
        Scenario {
            name: "refused-extension",
            about: "no connection is found while a lease is extended and its keys planted again",
            scripts: &[Script { extends: 1, fenced: true, ..ONCE }, KEEPS],
            faults: Faults { refusals: 2, cuts: 1, ..Faults::default() },
            must_happen: &[Mark::GrantToAnother, Mark::Renewal],
            states: 1_193_494,
            ..plain()
        },
        Scenario {
            name: "stragglers",
            about: "what was under way on a broken connection comes much later",
            scripts: &[FENCED, FENCED],
            faults: Faults { cuts: 2, stragglers: true, ..Faults::default() },
            promises: LEFT_APART,
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 440_774,
            ..plain()
        },
        Scenario {
            name: "echoes",
            about: "commands come a second time, at once or much later",
            scripts: &[FENCED, FENCED],
            faults: Faults { repeats: 1, echoes: 1, ..Faults::default() },
            promises: LEFT_APART,
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 784_987,
            ..plain()
        },
    ]
}

fn guarding() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "guarded-strict",
            about: "a node forgets, and the guard trusts only what it watched",
            scripts: &[KEEPS, Script { after_ms: 1000, ..KEEPS }, WATCHES],
            times: until(1250),
            guard: Some(Guarded { strict: true, slow: false }),
            states: 3_281_811,
            ..guarded()
        },
        Scenario {
            name: "guarded-slow",
            about: "a node forgets, and reading and admitting take time",
            scripts: &[FENCED_KEEPS, Script { after_ms: 1000, ..FENCED_KEEPS }, WATCHES],
            guard: Some(Guarded { strict: false, slow: true }),
            states: 527_866,
            ..guarded()
        },
        Scenario {
            name: "failovers",
            about: "two replicas without the keys take the places of nodes",
            scripts: &[KEEPS, Script { after_ms: 1000, ..KEEPS }, WATCHES],
            faults: Faults { failovers: 2, ..Faults::default() },
            states: 2_523_327,
            ..guarded()
        },
        Scenario {
            name: "admitted-twice",
            about: "a node forgets, is admitted, forgets again, and the admission comes once more",
            scripts: &[
                Script { after_ms: 1000, ..KEEPS },
                Script { after_ms: 1000, ..KEEPS },
                WATCHES,
            ],
            faults: Faults { restarts: 2, echoes: 1, ..Faults::default() },
            guard: Some(Guarded { strict: false, slow: true }),
            promises: &[Property::Exclusion],
            states: 1_970_544,
            ..guarded()
        },
    ]
}
