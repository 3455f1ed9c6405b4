//! What was done to a fenced place by many at once, and whether it could be.

use super::token;
use redlatch::FencingToken;
use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

/// What was done and seen. Times are ticks of a counter that all share.
#[derive(Debug, Default)]
pub(crate) struct History {
    clock: AtomicU64,
    acts: Mutex<Vec<Act>>,
    seen: Mutex<Vec<String>>,
}

/// One write or one seal.
#[derive(Debug, Clone)]
pub(crate) struct Act {
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) token: FencingToken,
    /// What was written; none for a seal.
    pub(crate) value: Option<String>,
    /// None if it was applied.
    pub(crate) beaten_by: Option<FencingToken>,
}

impl History {
    pub(crate) fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn did(&self, act: Act) {
        self.acts.lock().expect("no panic").push(act);
    }

    /// Somebody saw this value, after all that they saw before.
    pub(crate) fn saw(&self, value: Option<Vec<u8>>) {
        let mut seen = self.seen.lock().expect("no panic");
        if let Some(value) = value.map(|value| String::from_utf8(value).expect("a value of ours"))
            && seen.last() != Some(&value)
        {
            seen.push(value);
        }
    }

    /// What no fence would have let happen. The last value seen must have been
    /// read after all was done.
    pub(crate) fn faults(&self) -> Vec<String> {
        let acts = self.acts.lock().expect("no panic");
        let (applied, stale): (Vec<&Act>, Vec<&Act>) =
            acts.iter().partition(|act| act.beaten_by.is_none());
        let mut faults = Vec::new();
        if applied.is_empty() || stale.is_empty() {
            faults.push("proves nothing: all were applied, or none".into());
        }
        for late in &applied {
            let before = |act: &&&Act| act.ended < late.began && act.token > late.token;
            if let Some(act) = applied.iter().find(before) {
                faults.push(format!("applied after a greater one was: {late:?}, {act:?}"));
            }
        }
        for act in &stale {
            let by = act.beaten_by.filter(|by| *by > act.token);
            let beat = |other: &&Act| Some(other.token) == by && other.began < act.ended;
            if !applied.iter().any(beat) {
                faults.push(format!("beaten by nobody: {act:?}"));
            }
        }
        faults.extend(self.faults_seen(&applied));
        faults
    }

    fn faults_seen(&self, applied: &[&Act]) -> Vec<String> {
        let seen = self.seen.lock().expect("no panic");
        let writer = |value: &String| applied.iter().find(|act| act.value.as_ref() == Some(value));
        let mut faults = Vec::new();
        for value in seen.iter().filter(|value| writer(value).is_none()) {
            faults.push(format!("seen, but not applied: {value}"));
        }
        let tokens: Vec<_> = seen.iter().filter_map(writer).map(|act| act.token).collect();
        if !tokens.is_sorted() {
            faults.push(format!("the value went back: {seen:?}"));
        }
        let greatest = applied.iter().filter(|act| act.value.is_some()).map(|act| act.token).max();
        if tokens.last().copied() != greatest {
            faults.push(format!("in the end there is {:?}, not {greatest:?}", seen.last()));
        }
        faults
    }
}

/// A history of writes: began, ended, token, beaten by (0: applied).
fn history(acts: &[(u64, u64, u64, u64)], seen: &[&str]) -> History {
    let history = History::default();
    for &(began, ended, number, by) in acts {
        let value = Some(format!("{number}"));
        let beaten_by = FencingToken::new(by);
        history.did(Act { began, ended, token: token(number), value, beaten_by });
    }
    for value in seen {
        history.saw(Some(value.as_bytes().to_vec()));
    }
    history
}

#[test]
fn a_history_that_a_fence_allows_has_no_faults() {
    let fine =
        history(&[(0, 1, 1, 0), (2, 9, 5, 0), (3, 8, 3, 0), (10, 11, 4, 5)], &["1", "3", "5"]);

    assert_eq!(fine.faults(), [""; 0]);
}

#[test]
fn every_fault_in_a_history_is_found() {
    let faults: [(&str, History); 7] = [
        ("proves nothing", history(&[(0, 1, 1, 0), (2, 3, 2, 0)], &["2"])),
        ("applied after", history(&[(0, 1, 5, 0), (2, 3, 4, 0), (4, 5, 1, 5)], &["5"])),
        ("beaten by nobody", history(&[(0, 1, 5, 0), (2, 3, 4, 6)], &["5"])),
        ("beaten by nobody", history(&[(0, 1, 4, 5), (2, 3, 5, 0)], &["5"])),
        ("seen, but not", history(&[(0, 1, 5, 0), (2, 3, 4, 5)], &["4", "5"])),
        ("the value went back", history(&[(0, 5, 5, 0), (1, 4, 4, 0), (6, 7, 1, 5)], &["5", "4"])),
        ("in the end there is", history(&[(0, 5, 5, 0), (1, 4, 4, 0), (6, 7, 1, 5)], &["4"])),
    ];

    for (fault, history) in faults {
        let found = history.faults();
        assert!(found.iter().any(|found| found.starts_with(fault)), "{fault}: {found:?}");
    }
}
