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
fn schemes_are_read_in_either_case() {
    assert_eq!(name("REDIS://h"), "redis://h:6379");
    assert_eq!(name("Redis+Unix:///run/R.sock"), "redis+unix:///run/R.sock");
    assert_eq!(name("MEMORY:"), "memory:");
    assert!(refused("REDIS://h:x").contains("`redis://…`"), "{}", refused("REDIS://h:x"));
}

#[test]
fn an_ipv6_address_without_brackets_is_told_to_get_them() {
    for url in ["redis://::1:6379", "redis://::1", "redis://fe80::1%eth0:6379", "redis://u:p@::1"] {
        let error = refused(url);

        assert!(error.contains("write an IPv6 address in brackets, as in redis://[::1]:6379"));
    }
}

#[test]
fn a_name_replaces_the_address_and_the_address_stays() {
    for (url, name, address) in [
        ("redis://localhost?name=a", "a", "redis://localhost:6379"),
        ("redis://u:p@h:1?db=4&name=a-1_b.c", "a-1_b.c/4", "redis://h:1/4"),
        ("redis://h:1/4?name=a/4", "a/4", "redis://h:1/4"),
        ("redis://l:7001?name=10.0.0.1:6379", "10.0.0.1:6379", "redis://l:7001"),
        ("redis://l?name=redis://10.0.0.1:6379/2", "redis://10.0.0.1:6379/2", "redis://l:6379"),
        ("redis://l?name=redis%3A%2F%2F%5B%3A%3A1%5D", "redis://[::1]", "redis://l:6379"),
        ("unix:/run/s?db=2&name=a", "a/2", "redis+unix:///run/s?db=2"),
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

#[cfg(feature = "file")]
#[test]
fn a_mistyped_option_is_not_taken_for_a_part_of_a_path() {
    for url in ["file:/tmp/x?nam=a", "file:x?db=2&name=a", "file:/tmp/x?nam=a?name=b"] {
        let error = parse(url).unwrap_err().to_string();
        assert!(error.contains("its option is not known"), "{url}: {error}");
    }
    for path in ["/tmp/x?y", "/tmp/x?=y", "/tmp/x?Y=1", "/tmp/x%3Fnam=a"] {
        let node = parse(&format!("file:{path}")).unwrap();
        assert_eq!(node.address(), format!("file:{}", path.replace("%3F", "?")));
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
        ("", "is empty"),
        ("redis://h?password_file=", "`password_file` is empty; give it a path"),
        ("localhost", "no scheme"),
        ("localhost:6379", "no scheme"),
        ("[::1]:6379", "no scheme"),
        ("http://localhost", "its scheme is not known"),
        ("redis:localhost", "`//` is missing"),
        ("redis://", "host is missing"),
        ("redis://:6379", "host is missing"),
        ("redis://a b", "its host has a character that no host name can have"),
        ("redis://h:0", "port is not a number from 1 to 65535"),
        ("redis://h:99999", "port is not a number"),
        ("redis://h:x", "port is not a number"),
        ("redis://[::1", "`]` is missing"),
        ("redis://[::1]8410", "followed by something other"),
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
fn an_address_that_contradicts_itself_is_refused() {
    for (url, words) in [
        ("redis://h/2?db=3", "the database is given twice, in the path and as `db`"),
        ("redis://h/0?db=3", "the database is given twice, in the path and as `db`"),
        ("redis://h?db=2&db=2", "`db` is given twice"),
        ("redis://h?name=a&name=b", "`name` is given twice"),
        ("redis://h?password=a&password_file=/f", "`password` and `password_file`"),
        ("redis://h?password_file=/f&password=a", "`password` and `password_file`"),
        ("redis://:a@h?password=a", "the password is given twice"),
        ("redis://u:a@h?password_file=/f", "the password is given twice"),
        ("redis://u@h?user=v", "the user is given twice"),
        ("redis+unix:///s?user=u&user=u", "`user` is given twice"),
    ] {
        assert!(refused(url).contains(words), "{url}: {}", refused(url));
    }
    for url in
        ["redis://u@h?password=a", "redis://h/3?db=3", "redis://h/?db=3", "redis://@h?user=u"]
    {
        assert!(parse(url).is_ok(), "{url}");
    }
}

#[test]
fn a_host_is_the_same_in_upper_and_in_lower_case() {
    assert_eq!(name("redis://DB1.Example:6379/2"), "redis://db1.example:6379/2");
    assert_eq!(name("redis://[FE80::A%Eth0]:1"), "redis://[fe80::a%Eth0]:1");
    assert_eq!(name("redis://DB1?name=DB1"), "DB1");
    assert_eq!(name("redis+unix:///Run/R.sock"), "redis+unix:///Run/R.sock");
}

#[test]
fn several_addresses_in_one_text_and_white_space_around_one_are_reported() {
    for url in [
        "redis://a:1,redis://b:1",
        "redis://a,redis://b",
        "redis://a:1, rediss://b:1",
        "redis://a:1 redis://b:1",
        "redis://a?name=x,redis://b?name=y",
    ] {
        assert!(refused(url).contains("give each address by itself"), "{}", refused(url));
    }
    for url in [" redis://a:1", "redis://a:1\n", "redis://a:1?name=x ", "\tredis://a"] {
        assert!(refused(url).contains("white space"), "{}", refused(url));
    }
    assert!(!refused("redis://a,b").contains("give each"));
    assert!(!refused("redis://a b").contains("white space"));
}

#[test]
fn what_is_encoded_is_read_as_it_was() {
    for text in ["/a b/c%41?d&e=f#'\"", "redis://[::1]:1/2", "é,🔑;$(x)`\n"] {
        let encoded = encode(text);

        assert_eq!(decode(&encoded).as_deref(), Ok(text), "{encoded}");
        assert!(!encoded.contains(['&', '?', '\'', ',', ' ', '$', '`']), "{encoded}");
    }
}

#[test]
fn what_is_refused_is_shown_as_far_as_it_helps() {
    for (url, shown) in [
        ("redis://localhost:7001?x=1", "`redis://localhost:7001…`"),
        ("redis://me:sesame@db.example/2?x=1", "`redis://db.example…`"),
        ("redis://[::1]:8410?x=1", "`redis://[::1]:8410…`"),
        ("redis+unix:///run/r.sock?x=1", "`redis+unix:///run/r.sock…`"),
        // Text that is not an address may be anything.
        ("redis://localhost:port", "`redis://…`"),
        ("redis://[::1]8410", "`redis://…`"),
        ("redis:localhost", "`redis:…`"),
        ("redis+unix://run/r.sock?db=1", "`redis+unix://…`"),
        ("localhost", "`…`"),
        ("sesame:6379", "`…`"),
        ("localhost:6379", "`localhost:…`"),
        ("10.0.0.1:6379", "`10.0.0.1:…`"),
        ("http://localhost", "`http://…`"),
        ("HTTPS://localhost", "`https://…`"),
        ("sesame://localhost", "`…`"),
        ("", "the node address is empty"),
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

/// Passwords made of all kinds of characters, above all those that are special in a URL.
/// The same ones every time.
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
    for secret in ["S3?cret", "a/b", "a:b", "p@ss", "a#b", "a=b", "[x]", "?", "é 🔑", "??x"] {
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
