//! The SQL in the guide is SQL that runs, and the SQL that we run.

use redlatch_fence::{postgres, sqlite};
use redlatch_testbed::Postgres;
use std::{
    env,
    process::{Command, Output},
};
use tokio_postgres::{NoTls, SimpleQueryMessage};

const GUIDE: &str = include_str!("../../../../docs/fencing.md");

/// The piece of SQL in the guide that begins like this.
fn sql(begin: &str) -> &'static str {
    let blocks = GUIDE.split("```sql\n").skip(1).filter_map(|rest| rest.split_once("\n```"));
    let mut found = blocks.map(|(block, _)| block).filter(|block| block.starts_with(begin));
    let block = found.next().unwrap_or_else(|| panic!("no SQL begins with {begin}"));
    assert_eq!(found.next(), None, "{begin}");
    block
}

#[test]
fn the_guide_shows_the_statements_that_we_run() {
    assert_eq!(sql("CREATE TABLE IF NOT EXISTS public."), postgres::CREATE_TABLE);
    assert_eq!(sql("INSERT INTO public.redlatch_fence"), postgres::CHECK);
    assert_eq!(sql("CREATE TABLE IF NOT EXISTS main."), sqlite::CREATE_TABLE);
    assert_eq!(sql("INSERT INTO main.redlatch_fence"), sqlite::CHECK);
}

/// A database that takes SQL as text, and says how many rows it changed.
trait Database {
    async fn run(&mut self, sql: &str) -> u64;
}

struct Here(rusqlite::Connection);

impl Database for Here {
    async fn run(&mut self, sql: &str) -> u64 {
        self.0.execute(sql, []).unwrap_or_else(|error| panic!("{sql}: {error}")) as u64
    }
}

struct There(tokio_postgres::Client);

impl Database for There {
    async fn run(&mut self, sql: &str) -> u64 {
        let answers = self.0.simple_query(sql).await;
        let answers = answers.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let rows = answers.iter().map(|answer| match answer {
            SimpleQueryMessage::CommandComplete(rows) => *rows,
            _ => 0,
        });
        rows.sum()
    }
}

async fn a_column_refuses_late_writes(mut database: impl Database) {
    database.run("CREATE TABLE invoice (id integer PRIMARY KEY, paid boolean)").await;
    database.run("INSERT INTO invoice VALUES (42, false)").await;
    database.run(sql("ALTER TABLE invoice")).await;
    let write = sql("UPDATE invoice SET paid");
    let seal = sql("UPDATE invoice SET fence");
    let upsert = sql("INSERT INTO invoice");

    // The row, the statement, the token, and how many rows it changes.
    let steps = [
        (42, write, 5, 1),
        (42, write, 5, 1),
        (42, write, 4, 0),
        (42, seal, 4, 0),
        (42, seal, 7, 1),
        (42, write, 6, 0),
        (42, upsert, 6, 0),
        (42, upsert, 7, 1),
        (43, upsert, 3, 1),
        (43, upsert, 2, 0),
        (43, upsert, 9, 1),
        (43, write, 8, 0),
    ];
    for (row, statement, token, changed) in steps {
        let statement = statement.replace("$1", &row.to_string());
        let statement = statement.replace("$2", &token.to_string());
        assert_eq!(database.run(&statement).await, changed, "{statement}");
    }
}

#[tokio::test]
async fn a_column_refuses_late_writes_in_sqlite() {
    a_column_refuses_late_writes(Here(rusqlite::Connection::open_in_memory().unwrap())).await;
}

/// A server with the guide's table of invoices.
async fn server() -> (Postgres, There) {
    let server = tokio::task::spawn_blocking(Postgres::start).await.expect("no panic");
    let server = server.unwrap_or_else(|error| panic!("{error}"));
    let (client, connection) =
        tokio_postgres::connect(&server.conninfo(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    (server, There(client))
}

#[tokio::test]
async fn a_column_refuses_late_writes_in_postgres() {
    let (_server, database) = server().await;

    a_column_refuses_late_writes(database).await;
}

/// The guide's script, as `redlatch run` would run it.
fn script(server: &Postgres, token: Option<&str>) -> Output {
    let (_, rest) = GUIDE.split_once("```sh\n").expect("a script");
    let (script, _) = rest.split_once("```").expect("its end");
    let path = env::var_os("PATH").unwrap_or_default();
    let programs = Postgres::find().into_iter().chain(env::split_paths(&path));
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("PATH", env::join_paths(programs).expect("a path"));
    for pair in server.conninfo().split(' ') {
        let (name, value) = pair.split_once('=').expect("a name and a value");
        let name = if name == "dbname" { "database" } else { name };
        command.env(format!("PG{}", name.to_uppercase()), value);
    }
    command.env_remove("REDLATCH_FENCING_TOKEN");
    command.envs(token.map(|token| ("REDLATCH_FENCING_TOKEN", token)));
    command.output().expect("a shell")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shell_script_fails_when_it_is_stale_and_when_it_has_no_token() {
    let (server, mut database) = server().await;
    database.run("CREATE TABLE invoice (id integer PRIMARY KEY, paid boolean)").await;
    database.run("INSERT INTO invoice VALUES (42, false)").await;
    database.run(sql("ALTER TABLE invoice")).await;

    for (token, succeeds) in
        [(Some("5"), true), (Some("5"), true), (Some("4"), false), (None, false), (Some("6"), true)]
    {
        let output = script(&server, token);
        assert_eq!(output.status.success(), succeeds, "{token:?}: {output:?}");
        assert_eq!(output.stderr.is_empty(), succeeds, "{token:?}: {output:?}");
    }
    assert_eq!(database.run("UPDATE invoice SET paid = false WHERE fence = 6").await, 1);
}
