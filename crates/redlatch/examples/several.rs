//! Several resources under one lease: all of them or none.
//!
//! `cargo run --example several`

use redlatch::Locks;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = Locks::memory(3);

    let transfer = locks.lock_all(["account:1", "account:2"]).await?;
    println!("two accounts, one lease: {:.1?} left", transfer.remaining());

    let overlapping = locks.try_lock_all(["account:2", "account:3"]).await?;
    println!(
        "a transfer that shares an account: {}",
        if overlapping.is_some() { "taken" } else { "refused" }
    );
    println!("and the account it does not share: {}", locks.status("account:3").await?.state);

    transfer.release().await?;
    println!("afterwards: {}", locks.status("account:2").await?.state);
    Ok(())
}
