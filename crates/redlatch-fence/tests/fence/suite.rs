//! What every fenced place has to do.

use super::{
    Refusal,
    history::{Act, History},
    token,
};
use redlatch::FencingToken;
use redlatch_core::dice::Dice;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Barrier;

/// A fenced place that holds one value.
pub(crate) trait Target: Send + Sized + 'static {
    type Error: Refusal + Send;

    /// The same place, reached in another way: over another connection.
    fn another(&mut self) -> impl Future<Output = Self> + Send;

    fn write(
        &mut self,
        token: FencingToken,
        value: &[u8],
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    fn seal(&mut self, token: FencingToken)
    -> impl Future<Output = Result<(), Self::Error>> + Send;

    fn read(&mut self) -> impl Future<Output = Option<Vec<u8>>> + Send;
}

macro_rules! checks {
    ($($check:ident)*) => {
        /// All checks by name.
        pub(crate) const CHECKS: &[&str] = &[$(stringify!($check)),*];

        /// Runs all checks, each on a fresh place, and returns those it fails.
        pub(crate) async fn failures<P: Target>(fresh: impl AsyncFn() -> P) -> Vec<&'static str> {
            let mut failed = Vec::new();
            $(
                let target = Subject(fresh().await);
                if tokio::spawn($check(target)).await.is_err() {
                    failed.push(stringify!($check));
                }
            )*
            failed
        }
    };
}

checks! {
    growing_tokens_are_applied
    an_equal_token_is_applied_again
    a_stale_write_names_what_beat_it_and_leaves_no_trace
    a_seal_refuses_smaller_tokens_though_nothing_was_written
    a_seal_keeps_the_value
    a_seal_is_as_good_the_second_time
    a_stale_seal_is_refused_and_lowers_nothing
    a_stale_seal_leaves_the_value_alone
    tokens_are_numbers_not_text
    the_greatest_tokens_are_told_apart
    values_are_any_bytes
    all_ways_lead_to_one_fence
    writers_at_once_end_with_the_greatest
}

/// Panics unless the place passes every check.
pub(crate) async fn passes<P: Target>(fresh: impl AsyncFn() -> P) {
    assert_eq!(failures(fresh).await, [""; 0], "the target fails these");
}

/// A place under test, in the words of the checks.
struct Subject<P>(P);

impl<P: Target> Subject<P> {
    async fn applies(&mut self, number: u64, value: &str) {
        self.0.write(token(number), value.as_bytes()).await.expect("applied");
        self.holds(Some(value)).await;
    }

    async fn refuses(&mut self, number: u64, beaten_by: u64) {
        let before = self.0.read().await;
        refused(&self.0.write(token(number), b"late").await, number, beaten_by);
        assert_eq!(self.0.read().await, before, "a trace of {number}");
    }

    async fn seals(&mut self, number: u64) {
        self.0.seal(token(number)).await.expect("sealed");
    }

    async fn refuses_seal(&mut self, number: u64, beaten_by: u64) {
        refused(&self.0.seal(token(number)).await, number, beaten_by);
    }

    async fn holds(&mut self, value: Option<&str>) {
        let found = self.0.read().await;
        assert_eq!(found.as_deref(), value.map(str::as_bytes));
    }
}

fn refused(result: &Result<(), impl Refusal>, number: u64, beaten_by: u64) {
    let stale = result.as_ref().err().and_then(Refusal::stale);
    let Some(stale) = stale else { panic!("{number} should be beaten by {beaten_by}: {result:?}") };
    assert_eq!((stale.token.get(), stale.beaten_by.get()), (number, beaten_by));
}

async fn growing_tokens_are_applied(mut target: Subject<impl Target>) {
    target.holds(None).await;
    target.applies(1, "a").await;
    target.applies(2, "b").await;
    target.applies(700, "c").await;
}

async fn an_equal_token_is_applied_again(mut target: Subject<impl Target>) {
    target.applies(5, "a").await;
    target.applies(5, "b").await;
    target.applies(5, "b").await;
}

async fn a_stale_write_names_what_beat_it_and_leaves_no_trace(mut target: Subject<impl Target>) {
    target.applies(3, "a").await;
    target.applies(5, "b").await;

    target.refuses(4, 5).await;
    target.refuses(1, 5).await;

    target.applies(5, "c").await;
}

async fn a_seal_refuses_smaller_tokens_though_nothing_was_written(
    mut target: Subject<impl Target>,
) {
    target.seals(5).await;

    target.holds(None).await;
    target.refuses(4, 5).await;
    target.applies(5, "a").await;
}

async fn a_seal_keeps_the_value(mut target: Subject<impl Target>) {
    target.applies(4, "a").await;

    target.seals(5).await;

    target.holds(Some("a")).await;
    target.refuses(4, 5).await;
    target.applies(6, "b").await;
}

async fn a_seal_is_as_good_the_second_time(mut target: Subject<impl Target>) {
    target.seals(5).await;
    target.seals(5).await;
    target.holds(None).await;
    target.applies(5, "a").await;
    target.seals(5).await;
    target.holds(Some("a")).await;
    target.refuses(4, 5).await;
}

async fn a_stale_seal_is_refused_and_lowers_nothing(mut target: Subject<impl Target>) {
    target.seals(5).await;

    target.refuses_seal(4, 5).await;

    target.refuses(4, 5).await;
}

async fn a_stale_seal_leaves_the_value_alone(mut target: Subject<impl Target>) {
    target.applies(5, "a").await;

    target.refuses_seal(4, 5).await;

    target.holds(Some("a")).await;
}

async fn tokens_are_numbers_not_text(mut target: Subject<impl Target>) {
    target.applies(9, "a").await;
    target.applies(10, "b").await;
    target.refuses(9, 10).await;
}

async fn the_greatest_tokens_are_told_apart(mut target: Subject<impl Target>) {
    const MAX: u64 = FencingToken::MAX;
    target.applies(MAX - 1, "a").await;
    target.applies(MAX, "b").await;
    target.refuses(MAX - 1, MAX).await;
}

async fn values_are_any_bytes(mut target: Subject<impl Target>) {
    let all: Vec<u8> = (0..=255).collect();
    let long = all.repeat(4096);
    for value in [&b""[..], b"\n", b"redlatch-fence:", &all, &long] {
        target.0.write(token(1), value).await.expect("applied");
        assert_eq!(target.0.read().await.as_deref(), Some(value));
    }
}

async fn all_ways_lead_to_one_fence(mut target: Subject<impl Target>) {
    let mut another = Subject(target.0.another().await);

    target.applies(4, "a").await;
    another.holds(Some("a")).await;
    another.seals(5).await;

    target.refuses(4, 5).await;
    another.applies(6, "b").await;
    target.holds(Some("b")).await;
}

/// Writers and sealers with random tokens, while somebody watches.
async fn writers_at_once_end_with_the_greatest(mut target: Subject<impl Target>) {
    const WRITERS: u64 = 6;
    const ACTS: u64 = 20;
    let history = Arc::new(History::default());
    let done = Arc::new(AtomicBool::new(false));
    let mut watcher = target.0.another().await;
    let (looked, is_done) = (history.clone(), done.clone());
    let watching = tokio::spawn(async move {
        while !is_done.load(Ordering::Relaxed) {
            looked.saw(watcher.read().await);
            tokio::task::yield_now().await;
        }
        watcher
    });
    let mut writing = Vec::new();
    // Or one may be done before the next one is there.
    let all_are_there = Arc::new(Barrier::new(usize::try_from(WRITERS).expect("few")));
    for writer in 0..WRITERS {
        let mut target = target.0.another().await;
        let (history, all_are_there) = (history.clone(), all_are_there.clone());
        writing.push(tokio::spawn(async move {
            all_are_there.wait().await;
            let mut random = Dice::of(writer + 1, &[]);
            for number in 0..ACTS {
                // Growing, so that not all but the first are stale.
                let token = token(1 + number * 10 + random.below(100));
                let seals = random.below(4) == 0;
                let value = format!("{token} by {writer}, {number}");
                let began = history.now();
                let result = if seals {
                    target.seal(token).await
                } else {
                    target.write(token, value.as_bytes()).await
                };
                let beaten_by = match result {
                    Ok(()) => None,
                    Err(error) => match error.stale() {
                        Some(stale) => Some(stale.beaten_by),
                        None => panic!("{token}: {error}"),
                    },
                };
                let value = (!seals).then_some(value);
                let ended = history.now();
                history.did(Act { began, ended, token, value, beaten_by });
            }
        }));
    }
    for writer in writing {
        writer.await.expect("a writer");
    }
    done.store(true, Ordering::Relaxed);
    let mut watcher = watching.await.expect("the watcher");
    history.saw(watcher.read().await);

    let faults = history.faults();
    assert!(faults.is_empty(), "{faults:#?}");
}
