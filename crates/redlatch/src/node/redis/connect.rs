//! From an address to a connection that may vote.
//!
//! Connect, TLS, login, database, a check of what kind of server it is, and the
//! scripts: one round trip once connected, two if the server does not know them yet.

use super::{
    Address, Password, REDIS_PERMISSIONS, Transport,
    look::keep,
    observe,
    resp::{LARGEST, Progress, Value, write_command},
    scripts::{self, Script},
    translate::{is_pong, text_of},
};
use crate::driver::both;
use redlatch_core::{Fault, Identity, link::CONNECT_TIMEOUT};
use rustix::net::sockopt;
use std::{
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpStream, UnixStream},
};

/// A connection whose bytes are not even acknowledged is dead after this, in ms. A server
/// that is merely frozen still acknowledges: its connection, and with it the order of its
/// commands, is kept.
const UNACKNOWLEDGED: u32 = 10_000;
/// How long a server may take to identify itself on a second connection.
const SECOND_LOOK: Duration = Duration::from_millis(500);
const KEEPALIVE: Duration = Duration::from_secs(15);
/// How much to read at once: a whole `INFO`, and the other answers.
const READ: usize = 16 * 1024;
/// How many unsolicited bytes a server may send while we greet it. Redis and Valkey
/// send none.
const MOST_UNASKED: usize = 1 << 20;

/// A server that is ready to vote.
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) identity: Identity,
    /// Whether it speaks RESP3, and so can send us pushes.
    pub(super) is_resp3: bool,
}

/// The bytes to and from a server.
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

pub(super) async fn connect(address: Arc<Address>) -> Result<Connection, Fault> {
    match tokio::time::timeout(CONNECT_TIMEOUT, log_in(&address)).await {
        Ok(Ok(connection)) => {
            address.note_handshake(false); // the second connection may have left one unfinished
            Ok(connection)
        }
        Ok(Err(fault)) => Err(for_user(&address, fault)),
        Err(_) => {
            let why = format!("not ready within {CONNECT_TIMEOUT:?}");
            let why = address.hint().map_or(why.clone(), |hint| format!("{why}: {hint}"));
            Err(Fault::Unreachable(why.into()))
        }
    }
}

/// Greets the server. If it refuses the password, looks for another one and tries again.
async fn log_in(address: &Address) -> Result<Connection, Fault> {
    let tried = address.password.as_ref().map(|password| (password, password.reveal()));
    let met = meet(address).await;
    match (met, tried) {
        (Err(Fault::Unfit(why)), Some((password, tried))) if is_about_login(&why) => {
            match password.look_again(&tried).await {
                Ok(true) => meet(address).await.map_err(|fault| of_file(fault, password)),
                Ok(false) => Err(of_file(Fault::Unfit(why), password)),
                Err(unread) => Err(unfit(&format!("{why}; {unread}"))),
            }
        }
        (met, _) => met,
    }
}

/// Names the file that a refused password was read from.
fn of_file(fault: Fault, password: &Password) -> Fault {
    match (fault, password.file()) {
        (Fault::Unfit(why), Some(file)) if is_about_login(&why) => {
            unfit(&format!("{why}; the password is that in {}", file.display()))
        }
        (fault, _) => fault,
    }
}

/// Puts the user's name into a command that grants permissions. A user that lacks
/// permissions has logged in, so the name is not a mistyped password.
fn for_user(address: &Address, fault: Fault) -> Fault {
    let user = address.user.as_deref().unwrap_or("default");
    match &fault {
        Fault::Unfit(why) if user.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Fault::Unfit(why.replacen(ANY_USER, &format!("ACL SETUSER {user} "), 1).into())
        }
        _ => fault,
    }
}

/// How a command that grants permissions starts, until the user is known.
const ANY_USER: &str = "ACL SETUSER … ";

/// Greets the server, the first time on two connections: both must lead to the same
/// server.
async fn meet(address: &Address) -> Result<Connection, Fault> {
    let connection = if address.runs.is_empty() {
        let again = tokio::time::timeout(SECOND_LOOK, introduction(address));
        let (connection, again) = both(greet(address), again).await;
        let connection = connection?;
        address.runs.note(&connection.identity.run)?;
        // If the second connection fails, perhaps because there are too many, skip the check.
        if let Ok(Ok(other)) = again
            && other.run != connection.identity.run
        {
            address.runs.note(&other.run)?;
            address.runs.note(&introduction(address).await?.run)?;
            return Err(Fault::Unreachable("restarted while it was connected to".into()));
        }
        connection
    } else {
        greet(address).await?
    };
    address.runs.note(&connection.identity.run)?;
    Ok(connection)
}

/// Asks a server for its identity, and disconnects.
async fn introduction(address: &Address) -> Result<Identity, Fault> {
    let mut stream = dial(address).await?;
    let (mut out, logins) = login(address);
    write_command(&mut out, &[b"INFO"]);
    stream.say(&out).await?;
    let mut replies = Replies::of(&mut stream);
    for login in logins {
        replies.next(|value| login.refusal(value).map_or(Ok(()), Err)).await?;
    }
    replies.next(|value| identify(value, address)).await
}

async fn greet(address: &Address) -> Result<Connection, Fault> {
    let mut stream = dial(address).await?;
    let (out, logins) = greeting(address);
    stream.say(&out).await?;

    let mut replies = Replies::of(&mut stream);
    for login in logins {
        replies.next(|value| login.refusal(value).map_or(Ok(()), Err)).await?;
    }
    let is_resp3 = replies.next(|value| Ok(speaks_resp3(value))).await?;
    let identity = replies.next(|value| identify(value, address)).await?;
    replies.next(loaded).await?;
    replies.next(permissions).await?;
    let knows_all = replies.next(knows_all).await?;
    replies.next(|value| expected(value, is_pong(value))).await?;
    if !knows_all {
        load(&mut stream).await?;
    }
    Ok(Connection { stream, identity, is_resp3 })
}

/// What to send, and which login step each of the first answers belongs to.
fn greeting(address: &Address) -> (Vec<u8>, Vec<Login>) {
    let (mut out, logins) = login(address);
    write_command(&mut out, &[b"HELLO", b"3"]);
    write_command(&mut out, &[b"INFO"]);
    // The shortest script, to see whether loading is allowed.
    write_load(&mut out, &Script::Inspect.source());
    write_command(&mut out, &[b"EVAL", PERMISSIONS, b"0"]);
    write_command(&mut out, &[b"EVALSHA", scripts::LAST, b"0"]);
    write_command(&mut out, &[b"PING"]);
    (out, logins)
}

fn write_load(out: &mut Vec<u8>, source: &str) {
    write_command(out, &[b"SCRIPT", b"LOAD", source.as_bytes()]);
}

/// Loads all scripts, once per server and version: together they are 45 kB, and loading
/// them takes client and server longer than a lock does.
async fn load(stream: &mut Stream) -> Result<(), Fault> {
    let mut out = Vec::new();
    let sources = Script::ALL.map(Script::source).into_iter().chain([scripts::last()]);
    let count = sources.map(|source| write_load(&mut out, &source)).count();
    stream.write_all(&out).await.map_err(|error| unreachable(&error))?;
    let mut replies = Replies::of(stream);
    for _ in 0..count {
        replies.next(loaded).await?;
    }
    Ok(())
}

/// A step of logging in.
#[derive(Clone, Copy)]
enum Login {
    Password,
    Database,
}

/// The commands to log in, and the steps that they answer.
fn login(address: &Address) -> (Vec<u8>, Vec<Login>) {
    let (mut out, mut logins) = (Vec::new(), Vec::new());
    let password = address.password.as_ref().map(Password::reveal);
    match (&address.user, password) {
        (None, None) => {}
        (None, Some(password)) => write_command(&mut out, &[b"AUTH", password.as_bytes()]),
        // A user without a password also has to log in: otherwise we would be the default user.
        (Some(user), password) => {
            let password = password.as_deref().unwrap_or_default();
            write_command(&mut out, &[b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
    }
    if !out.is_empty() {
        logins.push(Login::Password);
    }
    if address.database != 0 {
        logins.push(Login::Database);
        write_command(&mut out, &[b"SELECT", address.database.to_string().as_bytes()]);
    }
    (out, logins)
}

impl Login {
    /// The fault in an answer, if it is a refusal.
    fn refusal(self, value: &Value<'_>) -> Option<Fault> {
        match (self, value) {
            (Login::Password, Value::Error(text)) => Some(login_refused(text)),
            _ => refusal(value),
        }
    }
}

/// Why a login failed, in our own words: a server may echo what it does not understand, and
/// that may be the password.
fn login_refused(text: &[u8]) -> Fault {
    let lower = String::from_utf8_lossy(text).to_ascii_lowercase();
    let says = |words: &str| lower.starts_with(words);
    let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let passing = |reason: &str| Fault::Unreachable(reason.into());
    match code {
        b"LOADING" => passing("LOADING: it is reading its data"),
        b"BUSY" => passing("BUSY: it is running somebody's script"),
        b"MASTERDOWN" => passing("MASTERDOWN: it has no link to its master"),
        b"NOPERM" => unfit(&format!("NOPERM: this user may not log in; {}", acl_hint())),
        b"WRONGPASS" => unfit(WRONG_PASSWORD),
        _ if says("err max number of clients") => passing("ERR max number of clients reached"),
        _ if says("err unknown command") => unfit("it does not know AUTH: was it renamed?"),
        _ if says("err client sent auth") || says("err auth <password> called without") => {
            unfit("this server has no password: remove the one that is given with the address")
        }
        _ if code.iter().all(u8::is_ascii_uppercase) && code.len() < 20 => {
            unfit(&format!("{REFUSED_LOGIN}: {}", String::from_utf8_lossy(code)))
        }
        _ => unfit(REFUSED_LOGIN),
    }
}

const WRONG_PASSWORD: &str =
    "WRONGPASS: the password or the user is wrong, or the user is disabled";
const REFUSED_LOGIN: &str = "it refused the login";

/// Whether another password may help.
fn is_about_login(why: &str) -> bool {
    why == WRONG_PASSWORD || why.starts_with(REFUSED_LOGIN)
}

async fn dial(address: &Address) -> Result<Stream, Fault> {
    let (host, port) = match &address.transport {
        Transport::Unix(path) => {
            let stream = UnixStream::connect(path).await.map_err(|error| unreachable(&error))?;
            return Ok(Stream::Unix(stream));
        }
        Transport::Tcp { host, port } => (host.as_str(), *port),
    };
    let tcp = reach(host, port).await?;
    tune(&tcp).map_err(|error| unreachable(&error))?;
    #[cfg(feature = "tls")]
    if let Some(files) = &address.tls {
        address.note_handshake(true);
        let tls = super::tls::handshake(files, host, tcp).await;
        address.note_handshake(false);
        return Ok(Stream::Tls(Box::new(tls?)));
    }
    Ok(Stream::Tcp(tcp))
}

/// Connects to the one server that a host name leads to.
async fn reach(host: &str, port: u16) -> Result<TcpStream, Fault> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map_err(|error| unreachable(&error))?.collect();
    one_server(&found)?;
    TcpStream::connect(found.as_slice()).await.map_err(|error| unreachable(&error))
}

/// Refuses a name that leads to several servers: if one of them died, another would vote in
/// its place, without its locks. One address of each family is assumed to be the same server.
fn one_server(found: &[SocketAddr]) -> Result<(), Fault> {
    let other = |one: &SocketAddr, other: &SocketAddr| {
        one.is_ipv4() == other.is_ipv4() && one.ip() != other.ip()
    };
    if !found.iter().any(|one| found.iter().any(|two| other(one, two))) {
        return Ok(());
    }
    let all: Vec<_> = found.iter().map(|found| found.ip().to_string()).collect();
    let reason = format!(
        "its name leads to several servers ({}); name each server by an address of its own",
        all.join(", ")
    );
    Err(Fault::WrongAddress(reason.into()))
}

fn tune(tcp: &TcpStream) -> io::Result<()> {
    tcp.set_nodelay(true)?;
    sockopt::set_socket_keepalive(tcp, true)?;
    #[cfg(target_os = "linux")]
    {
        sockopt::set_tcp_keepidle(tcp, KEEPALIVE)?;
        sockopt::set_tcp_user_timeout(tcp, UNACKNOWLEDGED)?;
    }
    Ok(())
}

fn unreachable(error: &io::Error) -> Fault {
    Fault::Unreachable(error.to_string().into())
}

/// Reads the answers one by one.
struct Replies<'a> {
    stream: &'a mut Stream,
    buffer: Vec<u8>,
    at: usize,
    progress: Progress,
    unasked: usize,
}

impl<'a> Replies<'a> {
    fn of(stream: &'a mut Stream) -> Self {
        let buffer = Vec::with_capacity(READ);
        Replies { stream, buffer, at: 0, progress: Progress::default(), unasked: 0 }
    }

    async fn next<T>(
        &mut self,
        understand: impl FnOnce(&Value<'_>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        loop {
            match self.progress.read(&self.buffer[self.at..]) {
                Ok(Some((value, length))) => {
                    self.at += length;
                    if !matches!(value, Value::Push(_)) {
                        return understand(&value);
                    }
                    // Sent to everybody, not in answer to us.
                    self.unasked += length;
                    if self.unasked > MOST_UNASKED {
                        return Err(unfit("not a Redis server: it talks, and does not answer"));
                    }
                    continue;
                }
                Ok(None) if self.buffer.len() - self.at > LARGEST => {
                    return Err(unfit("not a Redis server: a reply has no end"));
                }
                Ok(None) => {}
                Err(_) if is_tls_alert(&self.buffer) => {
                    return Err(unfit("it wants TLS: write rediss:// instead of redis://"));
                }
                Err(nonsense) => return Err(unfit(&format!("not a Redis server: {nonsense}"))),
            }
            let is_first = self.buffer.is_empty();
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(1..) => {}
                Ok(0) if is_first => return Err(self.stream.turned_away(CLOSED)),
                Ok(0) => return Err(Fault::Unreachable(CLOSED.into())),
                Err(error) if is_first => return Err(self.stream.broken(&error)),
                Err(error) => return Err(unreachable(&error)),
            }
        }
    }
}

const CLOSED: &str = "the server closed the connection";

impl Stream {
    /// Sends the first bytes.
    async fn say(&mut self, words: &[u8]) -> Result<(), Fault> {
        let Err(error) = self.write_all(words).await else { return Ok(()) };
        // A server that hung up may have said why.
        match self.read_u8().await {
            Err(last) if self.is_tls() => Err(self.broken(&last)),
            _ => Err(self.broken(&error)),
        }
    }

    fn is_tls(&self) -> bool {
        !matches!(self, Stream::Tcp(_) | Stream::Unix(_))
    }

    /// Why a connection broke before the server sent anything.
    fn broken(&self, error: &io::Error) -> Fault {
        #[cfg(feature = "tls")]
        if let Some(fault) = super::tls::refusal(error) {
            return fault;
        }
        self.turned_away(error)
    }

    /// Why a server closed the connection before it sent anything: it may expect TLS.
    fn turned_away(&self, why: impl fmt::Display) -> Fault {
        let is_plain = matches!(self, Stream::Tcp(_));
        let hint = if is_plain { "; if it wants TLS, write rediss://" } else { "" };
        Fault::Unreachable(format!("{why}{hint}").into())
    }
}

/// Whether these bytes are a TLS server's alert at receiving something other than TLS.
fn is_tls_alert(bytes: &[u8]) -> bool {
    bytes.starts_with(&[21, 3])
}

/// The fault in an answer, if it is a refusal.
fn refusal(value: &Value<'_>) -> Option<Fault> {
    let Value::Error(text) = value else {
        return None;
    };
    let shown = text_of(text);
    if text.starts_with(b"ERR max number of clients") {
        return Some(Fault::Unreachable(shown)); // also temporary
    }
    Some(match text.split(|byte| *byte == b' ').next() {
        // Temporary: the server is starting, or busy with a script.
        Some(b"LOADING" | b"BUSY" | b"MASTERDOWN") => Fault::Unreachable(shown),
        Some(b"NOAUTH") => unfit(
            "it wants a password: put it into a file and name that in the address, \
             ?password_file=FILE (the command's config file also takes password_file and password_env)",
        ),
        Some(b"NOPERM") => unfit(&format!("{shown}; {}", acl_hint())),
        _ => Fault::Unfit(shown),
    })
}

/// The command that grants everything we need. It takes nothing away, and names no keys or
/// channels: a server refuses patterns for a user who already has all of them.
fn acl_hint() -> String {
    let commands = REDIS_PERMISSIONS.split(' ').filter(|rule| rule.starts_with('+'));
    grant(&commands.collect::<Vec<_>>().join(" "))
}

/// The command that adds these rules to the user's.
fn grant(rules: &str) -> String {
    format!("grant it: {ANY_USER}{rules}")
}

/// Asks the server which of the commands that we need this user may not run.
const PERMISSIONS: &[u8] = include_bytes!("scripts/permissions.lua");

fn permissions(value: &Value<'_>) -> Result<(), Fault> {
    match value {
        Value::Text(b"") => Ok(()),
        Value::Text(b"keys") => Err(unfit(
            "NOPERM: this user may not access the keys under redlatch:, where lines and the \
             restart guard are kept; grant it: ACL SETUSER … ~redlatch:*",
        )),
        Value::Text(missing) => {
            let missing = text_of(missing);
            if let Some(renamed) = missing.strip_prefix("unknown ") {
                return Err(unfit(&format!(
                    "it does not know {renamed}: renamed or switched off; give it back its name"
                )));
            }
            let rules = missing.replace("', '", " +").replacen('\'', "+", 1);
            let hint = grant(rules.trim_end_matches('\''));
            Err(unfit(&format!("NOPERM: this user may not run {missing}; {hint}")))
        }
        other => Err(refusal(other).unwrap_or_else(|| unfit("it cannot run scripts"))),
    }
}

/// Whether the connection uses RESP3 from here on. A server or proxy that does not know
/// `HELLO`, or denies it, stays with RESP2.
fn speaks_resp3(value: &Value<'_>) -> bool {
    let Value::Array(parts) = value else { return false };
    parts.chunks(2).any(|pair| *pair == [Value::Text(b"proto"), Value::Int(3)])
}

/// Fails, with the reason, if an answer is not the expected one.
fn expected(value: &Value<'_>, is_so: bool) -> Result<(), Fault> {
    if is_so {
        return Ok(());
    }
    Err(refusal(value).unwrap_or_else(|| unfit("its answers are not those of a Redis server")))
}

fn is_no_script(value: &Value<'_>) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(b"NOSCRIPT"))
}

fn loaded(value: &Value<'_>) -> Result<(), Fault> {
    match value {
        Value::Text(hash) if hash.len() == 40 => Ok(()),
        other => Err(refusal(other).unwrap_or_else(|| unfit("it cannot load scripts"))),
    }
}

/// Whether the server knows our last script, and so all of them.
fn knows_all(value: &Value<'_>) -> Result<bool, Fault> {
    let is_known = *value == Value::Int(1);
    expected(value, is_known || is_no_script(value)).map(|()| is_known)
}

/// Refuses a server that cannot be a node, before it votes.
pub(super) fn identify(value: &Value<'_>, address: &Address) -> Result<Identity, Fault> {
    let Value::Text(info) = value else {
        return Err(refusal(value).unwrap_or_else(|| unfit("it does not tell who it is (INFO)")));
    };
    let mut kept = Vec::new();
    keep(&mut kept, info);
    let info = String::from_utf8_lossy(&kept);
    let field = |name| observe::field(&info, name);
    if field("redis_mode") == Some("sentinel") {
        let reason =
            "it knows no scripts and no keys: it is a Sentinel; name the servers themselves";
        return Err(Fault::WrongAddress(reason.into()));
    }
    if field("cluster_enabled") == Some("1") {
        let reason = "it is part of a Redis Cluster, which forgets locks on failover; \
                      use masters of their own";
        return Err(Fault::WrongAddress(reason.into()));
    }
    if field("role") == Some("slave") {
        return Err(unfit("it is a replica; use masters of their own"));
    }
    let version = field("redis_version").unwrap_or_default();
    if !is_supported(version) {
        return Err(unfit(&format!("its version is {version}; 6.2 is the oldest that will do")));
    }
    if let (Some(policy), false) = (observe::evicting_by(&info), address.allow_eviction) {
        return Err(unfit(&format!(
            "it may throw locks away when its memory is full (maxmemory-policy {policy}); set \
             noeviction, or allow it with ?allow_eviction=yes behind the address"
        )));
    }
    let identity = observe::identity(&info, address.allow_eviction);
    identity.ok_or_else(|| unfit("it does not tell its run_id (INFO server)"))
}

fn is_supported(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next(), parts.next()) >= (Some(6), Some(2))
}

fn unfit(reason: &str) -> Fault {
    Fault::Unfit(reason.into())
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(lines: &str) -> Result<Identity, Fault> {
        let text = format!("redis_version:7.0.1\r\nrun_id:abc\r\n{lines}");
        let address = Address::new(Transport::Unix("/nowhere".into()));
        identify(&Value::Text(text.as_bytes()), &address)
    }

    #[test]
    fn a_name_that_leads_to_several_servers_is_not_a_node() {
        let found = |ips: &[&str]| {
            let address = |ip: &&str| SocketAddr::new(ip.parse().unwrap(), 6379);
            one_server(&ips.iter().map(address).collect::<Vec<_>>())
        };

        assert_eq!(found(&["10.0.0.1"]), Ok(()));
        assert_eq!(found(&["::1", "127.0.0.1"]), Ok(()), "one of each family is one server");
        assert_eq!(found(&["10.0.0.1", "10.0.0.1"]), Ok(()), "told twice");
        for several in [&["10.0.0.1", "10.0.0.2"][..], &["::1", "10.0.0.1", "::2"]] {
            let Err(Fault::WrongAddress(reason)) = found(several) else { panic!("{several:?}") };
            assert!(several.iter().all(|ip| reason.contains(ip)), "{reason}");
        }
    }

    #[test]
    fn a_login_that_fails_is_told_without_what_the_server_repeats() {
        for said in [
            "ERR unknown command 'AUTH', with args beginning with: 'S3cret' ",
            "ERR unknown command `AUTH`, with args beginning with: `S3cret`, ",
            "WRONGPASS S3cret",
            "S3cret",
            "NOPERM S3cret",
            "ERR invalid S3cret",
            "-S3cret is not it",
        ] {
            let fault = Login::Password.refusal(&Value::Error(said.as_bytes())).unwrap();
            assert!(!format!("{fault} {fault:?}").contains("S3c"), "{fault}");
        }
        let unknown = login_refused(b"ERR unknown command 'AUTH', with args");
        assert!(unknown.to_string().contains("does not know AUTH"), "{unknown}");
    }

    #[tokio::test]
    async fn what_a_server_says_unasked_while_it_is_greeted_answers_nothing() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::Unix(ours);
        let said = b">2\r\n$10\r\ninvalidate\r\n_\r\n+PONG\r\n>1\r\n+x\r\n:1\r\n";
        theirs.write_all(said).await.unwrap();

        let mut replies = Replies::of(&mut stream);
        let pong = replies.next(|value| Ok(*value == Value::Status(b"PONG"))).await;
        let one = replies.next(|value| Ok(*value == Value::Int(1))).await;

        assert_eq!((pong, one), (Ok(true), Ok(true)));
    }

    #[test]
    fn a_server_speaks_resp3_only_if_it_says_so() {
        let hello = |proto| {
            let server = [Value::Text(b"server"), Value::Text(b"redis")];
            Value::Array(server.into_iter().chain([Value::Text(b"proto"), proto]).collect())
        };

        assert!(speaks_resp3(&hello(Value::Int(3))));
        assert!(!speaks_resp3(&hello(Value::Int(2))));
        for refusal in [&b"ERR unknown command 'HELLO'"[..], b"NOPROTO no", b"NOAUTH HELLO must"] {
            assert!(!speaks_resp3(&Value::Error(refusal)));
        }
    }

    #[test]
    fn a_master_of_its_own_is_a_node() {
        let identity = info("role:master\r\ncluster_enabled:0\r\n").unwrap();

        assert_eq!((&*identity.run, &*identity.version), ("abc", "redis 7.0.1"));
    }

    #[test]
    fn a_sentinel_is_told_that_it_is_one() {
        let Err(Fault::WrongAddress(why)) = info("redis_mode:sentinel") else { panic!() };

        assert!(why.contains("it is a Sentinel; name the servers themselves"), "{why}");
    }

    #[test]
    fn a_cluster_a_replica_and_an_old_server_are_not() {
        let cluster = info("cluster_enabled:1");
        assert!(matches!(&cluster, Err(Fault::WrongAddress(_))), "{cluster:?}");
        let replica = info("role:slave");
        assert!(matches!(&replica, Err(Fault::Unfit(_))), "{replica:?}");
        assert!(!is_supported("6.0.16") && !is_supported("") && is_supported("6.2.0"));
        assert!(is_supported("7.0.15") && is_supported("10.1.0"));
    }
}
