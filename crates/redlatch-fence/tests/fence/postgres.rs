//! Transactions in PostgreSQL.

mod limits;
mod table;

use super::{
    beaten_by,
    suite::{self, Target},
    token,
};
use redlatch::FencingToken;
use redlatch_fence::{
    WriteError,
    postgres::{self, PostgresError},
};
use redlatch_testbed::Postgres;
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio_postgres::{Client, IsolationLevel, NoTls, error::SqlState};

const LIMIT: Duration = Duration::from_secs(60);

struct Row {
    client: Client,
    conninfo: String,
    resource: String,
}

impl Row {
    async fn on(conninfo: &str, resource: String) -> Self {
        let client = connect(conninfo).await;
        Row { client, conninfo: conninfo.to_owned(), resource }
    }
}

impl Target for Row {
    type Error = WriteError<PostgresError>;

    async fn another(&mut self) -> Self {
        Row::on(&self.conninfo, self.resource.clone()).await
    }

    async fn write(
        &mut self,
        token: FencingToken,
        value: &[u8],
    ) -> Result<(), WriteError<PostgresError>> {
        let tx = self.client.transaction().await.expect("a transaction");
        postgres::check(&tx, &self.resource, token).await?;
        tx.execute(
            "INSERT INTO target VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2",
            &[&self.resource, &value],
        )
        .await
        .expect("written");
        Ok(tx.commit().await?)
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), WriteError<PostgresError>> {
        postgres::seal(&self.client, &self.resource, token).await
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        let query = "SELECT value FROM target WHERE name = $1";
        let row = self.client.query_opt(query, &[&self.resource]).await.expect("read");
        row.map(|row| row.get(0))
    }
}

async fn connect(conninfo: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(conninfo, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

async fn empty_server() -> (Postgres, Client) {
    let server = tokio::task::spawn_blocking(Postgres::start).await.expect("no panic");
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let client = connect(&server.conninfo()).await;
    (server, client)
}

/// A server with the table of fences and one of values.
async fn server() -> (Postgres, Client) {
    let (server, client) = empty_server().await;
    postgres::create_table(&client).await.expect("made");
    postgres::create_table(&client).await.expect("there already");
    let target = "CREATE TABLE target (name text PRIMARY KEY, value bytea)";
    client.batch_execute(target).await.expect("made");
    (server, client)
}

/// Waits until somebody waits for a lock.
async fn until_one_waits(client: &Client) {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let waits = async {
        while client.query_one(query, &[]).await.expect("a number").get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LIMIT, waits).await.expect("one waits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_passes_the_suite() {
    let (server, _client) = server().await;
    let conninfo = server.conninfo();
    let next = AtomicU32::new(0);

    suite::passes(async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        Row::on(&conninfo, format!("resource ' {number}")).await
    })
    .await;
}

#[tokio::test]
async fn a_check_waits_for_the_one_before_it_and_obeys_how_that_ends() {
    let (server, mut newer) = server().await;
    let watcher = connect(&server.conninfo()).await;
    let mut older = connect(&server.conninfo()).await;

    // Nothing there yet, then something; committed, then rolled back.
    for (round, commits) in [(1, true), (2, true), (3, false)] {
        let (low, high) = (token(round * 10), token(round * 10 + 1));
        let before = newer.transaction().await.unwrap();
        postgres::check(&before, "a", high).await.expect("admitted");
        let late = tokio::spawn(async move {
            let tx = older.transaction().await.unwrap();
            let result = postgres::check(&tx, "a", low).await;
            tx.rollback().await.unwrap();
            (older, result)
        });
        until_one_waits(&watcher).await;
        assert!(!late.is_finished());
        let ended = if commits { before.commit().await } else { before.rollback().await };
        ended.unwrap();

        let result;
        (older, result) = late.await.unwrap();
        if commits {
            assert_eq!(beaten_by(result), high.get());
        } else {
            result.expect("the one before it never was");
        }
    }
}

#[tokio::test]
async fn checks_of_different_resources_do_not_wait_for_each_other() {
    let (server, mut one) = server().await;
    let mut two = connect(&server.conninfo()).await;

    let first = one.transaction().await.unwrap();
    let second = two.transaction().await.unwrap();
    postgres::check(&first, "a", token(2)).await.expect("admitted");

    let other = tokio::time::timeout(LIMIT, postgres::check(&second, "b", token(1))).await;
    other.expect("not waiting").expect("admitted");
}

#[tokio::test]
async fn a_transaction_that_is_rolled_back_takes_its_token_along() {
    let (server, mut client) = server().await;
    let mut row = Row::on(&server.conninfo(), "a".into()).await;
    row.write(token(5), b"old").await.unwrap();

    let tx = client.transaction().await.unwrap();
    postgres::check(&tx, "a", token(9)).await.unwrap();
    drop(tx);

    row.write(token(6), b"new").await.expect("nine has never been");
    assert_eq!(beaten_by(row.write(token(5), b"late").await), 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_of_the_server_leaves_value_and_token_of_one_and_the_same_write() {
    let (server, mut client) = server().await;
    let mut row = Row::on(&server.conninfo(), "a".into()).await;
    row.write(token(5), b"old").await.unwrap();
    let tx = client.transaction().await.unwrap();
    postgres::check(&tx, "a", token(9)).await.unwrap();
    tx.execute("UPDATE target SET value = 'lost'", &[]).await.unwrap();

    server.restart();
    tx.commit().await.expect_err("gone with the server");

    let mut row = Row::on(&server.conninfo(), "a".into()).await;
    assert_eq!(row.read().await.as_deref(), Some(&b"old"[..]));
    assert_eq!(beaten_by(row.write(token(4), b"late").await), 5);
    row.write(token(6), b"new").await.expect("nine has never been");
}

#[tokio::test]
async fn an_isolated_transaction_that_was_overtaken_is_told_to_begin_anew() {
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let (server, mut client) = server().await;
        let mut row = Row::on(&server.conninfo(), "a".into()).await;
        row.write(token(1), b"old").await.unwrap();
        let tx = client.build_transaction().isolation_level(level).start().await.unwrap();
        tx.query("SELECT value FROM target", &[]).await.expect("a snapshot");
        row.write(token(5), b"new").await.unwrap();

        for number in [4, 6] {
            let savepoint = tx.execute("SAVEPOINT here", &[]).await;
            savepoint.expect("a savepoint");
            let error = postgres::check(&tx, "a", token(number)).await.expect_err("overtaken");
            let WriteError::Store(PostgresError::Postgres(error)) = error else {
                panic!("{error}")
            };
            assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE));
            tx.execute("ROLLBACK TO SAVEPOINT here", &[]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_table_holds_nothing_but_tokens() {
    let (_server, client) = server().await;

    for number in [0, -1, FencingToken::MAX.cast_signed() + 1] {
        let row = client.execute("INSERT INTO redlatch_fence VALUES ('a', $1)", &[&number]).await;
        assert_eq!(row.expect_err("refused").code(), Some(&SqlState::CHECK_VIOLATION));
    }
}
