//! Node addresses as text: one form for code, environment and configuration.

#[cfg(feature = "file")]
use super::File;
use super::{
    Memory, Node, Redis, name,
    redis::{Address, Password, Transport},
};
use std::{
    borrow::Cow,
    fmt,
    fmt::Write as _,
    net::{Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    sync::Arc,
};

/// Parses the address of a node.
///
/// | form | node |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | Redis or Valkey over TCP |
/// | `rediss://…[?ca=FILE][&cert=FILE&key=FILE]` | the same over TLS |
/// | `redis+unix:///path/to/socket[?db=N][&user=…][&password=…]` | the same over a Unix socket |
/// | `file:/path/to/file` | the embedded node: a file on this machine |
/// | `memory:`, `memory:NAME` | inside this process, for tests |
///
/// An address in memory is a new node each time it is parsed, whatever its name: two
/// [`Locks`](crate::Locks) connected to `memory:a` do not exclude each other. Clone one
/// of them, or use [`testing::Nodes`](crate::testing::Nodes).
///
/// The options `db`, `user` and `password` also work over TCP and TLS. Giving a value twice,
/// before the host and as an option or as two options, is an error.
///
/// User, password and query values may be percent-encoded; `%` itself, and `&` in a query
/// value, must be. Schemes and host names are case-insensitive, and are read as lower case.
///
/// The option `password_file=FILE` takes the password from a file, which must exist when
/// the address is parsed. It is read again whenever the server refuses the password, so a
/// change of password needs no restart, whether the file or the server changes first. If
/// the file is missing or empty at that time, the last password is kept, and tried on each
/// new connection. Open connections stay open.
///
/// # Names
///
/// Every form accepts `?name=NAME` (`&name=NAME` after another option): the node's name, in
/// errors and for all of its clients. Clients compare their lists of nodes by these names,
/// so clients that reach one server by different addresses (a host name here, a port
/// forward there) must give it the same name. The name defaults to the address, without
/// user, password and options. A database other than 0 is part of the name: `/2`, say, is
/// appended unless the name already ends in it.
///
/// A name is 1 to 255 ASCII letters, digits and `-._:/+[]?=%`, and starts with
/// a letter or digit. It may be the address by which others know the node. In
/// the URL, write `%` as `%25`.
///
/// # Errors
///
/// [`UrlError`] if the text is not such an address, or an option is unknown or invalid.
///
/// # Example
///
/// ```
/// let node = redlatch::node::parse("redis://:secret@10.0.0.1:6380/2")?;
/// assert_eq!(node.name(), "redis://10.0.0.1:6380/2");
///
/// let node = redlatch::node::parse("redis://localhost:6379?name=a")?;
/// assert_eq!((node.name(), node.address()), ("a", "redis://localhost:6379"));
/// assert_eq!(redlatch::node::parse("redis://localhost/2?name=a")?.name(), "a/2");
///
/// assert_eq!(redlatch::node::parse("redis://DB1:6379")?.name(), "redis://db1:6379");
/// # Ok::<(), redlatch::node::UrlError>(())
/// ```
pub fn parse(url: &str) -> Result<Arc<dyn Node>, UrlError> {
    let url = &*in_known_case(url);
    let fail = |reason| UrlError {
        url: without_secrets(url),
        reason: with_hints(url, reason),
        place: None,
    };
    if url.trim().is_empty() {
        return Err(UrlError { url: String::new(), reason: String::new(), place: None });
    }
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(fail("it has no scheme; it could be redis://HOST:PORT".into()));
    };
    match scheme {
        "redis" => tcp(rest, false).map_err(fail),
        "rediss" if cfg!(feature = "tls") => tcp(rest, true).map_err(fail),
        "rediss" => Err(fail("TLS is not built in; enable the feature `tls`".into())),
        "redis+unix" | "unix" => unix(rest).map_err(fail),
        "memory" => memory(url).map_err(fail),
        #[cfg(feature = "file")]
        "file" => file(rest).map_err(fail),
        #[cfg(not(feature = "file"))]
        "file" => Err(fail("the embedded node is not built in; enable the feature `file`".into())),
        // `localhost:6379`: the part before the colon is a host.
        _ if !rest.starts_with("//") && !url.contains('@') => {
            Err(fail("it has no scheme; it could be redis://HOST:PORT".into()))
        }
        // Not shown: it may be a user, or a password.
        _ => Err(fail(format!("its scheme is not known; use {}", known_schemes()))),
    }
}

/// The schemes of the kinds of node that are built in.
fn known_schemes() -> String {
    let built_in = [
        Some("redis"),
        cfg!(feature = "tls").then_some("rediss"),
        Some("redis+unix"),
        cfg!(feature = "file").then_some("file"),
    ];
    let mut known: Vec<&str> = built_in.into_iter().flatten().collect();
    let last = known.pop().unwrap_or_default();
    format!("{} or {last}", known.join(", "))
}

/// The address with its scheme in lower case.
fn in_known_case(url: &str) -> Cow<'_, str> {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.filter(|scheme| SCHEMES.contains(&&**scheme)) {
        Some(scheme) => format!("{scheme}{}", &url[scheme.len()..]).into(),
        None => url.into(),
    }
}

/// Describes mistakes that concern an address as a whole.
fn with_hints(url: &str, reason: String) -> String {
    let is_address = |text: &str| {
        let scheme = text.trim_start().split_once(':').map(|(scheme, _)| scheme);
        scheme.is_some_and(|scheme| SCHEMES.contains(&scheme))
    };
    if url.split([',', ';', ' ']).filter(|part| is_address(part)).count() > 1 {
        return "it seems to be several addresses in one text; give each address by itself".into();
    }
    if url.trim() != url {
        return "it begins or ends with white space, which does not belong there".into();
    }
    reason
}

fn tcp(rest: &str, tls: bool) -> Result<Arc<dyn Node>, String> {
    let rest = rest.strip_prefix("//").ok_or("`//` is missing after the scheme")?;
    Ok(Arc::new(Redis::new(tcp_address(rest, tls)?)?))
}

fn tcp_address(rest: &str, tls: bool) -> Result<Address, String> {
    let (rest, query) = split_query(rest);
    let (login, place) = match rest.rsplit_once('@') {
        Some((login, place)) => (Some(login), place),
        None => (None, rest),
    };
    let (host_port, database) = match place.split_once('/') {
        Some((host_port, database)) => (host_port, database),
        None => (place, ""),
    };
    let (host, port) = split_port(host_port)?;
    let host = lower_case(&host);
    let mut address = Address::new(Transport::Tcp { host, port });
    address.database = read_database(database)?;
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        address.user = non_empty(decode(user)?);
        address.password = non_empty(decode(password)?).map(Into::into);
    }
    if tls {
        address.tls = Some(super::redis::TlsFiles::default());
    }
    let given = Given {
        user: address.user.is_some(),
        password: address.password.is_some(),
        database: (!database.is_empty()).then_some(address.database),
    };
    apply_query(&mut address, &given, query)?;
    Ok(address)
}

fn unix(rest: &str) -> Result<Arc<dyn Node>, String> {
    Ok(Arc::new(Redis::new(unix_address(rest.strip_prefix("//").unwrap_or(rest))?)?))
}

fn unix_address(path: &str) -> Result<Address, String> {
    let (path, query) = split_query(path);
    if !path.starts_with('/') {
        return Err("the path of a socket must start with `/`".into());
    }
    let mut address = Address::new(Transport::Unix(PathBuf::from(decode(path)?)));
    apply_query(&mut address, &Given::default(), query)?;
    Ok(address)
}

#[cfg(feature = "file")]
fn file(rest: &str) -> Result<Arc<dyn Node>, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let (path, name) = split_name(path)?;
    if path.is_empty() {
        return Err("a path is missing; it could be file:/var/lib/redlatch/locks.db".into());
    }
    // A file has no login: it would show up in the path.
    if !path.starts_with('/') && path.contains('@') {
        return Err("a file has no login; in a relative path, write an `@` as %40".into());
    }
    let file = File::new(decode(path)?);
    Ok(Arc::new(match name {
        Some(name) => file.named(name),
        None => file,
    }))
}

fn memory(url: &str) -> Result<Arc<dyn Node>, String> {
    let (url, name) = split_name(url)?;
    Ok(Arc::new(Memory::new(name.unwrap_or_else(|| url.into()))))
}

/// Splits an address that takes no other options at its `?name=`. Any other `?`
/// is part of the path.
fn split_name(rest: &str) -> Result<(&str, Option<String>), String> {
    let (rest, name) = match rest.rsplit_once("?name=") {
        Some((rest, name)) => (rest, Some(name::checked(decode(name)?)?)),
        None => (rest, None),
    };
    // A mistyped option would name another file, and so another lock.
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '_';
    let option = |after: &str| after.trim_start_matches(is_letter).starts_with('=');
    if rest.split('?').skip(1).any(|after| after.starts_with(is_letter) && option(after)) {
        return Err("its option is not known; the only one here is name (write a `?` of the \
                    path as %3F)"
            .into());
    }
    Ok((rest, name))
}

/// Splits at the `?` of the query: the first one followed by an option, since a
/// password may also contain one.
fn split_query(rest: &str) -> (&str, &str) {
    let option = |query: &str| {
        let name = query.split(['=', '&']).next().unwrap_or_default();
        let is_name = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        is_name && !name.is_empty() && !query[name.len()..].contains('@')
            || is_name && query[name.len()..].starts_with('=')
    };
    let marks = rest.match_indices('?').map(|(at, _)| (&rest[..at], &rest[at + 1..]));
    marks.into_iter().find(|(_, query)| query.is_empty() || option(query)).unwrap_or((rest, ""))
}

fn split_port(host_port: &str) -> Result<(String, u16), String> {
    let (host, port) = if let Some(rest) = host_port.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("`]` is missing after the address")?;
        match (rest, rest.strip_prefix(':')) {
            ("", _) => (host, None),
            (_, Some(port)) => (host, Some(port)),
            _ => return Err("`]` is followed by something other than `:` and a port".into()),
        }
    } else {
        if is_bare_ipv6(host_port) {
            return Err("write an IPv6 address in brackets, as in redis://[::1]:6379".into());
        }
        match host_port.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host_port, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    if !is_host(host) {
        return Err("its host has a character that no host name can have".into());
    }
    let port = match port {
        None => 6379,
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            // Not shown: without an `@` it may be a password.
            _ => return Err("its port is not a number from 1 to 65535".into()),
        },
    };
    Ok((host.into(), port))
}

/// Whether this is an IPv6 address without brackets, perhaps with a zone and a port.
fn is_bare_ipv6(host_port: &str) -> bool {
    let address = host_port.split('%').next().unwrap_or_default();
    address.parse::<Ipv6Addr>().is_ok()
        || address.rsplit_once(':').is_some_and(|(host, _)| host.parse::<Ipv6Addr>().is_ok())
}

/// A host in lower case, except for the zone of an IPv6 address: that names an interface.
fn lower_case(host: &str) -> String {
    let (host, zone) = host.split_at(host.find('%').unwrap_or(host.len()));
    host.to_ascii_lowercase() + zone
}

/// Whether this can be a host name or an address, with or without brackets.
fn is_host(text: &str) -> bool {
    text.chars().all(|sign| sign.is_alphanumeric() || "-_.:[]%".contains(sign))
}

fn read_database(text: &str) -> Result<u32, String> {
    match text {
        "" => Ok(0),
        number => number.parse().map_err(|_| "its database is not a number".to_string()),
    }
}

/// What an address says before its options.
#[derive(Default)]
struct Given {
    user: bool,
    password: bool,
    database: Option<u32>,
}

fn apply_query(address: &mut Address, given: &Given, query: &str) -> Result<(), String> {
    refuse_contradictions(query, given)?;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        // Show neither: it may be part of a password.
        let (key, value) =
            pair.split_once('=').ok_or("an option has no `=` (write `&` in a value as %26)")?;
        let value = decode(value)?;
        if value.is_empty() && ["password_file", "ca", "cert", "key"].contains(&key) {
            return Err(format!("`{key}` is empty; give it a path"));
        }
        let tls = address.tls.as_mut();
        match (key, tls) {
            ("db", _) if given.database.is_some_and(|path| Ok(path) != read_database(&value)) => {
                return Err("the database is given twice, in the path and as `db`".into());
            }
            ("db", _) => address.database = read_database(&value)?,
            ("user", _) => address.user = non_empty(value),
            ("password", _) => address.password = non_empty(value).map(Into::into),
            ("password_file", _) => address.password = Some(Password::in_file(&value)?),
            ("allow_eviction", _) => {
                address.allow_eviction = match value.as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err("`allow_eviction` is yes or no".into()),
                };
            }
            ("name", _) => address.name = Some(name::checked(value)?),
            ("ca", Some(tls)) => tls.ca = Some(value.into()),
            ("cert", Some(tls)) => tls.cert = Some(value.into()),
            ("key", Some(tls)) => tls.key = Some(value.into()),
            ("ca" | "cert" | "key", None) => {
                return Err(format!("`{key}` needs TLS; use the scheme rediss"));
            }
            _ => {
                return Err("an option is not known (write `&` in a value as %26); use db, user, \
                            password, password_file, ca, cert, key, allow_eviction or name"
                    .into());
            }
        }
    }
    Ok(())
}

/// The options that an address may have.
const OPTIONS: [&str; 9] =
    ["db", "user", "password", "password_file", "ca", "cert", "key", "allow_eviction", "name"];

/// Refuses options that repeat what the address says. Runs before any of them is read, and
/// does not show their values, which may be secrets.
fn refuse_contradictions(query: &str, given: &Given) -> Result<(), String> {
    let is_password = |key: &str| key == "password" || key == "password_file";
    let mut seen: Vec<&str> = Vec::new();
    let keys = query.split('&').filter_map(|pair| pair.split('=').next());
    for key in keys.filter(|key| OPTIONS.contains(key)) {
        if seen.contains(&key) {
            return Err(format!("`{key}` is given twice"));
        }
        if is_password(key) && seen.iter().any(|key| is_password(key)) {
            return Err("`password` and `password_file` contradict each other; give one".into());
        }
        if is_password(key) && given.password {
            return Err(format!("the password is given twice, before the host and as `{key}`"));
        }
        if key == "user" && given.user {
            return Err("the user is given twice, before the host and as `user`".into());
        }
        seen.push(key);
    }
    Ok(())
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Result<String, String> {
    let bad = || "a percent sign must be followed by two hex digits".to_string();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2).ok_or_else(bad)?;
        let digits = str::from_utf8(digits).map_err(|_| bad())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| "the decoded text is not UTF-8".into())
}

/// Percent-encodes everything that could mean something else in an address or in a list of
/// addresses.
pub(super) fn encode(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/:+=[]".contains(&byte);
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(byte.into());
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The schemes that we know.
const SCHEMES: [&str; 6] = ["redis", "rediss", "redis+unix", "unix", "file", "memory"];

/// The part of the text that may be shown. Nothing of text that is not an address, since
/// any part of it may be a password; the host or the path, too, if only an option is wrong.
fn without_secrets(url: &str) -> String {
    let known = url.split_once(':').filter(|(scheme, _)| SCHEMES.contains(scheme));
    let Some((scheme, rest)) = known else { return without_scheme(url) };
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    let (place, _) = split_query(rest);
    let shown = match scheme {
        // We cannot tell where a password ends.
        _ if url.matches('@').count() > 1 => None,
        "redis" | "rediss" if !slashes.is_empty() => host_in(place),
        "redis+unix" | "unix" | "file" if !url.contains('@') => {
            Some(place).filter(|path| path.starts_with('/'))
        }
        _ => None,
    };
    let shown = shown.unwrap_or_default();
    let more = if !shown.is_empty() && rest == shown { "" } else { "…" };
    format!("{scheme}:{slashes}{shown}{more}")
}

/// What may be shown of text without one of our schemes: a well-known scheme or host, which
/// is not a secret.
fn without_scheme(url: &str) -> String {
    let (start, rest) = url.split_once(':').unwrap_or_default();
    let scheme = start.to_ascii_lowercase();
    if rest.starts_with("//") && OTHER_SCHEMES.contains(&&*scheme) {
        return format!("{scheme}://…");
    }
    if !url.contains('@') && (scheme == "localhost" || start.parse::<Ipv4Addr>().is_ok()) {
        return format!("{start}:…");
    }
    "…".into()
}

/// Schemes that people try but we do not support.
const OTHER_SCHEMES: [&str; 9] =
    ["http", "https", "tcp", "tls", "valkey", "valkeys", "redis-sentinel", "sentinel", "etcd"];

/// The host and port in `[login@]host[:port][/database]`, if all of that is valid.
fn host_in(place: &str) -> Option<&str> {
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let (host_port, database) = place.split_once('/').unwrap_or((place, ""));
    let is_one = split_port(host_port).is_ok() && read_database(database).is_ok();
    is_one.then_some(host_port)
}

/// An address that cannot be parsed. It is shown without its secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    reason: String,
    /// Its position among how many addresses, counted from 1.
    place: Option<(usize, usize)>,
}

impl UrlError {
    /// Returns as much of the address as may be shown: its scheme, if we know it, and its
    /// host or path if only an option is wrong.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.url
    }

    /// Adds its position among the addresses, unless there is only one.
    pub(crate) fn at(self, at: usize, of: usize) -> Self {
        UrlError { place: (of > 1).then_some((at + 1, of)), ..self }
    }
}

impl std::error::Error for UrlError {}

redlatch_core::debug_is_display!(UrlError);

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UrlError { url, reason, place } = self;
        let empty = "empty; give it as in redis://HOST:PORT";
        match place {
            Some((at, of)) if url.is_empty() => write!(f, "node address {at} of {of} is {empty}"),
            None if url.is_empty() => write!(f, "the node address is {empty}"),
            Some((at, of)) => {
                write!(f, "node address {at} of {of}, `{url}`, cannot be used: {reason}")
            }
            None => write!(f, "the node address `{url}` cannot be used: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests;
