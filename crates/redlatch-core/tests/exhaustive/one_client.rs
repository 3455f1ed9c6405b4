//! One client and three nodes: whatever becomes of each take, in every order.

use crate::support::{Cut, Lock, MS, Mode, NODE_TIMEOUT, TTL, World};
use redlatch_core::{AcquireError, Command};

/// What becomes of the take on one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Answered,
    ReplyLost,
    Lost,
    HeldByAnother,
    Unreachable,
    CutAfterIt,
    CutBeforeIt,
    VeryLate,
}

const FATES: [Fate; 8] = [
    Fate::Answered,
    Fate::ReplyLost,
    Fate::Lost,
    Fate::HeldByAnother,
    Fate::Unreachable,
    Fate::CutAfterIt,
    Fate::CutBeforeIt,
    Fate::VeryLate,
];

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// How a grant ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Released,
    Cancelled,
    Lapsed,
}

fn every_history(check: impl Fn([Fate; 3], [usize; 3], End)) {
    for code in 0..FATES.len().pow(3) {
        let fates = [code % 8, code / 8 % 8, code / 64].map(|at| FATES[at]);
        for order in ORDERS {
            for end in [End::Released, End::Cancelled, End::Lapsed] {
                check(fates, order, end);
            }
        }
    }
}

/// The attempt up to its decision, with every line held for what comes after.
fn attempt(fates: [Fate; 3], order: [usize; 3]) -> (World, Lock) {
    let mut world = World::of(3);
    world.all_lines(Mode::Held);
    for node in (0..3).filter(|node| fates[*node] == Fate::HeldByAnother) {
        world.occupy(node);
    }
    let lock = world.acquire();
    for node in order {
        befall(&mut world, node, fates[node]);
    }
    world.pass(NODE_TIMEOUT);
    (world, lock)
}

/// What comes behind the take on the line, if anything, is not touched but by
/// a cut.
fn befall(world: &mut World, node: usize, fate: Fate) {
    match fate {
        Fate::Answered | Fate::HeldByAnother => {
            world.carry_out_one(0, node);
            world.answer_one(0, node);
        }
        Fate::ReplyLost => {
            world.carry_out_one(0, node);
            world.lose(node);
        }
        Fate::Lost => world.lose(node),
        Fate::Unreachable => world.refuse(node),
        Fate::CutAfterIt => {
            world.carry_out_one(0, node);
            world.cut(node, Cut::NotCarriedOut);
        }
        Fate::CutBeforeIt => world.cut(node, Cut::NotCarriedOut),
        Fate::VeryLate => {}
    }
}

fn end(world: &mut World, lock: Lock, end: End) {
    match end {
        End::Released => world.release(lock),
        End::Cancelled => world.cancel(lock),
        End::Lapsed => world.pass(TTL),
    }
}

#[test]
fn every_attempt_has_exactly_one_answer_and_it_is_the_right_one() {
    every_history(|fates, order, _| {
        let (world, lock) = attempt(fates, order);

        let count = |wanted| fates.iter().filter(|fate| **fate == wanted).count();
        let history = format!("{fates:?} in the order {order:?}");
        match world.acquired(lock).expect("an answer") {
            Ok(_) => assert!(count(Fate::Answered) >= 2, "{history}"),
            Err(AcquireError::Held(_)) => assert!(count(Fate::HeldByAnother) >= 2, "{history}"),
            Err(AcquireError::NoMajority(_)) => {
                assert!(count(Fate::Answered) < 2, "{history}");
                assert!(count(Fate::HeldByAnother) < 2, "{history}");
            }
            Err(error) => panic!("{error}: {history}"),
        }
    });
}

#[test]
fn a_granted_lock_has_a_majority_of_keys_until_it_ends() {
    every_history(|fates, order, _| {
        let (mut world, lock) = attempt(fates, order);
        if let Some(Ok(grant)) = world.acquired(lock) {
            let end = grant.deadlines.ends_at;

            world.pass_until(end.before(MS / 1000));

            assert!(world.locked().len() >= 2, "{fates:?} in the order {order:?}");
        }
    });
}

#[test]
fn nothing_is_left_soon_after_the_trouble_has_ended() {
    every_history(|fates, order, how| {
        let (mut world, lock) = attempt(fates, order);
        end(&mut world, lock, how);

        world.all_lines(Mode::Open);
        world.pass(400 * MS);

        let history = format!("{fates:?} in the order {order:?}, {how:?}");
        assert_eq!(world.locked(), [0; 0], "{history}");
        assert!(world.is_idle(), "{history}");
    });
}

#[test]
fn nothing_is_left_after_the_ttl_if_the_trouble_lasts() {
    every_history(|fates, order, how| {
        let (mut world, lock) = attempt(fates, order);
        for node in (0..3).filter(|node| fates[*node] != Fate::VeryLate) {
            world.channel(node, Mode::Lossy);
        }
        end(&mut world, lock, how);

        world.pass(TTL + 12 * MS);

        let history = format!("{fates:?} in the order {order:?}, {how:?}");
        assert_eq!(world.locked(), [0; 0], "{history}");
        assert!(world.is_idle(), "{history}");
    });
}

#[test]
fn a_take_that_arrives_after_everything_has_ended_is_undone_by_the_undo_behind_it() {
    every_history(|fates, order, how| {
        let (mut world, lock) = attempt(fates, order);
        end(&mut world, lock, how);
        for node in (0..3).filter(|node| fates[*node] != Fate::VeryLate) {
            world.channel(node, Mode::Open);
        }
        world.pass(3 * TTL);
        assert!(world.is_idle());

        world.all_lines(Mode::Open);

        assert_eq!(world.locked(), [0; 0], "{fates:?} in the order {order:?}, {how:?}");
    });
}

#[test]
fn every_undo_goes_to_each_node_the_take_may_have_reached_and_to_no_other_key() {
    every_history(|fates, order, how| {
        let (mut world, lock) = attempt(fates, order);
        end(&mut world, lock, how);

        let undone = world.undone();
        for node in (0..3).filter(|node| fates[*node] != Fate::Unreachable) {
            assert!(undone.contains(&node), "{fates:?} in the order {order:?}, {how:?}");
        }
        let token = &world.tokens()[0];
        for (_, _, command) in &world.clients[0].sent {
            assert!(!matches!(command, Command::Release { token: other, .. } if other != token));
        }
    });
}
