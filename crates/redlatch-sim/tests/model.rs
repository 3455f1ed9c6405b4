//! The model finds planted mistakes, and complains about every unexpected outcome.

use redlatch_sim::{
    model::{Expect, Mark, Mistake, Property, Scenario, hunt, prove, scenario},
    mutants,
    node::Flaw,
};

fn named(name: &str) -> Scenario {
    scenario(name).expect("a scenario")
}

#[test]
fn small_scenarios_are_as_known() {
    let small = ["two", "unreachable", "numbers", "cancel", "repeat", "again", "early-expiry"];
    for name in small.into_iter().chain(["guarded-stranger"]) {
        let outcome = prove(&named(name));

        assert_eq!(outcome.complaints, [""; 0], "{name}");
        assert!(outcome.broken.is_none(), "{name}");
    }
}

#[test]
fn the_same_scenario_has_the_same_states_twice() {
    let [first, second] = [(); 2].map(|()| prove(&named("numbers")));

    assert_eq!((first.states, first.transitions), (second.states, second.transitions));
}

#[test]
fn another_number_of_states_than_before_is_no_broken_promise() {
    let grown = Scenario { states: named("two").states + 1, ..named("two") };

    assert_eq!(prove(&grown).complaints, [""; 0]);
}

#[test]
fn a_model_in_which_nothing_happens_fails() {
    let empty = Scenario { scripts: &[], states: 1, ..named("two") };

    let outcome = prove(&empty);

    assert_eq!(
        outcome.complaints,
        ["a grant never happens", "a grant to another client never happens"]
    );
}

#[test]
fn what_should_happen_and_does_not_is_missed_by_name() {
    let scenario = Scenario { must_happen: &[Mark::Grant, Mark::Renewal], ..named("two") };

    assert_eq!(prove(&scenario).complaints, ["a renewal never happens"]);
}

#[test]
fn a_node_that_forgets_unguarded_breaks_exclusion_as_expected() {
    let outcome = prove(&named("forgets"));

    assert_eq!(outcome.complaints, [""; 0]);
    let broken = outcome.broken.expect("a violation");
    assert_eq!(broken.property, Property::Exclusion);
    let text = broken.trace.to_string();
    assert!(text.contains("restarts and has forgotten everything"), "{text}");
    assert!(text.contains("BROKEN: c1 and c2 both hold the lock"), "{text}");
}

#[test]
fn an_expected_violation_that_does_not_come_fails() {
    let scenario = Scenario { expect: Expect::Broken(Property::Exclusion), ..named("two") };

    assert_eq!(prove(&scenario).complaints, ["exclusion holds, but should not"]);
}

#[test]
fn a_planted_mistake_is_found_with_its_shortest_history() {
    let mistake = Mistake { flaw: Some(Flaw::ExtensionShortens), ..Mistake::default() };

    let broken = hunt(&named("short-extension"), mistake).broken.expect("a violation");

    assert_eq!((broken.property, broken.steps), (Property::Exclusion, 13));
    let text = broken.trace.to_string();
    assert!(text.contains("c1 → A: extend c1.1 by 200"), "{text}");
}

#[test]
fn an_undo_that_overtakes_its_take_leaves_a_key_behind() {
    let mistake = Mistake { undos_overtake: true, ..Mistake::default() };

    let broken = hunt(&named("cancel"), mistake).broken.expect("a violation");

    assert_eq!(broken.property, Property::NothingLeft);
}

#[test]
fn a_waiter_is_woken_and_stands_in_no_line_afterwards() {
    for name in ["line-cancel", "line-timeout", "line-cuts"] {
        assert_eq!(prove(&named(name)).complaints, [""; 0], "{name}");
    }
}

#[test]
fn a_node_that_wakes_nobody_strands_the_waiters() {
    let mistake = Mistake { flaw: Some(Flaw::ReservesSilently), ..Mistake::default() };

    let broken = hunt(&named("line-three"), mistake).broken.expect("a violation");

    assert_eq!((broken.property, broken.steps), (Property::Woken, 4));
}

#[test]
fn every_mutant_has_a_name_of_its_own_and_a_scenario_that_holds_without_it() {
    let mutants = mutants::ALL;

    let mut names: Vec<_> = mutants.iter().map(|mutant| mutant.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), mutants.len());
    for mutant in mutants {
        if let mutants::Hunt::Model(scenario) = mutant.hunt {
            assert_eq!(named(scenario).expect, Expect::Holds, "{}", mutant.name);
        }
    }
}
