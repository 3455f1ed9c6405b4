//! A value in Redis.

use super::{
    beaten_by,
    suite::{self, Target},
    token,
};
use ::redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use redlatch::FencingToken;
use redlatch_fence::{
    WriteError,
    redis::{Value, ValueError, WRITE},
};
use redlatch_testbed::{Flavour, Reply, Server};
use std::sync::atomic::{AtomicU32, Ordering};

struct Key {
    client: Client,
    connection: MultiplexedConnection,
    name: Vec<u8>,
}

impl Key {
    async fn on(server: &Server, name: impl Into<Vec<u8>>) -> Self {
        let client = Client::open(server.url()).expect("an address");
        let connection = connect(&client).await;
        Key { client, connection, name: name.into() }
    }
}

/// Without the driver's time limits: the machine may be busy.
async fn connect(client: &Client) -> MultiplexedConnection {
    let patient =
        AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
    connection.expect("a connection")
}

impl Target for Key {
    type Error = WriteError<ValueError>;

    async fn another(&mut self) -> Self {
        let connection = connect(&self.client).await;
        let (client, name) = (self.client.clone(), self.name.clone());
        Key { client, connection, name }
    }

    async fn write(
        &mut self,
        token: FencingToken,
        value: &[u8],
    ) -> Result<(), WriteError<ValueError>> {
        Value::new(&self.name).write(&mut self.connection, token, value).await
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), WriteError<ValueError>> {
        Value::new(&self.name).seal(&mut self.connection, token).await
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        let value = ::redis::cmd("GET").arg(&self.name).query_async(&mut self.connection).await;
        value.expect("a value or none")
    }
}

fn server() -> Server {
    Server::start().unwrap_or_else(|error| panic!("{error}"))
}

fn get(server: &Server, key: &str) -> Option<String> {
    server.run(&["GET", key]).text()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_redis_value_passes_the_suite_on_every_server() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).start();
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        let next = AtomicU32::new(0);

        suite::passes(async || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            // Any bytes are a name.
            Key::on(&server, [b"value\0\xff\n:", &number.to_be_bytes()[..]].concat()).await
        })
        .await;
    }
}

#[test]
fn the_blocking_calls_do_the_same() {
    let server = server();
    let mut connection = Client::open(server.url()).unwrap().get_connection().unwrap();
    let value = Value::new("report");

    value.seal_blocking(&mut connection, token(5)).unwrap();
    value.write_blocking(&mut connection, token(5), "new").unwrap();

    assert_eq!(beaten_by(value.write_blocking(&mut connection, token(4), "late")), 5);
    assert_eq!(beaten_by(value.seal_blocking(&mut connection, token(4))), 5);
    assert_eq!(get(&server, "report").as_deref(), Some("new"));
}

#[tokio::test]
async fn the_fence_is_kept_where_the_docs_say() {
    let server = server();
    let mut key = Key::on(&server, "report").await;

    key.write(token(FencingToken::MAX), b"new").await.unwrap();

    assert_eq!(server.keys(), ["redlatch:fence:report", "report"]);
    assert_eq!(get(&server, "redlatch:fence:report").as_deref(), Some("9007199254740991"));
}

#[tokio::test]
async fn values_that_share_a_fence_are_sealed_together() {
    let server = server();
    let mut connection = Key::on(&server, "").await.connection;
    let [a, b] = ["a", "b"].map(|key| Value::new(key).fence_key("fence of both"));

    a.write(&mut connection, token(4), "1").await.unwrap();
    a.seal(&mut connection, token(5)).await.unwrap();

    assert_eq!(beaten_by(b.write(&mut connection, token(4), "late").await), 5);
    assert_eq!(server.keys(), ["a", "fence of both"]);
}

#[tokio::test]
async fn a_damaged_fence_lets_nobody_in() {
    let server = server();
    let mut key = Key::on(&server, "report").await;
    key.write(token(5), b"old").await.unwrap();

    for damage in ["", "0", "000", "five", "-1", "nan", "9007199254740992"] {
        server.run(&["SET", "redlatch:fence:report", damage]);

        let error = key.write(token(6), b"new").await.expect_err("damaged");

        let found = matches!(&error, WriteError::Damaged { found } if **found == *damage);
        assert!(found, "{damage}: {error}");
        assert_eq!(get(&server, "report").as_deref(), Some("old"));
        assert_eq!(get(&server, "redlatch:fence:report").as_deref(), Some(damage));
    }
}

#[tokio::test]
async fn a_fence_of_another_type_is_damaged_and_left_alone() {
    let server = server();
    let mut key = Key::on(&server, "report").await;
    server.run(&["RPUSH", "redlatch:fence:report", "5"]);

    for result in [key.write(token(6), b"new").await, key.seal(token(6)).await] {
        let error = result.expect_err("damaged");
        assert!(matches!(&error, WriteError::Damaged { found } if **found == *"a list"), "{error}");
    }

    assert_eq!(server.run(&["TYPE", "redlatch:fence:report"]).text().as_deref(), Some("list"));
    assert_eq!(get(&server, "report"), None);
}

#[tokio::test]
async fn a_value_is_not_written_over_a_list_or_over_a_lock() {
    let server = server();
    let mut key = Key::on(&server, "report").await;
    let locks = redlatch::Locks::connect([server.url()]).await.expect("connected");
    server.run(&["RPUSH", "list", "1"]);
    let guard = locks.lock("report").await.expect("held");

    for (name, what) in [("list", "holds a list"), ("report", "holds a lock: ")] {
        key.name = name.into();
        let error = key.write(token(6), b"new").await.expect_err("occupied");
        let occupied = matches!(&error, WriteError::Store(ValueError::Occupied { .. }));
        assert!(occupied && error.to_string().contains(what), "{error}");
    }

    assert_eq!(server.run(&["TYPE", "list"]).text().as_deref(), Some("list"));
    assert!(!server.keys().iter().any(|key| key.starts_with("redlatch:fence:")));
    guard.release().await.expect("still ours");
}

#[tokio::test]
async fn a_value_that_is_its_own_fence_is_refused_before_anything_is_sent() {
    let server = server();
    let mut connection = Key::on(&server, "").await.connection;
    let value = Value::new("same").fence_key("same");

    for result in [
        value.write(&mut connection, token(5), "9").await,
        value.seal(&mut connection, token(5)).await,
    ] {
        let error = result.expect_err("one key for two things");
        assert!(matches!(error, WriteError::Store(ValueError::SameKey { .. })), "{error}");
    }

    let reply = server.run(&["EVAL", WRITE, "2", "same", "same", "5", "9"]);
    assert!(matches!(&reply, Reply::Error(text) if text.starts_with("BADVALUE")), "{reply:?}");
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_value_cannot_take_the_key_of_another_fence() {
    let server = server();
    let mut key = Key::on(&server, "report").await;
    key.write(token(5), b"new").await.unwrap();

    key.name = b"redlatch:fence:report".to_vec();
    let error = key.write(token(1), b"1").await.expect_err("reserved");

    assert!(matches!(error, WriteError::Store(ValueError::Reserved { .. })), "{error}");
    assert_eq!(get(&server, "redlatch:fence:report").as_deref(), Some("5"));
}

#[test]
fn the_script_takes_nothing_but_tokens() {
    let server = server();
    let write = |token: &str| server.run(&["EVAL", WRITE, "2", "fence", "value", token, "new"]);

    for junk in ["", "0", "-1", "1.5", "nan", "inf", "five", "9007199254740992"] {
        let reply = write(junk);
        assert!(matches!(reply, Reply::Error(_)), "{junk}: {reply:?}");
        assert_eq!(server.keys(), [""; 0], "{junk}");
    }
    assert_eq!(write("9007199254740991").text().as_deref(), Some("9007199254740991"));
    assert_eq!(write("9007199254740990").text().as_deref(), Some("9007199254740991"));
}

#[tokio::test]
async fn a_server_out_of_memory_leaves_a_fence_that_holds() {
    let server = server();
    let mut key = Key::on(&server, "report").await;
    key.write(token(5), b"old").await.unwrap();
    server.run(&["CONFIG", "SET", "maxmemory", "1"]);

    let error = key.write(token(6), b"new").await.expect_err("no memory");
    server.run(&["CONFIG", "SET", "maxmemory", "0"]);

    assert!(matches!(error, WriteError::Store(_)), "{error}");
    assert_eq!(key.read().await.as_deref(), Some(&b"old"[..]));
    assert!(beaten_by(key.write(token(4), b"late").await) >= 5);
    key.write(token(6), b"new").await.expect("the same token again");
}
