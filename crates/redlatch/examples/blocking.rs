//! Without async: the same names, and `acquire` where the others await.
//!
//! `cargo run --example blocking [NODE…]`, by default on a node in memory.

use redlatch::blocking::Locks;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut nodes: Vec<String> = std::env::args().skip(1).collect();
    if nodes.is_empty() {
        nodes.push("memory:".into());
    }
    let locks = Locks::connect(nodes)?;

    let guard = locks.lock("report").ttl(Duration::from_secs(5)).acquire()?;
    println!("taken, good for another {:.1?}", guard.remaining());
    assert!(locks.try_lock("report").acquire()?.is_none());
    println!("released: {:?}", guard.release()?);

    let pages = locks.lock("report").run(|lease| {
        // Nobody can stop a thread from outside: look at the lease now and then.
        (1..=3).take_while(|_| lease.is_held()).count()
    })?;
    println!("{pages} pages written under the lock");
    Ok(())
}
