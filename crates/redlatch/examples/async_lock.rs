//! The everyday use: take a lock, work, release it; and what errors tell.
//!
//! `cargo run --example async_lock [NODE…]`, by default on nodes in memory.

use redlatch::{LockError, Locks};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes: Vec<String> = std::env::args().skip(1).collect();
    let locks = if nodes.is_empty() { Locks::memory(3) } else { Locks::connect(nodes).await? };

    let guard = locks.lock("invoice:42").ttl(Duration::from_secs(5)).await?;
    println!("taken by {}: {}", guard.owner(), guard.votes());

    // Somebody else waits for a while, and learns who has it.
    match locks.lock("invoice:42").wait(Duration::from_millis(200)).await {
        Err(LockError::Held { votes }) => println!("held, as expected: {votes}"),
        other => println!("not expected: {other:?}"),
    }

    // Before a step that takes a while: make sure that much is left.
    guard.ensure(Duration::from_secs(4)).await?;
    println!("at least 4 s left: {:?}", guard.remaining());
    println!("released: {:?}", guard.release().await?);
    Ok(())
}
