//! "Making the algorithm more reliable: Extending the lock".

use crate::support::{MS, Mode, NODE_TIMEOUT, TTL, USABLE, World, renewed};
use core::time::Duration;
use redlatch_core::{ExtendError, lease::Loss};

#[test]
fn the_ttl_of_the_key_is_extended_on_all_instances() {
    let mut world = World::of(5);
    let lock = world.acquire();
    world.pass(500 * MS);

    world.extend(lock, TTL);

    assert_eq!(world.extensions(), [0, 1, 2, 3, 4]);
    for node in 0..5 {
        assert_eq!(world.key_dies(node), Some(world.now.after(TTL)));
    }
}

#[test]
fn the_ttl_is_extended_only_if_the_value_is_still_the_random_value() {
    let mut world = World::of(5);
    let lock = world.acquire();
    world.node_forgets(4);
    world.occupy(4);
    let dies = world.key_dies(4);

    world.extend(lock, TTL);

    assert_eq!(world.key_dies(4), dies);
}

#[test]
fn the_ttl_is_extended_only_if_the_key_exists() {
    let mut world = World::of(5);
    let lock = world.acquire();
    (0..3).for_each(|node| world.node_forgets(node));

    world.extend(lock, TTL);

    assert!(matches!(world.extended(lock)[..], [Err(ExtendError::Lost(_))]));
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn the_lock_is_reacquired_only_if_it_was_extended_in_the_majority() {
    for reachable in 0..=5 {
        let mut world = World::of(5);
        let lock = world.acquire();
        (reachable..5).for_each(|node| world.channel(node, Mode::Down));

        world.extend(lock, TTL);
        world.pass(NODE_TIMEOUT);

        let extended = world.extended(lock)[0].is_ok();
        assert_eq!(extended, reachable >= 3, "{reachable} of 5 reachable");
    }
}

#[test]
fn the_lock_is_reacquired_only_within_the_validity_time() {
    for (answered, kept) in [(USABLE - MS, true), (USABLE, false)] {
        let mut world = World::of(5);
        let lock = world.acquire();
        world.all_lines(Mode::Mute);
        world.extend(lock, TTL);

        world.freeze(answered);
        world.all_lines(Mode::Open);

        assert_eq!(world.extended(lock)[0].is_ok(), kept, "{answered:?}");
    }
}

#[test]
fn the_validity_of_a_reacquired_lock_is_computed_like_that_of_an_acquired_one() {
    let mut world = World::of(5);
    let lock = world.acquire();
    world.pass(300 * MS);
    let sent = world.now;
    world.all_lines(Mode::Mute);
    world.extend(lock, TTL);

    world.pass(40 * MS);
    world.all_lines(Mode::Open);

    assert_eq!(world.extended(lock), [Ok(sent.after(USABLE))]);
}

#[test]
fn the_number_of_reacquisitions_is_limited() {
    let mut world = World::of(5);
    let lock = world.acquire_on(renewed(10 * TTL));

    world.pass(100 * TTL);

    assert!(world.kept(lock).len() < 31, "one each 333 ms for 10 s");
    assert!(matches!(world.lost(lock), Some((_, Loss::MaxHold))));
    assert_eq!(world.locked(), [0; 0]);
}

#[test]
fn a_lock_that_is_renewed_forever_has_to_be_asked_for() {
    let default = redlatch_core::config::Wanted::default().renewal.unwrap();

    assert!(default.max_hold < Duration::MAX);
}
