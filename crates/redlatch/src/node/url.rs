//! Node addresses as text: one form for code, environment and configuration.

#[cfg(feature = "file")]
use super::File;
use super::{
    Memory, Node, Redis, name,
    redis::{Address, Password, Transport},
};
use std::{fmt, path::PathBuf, sync::Arc};

/// Parses the address of a node.
///
/// | form | node |
/// |---|---|
/// | `redis://[user[:password]@]host[:port][/database]` | Redis or Valkey over TCP |
/// | `rediss://…[?ca=FILE][&cert=FILE&key=FILE]` | the same over TLS |
/// | `redis+unix:///path/to/socket[?db=N][&user=…][&password=…]` | the same over a Unix socket |
/// | `file:/path/to/file` | the embedded node: a file on this machine |
/// | `memory:` | inside this process, for tests |
///
/// User, password and query values may be percent-encoded; `%` itself, and `&`
/// in a query value, must be.
///
/// The option `password_file=FILE` takes the password from a file instead, which must
/// be there when the address is parsed. It is read again whenever the server refuses
/// the password, so a change of password needs no restart, whichever changes first,
/// file or server. If the file is missing or empty at that time, the password known so
/// far is kept, and tried on each new connection. Connections that are open stay so.
///
/// # Names
///
/// Every form accepts `?name=NAME` (`&name=NAME` after another option): the
/// node's name, in errors and for all of its clients. Clients compare their
/// lists of nodes by these names, so clients that reach one server by different
/// addresses (a host name here, a port forward there) must give it the same
/// name. The name defaults to the address, without user, password and options.
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
        "memory" => memory(url).map_err(fail),
        #[cfg(feature = "file")]
        "file" => file(rest).map_err(fail),
        #[cfg(not(feature = "file"))]
        "file" => Err(fail("the embedded node is not built in; enable the feature `file`".into())),
        // `localhost:6379`: what precedes the colon is a host.
        _ if !rest.starts_with("//") && !url.contains('@') => {
            Err(fail("it has no scheme; it could be redis://HOST:PORT".into()))
        }
        // Not shown: it may be a user, or a password.
        _ => Err(fail(
            "its scheme is not known; use redis, rediss, redis+unix, file or memory".into(),
        )),
    }
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
    apply_query(&mut address, query)?;
    Ok(address)
}

#[cfg(feature = "file")]
fn file(rest: &str) -> Result<Arc<dyn Node>, String> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    let (path, name) = split_name(path)?;
    if path.is_empty() {
        return Err("a path is missing; it could be file:/var/lib/redlatch/locks.db".into());
    }
    // A login that a file cannot have: its path would show it.
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
    match rest.rsplit_once("?name=") {
        Some((rest, name)) => Ok((rest, Some(name::checked(decode(name)?)?))),
        None => Ok((rest, None)),
    }
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
            _ => return Err("`]` is followed by something else than `:` and a port".into()),
        }
    } else {
        match host_port.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (host_port, None),
        }
    };
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    if !is_host(host) {
        return Err("its host holds a character that no host has".into());
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

fn apply_query(address: &mut Address, query: &str) -> Result<(), String> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        // Show neither: it may be part of a password.
        let (key, value) =
            pair.split_once('=').ok_or("an option has no `=` (write `&` in a value as %26)")?;
        let value = decode(value)?;
        let tls = address.tls.as_mut();
        match (key, tls) {
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

/// The schemes that exist.
const SCHEMES: [&str; 6] = ["redis", "rediss", "redis+unix", "unix", "file", "memory"];

/// The text as it may be shown: nothing of what is no address, since any part of it
/// may be a password. Where only an option is wrong, the host or the path as well.
fn without_secrets(url: &str) -> String {
    let known = url.split_once(':').filter(|(scheme, _)| SCHEMES.contains(scheme));
    let Some((scheme, rest)) = known else { return "…".into() };
    let (slashes, rest) = match rest.strip_prefix("//") {
        Some(rest) => ("//", rest),
        None => ("", rest),
    };
    let (place, _) = split_query(rest);
    let shown = match scheme {
        // There is no telling where a password ends.
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

/// The host and port in `[login@]host[:port][/database]`, if all of that is in order.
fn host_in(place: &str) -> Option<&str> {
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let (host_port, database) = place.split_once('/').unwrap_or((place, ""));
    let is_one = split_port(host_port).is_ok() && read_database(database).is_ok();
    is_one.then_some(host_port)
}

/// An address that cannot be parsed. It is shown without its secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlError {
    url: String,
    reason: String,
}

impl UrlError {
    /// Returns as much of the address as may be shown: its scheme, if that is known,
    /// and its host or path if only an option is wrong.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.url
    }
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
    fn a_name_stands_in_the_place_of_the_address_and_the_address_stays() {
        for (url, name, address) in [
            ("redis://localhost?name=a", "a", "redis://localhost:6379"),
            ("redis://u:p@h:1/3?db=4&name=a-1_b.c", "a-1_b.c", "redis://h:1/4"),
            ("redis://l:7001?name=10.0.0.1:6379", "10.0.0.1:6379", "redis://l:7001"),
            ("redis://l?name=redis://10.0.0.1:6379/2", "redis://10.0.0.1:6379/2", "redis://l:6379"),
            ("redis://l?name=redis%3A%2F%2F%5B%3A%3A1%5D", "redis://[::1]", "redis://l:6379"),
            ("unix:/run/s?db=2&name=a", "a", "redis+unix:///run/s?db=2"),
            ("memory:?name=a", "a", "a"),
            #[cfg(feature = "tls")]
            ("rediss://h?name=a", "a", "rediss://h:6379"),
            #[cfg(feature = "file")]
            ("file:/tmp/x?name=a", "a", "file:/tmp/x"),
            #[cfg(feature = "file")]
            ("file:/tmp/x?y", "file:/tmp/x?y", "file:/tmp/x?y"),
        ] {
            let node = parse(url).unwrap();
            assert_eq!((node.name(), node.address()), (name, address), "{url}");
        }
    }

    #[test]
    fn a_name_is_short_and_made_of_what_addresses_are_made_of() {
        let long = "a".repeat(256);
        for name in ["", "a b", "a,b", "a@b", "-a", "é", "a%0Ab", "a%22", "a%26b", &long] {
            for url in [
                format!("redis://h?name={name}"),
                format!("file:/x?name={name}"),
                format!("memory:?name={name}"),
            ] {
                let error = parse(&url).expect_err(&url).to_string();
                let parts = ["must be 1 to 255 letters", "not built in"];
                assert!(parts.iter().any(|part| error.contains(part)), "{error}");
            }
        }
        parse(&format!("redis://h?name={}", &long[1..])).unwrap();
    }

    #[test]
    fn bad_addresses_say_what_is_wrong() {
        for (url, reason) in [
            ("", "no scheme"),
            ("localhost", "no scheme"),
            ("localhost:6379", "no scheme"),
            ("[::1]:6379", "no scheme"),
            ("http://localhost", "its scheme is not known"),
            ("redis:localhost", "`//` is missing"),
            ("redis://", "host is missing"),
            ("redis://:6379", "host is missing"),
            ("redis://a b", "character that no host has"),
            ("redis://h:0", "port is not a number from 1 to 65535"),
            ("redis://h:99999", "port is not a number"),
            ("redis://h:x", "port is not a number"),
            ("redis://[::1", "`]` is missing"),
            ("redis://[::1]8410", "followed by something else"),
            ("redis://h/x", "database is not a number"),
            ("redis://h?x=1", "option is not known"),
            ("redis://h?ca=/x", "needs TLS"),
            ("redis://h?db", "has no `=`"),
            ("redis://u:%zz@h", "percent sign"),
            ("redis+unix://run/r.sock", "must start with `/`"),
        ] {
            assert!(refused(url).contains(reason), "{url}: {}", refused(url));
        }
    }

    #[test]
    fn what_is_refused_is_shown_as_far_as_it_helps() {
        for (url, shown) in [
            ("redis://localhost:7001?x=1", "`redis://localhost:7001…`"),
            ("redis://me:sesame@db.example/2?x=1", "`redis://db.example…`"),
            ("redis://[::1]:8410?x=1", "`redis://[::1]:8410…`"),
            ("redis+unix:///run/r.sock?x=1", "`redis+unix:///run/r.sock…`"),
            // What is no address may be anything.
            ("redis://localhost:port", "`redis://…`"),
            ("redis://[::1]8410", "`redis://…`"),
            ("redis:localhost", "`redis:…`"),
            ("redis+unix://run/r.sock?db=1", "`redis+unix://…`"),
            ("localhost", "`…`"),
            ("localhost:6379", "`…`"),
            ("http://localhost", "`…`"),
        ] {
            assert!(refused(url).contains(shown), "{url}: {}", refused(url));
        }
    }

    #[test]
    fn passwords_never_show() {
        for url in [
            "redis://u:sesame@h:x",
            "redis://u:ses@ame@h:0",
            "redis:u:sesame@h",
            "redis:/u:sesame@h",
            "redis//u:sesame@h",
            "redis://u:sesame",
            "redis+unix:u:sesame@/x",
            "unix://u:sesame@/x",
            "file:u:sesame@/x",
            "http://u:sesame@h",
            ":sesame@h:6379",
            "sesame",
            "sesame:6379",
            "sesame://h",
            "u:sesame@h",
            "redis://:sesame",
            "redis://u:1/sesame",
            "redis://:S3?sesame@h:0",
            "redis://:S3?x=sesame@h",
            "redis://h?password=se&same",
            "redis://h?password=se&same=1",
            "redis://h?password=se@same&x=1",
            "redis://h?x=1&password=se@same",
            "redis://h?password=sesame&x=1",
            "redis+unix:///s?password=sesame&x=1",
            // Logins with a `?name=` in the password.
            "redis://:S3?name=sesame@h",
            "redis://me:1?name=sesame@h",
            "redis://me?name=sesame@h",
            "redis+unix:///s?name=sesame@h",
            "redis://h?name=ses ame",
        ] {
            let said = refused(url).replace("name", "");
            assert!(!said.contains("ame"), "{said}");
        }
        let node = parse("redis://user:sesame@h").unwrap();
        assert!(!format!("{node:?} {}", node.name()).contains("sesame"));
    }

    /// The password a node at this address logs in with.
    fn password(url: &str) -> Result<Option<String>, String> {
        let (scheme, rest) = url.split_once("://").unwrap();
        let address = match scheme {
            "redis" => tcp_address(rest, false),
            _ => unix_address(rest),
        };
        address.map(|address| address.password.map(|secret| secret.reveal().to_string()))
    }

    fn encoded(text: &str) -> String {
        let bytes: Vec<_> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        bytes.concat()
    }

    /// Passwords of all kinds of characters, above all those that are special
    /// in a URL. The same ones every time.
    fn passwords() -> impl Iterator<Item = String> {
        const SIGNS: [&str; 26] = [
            "@",
            ":",
            "/",
            "?",
            "&",
            "=",
            "#",
            "%",
            "[",
            "]",
            "+",
            " ",
            "\\",
            "'",
            "\"",
            "é",
            "🔑",
            "password=",
            "?db=",
            "?name=",
            "&name=",
            "%41",
            "a",
            "Z",
            "7",
            "\n",
        ];
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut below = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % bound).unwrap()
        };
        (0..4000).map(move |_| {
            let signs = (0..=below(9)).map(|_| SIGNS[below(26)]);
            signs.collect::<String>()
        })
    }

    #[test]
    fn every_password_that_is_percent_encoded_arrives_as_it_is() {
        for secret in passwords() {
            let secret_as_is = Ok(Some(secret.clone()));
            for url in [
                format!("redis://:{}@h:1", encoded(&secret)),
                format!("redis://me:{}@h", encoded(&secret)),
                format!("redis://h/2?password={}", encoded(&secret)),
                format!("redis+unix:///s?db=1&password={}", encoded(&secret)),
            ] {
                assert_eq!(password(&url), secret_as_is, "{url}");
            }
        }
    }

    #[test]
    fn a_password_that_is_not_encoded_arrives_as_it_is_unless_it_holds_what_must_be() {
        for secret in ["S3?cret", "a/b", "a:b", "p@ss", "a#b", "a=b", "[x]", "?", "é 🔑", "??x"]
        {
            let url = format!("redis://:{secret}@h:1");
            assert_eq!(password(&url), Ok(Some(secret.into())), "{url}");
        }
        for secret in ["S3?cret", "a/b", "a:b", "p@ss", "a#b", "a=b", "?x=", "é 🔑"] {
            let url = format!("redis://h?password={secret}");
            assert_eq!(password(&url), Ok(Some(secret.into())), "{url}");
        }
    }

    /// No four consecutive characters of it, unless they occur there anyway.
    #[test]
    fn no_error_shows_a_part_of_a_password_however_it_was_written() {
        for secret in passwords() {
            for url in [
                format!("redis://:{secret}@h:0"),
                format!("redis://me:{secret}@h/x"),
                format!("redis://me:{secret}@"),
                // Text after an `@` would be the host.
                format!("redis://:{}", secret.replace('@', "/")),
                format!("redis:me:{secret}@h"),
                format!("me:{secret}@h"),
                format!("redis://h?password={secret}&x=1"),
                format!("redis://h:0?password={secret}"),
                format!("redis+unix:///s?password={secret}&x=1"),
                format!("redis+unix:///s?x=1&password={secret}"),
                format!("redis://:{}@h:0", encoded(&secret)),
            ] {
                let Err(error) = parse(&url) else { continue };
                let harmless = parse("redis://h?password=x&x=1").unwrap_err().to_string();
                let (error, letters) = (error.to_string(), secret.chars().collect::<Vec<_>>());
                for part in letters.windows(4) {
                    let part: String = part.iter().collect();
                    let shown = error.contains(&part) && !harmless.contains(&part);
                    assert!(!shown, "{url:?} shows {part:?}: {error}");
                }
            }
        }
    }
}
