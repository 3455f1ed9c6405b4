//! Node addresses as text: one form for code, environment and configuration.

#[cfg(feature = "file")]
use super::File;
use super::{
    Memory, Node, Redis,
    redis::{Address, Transport},
};
use std::{fmt, path::PathBuf, sync::Arc};

/// Reads the address of a node.
///
/// | form | node |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | Redis or Valkey over TCP |
/// | `rediss://…[?ca=FILE][&cert=FILE&key=FILE]` | the same over TLS |
/// | `redis+unix:///path/to/socket[?db=N][&user=…][&password=…]` | the same over a Unix socket |
/// | `file:/path/to/file` | the embedded node: a file on this machine |
/// | `memory:` | inside this process, for tests |
///
/// User, password and the values behind `?` may be percent-encoded. A query
/// `password_file=FILE` reads the password from a file instead.
///
/// # Example
///
/// ```
/// let node = redlatch::node::parse("redis://:secret@10.0.0.1:6380/2")?;
/// assert_eq!(node.name(), "redis://10.0.0.1:6380/2");
/// # Ok::<(), redlatch::node::UrlError>(())
/// ```
pub fn parse(url: &str) -> Result<Arc<dyn Node>, UrlError> {
    let fail = |reason: String| UrlError { url: without_secrets(url), reason };
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(fail("it has no scheme; it could be redis://HOST:PORT".into()));
    };
    match scheme {
        "redis" => tcp(rest, false).map_err(fail),
        "rediss" if cfg!(feature = "tls") => tcp(rest, true).map_err(fail),
        "rediss" => Err(fail("TLS is not built in; enable the feature `tls`".into())),
        "redis+unix" | "unix" => unix(rest).map_err(fail),
        "memory" => Ok(Arc::new(Memory::new(if rest.is_empty() { "memory:" } else { url }))),
        #[cfg(feature = "file")]
        "file" => file(rest).map_err(fail),
        #[cfg(not(feature = "file"))]
        "file" => Err(fail("the embedded node is not built in; enable the feature `file`".into())),
        _ => Err(fail(format!(
            "the scheme `{scheme}` is not known; use redis, rediss, redis+unix, file or memory"
        ))),
    }
}

fn tcp(rest: &str, tls: bool) -> Result<Arc<dyn Node>, String> {
    let rest = rest.strip_prefix("//").ok_or("`//` is missing after the scheme")?;
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
    apply_query(&mut address, query)?;
    Ok(Arc::new(Redis::new(address)?))
}

fn unix(rest: &str) -> Result<Arc<dyn Node>, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let (path, query) = split_query(path);
    if !path.starts_with('/') {
        return Err("the path of a socket must start with `/`".into());
    }
    let mut address = Address::new(Transport::Unix(PathBuf::from(decode(path)?)));
    apply_query(&mut address, query)?;
    Ok(Arc::new(Redis::new(address)?))
}

#[cfg(feature = "file")]
fn file(rest: &str) -> Result<Arc<dyn Node>, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if path.is_empty() {
        return Err("a path is missing; it could be file:/var/lib/redlatch/locks.db".into());
    }
    Ok(Arc::new(File::new(decode(path)?)))
}

fn split_query(rest: &str) -> (&str, &str) {
    rest.split_once('?').unwrap_or((rest, ""))
}

fn split_port(host_port: &str) -> Result<(String, u16), String> {
    let (host, port) = if let Some(rest) = host_port.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("`]` is missing after the address")?;
        (host, rest.strip_prefix(':'))
    } else {
        match host_port.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host_port, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    let port = match port {
        None => 6379,
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("`{port}` is not a port")),
        },
    };
    Ok((host.into(), port))
}

fn read_database(text: &str) -> Result<u32, String> {
    match text {
        "" => Ok(0),
        number => number.parse().map_err(|_| format!("`{number}` is not a database number")),
    }
}

fn apply_query(address: &mut Address, query: &str) -> Result<(), String> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` has no `=`"))?;
        let value = decode(value)?;
        let tls = address.tls.as_mut();
        match (key, tls) {
            ("db", _) => address.database = read_database(&value)?,
            ("user", _) => address.user = non_empty(value),
            ("password", _) => address.password = non_empty(value).map(Into::into),
            ("password_file", _) => address.password = Some(read_password(&value)?.into()),
            ("allow_eviction", _) => {
                address.allow_eviction = match value.as_str() {
                    "yes" => true,
                    "no" => false,
                    _ => return Err("`allow_eviction` is yes or no".into()),
                };
            }
            ("ca", Some(tls)) => tls.ca = Some(value.into()),
            ("cert", Some(tls)) => tls.cert = Some(value.into()),
            ("key", Some(tls)) => tls.key = Some(value.into()),
            ("ca" | "cert" | "key", None) => {
                return Err(format!("`{key}` needs TLS; use the scheme rediss"));
            }
            _ => {
                return Err(format!(
                    "the option `{key}` is not known; \
                     use db, user, password, password_file, ca, cert, key or allow_eviction"
                ));
            }
        }
    }
    Ok(())
}

fn read_password(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the password file {path} cannot be read: {error}"))?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("the password file {path} is empty")),
        password => Ok(password.into()),
    }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

/// Undoes percent-encoding.
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

/// The URL as it may be shown: nothing of what stands before the last `@`, and
/// no value of a query.
fn without_secrets(url: &str) -> String {
    let (place, query) = match url.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (url, None),
    };
    let scheme = place.find("//").map_or(0, |at| at + 2);
    let mut shown = match place.rfind('@') {
        Some(at) if at >= scheme => format!("{}…{}", &place[..scheme], &place[at..]),
        _ => place.to_string(),
    };
    if query.is_some() {
        shown.push_str("?…");
    }
    shown
}

/// An address that cannot be read. It is shown without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    reason: String,
}

impl std::error::Error for UrlError {}

impl fmt::Display for UrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the node address `{}` cannot be used: {}", self.url, self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(url: &str) -> String {
        parse(url).unwrap().name().to_string()
    }

    fn refused(url: &str) -> String {
        parse(url).unwrap_err().to_string()
    }

    #[test]
    fn every_form_is_read() {
        assert_eq!(name("redis://localhost"), "redis://localhost:6379");
        assert_eq!(name("redis://u:p@db.example:1/3"), "redis://db.example:1/3");
        assert_eq!(name("redis://[::1]:7000"), "redis://[::1]:7000");
        assert_eq!(name("redis+unix:///run/r.sock?db=2"), "redis+unix:///run/r.sock?db=2");
        assert_eq!(name("memory:"), "memory:");
        #[cfg(feature = "tls")]
        assert_eq!(name("rediss://h"), "rediss://h:6379");
        #[cfg(feature = "file")]
        assert_eq!(name("file:/tmp/x"), "file:/tmp/x");
    }

    #[test]
    fn bad_addresses_say_what_is_wrong() {
        for (url, reason) in [
            ("", "no scheme"),
            ("localhost", "no scheme"),
            ("http://localhost", "`http` is not known"),
            ("redis:localhost", "`//` is missing"),
            ("redis://", "host is missing"),
            ("redis://:6379", "host is missing"),
            ("redis://h:0", "`0` is not a port"),
            ("redis://h:99999", "`99999` is not a port"),
            ("redis://h:x", "`x` is not a port"),
            ("redis://[::1", "`]` is missing"),
            ("redis://h/x", "`x` is not a database"),
            ("redis://h?x=1", "`x` is not known"),
            ("redis://h?ca=/x", "needs TLS"),
            ("redis://h?db", "has no `=`"),
            ("redis://u:%zz@h", "percent sign"),
            ("redis+unix://run/r.sock", "must start with `/`"),
        ] {
            assert!(refused(url).contains(reason), "{url}: {}", refused(url));
        }
    }

    #[test]
    fn passwords_never_show() {
        for url in [
            "redis://u:sesame@h:x",
            "redis://u:ses@ame@h:0",
            "redis:u:sesame@h",
            "u:sesame@h",
            "redis://h?password=sesame&x=1",
            "redis+unix:///s?password=sesame&x=1",
        ] {
            assert!(!refused(url).contains("ame"), "{}", refused(url));
        }
        let node = parse("redis://user:sesame@h").unwrap();
        assert!(!format!("{node:?} {}", node.name()).contains("sesame"));
    }

    #[test]
    fn a_password_may_hold_any_character() {
        let node = parse("redis://:p%40ss%3A%2F@h:1").unwrap();

        assert_eq!(node.name(), "redis://h:1");
    }
}
