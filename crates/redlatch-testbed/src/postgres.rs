//! One real PostgreSQL, for tests of fenced writes.

use crate::{error::StartError, eventually::wait_until, process::Process, scratch::Scratch};
use std::{
    cmp::Reverse,
    env,
    fs::{self, File},
    io,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How long it may take to start or to stop.
const LIMIT: Duration = Duration::from_secs(60);
/// PostgreSQL refuses to run as root: then it runs as the first of these users
/// that exists.
const USERS: [&str; 2] = ["postgres", "nobody"];
/// Its superuser.
const ROLE: &str = "redlatch";

/// A real PostgreSQL server, reached by a Unix socket. Dropping it removes it
/// without a trace.
///
/// ```
/// use redlatch_testbed::Postgres;
///
/// let server = Postgres::start()?;
///
/// assert!(server.conninfo().starts_with("host=/"));
/// # Ok::<(), redlatch_testbed::StartError>(())
/// ```
#[derive(Debug)]
pub struct Postgres {
    // Dropped in this order: the process before its files.
    process: Mutex<Option<Process>>,
    programs: PathBuf,
    user: Option<User>,
    scratch: Scratch,
}

impl Postgres {
    /// Returns the directory of PostgreSQL's programs: the one named by
    /// `REDLATCH_POSTGRES`, one on `PATH`, or the newest that Debian installed.
    pub fn find() -> Option<PathBuf> {
        if let Some(named) = env::var_os("REDLATCH_POSTGRES") {
            return programs(Path::new(&named));
        }
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).chain(debian()).find_map(|dir| programs(&dir))
    }

    /// Creates a new, empty server and starts it.
    pub fn start() -> Result<Self, StartError> {
        let programs = Self::find().ok_or(StartError::NoPostgres)?;
        let user = User::other_than_root().map_err(StartError::system("find a user"))?;
        let scratch = Scratch::new().map_err(StartError::system("make a directory"))?;
        if let Some(user) = user {
            chown(scratch.path(), Some(user.id), Some(user.group))
                .map_err(StartError::system("give away a directory"))?;
        }
        let server = Self { process: Mutex::default(), programs, user, scratch };
        server.initialize()?;
        server.launch()?;
        Ok(server)
    }

    /// Returns the connection string, in the format that all clients accept.
    pub fn conninfo(&self) -> String {
        format!("host={} user={ROLE} dbname=postgres", self.scratch.path().display())
    }

    /// Crashes the server, with all transactions in progress, and restarts it
    /// with what was committed.
    pub fn restart(&self) {
        self.stop();
        if let Err(error) = self.launch() {
            panic!("restart: {error}");
        }
    }

    fn initialize(&self) -> Result<(), StartError> {
        let mut command = self.command("initdb");
        // Unsynced data is lost only if the power fails.
        command.args(["--auth=trust", "--no-locale", "--encoding=UTF8", "--no-sync"]);
        command.arg(format!("--username={ROLE}")).arg("--pgdata").arg(self.data());
        let output = command.output().map_err(StartError::system("start initdb"))?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(StartError::Postgres { what: "could not be set up", log })
    }

    fn launch(&self) -> Result<(), StartError> {
        let dir = self.scratch.path();
        let log = dir.join("log");
        let file = File::create(&log).map_err(StartError::system("write the log"))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(dir);
        command.args(["-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=4MB"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut process =
            Process::spawn(command).map_err(StartError::system("start the server"))?;
        wait_until(LIMIT, || self.is_ready(process.id()) || process.has_ended());
        let what = if process.has_ended() {
            "ended at once"
        } else if self.is_ready(process.id()) {
            *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(process);
            return Ok(());
        } else {
            "did not start in time"
        };
        Err(StartError::Postgres { what, log: fs::read_to_string(&log).unwrap_or_default() })
    }

    /// Whether this very process says that it is ready, by the first and the
    /// last line of its lock file.
    fn is_ready(&self, pid: u32) -> bool {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let mut lines = text.lines().map(str::trim);
        lines.next() == Some(&pid.to_string()) && lines.next_back() == Some("ready")
    }

    fn stop(&self) {
        let process = self.process.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut process) = process {
            // `SIGQUIT`: stops at once, as in a crash, but cleans up its children
            // and its shared memory, which `SIGKILL` would leave behind.
            let _ = process.quit();
            wait_until(LIMIT, || process.has_ended());
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(self.scratch.path());
        if let Some(user) = self.user {
            command.uid(user.id).gid(user.group);
        }
        command
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A system user, by numeric ids.
#[derive(Debug, Clone, Copy)]
struct User {
    id: u32,
    group: u32,
}

impl User {
    /// The user to run as if we are root; `None` if we are not.
    fn other_than_root() -> io::Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd")?;
        let user = USERS.iter().find_map(|name| Self::named(&accounts, name));
        user.map(Some).ok_or_else(|| io::Error::other("no user but root"))
    }

    /// Parses a line such as `nobody:x:65534:65534:…`.
    fn named(accounts: &str, name: &str) -> Option<Self> {
        let fields = |line: &'_ str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
        let line = accounts.lines().map(fields).find(|fields| fields[0] == name)?;
        Some(Self { id: line.get(2)?.parse().ok()?, group: line.get(3)?.parse().ok()? })
    }
}

/// The directory of PostgreSQL's programs, with links resolved.
fn programs(dir: &Path) -> Option<PathBuf> {
    let server = fs::canonicalize(dir.join("postgres")).ok()?;
    let dir = server.parent()?;
    dir.join("initdb").is_file().then(|| dir.to_owned())
}

/// `/usr/lib/postgresql/VERSION/bin`, the newest version first.
fn debian() -> Vec<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|entry| entry.path()).collect();
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    versions.sort_by_key(|path| Reverse(number(path)));
    versions.iter().map(|version| version.join("bin")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let accounts = "root:x:0:0::/:\nnobody2:x:7:8::/:\nnobody:x:65534:65533::/:";

        let user = User::named(accounts, "nobody").expect("a user");

        assert_eq!((user.id, user.group), (65534, 65533));
        assert!(User::named(accounts, "postgres").is_none());
    }
}
