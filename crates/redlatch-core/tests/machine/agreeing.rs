//! What the clients of some nodes agree on, and what the nodes keep of it.

use core::time::Duration;
use redlatch_core::{
    Admission, Agreement, Facts, Fault, Fingerprint, Identity, Ledger, Mark, Marker, Reply, Taking,
};
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

/// What a server says that votes for clients with `list`, as their node `name`.
fn serving(run: &str, list: &Agreement, name: &str) -> Facts {
    let here = list.at(name);
    let marker = Marker { run: run.into(), fingerprint: here.fingerprint() };
    let identity = Identity { run: run.into(), version: "".into() };
    let agreement = Some(here.to_string().into());
    Facts { marker: Some(marker), agreement, ..Facts::of(identity) }
}

/// Whether `ours` may follow `theirs`, if the servers of ours say this.
fn may_follow(ours: &Agreement, theirs: &Agreement, told: &[(&str, Facts)]) -> bool {
    let told = told.iter().map(|(name, facts)| (*name, facts));
    ours.in_words_of(theirs, told).may_follow(theirs)
}

#[test]
fn a_list_may_follow_one_of_the_same_servers_under_other_names() {
    let (theirs, ours) = (of(&["a", "b", "c"]), of(&["x", "y", "z"]));
    let told = [("x", "b"), ("y", "c"), ("z", "a")]
        .map(|(ours, is)| (ours, serving(&format!("run of {is}"), &theirs, is)));

    assert!(may_follow(&ours, &theirs, &told));
    assert!(!may_follow(&ours, &theirs, &told[..2]), "the third may be another server");
}

#[test]
fn a_name_says_nothing_about_servers_that_vote_under_another() {
    let theirs = of(&["a", "b", "c"]);
    let new = Facts::of(Identity { run: "new".into(), version: "".into() });
    let (a, c) = (serving("1", &theirs, "a"), serving("3", &theirs, "c"));

    // Two of three servers are the same, whatever the names say.
    let told = [("x", new.clone()), ("b", a.clone()), ("c", c.clone())];
    assert!(!may_follow(&of(&["b", "c", "x"]), &theirs, &told));
    let told = [("a", new), ("b", a), ("c", c)];
    assert!(!may_follow(&theirs, &theirs, &told));
}

#[test]
fn what_a_server_says_it_is_counts_only_while_it_votes_as_that() {
    let (theirs, ours) = (of(&["a", "b", "c"]), of(&["b", "c", "x"]));
    let [b, c] = ["b", "c"].map(|name| (name, serving(name, &theirs, name)));
    let a = serving("1", &theirs, "a");
    let follows = |x: Facts| may_follow(&ours, &theirs, &[b.clone(), c.clone(), ("x", x)]);
    assert!(follows(a.clone()));

    let restarted = Identity { run: "2".into(), version: "".into() };
    assert!(!follows(Facts { identity: restarted, ..a.clone() }));
    assert!(!follows(Facts { marker: None, ..a.clone() }));
    let elsewhere = serving("1", &of(&["a", "d", "e"]), "a");
    assert!(!follows(elsewhere), "another list has an `a`, too");
    let words = Facts { agreement: a.agreement, ..serving("1", &theirs, "c") };
    assert!(!follows(words), "it votes as `c`");
}

#[test]
fn a_node_that_others_began_to_take_may_be_taken_back_by_those_it_voted_for_and_no_others() {
    let admission = |nodes: &[&str]| {
        Admission::new(nodes.iter().map(|name| Arc::from(*name)), SECOND, SECOND, false)
    };
    let (ours, theirs) = (admission(&["a", "b", "c"]), admission(&["a", "b"]));
    let mut facts = serving("one", &ours.agreement, "a");
    facts.clock = Some(SECOND);
    assert_eq!(ours.taking(0, &facts), None, "it votes for us");
    let mut ledger = Ledger {
        admitted: facts.marker.as_ref().map(|marker| marker.to_string().into()),
        agreement: facts.agreement.clone(),
        ..Ledger::default()
    };

    ledger.watch(&mut facts, theirs.fingerprint(0), 7, true);

    assert_eq!(ours.taking(0, &facts), Some(Taking::UnderWay));
    assert_eq!(theirs.taking(0, &facts), None, "it is reserved for them");
    assert_eq!(admission(&["a", "b", "c", "d"]).taking(0, &facts), None, "it never voted for them");
    facts.clock = Some(SECOND * 3);
    ledger.tell(&mut facts);
    assert_eq!(ours.taking(0, &facts), Some(Taking::Abandoned), "the window is over");
    let mark = facts.mark.clone().expect("a mark").id;
    let text = theirs.agreement_at(0).to_string().into();
    assert!(ledger.admit("one", theirs.fingerprint(0), &text, &mark));
    ledger.tell(&mut facts);
    assert_eq!(ours.taking(0, &facts), None, "they have finished");
}

#[test]
fn an_observer_reports_the_same_time_as_the_client_that_admits() {
    let names = || ["a", "b", "c"].into_iter().map(Arc::from);
    let admission = Admission::new(names(), SECOND, SECOND, false);
    let window = admission.agreement.window();
    let told = |facts| Reply::Facts(Box::new(facts));
    let voting = |name| told(serving(name, &admission.agreement, name));
    let identity = Identity { run: "forgot".into(), version: "".into() };
    let mark = Some(Mark { id: "forgot 7 0".into(), age: SECOND });
    let out = || told(Facts { mark: mark.clone(), ..Facts::of(identity.clone()) });
    let silent = || Reply::failed(Fault::TimedOut(SECOND));
    let left = |replies: [Reply; 3]| {
        admission.standings(&replies)[0].quarantine().expect("it forgot").remaining
    };

    assert_eq!(left([out(), voting("b"), voting("c")]), Some(window - SECOND));
    assert_eq!(left([out(), voting("b"), silent()]), Some(window * 2 - SECOND), "who knows?");
    let others = told(serving("c", &of(&["c", "d"]), "c"));
    assert_eq!(left([out(), voting("b"), others]), None, "a client that is refused admits nothing");
    let longer = Agreement::new(names(), SECOND * 10, SECOND).at("c");
    let before = told(Facts {
        agreement: Some(longer.to_string().into()),
        ..serving("c", &admission.agreement, "c")
    });
    assert_eq!(left([out(), voting("b"), before]), Some(SECOND * 10), "the longest locks count");
}
