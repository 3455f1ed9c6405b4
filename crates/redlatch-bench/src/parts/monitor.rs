//! Counts the commands that clients send to a server, by name.
//!
//! `INFO commandstats` cannot tell a client's `SET` from one inside a script;
//! `MONITOR` says which is which. It slows the server down, so that what is counted
//! is not timed.

use crate::worker::floor::node::dial;
use anyhow::{Context as _, ensure};
use redlatch_testbed::Server;
use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::{Shutdown, TcpStream},
    thread::{self, JoinHandle},
};

/// What the bench itself sends.
const OURS: [&str; 3] = ["auth", "info", "monitor"];

pub(crate) struct Monitor {
    socket: TcpStream,
    counting: JoinHandle<BTreeMap<String, u64>>,
}

impl Monitor {
    pub(crate) fn start(server: &Server) -> anyhow::Result<Self> {
        let mut socket = dial(&server.url())?;
        socket.write_all(b"MONITOR\r\n")?;
        let mut lines = BufReader::new(socket.try_clone()?).split(b'\n');
        let answer = lines.next().context("no reply to MONITOR")??;
        ensure!(answer.starts_with(b"+OK"), "MONITOR answered {answer:?}");
        let counting = thread::spawn(move || {
            let mut counts = BTreeMap::new();
            for line in lines.map_while(Result::ok) {
                if let Some(name) = sent_by_client(&String::from_utf8_lossy(&line)) {
                    *counts.entry(name).or_default() += 1;
                }
            }
            counts
        });
        Ok(Self { socket, counting })
    }

    pub(crate) fn stop(self) -> anyhow::Result<BTreeMap<String, u64>> {
        self.socket.shutdown(Shutdown::Both)?;
        self.counting.join().map_err(|_| anyhow::anyhow!("counting failed"))
    }
}

/// The name of the command, in lower case; `None` if a script called it, or we did.
fn sent_by_client(line: &str) -> Option<String> {
    let (origin, command) = line.split_once("] \"")?;
    let name = command.split('"').next()?.to_ascii_lowercase();
    let by_script = origin.ends_with(" lua");
    (!by_script && !OURS.contains(&&*name)).then_some(name)
}

/// Calls of one command since the server started, including those inside scripts.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.run(&["INFO", "commandstats"]).text().unwrap_or_default();
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_scripts_are_not_counted() {
        let line = |origin: &str, name: &str| format!("+1.5 [0 {origin}] \"{name}\" \"k\" \"v\"");

        assert_eq!(sent_by_client(&line("127.0.0.1:5", "SET")), Some("set".to_owned()));
        assert_eq!(sent_by_client(&line("lua", "SET")), None);
        assert_eq!(sent_by_client(&line("127.0.0.1:5", "info")), None);
    }

    #[test]
    fn a_real_server_says_what_a_script_called() -> anyhow::Result<()> {
        let server = Server::start()?;
        let monitor = Monitor::start(&server)?;

        server.run(&["SET", "a", "1"]);
        server.run(&["EVAL", "redis.call('SET', 'a', '2') return redis.call('GET', 'a')", "0"]);
        let all = || calls(&server, "set") == 2 && calls(&server, "eval") == 1;
        redlatch_testbed::eventually(std::time::Duration::from_secs(5), all);

        let counts = monitor.stop()?;
        let expected = [("eval".to_owned(), 1), ("set".to_owned(), 1)];
        assert_eq!(counts, expected.into());
        Ok(())
    }
}
