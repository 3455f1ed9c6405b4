//! Small scenarios: each has room for one known mistake and shows that the shipped
//! core does not make it.

use super::{
    Expect, FENCED, FENCED_KEEPS, Faults, Guarded, KEEPS, Mark, NUMBERS, ONCE, Property, Renewed,
    Scenario, Script, Times, WATCHES, guarded, plain, until,
};

pub(super) fn all() -> Vec<Scenario> {
    let mut all = deciding();
    all.extend(fencing());
    all.extend(extending());
    all.extend(undoing());
    all.extend(guarding());
    all.extend(guarding_clients());
    all
}

fn deciding() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "two",
            about: "two clients, nothing goes wrong",
            states: 5_855,
            ..plain()
        },
        Scenario {
            name: "late-replies",
            about: "replies wait while the keys expire, clients are paused",
            scripts: &[KEEPS, KEEPS],
            faults: Faults { lags: 1, ..Faults::default() },
            times: until(1000),
            must_happen: &[Mark::GrantToAnother, Mark::GrantAfterExpiry, Mark::Refusal],
            states: 1_751_131,
            ..plain()
        },
        Scenario {
            name: "unreachable",
            about: "connections break in the middle of an attempt",
            scripts: &[KEEPS, KEEPS],
            faults: Faults { cuts: 2, ..Faults::default() },
            states: 29_586,
            ..plain()
        },
        Scenario {
            name: "retry",
            about: "a second attempt follows a first that came to nothing",
            scripts: &[Script { wait_ms: 501, ..KEEPS }, Script { after_ms: 550, ..KEEPS }],
            faults: Faults { cuts: 1, ..Faults::default() },
            times: until(550),
            must_happen: &[Mark::GrantToAnother, Mark::Retry],
            late_replies: false,
            states: 597_455,
            ..plain()
        },
        Scenario {
            name: "forgets",
            about: "a node forgets, and nobody guards it",
            scripts: &[KEEPS, KEEPS],
            faults: Faults { restarts: 1, ..Faults::default() },
            promises: &[Property::Exclusion],
            expect: Expect::Broken(Property::Exclusion),
            states: 4_543,
            ..plain()
        },
        Scenario {
            name: "forgets-numbers",
            about: "a node forgets its registers, and nobody guards it",
            scripts: &[FENCED, FENCED],
            faults: Faults { restarts: 1, ..Faults::default() },
            promises: NUMBERS,
            expect: Expect::Broken(Property::FencingOrder),
            states: 6_765,
            ..plain()
        },
    ]
}

fn fencing() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "numbers",
            about: "registers that differ: the second round",
            scripts: &[FENCED, FENCED],
            registers: [0, 5, 0],
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 26_627,
            ..plain()
        },
        Scenario {
            name: "refused-numbers",
            about: "no connection is found, or one breaks, in the second round",
            scripts: &[FENCED, KEEPS],
            faults: Faults { refusals: 1, cuts: 1, ..Faults::default() },
            registers: [0, 5, 0],
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound, Mark::Refusal],
            states: 227_759,
            ..plain()
        },
        Scenario {
            name: "late-numbers",
            about: "the second round's replies wait while the keys expire",
            scripts: &[FENCED_KEEPS, KEEPS],
            faults: Faults { lags: 1, ..Faults::default() },
            times: until(1000),
            registers: [0, 5, 0],
            must_happen: &[Mark::SecondRound, Mark::GrantAfterExpiry],
            states: 10_497_193,
            ..plain()
        },
        Scenario {
            name: "early-expiry",
            about: "a key dies before its time in the middle of the second round",
            scripts: &[FENCED_KEEPS, FENCED_KEEPS],
            faults: Faults { expiries: 1, ..Faults::default() },
            registers: [0, 4, 4],
            promises: NUMBERS,
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 38_017,
            ..plain()
        },
        Scenario {
            name: "echo",
            about: "a take comes a second time, and two keys die before their time",
            scripts: &[FENCED_KEEPS, FENCED_KEEPS],
            faults: Faults { expiries: 2, echoes: 1, ..Faults::default() },
            registers: [0, 4, 4],
            promises: NUMBERS,
            must_happen: &[Mark::GrantToAnother, Mark::SecondRound],
            states: 1_503_299,
            ..plain()
        },
    ]
}

fn extending() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "short-extension",
            about: "the first client extends by less than it has",
            scripts: &[Script { extends: 1, extend_ms: 200, ..KEEPS }, KEEPS],
            times: until(300),
            must_happen: &[Mark::Grant, Mark::Renewal],
            states: 11_442,
            ..plain()
        },
        Scenario {
            name: "short-extension-undone",
            about: "an extension by less than there is, and a node that the release finds not",
            scripts: &[Script { extends: 1, extend_ms: 50, ..ONCE }],
            faults: Faults { refusals: 2, ..Faults::default() },
            times: until(100),
            must_happen: &[Mark::Grant, Mark::Renewal],
            states: 2_905,
            ..plain()
        },
        Scenario {
            name: "late-extension",
            about: "an extension is under way when its lease ends",
            scripts: &[Script { extends: 1, ..KEEPS }, ONCE],
            faults: Faults { lags: 1, ..Faults::default() },
            times: Times { beat_ms: 500, ..until(1000) },
            must_happen: &[Mark::GrantToAnother, Mark::Renewal, Mark::GrantAfterExpiry],
            late_replies: false,
            states: 8_301_576,
            ..plain()
        },
        Scenario {
            name: "removed",
            about: "somebody removes the lock by hand, and its owner extends",
            scripts: &[Script { extends: 1, ..KEEPS }, ONCE],
            faults: Faults { removals: 1, ..Faults::default() },
            promises: &[Property::NoResurrection],
            must_happen: &[Mark::GrantToAnother, Mark::Renewal, Mark::Loss],
            states: 422_550,
            ..plain()
        },
    ]
}

fn undoing() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "cancel",
            about: "the first client stops wanting the lock in the middle of it",
            scripts: &[Script { cancels: true, ..ONCE }, ONCE],
            states: 8_668,
            ..plain()
        },
        Scenario {
            name: "again",
            about: "the first client wants the lock twice",
            scripts: &[Script { locks: 2, ..KEEPS }, KEEPS],
            states: 6_469,
            ..plain()
        },
        Scenario {
            name: "repeat",
            about: "the network repeats a take, and its own key refuses it",
            scripts: &[ONCE, KEEPS],
            faults: Faults { repeats: 1, ..Faults::default() },
            states: 25_910,
            ..plain()
        },
    ]
}

fn guarding() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "admission",
            about: "a node forgets under a lease, and is admitted again",
            scripts: &[KEEPS, WATCHES],
            times: until(1250),
            must_happen: &[Mark::Grant, Mark::Admission],
            states: 32_347,
            ..guarded()
        },
        Scenario {
            name: "guarded",
            about: "a node forgets, is quarantined for the window and admitted again",
            scripts: &[KEEPS, Script { after_ms: 500, ..KEEPS }, WATCHES],
            states: 5_899_901,
            ..guarded()
        },
        Scenario {
            name: "guarded-numbers",
            about: "a node forgets its registers and gets those of the others",
            scripts: &[FENCED, Script { after_ms: 1000, ..FENCED }, WATCHES],
            states: 2_244_509,
            ..guarded()
        },
        Scenario {
            name: "failover",
            about: "a replica without the keys takes the place of a node",
            scripts: &[KEEPS, Script { after_ms: 500, ..KEEPS }, WATCHES],
            faults: Faults { failovers: 1, ..Faults::default() },
            states: 5_127_235,
            ..guarded()
        },
    ]
}

fn guarding_clients() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "guarded-extension",
            about: "a node forgets under a lease that is extended, and another wants the lock",
            scripts: &[Script { extends: 1, ..KEEPS }, Script { looks: 1, after_ms: 500, ..KEEPS }],
            times: until(500),
            must_happen: &[Mark::Renewal, Mark::GrantToAnother],
            states: 461_627,
            ..guarded()
        },
        Scenario {
            name: "guarded-flush",
            about: "all nodes are flushed under a lease, and admitted again",
            scripts: &[KEEPS, Script { after_ms: 500, ..KEEPS }, WATCHES],
            faults: Faults { flushes: 1, ..Faults::default() },
            must_happen: &[Mark::Grant, Mark::Admission],
            states: 822_992,
            ..guarded()
        },
        Scenario {
            name: "guarded-jump",
            about: "a node forgets, and the clock of the client that watches it is set forward",
            scripts: &[KEEPS, Script { after_ms: 500, looks: 1, jumps: true, ..KEEPS }],
            faults: Faults { restarts: 1, jumps: 1, ..Faults::default() },
            times: until(500),
            guard: Some(Guarded { strict: true, slow: false }),
            must_happen: &[Mark::GrantToAnother],
            states: 576_665,
            ..guarded()
        },
        Scenario {
            name: "guarded-stranger",
            about: "a node forgets, and a client with other times would admit it",
            scripts: &[KEEPS, Script { disagrees: true, ..WATCHES }],
            times: until(1250),
            promises: &[Property::Exclusion, Property::NoPart],
            must_happen: &[Mark::Grant],
            states: 24_543,
            ..guarded()
        },
        Scenario {
            name: "guarded-renewal",
            about: "a node forgets under a lease that is renewed, and gets its key back",
            scripts: &[
                Script { renewal: Some(Renewed { every_ms: 450, max_hold_ms: 3000 }), ..KEEPS },
                WATCHES,
            ],
            times: until(1450),
            must_happen: &[Mark::Renewal, Mark::Admission],
            states: 1_745_988,
            ..guarded()
        },
    ]
}
