//! README's program: `cargo run --example readme NODE…`. A test of the command
//! keeps the two alike, and runs this one on new servers.

use redlatch::Locks;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = std::env::args().skip(1);
    let locks = Locks::connect(nodes).await?;

    let guard = locks.lock("invoice:42").wait(Duration::from_secs(5)).await?;
    let token = guard.fencing_token().ok_or("fencing is off")?;
    println!("charging the invoice with fencing token {token}");
    guard.release().await?;

    // Or: the future is dropped as soon as the lease can no longer be proved.
    locks.lock("report").run(|_lease| async { println!("writing the report") }).await?;
    Ok(())
}
