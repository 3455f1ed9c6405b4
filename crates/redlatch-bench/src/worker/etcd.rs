//! etcd's own lock service, over its HTTP gateway: one connection and one lease for
//! each caller, all of them to the leader, which saves etcd a hop.

use super::caller::{Caller, Lock};
use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// Longer than any run: nobody needs to renew.
const LEASE: Duration = Duration::from_secs(3600);

/// The addresses of the members.
pub(super) struct Etcd(Vec<String>);

pub(super) struct Session {
    member: Connection,
    lease: String,
}

impl Etcd {
    pub(super) fn new(urls: &[String]) -> anyhow::Result<Self> {
        let strip = |url: &String| url.strip_prefix("http://").map(str::to_owned);
        Ok(Self(urls.iter().map(strip).collect::<Option<_>>().context("not an http:// address")?))
    }
}

impl Lock for Etcd {
    type Caller = Session;

    async fn caller(&self) -> anyhow::Result<Session> {
        for address in &self.0 {
            let mut member = Connection::open(address).await?;
            let status = member.post("/v3/maintenance/status", &json!({})).await?;
            if status["leader"] == status["header"]["member_id"] {
                let grant = json!({ "TTL": LEASE.as_secs() });
                let lease = member.post("/v3/lease/grant", &grant).await?;
                let lease = lease["ID"].as_str().context("no lease")?.to_owned();
                return Ok(Session { member, lease });
            }
        }
        bail!("etcd has no leader")
    }
}

impl Caller for Session {
    type Held = Value;

    async fn acquire(&mut self, key: &str, wait: Duration) -> anyhow::Result<Value> {
        // Names are base64 there. The bench's are letters and digits, a multiple
        // of four, and so valid base64 as they are.
        let ask = json!({ "name": key, "lease": self.lease });
        let granted = tokio::time::timeout(wait, self.member.post("/v3/lock/lock", &ask)).await??;
        Ok(granted["key"].clone())
    }

    async fn release(&mut self, held: Value) -> anyhow::Result<()> {
        self.member.post("/v3/lock/unlock", &json!({ "key": held })).await?;
        Ok(())
    }
}

/// HTTP/1.1, as much of it as the gateway speaks.
struct Connection(BufReader<TcpStream>);

impl Connection {
    async fn open(address: &str) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        Ok(Self(BufReader::new(socket)))
    }

    async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let body = body.to_string();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: etcd\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        let mut length = None;
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = Some(value.trim().parse()?);
            }
        }
        let mut answer = vec![0; length.with_context(|| format!("{path}: no length"))?];
        self.0.read_exact(&mut answer).await?;
        let text = String::from_utf8_lossy(&answer);
        ensure!(status.contains(" 200 "), "{path}: {status}: {text}");
        Ok(serde_json::from_slice(&answer)?)
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.0.read_line(&mut line).await? > 0, "etcd closed the connection");
        Ok(line.trim_end().to_owned())
    }
}
