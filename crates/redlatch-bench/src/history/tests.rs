use super::*;

const MS: u64 = 1_000_000;

#[test]
fn a_turn_granted_after_the_end_is_not_counted() {
    let history = History::new(vec![record(&[&[(0, 1, 2), (2, 11, 12)]])], 0, 10 * MS);

    assert_eq!(history.turns(), [[1]]);
    assert_near(history.per_second(), 100.0);
}

#[test]
fn cycles_on_own_locks_count_to_their_end() {
    let history = History::new(vec![record(&[&[(0, 1, 2), (2, 11, 20)]])], 0, 10 * MS);

    assert_near(history.of_own_locks().per_second(), 100.0);
}

#[test]
fn a_handover_counts_from_the_call_of_release_to_the_grant_of_one_who_waited() {
    let first: &[_] = &[(0, 1, 5), (20, 21, 22)];
    let second: &[_] = &[(2, 8, 10)];
    let history = History::new(vec![record(&[first]), record(&[second])], 0, 100 * MS);

    // 5 to 8. The third turn was asked for when the lock had long been free.
    assert_eq!(history.handovers().len(), 1);
    assert_near(history.handovers()[0], 0.003);
}

#[test]
fn a_caller_that_gets_the_lock_twice_in_a_row_hands_nothing_over() {
    let history = History::new(vec![record(&[&[(0, 1, 5), (4, 6, 7)]])], 0, 100 * MS);

    assert_eq!(history.handovers(), [0.0; 0]);
}

#[test]
fn the_fair_share_is_one_mean_turn_for_each_caller() {
    let turns: &[_] = &[(0, 1, 2), (2, 3, 4)];
    let history = History::new(vec![record(&[turns, turns]), record(&[turns])], 0, 12 * MS);

    // Six turns in 12 ms, three callers.
    assert_eq!(history.fair_share().map(|share| (share * 1e6).round()), Some(6_000.0));
    assert_eq!(History::default().fair_share(), None);
}

#[test]
fn two_holders_at_once_are_found_in_whatever_order_they_came() {
    let calm: &[_] = &[(0, 1, 5), (6, 7, 8)];
    let within: &[_] = &[(0, 2, 3), (3, 4, 5)];
    let after: &[_] = &[(0, 5, 6)];
    let of = |other| History::new(vec![record(&[calm]), record(&[other])], 0, 100 * MS);

    assert_eq!(of(within).violations(), 2);
    assert_eq!(of(after).violations(), 0);
}

#[test]
fn a_fencing_token_that_does_not_grow_is_a_violation() {
    let with = |tokens: [u64; 3]| {
        let turn =
            |n: u64, token| Turn { asked: n, granted: n, releasing: n + 1, released: n + 1, token };
        let turns = (0..).step_by(2).zip(tokens).map(|(n, token)| turn(n, token)).collect();
        History::new(vec![Record { callers: vec![turns], ..Record::default() }], 0, 10)
    };

    assert_eq!(with([1, 2, 3]).violations(), 0);
    assert_eq!(with([1, 3, 3]).violations(), 1);
    assert_eq!(with([3, 1, 2]).violations(), 2);
    assert_eq!(with([0, 0, 0]).violations(), 0);
}

#[test]
fn shares_are_compared_within_and_between_processes() {
    let shares = shares(&[vec![100, 125], vec![300, 300]]);

    assert_eq!(shares.within_processes().map(|uneven| uneven.ratio), Some(1.25));
    assert_near(shares.between_processes().map_or(0.0, |uneven| uneven.ratio), 600.0 / 225.0);
    assert_eq!(shares.between_callers().map(|uneven| uneven.ratio), Some(3.0));
}

#[test]
fn one_turn_more_in_each_round_is_where_the_slice_was_cut() {
    let cut = |turns: &[Vec<u64>], bound| {
        shares(turns).within_processes().is_some_and(|uneven| uneven.is_within(bound))
    };

    assert!(cut(&[vec![5, 6]], 1.1));
    assert!(!cut(&[vec![5, 7]], 1.1));
    assert!(!cut(&[vec![0, 1]], 1.1), "who has no turn at all starves");
    assert!(cut(&[vec![10, 11]], 1.1));
}

#[test]
fn a_process_with_one_caller_has_nothing_to_share() {
    assert_eq!(shares(&[vec![7], vec![8]]).within_processes(), None);
}

#[test]
fn rounds_add_up_caller_by_caller() {
    let mut shares = Shares::default();

    shares.add(&[vec![10, 20]]);
    shares.add(&[vec![20, 10]]);

    assert_eq!(shares.within_processes().map(|uneven| uneven.ratio), Some(1.0));
}

fn shares(turns: &[Vec<u64>]) -> Shares {
    let mut shares = Shares::default();
    shares.add(turns);
    shares
}

/// Turns as (asked, granted, releasing), in milliseconds.
fn record(callers: &[&[(u64, u64, u64)]]) -> Record {
    let turn = |&(asked, granted, releasing): &(u64, u64, u64)| Turn {
        asked: asked * MS,
        granted: granted * MS,
        releasing: releasing * MS,
        released: releasing * MS,
        token: 0,
    };
    let callers = callers.iter().map(|turns| turns.iter().map(turn).collect()).collect();
    Record { callers, ..Record::default() }
}

#[track_caller]
fn assert_near(figure: f64, expected: f64) {
    assert!((figure - expected).abs() < 1e-9, "{figure} is not {expected}");
}
