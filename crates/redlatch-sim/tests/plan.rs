//! Planning gives the known answer where there is one.

use serde_json::Value;
use std::process::Command;

fn plan(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redlatch-sim"));
    let output = command.arg("plan").args(args).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn figures(args: &[&str]) -> Value {
    let json = plan(&[&["--json"], args].concat());
    serde_json::from_str::<Value>(&json).expect("JSON")[0].clone()
}

fn between(value: &Value, least: f64, most: f64) -> bool {
    value.as_f64().is_some_and(|value| (least..=most).contains(&value))
}

#[test]
fn a_free_lock_takes_one_round_trip_to_the_majority() {
    let few = ["--clients", "10", "--locks", "1000", "--requests", "1000", "--topology"];

    let lan = figures(&[&few[..], &["lan"]].concat());
    let continents = figures(&[&few[..], &["continents"]].concat());

    assert!(between(&lan["acquire"]["p50"], 200.0, 280.0), "{lan}");
    assert!(between(&lan["messages"], 19.5, 20.5), "{lan}");
    assert_eq!(lan["availability"], 1.0);
    assert!(between(&continents["acquire"]["p50"], 80_000.0, 180_000.0), "{continents}");
}

#[test]
fn a_minority_that_is_down_costs_nothing_and_a_majority_everything() {
    let few = ["--topology", "lan", "--clients", "10", "--requests", "500", "--wait", "100ms"];

    let two = figures(&[&few[..], &["--failing", "2"]].concat());
    let three = figures(&[&few[..], &["--failing", "3"]].concat());

    assert_eq!(two["availability"], 1.0);
    assert!(between(&two["acquire"]["p50"], 200.0, 300.0), "{two}");
    assert_eq!(three["availability"], 0.0);
}

#[test]
fn the_same_seed_is_the_same_answer() {
    let args = ["--clients", "50", "--locks", "5", "--requests", "2000", "--seed", "7"];

    assert_eq!(plan(&args), plan(&args));
}
