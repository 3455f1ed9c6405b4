//! What must succeed a hundred thousand times: row 27, and the descriptors of row 42.

use super::{ms, row};
use crate::{
    dice::{self, Dice},
    orders::Habits,
    scenario::{Row, Scale, Shown},
    vouch::vouch,
};
use redlatch::blocking::Locks;
use redlatch_testbed::{Proxy, Servers, wait_until};
use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// How many callers race, each with its own lock.
const CALLERS: usize = 32;

pub(crate) fn rows() -> Vec<Row> {
    vec![
        row(27, "release racing a renewal")
            .script("released while it is renewed", released_while_renewed)
            .tests(&["releasing::an_extension_that_the_release_overtook_is_answered"]),
    ]
}

fn times(scale: Scale) -> usize {
    match scale {
        Scale::Full => 100_000,
        Scale::Short => 4_000,
    }
}

/// Renewals are due every two milliseconds, and releases come at about the same
/// time.
fn released_while_renewed(scale: Scale) -> anyhow::Result<Shown> {
    const DUE: Duration = ms(2);
    let servers = Servers::start(3)?;
    let builder = Habits::default().builder(&servers.urls());
    vouch(&builder)?;
    let locks = builder.connect_blocking()?;
    let taken = many(times(scale), |caller, dice| {
        let request = locks.lock(format!("stock:{caller}")).renew_every(DUE);
        let guard = request.acquire()?;
        thread::sleep(dice.time(DUE, 2 * DUE));
        guard.release()?;
        Ok(())
    })?;
    locks.settled();
    let left = servers.keys_everywhere().concat();
    anyhow::ensure!(left.is_empty(), "{} keys left: {left:?}", left.len());
    Ok(Shown { injected: taken, acquisitions: taken, note: "no key left".into() })
}

/// Connections are reset all the time; no descriptor leaks.
pub(crate) fn descriptors(scale: Scale) -> anyhow::Result<Shown> {
    let servers = Servers::start(3)?;
    let proxies: Vec<Proxy> = servers.iter().map(Proxy::to).collect::<Result<_, _>>()?;
    let urls: Vec<_> = proxies.iter().map(Proxy::url).collect();
    let builder = Habits::default().builder(&urls);
    vouch(&builder)?;
    let locks = builder.connect_blocking()?;
    let before = open_descriptors()?;
    let done = AtomicBool::new(false);
    let (taken, resets) = thread::scope(|scope| {
        let resetting = scope.spawn(|| {
            let mut resets = 0;
            while !done.load(Ordering::Acquire) {
                proxies[resets % proxies.len()].reset_all();
                resets += 1;
                thread::sleep(ms(20));
            }
            resets
        });
        let taken = many(times(scale), |caller, _| {
            lock_once(&locks, caller);
            Ok(())
        });
        done.store(true, Ordering::Release);
        (taken, resetting.join().expect("resets do not panic"))
    });
    let taken = taken?;
    locks.settled();
    // For each open connection, a proxy has two ends in this process.
    let mut after = 0;
    let back = wait_until(ms(5000), || {
        after = open_descriptors().unwrap_or(usize::MAX);
        after <= before + proxies.len()
    });
    anyhow::ensure!(back, "{before} descriptors before, {after} after");
    let note = format!("{before} descriptors before, {after} after {resets} resets");
    Ok(Shown { injected: resets, acquisitions: taken, note })
}

/// A lock lost with its connections is not an error here.
fn lock_once(locks: &Locks, caller: usize) {
    if let Ok(guard) = locks.lock(format!("stock:{caller}")).acquire() {
        let _ = guard.release();
    }
}

fn open_descriptors() -> anyhow::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count())
}

/// Does something `times` times, by many callers at once.
fn many(
    times: usize,
    act: impl Fn(usize, &mut Dice) -> anyhow::Result<()> + Sync,
) -> anyhow::Result<usize> {
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS)
            .map(|caller| {
                let (act, done) = (&act, &done);
                scope.spawn(move || {
                    let mut dice = dice::roll();
                    while done.fetch_add(1, Ordering::Relaxed) < times {
                        act(caller, &mut dice)?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        callers.into_iter().try_for_each(|caller| caller.join().expect("no caller panics"))
    })?;
    Ok(times)
}
