//! What a lock that is held costs in memory, counted by the allocator: all that
//! is there for it, the guard included, in whatever thread it was allocated.

mod support;

use futures_util::future::try_join_all;
use redlatch::{Guard, Locks, OwnerParts};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};
use support::{Fleet, LIMIT, SEC};

/// One lock on five nodes, by default settings, with a name and an owner of common length.
/// Metrics keep the time at which each was taken, and of commands when they were sent.
const MOST: usize = if cfg!(feature = "metrics") { 640 } else { 600 };
const NODES: usize = 5;
const ONE_BY_ONE: usize = 2000;
const AT_ONCE: usize = 10_000;

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
    locks.status("nothing").await.expect("nodes that answer");
    LIVE.load(Ordering::Relaxed)
}

async fn locks(fleet: &Fleet) -> Locks {
    // Longer than the default, so that no renewal is under way when memory is counted.
    let builder = Locks::builder().nodes(fleet.servers.urls()).ttl(30 * SEC).wait(LIMIT);
    // So long that no vote fails on a busy machine: votes that differ take more room.
    let builder = builder.node_timeout(10 * SEC);
    // Not the name of whichever machine runs this.
    let mut details = OwnerParts::default();
    (details.host, details.pid) = (Some("web-1".into()), Some(4711));
    let builder = builder.owner_details(details);
    let locks = builder.admit_new_servers().connect().await.expect("locks");
    // Buffers have grown before anything is counted.
    drop(at_once(&locks, 256).await);
    locks.settled().await;
    locks
}

async fn one_by_one(locks: &Locks, ttl: Duration) -> Vec<Guard> {
    let mut guards = Vec::with_capacity(ONE_BY_ONE);
    for number in 0..ONE_BY_ONE {
        guards.push(locks.lock(format!("invoice:{number}")).ttl(ttl).await.expect("a lock"));
    }
    guards
}

async fn at_once(locks: &Locks, count: usize) -> Vec<Guard> {
    let asked = (0..count).map(|number| locks.lock(format!("invoice:{number}")).into_future());
    let mut guards = try_join_all(asked).await.expect("locks");
    guards.shrink_to_fit();
    guards
}

#[tokio::test]
async fn a_lock_that_is_held_costs_at_most_600_bytes() {
    let fleet = Fleet::of(NODES);
    let locks = locks(&fleet).await;
    // The second time with a TTL of their own.
    for ttl in [30 * SEC, 29 * SEC] {
        let before = live(&locks).await;
        let guards = one_by_one(&locks, ttl).await;
        let taken = (live(&locks).await - before) / ONE_BY_ONE;
        for guard in &guards {
            guard.extend().await.unwrap();
        }
        let extended = (live(&locks).await - before) / ONE_BY_ONE;

        println!("one by one: {taken} bytes for each lock, {extended} once extended");
        assert!(taken <= MOST && extended <= MOST, "{taken} bytes, {extended} once extended");
        drop(guards);
        locks.settled().await;
    }

    let before = live(&locks).await;
    let guards = at_once(&locks, AT_ONCE).await;
    let taken = (live(&locks).await - before) / guards.len();

    println!("at once: {taken} bytes for each lock");
    assert!(taken <= MOST, "{taken} bytes");
}
