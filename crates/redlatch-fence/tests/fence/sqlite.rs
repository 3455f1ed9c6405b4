//! Transactions in SQLite.

use super::{
    beaten_by,
    suite::{self, Target},
    token,
};
use redlatch::FencingToken;
use redlatch_fence::{WriteError, sqlite};
use redlatch_testbed::Scratch;
use rusqlite::{Connection, Error, OptionalExtension, TransactionBehavior};
use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

struct Row {
    connection: Connection,
    path: PathBuf,
    resource: String,
}

impl Row {
    fn on(path: &Path, resource: String) -> Self {
        Row { connection: open(path), path: path.to_owned(), resource }
    }

    fn put(&mut self, token: FencingToken, value: &[u8]) -> Result<(), WriteError<Error>> {
        // Deferred, as it is by default: the check takes the lock.
        let tx = self.connection.transaction().expect("a transaction");
        sqlite::check(&tx, &self.resource, token)?;
        tx.execute(
            "INSERT INTO target VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2",
            (&self.resource, value),
        )
        .expect("written");
        Ok(tx.commit()?)
    }

    fn get(&self) -> Option<Vec<u8>> {
        let query = "SELECT value FROM target WHERE name = ?1";
        let value = self.connection.query_row(query, [&self.resource], |row| row.get(0));
        value.optional().expect("a value or none")
    }
}

impl Target for Row {
    type Error = WriteError<Error>;

    async fn another(&mut self) -> Self {
        Row::on(&self.path, self.resource.clone())
    }

    async fn write(&mut self, token: FencingToken, value: &[u8]) -> Result<(), WriteError<Error>> {
        self.put(token, value)
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), WriteError<Error>> {
        sqlite::seal(&mut self.connection, &self.resource, token)
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        self.get()
    }
}

fn open(path: &Path) -> Connection {
    let connection = Connection::open(path).expect("a database");
    connection.busy_timeout(Duration::from_secs(60)).expect("patience");
    connection
}

/// A database with the table of fences and one of values.
fn database(scratch: &Scratch, journal: &str) -> PathBuf {
    let path = scratch.path().join(format!("{journal}.db"));
    let connection = open(&path);
    connection.pragma_update(None, "journal_mode", journal).expect("a journal");
    sqlite::create_table(&connection).expect("made");
    sqlite::create_table(&connection).expect("there already");
    let target = "CREATE TABLE target (name TEXT PRIMARY KEY, value BLOB)";
    connection.execute_batch(target).expect("made");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn sqlite_passes_the_suite_with_either_journal() {
    let scratch = Scratch::new().unwrap();
    for journal in ["delete", "wal"] {
        let path = database(&scratch, journal);
        let next = AtomicU32::new(0);

        suite::passes(async || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            Row::on(&path, format!("resource ' {number}"))
        })
        .await;
    }
}

#[test]
fn a_transaction_that_is_rolled_back_takes_its_token_along() {
    let scratch = Scratch::new().unwrap();
    let path = database(&scratch, "wal");
    let mut row = Row::on(&path, "a".into());
    row.put(token(5), b"old").unwrap();
    let mut other = open(&path);

    let tx = other.transaction().unwrap();
    sqlite::check(&tx, "a", token(9)).unwrap();
    tx.execute("UPDATE target SET value = 'lost'", []).unwrap();
    drop(tx);

    assert_eq!(row.get().as_deref(), Some(&b"old"[..]));
    row.put(token(6), b"new").expect("nine has never been");
    assert_eq!(beaten_by(row.put(token(5), b"late")), 6);
}

#[test]
fn nobody_gets_between_a_check_and_the_end_of_its_transaction() {
    let scratch = Scratch::new().unwrap();
    let path = database(&scratch, "wal");
    let (mut one, mut two) = (open(&path), open(&path));
    two.busy_timeout(Duration::ZERO).unwrap();

    let tx = one.transaction().unwrap();
    sqlite::check(&tx, "a", token(5)).unwrap();

    for number in [4, 6] {
        let error = sqlite::seal(&mut two, "a", token(number)).expect_err("locked");
        assert!(matches!(error, WriteError::Busy(_)), "{error}");
    }
    tx.commit().unwrap();
    assert_eq!(beaten_by(sqlite::seal(&mut two, "a", token(4))), 5);
}

#[test]
fn a_transaction_that_read_before_it_checked_is_refused_if_it_was_overtaken() {
    let scratch = Scratch::new().unwrap();
    let path = database(&scratch, "wal");
    let mut row = Row::on(&path, "a".into());
    row.put(token(1), b"old").unwrap();
    let mut other = open(&path);
    let tx = other.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
    tx.query_row("SELECT count(*) FROM target", [], |_| Ok(())).unwrap();
    row.put(token(5), b"new").unwrap();

    for number in [4, 6] {
        let error = sqlite::check(&tx, "a", token(number)).expect_err("overtaken");
        assert!(matches!(error, WriteError::Busy(_)), "{error}");
    }
}

#[test]
fn a_temporary_table_of_that_name_is_not_the_fence() {
    let scratch = Scratch::new().unwrap();
    let path = database(&scratch, "wal");
    let (mut one, mut two) = (open(&path), open(&path));
    let hidden = "CREATE TEMPORARY TABLE redlatch_fence (resource TEXT PRIMARY KEY, token INTEGER)";
    one.execute_batch(hidden).unwrap();

    sqlite::create_table(&one).unwrap();
    sqlite::seal(&mut one, "a", token(5)).unwrap();

    assert_eq!(beaten_by(sqlite::seal(&mut two, "a", token(4))), 5);
}

#[test]
fn what_is_not_a_token_lets_nobody_in_and_stays() {
    for (column, damage, found) in [
        ("integer", "NULL", "NULL"),
        ("integer", "0", "0"),
        ("integer", "-1", "-1"),
        ("integer", "9007199254740992", "9007199254740992"),
        ("integer", "4.5", "4.5"),
        ("integer", "'four'", "four"),
        ("text", "4", "4"),
        ("real", "4", "4"),
    ] {
        let mut connection = Connection::open_in_memory().unwrap();
        let table = format!("CREATE TABLE redlatch_fence (resource PRIMARY KEY, token {column})");
        connection.execute_batch(&table).unwrap();
        connection
            .execute_batch(&format!("INSERT INTO redlatch_fence VALUES ('a', {damage})"))
            .unwrap();

        let error = sqlite::seal(&mut connection, "a", token(5)).expect_err("damaged");

        let named = matches!(&error, WriteError::Damaged { found: there } if **there == *found);
        assert!(named, "{column} {damage}: {error}");
        let stays = format!("SELECT count(*) FROM redlatch_fence WHERE token IS {damage}");
        let stays: u32 = connection.query_row(&stays, [], |row| row.get(0)).unwrap();
        assert_eq!(stays, 1, "{column} {damage}");
    }
}

#[test]
fn any_number_of_connections_can_make_the_table_at_once() {
    let scratch = Scratch::new().unwrap();
    let path = scratch.path().join("new.db");

    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                let mut connection = open(&path);
                sqlite::create_table(&connection).expect("made");
                sqlite::seal(&mut connection, "a", token(5)).expect("sealed");
            });
        }
    });
}

#[test]
fn a_check_without_the_table_says_how_to_create_it() {
    let mut connection = Connection::open_in_memory().unwrap();
    let tx = connection.transaction().unwrap();

    let error = sqlite::check(&tx, "x", FencingToken::new(1).unwrap()).unwrap_err().to_string();

    assert!(error.contains("no such table: main.redlatch_fence"), "{error}");
    assert!(error.contains("sqlite::create_table"), "{error}");
}
