//! Invalid input is refused with an error that names the value and the rule; an
//! invalid request is refused before anything is sent.

mod support;

use redlatch::{
    Builder, ConnectError, InvalidRequest, LockError, LockRequest, Locks, NodesError, OwnerError,
    ResourceError, TermsError,
};
use redlatch_testbed::{Certificates, Flavour, Nonsense, Server, ServerOptions};
use std::time::Duration;
use support::{Fleet, MS, NAME, SEC, in_time, log::Log, patient};

/// Why one address alone is refused; it must name the node. Beside two good nodes
/// it is one vote less.
async fn unfit(url: &str, name: &str) -> String {
    let fleet = Fleet::of(2);
    let locks = in_time(fleet.builder().node(url).connect()).await.expect("two suffice");
    let guard = in_time(locks.lock(NAME).into_future()).await.expect("two suffice");
    drop(guard);

    refused(patient().node(url), name).await
}

/// The reason why nodes are refused, which must name one of them.
async fn refused(nodes: Builder, name: &str) -> String {
    let error = in_time(nodes.connect()).await.expect_err("it was accepted");
    assert!(matches!(error, ConnectError::Unfit(_)), "{error}");
    let text = error.to_string();
    assert!(text.contains(name), "{text}");
    text
}

#[tokio::test]
async fn no_nodes_are_refused() {
    let refused = Locks::connect([""; 0]).await;

    assert!(matches!(refused, Err(ConnectError::Nodes(NodesError::None))), "{refused:?}");
}

#[tokio::test]
async fn an_address_that_cannot_be_read_is_refused_and_shown_without_its_secret() {
    for (url, rule) in [
        ("", "the node address is empty"),
        ("127.0.0.1:6379", "it has no scheme; it could be redis://HOST:PORT"),
        ("http://me:sesame@h", "scheme is not known"),
        ("redis://me:sesame@h:port", "port is not a number"),
        ("redis://me:sesame@h/first", "database is not a number"),
        ("redis://h?password=sesame&colour=red", "option is not known"),
        ("rediss://h?ca=/there/is/no/ca.pem", "/there/is/no/ca.pem"),
        ("redis://h?password_file=/there/is/no/secret", "/there/is/no/secret"),
    ] {
        let error = Locks::connect([url]).await.unwrap_err();

        assert!(matches!(error, ConnectError::Nodes(NodesError::Url(_))), "{url}: {error}");
        assert!(error.to_string().contains(rule), "{url}: {error}");
        assert!(!format!("{error} {error:?}").contains("sesame"), "{error:?}");
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_parsed_is_reported_by_its_place_in_the_list() {
    for (urls, told) in [
        (["redis://a", "sesame", "redis://c"], "node address 2 of 3, `…`, cannot be used: it has"),
        (["redis://a", "redis://b", "redis://c "], "node address 3 of 3, `redis://…`, cannot be"),
    ] {
        let error = Locks::connect(urls).await.unwrap_err().to_string();

        assert!(error.starts_with(told), "{error}");
    }
    let alone = Locks::connect(["sesame"]).await.unwrap_err().to_string();
    assert!(alone.starts_with("the node address `…` cannot be used"), "{alone}");
}

#[tokio::test]
async fn one_address_twice_is_refused_whatever_else_differs() {
    for twin in
        ["redis://localhost:7001", "redis://me:sesame@localhost:7001", "redis://LocalHost:7001"]
    {
        let urls = ["redis://localhost:7001", "redis://localhost:7002", twin];

        let error = Locks::connect(urls).await.unwrap_err();

        assert!(matches!(error, ConnectError::Nodes(NodesError::Twice(_))), "{error}");
        assert!(error.to_string().contains("redis://localhost:7001"), "{error}");
    }
}

#[tokio::test]
async fn two_addresses_of_one_server_are_refused_with_both_names() {
    let fleet = Fleet::of(2);
    let alias = fleet.servers[1].url().replace("127.0.0.1", "localhost");

    let error = fleet.builder().node(&alias).connect().await.unwrap_err();

    assert!(matches!(error, ConnectError::SameServer { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&alias) && text.contains(&fleet.servers[1].url()), "{text}");
}

#[tokio::test]
async fn two_databases_of_one_server_are_refused() {
    let fleet = Fleet::of(2);
    let other = format!("{}/1", fleet.servers[0].url());

    let error = fleet.builder().node(other).connect().await.unwrap_err();

    assert!(matches!(error, ConnectError::SameServer { .. }), "{error}");
}

/// Asks for a lock that cannot be asked for; nothing may reach a server.
async fn invalid(ask: impl FnOnce(&Locks) -> LockRequest) -> InvalidRequest {
    let (fleet, locks) = Fleet::with_locks(1).await;
    let before = fleet.servers[0].info("total_commands_processed");

    let result = ask(&locks).await;

    // INFO itself counts once.
    let number = |text: Option<String>| text.and_then(|text| text.parse::<u64>().ok());
    let after = fleet.servers[0].info("total_commands_processed");
    assert_eq!(number(after), number(before).map(|count| count + 1), "something was sent");
    assert_eq!(fleet.keys(), [""; 0]);
    match result {
        Err(LockError::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_ttl_of_zero_below_a_millisecond_or_eaten_by_drift_is_refused() {
    for ttl in [Duration::ZERO, Duration::from_micros(999), 2 * MS] {
        let error = invalid(|locks| locks.lock(NAME).ttl(ttl)).await;

        let InvalidRequest::Terms(TermsError::TtlTooShort { .. }) = error else {
            panic!("{ttl:?}: {error}");
        };
        assert!(error.to_string().contains("at least 3ms"), "{error}");
    }
}

#[tokio::test]
async fn a_ttl_above_the_maximum_is_refused() {
    let error = invalid(|locks| locks.lock(NAME).ttl(31 * SEC)).await;

    let (ttl, max_ttl) = (31 * SEC, 30 * SEC);
    assert_eq!(error, InvalidRequest::Terms(TermsError::TtlTooLong { ttl, max_ttl }));
    assert!(error.to_string().contains("31s") && error.to_string().contains("30s"), "{error}");
}

#[tokio::test]
async fn a_renewal_that_would_come_too_late_is_refused() {
    let error =
        invalid(|locks| locks.lock(NAME).ttl(10 * SEC).renew_every(8 * SEC).node_timeout(2 * SEC))
            .await;

    let InvalidRequest::Terms(TermsError::RenewEvery { every, most }) = error else {
        panic!("{error}");
    };
    assert!(every == 8 * SEC && most < every, "{error}");
}

#[tokio::test]
async fn a_pause_between_checks_that_no_client_keeps_to_is_refused() {
    for poll_max in [Duration::ZERO, 3600 * SEC] {
        let refused = Locks::builder().node("memory:").poll_max(poll_max).connect().await;

        let Err(ConnectError::Invalid(InvalidRequest::Terms(error))) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(error, TermsError::PollMax { poll_max });
    }
}

#[tokio::test]
async fn other_times_that_do_not_fit_are_refused_by_name() {
    type Ask = fn(LockRequest) -> LockRequest;
    let asks: [(&str, Ask); 6] = [
        ("node_timeout", |lock| lock.node_timeout(Duration::ZERO)),
        ("node_timeout", |lock| lock.node_timeout(10 * SEC)),
        ("min_validity", |lock| lock.min_validity(10 * SEC)),
        ("notice", |lock| lock.notice(10 * SEC)),
        ("renew_every is", |lock| lock.renew_every(Duration::ZERO)),
        ("max_hold", |lock| lock.max_hold(Duration::ZERO)),
    ];
    for (name, ask) in asks {
        let error = invalid(|locks| ask(locks.lock(NAME).ttl(10 * SEC))).await;

        assert!(error.to_string().contains(name), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_request_without_renewal_that_sets_renewal_is_refused_in_either_order() {
    type Ask = fn(LockRequest) -> LockRequest;
    let asks: [(&str, Ask); 4] = [
        ("max_hold", |lock| lock.no_renewal().max_hold(SEC)),
        ("max_hold", |lock| lock.max_hold(SEC).no_renewal()),
        ("renew_every", |lock| lock.no_renewal().renew_every(SEC)),
        ("renew_every", |lock| lock.renew_every(SEC).no_renewal()),
    ];
    for (setting, ask) in asks {
        let error = invalid(|locks| ask(locks.lock(NAME))).await;

        assert_eq!(error, InvalidRequest::NoRenewal { setting });
        let words = error.to_string();
        assert!(words.contains("no_renewal") && words.contains(setting), "{words}");
    }
}

#[tokio::test]
async fn a_request_may_do_without_the_renewal_that_the_builder_set() {
    let fleet = Fleet::of(1);
    let locks = fleet.builder().max_hold(60 * SEC).connect().await.unwrap();

    let guard = locks.lock(NAME).no_renewal().await.unwrap();

    assert!(guard.is_held());
}

#[tokio::test]
async fn defaults_that_do_not_fit_are_refused_when_connecting() {
    let fleet = Fleet::of(1);

    let ttl = fleet.builder().ttl(31 * SEC).connect().await;
    let owner = fleet.builder().owner("two words").connect().await;

    let Err(ConnectError::Invalid(InvalidRequest::Terms(_))) = ttl else { panic!("{ttl:?}") };
    let Err(ConnectError::Invalid(InvalidRequest::Owner(_))) = owner else { panic!("{owner:?}") };
}

#[tokio::test]
async fn names_that_are_empty_or_too_long_are_refused() {
    let empty = invalid(|locks| locks.lock("")).await;
    let long = invalid(|locks| locks.lock([b'x'; 1025])).await;

    assert_eq!(empty, InvalidRequest::Resource(ResourceError::Empty));
    assert_eq!(long, InvalidRequest::Resource(ResourceError::TooLong { bytes: 1025 }));
    assert!(long.to_string().contains("1024"), "{long}");
    let fleet = Fleet::of(1);
    assert!(fleet.locks().await.status("").await.is_err());
}

/// These keys hold our own state on the servers: a lock there could break or lose
/// it.
#[tokio::test]
async fn names_under_ours_are_refused_wherever_a_lock_is_named() {
    for name in ["redlatch:node", "redlatch:permissions", "redlatch:", "redlatch:fence:x"] {
        let one = invalid(|locks| locks.lock(name)).await;
        let several = invalid(|locks| locks.lock_all(["a", name])).await;

        assert!(matches!(one, InvalidRequest::Resource(ResourceError::Reserved(_))), "{one}");
        assert_eq!(one, several);
        assert!(one.to_string().contains(name), "{one}");
        let fleet = Fleet::of(1);
        assert!(fleet.locks().await.status(name).await.is_err());
        let observer = fleet.builder().observer().unwrap();
        assert!(observer.status(name).await.is_err());
    }
}

#[tokio::test]
async fn sets_that_are_empty_too_many_or_hold_a_name_twice_are_refused() {
    let none = invalid(|locks| locks.lock_all([""; 0])).await;
    let many = invalid(|locks| locks.lock_all((0..65).map(|number| number.to_string()))).await;
    let twice = invalid(|locks| locks.lock_all(["a", "b", "a"])).await;

    assert_eq!(none, InvalidRequest::Resource(ResourceError::None));
    assert_eq!(many, InvalidRequest::Resource(ResourceError::TooMany { count: 65 }));
    assert!(twice.to_string().contains("\"a\""), "{twice}");
}

#[tokio::test]
async fn an_owner_label_that_cannot_stand_in_a_token_is_refused() {
    let long = "x".repeat(256);
    for label in ["", "two words", "bell\u{7}", &long] {
        let error = invalid(|locks| locks.lock(NAME).owner(label)).await;

        assert!(matches!(error, InvalidRequest::Owner(_)), "{label}: {error}");
    }
    let error = invalid(|locks| locks.lock(NAME).owner("a\nb")).await;
    assert_eq!(error, InvalidRequest::Owner(OwnerError::Character('\n')));
}

#[tokio::test]
async fn a_wrong_or_missing_password_is_refused_and_never_shown() {
    let server = Server::options().password("right").start().unwrap();
    let port = server.port();
    let name = format!("redis://127.0.0.1:{port}");

    let wrong = unfit(&format!("redis://:sesame@127.0.0.1:{port}"), &name).await;
    let missing = unfit(&name, &name).await;

    assert!(wrong.contains("WRONGPASS") && !wrong.contains("sesame"), "{wrong}");
    assert!(missing.contains("password"), "{missing}");
}

#[tokio::test]
async fn a_password_for_a_server_that_has_none_is_told_to_be_removed() {
    let server = Server::start().unwrap();
    let name = server.url();

    let told = unfit(&name.replace("//", "//:sesame@"), &name).await;

    let words = "this server has no password: remove the one that is given with the address";
    assert!(told.contains(words), "{told}");
}

#[tokio::test]
async fn a_wrong_user_is_refused_with_and_without_a_password() {
    let server = Server::start().unwrap();

    for login in ["nobody:sesame", "nobody"] {
        let url = format!("redis://{login}@127.0.0.1:{}", server.port());
        let text = unfit(&url, &server.url()).await;

        assert!(text.contains("WRONGPASS"), "{text}");
    }
}

#[tokio::test]
async fn a_database_that_the_server_does_not_have_is_refused() {
    let server = Server::start().unwrap();
    let url = format!("{}/99", server.url());

    let text = unfit(&url, &url).await;

    assert!(text.contains("DB index is out of range"), "{text}");
}

#[tokio::test]
async fn a_cluster_is_refused_with_the_reason() {
    let server = Server::options().config("cluster-enabled yes").start().unwrap();

    let fleet = Fleet::of(2);
    let text = refused(fleet.builder().node(server.url()), &server.url()).await;

    assert!(text.contains("Redis Cluster"), "{text}");
}

#[tokio::test]
async fn a_replica_is_refused() {
    let master = Server::start().unwrap();
    let follow = format!("replicaof 127.0.0.1 {}", master.port());
    let replica = Server::options().config(follow).start().unwrap();

    let text = unfit(&replica.url(), &replica.url()).await;

    assert!(text.contains("replica"), "{text}");
}

#[tokio::test]
async fn an_http_server_is_refused() {
    let http = Nonsense::answering("HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();

    let text = unfit(&http.url(), &http.url()).await;

    assert!(text.contains("not a Redis server"), "{text}");
}

/// Everything that a node needs, as the error itself recommends it.
const NEEDED: [&str; 16] = [
    "select",
    "eval",
    "evalsha",
    "script|load",
    "get",
    "getrange",
    "set",
    "del",
    "exists",
    "pexpire",
    "pttl",
    "hmget",
    "hset",
    "time",
    "ping",
    "info",
];

fn permitted(commands: &[&str]) -> ServerOptions {
    let allowed: Vec<_> = commands.iter().map(|command| format!("+{command}")).collect();
    Server::options().user("worker", "sesame", &format!("-@all {} ~*", allowed.join(" ")))
}

#[tokio::test]
async fn the_permissions_that_are_recommended_are_enough() {
    let fleet = Fleet::with(1, &permitted(&NEEDED));
    let url = fleet.servers[0].url_as("worker", "sesame");
    let locks = patient().node(url).connect().await.unwrap();

    let guard = locks.lock_all([NAME, "b"]).await.unwrap();
    guard.extend().await.unwrap();
    assert!(locks.status(NAME).await.is_ok());
    fleet.servers[0].run(&["SCRIPT", "FLUSH"]);
    guard.extend().await.unwrap();
    guard.release().await.unwrap();

    assert_eq!(fleet.keys(), [""; 0]);
}

#[tokio::test]
async fn a_permission_that_is_missing_is_named_when_connecting() {
    let all = Flavour::ALL.into_iter().flat_map(|flavour| NEEDED.map(|missing| (flavour, missing)));
    for (flavour, missing) in all {
        let others: Vec<_> = NEEDED.into_iter().filter(|needed| *needed != missing).collect();
        let server = permitted(&others).flavour(flavour).start().unwrap();

        let error = patient().node(server.url_as("worker", "sesame")).connect().await;

        let error = error.expect_err(missing).to_string();
        // Redis 6.2 does not name a subcommand.
        let name = missing.split('|').next().unwrap_or(missing);
        assert!(error.contains(&format!("'{name}")), "{flavour}, {missing}: {error}");
        assert!(!error.contains("sesame"), "{error}");
    }
}

/// Every command we send, in a script or not, except `INFO`, which the testbed
/// itself needs.
#[tokio::test]
async fn a_command_that_was_renamed_is_named_when_connecting() {
    let all = NEEDED.map(|needed| needed.split('|').next().unwrap_or(needed));
    for (at, renamed) in all.into_iter().filter(|name| *name != "info").enumerate() {
        let flavour = Flavour::ALL[at % Flavour::ALL.len()];
        let away = format!("rename-command {renamed} \"\"");
        let server = Server::options().flavour(flavour).config(away).start().unwrap();

        let text = refused(patient().node(server.url()), &server.url()).await.to_lowercase();

        // The old name may be quoted in any way.
        assert!(text.contains(renamed) && text.contains("know"), "{flavour}, {renamed}: {text}");
    }
}

/// As Redis 7 answers where `AUTH` was renamed.
#[tokio::test]
async fn a_server_whose_auth_was_renamed_does_not_have_the_password_shown() {
    let said = "-ERR unknown command 'AUTH', with args beginning with: 'sesame' \r\n";
    let server = Nonsense::answering(said).unwrap();
    for login in ["", "me"] {
        let url = server.url().replace("//", &format!("//{login}:sesame@"));

        let error = in_time(patient().node(url).connect()).await.unwrap_err();

        let text = format!("{error} {error:?}");
        assert!(text.contains("does not know AUTH"), "{text}");
        assert!(!text.contains("ses"), "{text}");
    }
}

#[tokio::test]
async fn a_key_that_the_user_may_not_touch_is_no_vote_and_says_so() {
    let needed: Vec<_> = NEEDED.iter().map(|command| format!("+{command}")).collect();
    let rules = format!("-@all {} ~redlatch:* ~lock:*", needed.join(" "));
    let fleet = Fleet::with(1, &Server::options().user("worker", "sesame", &rules));
    let url = fleet.servers[0].url_as("worker", "sesame");
    let locks = patient().node(url).connect().await.unwrap();

    let votes = support::no_majority(locks.lock("elsewhere").await);

    assert!(votes.to_string().contains("NOPERM"), "{votes}");
    assert!(locks.lock("lock:a").await.is_ok());
}

#[tokio::test]
async fn tls_of_a_wrong_authority_a_wrong_host_or_an_old_certificate_is_refused() {
    let wrong = [
        ("wrong authority", Certificates::wrong_ca()),
        ("wrong host", Certificates::wrong_host()),
        ("expired", Certificates::expired()),
    ];
    for (what, certificates) in wrong {
        let server = Server::options().tls(certificates).start().unwrap();
        let url = format!("{}?ca={}", server.tls_url(), server.dir().join("ca.pem").display());

        let text = unfit(&url, &server.tls_url()).await;

        assert!(text.contains("TLS: "), "{what}: {text}");
        assert!(text.contains("certificate"), "{what}: {text}");
    }
}

#[tokio::test]
async fn an_error_of_tls_says_which_option_or_file_to_change() {
    let server = |certificates| Server::options().tls(certificates).start().unwrap();
    let (good, other) = (server(Certificates::good()), server(Certificates::good()));
    let (alone, strict) = (server(Certificates::authority_itself()), server(Certificates::good()));
    assert!(strict.run(&["CONFIG", "SET", "tls-auth-clients", "yes"]).is_ok());
    let file = |server: &Server, name: &str| server.dir().join(name).display().to_string();
    let with_ca = |server: &Server| format!("{}?ca={}", server.tls_url(), file(server, "ca.pem"));
    let (cert, key) = (file(&good, "cert.pem"), file(&other, "key.pem"));

    for (url, server, words) in [
        (good.tls_url(), &good, "name the authority that signed it: ?ca=FILE".to_owned()),
        (
            format!("{}?ca={}", good.tls_url(), file(&other, "ca.pem")),
            &good,
            format!("was not signed by an authority in {}", file(&other, "ca.pem")),
        ),
        (with_ca(&alone), &alone, "give the server a certificate of its own".to_owned()),
        (with_ca(&strict), &strict, "wants a certificate of the client: add cert=FILE".to_owned()),
    ] {
        let text = unfit(&url, &server.tls_url()).await;
        assert!(text.contains(&words) && !text.contains("unreachable"), "{words}: {text}");
    }
    let mixed = Locks::connect([format!("{}&cert={cert}&key={key}", with_ca(&good))]).await;
    let text = mixed.unwrap_err().to_string();
    let words = format!("the key {key} does not belong to the certificate {cert}");
    assert!(text.contains(&words), "{text}");
}

#[tokio::test]
async fn tls_with_the_right_certificate_works() {
    let server = Server::options().tls(Certificates::good()).password("sesame").start().unwrap();
    let url = format!("{}?ca={}", server.tls_url(), server.dir().join("ca.pem").display());
    let locks = patient().node(url).connect().await.unwrap();

    let guard = locks.lock(NAME).await.unwrap();

    assert_eq!(server.keys(), [NAME]);
    guard.release().await.unwrap();
}

#[tokio::test]
async fn plain_text_to_a_tls_port_is_refused_or_unreachable_but_never_trusted() {
    let server = Server::options().tls(Certificates::good()).start().unwrap();

    let plain = Locks::connect([format!("redis://127.0.0.1:{}", server.tls_port())]).await;
    let tls = Locks::connect([format!("rediss://127.0.0.1:{}", server.port())]).await;

    assert!(plain.is_err() && tls.is_err(), "{plain:?} {tls:?}");
}

#[tokio::test]
async fn the_error_reports_tls_on_one_side_only() {
    let server = Server::options().tls(Certificates::good()).start().unwrap();
    let ca = server.dir().join("ca.pem");

    for (url, hint) in [
        (format!("redis://127.0.0.1:{}", server.tls_port()), "rediss://"),
        (
            format!("rediss://127.0.0.1:{}?ca={}", server.port(), ca.display()),
            "is this a TLS port?",
        ),
    ] {
        let locks = patient().node(&url).wait(Duration::ZERO).connect_lazy().unwrap();
        let told = async {
            // On a busy machine, the first error may come before anything was tried.
            loop {
                let connect = patient().node(&url).connect().await.unwrap_err().to_string();
                let lock = locks.lock(NAME).await.unwrap_err().to_string();
                let status = locks.status(NAME).await.unwrap().nodes[0].key.to_string();
                if [connect, lock, status].iter().all(|text| text.contains(hint)) {
                    break;
                }
            }
        };
        in_time(told).await;
    }
}

/// Alone in the process that nextest gives it; under `cargo test` the other
/// tests write into the same log, and are held to the same.
#[tokio::test]
async fn passwords_and_tokens_are_in_no_log_no_debug_and_no_error() {
    let log = Log::everything();
    let fleet = Fleet::with(3, &Server::options().password("sesame"));
    let locks = fleet.builder().connect().await.unwrap();
    let mut shown = vec![format!("{:?} {locks:?}", fleet.builder())];
    let mut tokens = Vec::new();

    let guard = locks.lock(NAME).await.unwrap();
    guard.extend().await.unwrap();
    tokens.push(guard.lock_token().to_vec());
    shown.push(format!("{guard:?} {:?} {:?}", guard.lease(), locks.lock(NAME)));
    shown.push(format!("{:?}", locks.lock(NAME).wait(100 * MS).await));
    shown.push(format!("{:?} {:?}", locks.try_lock(NAME).await, locks.status(NAME).await));
    let parts = guard.into_parts();
    shown.push(format!("{parts:?}"));
    let guard = locks.resume(&parts).await.unwrap();
    fleet.remove_everywhere(NAME);
    shown.push(format!("{:?}", guard.extend().await));
    fleet.servers.kill(&[0, 1]);
    let failed = locks.lock(NAME).await;
    shown.push(format!("{failed:?} {}", failed.as_ref().unwrap_err()));
    let wrong = fleet.servers[2].url_as("default", "sesame-not");
    shown.push(format!("{:?}", Locks::connect([wrong]).await));

    let (text, shown) = (log.text(), shown.concat());
    assert!(text.contains("lock taken") && text.contains("lock not taken"), "{text}");
    for token in &tokens {
        let secret = String::from_utf8_lossy(&token[..40]).into_owned();
        assert!(!text.contains(&secret), "a token in the log");
        assert!(!shown.contains(&secret), "a token shown: {shown}");
        assert!(!shown.contains(&format!("{token:?}")), "a token's bytes shown: {shown}");
    }
    assert!(!text.contains("sesame"), "{text}");
    assert!(!shown.contains("sesame"), "{shown}");
}
