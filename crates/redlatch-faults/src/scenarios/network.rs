//! Bad networks: rows 22 to 24, 26, 31 and 40.

use super::{ms, row, sec};
use crate::{
    orders::Habits,
    scenario::{Load, Must, Row},
    scene::Scene,
};
use redlatch_testbed::{Direction, Proxy};

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(22, "request applied, reply lost")
            .load(Load { what: "lost replies", proxied: true, nemesis: loses_replies, ..Load::default() })
            .tests(&["a_take_whose_reply_is_lost_counts_as_failed_and_is_undone"]),
        row(23, "late takes, late releases, reordered extensions")
            .load(Load {
                what: "held back",
                proxied: true,
                habits: Habits { renews: true, ..Habits::default() },
                linger: (sec(1), sec(2)),
                nemesis: holds_requests_back,
                lasts: (sec(12), sec(3)),
                must: Must { go_on: false, ..Must::default() },
                ..Load::default()
            })
            .tests(&[
                "counterexamples::a_late_undo_of_one_attempt_does_not_touch_the_key_of_the_next",
                "counterexamples::a_short_extension_that_fails_does_not_cut_the_lease",
                "counterexamples::a_stuck_take_that_lands_late_does_not_carry_an_extension_over_a_gap",
                "one_client::a_take_that_arrives_after_everything_has_ended_is_undone_by_the_undo_behind_it",
                "f14_a_take_that_was_under_way_when_the_connection_broke_is_not_sent_again",
            ]),
        row(24, "extension answered after the lease ended")
            .load(Load {
                what: "held replies",
                proxied: true,
                habits: Habits { renews: true, ..Habits::default() },
                linger: (sec(1), sec(2)),
                lasts: (sec(12), sec(4)),
                nemesis: holds_replies_past_the_lease,
                must: Must { go_on: false, signal_loss: true, ..Must::default() },
                ..Load::default()
            })
            .tests(&["extending::answers_that_come_after_the_old_end_prove_nothing"]),
        row(26, "lost, taken by another, released, then extended").tests(&[
            "extending_what_another_owner_has_by_now_is_lost_and_touches_nothing",
            "counterexamples::an_extension_does_not_bring_back_a_lock_that_others_have_held_since",
            "f8_extending_never_makes_a_key_that_is_gone",
        ]),
        row(31, "one-way partition, reset, half-open, black-holed connect")
            .load(Load { what: "bad links", proxied: true, nemesis: breaks_links, ..Load::default() })
            .tests(&[
                "a_connect_that_hangs_does_not_hold_up_the_others",
                "a_node_behind_a_black_hole_votes_again_when_the_hole_is_gone",
                "f9_the_node_timeout_holds_for_commands_that_are_under_way",
            ]),
        row(40, "a server that answers nonsense").tests(&[
            "a_server_that_lies_costs_its_vote_alone_and_no_memory",
            "a_liar_met_at_connect_is_refused_and_costs_no_memory",
            "node::redis::resp::tests::nonsense_is_refused_and_costs_no_memory",
        ]),
    ]
}

/// A connection that lost a reply stays silent, so it is reset after a while.
fn loses_replies(scene: &mut Scene) {
    let nodes = if scene.dice.index(3) == 0 { scene.majority() } else { scene.minority() };
    scene.fault("reply lost", |scene| {
        on(scene, &nodes, Proxy::lose_next_reply);
        scene.wait_between(ms(50), ms(250));
        on(scene, &nodes, Proxy::reset_all);
        on(scene, &nodes, Proxy::pass);
    });
    scene.wait(ms(50));
}

/// Requests arrive after their sender gave up, sometimes on a majority.
fn holds_requests_back(scene: &mut Scene) {
    let nodes = if scene.dice.index(2) == 0 { scene.majority() } else { scene.minority() };
    scene.fault("requests held back", |scene| {
        on(scene, &nodes, |proxy| proxy.hold(Direction::Requests));
        let most = scene.ttl * 3 / 2;
        scene.wait_between(ms(50), most);
        on(scene, &nodes, Proxy::pass);
    });
    scene.wait_between(ms(50), ms(300));
}

fn holds_replies_past_the_lease(scene: &mut Scene) {
    let nodes = scene.majority();
    scene.fault("replies held back", |scene| {
        on(scene, &nodes, |proxy| proxy.hold(Direction::Replies));
        scene.wait(scene.ttl * 5 / 4);
        on(scene, &nodes, Proxy::pass);
    });
    scene.wait_between(ms(200), ms(800));
}

type Way = (&'static str, fn(&Proxy));

fn breaks_links(scene: &mut Scene) {
    const WAYS: [Way; 6] = [
        ("requests get through, replies do not", |proxy| proxy.hold(Direction::Replies)),
        ("replies get through, requests do not", |proxy| proxy.hold(Direction::Requests)),
        ("slow", |proxy| proxy.delay(Direction::Replies, ms(30))),
        ("reset", Proxy::reset_all),
        ("black hole", Proxy::black_hole),
        ("connects hang", |proxy| {
            proxy.hang_connects();
            proxy.reset_all();
        }),
    ];
    let nodes = scene.minority();
    let (what, break_it) = scene.dice.pick(&WAYS);
    scene.fault(what, |scene| {
        on(scene, &nodes, break_it);
        scene.wait_between(ms(100), ms(400));
        // What was sent into a black hole is lost: the connection has a gap.
        if what == "black hole" {
            on(scene, &nodes, Proxy::reset_all);
        }
        on(scene, &nodes, Proxy::pass);
    });
    scene.wait(ms(50));
}

fn on(scene: &Scene, nodes: &[usize], act: impl Fn(&Proxy)) {
    for &node in nodes {
        act(&scene.proxies[node]);
    }
}
