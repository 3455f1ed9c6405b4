//! Transactions in PostgreSQL that refuse to be stale.
//!
//! In:  your own transaction and a token. Out: go on, or who was faster.
//!
//! Promise: from [`check`] until the transaction ends, no smaller token and no
//! greater one gets by: the check locks the row of its resource, at every level
//! of isolation. So what you write is in the database before anyone else's
//! check is answered, or it is not there at all, and then neither is its token.
//! Needs: the table of [`CREATE_TABLE`], and that all who write check. There is
//! one table in a database, `public.redlatch_fence`, whatever `search_path` says:
//! two would be two fences. A role that checks needs `SELECT`, `INSERT` and
//! `UPDATE` on it, and `USAGE` of the schema.
//!
//! ```no_run
//! use redlatch::{FencingToken, fence::postgres};
//!
//! # async fn example(client: &mut tokio_postgres::Client, token: FencingToken)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! postgres::create_table(client).await?; // once
//!
//! let tx = client.transaction().await?;
//! postgres::check(&tx, "invoice:42", token).await?; // if stale: out, rolled back
//! tx.execute("UPDATE invoice SET paid = true WHERE id = 42", &[]).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```
//!
//! # Nobody waits for ever
//!
//! A transaction that has checked keeps the others out, so a check sets two
//! limits for its transaction, each only where the session has none (`0`, the
//! server's default):
//!
//! | | | what happens |
//! |---|---|---|
//! | `idle_in_transaction_session_timeout` | 10 s | a holder that stalls between two statements is disconnected and rolled back; its next statement fails with `connection closed` (SQLSTATE 25P03 in the server's log) |
//! | `lock_timeout` | 15 s | a check, or a later statement of that transaction, that waits for a lock longer than this fails; a check with [`WriteError::Busy`] |
//!
//! So a greater token gets past a stalled holder by itself. Other values: `SET`
//! them for the session, the role or the database, and they are kept. What these
//! two do not end is a single statement that runs on and on: give the role a
//! `statement_timeout`.
//!
//! A stale check aborts its transaction on the server: it keeps nobody waiting,
//! and what it still tries to write fails (SQLSTATE 25P02), committed or not.
//!
//! Who checks several resources in one transaction does so in the same order
//! everywhere, or PostgreSQL ends one of two for a deadlock (40P01).
//!
//! # Another client
//!
//! Run [`CHECK`] in a transaction, with the resource and the token. It returns
//! the greatest token seen. If that is the token you gave, go on; else roll
//! back. To keep the token in a column of your own table instead, see the guide.

mod error;

pub use error::PostgresError;

use super::{WriteError, bigint, settle};
use crate::FencingToken;
use tokio_postgres::{GenericClient, Transaction, types::Type};

/// The table of the greatest tokens, a row for each resource. Run at once by
/// several for the first time it may fail: [`create_table`] does not.
pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS public.redlatch_fence (
    resource text PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991)
)";

/// Raises the token (`$2`) of a resource (`$1`), locks its row, and returns the
/// greatest token seen. Sets the limits of the transaction that have none.
///
/// A smaller token updates the row, too, to what it was: that way one statement
/// locks, decides and tells. What is not a token stays and is returned.
pub const CHECK: &str = "\
INSERT INTO public.redlatch_fence AS fence (resource, token)
SELECT $1::text, $2::bigint FROM (SELECT
    CASE current_setting('idle_in_transaction_session_timeout') WHEN '0'
        THEN set_config('idle_in_transaction_session_timeout', '10s', true) END,
    CASE current_setting('lock_timeout') WHEN '0'
        THEN set_config('lock_timeout', '15s', true) END
) AS limits
ON CONFLICT (resource) DO UPDATE SET token =
    CASE WHEN fence.token BETWEEN 1 AND excluded.token THEN excluded.token ELSE fence.token END
RETURNING token";

/// Whether the table is there, and is the one that [`CREATE_TABLE`] makes. It
/// must outlive a crash, too: not `UNLOGGED`.
const INSPECT: &str = "\
SELECT relkind IN ('r', 'p') AND relpersistence = 'p' AND 2 = (
    SELECT count(*) FROM pg_catalog.pg_attribute
    WHERE attrelid = pg_class.oid AND NOT attisdropped AND (attname, atttypid, attnotnull) IN (
        ('resource', 'pg_catalog.text'::regtype, true),
        ('token', 'pg_catalog.int8'::regtype, true)))
FROM pg_catalog.pg_class
WHERE relname = 'redlatch_fence' AND relnamespace = (
    SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'public')";

/// Who makes the table keeps others from it: `CREATE TABLE IF NOT EXISTS` fails
/// if two run it at once. The number is `redlatch` in ASCII.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(8243105109625824104)";

/// Aborts the transaction, which frees its locks.
const ABORT: &str = "DO $$ BEGIN RAISE 'stale: a greater fencing token was here first'; END $$";

/// Makes the table of [`CREATE_TABLE`] unless it is there. Any number of clients
/// may do this at once, and where the table is there, the role need not be
/// allowed to make one.
///
/// # Cancel safety
///
/// Dropped half-way, the table may have been made or not.
pub async fn create_table(client: &impl GenericClient) -> Result<(), PostgresError> {
    match client.query_typed_opt(INSPECT, &[]).await? {
        Some(row) if row.try_get(0)? => Ok(()),
        Some(_) => Err(PostgresError::WrongTable(None)),
        None => Ok(client.batch_execute(&format!("{ONE_AT_A_TIME}; {CREATE_TABLE}")).await?),
    }
}

/// Lets a transaction go on if the token is admitted, and keeps everyone else
/// with a token for this resource out until it ends. If it is not admitted, the
/// transaction is aborted.
///
/// Do this first, before you read. It takes a transaction and not just a client
/// because without one the lock would be gone when this returns. The module's
/// documentation says how long it waits, and how long others wait for you.
///
/// Under `REPEATABLE READ` and `SERIALIZABLE` it fails with a serialization
/// failure (SQLSTATE 40001) if another token came between; begin anew.
///
/// # Cancel safety
///
/// Dropped half-way, the token is forgotten with the transaction unless you
/// commit that.
pub async fn check(
    tx: &Transaction<'_>,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<PostgresError>> {
    let checked = raise(tx, resource, token).await;
    if checked.is_err() {
        // It fails, as it should; after an error of the server it is aborted.
        let _ = tx.batch_execute(ABORT).await;
    }
    checked
}

/// Has smaller tokens refused from now on: a [`check`] in a transaction of its
/// own. Do this before you read, if you read in another transaction than the one
/// you write in.
///
/// # Cancel safety
///
/// Dropped half-way, the seal may have been applied or not.
pub async fn seal(
    client: &tokio_postgres::Client,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<PostgresError>> {
    raise(client, resource, token).await
}

async fn raise(
    client: &impl GenericClient,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<PostgresError>> {
    let number = bigint(token);
    // Not prepared: one round trip, and it goes through a pooler.
    let row =
        client.query_typed_one(CHECK, &[(&resource, Type::TEXT), (&number, Type::INT8)]).await;
    let row = row.map_err(error::of_check)?;
    if *row.columns()[0].type_() != Type::INT8 {
        return Err(WriteError::Store(PostgresError::WrongTable(None)));
    }
    match row.try_get(0).map_err(PostgresError::from)? {
        Some(greatest) => settle(token, greatest),
        None => Err(WriteError::damaged("NULL")),
    }
}
