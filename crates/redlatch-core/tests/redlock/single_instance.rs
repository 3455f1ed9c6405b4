//! "Correct Implementation with a Single Instance".

use crate::support::{MS, Mode, TTL, World};
use redlatch_core::{AcquireError, Command, Released};

#[test]
fn the_lock_is_taken_only_if_the_key_does_not_already_exist() {
    let mut world = World::of(1);
    world.occupy(0);

    let lock = world.acquire();

    assert!(matches!(world.refusal(lock), Some(AcquireError::Held(_))));
    assert_eq!(world.value(0), Some(&b"a stranger"[..]));
}

#[test]
fn the_key_is_set_with_an_expiry_of_the_validity_time() {
    let mut world = World::of(1);
    let now = world.now;

    world.acquire();

    assert_eq!(world.key_dies(0), Some(now.after(TTL)));
}

#[test]
fn the_key_is_set_to_the_random_value() {
    let mut world = World::of(1);

    let lock = world.acquire();

    assert_eq!(world.value(0), Some(world.grant(lock).token.as_bytes()));
}

#[test]
fn the_value_is_unique_across_all_clients_and_all_lock_requests() {
    let mut world = World::with(3, 1);
    let mut values = Vec::new();
    for client in [0, 0, 1, 1, 2, 2] {
        let lock = world.acquire_as(client, crate::support::plain(), MS);
        values.push(world.grant(lock).token.as_bytes().to_vec());
        world.release(lock);
    }

    let requests = values.len();
    values.sort();
    values.dedup();
    assert_eq!(values.len(), requests);
}

#[test]
fn the_value_has_twenty_random_bytes() {
    let mut world = World::of(1);

    let lock = world.acquire();

    let value = world.grant(lock).token.as_bytes();
    let digits = value.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    assert_eq!(digits, 40);
}

#[test]
fn the_key_is_removed_only_if_its_value_is_the_one_expected() {
    let mut world = World::of(1);
    let lock = world.acquire();

    // The lock outlives its validity time, and another client takes it.
    world.freeze(TTL);
    world.occupy(0);
    world.release(lock);

    assert_eq!(world.value(0), Some(&b"a stranger"[..]));
    assert_eq!(world.released(lock), Some(&Ok(Released::AlreadyGone)));
}

#[test]
fn every_release_carries_the_value_that_its_take_has_set() {
    let mut world = World::of(3);
    world.channel(2, Mode::Lossy);
    world.occupy(1);
    let lock = world.acquire();
    world.pass(50 * MS);
    assert!(world.refusal(lock).is_some());

    let taken = &world.tokens()[0];
    for (_, _, command) in &world.clients[0].sent {
        if let Command::Release { token, .. } = command {
            assert_eq!(token, taken);
        }
    }
}
