//! A lock from beginning to end on the embedded node: nothing to install.
//!
//! `cargo run --release --example quickstart`

use redlatch::{Locks, Lost};
use redlatch_testbed::Scratch;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = Scratch::new()?; // removed at the end
    let url = format!("file:{}", dir.file("locks.db").display());
    println!("The embedded node is a file, shared by all processes of this machine:\n  {url}\n");

    // Two clients, as if they were two processes.
    let alice = Locks::builder().node(&url).owner("alice").connect().await?;
    let bob = Locks::builder().node(&url).owner("bob").connect().await?;

    println!("Alice takes the lock `backup`.");
    let guard = alice.lock("backup").ttl(Duration::from_secs(1)).await?;
    println!("  held: {}, good for another {:.0?}", guard.is_held(), guard.remaining());

    println!("Bob tries to take it, too.");
    assert!(bob.try_lock("backup").await?.is_none());
    println!("  refused. He asks who has it: {}\n", bob.status("backup").await?.state);

    println!("Alice works for three TTLs; the lease is renewed in the background.");
    tokio::time::sleep(Duration::from_secs(3)).await;
    println!("  held: {}, good for another {:.0?}", guard.is_held(), guard.remaining());
    guard.release().await?;
    println!("She releases it.\n");

    println!("Bob takes it without renewal, for 500 ms, and forgets about it.");
    let guard = bob.lock("backup").ttl(Duration::from_millis(500)).no_renewal().await?;
    let lost = guard.lost().await;
    assert_eq!(lost, Lost::Expired { votes: None });
    println!("  lost: {lost}.");
    println!("  He was told before the lease ended, in time to stop.\n");
    drop(guard);

    println!("Alice waits for it and takes it over.");
    let guard = alice.lock("backup").wait(Duration::from_secs(5)).await?;
    println!("  held by {}", guard.owner());
    guard.release().await?;
    println!("She releases it.");
    Ok(())
}
