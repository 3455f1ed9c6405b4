//! Just enough HTTP/1.1 for a scraper and a browser: one question, one answer, and the
//! connection is closed.
//!
//! In:  a listener, and what to answer. Out: answers to requests for one of our names.
//!
//! Promise: a page of another site can neither read an answer nor have a question carried
//! out. It cannot name us (`Host`), and what it sends says where it comes from (`Origin`).
//! A client that asks slowly, or does not read, holds up only itself.

mod visitors;

use crate::exit::Exit;
use std::{borrow::Cow, io, net::IpAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    signal::unix::{SignalKind, signal},
};
use visitors::{Stage, Visitors};

/// The longest question that is read, and the longest body.
const LONGEST: usize = 8 * 1024;
/// How long a client may take to ask, and to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many connections there may be. Browsers keep some open that they do not use.
const MOST: usize = 256;
/// How long to wait when no connection can be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// What was asked. It may contain a secret, so it cannot be printed.
pub(crate) struct Question {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// What follows the `?`.
    pub(crate) query: String,
    /// The password in `Authorization: Bearer PASSWORD`.
    pub(crate) bearer: Option<String>,
    pub(crate) body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

/// What to answer.
#[derive(Debug)]
pub(crate) struct Answer {
    status: &'static str,
    kind: &'static str,
    /// More header lines, each with its end.
    more: &'static str,
    body: Cow<'static, str>,
}

impl Answer {
    pub(crate) fn new(kind: &'static str, body: impl Into<Cow<'static, str>>) -> Self {
        Answer { status: "200 OK", kind, more: "", body: body.into() }
    }

    /// A line of plain text, with this status.
    pub(crate) fn text(status: &'static str, words: &str) -> Self {
        Answer { status, ..Answer::new("text/plain; charset=utf-8", format!("{words}\n")) }
    }

    pub(crate) fn headers(self, more: &'static str) -> Self {
        Answer { more, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let Answer { status, kind, more, body } = self;
        let length = body.len();
        let text = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
             X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n{more}\
             Connection: close\r\n\r\n{body}"
        );
        text.into_bytes()
    }
}

/// Answers until a signal says to stop.
pub(crate) async fn serve<A>(
    listener: TcpListener,
    hosts: Vec<String>,
    answer: impl Fn(Question) -> A + Send + Sync + 'static,
) -> io::Result<Exit>
where
    A: Future<Output = Answer> + Send + 'static,
{
    let (hosts, answer) = (Arc::new(Hosts(hosts)), Arc::new(answer));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut visitors = Visitors::new(MOST);
    loop {
        let has_room = visitors.has_room();
        let accepted = tokio::select! {
            _ = terminate.recv() => return Ok(Exit::Done),
            _ = interrupt.recv() => return Ok(Exit::Done),
            () = visitors.leave() => continue,
            accepted = listener.accept(), if has_room => accepted,
        };
        let Ok((stream, _)) = accepted else {
            // Out of descriptors, for now.
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (hosts, answer) = (Arc::clone(&hosts), Arc::clone(&answer));
        visitors.add(|stage| async move { visit(stream, &hosts, &*answer, &stage).await });
    }
}

/// Answers one question.
async fn visit<A>(
    mut stream: TcpStream,
    hosts: &Hosts,
    answer: impl Fn(Question) -> A,
    stage: &Stage,
) where
    A: Future<Output = Answer>,
{
    let asked = tokio::time::timeout(PATIENCE, read(&mut stream, hosts)).await;
    if !stage.begin() {
        return;
    }
    let answered = match asked {
        Ok(Some(Ok(question))) => answer(question).await,
        Ok(Some(Err(refusal))) => refusal,
        // Nobody is there to be answered.
        Ok(None) | Err(_) => return,
    };
    stage.end();
    let write = async {
        stream.write_all(&answered.bytes()).await?;
        stream.shutdown().await
    };
    // A client that does not read its answer goes without it.
    let _ = tokio::time::timeout(PATIENCE, write).await;
}

/// Reads one question; `None` if none comes.
async fn read(stream: &mut TcpStream, hosts: &Hosts) -> Option<Result<Question, Answer>> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break end;
        }
        if bytes.len() > LONGEST {
            let words = "the question is too long";
            return Some(Err(Answer::text("431 Request Header Fields Too Large", words)));
        }
        more(stream, &mut bytes).await?;
    };
    let Ok(text) = std::str::from_utf8(&bytes[..head]) else {
        return Some(Err(bad("this is not HTTP")));
    };
    let (mut question, length) = match hosts.check(text) {
        Ok(checked) => checked,
        Err(refusal) => return Some(Err(refusal)),
    };
    bytes.drain(..head + 4);
    while bytes.len() < length {
        more(stream, &mut bytes).await?;
    }
    bytes.truncate(length);
    question.body = bytes;
    Some(Ok(question))
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    let mut buffer = [0; 1024];
    match stream.read(&mut buffer).await {
        Ok(length @ 1..) => {
            bytes.extend_from_slice(&buffer[..length]);
            Some(())
        }
        _ => None,
    }
}

fn bad(words: &str) -> Answer {
    Answer::text("400 Bad Request", words)
}

/// The names by which we may be asked, besides `localhost` and addresses.
#[derive(Debug)]
struct Hosts(Vec<String>);

impl Hosts {
    /// What is asked, and how long its body is; or a refusal.
    fn check(&self, head: &str) -> Result<(Question, usize), Answer> {
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (first.next(), first.next(), first.next(), first.next())
        else {
            return Err(bad("this is not HTTP"));
        };
        let method = match method {
            "GET" => Method::Get,
            "POST" => Method::Post,
            _ => return Err(not_allowed()),
        };
        let headers = Headers(lines.filter_map(|line| line.split_once(':')).collect());
        let Ok(Some(host)) = headers.one("host") else {
            return Err(bad("there must be one Host"));
        };
        if !self.is_ours(host) {
            let words = "this host name is not ours; allow it with --host";
            return Err(Answer::text("421 Misdirected Request", words));
        }
        headers.check_origin(host, method)?;
        let length = headers.body_length(method)?;
        let bearer = headers.one("authorization").ok().flatten();
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer ")).map(Into::into);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (path, query) = (path.into(), query.into());
        Ok((Question { method, path, query, bearer, body: Vec::new() }, length))
    }

    /// A page elsewhere can make a browser ask for any name that leads here, but not for
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
            || name.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

pub(crate) fn not_allowed() -> Answer {
    Answer::text("405 Method Not Allowed", "this is not answered here")
}

/// Names and values.
struct Headers<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Headers<'a> {
    /// The value of a header that may occur at most once.
    fn one(&self, name: &str) -> Result<Option<&'a str>, Answer> {
        let mut values = self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        match (values.next(), values.next()) {
            (value, None) => Ok(value.map(|(_, value)| value.trim())),
            _ => Err(bad(&format!("there must be one {name}"))),
        }
    }

    /// Refuses what a page of another site sends. A browser always says where a `POST`
    /// comes from.
    fn check_origin(&self, host: &str, method: Method) -> Result<(), Answer> {
        let refused = || Answer::text("403 Forbidden", "another site may not ask this");
        match self.one("origin")? {
            Some(origin) => {
                let from =
                    ["http://", "https://"].iter().find_map(|kind| origin.strip_prefix(kind));
                if !from.is_some_and(|from| from.eq_ignore_ascii_case(host)) {
                    return Err(refused());
                }
            }
            None if method == Method::Post => return Err(refused()),
            None => {}
        }
        match self.one("sec-fetch-site")? {
            None | Some("same-origin" | "none") => Ok(()),
            // A link to the page is allowed, but not the data that the page reads.
            Some(_) if self.one("sec-fetch-mode")? == Some("navigate") && method == Method::Get => {
                Ok(())
            }
            Some(_) => Err(refused()),
        }
    }

    /// The length of the body, which must be JSON (no form can send that) and not in
    /// chunks.
    fn body_length(&self, method: Method) -> Result<usize, Answer> {
        if self.one("transfer-encoding")?.is_some() {
            return Err(bad("the body must have a length"));
        }
        let length = self.one("content-length")?.map_or(Ok(0), str::parse);
        match (method, length) {
            (_, Err(_)) => Err(bad("the length of the body is not a number")),
            (_, Ok(length)) if length > LONGEST => {
                Err(Answer::text("413 Content Too Large", "the body is too long"))
            }
            (Method::Post, Ok(_)) if self.one("content-type")? != Some("application/json") => {
                Err(Answer::text("415 Unsupported Media Type", "only JSON is read"))
            }
            (_, Ok(length)) => Ok(length),
        }
    }
}

#[cfg(test)]
mod tests;
