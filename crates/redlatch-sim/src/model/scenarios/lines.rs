//! Scenarios of waiting in line. In most of them the first client holds the lock when
//! the history begins, and some others wait for it.

use super::{ALL, Faults, Mark, ONCE, Property, Scenario, Script, plain, until};
use crate::model::properties::IN_LINE;

/// Waits in line for as long as it takes, and releases the lock.
const WAITS: Script = Script { wait_ms: 60_000, line: Some(0), ..ONCE };

/// The same, as another caller of the client before it.
const WAITS_HERE: Script = Script { joins: true, ..WAITS };

const FENCED_WAITS: Script = Script { fenced: true, ..WAITS };

/// Time stands still, and replies are prompt; commands and wakes are not.
fn line() -> Scenario {
    Scenario {
        scripts: &[WAITS, WAITS],
        late_replies: false,
        settled: &[0],
        promises: IN_LINE,
        must_happen: &[Mark::GrantToAnother],
        ..plain()
    }
}

/// What holds when time passes: reservations lapse, so a waiter that is away when it is
/// served may be overtaken.
const LATE: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
    Property::NothingLeft,
    Property::NotStranded,
    Property::LinesEmpty,
];

/// What holds when connections break: a ticket may stay until it is served.
const BROKEN: &[Property] = &[
    Property::Exclusion,
    Property::FencingOrder,
    Property::UniqueTokens,
    Property::Continuity,
    Property::NoResurrection,
    Property::NotStranded,
];

pub(super) fn all() -> Vec<Scenario> {
    let mut all = in_turn();
    all.extend(leaving());
    all.extend(wrong());
    all
}

fn in_turn() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "line",
            about: "one holds the lock, one waits in line",
            settled: &[],
            late_replies: true,
            must_happen: &[Mark::GrantToAnother, Mark::Retry],
            states: 56_895,
            ..line()
        },
        Scenario {
            name: "line-three",
            about: "one holds the lock, one waits, one comes",
            scripts: &[WAITS, WAITS, WAITS],
            settled: &[0, 1],
            states: 62_972,
            ..line()
        },
        Scenario {
            name: "line-again",
            about: "one holds the lock and wants it once more, two wait",
            scripts: &[Script { locks: 2, ..WAITS }, WAITS, WAITS],
            settled: &[0, 1, 2],
            states: 575_442,
            ..line()
        },
        Scenario {
            name: "line-callers",
            about: "a caller holds the lock, two more of its client come, one waits elsewhere",
            scripts: &[WAITS, WAITS_HERE, WAITS_HERE, WAITS],
            settled: &[0, 3],
            states: 5_312_742,
            ..line()
        },
        Scenario {
            name: "line-fenced",
            about: "three come at any time, with fencing",
            scripts: &[FENCED_WAITS, FENCED_WAITS, FENCED_WAITS],
            states: 7_339_378,
            ..line()
        },
    ]
}

fn leaving() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "line-cancel",
            about: "of two callers of a client that wait, the first gives up",
            scripts: &[WAITS, Script { cancels: true, ..WAITS }, WAITS_HERE],
            settled: &[0, 1, 2],
            states: 6_983,
            ..line()
        },
        Scenario {
            name: "line-timeout",
            about: "one holds the lock, and the wait of another ends",
            scripts: &[WAITS, Script { wait_ms: 1, ..WAITS }],
            settled: &[0, 1],
            times: until(1),
            promises: LATE,
            must_happen: &[Mark::GrantToAnother, Mark::Refusal],
            states: 7_889,
            ..line()
        },
        Scenario {
            name: "line-late",
            about: "one holds the lock, one waits, wakes come late or never, reservations lapse",
            settled: &[0, 1],
            times: until(600),
            promises: LATE,
            states: 2_413_581,
            ..line()
        },
    ]
}

fn wrong() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "line-deaf",
            about: "one holds the lock, two wait, those that would be woken are disconnected",
            scripts: &[WAITS, WAITS, WAITS],
            settled: &[0, 1, 2],
            faults: Faults { deaf: 2, ..Faults::default() },
            states: 162_814,
            ..line()
        },
        Scenario {
            name: "line-deaf-back",
            about: "the same with one that waits and is back in a moment",
            settled: &[0, 1],
            times: until(3),
            faults: Faults { deaf: 2, ..Faults::default() },
            states: 129_124,
            ..line()
        },
        Scenario {
            name: "line-cuts",
            about: "one holds the lock, one waits in line, connections break",
            faults: Faults { cuts: 2, ..Faults::default() },
            promises: BROKEN,
            states: 28_743,
            ..line()
        },
        Scenario {
            name: "line-cuts-timeout",
            about: "one holds the lock, the wait of another ends, a connection breaks",
            scripts: &[WAITS, Script { wait_ms: 1, ..WAITS }],
            settled: &[0, 1],
            times: until(60),
            faults: Faults { cuts: 1, ..Faults::default() },
            promises: LATE,
            must_happen: &[Mark::Refusal],
            states: 263_071,
            ..line()
        },
        Scenario {
            name: "line-mislaid",
            about: "lines go wrong: tickets lost, keys reserved for anyone, clients woken for nothing",
            settled: &[0, 1],
            faults: Faults { mislaid: 2, ..Faults::default() },
            promises: ALL,
            states: 57_448,
            ..line()
        },
        Scenario {
            name: "line-mislaid-three",
            about: "lines go wrong while one holds the lock, one waits, one comes",
            scripts: &[FENCED_WAITS, FENCED_WAITS, FENCED_WAITS],
            settled: &[0, 1],
            faults: Faults { mislaid: 1, ..Faults::default() },
            promises: ALL,
            states: 5_955_845,
            ..line()
        },
    ]
}
