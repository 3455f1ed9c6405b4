//! One real server, and everything a test can do to it.

use crate::{
    error::StartError,
    eventually::wait_until,
    faketime::{FakeClock, faketime_library},
    flavour::Flavour,
    options::ServerOptions,
    port::Port,
    process::Process,
    resp::{Client, Reply},
    scratch::Scratch,
};
use std::{
    fs::{self, File},
    io,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

const START_LIMIT: Duration = Duration::from_secs(60);
/// How often to try another port when another process took ours.
const PORT_TRIES: u32 = 5;
/// Name and password of the user that the testbed itself logs in as, so that it
/// gets in whatever a test does to the others.
const CONTROL: &str = "redlatch-testbed";

/// A real server on loopback. Dropping it removes it without a trace.
///
/// All methods take `&self`, so a server can be killed from one thread while
/// others use it.
///
/// The testbed inspects the server over its own connection, as its own user.
/// This counts against `maxclients`, but not in
/// [`connected_clients`](Self::connected_clients).
#[derive(Debug)]
pub struct Server {
    // Dropped in this order: the process before its files and its port.
    process: Mutex<Option<Process>>,
    // Separate from the process, so that a frozen server can be thawed while
    // another thread waits for its answer.
    client: Mutex<Option<Client>>,
    flavour: Flavour,
    program: PathBuf,
    options: ServerOptions,
    clock: Option<FakeClock>,
    scratch: Scratch,
    ports: Ports,
}

/// The ports a server listens on.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) plain: Port,
    pub(crate) tls: Option<Port>,
}

impl Server {
    /// Starts the first flavour found, with the default options.
    pub fn start() -> Result<Self, StartError> {
        Self::options().start()
    }

    /// Returns options for a server that differs from the default.
    pub fn options() -> ServerOptions {
        ServerOptions::default()
    }

    pub(crate) fn with(options: &ServerOptions) -> Result<Self, StartError> {
        let (flavour, found) = options.chosen()?;
        let scratch = Scratch::new().map_err(StartError::system("make a directory"))?;
        let clock = fake_clock(options, &scratch)?;
        let ports = Ports::reserve(options)?;
        let mut server = Self {
            process: Mutex::default(),
            client: Mutex::default(),
            flavour,
            program: found.program,
            options: options.clone(),
            clock,
            scratch,
            ports,
        };
        for _ in 1..PORT_TRIES {
            match server.launch() {
                Err(StartError::Ended { log, .. }) if log.contains("Address already in use") => {
                    server.ports = Ports::reserve(options)?;
                }
                result => return result.map(|()| server),
            }
        }
        server.launch().map(|()| server)
    }

    pub fn flavour(&self) -> Flavour {
        self.flavour
    }

    /// Returns the address: `redis://127.0.0.1:PORT`, with the password if there is one.
    pub fn url(&self) -> String {
        self.url_to("redis", self.port())
    }

    /// Returns the address for TLS: `rediss://127.0.0.1:PORT`, with the
    /// password if there is one.
    pub fn tls_url(&self) -> String {
        self.url_to("rediss", self.tls_port())
    }

    /// Returns the port for TLS.
    pub fn tls_port(&self) -> u16 {
        self.ports.tls.as_ref().expect("a server started with `tls`").number()
    }

    /// Returns the address for logging in as an ACL user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@127.0.0.1:{}", self.port())
    }

    /// Returns the address of the Unix socket: `redis+unix:///…`.
    pub fn unix_url(&self) -> String {
        format!("redis+unix://{}", self.unix_path().display())
    }

    /// Returns the path of the Unix socket.
    pub fn unix_path(&self) -> PathBuf {
        assert!(self.options.unix_socket, "this server was started without a unix socket");
        self.scratch.path().join("socket")
    }

    /// Returns the port for plain connections. It stays the same across restarts.
    pub fn port(&self) -> u16 {
        self.ports.plain.number()
    }

    /// Returns the process id, or `None` while the server is down.
    pub fn pid(&self) -> Option<u32> {
        lock(&self.process).as_ref().map(Process::id)
    }

    pub fn dir(&self) -> PathBuf {
        self.scratch.path().to_owned()
    }

    /// Returns what the server has logged since it was last started.
    pub fn log(&self) -> String {
        fs::read_to_string(self.scratch.path().join("log")).unwrap_or_default()
    }

    /// Kills the server (`SIGKILL`); returns once it is gone. Does nothing to a
    /// dead server.
    pub fn kill(&self) {
        // The process first: that ends a command another thread may be waiting for.
        lock(&self.process).take();
        lock(&self.client).take();
    }

    /// Freezes the server (`SIGSTOP`): it keeps its connections but answers nothing.
    pub fn freeze(&self) {
        self.with_process("freeze", Process::freeze);
    }

    /// Lets a frozen server continue (`SIGCONT`).
    pub fn thaw(&self) {
        self.with_process("thaw", Process::thaw);
    }

    /// Kills the server and restarts it on the same port, with what is on its
    /// disk: nothing by default, everything with [`ServerOptions::appendonly`].
    pub fn restart(&self) {
        self.kill();
        if let Err(error) = self.launch() {
            panic!("restart: {error}");
        }
    }

    /// Kills the server, deletes its files and restarts it on the same port.
    pub fn restart_empty(&self) {
        self.kill();
        for left in ["dump.rdb", "appendonly.aof", "appendonlydir"] {
            let path = self.scratch.path().join(left);
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
        }
        self.restart();
    }

    /// Saves the data, kills the server and restarts it on the same port with
    /// that data. The dump stays: a later [`restart`](Self::restart) loads it
    /// again, however old it is by then.
    pub fn restart_with_data(&self) {
        let saved = self.run(&["SAVE"]);
        assert!(saved.is_ok(), "restart with data: SAVE answered {saved:?}");
        self.restart();
    }

    /// Sets the server's wall clock ahead of the real one.
    pub fn clock_ahead(&self, by: Duration) {
        self.fake_clock().ahead(by).expect("write the offset of the clock");
    }

    /// Sets the server's wall clock behind the real one.
    pub fn clock_behind(&self, by: Duration) {
        self.fake_clock().behind(by).expect("write the offset of the clock");
    }

    /// Runs one command, such as `["SET", "a", "b"]`. If the server answers
    /// with an error, that is a [`Reply::Error`].
    ///
    /// # Panics
    /// If the server does not answer within five seconds.
    #[track_caller]
    pub fn run<Part: AsRef<[u8]>>(&self, command: &[Part]) -> Reply {
        match self.try_run(command) {
            Ok(reply) => reply,
            Err(error) => {
                panic!("{} on port {} does not answer: {error}", self.flavour, self.port())
            }
        }
    }

    /// Runs one command on a server that may be down or frozen.
    pub fn try_run<Part: AsRef<[u8]>>(&self, command: &[Part]) -> io::Result<Reply> {
        let mut slot = lock(&self.client);
        let mut client = match slot.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.log_in()?,
        };
        // After an error the connection is out of step, so it is not put back.
        let reply = client.run(command)?;
        *slot = Some(client);
        Ok(reply)
    }

    /// Returns the names of all keys in database 0, sorted. Leaves out expired
    /// keys, and the node's own hash, which is meant to stay.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<_> =
            self.run(&["KEYS", "*"]).items().iter().filter_map(Reply::text).collect();
        keys.retain(|key| key != "redlatch:node");
        keys.sort();
        keys
    }

    /// Returns how many [`keys`](Self::keys) there are in database 0. Unlike
    /// `DBSIZE`, it does not count expired ones.
    #[track_caller]
    pub fn key_count(&self) -> usize {
        self.keys().len()
    }

    /// Returns how many clients are connected, not counting the testbed's own
    /// connection.
    #[track_caller]
    pub fn connected_clients(&self) -> usize {
        let list = self.run(&["CLIENT", "LIST"]).text().unwrap_or_default();
        let own = format!("user={CONTROL}");
        list.lines().filter(|client| !client.split(' ').any(|field| field == own)).count()
    }

    /// Returns one field of `INFO`, such as `run_id`.
    #[track_caller]
    pub fn info(&self, field: &str) -> Option<String> {
        field_of(&self.run(&["INFO"]), field)
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), StartError> {
        let mut process = self.spawn()?;
        let ready = |pid| {
            let mut client = self.log_in().ok()?;
            is_ready(&mut client, pid).ok()?.then_some(client)
        };
        let mut client = None;
        wait_until(START_LIMIT, || {
            client = ready(process.id());
            client.is_some() || process.has_ended()
        });
        if client.is_some() {
            *lock(&self.process) = Some(process);
            *lock(&self.client) = client;
            return Ok(());
        }
        let (flavour, log) = (self.flavour, self.log());
        if self.options.wants_tls() && lacks_tls(&log) {
            return Err(StartError::Unsupported { flavour, what: "TLS" });
        }
        if process.has_ended() {
            Err(StartError::Ended { flavour, log })
        } else {
            Err(StartError::Mute { flavour, limit: START_LIMIT, log })
        }
    }

    fn spawn(&self) -> Result<Process, StartError> {
        let dir = self.scratch.path();
        let config = self.options.install(&self.ports, dir, CONTROL);
        let config = config.map_err(StartError::system("write the configuration"))?;
        let log = File::create(dir.join("log")).map_err(StartError::system("write the log"))?;
        let errors = log.try_clone().map_err(StartError::system("write the log"))?;
        let mut command = Command::new(&self.program);
        command.arg(config).current_dir(dir).stdin(Stdio::null()).stdout(log).stderr(errors);
        if let Some(clock) = &self.clock {
            clock.preload(&mut command);
        }
        Process::spawn(command).map_err(StartError::system("start the server"))
    }

    fn url_to(&self, scheme: &str, port: u16) -> String {
        match &self.options.password {
            Some(password) => format!("{scheme}://:{password}@127.0.0.1:{port}"),
            None => format!("{scheme}://127.0.0.1:{port}"),
        }
    }

    fn log_in(&self) -> io::Result<Client> {
        let mut client = Client::connect(self.port())?;
        match client.run(&["AUTH", CONTROL, CONTROL])? {
            reply if reply.is_ok() => Ok(client),
            reply => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("AUTH answered {reply:?}"),
            )),
        }
    }

    fn with_process(&self, what: &str, act: impl Fn(&Process) -> io::Result<()>) {
        match &*lock(&self.process) {
            Some(process) => act(process).unwrap_or_else(|error| panic!("{what}: {error}")),
            None => panic!("{what}: the server on port {} is down", self.port()),
        }
    }

    fn fake_clock(&self) -> &FakeClock {
        self.clock.as_ref().expect("a server started with `fake_clock`")
    }
}

impl Ports {
    fn reserve(options: &ServerOptions) -> Result<Self, StartError> {
        let port = || Port::reserve().map_err(|_| StartError::NoPort);
        Ok(Self { plain: port()?, tls: options.wants_tls().then(port).transpose()? })
    }
}

fn fake_clock(options: &ServerOptions, scratch: &Scratch) -> Result<Option<FakeClock>, StartError> {
    if !options.fake_clock {
        return Ok(None);
    }
    let library = faketime_library().ok_or(StartError::NoFaketime)?;
    FakeClock::new(library, scratch.path()).map(Some).map_err(StartError::system("write the clock"))
}

/// Whether the server at the other end is the process we started, rather than
/// one that took the port before it, and has loaded its data.
fn is_ready(client: &mut Client, pid: u32) -> io::Result<bool> {
    let info = client.run(&["INFO"])?;
    let field = |name| field_of(&info, name);
    Ok(field("process_id") == Some(pid.to_string()) && field("loading").as_deref() == Some("0"))
}

/// The messages of Redis and Valkey when built without TLS.
fn lacks_tls(log: &str) -> bool {
    log.contains(">>> 'tls-") || log.contains("Failed finding TLS support")
}

fn field_of(info: &Reply, field: &str) -> Option<String> {
    let text = info.text()?;
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::to_owned)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
