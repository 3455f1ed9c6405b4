//! More callers than attempts may be under way.

use crate::support::{Lock, MS, Mode, NODE_TIMEOUT, TTL, USABLE, World, plain, renewed, terms};
use core::time::Duration;
use redlatch_core::{
    AcquireError, Command, Input, OpId, Owner, Resources, Terms, machine::Order, pace::FEWEST,
};

/// Somebody wants a lock of that name.
fn ask(world: &mut World, name: &str, terms: Terms, wait: Duration) -> Lock {
    let op = OpId::new(world.clients[0].ops);
    world.clients[0].ops += 1;
    let order = Order {
        resources: Resources::new([name]).expect("a good name"),
        terms,
        owner: Owner::new("crowd").expect("a good label"),
        wait_until: world.now.after(wait),
        fencing: None,
        line: None,
    };
    world.hand_in(0, Input::Acquire(op, order));
    Lock { client: 0, op }
}

/// So many callers, each for a lock of its own.
fn crowd(world: &mut World, count: usize) -> Vec<Lock> {
    (0..count).map(|number| ask(world, &format!("name:{number}"), plain(), 60 * TTL)).collect()
}

/// How many of a crowd start at once while nothing is answered. All of it is
/// served in the end.
fn at_once(world: &mut World, name: &str, count: usize) -> (usize, Vec<Lock>) {
    let before = taken(world).len();
    world.all_lines(Mode::Held);
    let ask = |number| ask(world, &format!("{name}:{number}"), plain(), 60 * TTL);
    let locks = (0..count).map(ask).collect();
    (taken(world).len() - before, locks)
}

/// A world whose nodes have answered a crowd so quickly that more than the fewest
/// may be under way.
fn grown() -> World {
    let mut world = World::of(3);
    let (_, locks) = at_once(&mut world, "quick", 1000);
    for _ in 0..24 {
        world.freeze(MS);
        let_all_through(&mut world);
    }
    world.all_lines(Mode::Open);
    assert_eq!(granted(&world, &locks), 1000);
    let (limit, locks) = at_once(&mut world, "limit", 1000);
    assert!(limit > 4 * FEWEST, "{limit}");
    world.all_lines(Mode::Open);
    assert_eq!(granted(&world, &locks), 1000);
    world
}

fn let_all_through(world: &mut World) {
    for node in 0..world.nodes.len() {
        world.let_through(node);
    }
}

/// The names taken on the first node so far, in order.
fn taken(world: &World) -> Vec<String> {
    let takes = world.clients[0].sent.iter().filter(|(_, node, _)| *node == 0);
    let name = |command: &Command| match command {
        Command::Take { resources, .. } => Some(resources.to_string()),
        _ => None,
    };
    takes.filter_map(|(_, _, command)| name(command)).collect()
}

fn granted(world: &World, locks: &[Lock]) -> usize {
    locks.iter().filter(|lock| matches!(world.acquired(**lock), Some(Ok(_)))).count()
}

#[test]
fn callers_beyond_the_limit_wait_and_are_served_in_their_order() {
    let mut world = World::behind(Mode::Held);

    let locks = crowd(&mut world, 100);
    assert_eq!(taken(&world).len(), FEWEST);
    world.all_lines(Mode::Open);

    assert_eq!(granted(&world, &locks), 100);
    let expected: Vec<_> = (0..100).map(|number| format!("name:{number}")).collect();
    assert_eq!(taken(&world), expected);
}

#[test]
fn the_time_of_lease_and_nodes_counts_from_the_sending() {
    let mut world = World::behind(Mode::Held);
    let locks = crowd(&mut world, FEWEST + 1);

    world.pass(40 * MS);
    let_all_through(&mut world);
    let sent = world.now;
    world.pass(NODE_TIMEOUT - MS);
    let_all_through(&mut world);

    let last = locks[FEWEST];
    assert_eq!(world.grant(last).deadlines.ends_at, sent.after(USABLE));
}

#[test]
fn a_caller_who_is_gone_leaves_the_line_at_once() {
    let mut world = World::behind(Mode::Held);
    let locks = crowd(&mut world, FEWEST + 2);

    world.cancel(locks[FEWEST]);
    let soon = terms(|wanted| wanted.node_timeout = Some(20 * MS));
    let impatient = ask(&mut world, "impatient", soon, Duration::ZERO);
    world.pass(20 * MS);
    world.all_lines(Mode::Open);

    let busy = AcquireError::Busy { waited: 20 * MS, waiting: 1 };
    assert_eq!(world.refusal(impatient), Some(&busy), "one waits, and not two");
    assert_eq!(granted(&world, &locks), FEWEST + 1);
    assert!(!taken(&world).contains(&format!("name:{FEWEST}")));
    assert_eq!(world.acquired(locks[FEWEST]), None);
    assert_eq!(world.clients[0].machine.undos(), 0, "nothing was sent, nothing is undone");
}

#[test]
fn releases_and_renewals_do_not_wait_behind_a_crowd() {
    let mut world = World::of(3);
    let renewing = ask(&mut world, "renewed", renewed(60 * TTL), Duration::ZERO);
    let releasing = ask(&mut world, "released", renewed(60 * TTL), Duration::ZERO);
    let due = world.now.after(333 * MS);
    world.grant(renewing);
    world.all_lines(Mode::Held);
    world.freeze(due.since(world.now) - MS);
    crowd(&mut world, 1000);
    let before = world.clients[0].sent.len();

    world.release(releasing);
    let released = &world.clients[0].sent[before..];
    assert!(matches!(released, [(_, _, Command::Release { .. }), _, _]), "{released:?}");
    world.pass(MS);

    let renewed = &world.clients[0].sent[before + 3..];
    assert!(
        matches!(renewed, [(at, _, Command::Extend { .. }), _, _] if *at == due),
        "{renewed:?}"
    );
}

#[test]
fn what_is_undone_goes_ahead_of_what_waits() {
    let mut world = World::behind(Mode::Lossy);
    crowd(&mut world, FEWEST + 1);
    let before = world.clients[0].sent.len();

    world.pass(NODE_TIMEOUT);

    let sent = &world.clients[0].sent[before..];
    let first_take = sent.iter().position(|(_, _, sent)| matches!(sent, Command::Take { .. }));
    assert_eq!(first_take, Some(3 * FEWEST), "behind the undos of all that timed out");
}

#[test]
fn what_a_refused_attempt_undoes_goes_ahead_of_what_waits() {
    let mut world = World::of(3);
    world.occupy_all([0, 1]);
    world.all_lines(Mode::Held);
    let refused = world.acquire();
    crowd(&mut world, FEWEST);
    let before = world.clients[0].sent.len();

    for node in [0, 1] {
        world.carry_out_one(0, node);
        world.answer_one(0, node);
    }

    assert!(matches!(world.refusal(refused), Some(AcquireError::Held(_))));
    let sent = &world.clients[0].sent[before..];
    let first_take = sent.iter().position(|(_, _, sent)| matches!(sent, Command::Take { .. }));
    assert_eq!((first_take, sent.len()), (Some(3), 6), "{sent:?}");
}

#[test]
fn nodes_that_are_busy_with_undos_are_asked_for_few_locks() {
    let mut world = grown();
    let held = crowd(&mut world, 1000);
    assert_eq!(granted(&world, &held), 1000);
    world.all_lines(Mode::Held);
    for lock in held {
        world.cancel(lock);
    }

    let (started, more) = at_once(&mut world, "more", 1000);
    assert_eq!(started, FEWEST, "a thousand undos are unanswered");
    world.all_lines(Mode::Open);

    assert_eq!(granted(&world, &more), 1000);
}

#[test]
fn a_minority_that_is_frozen_holds_up_nobody_in_a_crowd() {
    let mut world = World::of(3);
    world.channel(2, Mode::Lossy);
    let (mut all, began) = (Vec::new(), world.now);

    for _ in 0..3 {
        let locks = crowd(&mut world, 1000);
        assert_eq!(granted(&world, &locks), 1000);
        for lock in &locks {
            world.release(*lock);
        }
        all.extend(locks);
    }

    assert_eq!(world.now, began, "no time has passed");
    assert_eq!(all.iter().filter(|lock| world.released(**lock).is_some()).count(), 3000);
}

#[test]
fn what_a_frozen_minority_has_still_to_release_leaves_room_for_as_many_as_before() {
    let mut world = grown();
    let held = crowd(&mut world, 1000);
    world.channel(2, Mode::Lossy);
    for lock in held {
        world.release(lock);
    }

    let (started, _) = at_once(&mut world, "more", 1000);

    assert!(started > 4 * FEWEST, "{started}");
}

#[test]
fn a_split_vote_that_waits_for_a_frozen_node_does_not_keep_its_turn() {
    let mut world = World::of(3);
    world.channel(2, Mode::Lossy);
    for number in 0..FEWEST {
        let name = Resources::new([format!("name:{number}")]).expect("a good name");
        let dies = world.now.after(60 * TTL);
        world.nodes[0].occupy(&name, dies);
    }
    let split = crowd(&mut world, FEWEST);
    assert!(split.iter().all(|lock| world.acquired(*lock).is_none()));

    let next = ask(&mut world, "free", plain(), Duration::ZERO);

    world.grant(next);
}

#[test]
fn a_caller_who_does_not_wait_gives_up_its_turn_after_the_node_timeout_and_says_so() {
    let mut world = World::behind(Mode::Held);
    let patient = terms(|wanted| wanted.node_timeout = Some(500 * MS));
    for number in 0..FEWEST {
        ask(&mut world, &format!("name:{number}"), patient.clone(), Duration::ZERO);
    }

    let lock = ask(&mut world, "busy", plain(), Duration::ZERO);
    let other = ask(&mut world, "other", patient, Duration::ZERO);
    world.pass(NODE_TIMEOUT - MS);
    assert_eq!(world.acquired(lock), None);
    world.pass(MS);

    let busy = AcquireError::Busy { waited: NODE_TIMEOUT, waiting: 1 };
    assert_eq!(world.refusal(lock), Some(&busy));
    world.all_lines(Mode::Open);
    world.grant(other);
    assert!(!taken(&world).contains(&"busy".to_owned()), "no node was asked");
}

#[test]
fn while_the_nodes_are_mute_those_who_wait_are_told_so() {
    let mut world = World::behind(Mode::Lossy);

    let locks: Vec<_> = (0..100)
        .map(|number| ask(&mut world, &format!("name:{number}"), plain(), 100 * MS))
        .collect();
    world.pass(2 * TTL);

    for lock in locks {
        let error = world.refusal(lock);
        assert!(matches!(error, Some(AcquireError::NoMajority(_))), "{error:?}");
    }
    assert!(world.is_idle());
}

#[test]
fn a_retry_gets_in_line_behind_those_who_wait() {
    let mut world = World::of(3);
    world.pauses_of(0);
    world.occupy_all([0, 1]);
    world.all_lines(Mode::Held);
    for _ in 0..FEWEST {
        world.acquire_as(0, plain(), 60 * TTL);
    }
    let waiting = crowd(&mut world, 100);

    // The contended ones come back again and again, without a pause.
    for _ in 0..40 {
        let_all_through(&mut world);
        world.pass(MS);
    }

    assert_eq!(granted(&world, &waiting), 100);
}

#[test]
fn a_caller_whom_the_nodes_did_not_answer_keeps_its_place_in_line() {
    let mut world = World::of(3);
    world.pauses_of(0);
    world.all_lines(Mode::Lossy);
    let locks = crowd(&mut world, 100);
    world.pass(NODE_TIMEOUT);
    world.all_lines(Mode::Open);

    world.pass(4 * NODE_TIMEOUT);

    assert_eq!(granted(&world, &locks), 100);
    let taken = taken(&world);
    let repeated = taken.iter().rposition(|name| name == "name:0");
    let last = taken.iter().position(|name| name == "name:99");
    assert!(repeated > Some(FEWEST) && repeated < last, "{repeated:?}, {last:?}");
}

#[test]
fn a_caller_whose_wait_times_out_learns_who_has_the_lock() {
    let mut world = World::of(3);
    world.pauses_of(0);
    world.occupy_all([0, 1]);
    world.all_lines(Mode::Held);
    let patient = || terms(|wanted| wanted.node_timeout = Some(500 * MS));
    let refused = world.acquire_as(0, plain(), 20 * MS);
    for number in 1..3 * FEWEST {
        ask(&mut world, &format!("name:{number}"), patient(), Duration::ZERO);
    }
    for node in [0, 1] {
        world.carry_out_one(0, node);
        world.answer_one(0, node);
    }

    world.pass(100 * MS);

    let error = world.refusal(refused);
    assert!(matches!(error, Some(AcquireError::Held(_))), "{error:?}");
}

#[test]
fn more_is_under_way_while_answers_are_quick_and_less_when_they_are_late() {
    let mut world = World::of(1);
    world.all_lines(Mode::Held);
    crowd(&mut world, 6000);
    // How many start when those under way are answered after that long.
    let mut round = |after: Duration| {
        let before = taken(&world).len();
        world.freeze(after);
        world.let_through(0);
        taken(&world).len() - before
    };

    let quick = (0..24).map(|_| round(MS)).last().expect("a round");
    let late = (0..4).map(|_| round(45 * MS)).last().expect("a round");

    assert!(quick > 10 * FEWEST, "{quick}");
    assert!(late < quick / 4, "{late} of {quick}");
}
