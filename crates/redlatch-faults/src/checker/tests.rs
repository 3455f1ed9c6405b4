//! The checker finds what is planted, and nothing else.

use super::*;
use crate::history::{Event, Nanos};

/// A history in the making.
#[derive(Default)]
struct Story {
    tracks: Vec<Track>,
}

impl Story {
    fn event(mut self, who: &str, at: Nanos, attempt: u64, what: What) -> Self {
        let event = Event { at, attempt, what };
        match self.tracks.iter_mut().find(|track| track.who == who) {
            Some(track) => track.events.push(event),
            None => self.tracks.push(Track { who: who.into(), events: vec![event] }),
        }
        self
    }

    /// One whole hold: requested, granted, believed until, one write each.
    fn hold(self, who: &str, times: [Nanos; 3], token: u64, value: u64) -> Self {
        let [tried, granted, held] = times;
        let resource = "stock".to_owned();
        let write = |counter| What::Write { counter, value };
        self.event(who, tried, tried, What::Try { resource })
            .event(who, granted, tried, What::Granted { token, left: 1_000 })
            .event(who, held, tried, write(Counter::Fenced))
            .event(who, held, tried, What::Applied(Counter::Fenced))
            .event(who, held, tried, write(Counter::Unfenced))
            .event(who, held, tried, What::Applied(Counter::Unfenced))
            .event(who, held, tried, What::Held)
            .event(who, held + 1, tried, What::Released("now".into()))
    }

    fn ending(self, counter: Counter, value: u64) -> Self {
        let resource = "stock".to_owned();
        self.event("harness", 9_999, 0, What::Final { counter, resource, value })
    }

    fn check(&self) -> Findings {
        check(&self.tracks)
    }
}

/// Three holds, one after the other, all correct.
fn clean() -> Story {
    Story::default()
        .hold("a", [10, 20, 30], 1, 1)
        .hold("b", [11, 40, 50], 2, 2)
        .hold("a", [51, 60, 70], 3, 3)
        .ending(Counter::Fenced, 3)
        .ending(Counter::Unfenced, 3)
}

#[test]
fn a_clean_history_is_clean() {
    let findings = clean().check();

    assert_eq!(findings.acquisitions, 3);
    assert_eq!(findings.overlaps, []);
    assert_eq!(findings.token_faults, []);
    assert_eq!((findings.fenced.applied, findings.fenced.lost), (3, 0));
    assert_eq!((findings.unfenced.applied, findings.unfenced.lost), (3, 0));
    assert_eq!(findings.breaches(), [""; 0]);
}

#[test]
fn a_planted_overlap_is_found_with_who_and_how_long() {
    let findings = clean().hold("c", [61, 65, 90], 4, 4).check();

    let [overlap] = &findings.overlaps[..] else { panic!("{:?}", findings.overlaps) };
    assert_eq!((overlap.first.as_str(), overlap.second.as_str()), ("a #51", "c #61"));
    assert_eq!((overlap.from, overlap.until), (65, 70));
}

#[test]
fn an_overlap_with_one_that_began_long_before_is_found_behind_others() {
    let findings = Story::default()
        .hold("a", [10, 20, 100], 1, 1)
        .hold("b", [11, 30, 40], 2, 2)
        .hold("c", [12, 90, 95], 3, 3)
        .check();

    assert_eq!(findings.overlaps.len(), 2, "{:?}", findings.overlaps);
}

#[test]
fn beliefs_that_only_touch_or_are_of_other_resources_do_not_overlap() {
    let other = What::Try { resource: "other".into() };
    let findings = Story::default()
        .hold("a", [10, 20, 30], 1, 1)
        .hold("b", [11, 30, 40], 2, 2)
        .event("c", 12, 1, other)
        .event("c", 21, 1, What::Granted { token: 9, left: 1 })
        .event("c", 29, 1, What::Held)
        .check();

    assert_eq!(findings.overlaps, []);
}

#[test]
fn a_guard_whose_caller_never_asked_whether_it_is_held_believes_nothing() {
    let findings = clean()
        .event("c", 5, 1, What::Try { resource: "stock".into() })
        .event("c", 6, 1, What::Granted { token: 9, left: 1_000 })
        .check();

    assert_eq!(findings.overlaps, []);
}

#[test]
fn a_planted_repeat_of_a_token_is_found() {
    // Overlapping, so that order does not matter.
    let findings = clean().hold("c", [50, 80, 90], 3, 4).check();

    let [fault] = &findings.token_faults[..] else { panic!("{:?}", findings.token_faults) };
    assert!(matches!(fault, TokenFault::Repeated { token: 3, .. }), "{fault}");
}

#[test]
fn a_planted_disorder_is_found_though_the_token_is_new() {
    let findings = clean().hold("c", [71, 80, 90], 0, 4).check();

    let [fault] = &findings.token_faults[..] else { panic!("{:?}", findings.token_faults) };
    let expected = TokenFault::Disordered {
        resource: "stock".into(),
        token: 0,
        who: "c #71".into(),
        earlier: "a #51".into(),
        greater: 3,
    };
    assert_eq!(*fault, expected);
}

#[test]
fn grants_that_were_under_way_together_may_have_their_tokens_in_any_order() {
    let findings =
        Story::default().hold("a", [10, 20, 25], 7, 1).hold("b", [15, 30, 35], 6, 2).check();

    assert_eq!(findings.token_faults, []);
}

#[test]
fn a_planted_lost_update_is_found_by_the_value_written_twice() {
    // The next writer counted on from the lost one, so the final value looks right.
    let ended = clean().ending(Counter::Fenced, 4).ending(Counter::Unfenced, 4);
    let findings = ended.hold("c", [71, 80, 90], 4, 3).check();

    assert_eq!((findings.fenced.lost, findings.unfenced.lost), (1, 1));
}

#[test]
fn a_planted_lost_update_is_found_by_the_end_of_the_counter() {
    let findings = clean().ending(Counter::Unfenced, 1).check();

    assert_eq!((findings.fenced.lost, findings.unfenced.lost), (0, 2));
}

#[test]
fn a_write_that_was_refused_or_never_acknowledged_is_not_lost() {
    let again = |outcome: Option<What>| {
        let resource = "stock".to_owned();
        let story = clean()
            .event("c", 71, 1, What::Try { resource })
            .event("c", 72, 1, What::Granted { token: 4, left: 1 })
            .event("c", 73, 1, What::Write { counter: Counter::Fenced, value: 3 });
        match outcome {
            Some(outcome) => story.event("c", 74, 1, outcome).check().fenced,
            None => story.check().fenced,
        }
    };

    assert_eq!(
        again(Some(What::Stale(Counter::Fenced))),
        Counters { applied: 3, stale: 1, lost: 0 }
    );
    assert_eq!(again(None), Counters { applied: 3, stale: 0, lost: 0 });
    assert_eq!(again(Some(What::Applied(Counter::Fenced))).lost, 1);
}

#[test]
fn recovery_counts_from_the_end_of_a_fault_to_the_next_grant() {
    let findings = clean()
        .event("harness", 15, 0, What::Begin("kill".into()))
        .event("harness", 25, 0, What::End("kill".into()))
        .event("harness", 26, 0, What::Begin("kill".into()))
        .event("harness", 41, 0, What::End("kill".into()))
        .event("harness", 55, 0, What::Begin("kill".into()))
        .event("harness", 61, 0, What::End("kill".into()))
        .check();

    let slowest = Some(Duration::from_nanos(19));
    assert_eq!(findings.recovery, Recovery { faults: 3, during: 3, slowest, without: 1 });
}

#[test]
fn a_key_left_behind_is_a_breach() {
    let left = What::Left { node: "redis://a".into(), key: "stock".into() };
    let findings = clean().event("harness", 99, 0, left).check();

    assert_eq!(findings.breaches(), ["left behind: stock on redis://a"]);
}
