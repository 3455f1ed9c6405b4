//! Testing your own code without Redis: break nodes, lose the lock, in virtual
//! time. The same as a test: `#[tokio::test(start_paused = true)]`.
//!
//! `cargo run --example testing_your_code`

use redlatch::{LockError, Locks, testing::Nodes};
use std::time::Duration;

/// The code under test: a job that must stop when its lock is lost.
async fn nightly_job(locks: &Locks) -> Result<u32, LockError> {
    let guard = locks.lock("nightly").await?;
    let mut steps = 0;
    while guard.is_held() && steps < 30 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        steps += 1;
    }
    Ok(steps)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true) // nobody waits: time jumps to the next timer
        .build()?;
    runtime.block_on(async {
        let nodes = Nodes::new(5);
        let locks = nodes.locks();

        nodes.pause(0);
        nodes.fail(1);
        println!("with two of five nodes down: {} steps", nightly_job(&locks).await?);

        nodes.pause(2);
        match nightly_job(&locks).await {
            Err(LockError::NoMajority { votes }) => println!("with three down: {votes}"),
            other => println!("not expected: {other:?}"),
        }

        nodes.resume(0);
        let job = nightly_job(&locks);
        let outage = async {
            tokio::time::sleep(Duration::from_secs(600)).await;
            (0..5).for_each(|node| nodes.forget(node));
        };
        let (steps, ()) = tokio::join!(job, outage);
        println!("with all memory lost after ten minutes: {} steps", steps?);
        Ok(())
    })
}
