//! SQLite transactions that fail if stale.
//!
//! In:  your own transaction and a token. Out: go on, or the token that beat it.
//!
//! Promise: from [`check`] until the transaction ends, nobody else writes to
//! the database. So your writes and the token are committed together or not at
//! all.
//! Needs: the table of [`CREATE_TABLE`], and a check by every writer. The table
//! is in the database that was opened (`main`), and what you write must be
//! there too: in WAL mode, a transaction across attached databases is not
//! atomic if the power fails.
//!
//! ```
//! use redlatch::FencingToken;
//! use redlatch_fence::sqlite;
//!
//! # let [late, token] = [17, 18].map(|number| FencingToken::new(number).unwrap());
//! # let mut connection = rusqlite::Connection::open_in_memory()?;
//! # connection.execute_batch("CREATE TABLE invoice (id, paid); INSERT INTO invoice VALUES (42, false)")?;
//! sqlite::create_table(&connection)?; // once
//!
//! let tx = connection.transaction()?;
//! sqlite::check(&tx, "invoice:42", token)?; // stale: returns here, rolls back
//! tx.execute("UPDATE invoice SET paid = true WHERE id = 42", [])?;
//! tx.commit()?;
//!
//! let tx = connection.transaction()?;
//! let refused = sqlite::check(&tx, "invoice:42", late).unwrap_err();
//! assert_eq!(refused.to_string(), "stale: 17 was beaten by 18");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Waiting for another writer
//!
//! A database has one writing transaction at a time, so one that has checked and stalls
//! blocks all others, and there is no server to end it. The others wait as long as
//! their connection's [`Connection::busy_timeout`] (5 s by default); after that they
//! get [`WriteError::Busy`], and nothing was written. A stale transaction also blocks
//! them until it is dropped or rolled back: return with `?`.
//!
//! # Beside another SQLite library
//!
//! A program has one SQLite, so `rusqlite` must be the version that needs the same
//! `libsqlite3-sys` as the other library: beside sqlx 0.8 that is 0.32
//! (`cargo add rusqlite@0.32`). Versions 0.32 to 0.41 work here.
//!
//! # Another client
//!
//! Run [`CHECK`] in a transaction, with the resource and the token. It returns
//! the greatest token seen. If that is your token, go on; otherwise roll back.

use crate::write_error::{WriteError, bigint, settle};
use redlatch_core::FencingToken;
use rusqlite::{Connection, Error, ErrorCode, Transaction, types::Value};

/// Creates the table of greatest tokens, with one row per resource.
pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS main.redlatch_fence (
    resource text PRIMARY KEY NOT NULL,
    token integer NOT NULL
        CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991)
)";

/// Raises the token (`?2`) of a resource (`?1`), and returns the greatest token
/// seen. A value that is not a token is kept and returned. Needs SQLite 3.35.
pub const CHECK: &str = "\
INSERT INTO main.redlatch_fence AS fence (resource, token) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET token =
    CASE WHEN typeof(fence.token) = 'integer' AND fence.token BETWEEN 1 AND excluded.token
        THEN excluded.token ELSE fence.token END
RETURNING token";

/// Creates the table of [`CREATE_TABLE`] unless it exists.
///
/// # Errors
///
/// SQLite's own, for example if the database is read-only, or locked by another writer
/// for longer than its `busy_timeout`.
pub fn create_table(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(CREATE_TABLE)
}

/// Lets a transaction go on if the token is accepted, and blocks all other
/// writers until it ends.
///
/// Call it first, before you read: a transaction that has already read fails
/// with [`WriteError::Busy`] if someone wrote since, and must start over. It
/// takes a transaction rather than a connection because without one the lock
/// would be gone when this returns.
///
/// # Errors
///
/// [`WriteError::Stale`] if a greater token came first, [`WriteError::Busy`] if
/// another writer did not finish in time.
pub fn check(
    tx: &Transaction<'_>,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<Error>> {
    raise(tx, resource, token)
}

/// Refuses smaller tokens from now on: a [`check`] in its own transaction. Call
/// it before you read, if you read and write in different transactions.
///
/// # Errors
///
/// Those of [`check`].
pub fn seal(
    connection: &mut Connection,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<Error>> {
    raise(connection, resource, token)
}

fn raise(
    connection: &Connection,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<Error>> {
    let mut statement = connection.prepare_cached(CHECK).map_err(with_advice)?;
    match statement.query_row((resource, bigint(token)), |row| row.get(0))? {
        Value::Integer(greatest) => settle(token, greatest),
        Value::Null => Err(WriteError::damaged("NULL")),
        Value::Real(number) => Err(WriteError::damaged(number.to_string())),
        Value::Text(text) => Err(WriteError::damaged(text)),
        Value::Blob(bytes) => Err(WriteError::damaged(String::from_utf8_lossy(&bytes))),
    }
}

/// Says what to do if there is no table.
fn with_advice(error: Error) -> Error {
    match error {
        Error::SqliteFailure(code, Some(words)) if words.contains(MISSING) => {
            let words = format!("{words}; create it once with sqlite::create_table");
            Error::SqliteFailure(code, Some(words))
        }
        error => error,
    }
}

const MISSING: &str = "no such table: main.redlatch_fence";

/// Lets `?` work for the transaction's other statements.
impl From<Error> for WriteError<Error> {
    fn from(error: Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(error),
            _ => Self::Store(error),
        }
    }
}
