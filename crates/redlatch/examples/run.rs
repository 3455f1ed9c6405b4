//! Work that stops by itself when the lock is lost.
//!
//! `cargo run --example run`

use redlatch::{RunError, testing::Nodes};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = Nodes::new(3);
    let locks = nodes.locks();

    let sum = locks.lock("report").run(|_lease| async { (1..=10).sum::<u32>() }).await?;
    println!("done under the lock: {sum}");

    println!("Now work that never ends, while the servers lose their memory.");
    let endless = locks.lock("report").ttl(Duration::from_secs(1)).run(|lease| async move {
        for node in 0..3 {
            nodes.forget(node);
        }
        println!("  held at first: {}", lease.is_held());
        std::future::pending::<()>().await;
    });
    match endless.await {
        Err(RunError::Lost(lost)) => println!("stopped: {lost}"),
        other => println!("not expected: {other:?}"),
    }
    Ok(())
}
