//! Fault 18: the client's machine is suspended. Its boot clock runs on while
//! everything else stands still, `CLOCK_MONOTONIC` included.
//!
//! A time namespace does that to a process which is forked into it: it has the
//! lease in its memory, and finds an hour gone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};
use redlatch::blocking::Guard;
use std::fs;
use support::{Fleet, NAME};

#[test]
fn fault_18_a_lease_has_ended_when_the_machine_wakes_up() {
    let (_fleet, locks) = Fleet::with_blocking(3);
    let guard = locks.lock(NAME).acquire().unwrap();

    let after_an_hour = held_after(&guard, "boottime 3600 0");
    let at_once = held_after(&guard, "boottime 0 0");

    assert!(!after_an_hour, "it was away for an hour");
    assert!(at_once, "it was not away at all");
    assert!(guard.is_held());
}

/// Whether the lease is held by a clock that jumped by `offset`.
fn held_after(guard: &Guard, offset: &str) -> bool {
    // Only processes that are started from now on are in the namespace.
    if let Err(error) = nix::sched::unshare(time_namespace()) {
        panic!("time namespaces need root: {error}");
    }
    let offsets = format!("/proc/{}/timens_offsets", nix::unistd::gettid());
    fs::write(offsets, offset).unwrap();
    // SAFETY: the child reads a clock and some atomics, and is gone.
    #[expect(unsafe_code, reason = "std cannot fork")]
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let held = i32::from(guard.is_held());
            // SAFETY: nothing of the parent's is cleaned up by this.
            unsafe { nix::libc::_exit(held) }
        }
        ForkResult::Parent { child } => match waitpid(child, None).unwrap() {
            WaitStatus::Exited(_, held) => held == 1,
            other => panic!("{other:?}"),
        },
    }
}

fn time_namespace() -> nix::sched::CloneFlags {
    nix::sched::CloneFlags::from_bits_retain(nix::libc::CLONE_NEWTIME)
}
