mod waiting;

use super::{
    server::{AGES, FEW},
    *,
};
use crate::node::conformance::{replies, resources, tag, take};
use redlatch_core::{Agreement, Cause, Facts, Fault, FencingToken, Mark, Quarantine, Vote};

const SECOND: Duration = Duration::from_secs(1);

struct Fixture {
    node: Memory,
    link: Box<dyn Link>,
}

impl Fixture {
    fn new() -> Self {
        let node = Memory::new("memory:test");
        let link = node.open(Clock::Tokio);
        Fixture { node, link }
    }

    fn take(&mut self, number: u32, name: &str, ttl: Duration) {
        self.link.send(tag(number), take(name, &number.to_be_bytes(), ttl));
    }

    /// The next replies; empty if none come for an hour.
    async fn replies(&mut self) -> Vec<(Tag, Reply)> {
        replies(&mut *self.link, 1, 3600 * SECOND).await
    }

    fn keys(&self) -> Vec<String> {
        self.node.keys().iter().map(ToString::to_string).collect()
    }
}

fn granted(number: u32) -> (Tag, Reply) {
    (tag(number), Reply::Vote(Vote::Granted))
}

#[tokio::test(start_paused = true)]
async fn a_key_lives_exactly_as_long_as_requested_on_the_clock_of_the_link() {
    let mut test = Fixture::new();
    test.take(0, "a", SECOND);
    assert_eq!(test.replies().await, [granted(0)]);

    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(test.keys(), ["a"]);

    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(test.keys(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_node_does_and_answers_nothing_until_it_is_resumed() {
    let mut test = Fixture::new();
    test.node.pause();
    test.take(0, "a", SECOND);
    test.take(1, "b", SECOND);

    assert_eq!(test.replies().await, []);
    assert_eq!(test.keys(), [""; 0]);

    let node = test.node.clone();
    let start = Instant::now();
    let later = tokio::spawn(async move {
        tokio::time::sleep(SECOND).await;
        node.resume();
    });
    assert_eq!(test.replies().await, [granted(0), granted(1)]);
    assert_eq!(start.elapsed(), SECOND);
    later.await.unwrap();
    assert_eq!(test.keys(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_carries_out_each_command_that_long_after_it_was_sent() {
    let mut test = Fixture::new();
    let start = Instant::now();
    test.node.slow(SECOND);
    test.take(0, "a", 60 * SECOND);
    tokio::time::advance(SECOND / 2).await;
    test.take(1, "b", 60 * SECOND);

    assert_eq!(test.keys(), [""; 0]);
    assert_eq!((test.replies().await, start.elapsed()), (vec![granted(0)], SECOND));
    assert_eq!(test.keys(), ["a"]);
    assert_eq!((test.replies().await, start.elapsed()), (vec![granted(1)], SECOND * 3 / 2));
}

#[tokio::test(start_paused = true)]
async fn a_slow_node_made_quick_again_does_at_once_what_waits_in_order() {
    let mut test = Fixture::new();
    test.node.slow(Duration::MAX);
    test.take(0, "a", 60 * SECOND);
    test.take(1, "b", 60 * SECOND);
    assert_eq!(test.replies().await, []);

    let node = test.node.clone();
    let start = Instant::now();
    let later = tokio::spawn(async move {
        tokio::time::sleep(SECOND).await;
        node.slow(Duration::ZERO);
    });
    assert_eq!(test.replies().await, [granted(0), granted(1)]);
    assert_eq!(start.elapsed(), SECOND);
    later.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failing_node_keeps_its_keys_and_a_forgetful_one_its_name_alone() {
    let mut test = Fixture::new();
    test.take(0, "a", SECOND);
    test.link.send(tag(1), Command::Identify);
    let before = test.replies().await;

    test.node.fail(true);
    test.take(2, "b", SECOND);
    let failed = test.replies().await;
    assert!(matches!(&failed[..], [(_, Reply::Vote(Vote::Failed(Fault::Unreachable(_))))]));
    assert_eq!(test.keys(), ["a"]);

    test.node.fail(false);
    test.node.forget();
    test.link.send(tag(1), Command::Identify);
    assert_ne!(test.replies().await[0], before[1], "it must not pass for the same run");
    assert_eq!(test.keys(), [""; 0]);
}

fn agreement() -> Agreement {
    Agreement::new(["memory:test".into()], SECOND, SECOND)
}

impl Fixture {
    async fn reply(&mut self, command: Command) -> Reply {
        self.link.send(tag(0), command);
        self.replies().await.remove(0).1
    }

    async fn watch(&mut self) -> Box<Facts> {
        let fingerprint = agreement().fingerprint();
        match self.reply(Command::Watch { fingerprint, nonce: 7, replace: false }).await {
            Reply::Facts(facts) => facts,
            other => panic!("{other:?}"),
        }
    }

    async fn admit(&mut self, mark: Mark, floor: Option<FencingToken>) -> Reply {
        let (fingerprint, agreement) = (agreement().fingerprint(), agreement().to_string().into());
        self.reply(Command::Admit { fingerprint, agreement, mark: mark.id, floor }).await
    }

    async fn take_guarded(&mut self) -> Reply {
        let fingerprint = Some(agreement().fingerprint());
        let (resources, token) = (resources(["a"]), Token::from_bytes(b"1"));
        self.reply(Command::Take {
            resources,
            token,
            ttl: SECOND,
            fence: None,
            fingerprint,
            place: None,
        })
        .await
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_grows_older_and_a_restarted_node_is_up_longer_on_the_clock_of_the_link() {
    let mut test = Fixture::new();
    assert_eq!(test.watch().await.uptime, Some(AGES), "it has nothing to forget");
    test.node.forget();

    let first = test.watch().await;
    tokio::time::advance(90 * SECOND).await;
    let second = test.watch().await;

    assert_eq!((first.uptime, second.uptime), (Some(Duration::ZERO), Some(90 * SECOND)));
    let (young, old) = (first.mark.unwrap(), second.mark.unwrap());
    assert_eq!((young.age, old.age), (Duration::ZERO, 90 * SECOND));
    assert_eq!(young.id, old.id);
    assert_eq!(second.clock, Some(first.clock.unwrap() + 90 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_flushed_node_is_of_the_same_run_but_may_not_vote_nor_has_it_numbers() {
    let mut test = Fixture::new();
    let mark = test.watch().await.mark.unwrap();
    assert_eq!(test.admit(mark, FencingToken::new(7)).await, Reply::Vote(Vote::Granted));
    assert_eq!(test.take_guarded().await, Reply::Vote(Vote::Granted));
    let told = test.watch().await;
    assert_eq!((told.highest, told.intact), (FencingToken::new(7), true));
    let before = test.reply(Command::Identify).await;

    test.node.flush();

    assert_eq!(test.reply(Command::Identify).await, before);
    assert_eq!(test.keys(), [""; 0]);
    let told = test.watch().await;
    assert_eq!((told.highest, told.intact), (None, false));
    let out = Vote::Quarantined(Quarantine::new(Cause::Forgot));
    assert_eq!(test.take_guarded().await, Reply::Vote(out));
    assert_eq!(test.watch().await.mark.unwrap().age, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn one_key_can_be_removed_by_hand() {
    let mut test = Fixture::new();
    test.take(0, "a", SECOND);
    test.take(1, "b", SECOND);
    test.replies().await;

    assert!(test.node.remove("a"));
    assert!(!test.node.remove("a"));
    assert!(!test.node.remove(""));

    assert_eq!(test.keys(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn expired_keys_do_not_pile_up() {
    let mut test = Fixture::new();

    for number in 0..10_000 {
        test.take(number, &number.to_string(), Duration::from_millis(1));
        test.replies().await;
        tokio::time::advance(Duration::from_millis(1)).await;
    }

    let keys = lock(&test.node.server).stored();
    assert!(keys <= FEW, "{keys} keys");
}
