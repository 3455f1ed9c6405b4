//! A process forked without `exec` has its parent's memory and none of its threads:
//! its own locks are looked after, its parent's are left alone.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use nix::{
    sys::wait::{WaitStatus, waitpid},
    unistd::{ForkResult, fork},
};
use redlatch::{LockError, Lost};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process, thread,
};
use support::{Fleet, LIMIT, NAME, SEC, in_time};
use tokio::runtime::Builder;

#[test]
fn a_forked_process_has_a_keeper_of_its_own_and_leaves_its_parents_locks_alone() {
    let (fleet, locks) = Fleet::with_blocking(3);
    let guard = locks.lock(NAME).acquire().unwrap();

    let child = in_a_fork(|| {
        let refused = locks.lock("other").acquire();
        assert!(matches!(refused, Err(LockError::Stopped)), "{refused:?}");
        assert!(guard.extend().is_err());
        assert_eq!(signalled_by_the_keeper_alone(&fleet), Lost::Expired { votes: None });
    });

    assert!(matches!(child, WaitStatus::Exited(_, 0)), "{child:?}");
    guard.extend().expect("the child left it alone");
    assert_eq!(fleet.nodes_with(NAME), 3);
}

/// Takes a lock, lets its engine stand still, and waits for the loss.
fn signalled_by_the_keeper_alone(fleet: &Fleet) -> Lost {
    let blocked = Builder::new_current_thread().enable_all().build().unwrap();
    let guard = blocked.block_on(async {
        let locks = fleet.locks().await;
        locks.lock("own").ttl(2 * SEC).node_timeout(SEC).no_renewal().await.unwrap()
    });
    let awake = Builder::new_current_thread().enable_all().build().unwrap();
    awake.block_on(in_time(guard.lease().lost()))
}

fn in_a_fork(work: impl FnOnce()) -> WaitStatus {
    // SAFETY: whatever other threads of this process have locked, the child does
    // without, and it does not return from here.
    #[expect(unsafe_code, reason = "std cannot fork")]
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            // It may start its own threads; nothing may hang forever.
            thread::spawn(|| {
                thread::sleep(2 * LIMIT);
                process::abort();
            });
            let failed = i32::from(catch_unwind(AssertUnwindSafe(work)).is_err());
            // SAFETY: nothing of the parent's is cleaned up by this.
            unsafe { nix::libc::_exit(failed) }
        }
        ForkResult::Parent { child } => waitpid(child, None).unwrap(),
    }
}
