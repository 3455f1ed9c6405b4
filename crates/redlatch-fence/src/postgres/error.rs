//! Why a check in PostgreSQL failed, and what to do about it.

use crate::WriteError;
use tokio_postgres::{Error, error::SqlState};

/// Why a check failed, or a commit has an unknown outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PostgresError {
    /// The table does not exist in this database.
    #[error(
        "the table public.redlatch_fence is missing: run `redlatch_fence::postgres::create_table` once, \
         as a role that may create it"
    )]
    NoTable(#[source] Error),
    /// There is a table of that name, but not ours.
    #[error(
        "public.redlatch_fence is not the table that `redlatch_fence::postgres::create_table` makes: \
         alter it to be that table, or drop it once no lock is held"
    )]
    WrongTable(#[source] Option<Error>),
    /// The role lacks a privilege.
    #[error(
        "the role may not use the fence: \
         grant it SELECT, INSERT and UPDATE on public.redlatch_fence, and USAGE on schema public"
    )]
    NotAllowed(#[source] Error),
    /// Another transaction holds the resource's row. Reported as [`WriteError::Busy`].
    #[error(
        "another transaction has checked this resource and not ended within `lock_timeout`; \
         begin again while the lock is yours, or end that session (see `pg_blocking_pids`)"
    )]
    Locked(#[source] Error),
    /// The server or the connection failed. Nothing was written, unless it was the
    /// commit that failed: then the transaction may or may not have been committed.
    #[error("{}", told(.0))]
    Postgres(#[source] Error),
}

impl From<Error> for PostgresError {
    fn from(error: Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<PostgresError> for WriteError<PostgresError> {
    fn from(error: PostgresError) -> Self {
        Self::Store(error)
    }
}

/// Lets `?` work for the transaction's other statements.
impl From<Error> for WriteError<PostgresError> {
    fn from(error: Error) -> Self {
        Self::Store(error.into())
    }
}

/// Translates the server's error for a check.
pub(super) fn of_check(error: Error) -> WriteError<PostgresError> {
    let of_the_table = [
        &SqlState::UNDEFINED_COLUMN,
        &SqlState::UNDEFINED_FUNCTION,
        &SqlState::INVALID_COLUMN_REFERENCE,
        &SqlState::DATATYPE_MISMATCH,
        &SqlState::WRONG_OBJECT_TYPE,
        &SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
        &SqlState::STRING_DATA_RIGHT_TRUNCATION,
        &SqlState::NOT_NULL_VIOLATION,
    ];
    WriteError::Store(match error.code() {
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => {
            return WriteError::Busy(PostgresError::Locked(error));
        }
        Some(code) if *code == SqlState::UNDEFINED_TABLE => PostgresError::NoTable(error),
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => PostgresError::NotAllowed(error),
        Some(code) if of_the_table.contains(&code) => PostgresError::WrongTable(Some(error)),
        _ => PostgresError::Postgres(error),
    })
}

/// The server's message: the driver itself displays only `db error`.
fn told(error: &Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}
