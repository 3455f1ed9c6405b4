//! Just enough HTTP/1.1: one question, one answer, and the connection is closed.

use std::{net::IpAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The longest question that is read.
const LONGEST: usize = 8 * 1024;
/// How long a client may take to ask, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers questions for `/metrics`.
pub(super) struct Http {
    /// The names by which we may be asked.
    hosts: Vec<String>,
}

impl Http {
    pub(super) fn new(mut hosts: Vec<String>) -> Self {
        hosts.push("localhost".into());
        Http { hosts }
    }

    /// Answers the one question on this connection.
    pub(super) async fn answer(
        &self,
        mut stream: TcpStream,
        metrics: impl AsyncFnOnce() -> String,
    ) {
        let Ok(Some(question)) = tokio::time::timeout(PATIENCE, read(&mut stream)).await else {
            return;
        };
        let (status, body) = match self.check(&question) {
            Ok("/metrics") => ("200 OK", metrics().await),
            Ok("/") => ("200 OK", "Redlatch: metrics are at /metrics\n".into()),
            Ok(_) => ("404 Not Found", "only /metrics is here\n".into()),
            Err(refusal) => refusal,
        };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {length}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n\
             {body}"
        );
        let write = async {
            stream.write_all(answer.as_bytes()).await?;
            stream.shutdown().await
        };
        // A client that does not read its answer does without.
        let _ = tokio::time::timeout(PATIENCE, write).await;
    }

    /// The path that is asked for, or a refusal.
    fn check<'a>(&self, question: &'a str) -> Result<&'a str, (&'static str, String)> {
        let bad = |words: &str| ("400 Bad Request", format!("{words}\n"));
        let mut lines = question.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(bad("this is not HTTP"));
        };
        if method != "GET" {
            return Err(("405 Method Not Allowed", "only GET is answered\n".into()));
        }
        let mut hosts = lines.filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim())
        });
        match (hosts.next(), hosts.next()) {
            (Some(host), None) if self.is_ours(host) => {
                Ok(target.split('?').next().unwrap_or(target))
            }
            (Some(_), None) => Err((
                "421 Misdirected Request",
                "this host name is not ours; allow it with --host\n".into(),
            )),
            _ => Err(bad("there must be one Host")),
        }
    }

    /// A page elsewhere can have a browser ask for any name that leads here, but not for
    /// one of these.
    fn is_ours(&self, host: &str) -> bool {
        let is_port = |port: &str| port.chars().all(|c| c.is_ascii_digit());
        let name = match host.rsplit_once(':') {
            Some((name, port)) if is_port(port) && (!name.contains(':') || name.ends_with(']')) => {
                name
            }
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok()
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Reads up to the empty line.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut question = Vec::new();
    while !question.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut buffer = [0; 1024];
        let length = stream.read(&mut buffer).await.ok()?;
        question.extend_from_slice(&buffer[..length]);
        if length == 0 || question.len() > LONGEST {
            return None;
        }
    }
    String::from_utf8(question).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_names_and_addresses_are_answered() {
        let http = Http::new(vec!["db1.example".into()]);
        for ours in
            ["localhost", "LOCALHOST:9734", "127.0.0.1:1", "[::1]:9734", "::1", "db1.example"]
        {
            assert!(http.is_ours(ours), "{ours}");
        }
        for other in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ":80"]
        {
            assert!(!http.is_ours(other), "{other}");
        }
    }

    #[test]
    fn only_a_plain_get_is_answered() {
        let http = Http::new(Vec::new());
        let status = |question: &str| match http.check(question) {
            Ok(path) => path.to_owned(),
            Err((status, _)) => status[..3].to_owned(),
        };

        let host = "Host: localhost\r\n\r\n";
        assert_eq!(status(&format!("GET /metrics?x=1 HTTP/1.1\r\n{host}")), "/metrics");
        assert_eq!(status(&format!("POST /metrics HTTP/1.1\r\n{host}")), "405");
        assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), "400");
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: a\r\n{host}")), "400");
        assert_eq!(status("GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n"), "421");
        assert_eq!(status("nonsense"), "400");
    }
}
