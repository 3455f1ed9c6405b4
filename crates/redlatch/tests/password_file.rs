//! A password that changes while a client runs: fault 49.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::Locks;
use redlatch_testbed::{Scratch, Server};
use std::fs;
use support::{LIMIT, MS, NAME, SEC, in_time, patient};

/// A server, a client that has its password from a file, and that file.
struct Rotation {
    server: Server,
    file: Scratch,
    locks: Locks,
}

impl Rotation {
    async fn start() -> Self {
        let server = Server::options().password("old-S3cret").start().unwrap();
        let file = Scratch::new().unwrap();
        fs::write(file.file("pw"), "old-S3cret\n").unwrap();
        let path = file.file("pw");
        let url = format!("redis://127.0.0.1:{}?password_file={}", server.port(), path.display());
        let locks = in_time(patient().node(url).connect()).await.unwrap();
        Rotation { server, file, locks }
    }

    fn write(&self, text: &str) {
        fs::write(self.file.file("pw"), text).unwrap();
    }

    fn change_server(&self, password: &str) {
        assert!(self.server.run(&["CONFIG", "SET", "requirepass", password]).is_ok());
    }

    fn disconnect(&self) {
        self.server.run(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        self.server.run(&["CLIENT", "KILL", "TYPE", "pubsub", "SKIPME", "yes"]);
    }

    /// Takes a lock and releases it, until that works.
    async fn works(&self) {
        let guard = in_time(self.locks.lock("other").wait(LIMIT).into_future()).await.unwrap();
        in_time(guard.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_holder_keeps_its_lock_when_the_password_changes() {
    let rotation = Rotation::start().await;
    let request = rotation.locks.lock(NAME).ttl(6 * SEC).renew_every(500 * MS);
    let guard = in_time(request.into_future()).await.unwrap();

    for password in ["second", "third"] {
        rotation.change_server(password);
        rotation.write(password);
        rotation.disconnect();
        rotation.works().await;
    }

    let end = guard.ends_in();
    tokio::time::timeout(LIMIT, async {
        while guard.ends_in() <= end {
            tokio::time::sleep(MS).await;
        }
    })
    .await
    .expect("it is not renewed");
    assert!(guard.is_held());
}

#[tokio::test]
async fn file_and_server_may_change_in_either_order_and_the_file_may_be_missing_meanwhile() {
    let rotation = Rotation::start().await;

    // The file first: the old password still works.
    for meanwhile in ["", "\n", "next"] {
        rotation.write(meanwhile);
        rotation.disconnect();
        rotation.works().await;
    }
    fs::remove_file(rotation.file.file("pw")).unwrap();
    rotation.disconnect();
    rotation.works().await;

    // The server first: nothing works until the file has the new one.
    rotation.change_server("next");
    rotation.disconnect();
    // The old connection may still have to find out that it is closed.
    let error = in_time(async {
        loop {
            let error = rotation.locks.try_lock("other").await.unwrap_err().to_string();
            if error.contains("WRONGPASS") {
                break error;
            }
        }
    })
    .await;
    assert!(error.contains("pw cannot be read"), "{error}");
    rotation.write("wrong");
    let named = format!("the password is that in {}", rotation.file.file("pw").display());
    in_time(async {
        while !rotation.locks.try_lock("other").await.unwrap_err().to_string().contains(&named) {
            tokio::time::sleep(MS).await;
        }
    })
    .await;
    assert!(!error.contains("S3cret") && !error.contains("next"), "{error}");
    rotation.write("next");
    rotation.works().await;
}
