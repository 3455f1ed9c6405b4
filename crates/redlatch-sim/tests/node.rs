//! The virtual node does what nodes promise, and nothing else.

use redlatch_core::{
    Agreement, Command, FencingToken, Fingerprint, Moment, Proposal, Reply, Resources, Token, Vote,
};
use redlatch_sim::node::{Clock, Flaw, Habits, Node};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

fn at(millis: u32) -> Clock {
    Clock { now: Moment::START.after(millis * MS), wall: 0 }
}

fn lock() -> Resources {
    Resources::new(["lock"]).expect("a good name")
}

fn token(owner: &str) -> Token {
    Token::from_bytes(owner.as_bytes())
}

fn take(owner: &str, fingerprint: Option<Fingerprint>) -> Command {
    let fence = Some(Proposal::new(0, Duration::ZERO));
    Command::Take {
        resources: lock(),
        token: token(owner),
        ttl: 1000 * MS,
        fence,
        fingerprint,
        place: None,
    }
}

fn extend(owner: &str, ttl: u32) -> Command {
    let ttl = ttl * MS;
    Command::Extend { resources: lock(), token: token(owner), ttl, fence: None, fingerprint: None }
}

fn ask(node: &mut Node, clock: Clock, command: &Command) -> Vote {
    match node.carry_out(clock, command, Habits { discreet: true, ..Habits::default() }) {
        Reply::Vote(vote) => vote,
        other => panic!("{other:?}"),
    }
}

fn number(number: u64) -> Vote {
    Vote::Numbered(FencingToken::new(number).expect("a number"))
}

fn dies(node: &Node) -> Option<Moment> {
    node.contents.keys.values().next().map(|key| key.dies)
}

#[test]
fn a_key_is_one_owners_until_it_dies_and_numbers_grow() {
    let mut node = Node::server(0);

    assert_eq!(ask(&mut node, at(0), &take("a", None)), number(1));
    assert!(matches!(ask(&mut node, at(999), &take("b", None)), Vote::Held(_)));
    assert_eq!(ask(&mut node, at(1000), &take("b", None)), number(2));
}

#[test]
fn a_release_deletes_the_owners_key_alone() {
    let mut node = Node::server(0);
    ask(&mut node, at(0), &take("a", None));
    let release = |owner| Command::Release { resources: lock(), token: token(owner), then: None };

    assert_eq!(ask(&mut node, at(1), &release("b")), Vote::Gone);
    assert!(!node.contents.keys.is_empty());
    assert_eq!(ask(&mut node, at(1), &release("a")), Vote::Granted);
    assert!(node.contents.keys.is_empty());
}

#[test]
fn an_extension_lengthens_and_never_shortens_unless_that_is_its_flaw() {
    let mut node = Node::server(0);
    ask(&mut node, at(0), &take("a", None));

    assert_eq!(ask(&mut node, at(500), &extend("a", 100)), Vote::Granted);
    assert_eq!(dies(&node), Some(at(1000).now));
    assert_eq!(ask(&mut node, at(500), &extend("a", 1000)), Vote::Granted);
    assert_eq!(dies(&node), Some(at(1500).now));
    assert_eq!(ask(&mut node, at(500), &extend("b", 1000)), Vote::Gone);

    let flawed = Habits { flaw: Some(Flaw::ExtensionShortens), ..Habits::default() };
    node.carry_out(at(500), &extend("a", 100), flawed);
    assert_eq!(dies(&node), Some(at(600).now));
}

#[test]
fn a_node_that_forgot_is_quarantined_until_it_is_admitted() {
    let names = ["a", "b", "c"].map(Into::into);
    let fingerprint = Agreement::new(names, 1000 * MS, Duration::ZERO).fingerprint();
    let mut node = Node::server(0);
    node.admit_now(fingerprint, "");
    assert_eq!(ask(&mut node, at(0), &take("a", Some(fingerprint))), number(1));

    node.forget(at(1).now);
    assert!(!node.is_admitted(fingerprint));
    assert!(matches!(ask(&mut node, at(1), &take("b", Some(fingerprint))), Vote::Quarantined(_)));

    let watch = Command::Watch { fingerprint, nonce: 7, replace: false };
    let Reply::Facts(facts) = node.carry_out(at(1), &watch, Habits::default()) else {
        panic!("no facts");
    };
    let mark = facts.mark.expect("a mark").id;
    let floor = FencingToken::new(9);
    let admit = Command::Admit { fingerprint, agreement: "".into(), mark, floor };
    assert_eq!(ask(&mut node, at(2), &admit), Vote::Granted);
    assert_eq!(ask(&mut node, at(2), &take("b", Some(fingerprint))), number(10));
}

#[test]
fn what_was_swapped_away_is_disowned_as_soon_as_the_node_is_seen_in_quarantine() {
    let names = ["a", "b", "c"].map(Into::into);
    let fingerprint = Agreement::new(names, 1000 * MS, Duration::ZERO).fingerprint();
    let mut node = Node::server(0);
    node.admit_now(fingerprint, "");

    node.swap();
    node.swap();
    assert!(node.is_admitted(fingerprint), "nobody has relied on the other database");

    node.swap();
    node.carry_out(
        at(1),
        &Command::Watch { fingerprint, nonce: 7, replace: false },
        Habits::default(),
    );
    node.swap();
    assert!(!node.is_admitted(fingerprint), "a lease may have been put where it is not seen now");
}
