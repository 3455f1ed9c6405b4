//! `redlatch web`: what it sends to a browser, and what a browser may do.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Server;
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, net::TcpStream, path::Path, thread};
use support::{
    Ended, PATIENCE, Running, Sandbox, eventually,
    http::{PASSWORD, get, post, send, serve, write_password},
    start,
};

fn take(sandbox: &Sandbox, name: &str, owner: &str) {
    start(sandbox.redlatch(["acquire", name, "--owner", owner])).end().exits_with(0);
}

fn web(sandbox: &Sandbox, options: &[&str]) -> (Running, u16) {
    serve(sandbox, &[&["web", "--every", "100ms"], options].concat())
}

/// With a password that allows to release locks.
fn web_with_password(sandbox: &Sandbox) -> (Running, u16) {
    write_password(sandbox, PASSWORD, 0o600);
    web(sandbox, &["--allow-release-with", "password"])
}

fn snapshot(port: u16) -> Value {
    get(port, "/snapshot").json()
}

/// The words of what happened recently, newest first.
fn recently(port: u16) -> Vec<String> {
    let seen = snapshot(port);
    let changes = seen["changes"].as_array().unwrap().iter();
    changes.map(|change| format!("{} {}", change["name"], change["words"])).collect()
}

/// The names of all fields, however deep.
fn fields(json: &Value, into: &mut BTreeSet<String>) {
    match json {
        Value::Object(object) => {
            into.extend(object.keys().cloned());
            object.values().for_each(|value| fields(value, into));
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        _ => {}
    }
}

/// What the guide names in its table of the JSON.
fn documented() -> BTreeSet<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, table) = guide.split_once("The JSON of `top --json`, and of the page").unwrap();
    let (table, _) = table.split_once("\n## ").unwrap();
    table.split('`').skip(1).step_by(2).map(Into::into).collect()
}

#[test]
fn the_guide_names_every_field_of_the_snapshot() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    // The address is included if the node has a name.
    let named = format!("{}?name=a", servers[0].url());
    let nodes = ["--node", &named, "--node", &servers[1].url(), "--node", &servers[2].url()];
    let (_running, port) = web(&sandbox, &nodes);
    snapshot(port);
    let take = ["acquire", "x", "--owner", "ada"];
    start(sandbox.redlatch([&take[..], &nodes].concat())).end().exits_with(0);
    eventually(PATIENCE, || snapshot(port)["held"] == 1);
    servers[2].kill();
    let mut seen = Value::Null;
    eventually(PATIENCE, || {
        seen = snapshot(port);
        seen["votes"] == 2 && !seen["rates"].is_null()
    });

    let mut told = BTreeSet::new();
    fields(&seen, &mut told);
    assert!(told.contains("address") && told.contains("taken_per_second"), "{seen}");
    let missing: Vec<_> = told.difference(&documented()).cloned().collect();
    assert_eq!(missing, [""; 0], "the guide does not name them");
}

#[test]
fn the_snapshot_shows_locks_nodes_and_what_is_wrong() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let (_running, port) = web(&sandbox, &[]);
    assert_eq!(snapshot(port)["findings"], json!([]));

    take(&sandbox, "<script>alert(1)</script>\n\x1b[31m", "<b>ada</b>");
    eventually(PATIENCE, || snapshot(port)["held"] == 1);
    servers[0].kill();
    eventually(PATIENCE, || snapshot(port)["votes"] == 2);

    let answer = get(port, "/snapshot");
    let seen = answer.json();
    assert!(answer.head.contains("Content-Type: application/json\r\n"), "{answer:?}");
    assert!(answer.head.contains("X-Content-Type-Options: nosniff"), "{answer:?}");
    let lock = &seen["locks"][0];
    assert_eq!(lock["name"], "<script>alert(1)</script>\n\x1b[31m");
    assert_eq!(lock["owner"], "<b>ada</b>");
    assert_eq!(lock["nodes"], 2);
    assert_eq!(seen["nodes"][0]["standing"], "down");
    assert_eq!(seen["findings"][0]["node"], servers[0].url());
    assert!(recently(port)[0].contains("down: "), "{:?}", recently(port));
    let one = get(port, &format!("/lock?id={}", lock["id"].as_str().unwrap())).json();
    assert_eq!(one["nodes"][0]["state"], "down");
    assert_eq!(one["nodes"][1]["state"], "held");
    assert!(one["fencing_token"].is_u64(), "{one}");
    assert_eq!(get(port, "/snapshot?filter=nothing").json()["locks"], json!([]));
    assert_eq!(get(port, "/snapshot?filter=SCRIPT%3E").json()["matching"], 1);
    assert_eq!(get(port, "/lock?id=%4").status, 400);
    assert_eq!(get(port, "/lock").status, 400);
}

#[test]
fn without_a_majority_nothing_is_known_of_locks_and_afterwards_what_may_be_lost() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    for name in ["backup", "import"] {
        take(&sandbox, name, "ada");
    }
    let (_running, port) = web(&sandbox, &[]);
    let first = snapshot(port);
    assert_eq!((&first["held"], &first["losses"]), (&json!(2), &Value::Null));
    eventually(PATIENCE, || snapshot(port)["losses"].is_object());
    let before = snapshot(port)["losses"].clone();
    assert_eq!(before, json!({ "since": first["time"], "lost": 0, "unseen": 0 }));

    servers.kill(&[1, 2]);
    eventually(PATIENCE, || snapshot(port)["votes"] == 1);
    let seen = snapshot(port);
    for field in ["held", "waiting", "rates", "losses"] {
        assert_eq!(seen[field], Value::Null, "{field}: {seen}");
    }
    assert_eq!(seen["locks"][0]["waiters"], Value::Null, "{seen}");
    servers.kill(&[0]);
    servers.iter().for_each(Server::restart_empty);
    take(&sandbox, "backup", "bob");

    eventually(PATIENCE, || snapshot(port)["held"] == 1);
    let seen = snapshot(port);
    assert_eq!(seen["losses"], json!({ "since": first["time"], "lost": 0, "unseen": 2 }));
    let told = recently(port).join("\n");
    assert!(told.contains(r#""backup" "taken by bob""#), "{told}");
    for name in ["backup", "import"] {
        let gone = "ada's lock is gone during the outage: released or lost, nobody could see";
        assert!(told.contains(&format!("\"{name}\" \"{gone}\"")), "{told}");
    }
    assert_eq!(seen["findings"][0]["level"], "warning", "{seen}");
}

#[test]
fn a_lock_that_servers_forget_between_two_looks_is_not_called_free() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "backup", "ada");
    let (_running, port) = web(&sandbox, &[]);
    assert_eq!(snapshot(port)["held"], 1);

    // Nobody is viewing the page in the meantime.
    servers.kill(&[0, 1, 2]);
    servers.iter().for_each(Server::restart_empty);
    eventually(PATIENCE, || snapshot(port)["held"] == 0);

    let told = recently(port).join("\n");
    let gone = "ada's lock is gone during the outage: released or lost, nobody could see";
    assert!(told.contains(&format!("\"backup\" \"{gone}\"")), "{told}");
    assert!(told.contains("restarted: it may have forgotten locks"), "{told}");
    assert_eq!(snapshot(port)["losses"]["unseen"], 1);
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_runs_nothing_but_its_own_script() {
    let sandbox = Sandbox::embedded();
    let (running, port) = web(&sandbox, &[]);
    let page = get(port, "/");

    assert_eq!(page.status, 200);
    for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
        assert!(page.head.contains(rule), "{}", page.head);
    }
    assert!(!page.head.contains("unsafe"), "{}", page.head);
    let all = ["/", "/page.css", "/page.js", "/icon.svg"].map(|path| get(port, path));
    for part in &all {
        assert_eq!(part.status, 200);
        let body = part.body.replace("http://www.w3.org/2000/svg", "");
        assert!(!body.contains("http:") && !body.contains("https:"), "{body}");
        assert!(!body.contains("innerHTML") && !body.contains("eval("), "{body}");
    }
    assert!(!page.body.contains("<script>") && !page.body.contains(" onclick="));
    assert!(!page.body.contains("<style") && !page.body.contains(" style="));
    assert_eq!(get(port, "/else").status, 404);
    running.signal("TERM");
    running.end().exits_with(0);
}

#[test]
fn other_sites_and_other_names_are_refused() {
    let sandbox = Sandbox::embedded();
    take(&sandbox, "x", "ada");
    let (_running, port) = web_with_password(&sandbox);
    let ours = format!("127.0.0.1:{port}");
    let get = |host: &str, more: &str| {
        send(port, &format!("GET /snapshot HTTP/1.1\r\nHost: {host}\r\n{more}\r\n"))
    };

    assert_eq!(get(&ours, "").status, 200);
    assert_eq!(get("localhost", "").status, 200);
    let refused = [
        get("evil.example", ""),
        get(&format!("evil.example:{port}"), ""),
        get(&ours, "Origin: http://evil.example\r\n"),
        get(&ours, "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n"),
    ];
    for answer in refused {
        assert!([403, 421].contains(&answer.status), "{answer:?}");
        assert!(!answer.body.contains("ada"), "{answer:?}");
        assert!(!answer.head.contains("Access-Control"), "{answer:?}");
    }
    let body = r#"{"id":"x","grants":[]}"#;
    for (kind, origin) in [
        ("application/json", "Origin: http://evil.example\r\n".to_owned()),
        ("application/json", String::new()),
        ("text/plain", format!("Origin: http://{ours}\r\n")),
    ] {
        let answer = send(
            port,
            &format!(
                "POST /release HTTP/1.1\r\nHost: {ours}\r\n{origin}Content-Type: {kind}\r\n\
                 Authorization: Bearer {PASSWORD}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        );
        assert!([403, 415].contains(&answer.status), "{answer:?}");
    }
    assert!(!sandbox.is_free("x"));
}

#[test]
fn without_a_password_nothing_can_be_changed() {
    let sandbox = Sandbox::embedded();
    take(&sandbox, "x", "ada");
    let (_running, port) = web(&sandbox, &[]);

    let answer = post(port, "/release", Some(""), r#"{"id":"x","grants":[]}"#);

    assert_eq!(answer.status, 403, "{answer:?}");
    assert_eq!(snapshot(port)["may_release"], false);
    assert_eq!(get(port, "/release").status, 405);
    assert_eq!(post(port, "/snapshot", None, "{}").status, 405);
    assert!(!sandbox.is_free("x"));
}

#[test]
fn with_the_password_a_lock_is_released_and_that_is_on_record() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "x/\u{e4} ", "ada");
    let (_running, port) = web_with_password(&sandbox);
    assert_eq!(snapshot(port)["may_release"], true);
    let id = snapshot(port)["locks"][0]["id"].as_str().unwrap().to_owned();
    let grants = get(port, &format!("/lock?id={id}")).json()["grants"].clone();
    let wish = |grants: &Value| json!({ "id": id, "grants": grants }).to_string();

    for wrong in [None, Some(""), Some("0123456789abcdef-secreT"), Some("0")] {
        assert_eq!(post(port, "/release", wrong, &wish(&grants)).status, 401, "{wrong:?}");
    }
    let in_url = format!("/release?password={PASSWORD}");
    assert_eq!(post(port, &in_url, None, &wish(&grants)).status, 401);
    assert_eq!(post(port, "/release", Some(PASSWORD), "nonsense").status, 400);
    let other = post(port, "/release", Some(PASSWORD), &wish(&json!(["0123456789abcdef"])));
    assert_eq!(other.status, 409, "{other:?}");
    assert!(!sandbox.is_free("x/\u{e4} "), "{other:?}");
    let released = post(port, "/release", Some(PASSWORD), &wish(&grants));

    assert_eq!(released.status, 200, "{released:?}");
    assert!(released.body.contains("taken away on 3 of 3 nodes"), "{released:?}");
    assert!(sandbox.is_free("x/\u{e4} "));
    let log = start(sandbox.redlatch(["log", "--json"])).end().exits_with(0);
    assert!(log.stdout.contains(r#""task":"force-release""#), "{log:?}");
    assert!(log.stdout.contains("held by ada"), "{log:?}");
    let said = fs::read_to_string(sandbox.path("stderr")).unwrap();
    assert!(!said.contains(PASSWORD) && !log.stdout.contains(PASSWORD), "{said}");
}

#[test]
fn a_password_that_others_know_or_could_guess_is_refused() {
    let sandbox = Sandbox::embedded();
    let refused = |listen: &str| -> Ended {
        let options = ["web", "--allow-release-with", "password", "--listen", listen];
        start(sandbox.redlatch(options)).end().exits_with(125)
    };
    assert!(refused("127.0.0.1:0").stderr.contains("No such file"));
    write_password(&sandbox, PASSWORD, 0o640);
    assert!(refused("127.0.0.1:0").stderr.contains("chmod 600"));
    write_password(&sandbox, "short", 0o600);
    assert!(refused("127.0.0.1:0").stderr.contains("too short"));
    write_password(&sandbox, "long enough, but in words", 0o600);
    assert!(refused("127.0.0.1:0").stderr.contains("one line"));
    write_password(&sandbox, PASSWORD, 0o600);
    assert!(refused("0.0.0.0:0").stderr.contains("needs an address of this machine"));
}

#[test]
fn a_value_that_makes_no_sense_harms_nothing() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    let (_running, port) = web(&sandbox, &[]);
    let token = "0".repeat(40);
    for (name, value) in [
        ("late", format!("{token}@eve;since={}", u64::MAX)),
        ("text", "not a token at all".to_owned()),
        ("bytes", format!("{token}@\u{0}\u{1b}[31m;pid=x;;;")),
    ] {
        servers[0].run(&["SET", name, &value, "PX", "3600000"]);
    }

    eventually(PATIENCE, || snapshot(port)["total"].as_u64() >= Some(1));

    let seen = snapshot(port);
    assert_eq!(seen["locks"].as_array().unwrap().last().unwrap()["name"], "late", "{seen}");
    assert!(seen["locks"].to_string().contains("9999-12-"), "{seen}");
    for name in ["late", "text", "bytes"] {
        assert_eq!(get(port, &format!("/lock?id={name}")).status, 200, "{name}");
        start(sandbox.redlatch(["status", "--json", name])).end().exits_with(121);
    }
    start(sandbox.redlatch(["ls", "--json"])).end().exits_with(0);
    start(sandbox.redlatch(["top", "--json", "--once"])).end().exits_with(0);
}

/// How often the server was asked for its locks.
fn listings(server: &Server) -> u64 {
    let stats = server.run(&["INFO", "commandstats"]).text().unwrap_or_default();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
    line.and_then(|line| line.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn however_many_look_the_nodes_are_asked_once() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    take(&sandbox, "x", "ada");
    let (_running, port) = serve(&sandbox, &["web", "--every", "1h"]);
    let before = listings(&servers[0]);
    // Browsers keep connections that they do not use.
    let idle: Vec<_> = (0..100).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();

    let viewers: Vec<_> = (0..100).map(|_| thread::spawn(move || snapshot(port))).collect();
    for viewer in viewers {
        assert_eq!(viewer.join().unwrap()["held"], 1);
    }

    assert_eq!(listings(&servers[0]) - before, 1);
    drop(idle);
}
