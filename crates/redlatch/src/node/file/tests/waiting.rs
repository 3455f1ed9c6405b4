//! Lines in a file, and how the clients of other processes are woken.

use super::{super::*, LONG, inspect, release, run_of, take, used, watch};
use crate::{
    driver::clock::wall_micros,
    node::Store,
    node::conformance::{replies, tag},
};
use redlatch_core::{KeyState, Place, Resource, Ticket, Vote, Waiter};
use redlatch_testbed::Scratch;
use rusqlite::Connection;
use std::{
    env, fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixDatagram,
    },
    path::Path,
    process::{self, Child, Stdio},
    thread,
    time::{Duration, Instant, SystemTime},
};

/// A client with its own link.
struct Client {
    link: Box<dyn Link>,
    ticket: Ticket,
    token: String,
}

impl Client {
    fn of(path: &Path, number: u64) -> Self {
        let (arrived, patience) = (wall_micros() + number, 60_000);
        let ticket = Ticket { arrived, waiter: Waiter::new(number, 0), patience };
        Client { link: File::new(path).open(Clock::System), ticket, token: number.to_string() }
    }

    async fn next(&mut self) -> (Tag, Reply) {
        let mut replies = replies(&mut *self.link, 1, LONG).await;
        assert_eq!(replies.len(), 1, "an answer or a wake: {replies:?}");
        replies.remove(0)
    }

    async fn take(&mut self) -> Reply {
        let mut take = take("a", &self.token, LONG);
        if let Command::Take { place, .. } = &mut take {
            *place = Some(Place { ticket: self.ticket, known: false });
        }
        self.link.send(tag(1), take);
        self.next().await.1
    }

    async fn release(&mut self) -> Reply {
        self.link.send(tag(1), release("a", &self.token));
        self.next().await.1
    }

    fn woken(&self) -> (Tag, Reply) {
        let resource = Resource::new("a").unwrap();
        (Tag::WAKE, Reply::Woken(Wake { resource, ticket: self.ticket }))
    }
}

fn granted() -> Reply {
    Reply::Vote(Vote::Granted)
}

fn ahead(reply: &Reply) -> Option<usize> {
    match reply {
        Reply::Vote(Vote::Held(holder)) => holder.ahead.map(usize::from),
        other => panic!("{other:?}"),
    }
}

/// The first client holds the lock, and the others wait for it in this order.
async fn line<const N: usize>(path: &Path) -> [Client; N] {
    let mut clients = std::array::from_fn(|at| Client::of(path, at as u64 + 1));
    for (at, client) in clients.iter_mut().enumerate() {
        let reply = client.take().await;
        match at {
            0 => assert_eq!(reply, granted()),
            at => assert_eq!(ahead(&reply), Some(at - 1)),
        }
    }
    clients
}

/// A release wakes the next, and nobody else.
async fn passes(holder: &mut Client, next: &mut Client) {
    assert_eq!(holder.release().await, granted());
    assert_eq!(next.next().await, next.woken());
}

/// How many lines there are in a database.
fn lines(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("SELECT count(*) FROM lines", [], |row| row.get(0)).unwrap()
}

/// The keys `a` of a database.
fn state(path: &Path) -> KeyState {
    match Database::open(path).unwrap().execute(&inspect("a")) {
        Ok(Reply::Keys(states)) => states[0].clone(),
        other => panic!("{other:?}"),
    }
}

fn wake_directory(path: &Path) -> PathBuf {
    trust::beside(path, "-wake")
}

#[tokio::test]
async fn a_release_wakes_the_first_in_line_and_nothing_is_left_in_the_end() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let [mut alone] = line(&path).await;
    assert!(!wake_directory(&path).exists(), "nobody waits");
    assert_eq!(alone.release().await, granted());
    let [mut holder, mut first, mut second] = line(&path).await;

    passes(&mut holder, &mut first).await;
    assert_eq!(first.take().await, granted());
    passes(&mut first, &mut second).await;

    drop((alone, holder, first, second));
    // The threads of the links end a little later.
    until(|| !wake_directory(&path).exists());
}

/// Makes it look as if the client had not asked for half a minute.
fn forget(path: &Path, client: &Client) {
    let late = "UPDATE waiters SET deadline = 0 WHERE waiter = ?1";
    let changed = Connection::open(path).unwrap().execute(late, [client.ticket.waiter.to_string()]);
    assert_eq!(changed, Ok(1));
}

#[tokio::test]
async fn a_waiter_that_no_longer_asks_drops_out_and_is_passed_over() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let [mut holder, first, second, mut third] = line(&path).await;

    forget(&path, &second);
    assert_eq!(ahead(&third.take().await), Some(1));
    forget(&path, &first);

    passes(&mut holder, &mut third).await;
}

fn until(is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "it never came to be");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_runtime_without_input_and_output_will_do() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();

    runtime.block_on(async {
        let [mut holder, mut first] = line(&path).await;
        passes(&mut holder, &mut first).await;
    });
}

#[tokio::test]
async fn sockets_are_for_those_who_may_use_the_file() {
    for (file, directory, socket) in [(0o600, 0o700, 0o600), (0o660, 0o770, 0o660)] {
        let scratch = Scratch::in_memory().unwrap();
        let path = scratch.file("locks.db");
        let [mut holder, mut first] = [1, 2].map(|number| Client::of(&path, number));
        assert_eq!(holder.take().await, granted());
        fs::set_permissions(&path, fs::Permissions::from_mode(file)).unwrap();

        assert_eq!(ahead(&first.take().await), Some(0));

        let mode = |path: PathBuf| fs::metadata(path).unwrap().mode() & 0o777;
        let sockets = wake_directory(&path);
        assert_eq!(mode(sockets.clone()), directory);
        assert_eq!(mode(sockets.join("000000000002.sock")), socket);
    }
}

#[tokio::test]
async fn a_path_of_any_length_is_short_enough() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file(format!("{}/{}.db", "directory".repeat(20), "locks".repeat(30)));
    fs::create_dir(path.parent().unwrap()).unwrap();

    let [mut holder, mut first] = line(&path).await;

    passes(&mut holder, &mut first).await;
}

/// Nobody is woken, so nobody is in line: clients ask again by themselves.
#[tokio::test]
async fn where_sockets_cannot_be_made_or_trusted_locks_work_without_lines() {
    let plant: [fn(&Path); 4] = [
        |at| fs::write(at, "a file").unwrap(),
        |at| symlink(at.parent().unwrap(), at).unwrap(),
        |at| {
            fs::create_dir(at).unwrap();
            fs::set_permissions(at, fs::Permissions::from_mode(0o777)).unwrap();
        },
        |at| fs::create_dir_all(at.join("000000000002.sock")).unwrap(),
    ];
    for plant in plant {
        let scratch = Scratch::in_memory().unwrap();
        let path = scratch.file("locks.db");
        plant(&wake_directory(&path));
        let [mut holder, mut first] = [1, 2].map(|number| Client::of(&path, number));
        assert_eq!(holder.take().await, granted());

        assert_eq!(ahead(&first.take().await), None);
        assert_eq!(holder.release().await, granted());

        assert_eq!(first.take().await, granted());
    }
}

/// Root trusts anyone's files in its own directories, so this needs a world-writable one.
#[test]
fn a_directory_that_another_user_made_in_one_for_all_is_not_trusted() {
    let scratch = Scratch::in_memory().unwrap();
    let shared = scratch.file("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).unwrap();
    let us = fs::metadata(&shared).unwrap().uid();

    assert!(trust::is_ours(&shared.join("locks.db-wake"), us));
    assert!(!trust::is_ours(&shared.join("locks.db-wake"), us + 4711));
}

#[tokio::test]
async fn what_strangers_send_wakes_nobody() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let [mut holder, mut first] = line(&path).await;

    let sender = UnixDatagram::unbound().unwrap();
    sender.connect(wake_directory(&path).join("000000000002.sock")).unwrap();
    let (long, others) = ([b'0'; 4000], format!("{}a", holder.ticket));
    for message in [&b""[..], b"x", &long, first.ticket.to_string().as_bytes(), others.as_bytes()] {
        sender.send(message).unwrap();
    }

    passes(&mut holder, &mut first).await;
}

#[tokio::test]
async fn sockets_of_the_killed_are_removed_unless_they_are_young() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let [mut holder, mut first] = line(&path).await;
    let [old, young] = [0xa, 0xb].map(|client| {
        let at = wake_directory(&path).join(format!("{client:012x}.sock"));
        drop(UnixDatagram::bind(&at).unwrap());
        at
    });
    for socket in [&old, &wake_directory(&path).join("000000000002.sock")] {
        make_older(socket);
    }

    let mut other = Client::of(&path, 3);
    assert_eq!(ahead(&other.take().await), Some(1));
    until(|| !old.exists());

    assert!(young.exists());
    passes(&mut holder, &mut first).await; // its socket is old, but it is alive
}

fn make_older(path: &Path) {
    use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let past = Timespec { tv_sec: now.as_secs().cast_signed() - 120, tv_nsec: 0 };
    let times = Timestamps { last_access: past, last_modification: past };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

#[tokio::test]
async fn a_second_link_of_a_client_leaves_the_wakes_to_the_first_while_that_lasts() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let [mut holder, first] = line(&path).await;
    let mut again = Client::of(&path, 2);
    assert_eq!(ahead(&again.take().await), Some(0));

    drop(first);
    until(|| !wake_directory(&path).exists());
    assert_eq!(ahead(&again.take().await), Some(0));
    assert_eq!(holder.release().await, granted());

    let (tag, _) = again.next().await;
    assert_eq!(tag, Tag::WAKE);
}

#[test]
fn a_file_of_the_last_format_keeps_what_it_has_and_can_have_lines() {
    let (_scratch, path, run) = used();
    let older = "DROP TABLE lines; DROP TABLE waiters; PRAGMA user_version = 3; \
                 UPDATE node SET since = since - 3600000000000";
    Connection::open(&path).unwrap().execute_batch(older).unwrap();

    let mut database = Database::open(&path).unwrap();

    assert_eq!(run_of(&mut database), run);
    assert!(watch(&mut database).uptime >= Some(60 * LONG), "it forgot nothing");
    assert!(matches!(state(&path), KeyState::Held { .. }));
    assert_eq!(lines(&path), 0);
}

#[tokio::test]
async fn a_reboot_ends_every_line() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let _clients: [Client; 2] = line(&path).await;
    // As if the machine had been rebooted since.
    Connection::open(&path).unwrap().execute("UPDATE node SET boot = 'earlier'", []).unwrap();

    drop(Database::open(&path).unwrap());

    assert_eq!(lines(&path), 0);
}

#[tokio::test]
async fn lines_that_nobody_looks_at_lapse_and_do_not_pile_up() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let [mut holder, _first] = line(&path).await;
    let mut second = Client::of(&path, 3);
    let later = "UPDATE lines SET deadline = deadline - 30000000000; \
                 INSERT INTO lines SELECT x'01', tickets, deadline FROM lines; \
                 INSERT INTO lines SELECT x'02', tickets, deadline FROM lines WHERE name = x'01'";
    Connection::open(&path).unwrap().execute_batch(later).unwrap();

    assert_eq!(ahead(&second.take().await), Some(0), "the first has lapsed");

    assert_eq!(lines(&path), 1);
    passes(&mut holder, &mut second).await;
}

/// Tells this program that it waits in line, and where.
const WAIT: &str = "REDLATCH_TEST_FILE_WAITER";

/// A process that waits in line as this client. Returns once it does.
fn waiter(path: &Path, client: u64) -> (Child, impl Iterator<Item = String>) {
    let mut child = process::Command::new(env::current_exe().unwrap())
        .args(["--exact", "node::file::tests::waiting::a_waiter", "--ignored", "--nocapture"])
        .env(WAIT, format!("{client}:{}", path.display()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let words = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut words = words.filter_map(|line| Some(line.split_once("waiter: ")?.1.to_owned()));
    assert_eq!(words.next().as_deref(), Some("in line"));
    (child, words)
}

#[tokio::test]
#[ignore = "it is a part of other tests, which start it as a process"]
async fn a_waiter() {
    let Ok(wait) = env::var(WAIT) else { return };
    let (client, path) = wait.split_once(':').unwrap();
    let mut client = Client::of(Path::new(path), client.parse().unwrap());
    ahead(&client.take().await).unwrap();
    println!("waiter: in line");
    assert_eq!(client.next().await, client.woken());
    println!("waiter: woken");
    assert_eq!(client.take().await, granted());
    assert_eq!(client.release().await, granted());
    println!("waiter: done");
}

#[tokio::test]
async fn processes_wake_each_other_and_pass_over_the_killed() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut holder = Client::of(&path, 1);
    assert_eq!(holder.take().await, granted());
    let (mut killed, _) = waiter(&path, 2);
    let (mut second, words_of_second) = waiter(&path, 3);
    let (mut third, words_of_third) = waiter(&path, 4);

    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(wake_directory(&path).join("000000000002.sock").exists());
    assert_eq!(holder.release().await, granted());

    for words in [words_of_second.collect::<Vec<_>>(), words_of_third.collect()] {
        assert_eq!(words, ["woken", "done"]);
    }
    assert!(second.wait().unwrap().success() && third.wait().unwrap().success());
    assert!(!wake_directory(&path).join("000000000002.sock").exists());
    assert_eq!(state(&path), KeyState::Free);
}

#[tokio::test]
async fn a_lock_for_which_only_the_killed_wait_is_free() {
    let scratch = Scratch::in_memory().unwrap();
    let path = scratch.file("locks.db");
    let mut holder = Client::of(&path, 1);
    assert_eq!(holder.take().await, granted());
    let (mut killed, _) = waiter(&path, 2);

    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(holder.release().await, granted());

    assert_eq!(state(&path), KeyState::Free);
}
