use super::*;
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    time::Duration,
};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
const WALL: u64 = 1_700_000_000 * S;

type Meanwhile<'a> = Box<dyn FnOnce(&Moved) + 'a>;

/// Two clocks that a test sets.
struct Moved<'a> {
    boot: Cell<u64>,
    wall: Cell<u64>,
    /// How long the thread is preempted right after each of the next readings.
    away: RefCell<VecDeque<u64>>,
    /// What other threads do right after the wall clock is read next.
    meanwhile: RefCell<Option<Meanwhile<'a>>>,
}

impl<'a> Moved<'a> {
    fn new() -> Self {
        Moved {
            boot: Cell::new(5 * S),
            wall: Cell::new(WALL),
            away: RefCell::default(),
            meanwhile: RefCell::default(),
        }
    }

    fn pass(&self, nanos: u64) {
        self.boot.set(self.boot.get() + nanos);
        self.wall.set(self.wall.get() + nanos);
    }

    fn step_wall(&self, nanos: i64) {
        self.wall.set(self.wall.get().strict_add_signed(nanos));
    }

    fn away_after_readings(&self, away: impl IntoIterator<Item = u64>) {
        self.away.borrow_mut().extend(away);
    }

    fn meanwhile(&self, what: impl FnOnce(&Moved) + 'a) {
        *self.meanwhile.borrow_mut() = Some(Box::new(what));
    }

    fn be_away(&self) {
        let away = self.away.borrow_mut().pop_front();
        self.pass(away.unwrap_or(50));
    }
}

impl Clocks for Moved<'_> {
    fn boot(&self) -> u64 {
        let boot = self.boot.get();
        self.be_away();
        boot
    }

    fn wall(&self) -> u64 {
        let wall = self.wall.get();
        self.be_away();
        let meanwhile = self.meanwhile.borrow_mut().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile(self);
        }
        wall
    }
}

/// How much more than the boot clock the lease clock has counted since `begin`.
fn ahead(skips: &Skips, clocks: &Moved, begin: (Moment, u64)) -> Duration {
    let passed = skips.now(clocks).since(begin.0);
    passed.saturating_sub(Duration::from_nanos(clocks.boot.get() - begin.1))
}

fn begin(skips: &Skips, clocks: &Moved) -> (Moment, u64) {
    let boot = clocks.boot.get();
    (skips.now(clocks), boot)
}

#[test]
fn elapsed_is_what_the_boot_clock_says_while_both_agree() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let before = skips.now(&clocks);

    clocks.pass(3 * S);

    let passed = skips.now(&clocks).since(before);
    assert!(passed.abs_diff(Duration::from_secs(3)) < Duration::from_micros(1), "{passed:?}");
}

#[test]
fn a_wall_clock_that_steps_back_has_no_effect() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    clocks.step_wall(-3600 * S.cast_signed());

    assert_eq!(ahead(&skips, &clocks, begin), Duration::ZERO);
}

#[test]
fn a_frozen_machine_is_seen_by_the_wall_clock() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    clocks.pass(86_400 * S);
    clocks.step_wall(60 * S.cast_signed());

    let ahead = ahead(&skips, &clocks, begin);
    assert!(ahead.abs_diff(Duration::from_secs(60)) < Duration::from_micros(1), "{ahead:?}");
}

#[test]
fn a_step_back_and_forth_counts_the_way_forth_once() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);
    clocks.step_wall(-99 * S.cast_signed());
    assert_eq!(ahead(&skips, &clocks, begin), Duration::ZERO);

    clocks.step_wall(99 * S.cast_signed());

    for _ in 0..10 {
        let ahead = ahead(&skips, &clocks, begin);
        assert!(ahead.abs_diff(Duration::from_secs(99)) < Duration::from_micros(1), "{ahead:?}");
    }
}

#[test]
fn a_freeze_after_a_step_back_is_counted() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    clocks.pass(S);
    skips.now(&clocks);
    clocks.step_wall(-3600 * S.cast_signed());
    let begin = begin(&skips, &clocks);

    clocks.step_wall(60 * S.cast_signed());

    let ahead = ahead(&skips, &clocks, begin);
    assert!(ahead.abs_diff(Duration::from_secs(60)) < Duration::from_micros(1), "{ahead:?}");
}

#[test]
fn a_thread_that_is_away_between_two_readings_counts_for_nothing() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    for _ in 0..10_000 {
        clocks.away_after_readings([4 * MS]); // preempted after reading the boot clock
        skips.now(&clocks);
    }

    assert_eq!(ahead(&skips, &clocks, begin), Duration::ZERO);
}

#[test]
fn a_thread_that_is_away_at_every_reading_counts_for_nothing() {
    let (skips, clocks) = (Skips::new(), Moved::new());

    // Including the first time, when there is nothing to compare with.
    for _ in 0..100 {
        clocks.away_after_readings([4 * MS, 7 * MS, MS, 9 * MS, 3 * MS].repeat(10));
        skips.now(&clocks);
        clocks.away.borrow_mut().clear();
        skips.now(&clocks);
    }

    assert_eq!(skips.skipped.load(Ordering::Acquire), 0);
}

#[test]
fn a_freeze_that_only_torn_readings_see_is_counted_up_to_the_tear_and_then_in_full() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    clocks.step_wall(60 * S.cast_signed());
    clocks.away_after_readings([10 * MS; 30]);
    let torn = ahead(&skips, &clocks, begin);
    clocks.away.borrow_mut().clear();

    assert!(torn >= Duration::from_millis(59_950), "{torn:?}");
    assert!(torn <= Duration::from_secs(60), "{torn:?}");
    let sharp = ahead(&skips, &clocks, begin);
    let missing = Duration::from_secs(60).abs_diff(sharp);
    assert!(missing < Duration::from_nanos(NOISE.unsigned_abs()), "{sharp:?}");
}

#[test]
fn a_reading_from_before_a_jump_does_not_make_it_count_again() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    for _ in 0..10 {
        // Preempted after reading both clocks; meanwhile the wall clock jumps and other threads
        // see it.
        clocks.meanwhile(|clocks| {
            clocks.step_wall(S.cast_signed());
            skips.now(clocks);
        });
        skips.now(&clocks);
    }

    let ahead = ahead(&skips, &clocks, begin);
    assert!(ahead.abs_diff(Duration::from_secs(10)) < Duration::from_micros(10), "{ahead:?}");
}

#[test]
fn a_distance_that_jitters_does_not_add_up() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    for to_and_fro in [900, -900].repeat(10_000) {
        clocks.step_wall(to_and_fro * 500); // ns: 0.45 ms
        skips.now(&clocks);
        clocks.pass(1_000);
    }

    assert_eq!(ahead(&skips, &clocks, begin), Duration::ZERO);
}

#[test]
fn a_wall_clock_that_is_slewed_up_and_down_for_hours_does_not_add_up() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    for second in 0..4 * 3600 {
        for _ in 0..4 {
            clocks.pass(250 * MS);
            // 500 parts per million, ten minutes up and ten minutes down.
            clocks.step_wall(if second / 600 % 2 == 0 { 125_000 } else { -125_000 });
            skips.now(&clocks);
        }
    }

    assert_eq!(ahead(&skips, &clocks, begin), Duration::ZERO);
}

#[test]
fn jumps_too_small_to_count_cost_a_thousandth_of_the_time_at_most() {
    let (skips, clocks) = (Skips::new(), Moved::new());
    let begin = begin(&skips, &clocks);

    for _ in 0..1_000 {
        clocks.pass(10 * MS);
        clocks.step_wall(MS.cast_signed() * 9 / 10);
        skips.now(&clocks);
    }

    let jumped = Duration::from_millis(900);
    let allowed = Duration::from_millis(1 + 10); // noise, a thousandth of 10 s
    let ahead = ahead(&skips, &clocks, begin);
    assert!(ahead + allowed >= jumped, "{ahead:?} of {jumped:?}");
}

#[test]
fn many_threads_see_a_jump_once() {
    struct Shared<'a>(&'a AtomicU64, &'a AtomicU64);
    impl Clocks for Shared<'_> {
        fn boot(&self) -> u64 {
            self.0.fetch_add(7, Ordering::SeqCst)
        }
        fn wall(&self) -> u64 {
            self.0.fetch_add(7, Ordering::SeqCst) + self.1.load(Ordering::SeqCst)
        }
    }
    let (boot, distance) = (AtomicU64::new(S), AtomicU64::new(WALL));
    let skips = Skips::new();
    skips.now(&Shared(&boot, &distance));

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    skips.now(&Shared(&boot, &distance));
                }
            });
        }
        for _ in 0..100 {
            distance.fetch_add(S, Ordering::SeqCst);
            skips.now(&Shared(&boot, &distance));
        }
    });

    let skipped = skips.skipped.load(Ordering::Acquire);
    let tolerated = 100 * TORN; // each jump is seen to within a reading
    assert!(skipped.abs_diff(100 * S) <= tolerated, "{skipped} ns");
}
