//! A holder is stopped past its TTL, a second one takes over and writes, the
//! first one wakes up and writes: late. Where tokens are checked its write is
//! refused, where they are not it wins, and what the second one wrote is lost.
//!
//! The first holder is a process of its own, stopped by `SIGSTOP`, and the nodes
//! are five real servers. A file, Redis, PostgreSQL and SQLite it reaches by
//! itself. A register and an object store in memory no second process can reach:
//! there it sends its token along with a request to the process that has them,
//! as it would to a server. (Of the stores that two processes could share without
//! a cloud, `LocalFileSystem` has no conditional puts.)
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../redlatch/tests/support/child.rs"]
mod child;

use child::Child;
use object_store::{ObjectStoreExt, memory::InMemory, path::Path as Key};
use redlatch::{
    FencingToken, RestartGuard,
    blocking::Locks,
    fence::{self, File, Register, Stale},
};
use redlatch_fence::{WriteError, object_store::Object, postgres, redis::Value, sqlite};
use redlatch_testbed::{Postgres, Server, Servers, eventually};
use std::{
    fmt::Debug,
    fs,
    path::{Path, PathBuf},
    process,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

const TTL: Duration = Duration::from_secs(2);
/// Far longer than anything takes that a test waits for.
const LIMIT: Duration = Duration::from_secs(20);
const NAME: &str = "invoice:42";
const NODES: usize = 5;
const MAJORITY: usize = 3;

const FIRST: &str = "written by the first";
const SECOND: &str = "written by the second";
const LATE: &str = "written by the first, late";

/// The names of the two values of a place.
const FENCED: &str = "fenced";
const UNFENCED: &str = "unfenced";

/// Where both holders write: a value that is fenced, and its twin that is not.
trait Target {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale>;

    /// As everyone writes who knows nothing of tokens.
    fn write_unfenced(&mut self, text: &str);

    fn read(&mut self, name: &str) -> String;
}

#[test]
fn a_late_write_to_a_file_is_refused_if_it_is_fenced() {
    let nodes = servers();

    a_late_write_is_refused_if_it_is_fenced(&nodes, "file", &beside(&nodes, "report"));
}

#[test]
fn a_late_write_to_redis_is_refused_if_it_is_fenced() {
    let server = Server::start().unwrap();

    a_late_write_is_refused_if_it_is_fenced(&servers(), "redis", &server.url());
}

#[test]
fn a_late_write_to_postgres_is_refused_if_it_is_fenced() {
    let server = Postgres::start().unwrap_or_else(|error| panic!("{error}"));
    InPostgres::make_tables(&server.conninfo());

    a_late_write_is_refused_if_it_is_fenced(&servers(), "postgres", &server.conninfo());
}

#[test]
fn a_late_write_to_sqlite_is_refused_if_it_is_fenced() {
    let nodes = servers();
    let path = beside(&nodes, "report.db");
    InSqlite::make_tables(&path);

    a_late_write_is_refused_if_it_is_fenced(&nodes, "sqlite", &path);
}

#[test]
fn a_late_write_to_an_object_is_refused_if_it_is_fenced() {
    let target = InStore { runtime: runtime(), store: Arc::default() };

    play(&servers(), target, "on request", "");
}

#[test]
fn a_late_write_to_a_register_is_refused_if_it_is_fenced() {
    let target = InMemoryOfThisProcess::default();

    play(&servers(), target, "on request", "");
}

fn servers() -> Servers {
    Servers::start(NODES).expect("servers")
}

/// Locks that are patient with a busy machine. New servers vote at once.
fn locks<S: AsRef<str>>(nodes: impl IntoIterator<Item = S>) -> Locks {
    let builder = redlatch::Locks::builder().restart_guard(RestartGuard::Off).nodes(nodes);
    let builder = builder.ttl(Duration::from_secs(30)).node_timeout(Duration::from_secs(3));
    builder.wait(Duration::ZERO).connect_blocking().expect("locks")
}

/// On how many nodes the lock is.
fn with_the_lock(nodes: &Servers) -> usize {
    nodes.iter().filter(|node| node.keys().iter().any(|key| key == NAME)).count()
}

/// A path that both processes can reach and that is gone with the servers.
fn beside(nodes: &Servers, name: &str) -> String {
    nodes[0].dir().join(name).display().to_string()
}

fn a_late_write_is_refused_if_it_is_fenced(nodes: &Servers, kind: &str, address: &str) {
    play(nodes, reach(kind, address), kind, address);
}

/// The whole story. `place` is how the second holder writes; the kind and the
/// address tell the first one how it does.
fn play(nodes: &Servers, mut target: impl Target, kind: &str, address: &str) {
    let handed = format!("{kind}\n{address}\n{}", nodes.urls().join(" "));
    let mut first = Child::start("child_holds_the_lock_and_writes_late", &handed);
    assert_eq!(hear(&mut first, &mut target), "held: true");
    let first_token: FencingToken = hear(&mut first, &mut target).parse().unwrap();
    assert_eq!([target.read(FENCED), target.read(UNFENCED)], [FIRST; 2]);

    first.freeze();
    eventually(LIMIT, || with_the_lock(nodes) < MAJORITY);
    let locks = locks(nodes.urls());
    let second = locks.lock(NAME).wait(LIMIT).acquire().expect("the lock of the stopped one");
    let second_token = second.fencing_token().expect("a token");
    target.write_fenced(second_token, SECOND).expect("the greatest token");
    target.write_unfenced(SECOND);
    assert_eq!([target.read(FENCED), target.read(UNFENCED)], [SECOND; 2]);
    first.go_on();
    first.thaw();

    assert_eq!(hear(&mut first, &mut target), "held: false", "when it woke up");
    let refused = format!("stale: {first_token} was beaten by {second_token}");
    assert_eq!(hear(&mut first, &mut target), refused);
    assert!(first.end().success());
    assert_eq!(target.read(FENCED), SECOND);
    assert_eq!(target.read(UNFENCED), LATE, "without a fence the late write wins");
    assert!(second.is_held() && with_the_lock(nodes) >= MAJORITY, "the second one's lock");
}

/// A careless client: what it learns of its lock on waking up it tells, and then
/// writes all the same.
#[test]
#[ignore = "a process of its own, started by another test"]
fn child_holds_the_lock_and_writes_late() {
    let Some(handed) = Child::handed() else { return };
    let [kind, address, urls] = handed.lines().collect::<Vec<_>>().try_into().expect("three lines");
    // Should it hang, the parent hears that it has ended.
    thread::spawn(|| {
        thread::sleep(3 * LIMIT);
        process::exit(1);
    });
    let mut target = reach(kind, address);
    let locks = locks(urls.split(' '));
    let guard =
        locks.lock(NAME).ttl(TTL).node_timeout(Duration::from_millis(400)).acquire().unwrap();
    let token = guard.fencing_token().expect("a token");
    target.write_fenced(token, FIRST).expect("the only token so far");
    target.write_unfenced(FIRST);
    Child::say(&format!("held: {}", guard.is_held()));
    Child::say(&token.to_string());

    // Here it is stopped.
    Child::wait_for_word();

    Child::say(&format!("held: {}", guard.is_held()));
    let fenced = target.write_fenced(token, LATE);
    target.write_unfenced(LATE);
    Child::say(&fenced.map_or_else(|stale| stale.to_string(), |()| "written".into()));
}

/// What the first holder says next. Requests to write that come before are
/// carried out.
fn hear(first: &mut Child, target: &mut impl Target) -> String {
    loop {
        let words = first.hear().expect("the first holder talks");
        let Some(request) = words.strip_prefix("please write ") else { return words };
        match request.split_once(' ').expect("where and what") {
            (UNFENCED, text) => {
                target.write_unfenced(text);
                first.tell("written");
            }
            (token, text) => {
                let token = token.parse().expect("a token");
                let written = target.write_fenced(token, text);
                let greatest = written.map_or_else(|stale| stale.beaten_by, |()| token);
                first.tell(&greatest.to_string());
            }
        }
    }
}

/// The place at that address, in whatever process this runs.
fn reach(kind: &str, address: &str) -> Box<dyn Target> {
    match kind {
        "file" => Box::new(OnDisk(address.into())),
        "redis" => Box::new(InRedis::at(address)),
        "postgres" => Box::new(InPostgres::at(address)),
        "sqlite" => Box::new(InSqlite::at(address)),
        "on request" => Box::new(OnRequest),
        other => panic!("no such target: {other}"),
    }
}

impl Target for Box<dyn Target> {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        (**self).write_fenced(token, text)
    }

    fn write_unfenced(&mut self, text: &str) {
        (**self).write_unfenced(text);
    }

    fn read(&mut self, name: &str) -> String {
        (**self).read(name)
    }
}

/// Refused for being late, and for no other reason.
fn or_stale<E: Debug>(written: Result<(), WriteError<E>>) -> Result<(), Stale> {
    written.map_err(|error| error.stale().unwrap_or_else(|| panic!("not stale, but {error:?}")))
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// In the child: a place of the parent, which writes for it.
struct OnRequest;

impl Target for OnRequest {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        Child::say(&format!("please write {token} {text}"));
        fence::accept(Some(Child::wait_for_word().parse().expect("the greatest token")), token)
    }

    fn write_unfenced(&mut self, text: &str) {
        Child::say(&format!("please write {UNFENCED} {text}"));
        assert_eq!(Child::wait_for_word(), "written");
    }

    fn read(&mut self, _: &str) -> String {
        unreachable!("the parent reads for itself")
    }
}

struct OnDisk(PathBuf);

impl Target for OnDisk {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        let written = File::new(self.0.with_extension(FENCED)).write(token, text);
        written.map_err(|error| error.stale().unwrap_or_else(|| panic!("{error}")))
    }

    fn write_unfenced(&mut self, text: &str) {
        fs::write(self.0.with_extension(UNFENCED), text).unwrap();
    }

    fn read(&mut self, name: &str) -> String {
        fs::read_to_string(self.0.with_extension(name)).unwrap()
    }
}

struct InRedis(redis::Connection);

impl InRedis {
    fn at(url: &str) -> Self {
        InRedis(redis::Client::open(url).unwrap().get_connection().unwrap())
    }
}

impl Target for InRedis {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        or_stale(Value::new(FENCED).write_blocking(&mut self.0, token, text))
    }

    fn write_unfenced(&mut self, text: &str) {
        redis::cmd("SET").arg(UNFENCED).arg(text).exec(&mut self.0).unwrap();
    }

    fn read(&mut self, name: &str) -> String {
        redis::cmd("GET").arg(name).query(&mut self.0).unwrap()
    }
}

struct InPostgres {
    runtime: Runtime,
    client: tokio_postgres::Client,
}

impl InPostgres {
    fn at(conninfo: &str) -> Self {
        let runtime = runtime();
        let client = runtime.block_on(async {
            let connecting = tokio_postgres::connect(conninfo, tokio_postgres::NoTls);
            let (client, connection) = connecting.await.unwrap();
            tokio::spawn(connection);
            client
        });
        InPostgres { runtime, client }
    }

    fn make_tables(conninfo: &str) {
        let Self { runtime, client } = Self::at(conninfo);
        runtime.block_on(async {
            postgres::create_table(&client).await.unwrap();
            client.batch_execute("CREATE TABLE report (name text, value text)").await.unwrap();
            let rows = "INSERT INTO report VALUES ('fenced', ''), ('unfenced', '')";
            client.batch_execute(rows).await.unwrap();
        });
    }
}

impl Target for InPostgres {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        let Self { runtime, client } = self;
        or_stale(runtime.block_on(async {
            let tx = client.transaction().await.unwrap();
            postgres::check(&tx, "report", token).await?;
            let update = "UPDATE report SET value = $1 WHERE name = 'fenced'";
            tx.execute(update, &[&text]).await.unwrap();
            Ok(tx.commit().await?)
        }))
    }

    fn write_unfenced(&mut self, text: &str) {
        let update = "UPDATE report SET value = $1 WHERE name = 'unfenced'";
        self.runtime.block_on(self.client.execute(update, &[&text])).unwrap();
    }

    fn read(&mut self, name: &str) -> String {
        let query = "SELECT value FROM report WHERE name = $1";
        self.runtime.block_on(self.client.query_one(query, &[&name])).unwrap().get(0)
    }
}

struct InSqlite(rusqlite::Connection);

impl InSqlite {
    fn at(path: impl AsRef<Path>) -> Self {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(LIMIT).unwrap();
        InSqlite(connection)
    }

    fn make_tables(path: &str) {
        let Self(connection) = Self::at(path);
        sqlite::create_table(&connection).unwrap();
        connection.execute_batch("CREATE TABLE report (name text, value text)").unwrap();
        let rows = "INSERT INTO report VALUES ('fenced', ''), ('unfenced', '')";
        connection.execute_batch(rows).unwrap();
    }
}

impl Target for InSqlite {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        let tx = self.0.transaction().unwrap();
        or_stale(sqlite::check(&tx, "report", token))?;
        tx.execute("UPDATE report SET value = ?1 WHERE name = 'fenced'", [text]).unwrap();
        tx.commit().unwrap();
        Ok(())
    }

    fn write_unfenced(&mut self, text: &str) {
        let update = "UPDATE report SET value = ?1 WHERE name = 'unfenced'";
        self.0.execute(update, [text]).unwrap();
    }

    fn read(&mut self, name: &str) -> String {
        let query = "SELECT value FROM report WHERE name = ?1";
        self.0.query_row(query, [name], |row| row.get(0)).unwrap()
    }
}

struct InStore {
    runtime: Runtime,
    store: Arc<InMemory>,
}

impl InStore {
    fn object(&self) -> Object<Arc<InMemory>> {
        Object::new(self.store.clone(), Key::from(FENCED))
    }
}

impl Target for InStore {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        or_stale(self.runtime.block_on(self.object().write(token, text.to_owned())))
    }

    fn write_unfenced(&mut self, text: &str) {
        let text = text.to_owned().into();
        self.runtime.block_on(self.store.put(&Key::from(UNFENCED), text)).unwrap();
    }

    fn read(&mut self, name: &str) -> String {
        let bytes = self.runtime.block_on(async {
            match name {
                FENCED => self.object().read().await.unwrap().expect("a value"),
                _ => self.store.get(&Key::from(name)).await.unwrap().bytes().await.unwrap(),
            }
        });
        String::from_utf8(bytes.into()).unwrap()
    }
}

#[derive(Default)]
struct InMemoryOfThisProcess {
    fenced: Register<String>,
    unfenced: String,
}

impl Target for InMemoryOfThisProcess {
    fn write_fenced(&mut self, token: FencingToken, text: &str) -> Result<(), Stale> {
        self.fenced.write(token, |value| text.clone_into(value))
    }

    fn write_unfenced(&mut self, text: &str) {
        text.clone_into(&mut self.unfenced);
    }

    fn read(&mut self, name: &str) -> String {
        if name == FENCED { self.fenced.read(String::clone) } else { self.unfenced.clone() }
    }
}
