//! What a lock that is held costs in memory, counted by the allocator: all that
//! is there for it, the guard included, in whatever thread it was allocated.

mod support;

use futures_util::future::try_join_all;
use redlatch::{Guard, Locks};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};
use support::{Fleet, LIMIT, SEC};

/// One lock on three nodes, with a name and an owner of common length.
const MOST: usize = 1000;
const LOCKS: usize = 2000;

/// Bytes that are allocated now, as malloc counts them.
static LIVE: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// With its header, in steps of 16.
fn chunk(bytes: usize) -> usize {
    (bytes + 8).next_multiple_of(16).max(32)
}

// SAFETY: the system's allocator does all of it; this only counts.
#[expect(unsafe_code, reason = "the trait is unsafe")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(chunk(layout.size()), Ordering::Relaxed);
        // SAFETY: what holds for this call holds for that one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, there: *mut u8, layout: Layout) {
        LIVE.fetch_sub(chunk(layout.size()), Ordering::Relaxed);
        // SAFETY: what holds for this call holds for that one.
        unsafe { System.dealloc(there, layout) }
    }
}

/// Bytes that are there once every node has answered all that it was asked.
async fn live(locks: &Locks) -> usize {
    locks.status("nothing").await.expect("three nodes that answer");
    LIVE.load(Ordering::Relaxed)
}

async fn one_by_one(locks: &Locks) -> Vec<Guard> {
    let mut guards = Vec::with_capacity(LOCKS);
    for number in 0..LOCKS {
        guards.push(locks.lock(format!("invoice:{number}")).ttl(30 * SEC).await.expect("a lock"));
    }
    guards
}

async fn at_once(locks: &Locks) -> Vec<Guard> {
    let ask = |number| locks.lock(format!("invoice:{number}")).ttl(30 * SEC).wait(LIMIT);
    let asked = (0..LOCKS).map(|number| ask(number).into_future());
    let mut guards = try_join_all(asked).await.expect("locks");
    guards.shrink_to_fit();
    guards
}

#[tokio::test]
async fn a_lock_that_is_held_costs_less_than_a_kilobyte() {
    let (_fleet, locks) = Fleet::with_locks(3).await;
    // Buffers and tables have grown before anything is counted.
    drop(at_once(&locks).await);
    locks.settled().await;

    let before = live(&locks).await;
    let guards = one_by_one(&locks).await;
    let taken = live(&locks).await - before;
    for guard in &guards {
        guard.extend().await.unwrap();
    }
    let extended = live(&locks).await - before;

    let (taken, extended) = (taken / LOCKS, extended / LOCKS);
    println!("{taken} bytes for each lock, {extended} once extended");
    assert!(taken <= MOST && extended <= MOST, "{taken} bytes, {extended} once extended");
}
