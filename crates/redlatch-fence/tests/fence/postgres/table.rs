//! The table of the fences: made once, found by everyone, and the right one.

use super::{super::beaten_by, super::token, connect, empty_server, server};
use redlatch_fence::{
    WriteError,
    postgres::{self, PostgresError},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_number_of_clients_can_make_the_table_at_once() {
    let (server, client) = empty_server().await;

    for _ in 0..10 {
        client.batch_execute("DROP TABLE IF EXISTS public.redlatch_fence").await.unwrap();
        let mut making = Vec::new();
        for _ in 0..16 {
            let client = connect(&server.conninfo()).await;
            making.push(tokio::spawn(async move { postgres::create_table(&client).await }));
        }
        for made in making {
            made.await.unwrap().expect("made");
        }
    }
}

#[tokio::test]
async fn a_role_that_may_not_create_uses_the_table_that_is_there() {
    let (server, client) = server().await;
    let grant = "
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
        CREATE ROLE worker LOGIN;
        GRANT SELECT, INSERT, UPDATE ON public.redlatch_fence TO worker";
    client.batch_execute(grant).await.unwrap();
    let worker = connect(&server.conninfo().replace("user=redlatch", "user=worker")).await;

    postgres::create_table(&worker).await.expect("there already");

    postgres::seal(&worker, "a", token(5)).await.expect("sealed");
    assert_eq!(beaten_by(postgres::seal(&worker, "a", token(4)).await), 5);
}

#[tokio::test]
async fn all_search_paths_lead_to_one_fence() {
    let (server, client) = empty_server().await;
    let other = connect(&server.conninfo()).await;
    client.batch_execute("CREATE SCHEMA other; SET search_path = other").await.unwrap();
    let hidden = "CREATE TEMPORARY TABLE redlatch_fence (resource text PRIMARY KEY, token bigint)";
    client.batch_execute(hidden).await.unwrap();

    postgres::create_table(&client).await.expect("made");
    postgres::create_table(&other).await.expect("there already");
    postgres::seal(&client, "a", token(5)).await.expect("sealed");

    assert_eq!(beaten_by(postgres::seal(&other, "a", token(4)).await), 5);
}

#[tokio::test]
async fn an_error_says_what_is_wrong_with_the_table() {
    let (server, client) = empty_server().await;
    let seal = async |client| match postgres::seal(client, "a", token(1 << 40)).await {
        Err(WriteError::Store(error)) => error,
        other => panic!("{other:?}"),
    };

    let error = seal(&client).await;
    assert!(matches!(error, PostgresError::NoTable(_)), "{error}");
    for columns in [
        "(resource text, token bigint NOT NULL)",
        "(resource text PRIMARY KEY, number bigint NOT NULL)",
        "(resource text PRIMARY KEY, token text NOT NULL)",
        "(resource text PRIMARY KEY, token integer NOT NULL)",
        "(resource text PRIMARY KEY, token numeric NOT NULL)",
        "(resource text PRIMARY KEY, token double precision NOT NULL)",
        "(resource text PRIMARY KEY, token bigint NOT NULL, other text NOT NULL)",
    ] {
        let make = format!("CREATE TABLE public.redlatch_fence {columns}");
        client.batch_execute(&make).await.unwrap();
        let error = seal(&client).await;
        assert!(matches!(error, PostgresError::WrongTable(_)), "{columns}: {error}");
        client.batch_execute("DROP TABLE public.redlatch_fence").await.unwrap();
    }
    postgres::create_table(&client).await.expect("made");
    client.batch_execute("CREATE ROLE worker LOGIN").await.unwrap();
    let worker = connect(&server.conninfo().replace("user=redlatch", "user=worker")).await;
    let error = seal(&worker).await;
    assert!(matches!(error, PostgresError::NotAllowed(_)), "{error}");
}

#[tokio::test]
async fn a_table_that_forgets_or_is_another_is_noticed_when_it_is_to_be_made() {
    let (_server, client) = empty_server().await;

    for statement in [
        "CREATE UNLOGGED TABLE public.redlatch_fence (resource text PRIMARY KEY, token bigint NOT NULL)",
        "CREATE TABLE public.redlatch_fence (resource text PRIMARY KEY, token bigint)",
        "CREATE TABLE public.redlatch_fence (resource text PRIMARY KEY, token integer NOT NULL)",
    ] {
        client.batch_execute(statement).await.unwrap();
        let error = postgres::create_table(&client).await.expect_err(statement);
        assert!(matches!(error, PostgresError::WrongTable(_)), "{error}");
        client.batch_execute("DROP TABLE public.redlatch_fence").await.unwrap();
    }
}

#[tokio::test]
async fn what_is_not_a_token_lets_nobody_in_and_stays() {
    let (_server, mut client) = empty_server().await;
    let table = "CREATE TABLE public.redlatch_fence (resource text PRIMARY KEY, token bigint)";
    client.batch_execute(table).await.unwrap();

    for damage in ["NULL", "0", "-1", "9007199254740992"] {
        let put = format!(
            "DELETE FROM redlatch_fence; INSERT INTO redlatch_fence VALUES ('a', {damage})"
        );
        client.batch_execute(&put).await.unwrap();
        let sealed = postgres::seal(&client, "a", token(5)).await;
        let tx = client.transaction().await.unwrap();
        let checked = postgres::check(&tx, "a", token(5)).await;
        tx.rollback().await.unwrap();

        for result in [sealed, checked] {
            let error = result.expect_err("damaged");
            let found = matches!(&error, WriteError::Damaged { found } if **found == *damage);
            assert!(found, "{damage}: {error}");
        }
        let stays = format!("SELECT FROM redlatch_fence WHERE token IS NOT DISTINCT FROM {damage}");
        client.query_one(&stays, &[]).await.expect("it stays");
    }
}
