//! PostgreSQL transactions that abort if stale.
//!
//! In:  your own transaction and a token. Out: go on, or the token that beat it.
//!
//! Promise: from [`check`] until the transaction ends, no other token, smaller or
//! greater, gets past, because the check locks the resource's row at every isolation
//! level. So your writes are committed before anyone else's check is answered, or they
//! are rolled back together with the token.
//! Needs: the table of [`CREATE_TABLE`], and a check by every writer. A
//! database has one such table, `public.redlatch_fence`, whatever `search_path`
//! says: two would be two fences. A role that checks needs `SELECT`, `INSERT`
//! and `UPDATE` on it, and `USAGE` on the schema.
//!
//! ```no_run
//! use redlatch::FencingToken;
//! use redlatch_fence::postgres;
//!
//! # async fn example(client: &mut tokio_postgres::Client, token: FencingToken)
//! # -> Result<(), Box<dyn std::error::Error>> {
//! postgres::create_table(client).await?; // once
//!
//! let tx = client.transaction().await?;
//! postgres::check(&tx, "invoice:42", token).await?; // stale: returns here, rolls back
//! tx.execute("UPDATE invoice SET paid = true WHERE id = 42", &[]).await?;
//! tx.commit().await?;
//! # Ok(()) }
//! ```
//!
//! # Nobody waits forever
//!
//! A transaction that has checked blocks the others, so a check sets two limits for
//! its transaction, each only if the session has none (`0`, the server's default):
//!
//! | | | what happens |
//! |---|---|---|
//! | `idle_in_transaction_session_timeout` | 10 s | a holder that stalls between two statements is disconnected and rolled back; its next statement fails with `connection closed` (SQLSTATE 25P03 in the server's log) |
//! | `lock_timeout` | 15 s | a check, or a later statement of that transaction, fails if it waits longer than this for a lock; a check with [`WriteError::Busy`] |
//!
//! So a greater token eventually gets past a stalled holder. To use other
//! values, `SET` them for the session, the role or the database; they are kept.
//! Neither limit ends a single long-running statement: give the role a
//! `statement_timeout` for that.
//!
//! A stale check aborts its transaction on the server: it blocks nobody, anything the
//! transaction still tries to write fails (SQLSTATE 25P02), and a commit rolls back.
//!
//! If you check several resources in one transaction, do so in the same order
//! everywhere, or PostgreSQL ends one of the transactions as a deadlock (40P01).
//!
//! # Another client
//!
//! Run [`CHECK`] in a transaction, with the resource and the token. It returns
//! the greatest token seen. If that is your token, go on; otherwise roll back.
//! To keep the token in a column of your own table instead, see the guide.

mod error;

pub use error::PostgresError;

use crate::write_error::{WriteError, bigint, settle};
use redlatch_core::FencingToken;
use tokio_postgres::{GenericClient, Transaction, types::Type};

/// Creates the table of greatest tokens, with one row per resource. May fail when
/// several clients run it for the first time at once; [`create_table`] does not.
pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS public.redlatch_fence (
    resource text PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991)
)";

/// Raises the token (`$2`) of a resource (`$1`), locks its row, and returns the
/// greatest token seen. Sets those of the transaction's two limits that are not set.
///
/// A smaller token also updates the row, to the value it already has: that way one
/// statement locks, decides and reports. A value that is not a token is kept and
/// returned.
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

/// Whether the table exists and is the one that [`CREATE_TABLE`] makes. It must
/// survive a crash, so not `UNLOGGED`.
const INSPECT: &str = "\
SELECT relkind IN ('r', 'p') AND relpersistence = 'p' AND 2 = (
    SELECT count(*) FROM pg_catalog.pg_attribute
    WHERE attrelid = pg_class.oid AND NOT attisdropped AND (attname, atttypid, attnotnull) IN (
        ('resource', 'pg_catalog.text'::regtype, true),
        ('token', 'pg_catalog.int8'::regtype, true)))
FROM pg_catalog.pg_class
WHERE relname = 'redlatch_fence' AND relnamespace = (
    SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = 'public')";

/// Serializes table creation: `CREATE TABLE IF NOT EXISTS` fails if two clients
/// run it at once. The number is `redlatch` in ASCII.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_xact_lock(8243105109625824104)";

/// Aborts the transaction, which releases its locks.
const ABORT: &str = "DO $$ BEGIN RAISE 'stale: a greater fencing token was here first'; END $$";

/// Creates the table of [`CREATE_TABLE`] unless it exists. Any number of
/// clients may call this at once, and if the table exists, the role does not
/// need permission to create one.
///
/// # Errors
///
/// [`PostgresError::WrongTable`] if there is a different table of that name.
///
/// # Cancel safety
///
/// If dropped before it completes, the table may or may not have been created.
pub async fn create_table(client: &impl GenericClient) -> Result<(), PostgresError> {
    match client.query_typed_opt(INSPECT, &[]).await? {
        Some(row) if row.try_get(0)? => Ok(()),
        Some(_) => Err(PostgresError::WrongTable(None)),
        None => Ok(client.batch_execute(&format!("{ONE_AT_A_TIME}; {CREATE_TABLE}")).await?),
    }
}

/// Lets a transaction go on if the token is accepted, and blocks every other check
/// of this resource until the transaction ends. Otherwise aborts the transaction.
///
/// Call it first, before you read. It takes a transaction rather than a client
/// because without one the row lock would be gone when this returns. The [module
/// documentation](self) says how long it waits, and how long others wait for you.
///
/// # Errors
///
/// [`WriteError::Stale`] if a greater token came first, [`WriteError::Busy`] if
/// the wait timed out. Under `REPEATABLE READ` and `SERIALIZABLE` it fails with
/// a serialization failure (SQLSTATE 40001) if another token came in between:
/// start a new transaction.
///
/// # Cancel safety
///
/// If dropped before it completes, the token is rolled back with the
/// transaction, unless you commit it.
pub async fn check(
    tx: &Transaction<'_>,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<PostgresError>> {
    let checked = raise(tx, resource, token).await;
    if checked.is_err() {
        // This fails by design. After a server error the transaction is aborted already.
        let _ = tx.batch_execute(ABORT).await;
    }
    checked
}

/// Refuses smaller tokens from now on: a [`check`] in its own transaction. Call
/// it before you read, if you read and write in different transactions.
///
/// # Errors
///
/// Those of [`check`].
///
/// # Cancel safety
///
/// If dropped before it completes, the seal may or may not have been applied.
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
    // Not prepared: one round trip, and it works through a pooler.
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
