//! README's first lock: `cargo run --example first_lock NODE…`. A test of the
//! command keeps the two alike, and runs this one on new servers.

use redlatch::Locks;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let nodes = std::env::args().skip(1);
    // For development: servers that nobody has used yet hold no locks.
    let locks = Locks::builder().nodes(nodes).admit_new_servers().connect().await?;

    let guard = locks.lock("invoice:42").wait(Duration::from_secs(5)).await?;
    let token = guard.fencing_token().ok_or("fencing is off")?;
    println!("charging the invoice with fencing token {token}");
    guard.release().await?;
    Ok(())
}
