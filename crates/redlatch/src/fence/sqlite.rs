//! Transactions in SQLite that refuse to be stale.
//!
//! In:  your own transaction and a token. Out: go on, or who was faster.
//!
//! Promise: from [`check`] until the transaction ends, nobody else writes to
//! the database. So what you write and its token are both there afterwards, or
//! neither is.
//! Needs: the table of [`CREATE_TABLE`], and that all who write check. It is in
//! the database that was opened (`main`), and so must be what you write: a
//! transaction over attached databases is not one step after a power cut if the
//! journal is a WAL.
//!
//! ```
//! use redlatch::{FencingToken, fence::sqlite};
//!
//! # let [late, token] = [17, 18].map(|number| FencingToken::new(number).unwrap());
//! # let mut connection = rusqlite::Connection::open_in_memory()?;
//! # connection.execute_batch("CREATE TABLE invoice (id, paid); INSERT INTO invoice VALUES (42, false)")?;
//! sqlite::create_table(&connection)?; // once
//!
//! let tx = connection.transaction()?;
//! sqlite::check(&tx, "invoice:42", token)?; // if stale: out, rolled back
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
//! One transaction writes to a database at a time, so one that has checked and
//! stalls keeps out all others, and there is no server to end it. How long they
//! wait is up to their connection, [`Connection::busy_timeout`] (5 s unless
//! set); then it is [`WriteError::Busy`], and nothing was written. A stale
//! transaction keeps them out as well until it is dropped or rolled back: leave
//! with `?`.
//!
//! # Another client
//!
//! Run [`CHECK`] in a transaction, with the resource and the token. It returns
//! the greatest token seen. If that is the token you gave, go on; else roll
//! back.

use super::{WriteError, bigint, settle};
use crate::FencingToken;
use rusqlite::{Connection, Error, ErrorCode, Transaction, types::Value};

/// The table of the greatest tokens, a row for each resource.
pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS main.redlatch_fence (
    resource text PRIMARY KEY NOT NULL,
    token integer NOT NULL
        CHECK (typeof(token) = 'integer' AND token BETWEEN 1 AND 9007199254740991)
)";

/// Raises the token (`?2`) of a resource (`?1`), and returns the greatest token
/// seen. What is not a token stays and is returned. Needs SQLite 3.35.
pub const CHECK: &str = "\
INSERT INTO main.redlatch_fence AS fence (resource, token) VALUES (?1, ?2)
ON CONFLICT (resource) DO UPDATE SET token =
    CASE WHEN typeof(fence.token) = 'integer' AND fence.token BETWEEN 1 AND excluded.token
        THEN excluded.token ELSE fence.token END
RETURNING token";

/// Makes the table of [`CREATE_TABLE`] unless it is there.
pub fn create_table(connection: &Connection) -> Result<(), Error> {
    connection.execute_batch(CREATE_TABLE)
}

/// Lets a transaction go on if the token is admitted, and keeps all other
/// writers out until it ends.
///
/// Do this first, before you read: a transaction that has read before is refused
/// ([`WriteError::Busy`]) if someone wrote since, and must begin anew. It takes a
/// transaction and not just a connection because without one the lock would be
/// gone when this returns.
pub fn check(
    tx: &Transaction<'_>,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<Error>> {
    raise(tx, resource, token)
}

/// Has smaller tokens refused from now on: a [`check`] in a transaction of its
/// own. Do this before you read, if you read in another transaction than the one
/// you write in.
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
    let mut statement = connection.prepare_cached(CHECK)?;
    match statement.query_row((resource, bigint(token)), |row| row.get(0))? {
        Value::Integer(greatest) => settle(token, greatest),
        Value::Null => Err(WriteError::damaged("NULL")),
        Value::Real(number) => Err(WriteError::damaged(number.to_string())),
        Value::Text(text) => Err(WriteError::damaged(text)),
        Value::Blob(bytes) => Err(WriteError::damaged(String::from_utf8_lossy(&bytes))),
    }
}

/// So that `?` will do for a transaction's other statements.
impl From<Error> for WriteError<Error> {
    fn from(error: Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy(error),
            _ => Self::Store(error),
        }
    }
}
