//! Creates, checks and opens the file of an embedded node.
//!
//! In:  a path. Out: a connection to our database, or what is wrong with the
//! path and what to do about it.
//!
//! Promise: files that are not ours stay untouched. No directory is ever created:
//! otherwise an empty database would take the place of a directory that is moved away
//! while a lock is held.

use super::{boot::Boot, trust::beside};
use redlatch_core::Fault;
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use std::{
    cell::Cell,
    fs::{self, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long to wait for other processes: their transactions take microseconds,
/// but occasionally one has to wait for the disk.
const PATIENCE: Duration = Duration::from_secs(5);
/// Opening a database that nobody uses reads its whole log, page by page. So a log
/// that is longer than this is written back: two or three syncs in about fifty locks.
const LONG_LOG: u64 = 1024 * 1024;
/// Identifies our files, so that we do not touch another program's: `RdLt`.
const APPLICATION: i32 = 0x5264_4C74;

/// Incremented with every change of the tables.
const VERSION: i32 = 5;

/// The steps that upgrade the tables from one format to the next. An older
/// database gets the steps it lacks.
const FORMATS: [(i32, &str); 5] = [(1, LOCKS), (2, GUARD), (3, FLOOR), (4, LINES), (5, WAITERS)];

const LOCKS: &str = "
    -- One row. The boot id is that of the machine's start that all locks are of.
    CREATE TABLE node (id TEXT NOT NULL, boot TEXT NOT NULL) STRICT;
    -- The deadline is in nanoseconds of the boot clock.
    CREATE TABLE locks (
        name BLOB PRIMARY KEY, value BLOB NOT NULL, deadline INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX deadlines ON locks (deadline);
    -- The fencing registers that have ever moved. They outlive every start.
    CREATE TABLE fences (register INTEGER PRIMARY KEY, number INTEGER NOT NULL) STRICT;
";

const GUARD: &str = "
    -- What the restart guard keeps: see `Ledger`.
    ALTER TABLE node ADD COLUMN admitted TEXT;
    ALTER TABLE node ADD COLUMN agreement TEXT;
    ALTER TABLE node ADD COLUMN reserved TEXT;
    ALTER TABLE node ADD COLUMN watched TEXT;
    -- Since when nothing was forgotten, in nanoseconds of the boot clock: when
    -- the database was made, but the start of the machine if that came later.
    ALTER TABLE node ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
";

const FLOOR: &str = "
    -- No fencing register counts from below this.
    ALTER TABLE node ADD COLUMN floor INTEGER NOT NULL DEFAULT 0;
";

const LINES: &str = "
    -- Who waits for which lock: the tickets as text, one after the other, the first
    -- in line first. The deadline is in nanoseconds of the boot clock.
    CREATE TABLE lines (
        name BLOB PRIMARY KEY, tickets BLOB NOT NULL, deadline INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX lapses ON lines (deadline);
";

const WAITERS: &str = "
    -- Who the waiters are, for people: the owner's text of each, under the 16 hex
    -- digits that name it in its ticket. The deadline is as of a line.
    CREATE TABLE waiters (
        waiter TEXT PRIMARY KEY, owner TEXT NOT NULL, deadline INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX silences ON waiters (deadline);
";

/// The first format that records when a database was created.
const SINCE: i32 = 2;

/// What to do if the file does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IfMissing {
    /// Nobody here has used it yet.
    Create,
    /// This client has had it open: it was deleted or moved, with the locks in it.
    Fail,
}

/// Opens the database at `path` and returns the connection and the database's random id.
/// Deletes locks from before the current boot.
pub(super) fn open(
    path: &Path,
    boot: &Boot,
    if_missing: IfMissing,
) -> Result<(Connection, String), Fault> {
    // Closing a file drops all POSIX locks of the process on it, including those of
    // other connections: nothing in this process may use it before it is created and
    // closed.
    static MAKING: Mutex<()> = Mutex::new(());
    let making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    make(path, if_missing)?;
    drop(making);

    let opened = connect(path).map_err(Obstacle::from).and_then(|connection| {
        let id = patiently(|| prepare(&connection, boot))?;
        shorten_log(&connection);
        Ok((connection, id))
    });
    opened.map_err(|obstacle| match obstacle {
        Obstacle::Error(error) => fault(path, &error),
        Obstacle::Unfit(reason) => unfit(path, &reason),
    })
}

/// Why a database cannot be used.
enum Obstacle {
    Error(rusqlite::Error),
    Unfit(String),
}

impl From<rusqlite::Error> for Obstacle {
    fn from(error: rusqlite::Error) -> Self {
        Obstacle::Error(error)
    }
}

impl Obstacle {
    fn unfit<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Obstacle::Unfit(reason.into()))
    }
}

/// Creates the file unless it exists.
fn make(path: &Path, if_missing: IfMissing) -> Result<(), Fault> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.nlink() > 1 => {
            let reason = format!(
                "has {} hard links: by another name it would be another database, with locks of \
                 its own; remove the others (symbolic links are fine)",
                found.nlink()
            );
            return Err(unfit(path, &reason));
        }
        Ok(found) if found.is_file() => return writable(path),
        Ok(found) if found.is_dir() => {
            let inside = path.join("locks.db");
            let reason = format!("is a directory: name a file, such as {}", inside.display());
            return Err(unfit(path, &reason));
        }
        Ok(_) => return Err(unfit(path, "is not a regular file: name one, or a new one")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(no_way(path, &error)),
    }
    if if_missing == IfMissing::Fail {
        return Err(unfit(
            path,
            "is gone, and so are the locks in it: put it back where it was, or stop all who used \
             it and start them again",
        ));
    }
    if let Some(dir) = path.parent().filter(|dir| is_missing(dir)) {
        let reason = format!(
            "cannot be made, because there is no directory {}: make it first",
            dir.display()
        );
        return Err(unfit(path, &reason));
    }
    if ["-wal", "-shm"].iter().any(|suffix| beside(path, suffix).exists()) {
        let file = path.display();
        let reason = format!(
            "was deleted or moved while it was in use: put it back, or stop all who used it and \
             delete {file}-wal and {file}-shm"
        );
        return Err(unfit(path, &reason));
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(no_way(path, &error)),
        _ => Ok(()),
    }
}

/// Whether it is certain that there is no such directory.
fn is_missing(dir: &Path) -> bool {
    fs::metadata(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Checks without opening the file: closing it would drop the locks of others.
fn writable(path: &Path) -> Result<(), Fault> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let checked = accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(io::Error::from);
    checked.map_err(|error| match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => unfit(path, READ_ONLY),
        _ => unfit(
            path,
            &format!("is not writable for this user ({error}): change its owner or mode"),
        ),
    })
}

/// The reason if neither the owner nor the mode of a file is to blame.
const READ_ONLY: &str =
    "is on a read-only file system: mount it writable, or name a file elsewhere";

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    // Without `CREATE`: SQLite would make the file world-readable.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    wait_patiently(&mut connection)?;
    Ok(connection)
}

/// `SQLite`'s own handler soon sleeps for 100 ms at a time, longer than many locks live.
pub(super) fn wait_patiently(connection: &mut Connection) -> rusqlite::Result<()> {
    thread_local! {
        static SINCE: Cell<Instant> = Cell::new(Instant::now());
    }
    // Not a closure: rusqlite before 0.41 only accepts a function.
    let wait: fn(i32) -> bool = |tries| {
        if tries == 0 {
            SINCE.set(Instant::now());
        }
        thread::sleep(Duration::from_micros(50 << tries.clamp(0, 5)));
        SINCE.get().elapsed() < PATIENCE
    };
    connection.busy_handler(Some(wait))
}

/// Retries while other processes are in the way: `SQLite` does not wait when
/// two of them create a database at the same time.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, Obstacle>) -> Result<T, Obstacle> {
    let since = Instant::now();
    loop {
        match attempt() {
            Err(Obstacle::Error(error)) if is_busy(&error) && since.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

/// Prepares the database and returns its id.
fn prepare(connection: &Connection, boot: &Boot) -> Result<String, Obstacle> {
    // Inspect it before touching it, in one transaction, since others may be creating it.
    let ready = in_transaction(connection, "BEGIN", || match format(connection)? {
        VERSION => id_in(connection, boot),
        _ => Ok(None),
    })?;
    let mode: String =
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        return Obstacle::unfit(
            "is on a file system where processes cannot share memory: use a local one",
        );
    }
    // With a write-ahead log, NORMAL syncs at each checkpoint, not with every
    // transaction. A power loss may then undo the last transactions, but it
    // frees every lock anyway, by the new boot id; and unlike OFF it cannot
    // corrupt the database.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    if let Some(id) = ready {
        return Ok(id);
    }
    in_transaction(connection, "BEGIN IMMEDIATE", || {
        let found = format(connection)?;
        for (_, step) in FORMATS.iter().filter(|(format, _)| *format > found) {
            connection.execute_batch(step)?;
        }
        if found == 0 {
            connection.pragma_update(None, "application_id", APPLICATION)?;
            let new = "INSERT INTO node (id, boot) VALUES (?1, ?2)";
            connection.execute(new, [&fresh_id()?, &*boot.id])?;
        }
        if found < VERSION {
            connection.pragma_update(None, "user_version", VERSION)?;
        }
        if found < SINCE {
            connection.execute("UPDATE node SET since = ?1", [boot.now()])?;
        }
        // All holders of earlier locks are gone since the reboot, so the node
        // cannot have forgotten any lock of the current boot.
        let of_earlier_boot = "UPDATE node SET boot = ?1, since = 0 WHERE boot <> ?1";
        if connection.execute(of_earlier_boot, [&*boot.id])? > 0 {
            connection
                .execute_batch("DELETE FROM locks; DELETE FROM lines; DELETE FROM waiters")?;
        }
        Ok(connection.query_row("SELECT id FROM node", [], |row| row.get(0))?)
    })
}

/// Writes a long log back into the database. The next transaction starts a new log in the
/// same file, which does not grow beyond that. If this fails, the next process that opens
/// the database retries.
fn shorten_log(connection: &Connection) {
    let log = connection.path().map(|path| beside(Path::new(path), "-wal"));
    if log.and_then(|log| fs::metadata(log).ok()).is_some_and(|log| log.len() > LONG_LOG) {
        let _ = connection.pragma_update_and_check(None, "journal_size_limit", 0, |_| Ok(()));
        let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
    }
}

/// The database's id, if its locks are from this boot.
fn id_in(connection: &Connection, boot: &Boot) -> Result<Option<String>, Obstacle> {
    let id = "SELECT id FROM node WHERE boot = ?1";
    Ok(connection.query_row(id, [&*boot.id], |row| row.get(0)).optional()?)
}

/// Returns the format of the database: 0 if it is empty. Fails if it is not ours.
fn format(connection: &Connection) -> Result<i32, Obstacle> {
    let number = |pragma| connection.pragma_query_value(None, pragma, |row| row.get::<_, i32>(0));
    let is_empty = || {
        let things = "SELECT count(*) FROM sqlite_schema";
        connection.query_row(things, [], |row| row.get::<_, i64>(0)).map(|things| things == 0)
    };
    match (number("application_id")?, number("user_version")?) {
        (0, 0) if is_empty()? => Ok(0),
        (APPLICATION, known @ 1..=VERSION) => Ok(known),
        (APPLICATION, newer) if newer > VERSION => Obstacle::unfit(format!(
            "was made by a newer Redlatch (format {newer}, this one knows {VERSION}): \
             update this program, or name another file"
        )),
        (APPLICATION, other) => Obstacle::unfit(format!(
            "has an unknown format ({other}): delete it, or name another file"
        )),
        _ => Obstacle::unfit("is the database of another program: name another file"),
    }
}

fn fresh_id() -> Result<String, Obstacle> {
    match getrandom::u64() {
        Ok(id) => Ok(format!("{id:016x}")),
        Err(error) => Obstacle::unfit(format!(
            "cannot be given an id, because there is no randomness: {error}"
        )),
    }
}

/// Runs all of `work` or nothing. Close the connection after an `SQLite` error
/// other than [`is_busy`].
pub(super) fn in_transaction<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    begin: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let run = |sql| connection.prepare_cached(sql)?.execute([]);
    run(begin)?;
    let result = work().and_then(|value| {
        run("COMMIT")?;
        Ok(value)
    });
    if result.is_err() {
        let _ = run("ROLLBACK");
    }
    result
}

/// A file, to check whether its path still leads to it.
#[derive(Debug)]
pub(super) struct Watched {
    path: PathBuf,
    device_and_inode: (u64, u64),
}

impl Watched {
    /// Watches the database and the two files `SQLite` keeps next to it:
    /// replacing any of the three means another database, or a corrupt one.
    pub(super) fn database(path: &Path) -> Result<[Self; 3], Fault> {
        // SQLite looks for its files next to a link's target.
        let real = path.canonicalize().map_err(|error| no_way(path, &error))?;
        let beside = |suffix: &str| {
            let mut name = real.clone().into_os_string();
            name.push(suffix);
            Watched::new(name.into())
        };
        Ok([Watched::new(path.into())?, beside("-wal")?, beside("-shm")?])
    }

    fn new(path: PathBuf) -> Result<Self, Fault> {
        let found = fs::metadata(&path).map_err(|error| no_way(&path, &error))?;
        Ok(Watched { path, device_and_inode: (found.dev(), found.ino()) })
    }

    /// Fails if the path now leads elsewhere, or nowhere, or cannot be followed.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let path = self.path.display();
        let text = match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.device_and_inode => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                format!("{path} can no longer be reached: {error}")
            }
            _ => format!("{path} was deleted or replaced: the locks in it are forgotten"),
        };
        Err(Fault::Disconnected(text.into()))
    }
}

/// Whether another process was in the way for longer than we wait.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Translates an `SQLite` error.
pub(super) fn fault(path: &Path, error: &rusqlite::Error) -> Fault {
    let beside = "SQLite has to write there, and to create two files next to it";
    match error.sqlite_error_code() {
        _ if is_busy(error) => {
            let path = path.display();
            let text = format!("{path} has been locked by another process for {PATIENCE:?}");
            Fault::Refused(text.into())
        }
        Some(ErrorCode::NotADatabase) => unfit(path, "is not a SQLite database: name another file"),
        Some(ErrorCode::DatabaseCorrupt) => unfit(
            path,
            "is damaged: stop all who use it, then delete it and the files `-wal` and `-shm` \
             beside it",
        ),
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            unfit(path, &format!("cannot be used ({error}): {beside}"))
        }
        _ if could_not_grow(error) => {
            let text = "the disk is full, or a limit on the size of files (ulimit -f) is reached";
            Fault::Refused(format!("{}: {text} ({error})", path.display()).into())
        }
        _ => Fault::Refused(format!("{}: {error}", path.display()).into()),
    }
}

/// Whether a file could not grow, judging by what `SQLite` says: it reports a full disk
/// as such only while it writes the database.
fn could_not_grow(error: &rusqlite::Error) -> bool {
    use rustix::process::{Resource, getrlimit};
    let rusqlite::Error::SqliteFailure(error, _) = error else { return false };
    match error.extended_code {
        rusqlite::ffi::SQLITE_IOERR_SHMSIZE => true,
        rusqlite::ffi::SQLITE_IOERR_WRITE => getrlimit(Resource::Fsize).current.is_some(),
        _ => false,
    }
}

pub(super) fn unfit(path: &Path, reason: &str) -> Fault {
    Fault::Unfit(format!("{} {reason}", path.display()).into())
}

fn no_way(path: &Path, error: &io::Error) -> Fault {
    if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        return unfit(path, READ_ONLY);
    }
    unfit(path, &format!("cannot be reached ({error}): check the path and who may write there"))
}
