mod waiting;

use super::*;
use crate::node::{
    Store,
    conformance::{self, replies, resources, tag},
};
use redlatch_core::{
    Agreement, Cause, Command, Facts, Fault, FencingToken, KeyState, Quarantine, Reply, Token, Vote,
};
use redlatch_testbed::Scratch;
use rusqlite::Connection;
use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{self, Child, Stdio},
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

const LONG: Duration = Duration::from_secs(60);
const MILLISECOND: Duration = Duration::from_millis(1);

fn take(name: &str, token: &str, ttl: Duration) -> Command {
    conformance::take(name, token.as_bytes(), ttl)
}

fn extend(name: &str, token: &str, ttl: Duration) -> Command {
    let token = Token::from_bytes(token.as_bytes());
    Command::Extend { resources: resources([name]), token, ttl, fence: None, fingerprint: None }
}

fn release(name: &str, token: &str) -> Command {
    let token = Token::from_bytes(token.as_bytes());
    Command::Release { resources: resources([name]), token, then: None }
}

fn inspect(name: &str) -> Command {
    Command::Inspect { resources: resources([name]) }
}

fn granted() -> Reply {
    Reply::Vote(Vote::Granted)
}

fn is_held(reply: &Result<Reply, Fault>) -> bool {
    matches!(reply, Ok(Reply::Vote(Vote::Held(_))))
}

fn run_of(database: &mut Database) -> String {
    match database.execute(&Command::Identify) {
        Ok(Reply::Identity(identity)) => identity.run.to_string(),
        other => panic!("{other:?}"),
    }
}

fn unfit_text(path: &Path) -> String {
    match Database::open(path) {
        Err(Fault::Unfit(text)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn opening_a_database_with_a_long_log_shortens_it() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let log = || fs::metadata(scratch.file("locks.db-wal")).unwrap().len();
    let mut killed = Database::open(&path).unwrap();
    while log() < 3 << 20 {
        assert_eq!(killed.execute(&take("held", "a", LONG)), Ok(granted()));
        assert_eq!(killed.execute(&release("held", "a")), Ok(granted()));
    }
    assert_eq!(killed.execute(&take("held", "a", LONG)), Ok(granted()));
    std::mem::forget(killed);

    let mut next = Database::open(&path).unwrap();

    assert!(is_held(&next.execute(&take("held", "b", LONG))));
    assert_eq!(next.execute(&take("free", "b", LONG)), Ok(granted()));
    assert!(log() < 100_000, "{} bytes", log());
}

#[test]
fn what_is_made_is_for_its_owner_alone() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");

    let _database = Database::open(&path).unwrap();

    let mode = |name| fs::metadata(scratch.file(name)).unwrap().permissions().mode() & 0o777;
    let files = ["locks.db", "locks.db-wal", "locks.db-shm"];
    assert_eq!(files.map(mode), [0o600; 3]);
}

#[test]
fn a_directory_is_not_made() {
    let scratch = Scratch::in_memory().unwrap();

    let text = unfit_text(&scratch.file("new/newer/locks.db"));

    let dir = scratch.file("new/newer");
    assert!(text.contains(&format!("there is no directory {}", dir.display())), "{text}");
    assert!(!scratch.file("new").exists());
}

#[test]
fn a_file_that_everybody_can_replace_is_refused_and_not_even_made() {
    let scratch = Scratch::in_memory().unwrap();
    let open = scratch.file("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();

    let text = unfit_text(&open.join("locks.db"));

    assert!(text.contains("everybody can replace it"), "{text}");
    assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    fs::set_permissions(&open, fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(Database::open(&open.join("locks.db")).is_ok(), "it is ours, and only we remove it");
}

#[test]
fn a_path_that_cannot_serve_is_refused_in_words_that_help() {
    let scratch = Scratch::in_memory().unwrap();
    let text = scratch.file("text");
    fs::write(&text, "shopping list: bread, butter, cheese and a little more\n".repeat(99))
        .unwrap();
    let foreign = scratch.file("foreign.db");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let newer = scratch.file("newer.db");
    drop(Database::open(&newer).unwrap());
    Connection::open(&newer).unwrap().pragma_update(None, "user_version", 7).unwrap();

    let cases = [
        (scratch.file("."), "is a directory: name a file, such as"),
        (PathBuf::from("/dev/null"), "is not a regular file: name one"),
        (PathBuf::from("/proc/redlatch/locks.db"), "there is no directory /proc/redlatch: make it"),
        (text.join("locks.db"), "cannot be reached"),
        (text.clone(), "is not a SQLite database: name another file"),
        (foreign.clone(), "is the database of another program: name another file"),
        (newer.clone(), "newer Redlatch (format 7, this one knows 5): update this program"),
    ];
    for (path, expected) in cases {
        let text = unfit_text(&path);
        assert!(text.starts_with(&path.display().to_string()), "{text}");
        assert!(text.contains(expected), "{text}");
    }
    let mode: String = Connection::open(&foreign)
        .unwrap()
        .pragma_query_value(None, "journal_mode", |row| row.get(0))
        .unwrap();
    assert_eq!(mode, "delete", "what is not ours stays as it is");
}

/// Root may write anything, so as root the test runs in a thread of another user.
#[test]
fn a_file_that_may_not_be_written_is_refused_in_words_that_help() {
    const NOBODY: u32 = 65534;
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    drop(Database::open(&path).unwrap());
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let is_root = rustix::process::geteuid().is_root();

    let text = thread::scope(|scope| {
        let opening = scope.spawn(|| {
            if is_root {
                let nobody = rustix::process::Uid::from_raw(NOBODY);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            unfit_text(&path)
        });
        opening.join().unwrap()
    });

    assert!(text.contains("is not writable for this user"), "{text}");
}

#[test]
fn a_link_to_the_file_is_the_same_node() {
    let scratch = Scratch::in_memory().unwrap();
    let (path, link, other) =
        (scratch.file("locks.db"), scratch.file("link"), scratch.file("other"));
    symlink(&path, &link).unwrap();
    let mut here = Database::open(&path).unwrap();
    let mut there = Database::open(&link).unwrap();

    assert_eq!(here.execute(&take("a", "1", LONG)), Ok(granted()));

    assert!(is_held(&there.execute(&take("a", "2", LONG))));
    assert_eq!(run_of(&mut here), run_of(&mut there));
    assert_ne!(run_of(&mut here), run_of(&mut Database::open(&other).unwrap()));
}

#[test]
fn a_file_with_a_second_name_is_refused_under_both() {
    let scratch = Scratch::in_memory().unwrap();
    let (path, link) = (scratch.file("locks.db"), scratch.file("link"));
    drop(Database::open(&path).unwrap());
    fs::hard_link(&path, &link).unwrap();

    let told = [&path, &link].map(|path| unfit_text(path));

    assert!(told.iter().all(|text| text.contains("has 2 hard links")), "{told:?}");
    fs::remove_file(&link).unwrap();
    assert!(Database::open(&path).is_ok());
}

/// A file in which the lock `a` was taken, and the run of its node.
fn used() -> (Scratch, PathBuf, String) {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.execute(&take("a", "1", LONG)), Ok(granted()));
    let run = run_of(&mut database);
    (scratch, path, run)
}

#[test]
fn a_reboot_frees_every_lock() {
    let (_scratch, path, run) = used();
    // As if the machine had been rebooted since.
    Connection::open(&path).unwrap().execute("UPDATE node SET boot = 'earlier'", []).unwrap();

    let mut database = Database::open(&path).unwrap();

    assert_eq!(database.execute(&take("a", "2", LONG)), Ok(granted()));
    assert_eq!(run_of(&mut database), run, "the earlier boot was not this one");
}

/// The format of programs built before the restart guard.
const FORMAT_1: &str = "
    CREATE TABLE node (id TEXT NOT NULL, boot TEXT NOT NULL) STRICT;
    CREATE TABLE locks (
        name BLOB PRIMARY KEY, value BLOB NOT NULL, deadline INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX deadlines ON locks (deadline);
    CREATE TABLE fences (register INTEGER PRIMARY KEY, number INTEGER NOT NULL) STRICT;
    PRAGMA application_id = 0x52644C74;
    PRAGMA user_version = 1;
    INSERT INTO fences VALUES (5, 18);
";

#[test]
fn a_file_of_an_older_program_keeps_its_locks_and_numbers() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let boot = boot::Boot::present().unwrap();
    let older = Connection::open(&path).unwrap();
    older.execute_batch(FORMAT_1).unwrap();
    older.execute("INSERT INTO node VALUES ('0123', ?1)", [&*boot.id]).unwrap();
    let dies = i64::MAX;
    older.execute("INSERT INTO locks VALUES (CAST('a' AS BLOB), x'31', ?1)", [dies]).unwrap();
    drop(older);

    for _ in 0..2 {
        let mut database = Database::open(&path).unwrap();

        assert_eq!(run_of(&mut database), format!("{}/0123", boot.id));
        assert!(is_held(&database.execute(&take("a", "2", LONG))));
        assert_eq!(watch(&mut database).highest, FencingToken::new(18));
        assert!(watch(&mut database).uptime < Some(LONG), "nobody knows since when it is there");
    }
}

fn agreement() -> Agreement {
    Agreement::new(["file:test".into()], LONG, LONG)
}

fn watch(database: &mut Database) -> Box<Facts> {
    let fingerprint = agreement().fingerprint();
    match database.execute(&Command::Watch { fingerprint, nonce: 7, replace: false }) {
        Ok(Reply::Facts(facts)) => facts,
        other => panic!("{other:?}"),
    }
}

fn admit(database: &mut Database, floor: Option<FencingToken>) -> Result<Reply, Fault> {
    let mark = watch(database).mark.unwrap().id;
    let (fingerprint, agreement) = (agreement().fingerprint(), agreement().to_string().into());
    database.execute(&Command::Admit { fingerprint, agreement, mark, floor })
}

fn take_guarded(database: &mut Database, name: &str) -> Reply {
    let (resources, token) = (resources([name]), Token::from_bytes(b"1"));
    let fingerprint = Some(agreement().fingerprint());
    let take = Command::Take { resources, token, ttl: LONG, fence: None, fingerprint, place: None };
    database.execute(&take).unwrap()
}

fn out() -> Reply {
    Reply::Vote(Vote::Quarantined(Quarantine::new(Cause::Forgot)))
}

#[test]
fn an_admission_outlives_those_who_use_the_file_but_neither_the_file_nor_the_boot() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut database = Database::open(&path).unwrap();
    assert_eq!(take_guarded(&mut database, "a"), out());
    assert_eq!(admit(&mut database, None), Ok(granted()));
    drop(database);

    let mut database = Database::open(&path).unwrap();
    assert_eq!(take_guarded(&mut database, "a"), granted());
    drop(database);

    // As if the machine had been rebooted since.
    let boot = boot::Boot::present().unwrap();
    let reboot = "UPDATE node SET boot = 'earlier', admitted = replace(admitted, ?1, 'earlier')";
    Connection::open(&path).unwrap().execute(reboot, [&*boot.id]).unwrap();
    let mut database = Database::open(&path).unwrap();
    assert_eq!(take_guarded(&mut database, "b"), out());
    drop(database);

    let mut other = Database::open(&scratch.file("other.db")).unwrap();
    assert_eq!(take_guarded(&mut other, "c"), out());
}

#[test]
fn a_file_has_been_up_since_it_was_made_and_one_that_was_there_before_since_the_boot() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let boot = boot::Boot::present().unwrap();
    let uptime = |path| watch(&mut Database::open(path).unwrap()).uptime.unwrap();
    let start = boot.now();

    let young = uptime(&path);
    let earlier = "UPDATE node SET since = since - 5000000000";
    Connection::open(&path).unwrap().execute(earlier, []).unwrap();
    let older = uptime(&path);

    let elapsed = Duration::from_nanos((boot.now() - start).unsigned_abs());
    assert!(young <= elapsed, "{young:?} of {elapsed:?}");
    let five = Duration::from_secs(5);
    assert!((five..=five + elapsed).contains(&older), "{older:?} of {elapsed:?}");

    Connection::open(&path).unwrap().execute("UPDATE node SET boot = 'earlier'", []).unwrap();
    let oldest = uptime(&path);
    let since_boot = Duration::from_nanos(start.unsigned_abs());
    let whole = Duration::from_secs(since_boot.as_secs());
    assert!(oldest >= whole && oldest < whole + LONG, "{oldest:?} of {since_boot:?}");
}

#[test]
fn a_floor_outlives_those_who_use_the_file() {
    let scratch = Scratch::in_memory().unwrap();
    let mut database = Database::open(&scratch.file("locks.db")).unwrap();
    let floor = FencingToken::new(1 << 52);

    assert_eq!(admit(&mut database, floor), Ok(granted()));
    drop(database);

    let mut database = Database::open(&scratch.file("locks.db")).unwrap();
    assert_eq!(watch(&mut database).highest, floor);
}

#[test]
fn without_a_reboot_a_lock_outlives_those_who_use_the_file() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    assert_eq!(Database::open(&path).unwrap().execute(&take("a", "1", LONG)), Ok(granted()));

    assert!(is_held(&Database::open(&path).unwrap().execute(&take("a", "2", LONG))));
}

#[test]
fn a_file_used_from_two_machines_is_noticed() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.execute(&take("a", "1", LONG)), Ok(granted()));

    Connection::open(&path).unwrap().execute("UPDATE node SET boot = 'elsewhere'", []).unwrap();

    for command in [take("b", "1", LONG), inspect("a"), release("a", "1")] {
        let Ok(Reply::Vote(Vote::Failed(Fault::Unfit(text)))) = database.execute(&command) else {
            panic!("{command:?} was carried out");
        };
        assert!(text.contains("used from two machines"), "{text}");
    }
}

#[test]
fn a_deleted_or_replaced_file_fails_the_command_and_closes_the_database() {
    let files = ["locks.db", "locks.db-wal", "locks.db-shm"];
    let sets = [&files[..], &files[..1], &files[1..2], &files[2..]];
    for (deleted, replaced) in sets.iter().flat_map(|set| [(set, false), (set, true)]) {
        let scratch = Scratch::in_memory().unwrap();
        let path = scratch.file("locks.db");
        let mut database = Database::open(&path).unwrap();
        assert_eq!(database.execute(&take("a", "1", LONG)), Ok(granted()));

        for name in *deleted {
            fs::rename(scratch.file(name), scratch.file("old")).unwrap();
            if replaced {
                fs::write(scratch.file(name), "").unwrap();
            }
        }

        let Err(Fault::Disconnected(text)) = database.execute(&extend("a", "1", LONG)) else {
            panic!("{deleted:?} was not missed");
        };
        assert!(text.contains("was deleted or replaced"), "{text}");
    }
}

/// Otherwise the holder would go on using the old file, and others the new one.
#[tokio::test]
async fn a_holder_of_a_lock_in_a_deleted_file_learns_that_it_is_gone() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut holder = File::new(&path).open(Clock::System);
    let mut other = File::new(&path).open(Clock::System);
    let run = ask(&mut *holder, Command::Identify).await;
    assert_eq!(ask(&mut *holder, take("a", "1", LONG)).await, granted());

    for name in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::remove_file(scratch.file(name)).unwrap();
    }
    assert_eq!(ask(&mut *other, take("a", "2", LONG)).await, granted());

    let fault = ask(&mut *holder, extend("a", "1", LONG)).await;
    assert!(matches!(fault, Reply::Vote(Vote::Failed(Fault::Disconnected(_)))), "{fault:?}");
    assert_eq!(ask(&mut *holder, extend("a", "1", LONG)).await, Reply::Vote(Vote::Gone));
    assert_ne!(ask(&mut *holder, Command::Identify).await, run);
}

/// Otherwise its renewal would make an empty database, in which others get the lock at once.
#[tokio::test]
async fn a_client_that_had_the_file_open_does_not_make_it_again() {
    let scratch = Scratch::in_memory().unwrap();
    let (dir, moved) = (scratch.file("dir"), scratch.file("moved"));
    fs::create_dir(&dir).unwrap();
    let node = File::new(dir.join("locks.db"));
    let mut holder = node.open(Clock::System);
    assert_eq!(ask(&mut *holder, take("a", "1", LONG)).await, granted());

    fs::rename(&dir, &moved).unwrap();

    let fault = ask(&mut *holder, extend("a", "1", LONG)).await;
    assert!(matches!(fault, Reply::Vote(Vote::Failed(Fault::Disconnected(_)))), "{fault:?}");
    // Nor if its directory exists again, nor over another connection of the client.
    for is_there in [false, true] {
        if is_there {
            fs::create_dir(&dir).unwrap();
        }
        let mut rescue = node.clone().open(Clock::System);
        for link in [&mut holder, &mut rescue] {
            let fault = ask(&mut **link, extend("a", "1", LONG)).await;
            let Reply::Vote(Vote::Failed(Fault::Unfit(text))) = fault else { panic!("{fault:?}") };
            assert!(text.contains("is gone, and so are the locks in it"), "{text}");
        }
        assert_eq!(dir.exists(), is_there);
    }
    fs::remove_dir(&dir).expect("nothing was made in it");
    fs::rename(&moved, &dir).unwrap();
    assert_eq!(ask(&mut *holder, extend("a", "1", LONG)).await, granted());
}

#[test]
fn a_file_that_was_deleted_in_use_is_not_made_anew_while_its_log_is_there() {
    let scratch = Scratch::in_memory().unwrap();
    let (path, away) = (scratch.file("locks.db"), scratch.file("away"));
    let mut holder = Database::open(&path).unwrap();
    assert_eq!(holder.execute(&take("a", "1", LONG)), Ok(granted()));

    fs::rename(&path, &away).unwrap();
    let text = unfit_text(&path);

    assert!(text.contains("was deleted or moved while it was in use"), "{text}");
    assert!(text.contains(&format!("delete {0}-wal and {0}-shm", path.display())), "{text}");
    assert!(!path.exists());
    fs::rename(&away, &path).unwrap();
    assert!(is_held(&Database::open(&path).unwrap().execute(&take("a", "2", LONG))));
    fs::remove_file(&path).unwrap();
    drop(holder);
    for file in ["locks.db-wal", "locks.db-shm"] {
        let _ = fs::remove_file(scratch.file(file));
    }
    assert!(Database::open(&path).is_ok());
}

async fn ask(link: &mut dyn Link, command: Command) -> Reply {
    link.send(tag(0), command);
    replies(link, 1, LONG).await.remove(0).1
}

#[test]
fn a_process_that_hangs_in_the_file_costs_a_fault_but_hides_nothing() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut database = Database::open(&path).unwrap();
    assert_eq!(database.execute(&take("a", "1", LONG)), Ok(granted()));
    let hanging = Connection::open(&path).unwrap();
    hanging.execute_batch("BEGIN IMMEDIATE").unwrap();

    let Ok(Reply::Vote(Vote::Failed(Fault::Refused(text)))) =
        database.execute(&take("b", "1", LONG))
    else {
        panic!("nobody can write at present");
    };
    assert!(text.contains("locked by another process"), "{text}");
    let Ok(Reply::Keys(keys)) = database.execute(&inspect("a")) else {
        panic!("everybody can read");
    };
    assert!(matches!(*keys, [KeyState::Held { .. }]));

    hanging.execute_batch("ROLLBACK").unwrap();
    assert_eq!(database.execute(&take("b", "1", LONG)), Ok(granted()));
}

#[test]
fn expired_locks_do_not_pile_up() {
    let scratch = Scratch::in_memory().unwrap();
    let mut database = Database::open(&scratch.file("locks.db")).unwrap();

    for number in 0..1_000 {
        assert_eq!(database.execute(&take(&number.to_string(), "1", MILLISECOND)), Ok(granted()));
    }
    thread::sleep(2 * MILLISECOND);
    for number in 0..20 {
        assert_eq!(database.execute(&take(&number.to_string(), "1", LONG)), Ok(granted()));
    }

    let rows = Connection::open(scratch.file("locks.db"))
        .unwrap()
        .query_row("SELECT count(*) FROM locks", [], |row| row.get::<_, i64>(0))
        .unwrap();
    assert_eq!(rows, 20);
}

#[test]
fn many_may_make_the_file_at_once() {
    const MANY: usize = 8;
    for _ in 0..50 {
        let scratch = Scratch::in_memory().unwrap();
        let path = scratch.file("locks.db");
        let start = Barrier::new(MANY);
        let open = || {
            start.wait();
            Database::open(&path).map(|mut database| run_of(&mut database))
        };

        let runs: Vec<_> = thread::scope(|scope| {
            let openers: Vec<_> = (0..MANY).map(|_| scope.spawn(open)).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });

        assert_eq!(runs, vec![runs[0].clone(); MANY]);
        assert!(runs[0].is_ok(), "{runs:?}");
    }
}

#[test]
fn processes_that_count_under_the_lock_lose_nothing() {
    const PROCESSES: usize = 8;
    const EACH: usize = 200;
    let scratch = Scratch::in_memory().unwrap();
    fs::write(scratch.file("counter"), "0").unwrap();

    // All at once, so that they also race to create the file.
    let started: Vec<_> = (0..PROCESSES).map(|_| worker(&scratch, EACH, LONG)).collect();
    for mut child in started {
        assert!(child.wait().unwrap().success());
    }

    let counted = fs::read_to_string(scratch.file("counter")).unwrap();
    assert_eq!(counted, (PROCESSES * EACH).to_string());
}

#[test]
fn processes_killed_at_any_time_leave_a_sound_file_and_no_lock_forever() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    fs::write(scratch.file("counter"), "0").unwrap();

    let mut workers: Vec<_> =
        (0..3).map(|_| worker(&scratch, usize::MAX, 20 * MILLISECOND)).collect();
    for round in 0..45_u64 {
        thread::sleep(Duration::from_millis(5 + round * 7 % 20));
        let mut victim = workers.remove(0);
        victim.kill().unwrap();
        victim.wait().unwrap();
        workers.push(worker(&scratch, usize::MAX, 20 * MILLISECOND));
    }
    for mut worker in workers {
        worker.kill().unwrap();
        worker.wait().unwrap();
    }

    let mut database = Database::open(&path).unwrap();
    let start = Instant::now();
    while is_held(&database.execute(&take("counter", "1", LONG))) {
        assert!(start.elapsed() < LONG, "a lock of the dead is still there");
        thread::sleep(MILLISECOND);
    }
    let check = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let connection = Connection::open(&path).unwrap();
    let verdict = connection.pragma_query_value(None, "integrity_check", check).unwrap();
    assert_eq!(verdict, "ok");
}

/// Tells this program that it is a worker: how much to count, with which TTL, and where.
const WORK: &str = "REDLATCH_TEST_FILE_WORKER";

fn worker(scratch: &Scratch, count: usize, ttl: Duration) -> Child {
    process::Command::new(env::current_exe().unwrap())
        .args(["--exact", "node::file::tests::a_worker", "--ignored"])
        .env(WORK, format!("{count}:{}:{}", ttl.as_millis(), scratch.path().display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "it is a part of other tests, which start it as a process"]
fn a_worker() {
    let Ok(work) = env::var(WORK) else { return };
    let [count, ttl, dir] = work.splitn(3, ':').collect::<Vec<_>>().try_into().unwrap();
    let (count, ttl) = (count.parse().unwrap(), Duration::from_millis(ttl.parse().unwrap()));
    let counter = Path::new(dir).join("counter");
    let open = || Database::open(&Path::new(dir).join("locks.db")).unwrap();
    let mut database = open();
    let orphaned = Instant::now() + LONG;
    for number in 0..count {
        // The last one to close the file cleans up while others open it.
        if number % 4 == 0 {
            drop(database);
            database = open();
        }
        assert!(Instant::now() < orphaned, "whoever started this would have ended it by now");
        let token = format!("{}-{number}", process::id());
        loop {
            match database.execute(&take("counter", &token, ttl)) {
                Ok(Reply::Vote(Vote::Granted)) => break,
                Ok(Reply::Vote(Vote::Held(_))) => thread::sleep(Duration::from_micros(100)),
                other => panic!("{other:?}"),
            }
            assert!(Instant::now() < orphaned, "the lock was never free");
        }
        let value: u64 = fs::read_to_string(&counter).unwrap().parse().unwrap_or(0);
        thread::yield_now();
        fs::write(&counter, (value + 1).to_string()).unwrap();
        let released = database.execute(&release("counter", &token));
        assert!(matches!(released, Ok(Reply::Vote(Vote::Granted | Vote::Gone))), "{released:?}");
    }
}
