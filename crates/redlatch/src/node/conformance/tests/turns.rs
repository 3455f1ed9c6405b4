//! What a client has ready for a server in one turn is one call, and each command in it
//! gets its own answer.

use super::{
    super::{
        site::{Claim, LONG, PATIENCE, Site},
        tag,
    },
    servers::release_script,
};
use crate::node::{self, Clock, Link, Node, REDIS_PERMISSIONS, conformance};
use redlatch_core::{
    Command, Fault, FencingToken, Place, Reply, Tag, Then, Ticket, Vote, Waiter, fence,
};
use redlatch_testbed::{Flavour, Server};
use std::{
    sync::Arc,
    task::{Context, Waker},
};

const PLACE: Place = Place {
    ticket: Ticket { arrived: 1, waiter: Waiter::new(7, 0), patience: 1000 },
    known: false,
};

fn node(server: &Server) -> Arc<dyn Node> {
    node::parse(&server.url()).unwrap_or_else(|error| panic!("{error}"))
}

fn every_flavour() -> impl Iterator<Item = Server> {
    Flavour::ALL.into_iter().map(|flavour| Server::options().flavour(flavour).start().unwrap())
}

fn claims(site: &Site<'_>, prefix: &str, count: usize) -> Vec<Claim> {
    (0..count).map(|number| site.claim([format!("{prefix}{number}")])).collect()
}

fn take(claim: &Claim) -> Command {
    claim.take_fenced(LONG, 1)
}

fn is_granted(reply: &Reply) -> bool {
    matches!(reply, Reply::Vote(Vote::Granted | Vote::Numbered(_)))
}

fn fault(reply: &Reply) -> String {
    match reply {
        Reply::Vote(Vote::Failed(fault)) => fault.to_string(),
        other => panic!("{other:?} is no fault"),
    }
}

/// How many times our script has been called by its hash so far.
fn calls(server: &Server) -> usize {
    let stats = server.run(&["INFO", "commandstats"]).text().unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn a_turn_is_one_call_and_a_long_one_is_several_short_ones() {
    let server = Server::start().unwrap();
    let (node, many) = (node(&server), 200);
    let site = Site::new(&*node, PATIENCE);
    let mut link = site.link();
    link.identity().await.unwrap(); // connected
    let locks = claims(&site, "x", many);
    let registers = |locks: &[Claim]| {
        let mut registers: Vec<u32> = locks.iter().map(Claim::register).collect();
        registers.sort_unstable();
        registers.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };

    for (commands, most) in [
        (locks[..64].iter().map(take).collect::<Vec<_>>(), 1 + registers(&locks[..64])),
        (locks[..64].iter().map(Claim::release).collect(), 1),
        (locks.iter().map(take).collect(), 4 + registers(&locks)),
        (locks.iter().map(|lock| lock.extend(LONG)).collect(), 4),
    ] {
        let before = calls(&server);
        let answers = link.ask_all(commands).await.unwrap();

        assert!(answers.iter().all(is_granted), "{answers:?}");
        let made = calls(&server) - before;
        assert!(made <= most, "{made} calls instead of {most}");
        assert!(answers.len() <= 64 || made >= 4, "{made} calls for {many} commands are too few");
    }
}

#[tokio::test]
async fn a_key_of_another_type_is_held_by_somebody_and_is_nobody_elses_business() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let (odd, good, mut link) = (site.claim(["odd"]), site.claim(["good"]), site.link());
        server.run(&[&b"HSET"[..], odd.first().as_bytes(), b"a", b"b"]);

        let answers = link.ask_all([
            take(&odd),
            odd.take(LONG),
            take(&good),
            odd.extend(LONG),
            good.extend(LONG),
            odd.release(),
            good.release(),
        ]);
        let answers = answers.await.unwrap();

        for held in &answers[..2] {
            assert!(matches!(held, Reply::Vote(Vote::Held(_))), "{held:?}");
        }
        for gone in [3, 5] {
            assert_eq!(answers[gone], Reply::Vote(Vote::Gone));
        }
        assert!([2, 4, 6].iter().all(|at| is_granted(&answers[*at])), "{answers:?}");
    }
}

#[tokio::test]
async fn a_take_for_which_there_is_no_memory_fails_alone() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let (held, wanted, mut link) = (site.claim(["held"]), site.claim(["wanted"]), site.link());
        link.numbered(take(&held)).await.unwrap();

        let later = site.claim(["held"]);

        server.run(&["CONFIG", "SET", "maxmemory", "1"]);
        let answers = link.ask_all([
            take(&wanted),
            later.take_in_line(LONG, PLACE),
            held.extend(LONG),
            wanted.release(),
            held.release(),
        ]);
        let answers = answers.await.unwrap();
        server.run(&["CONFIG", "SET", "maxmemory", "0"]);

        assert!(answers[..2].iter().all(|reply| fault(reply).contains("OOM")), "{answers:?}");
        assert!(is_granted(&answers[2]) && is_granted(&answers[4]), "{answers:?}");
        assert_eq!(answers[3], Reply::Vote(Vote::Gone));
        assert_eq!(server.keys(), [""; 0]);
    }
}

#[tokio::test]
async fn a_take_for_which_no_number_is_left_fails_alone_and_leaves_no_key() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let (last, good, mut link) = (site.claim(["last"]), site.claim(["good"]), site.link());
        let (register, most) = (last.register().to_string(), FencingToken::MAX.to_string());
        server.run(&["HSET", "redlatch:node", &register, &most]);

        let answers = link.ask_all([take(&last), take(&good), good.release()]).await.unwrap();

        assert!(fault(&answers[0]).contains("no number is left"), "{answers:?}");
        assert!(is_granted(&answers[1]) && is_granted(&answers[2]), "{answers:?}");
        assert_eq!(server.keys(), [""; 0]);
        let stands = server.run(&["HGET", "redlatch:node", &register]).text();
        assert_eq!(stands, Some(most), "no number after the last");
    }
}

/// As when sent alone: commands that have to read the hash fail, the others work.
#[tokio::test]
async fn a_node_whose_hash_is_something_else_grants_no_numbers_and_releases_all_the_same() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let (plain, fenced, mut link) = (site.claim(["a"]), site.claim(["b"]), site.link());
        server.run(&["SET", "redlatch:node", "not ours"]);
        let number = FencingToken::new(1).unwrap();

        let answers = link.ask_all([
            plain.take(LONG),
            take(&fenced),
            plain.extend(LONG),
            plain.extend_fenced(LONG, number),
            plain.release(),
        ]);
        let answers = answers.await.unwrap();

        for at in [1, 3] {
            assert!(fault(&answers[at]).contains("WRONGTYPE"), "{answers:?}");
        }
        assert!([0, 2, 4].iter().all(|at| is_granted(&answers[*at])), "{answers:?}");
    }
}

#[tokio::test]
async fn a_name_that_the_user_may_not_touch_is_refused_alone() {
    for flavour in Flavour::ALL {
        let keys =
            "~redlatch:node ~redlatch:waits:* ~redlatch:permissions ~redlatch:conformance:*good";
        let rules = format!("{REDIS_PERMISSIONS} {keys}");
        let options = Server::options().flavour(flavour).user("some", "secret", &rules);
        let server = options.start().unwrap();
        let node = node::parse(&server.url_as("some", "secret")).unwrap();
        let site = Site::new(&*node, PATIENCE);
        let (good, bad, mut link) = (site.claim(["good"]), site.claim(["bad"]), site.link());
        let later = site.claim(["good"]); // may wait for it, but not write the line

        let answers = link.ask_all([
            take(&bad),
            take(&good),
            later.take_in_line(LONG, PLACE),
            bad.take(LONG),
            bad.extend(LONG),
            good.extend(LONG),
            bad.release(),
            good.release(),
        ]);
        let answers = answers.await.unwrap();

        for at in [0, 2, 3, 4, 6] {
            fault(&answers[at]);
        }
        assert!([1, 5, 7].iter().all(|at| is_granted(&answers[*at])), "{answers:?}");
        assert_eq!(server.keys(), [""; 0]);
    }
}

#[tokio::test]
async fn a_server_that_forgot_the_script_gets_the_whole_turn_again() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let mut link = site.link();
        link.identity().await.unwrap();
        let locks = claims(&site, "x", 10);
        server.run(&["SCRIPT", "FLUSH"]);

        let commands = locks.iter().flat_map(|lock| [take(lock), lock.extend(LONG)]);
        let released = locks[..5].iter().map(Claim::release);
        let answers = link.ask_all(commands.chain(released)).await.unwrap();

        assert!(answers.iter().all(is_granted), "{answers:?}");
        assert_eq!(server.keys().len(), 5);
    }
}

/// The undo is in a later call, whose script the server knows.
#[tokio::test]
async fn a_turn_that_is_sent_again_leaves_out_what_was_released_since() {
    for server in every_flavour() {
        let node = node(&server);
        let (site, mut link) = (Site::new(&*node, PATIENCE), node.open(Clock::System));
        let (kept, undone) = (site.claim(["kept"]), site.claim(["undone"]));
        let connected = replies(&mut *link, [Command::Identify]).await;
        assert!(matches!(connected[0].1, Reply::Identity(_)), "{connected:?}");
        server.run(&["SCRIPT", "FLUSH"]);
        server.run(&["SCRIPT", "LOAD", &release_script()]);

        server.freeze();
        link.send(tag(1), take(&kept));
        link.send(tag(2), take(&undone));
        write(&mut *link);
        link.send(tag(3), undone.release());
        write(&mut *link);
        server.thaw();
        let answers = replies(&mut *link, []).await;

        let to = |number| &answers.iter().find(|(its, _)| *its == tag(number)).unwrap().1;
        assert!(is_granted(to(1)), "{answers:?}");
        assert!(fault(to(2)).contains("NOSCRIPT"), "{answers:?}");
        assert_eq!(*to(3), Reply::Vote(Vote::Gone));
        let mut link = site.link();
        link.free(&undone).await.unwrap();
        link.owned(&kept).await.unwrap();
    }
}

/// Requests from other threads come in one by one, while the server is busy.
#[tokio::test]
async fn what_comes_in_while_a_server_has_much_to_do_goes_out_together() {
    let server = Server::start().unwrap();
    let node = node(&server);
    let (site, mut link) = (Site::new(&*node, PATIENCE), node.open(Clock::System));
    replies(&mut *link, [Command::Identify]).await;
    let before = calls(&server);

    server.freeze();
    tokio::time::pause(); // they wait at most a millisecond
    let locks = claims(&site, "x", 50);
    for (number, lock) in (0..20).zip(&locks) {
        link.send(tag(number), lock.release());
    }
    write(&mut *link);
    for (number, lock) in (20..).zip(&locks[20..]) {
        link.send(tag(number), lock.release());
        write(&mut *link);
    }
    tokio::time::resume();
    server.thaw();
    let mut answers = Vec::new();
    while answers.len() < locks.len() {
        answers.extend(replies(&mut *link, []).await);
    }

    assert!(answers.iter().all(|(_, reply)| *reply == Reply::Vote(Vote::Gone)), "{answers:?}");
    assert_eq!(calls(&server) - before, 2);
}

#[tokio::test]
async fn a_plain_take_needs_no_script_unless_it_is_refused() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let (locks, mut link) = (claims(&site, "x", 100), site.link());
        link.identity().await.unwrap();
        let before = calls(&server);

        let takes = locks.iter().map(|lock| lock.take_in_line(LONG, PLACE));
        let answers = link.ask_all(takes).await.unwrap();
        assert!(answers.iter().all(is_granted), "{answers:?}");
        assert!(calls(&server) - before <= 1, "none, but for names that share a hash");
        let before = calls(&server);

        let later = claims(&site, "x", 100);
        let takes = later.iter().map(|lock| lock.take_in_line(LONG, PLACE));
        let answers = link.ask_all(takes).await.unwrap();
        for answer in &answers {
            let Reply::Vote(Vote::Held(holder)) = answer else { panic!("{answer:?}") };
            assert_eq!(holder.ahead.map(usize::from), Some(0), "in line: {answer:?}");
        }
        assert!(calls(&server) - before <= 3, "turns, in calls of 64");
    }
}

#[tokio::test]
async fn a_plain_take_overtakes_nothing_on_its_key() {
    for server in every_flavour() {
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let (first, second, mut link) = (site.claim(["a"]), site.claim(["a"]), site.link());
        let other = site.claim(["b"]);
        link.granted(first.take_in_line(LONG, PLACE)).await.unwrap();

        let answers = link.ask_all([
            other.take_in_line(LONG, PLACE),
            first.release(),
            second.take_in_line(LONG, PLACE),
            second.release(),
            first.take_in_line(LONG, PLACE),
        ]);
        let answers = answers.await.unwrap();

        assert!(answers.iter().all(is_granted), "{answers:?}");
        link.owned(&first).await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_take_that_was_undone_meanwhile_does_not_join_the_line() {
    for server in every_flavour() {
        let node = node(&server);
        let (site, mut link) = (Site::new(&*node, PATIENCE), node.open(Clock::System));
        let (held, undone) = (site.claim(["held"]), site.claim(["held"]));
        let taken = replies(&mut *link, [held.take(LONG)]).await;
        assert!(is_granted(&taken[0].1), "{taken:?}");

        server.freeze();
        link.send(tag(1), undone.take_in_line(LONG, PLACE));
        write(&mut *link);
        link.send(tag(2), undone.release_then(Then::Leave(PLACE.ticket)));
        write(&mut *link);
        link.send(tag(3), held.inspect());
        write(&mut *link);
        server.thaw();
        let answers = replies(&mut *link, []).await;
        let after = replies(&mut *link, [held.line()]).await;

        let to = |number| &answers.iter().find(|(its, _)| *its == tag(number)).unwrap().1;
        assert!(matches!(to(1), Reply::Vote(Vote::Held(_))), "{answers:?}");
        assert_eq!(*to(2), Reply::Vote(Vote::Gone));
        assert!(matches!(&after[0].1, Reply::Line(those) if those.count == 0), "{after:?}");
    }
}

#[tokio::test]
async fn a_turn_whose_connection_breaks_has_an_unknown_outcome() {
    let server = Server::start().unwrap();
    let node = node(&server);
    let (site, mut link) = (Site::new(&*node, PATIENCE), node.open(Clock::System));
    replies(&mut *link, [Command::Identify]).await;

    server.freeze();
    for (number, lock) in (0..).zip(claims(&site, "x", 3)) {
        link.send(tag(number), take(&lock));
    }
    write(&mut *link);
    server.kill();
    let answers = replies(&mut *link, []).await;

    for (_, answer) in answers {
        let Reply::Vote(Vote::Failed(fault)) = &answer else { panic!("{answer:?}") };
        assert!(matches!(fault, Fault::Disconnected(_)) && !fault.never_sent(), "{fault}");
    }
}

/// Writes what was sent, without waiting for answers.
fn write(link: &mut dyn Link) {
    let mut replies = Vec::new();
    link.poll(&mut Context::from_waker(Waker::noop()), &mut replies);
    assert!(replies.is_empty(), "{replies:?}");
}

/// Sends these commands and waits for as many replies; for three more, if there are none.
async fn replies<const N: usize>(link: &mut dyn Link, commands: [Command; N]) -> Vec<(Tag, Reply)> {
    for command in commands {
        link.send(tag(0), command);
    }
    let expected = if N == 0 { 3 } else { N };
    let replies = conformance::replies(link, expected, PATIENCE).await;
    assert!(replies.len() >= expected, "{replies:?}");
    replies
}

/// Names that share a register get different numbers, in order.
#[tokio::test]
async fn numbers_grow_from_command_to_command_of_a_turn() {
    let server = Server::start().unwrap();
    let node = node(&server);
    let site = Site::new(&*node, PATIENCE);
    let first = site.claim(["a"]);
    let register = fence::register(first.first());
    let twin = (0..).map(|number| site.unclaimed(&number.to_string()));
    let twin = twin.into_iter().find(|(_, its)| *its == register).unwrap().0;
    let twin = site.claim([twin]);
    let other = site.claim(["b"]);
    let mut link = site.link();

    let commands = [take(&first), take(&other), first.release(), take(&twin), take(&first)];
    let answers = link.ask_all(commands).await.unwrap();

    let number = |at: usize| match &answers[at] {
        Reply::Vote(Vote::Numbered(number)) => *number,
        other => panic!("{other:?}"),
    };
    assert!(number(0) < number(3) && number(3) < number(4), "{answers:?}");
}
