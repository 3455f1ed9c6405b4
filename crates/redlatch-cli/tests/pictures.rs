//! What people look for, in `top` in a real tmux and on the page in a real Chromium, side by
//! side: a lock that is taken, one that is waited for, one that was lost, a node that is out.
//!
//! With `REDLATCH_PICTURES=DIR`, it takes the pictures of the guide anew. Make them small:
//! `pngquant --quality 70-95 --strip --force --ext .png DIR/*.png`.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch_testbed::Servers;
use std::fs;
use support::{Sandbox, binary, browser::Browser, http::serve, start, tmux::Tmux};

const PAGE: (u32, u32) = (1100, 770);
/// In columns and rows, and in pixels.
const SCREEN: (u32, u32) = (100, 20);
const WINDOW: (u32, u32) = (880, 410);

/// Pictures of both, if new ones are wanted.
fn pictures(sandbox: &Sandbox, page: &Browser, top: &Tmux, name: &str) {
    page.keep_picture(&format!("web-{name}"));
    if std::env::var_os("REDLATCH_PICTURES").is_some() {
        let path = sandbox.path("screen.html");
        fs::write(&path, top.as_page()).unwrap();
        let screen = Browser::open(&format!("file://{}", path.display()), WINDOW, false);
        screen.keep_picture(&format!("top-{name}"));
    }
}

#[test]
fn top_and_the_page_show_a_lock_taken_waited_for_and_lost_and_a_node_going_out() {
    let servers = Servers::start(3).unwrap();
    let sandbox = Sandbox::guarded_long(&servers);
    start(sandbox.redlatch(["admit", "--all", "--yes"])).end().exits_with(0);
    let (_web, port) = serve(&sandbox, &["web", "--every", "200ms"]);
    let page = Browser::open(&format!("http://127.0.0.1:{port}/"), PAGE, false);
    let script = format!("{} top --every 200ms", binary().display());
    let top = Tmux::open(&sandbox, SCREEN, &script);
    page.shows("h1", "All is well");
    top.shows(&["OK", "votes 3 of 3", "no locks"]);

    let _holder = sandbox.hold("backup --owner web1/4711");
    page.shows("#locks tbody", "web1/4711");
    page.shows("#changes", "taken by web1/4711");
    top.shows(&["locks 1", "backup  web1/4711", "3 of 3", "taken by web1/4711"]);
    // Less than one in a second, once there has been a second.
    top.shows(&["taken 0."]);
    page.shows("#numbers", "Taken per second\n0.");
    pictures(&sandbox, &page, &top, "taken");

    let _waiter = sandbox.run("backup --owner web2/77 --wait 5m", "true");
    page.shows("#numbers", "Waiting in line\n1");
    top.shows(&["waiting 1"]);
    pictures(&sandbox, &page, &top, "waited-for");

    // Nobody renews it.
    let etl = ["acquire", "import", "--owner", "etl-3", "--ttl", "10s"];
    start(sandbox.redlatch(etl)).end().exits_with(0);
    page.shows("#changes", "taken by etl-3");
    top.shows(&["import  etl-3"]);
    page.shows("#changes", "ended: etl-3 had not renewed it");
    page.shows("#numbers .bad", "1");
    top.shows(&["lost 1 since ", "ended: etl-3 had not renewed it"]);
    pictures(&sandbox, &page, &top, "lost");

    servers[2].restart_empty();
    page.shows("h1", "Degraded, but locks work");
    page.shows("#findings", &format!("{}: quarantined", servers[2].url()));
    // Its time begins when a client that holds or wants a lock sees it.
    page.shows("#nodes tbody", " left");
    top.shows(&["DEGRADED", "votes 2 of 3", "s left", "quarantined: it may have forgotten locks"]);
    // Nothing is broken within a word, or cut off.
    let rows =
        "return [...document.querySelectorAll('#nodes tbody tr')].map((row) => row.offsetHeight)";
    let rows = page.run(rows);
    assert!(rows.as_array().unwrap().iter().all(|height| height.as_u64() < Some(45)), "{rows}");
    top.shows(&["redlatch admit --wait", "if no forgotten lock can still"]);
    pictures(&sandbox, &page, &top, "out");
    assert_eq!(page.complaints(), [""; 0]);
}
