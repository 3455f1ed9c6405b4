//! Tells the engine which links have something to do.
//!
//! In:  wakes from the links, each with its own bell, and commands sent to them.
//! Out: whether to poll a link.
//!
//! Promise: a link is polled after every wake, and after every command sent to it. Ringing
//! a bell wakes the engine; the engine need not wake itself.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// The bells of all links.
pub(super) struct Bells {
    engine: Arc<Engine>,
    /// A copy of the waker in `engine`, to compare without a lock.
    known: Waker,
    links: Box<[Link]>,
}

struct Link {
    bell: Arc<Bell>,
    waker: Waker,
}

/// The task that runs the engine.
struct Engine(Mutex<Waker>);

struct Bell {
    engine: Arc<Engine>,
    rings: AtomicBool,
}

impl Bells {
    /// Creates one bell per link. All of them ring.
    pub(super) fn new(links: usize) -> Self {
        let engine = Arc::new(Engine(Mutex::new(Waker::noop().clone())));
        let link = |_| {
            let bell = Arc::new(Bell { engine: engine.clone(), rings: AtomicBool::new(true) });
            Link { waker: bell.clone().into(), bell }
        };
        let links = (0..links).map(link).collect();
        Bells { engine, known: Waker::noop().clone(), links }
    }

    /// Wakes this task from now on.
    pub(super) fn wake(&mut self, waker: &Waker) {
        if !self.known.will_wake(waker) {
            self.known.clone_from(waker);
            self.engine.lock().clone_from(waker);
        }
    }

    /// A command was sent over a link.
    pub(super) fn ring(&self, link: usize) {
        let rings = &self.links[link].bell.rings;
        // Not a plain store: that could hide from us what the link's waker knows.
        if !rings.load(Ordering::Relaxed) {
            rings.swap(true, Ordering::Relaxed);
        }
    }

    pub(super) fn ring_all(&self) {
        (0..self.links.len()).for_each(|link| self.ring(link));
    }

    /// Returns the context to poll a link with, if its bell rings, and silences the bell.
    pub(super) fn answer(&self, link: usize) -> Option<Context<'_>> {
        let Link { bell, waker } = &self.links[link];
        let rings = bell.rings.load(Ordering::Relaxed) && bell.rings.swap(false, Ordering::AcqRel);
        rings.then(|| Context::from_waker(waker))
    }
}

impl Engine {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waker> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // If it already rings, the engine was woken, or rang it itself and will poll the
        // link.
        if !self.rings.swap(true, Ordering::AcqRel) {
            self.engine.lock().wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Counts how many times the engine is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Task {
        fn woken(&self) -> usize {
            self.0.swap(0, Ordering::Relaxed)
        }
    }

    /// Bells that have all been answered, and the task that they wake.
    fn bells() -> (Bells, Arc<Task>) {
        let (mut bells, task) = (Bells::new(2), Arc::<Task>::default());
        bells.wake(&task.clone().into());
        for link in 0..2 {
            assert!(bells.answer(link).is_some(), "at first all are polled");
        }
        (bells, task)
    }

    /// Polls a link, which keeps the waker.
    fn poll(bells: &Bells, link: usize) -> Option<Waker> {
        bells.answer(link).map(|cx| cx.waker().clone())
    }

    #[test]
    fn a_link_is_polled_again_only_when_it_was_woken_or_something_was_sent() {
        let (bells, task) = bells();
        bells.ring(1);
        let waker = poll(&bells, 1).unwrap();
        assert_eq!(task.woken(), 0, "the engine knows what it has sent");

        waker.wake_by_ref();

        assert_eq!(task.woken(), 1);
        assert!(poll(&bells, 0).is_none());
        assert!(poll(&bells, 1).is_some());
        assert!(poll(&bells, 1).is_none());
    }

    #[test]
    fn a_wake_between_two_polls_is_never_lost() {
        let (bells, task) = bells();
        bells.ring(0);
        let waker = poll(&bells, 0).unwrap();

        for _ in 0..3 {
            waker.wake_by_ref();
            waker.wake_by_ref();
            assert_eq!(task.woken(), 1, "once is enough");
            assert!(poll(&bells, 0).is_some());
        }
    }

    #[test]
    fn whoever_runs_the_engine_now_is_woken() {
        let (mut bells, before) = bells();
        bells.ring(0);
        let waker = poll(&bells, 0).unwrap();
        let now = Arc::<Task>::default();

        bells.wake(&now.clone().into());
        waker.wake();

        assert_eq!((before.woken(), now.woken()), (0, 1));
    }
}
