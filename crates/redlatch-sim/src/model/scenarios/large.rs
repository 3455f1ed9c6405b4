//! Large scenarios: as much at once as minutes allow.

use super::*;

pub(super) fn all() -> Vec<Scenario> {
    vec![Scenario {
        name: "three",
        about: "three clients, nothing goes wrong",
        scripts: &[ONCE, ONCE, ONCE],
        ..PLAIN
    }]
}
