//! What the clients of some nodes agree on, and what the nodes keep of it.

use core::time::Duration;
use redlatch_core::{Agreement, Facts, Fingerprint, Identity, Ledger};
use std::sync::Arc;

const SECOND: Duration = Duration::from_secs(1);

fn of(nodes: &[&str]) -> Agreement {
    Agreement::new(nodes.iter().map(|name| Arc::from(*name)), SECOND, SECOND)
}

/// With two nodes more or less, a majority of each list need not share a node.
#[test]
fn a_list_may_follow_one_that_differs_by_one_node_and_no_other() {
    let three = of(&["a", "b", "c"]);

    for near in [of(&["c", "a", "b"]), of(&["a", "b", "c", "d"]), of(&["a", "b"])] {
        assert!(three.may_follow(&near) && near.may_follow(&three), "{near}");
    }
    for far in [of(&["a", "b", "d"]), of(&["a", "b", "c", "d", "e"]), of(&["a"])] {
        assert!(!three.may_follow(&far) && !far.may_follow(&three), "{far}");
    }
}

#[test]
fn a_fingerprint_has_sixteen_hexadecimal_digits() {
    let fingerprint = of(&["a"]).fingerprint();
    let text = fingerprint.to_string();

    assert_eq!(Fingerprint::parse(&text), Some(fingerprint));
    for other in ["", "ff", &text[1..], &format!("0{text}"), "+fffffffffffffff", "xfffffffffffffff"]
    {
        assert_eq!(Fingerprint::parse(other), None, "{other}");
    }
}

#[test]
fn a_node_that_was_admitted_is_reserved_for_nobody_and_has_no_mark() {
    let identity = Identity { run: "one".into(), version: "".into() };
    let mut facts = Facts { clock: Some(SECOND), ..Facts::of(identity) };
    let (guard, mut ledger) = (of(&["a"]).fingerprint(), Ledger::default());
    ledger.watch(&mut facts, guard, 7, true);
    assert_eq!(facts.reserved, Some(guard));
    let mark = facts.mark.clone().expect("a mark").id;

    assert!(ledger.admit("one", guard, &"words".into(), &mark));

    ledger.tell(&mut facts);
    assert_eq!((facts.reserved, facts.mark), (None, None));
    assert_eq!(facts.agreement.as_deref(), Some("words"));
}
