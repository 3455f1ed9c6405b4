//! Taking a lock away by force: from the holder that was shown, and from nobody else.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use serde_json::{Value, json};
use support::{
    PATIENCE, Sandbox, eventually,
    http::{PASSWORD, get, post, serve, write_password},
    json_of,
    pty::Terminal,
    redlatch, scraping, start,
};

fn take(sandbox: &Sandbox, name: &str, owner: &str) -> String {
    redlatch(sandbox, &["acquire", name, "--owner", owner]).exits_with(0).stdout
}

/// The lock goes from one owner to another, who may have the same label.
fn change_hands(sandbox: &Sandbox, name: &str, handle: &str, owner: &str) -> String {
    redlatch(sandbox, &["release", handle.trim()]).exits_with(0);
    take(sandbox, name, owner)
}

/// A terminal in which somebody is asked whether to take the lock away.
fn asked(sandbox: &Sandbox, name: &str, owner: &str) -> Terminal {
    let script = format!("redlatch release --force {name}; echo status $?");
    let mut terminal = Terminal::with(sandbox, &["sh", "-c", &script]);
    terminal.shows(&format!("{name} is held by {owner}. Take it away?"));
    terminal.shows("[y/N]");
    terminal
}

#[test]
fn a_lock_that_changes_hands_while_somebody_is_asked_stays() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    for (sandbox, all) in [(Sandbox::embedded(), "the only node"), (sandbox, "3 of 3 nodes")] {
        for next in ["bob", "ada"] {
            let first = take(&sandbox, "x", "ada");
            let mut terminal = asked(&sandbox, "x", "ada");
            let handle = change_hands(&sandbox, "x", &first, next);

            terminal.press("y\n");

            terminal.shows(&format!("x was taken again after it was shown, by {next}"));
            terminal.shows(&format!("is left alone on {all}; nothing was released"));
            terminal.shows("status 121");
            redlatch(&sandbox, &["release", handle.trim()]).exits_with(0);
        }
        take(&sandbox, "x", "ada");
        let mut terminal = asked(&sandbox, "x", "ada");
        terminal.press("y\n");
        terminal.shows("x was held by ada; taken away on ");
        terminal.shows("status 0");
        assert!(sandbox.is_free("x"));
    }
    drop(servers);
}

#[test]
fn only_the_nodes_that_still_have_what_was_shown_lose_it() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "x", "ada");
    let mut terminal = asked(&sandbox, "x", "ada");
    let other = format!("{}@bob", "0".repeat(40));
    servers[1].run(&["SET", "x", &other, "PX", "600000"]);

    terminal.press("y\n");

    terminal.shows("x was held by ada; taken away on 2 of 3 nodes; on 1 of 3 nodes it is bob's");
    terminal.shows("status 0");
    assert_eq!(servers[1].run(&["GET", "x"]).text().as_deref(), Some(&*other));
}

#[test]
fn the_page_releases_the_very_grant_that_it_showed() {
    let (_servers, sandbox) = Sandbox::with_servers(3);
    write_password(&sandbox, PASSWORD, 0o600);
    let first = take(&sandbox, "x", "ada");
    let (_running, port) =
        serve(&sandbox, &["web", "--every", "10ms", "--allow-release-with", "password"]);
    let shown = || get(port, "/lock?id=x").json()["grants"].clone();
    let release = |grants: &Value| {
        post(port, "/release", Some(PASSWORD), &json!({ "id": "x", "grants": grants }).to_string())
    };
    let before = shown();
    let secret = first.split(':').find(|part| part.contains('@')).unwrap();
    assert!(!get(port, "/lock?id=x").body.contains(&secret[..8]), "{before} {secret}");

    change_hands(&sandbox, "x", &first, "ada");
    let refused = release(&before);

    assert_eq!(refused.status, 409, "{refused:?}");
    assert!(refused.body.contains("taken again after it was shown, by ada"), "{refused:?}");
    assert!(!sandbox.is_free("x"));
    eventually(PATIENCE, || shown() != before);
    assert_eq!(release(&shown()).status, 200);
    assert!(sandbox.is_free("x"));
    assert_eq!(release(&json!(["nonsense"])).status, 400);
}

#[test]
fn the_words_of_a_forced_release_may_stand_in_any_order() {
    let sandbox = Sandbox::embedded();
    let orders: [&[&str]; 4] = [
        &["--force", "--yes", "x"],
        &["--force", "x", "--yes"],
        &["x", "--yes", "--force"],
        &["--yes", "--force", "x"],
    ];
    for words in orders {
        take(&sandbox, "x", "ada");

        let ended = redlatch(&sandbox, &[&["release"], words].concat()).exits_with(0);

        assert!(ended.stdout.contains("x was held by ada; taken away"), "{words:?}: {ended:?}");
    }
    // The handle that `release` finds in its environment is no name.
    let mut command = sandbox.redlatch(["release", "--force", "--yes"]);
    command.env("REDLATCH_LOCK", take(&sandbox, "x", "ada").trim());
    let ended = start(command).end().exits_with(125);
    assert!(ended.stderr.contains("which lock? `redlatch release --force NAME`"), "{ended:?}");
    assert!(!sandbox.is_free("x"));
}

/// A forced release that did not reach a node leaves a key there: nobody's lock.
#[test]
fn every_command_says_the_same_of_what_a_forced_release_has_left() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(&sandbox, "x", "ada");
    servers.freeze(&[2]);
    redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(0);
    servers.thaw(&[2]);
    let (_running, port) = scraping::exporter(&sandbox);
    let json = |args: &[&str]| json_of(&redlatch(&sandbox, args).exits_with(0).stdout);

    assert_eq!(json(&["status", "--json", "x"])["state"], "free");
    let listed = json(&["ls", "--json"]);
    assert_eq!((&listed["state"], &listed["nodes"]), (&"free".into(), &1.into()), "{listed}");
    let table = redlatch(&sandbox, &["ls"]).exits_with(0).stdout;
    assert!(table.contains("(free; left by ada)"), "{table}");
    assert_eq!(json(&["top", "--json", "--once"])["locks"][0]["state"], "free");
    let metrics = scraping::scrape(port);
    assert!(metrics.contains("redlatch_locks_unclear 0\n"), "{metrics}");
    // A forced release removes it.
    let rest = redlatch(&sandbox, &["release", "--force", "x", "--yes"]).exits_with(0).stdout;
    assert!(rest.contains("taken away on 1 of 3 nodes"), "{rest}");
    assert_eq!(servers.keys_everywhere(), [[""; 0]; 3]);
}

/// Of nodes that may have forgotten it, `ls` knows no more than `status`.
#[test]
fn what_only_quarantined_nodes_lack_is_unclear_to_every_command() {
    let servers = redlatch_testbed::Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    redlatch(&sandbox, &["admit", "--all", "--yes"]).exits_with(0);
    take(&sandbox, "x", "ada");
    servers[0].restart_empty();
    servers[1].restart_empty();

    let status = redlatch(&sandbox, &["status", "--json", "x"]).exits_with(122).stdout;
    let listed = redlatch(&sandbox, &["ls", "--json"]).exits_with(122).stdout;

    for told in [status, listed] {
        let told = json_of(&told);
        assert_eq!(told["state"], "unclear", "{told}");
    }
}
