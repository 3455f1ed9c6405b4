//! One real Prometheus, for tests of metrics, alerts and dashboards.

use crate::{
    error::StartError, eventually::wait_until, port::Port, process::Process, scratch::Scratch,
};
use std::{
    env,
    fs::{self, File},
    io::{self, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

/// How long it may take to start.
const LIMIT: Duration = Duration::from_secs(60);
const CONFIG: &str = "prometheus.yml";

/// A real Prometheus on loopback. Dropping it removes it without a trace.
#[derive(Debug)]
pub struct Prometheus {
    // Dropped in this order: the process before its port and its files.
    _process: Process,
    port: Port,
    _scratch: Scratch,
}

impl Prometheus {
    /// Returns the program: the one named by `REDLATCH_PROMETHEUS`, or the one on
    /// `PATH`.
    pub fn find() -> Option<PathBuf> {
        if let Some(named) = env::var_os("REDLATCH_PROMETHEUS") {
            return Some(PathBuf::from(named)).filter(|path| path.is_file());
        }
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path).map(|dir| dir.join("prometheus")).find(|path| path.is_file())
    }

    /// Starts it with this configuration, and waits until it can be asked.
    pub fn start(config: &str) -> Result<Self, StartError> {
        let program = Self::find().ok_or(StartError::NoPrometheus)?;
        let scratch = Scratch::new().map_err(StartError::system("make a directory"))?;
        let port = Port::reserve().map_err(|_| StartError::NoPort)?;
        let log = scratch.file("log");
        let prepared = fs::write(scratch.file(CONFIG), config).and_then(|()| File::create(&log));
        let output = prepared.map_err(StartError::system("write the configuration"))?;
        let mut command = Command::new(program);
        command.current_dir(scratch.path()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(output).arg(format!("--config.file={CONFIG}"));
        command.arg("--storage.tsdb.path=data");
        command.arg(format!("--web.listen-address=127.0.0.1:{}", port.number()));
        let mut process =
            Process::spawn(command).map_err(StartError::system("start Prometheus"))?;
        let mut ended = false;
        let there = wait_until(LIMIT, || {
            ended = process.has_ended();
            ended || is_ready(port.number())
        });
        if ended || !there {
            let log = fs::read_to_string(log).unwrap_or_default();
            return Err(StartError::Prometheus { log });
        }
        Ok(Self { _process: process, port, _scratch: scratch })
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }
}

/// Whether it answers questions: it listens earlier than that.
fn is_ready(port: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
        io::read_to_string(stream)
    };
    ask().is_ok_and(|answer| answer.contains(" 200 OK"))
}
