//! Transactions in PostgreSQL that refuse to be stale.
//!
//! In:  your own transaction and a token. Out: go on, or who was faster.
//!
//! Promise: from [`check`] until the transaction ends, no smaller token and no
//! greater one gets by: the check locks the row of its resource, at every level
//! of isolation. So what you write is in the database before anyone else's
//! check is answered, or it is not there at all, and then neither is its token.
//! Needs: the table of [`CREATE_TABLE`], and that all who write check.
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
//! # Another client
//!
//! Run [`CHECK`] in a transaction, with the resource and the token. It returns
//! the greatest token seen. If that is the token you gave, go on; else roll
//! back. To keep the token in a column of your own table instead, see the guide.

use super::{WriteError, bigint, settle};
use crate::FencingToken;
use tokio_postgres::{Error, GenericClient, Transaction, types::Type};

/// The table of the greatest tokens, a row for each resource.
pub const CREATE_TABLE: &str = "\
CREATE TABLE IF NOT EXISTS redlatch_fence (
    resource text PRIMARY KEY,
    token bigint NOT NULL CHECK (token BETWEEN 1 AND 9007199254740991)
)";

/// Raises the token (`$2`) of a resource (`$1`), locks its row, and returns the
/// greatest token seen.
///
/// A smaller token updates the row, too, to what it was: that way one statement
/// locks, decides and tells.
pub const CHECK: &str = "\
INSERT INTO redlatch_fence AS fence (resource, token) VALUES ($1, $2)
ON CONFLICT (resource) DO UPDATE SET token = greatest(fence.token, excluded.token)
RETURNING token";

/// Makes the table of [`CREATE_TABLE`] unless it is there.
///
/// # Cancel safety
///
/// Dropped half-way, the table may have been made or not.
pub async fn create_table(client: &impl GenericClient) -> Result<(), Error> {
    client.batch_execute(CREATE_TABLE).await
}

/// Lets a transaction go on if the token is admitted, and keeps everyone else
/// with a token for this resource out until it ends.
///
/// Do this first, before you read. It takes a transaction and not just a client
/// because without one the lock would be gone when this returns.
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
) -> Result<(), WriteError<Error>> {
    raise(tx, resource, token).await
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
) -> Result<(), WriteError<Error>> {
    raise(client, resource, token).await
}

async fn raise(
    client: &impl GenericClient,
    resource: &str,
    token: FencingToken,
) -> Result<(), WriteError<Error>> {
    let number = bigint(token);
    // Not prepared: one round trip, and it goes through a pooler.
    let row =
        client.query_typed_one(CHECK, &[(&resource, Type::TEXT), (&number, Type::INT8)]).await;
    settle(token, row.and_then(|row| row.try_get(0)).map_err(WriteError::Store)?)
}
