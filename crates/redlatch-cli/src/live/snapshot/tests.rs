use super::*;
use crate::live::changes::Kind;

const NODES: usize = 3;
const TTL: Duration = Duration::from_secs(30);

/// Looks, two seconds apart.
struct Looks {
    at: Instant,
    last: Option<Snapshot>,
    stands: [Stands; NODES],
    runs: [&'static str; NODES],
}

impl Looks {
    fn new() -> Self {
        Looks {
            at: Instant::now(),
            last: None,
            stands: [Stands::Admitted; NODES],
            runs: ["1"; NODES],
        }
    }

    /// Sees these locks. Returns what that means, and what is new.
    fn see(&mut self, locks: &[Lock]) -> (Snapshot, Vec<(Kind, String)>) {
        self.at += Duration::from_secs(2);
        let node = |(at, stands): (usize, Stands)| Node {
            name: ["A", "B", "C"][at].into(),
            address: None,
            standing: stands,
            left: None,
            reason: None,
            round_trip: None,
            clock_ahead: None,
            has_begun: None,
            lists: stands != Stands::Down,
            run: Some(self.runs[at].into()),
        };
        let mut locks = locks.to_vec();
        for lock in &mut locks {
            lock.first_seen = self.at;
        }
        let nodes = self.stands.into_iter().enumerate().map(node).collect();
        let findings = Vec::new();
        let sight = Sight { at: self.at, time: SystemTime::now(), nodes, locks, findings };
        let known = self.last.as_ref().map_or(0, |last| last.changes.len());
        let snapshot = Snapshot::new(sight, self.last.as_ref());
        let new = &snapshot.changes[..snapshot.changes.len() - known];
        let new =
            new.iter().map(|change| (change.kind, format!("{} {}", change.name, change.words)));
        let new = new.collect();
        self.last = Some(snapshot.clone());
        (snapshot, new)
    }
}

fn held(name: &str, owner: &str, left: u64) -> Lock {
    let left = Duration::from_secs(left);
    Lock {
        id: name.into(),
        name: name.into(),
        state: State::Held,
        owner: Some(owner.into()),
        host: None,
        pid: None,
        user: None,
        command: None,
        since: None,
        held_for: Duration::ZERO,
        first_seen: Instant::now(),
        seen: Duration::ZERO,
        waiters: Some(0),
        fencing_token: None,
        remaining: Some(left),
        longest: left,
        is_renewed: true,
        runs_out: None,
        was_held: false,
        is_unseen: false,
        on: NODES,
    }
}

fn unclear(name: &str, owner: &str) -> Lock {
    Lock { state: State::Unclear, remaining: None, on: 1, ..held(name, owner, 0) }
}

fn one(kind: Kind, words: &str) -> Vec<(Kind, String)> {
    vec![(kind, words.into())]
}

#[test]
fn a_lock_that_comes_passes_on_and_goes_is_told() {
    let mut looks = Looks::new();
    assert_eq!(looks.see(&[held("x", "ada", 30)]).1, [], "it was there before us");

    let (seen, new) = looks.see(&[held("x", "ada", 28), held("y", "bob", 30)]);

    assert_eq!(new, one(Kind::Taken, "y taken by bob"));
    assert_eq!(seen.locks[0].seen, Duration::from_secs(2));
    let (seen, new) = looks.see(&[held("x", "eve", 30), held("y", "bob", 30)]);
    assert_eq!(new, one(Kind::Taken, "x passed from ada to eve"));
    assert_eq!(seen.locks[0].seen, Duration::ZERO);
    assert_eq!(looks.see(&[held("x", "eve", 30)]).1, one(Kind::Freed, "y free; bob had it"));
}

#[test]
fn a_lock_that_its_owner_takes_anew_counts_and_one_that_is_reserved_is_not_held() {
    let since = |name, seconds| Lock {
        since: SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
        ..held(name, "ada", 30)
    };
    let mut looks = Looks::new();
    looks.see(&[since("x", 1), since("y", 1)]);

    let (seen, new) =
        looks.see(&[since("x", 2), Lock { state: State::Reserved, ..held("y", "bob", 1) }]);

    let again = (Kind::Taken, "x taken again by ada".to_owned());
    assert_eq!(new, [again, (Kind::Freed, "y free; ada had it, and bob is next".into())]);
    assert_eq!((seen.held, seen.rates.unwrap().taken), (Some(1), 1));
    let (_, new) = looks.see(&[since("x", 2), held("y", "bob", 30)]);
    assert_eq!(new, one(Kind::Taken, "y taken by bob"));
}

#[test]
fn a_lock_that_ends_because_nobody_renewed_it_is_lost() {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30)]);
    let (seen, _) = looks.see(&[held("x", "ada", 14)]);
    assert!(!seen.locks[0].is_renewed);
    let (_, new) = looks.see(&[held("x", "ada", 1)]);
    assert_eq!(new, []);

    let (_, new) = looks.see(&[]);

    assert_eq!(new, one(Kind::Lost, "x ended: ada had not renewed it"));
}

#[test]
fn a_lock_that_runs_out_node_by_node_is_lost_too() {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30)]);
    looks.see(&[held("x", "ada", 1)]);
    assert_eq!(looks.see(&[unclear("x", "ada")]).1, []);

    assert_eq!(looks.see(&[]).1, one(Kind::Lost, "x ended: ada had not renewed it"));
}

#[test]
fn a_lock_that_ends_while_the_next_one_takes_it_is_told() {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30), held("y", "bob", 30)]);
    looks.see(&[held("x", "ada", 1), held("y", "bob", 30)]);

    let (_, new) = looks.see(&[unclear("x", "eve"), unclear("y", "eve")]);

    let lost = (Kind::Lost, "x ended: ada had not renewed it".to_owned());
    assert_eq!(new, [lost, (Kind::Freed, "y free; bob had it".into())]);
    let (_, new) = looks.see(&[held("x", "eve", 30), held("y", "eve", 30)]);
    let words: Vec<_> = new.iter().map(|(_, words)| &**words).collect();
    assert_eq!(words, ["x taken by eve", "y taken by eve"]);
}

#[test]
fn a_lock_that_is_always_about_to_end_is_not_lost_when_it_is_released() {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 1)]);
    looks.see(&[held("x", "ada", 1)]);

    assert_eq!(looks.see(&[]).1, one(Kind::Freed, "x free; ada had it"));
}

#[test]
fn unclear_is_told_when_it_stays_so_and_not_of_a_release_under_way() {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30), held("y", "bob", 30)]);
    let (seen, new) = looks.see(&[unclear("x", "ada"), unclear("y", "bob")]);
    assert_eq!((new, seen.worst()), (vec![], None));

    let (seen, new) = looks.see(&[unclear("x", "ada")]);

    let lost = (Kind::Lost, "x no majority: 1 of 3 nodes has ada's lock".to_owned());
    assert_eq!(new, [lost, (Kind::Freed, "y free; bob had it".into())]);
    let words = "the lock x is unclear: 1 of 3 nodes has ada's lock";
    assert_eq!(seen.findings[0].words, words);
    assert_eq!(looks.see(&[unclear("x", "ada")]).1, [], "it is told once");
}

#[test]
fn locks_that_nobody_could_tell_about_are_not_free() {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30)]);
    looks.stands = [Stands::Admitted, Stands::Down, Stands::Quarantined];

    let (seen, new) = looks.see(&[]);

    assert_eq!(
        new.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(),
        [Kind::Trouble, Kind::Trouble]
    );
    assert_eq!((seen.has_majority(), seen.is_complete), (false, false));
    let words = "no lock can be taken: 1 of 3 nodes may vote, 2 must";
    assert_eq!((seen.worst(), &*seen.findings[0].words), (Some(Level::Problem), words));
    looks.stands = [Stands::Admitted; NODES];
    let (_, new) = looks.see(&[held("x", "ada", 30)]);
    assert!(new.iter().all(|(kind, _)| *kind == Kind::Back), "{new:?}");
}

/// Ada holds `x` and bob holds `y`; then two nodes are down for two looks.
fn in_an_outage() -> Looks {
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30), held("y", "bob", 30)]);
    looks.stands = [Stands::Admitted, Stands::Down, Stands::Down];
    for _ in 0..2 {
        let (seen, new) = looks.see(&[unclear("x", "ada")]);
        assert!(new.iter().all(|(kind, _)| *kind == Kind::Trouble), "{new:?}");
        assert_eq!((seen.held, seen.waiting, seen.locks[0].waiters), (None, None, None));
        assert_eq!((seen.rates, seen.losses), (None, None));
    }
    looks.stands = [Stands::Admitted; NODES];
    looks
}

/// The changes, except for nodes that are back.
fn of_locks(new: Vec<(Kind, String)>) -> Vec<(Kind, String)> {
    new.into_iter().filter(|(kind, _)| *kind != Kind::Back).collect()
}

#[test]
fn locks_that_are_gone_after_an_outage_may_have_been_lost() {
    let unseen = |name: &str, whose: &str| {
        let words = "gone during the outage: released or lost, nobody could see";
        (Kind::Unseen, format!("{name} {whose}'s lock is {words}"))
    };
    let mut looks = in_an_outage();

    let (seen, new) = looks.see(&[held("x", "eve", 30)]);

    let taken = (Kind::Taken, "x taken by eve".to_owned());
    assert_eq!(of_locks(new), [taken, unseen("x", "ada"), unseen("y", "bob")]);
    let losses = seen.losses.unwrap();
    assert_eq!((losses.lost, losses.unseen, &*losses.count()), (0, 2, "0 to 2"));
    let words = "gone during the outage, nobody could see whether released or lost: x, y";
    assert_eq!(seen.findings[0].words, words);
    let (seen, new) = looks.see(&[held("x", "eve", 30)]);
    assert_eq!((new, seen.losses), (vec![], Some(losses)), "it is told once");

    let mut looks = in_an_outage();
    let (_, new) = looks.see(&[unclear("x", "ada"), held("y", "bob", 30)]);
    assert_eq!(of_locks(new), [], "it may be on its way back");
    assert_eq!(looks.see(&[held("y", "bob", 30)]).1, [unseen("x", "ada")]);

    let mut looks = in_an_outage();
    let (_, new) = looks.see(&[unclear("x", "eve"), held("y", "bob", 30)]);
    assert_eq!(of_locks(new), [unseen("x", "ada")], "the next one is about to take it");
    let (_, new) = looks.see(&[held("x", "eve", 30), held("y", "bob", 30)]);
    assert_eq!(new, one(Kind::Taken, "x taken by eve"));
}

#[test]
fn locks_that_outlive_an_outage_have_been_seen_all_the_time() {
    let mut looks = in_an_outage();

    let (seen, new) = looks.see(&[held("x", "ada", 30), held("y", "bob", 30)]);

    assert_eq!((of_locks(new), seen.worst()), (vec![], None));
    assert_eq!(seen.locks[0].seen, Duration::from_secs(6));
    assert!(!seen.losses.unwrap().is_any());
}

#[test]
fn a_lock_that_is_gone_after_a_majority_has_restarted_may_have_been_lost() {
    let restarted =
        |which| (Kind::Trouble, format!("{which} restarted: it may have forgotten locks"));
    let mut looks = Looks::new();
    looks.see(&[held("x", "ada", 30), held("y", "bob", 30)]);
    looks.runs[0] = "2";
    let (_, new) = looks.see(&[held("x", "ada", 30)]);
    assert_eq!(new, [restarted("A"), (Kind::Freed, "y free; bob had it".into())]);
    looks.runs = ["2", "3", "3"];

    let (seen, new) = looks.see(&[]);

    assert_eq!(new[..2], [restarted("B"), restarted("C")]);
    assert_eq!((new[2].0, seen.losses.unwrap().unseen), (Kind::Unseen, 1));
}

#[test]
fn losses_are_counted_since_the_first_look_and_are_not_forgotten() {
    let mut looks = Looks::new();
    let (first, _) = looks.see(&[held("x", "ada", 30)]);
    assert_eq!(first.losses, None, "there was nothing to compare with");
    looks.see(&[held("x", "ada", 1)]);
    looks.see(&[]);

    for turn in 0..100 {
        looks.see(&[held("y", if turn % 2 == 0 { "bob" } else { "ada" }, TTL.as_secs())]);
    }

    let seen = looks.last.unwrap();
    assert_eq!(seen.losses, Some(Losses { since: first.time, lost: 1, unseen: 0 }));
    assert_eq!(seen.changes.last().unwrap().words, "ended: ada had not renewed it");
}

#[test]
fn rates_are_of_the_last_minute() {
    let mut looks = Looks::new();
    looks.see(&[]);
    let (seen, _) = looks.see(&[held("x", "ada", 30), held("y", "ada", 30)]);
    let rates = seen.rates.unwrap();
    assert_eq!((rates.taken, rates.window_ms), (2, 2000));
    assert!((rates.taken_per_second - 1.0).abs() < 1e-9);

    for turn in 0..100 {
        looks.see(&[held("x", if turn % 2 == 0 { "bob" } else { "ada" }, TTL.as_secs())]);
    }

    let rates = looks.last.unwrap().rates.unwrap();
    assert_eq!((rates.taken, rates.window_ms), (30, 60_000));
    assert!((rates.taken_per_second - 0.5).abs() < 1e-9);
}
