//! Nobody waits forever: for a holder that stalls, or for one that is stale and
//! does not say so.

use super::{super::beaten_by, super::token, LIMIT, connect, server};
use redlatch_fence::{
    WriteError,
    postgres::{self, PostgresError},
};
use tokio_postgres::{Client, error::SqlState};

/// What is set, for the transaction or the session that asks.
macro_rules! limits {
    ($client:expr) => {{
        let query = "SELECT current_setting('idle_in_transaction_session_timeout'),
            current_setting('lock_timeout')";
        let row = $client.query_one(query, &[]).await.unwrap();
        (row.get::<_, String>(0), row.get::<_, String>(1))
    }};
}

async fn set(client: &Client, what: &str) {
    client.batch_execute(&format!("SET {what}")).await.expect("set");
}

#[tokio::test]
async fn a_check_sets_limits_for_its_transaction_where_the_session_has_none() {
    let (_server, mut client) = server().await;
    let own = |idle: &str, lock: &str| (idle.to_owned(), lock.to_owned());

    for (session, transaction) in
        [(own("0", "0"), own("10s", "15s")), (own("7s", "3min"), own("7s", "3min"))]
    {
        set(&client, &format!("idle_in_transaction_session_timeout = '{}'", session.0)).await;
        set(&client, &format!("lock_timeout = '{}'", session.1)).await;
        let tx = client.transaction().await.unwrap();
        postgres::check(&tx, "a", token(5)).await.unwrap();
        assert_eq!(limits!(tx), transaction);
        tx.commit().await.unwrap();
        postgres::seal(&client, "a", token(5)).await.unwrap();
        assert_eq!(limits!(client), session);
    }
}

#[tokio::test]
async fn a_greater_token_gets_past_a_holder_that_stalls() {
    let (server, mut stalled) = server().await;
    let mut next = connect(&server.conninfo()).await;
    let tx = stalled.transaction().await.unwrap();
    postgres::check(&tx, "a", token(5)).await.unwrap();
    tx.execute("INSERT INTO target VALUES ('a', 'late')", &[]).await.unwrap();

    let checking = async {
        let tx = next.transaction().await.unwrap();
        postgres::check(&tx, "a", token(6)).await.expect("admitted");
        tx.commit().await.unwrap();
    };
    tokio::time::timeout(LIMIT, checking).await.expect("not forever");

    tx.commit().await.expect_err("disconnected");
    assert!(next.query("SELECT FROM target", &[]).await.unwrap().is_empty(), "rolled back");
}

#[tokio::test]
async fn a_check_that_waited_too_long_says_that_nothing_was_written() {
    let (server, mut holder) = server().await;
    let mut next = connect(&server.conninfo()).await;
    set(&next, "lock_timeout = '50ms'").await;
    let held = holder.transaction().await.unwrap();
    postgres::check(&held, "a", token(5)).await.unwrap();

    let tx = next.transaction().await.unwrap();
    let checked = postgres::check(&tx, "a", token(6)).await;
    tx.rollback().await.unwrap();
    let sealed = postgres::seal(&next, "a", token(6)).await;

    for result in [checked, sealed] {
        let error = result.expect_err("the row is locked");
        assert!(matches!(error, WriteError::Busy(PostgresError::Locked(_))), "{error}");
    }
    held.commit().await.unwrap();
    postgres::seal(&next, "a", token(6)).await.expect("begun again");
}

#[tokio::test]
async fn a_stale_transaction_that_goes_on_blocks_nobody_and_writes_nothing() {
    let (server, mut late) = server().await;
    let mut next = connect(&server.conninfo()).await;
    postgres::seal(&next, "a", token(5)).await.unwrap();
    // The limits would end it, but that is another matter.
    set(&late, "idle_in_transaction_session_timeout = '10min'").await;
    set(&next, "lock_timeout = '10min'").await;

    let stale = late.transaction().await.unwrap();
    assert_eq!(beaten_by(postgres::check(&stale, "a", token(4)).await), 5);

    let sealing = postgres::seal(&next, "a", token(6));
    tokio::time::timeout(LIMIT, sealing).await.expect("no waiting").expect("sealed");
    let write = stale.execute("INSERT INTO target VALUES ('a', 'late')", &[]).await;
    let refused = write.expect_err("aborted");
    assert_eq!(refused.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    let _ = stale.commit().await;
    let tx = next.transaction().await.unwrap();
    assert!(tx.query("SELECT FROM target", &[]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_stale_savepoint_frees_its_row_and_leaves_the_transaction_around_it() {
    let (server, mut client) = server().await;
    let next = connect(&server.conninfo()).await;
    postgres::seal(&next, "a", token(5)).await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    tx.execute("INSERT INTO target VALUES ('b', 'kept')", &[]).await.unwrap();

    let savepoint = tx.savepoint("here").await.unwrap();
    assert_eq!(beaten_by(postgres::check(&savepoint, "a", token(4)).await), 5);
    tokio::time::timeout(LIMIT, postgres::seal(&next, "a", token(6))).await.unwrap().unwrap();
    savepoint.rollback().await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(next.query("SELECT FROM target", &[]).await.unwrap().len(), 1);
}
