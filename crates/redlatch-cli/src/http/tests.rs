use super::*;
use std::{
    io::{Read as _, Write as _},
    net::SocketAddr,
};

/// The path that is answered, or the status of the refusal.
fn checked(head: &str) -> String {
    match Hosts(Vec::new()).check(head.trim_end()) {
        Ok((question, _)) => question.path,
        Err(refusal) => refusal.status[..3].to_owned(),
    }
}

#[test]
fn only_our_names_and_addresses_are_answered() {
    let hosts = Hosts(vec!["db1.example".into()]);
    for ours in ["localhost", "LOCALHOST:9734", "127.0.0.1:1", "[::1]:9734", "::1", "db1.example"] {
        assert!(hosts.is_ours(ours), "{ours}");
    }
    for other in ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ":80"] {
        assert!(!hosts.is_ours(other), "{other}");
    }
}

#[test]
fn only_a_plain_question_with_one_host_is_answered() {
    let host = "Host: localhost\r\n\r\n";
    assert_eq!(checked(&format!("GET /metrics?x=1 HTTP/1.1\r\n{host}")), "/metrics");
    assert_eq!(checked(&format!("DELETE /metrics HTTP/1.1\r\n{host}")), "405");
    assert_eq!(checked("GET /metrics HTTP/1.1\r\n\r\n"), "400");
    assert_eq!(checked(&format!("GET / HTTP/1.1\r\nHost: a\r\n{host}")), "400");
    assert_eq!(checked("GET / HTTP/1.1\r\nhost: evil.example\r\n\r\n"), "421");
    assert_eq!(checked("nonsense"), "400");
}

#[test]
fn a_page_of_another_site_gets_no_answer() {
    let get = |more: &str| checked(&format!("GET /x HTTP/1.1\r\nHost: 127.0.0.1:80\r\n{more}"));
    assert_eq!(get("Origin: http://127.0.0.1:80"), "/x");
    assert_eq!(get("Origin: https://127.0.0.1:80"), "/x", "behind a proxy with TLS");
    for other in ["http://evil.example", "http://127.0.0.1", "http://127.0.0.1:8080", "null", ""] {
        assert_eq!(get(&format!("Origin: {other}")), "403", "{other}");
    }
    assert_eq!(get("Sec-Fetch-Site: same-origin"), "/x");
    assert_eq!(get("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate"), "/x", "a link");
    assert_eq!(get("Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors"), "403");
    assert_eq!(get("Sec-Fetch-Site: same-site"), "403");
}

#[test]
fn only_a_page_of_ours_can_post_and_only_json() {
    let post = |more: &str| checked(&format!("POST /x HTTP/1.1\r\nHost: localhost\r\n{more}"));
    let ours = "Origin: http://localhost\r\n";
    let json = "Content-Type: application/json\r\n";
    assert_eq!(post(&format!("{ours}{json}Content-Length: 10")), "/x");
    assert_eq!(post(json), "403", "it does not say where it comes from");
    assert_eq!(post(&format!("Origin: http://evil.example\r\n{json}")), "403");
    assert_eq!(post(&format!("{ours}Content-Type: text/plain")), "415");
    assert_eq!(post(ours), "415");
    assert_eq!(post(&format!("{ours}{json}Content-Length: 10000000")), "413");
    assert_eq!(post(&format!("{ours}{json}Content-Length: -1")), "400");
    assert_eq!(post(&format!("{ours}{json}Transfer-Encoding: chunked")), "400");
}

/// Connects, and says this.
fn say(address: SocketAddr, words: &str) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(words.as_bytes()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// The clock stands still while the clients are connected, so nobody is served just
/// because somebody else's time is up.
#[tokio::test(start_paused = true)]
async fn clients_that_ask_half_a_question_or_do_not_read_keep_nobody_waiting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let long = "x".repeat(20_000_000);
    let answer = move |question: Question| {
        let body = if question.path == "/long" { long.clone() } else { "here".into() };
        async { Answer::new("text/plain", body) }
    };
    let server = tokio::spawn(serve(listener, Vec::new(), answer));

    let clients = tokio::task::spawn_blocking(move || {
        let question = |path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let deaf: Vec<_> = (0..5).map(|_| say(address, &question("/long"))).collect();
        let slow: Vec<_> = (0..MOST + 40).map(|_| say(address, "GET / HTTP/1.1\r\n")).collect();
        let mut told = String::new();
        say(address, &question("/")).read_to_string(&mut told).unwrap();
        drop((deaf, slow));
        told
    });

    assert!(clients.await.unwrap().ends_with("here"));
    server.abort();
}
