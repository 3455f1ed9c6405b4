//! `redlatch web` in a real Chromium, as a person sees it.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use support::{
    Running, Sandbox,
    browser::Browser,
    http::{PASSWORD, serve, write_password},
    start,
};

const DESK: (u32, u32) = (1100, 850);
const PHONE: (u32, u32) = (375, 860);

fn take(sandbox: &Sandbox, name: &str, options: &[&str]) {
    // While a browser starts, a disk may take its time.
    let acquire = ["acquire", name, "--wait", "1m"];
    start(sandbox.redlatch([&acquire, options].concat())).end().exits_with(0);
}

/// The page, and where it is.
fn web(sandbox: &Sandbox, options: &[&str]) -> (Running, String) {
    let (running, port) = serve(sandbox, &[&["web", "--every", "200ms"], options].concat());
    (running, format!("http://127.0.0.1:{port}/"))
}

#[test]
fn the_page_shows_a_lock_taken_and_lost_a_node_down_and_that_contact_is_lost() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    let (running, url) = web(&sandbox, &[]);
    let page = Browser::open(&url, DESK, false);
    page.shows("h1", "All is well");
    page.shows("#more", "No locks.");

    let _holder = sandbox.hold("backup --owner web1/4711");
    page.shows("#locks tbody", "backup");
    page.shows("#locks tbody", "web1/4711");
    page.shows("#locks tbody", "command sh");
    page.shows("#changes", "taken by web1/4711");
    let _waiter = sandbox.run("backup --owner web2/77 --wait 5m", "true");
    page.shows("#numbers", "Waiting in line\n1");
    let _more = ["deploy:web", "nightly:report"].map(|name| {
        take(&sandbox, name, &["--owner", "ci-7"]);
    });
    take(&sandbox, "import", &["--owner", "etl-3"]);
    page.shows("#changes", "taken by etl-3");
    servers[0].run(&["DEL", "import"]);
    servers[2].run(&["DEL", "import"]);
    page.shows("#changes", "no majority: 1 of 3 nodes has etl-3's lock");
    page.shows("#findings", "the lock import is free, but 1 of 3 nodes has etl-3's lock");
    let lost = "return document.querySelector('#numbers').lastElementChild.innerText";
    support::eventually(support::PATIENCE, || {
        let shown = page.run(lost).as_str().unwrap_or_default().to_owned();
        shown.starts_with("Lost since ") && shown.ends_with("\n1")
    });
    servers[1].kill();
    page.shows("h1", "Degraded, but locks work");
    page.shows("#findings", &format!("{}: down: ", servers[1].url()));
    page.shows("#nodes tbody", "down");
    assert!(page.run("return document.title").as_str().unwrap().starts_with("(1) Degraded"));
    // What is wrong comes before all else.
    let order = "return document.querySelector('#wrong').compareDocumentPosition(\
                 document.querySelector('#nodes')) & Node.DOCUMENT_POSITION_FOLLOWING";
    assert_ne!(page.run(order), 0);
    page.click("#locks [data-key=backup] .name");
    page.shows("#lock-nodes", "down: ");
    page.shows("#waiters", "web2/77");
    page.click("#close");
    servers[2].kill();
    page.shows("h1", "No lock can be taken");
    page.shows("#numbers", "Waiting in line\n?");
    page.click("#locks [data-key=backup] .name");
    page.shows("#line-title", "Waiting in line: not known without a majority");
    page.click("#close");
    assert_eq!(page.complaints(), [""; 0]);

    drop(running);
    page.shows("#contact", "No contact with redlatch web since");
    assert_eq!(page.run("return document.body.className"), "lost");
}

#[test]
fn names_are_shown_as_they_are_and_mean_nothing_to_the_browser() {
    let sandbox = Sandbox::embedded();
    let evil = "<img src=x onerror=\"window.evil=1\"><script>window.evil=1</script>\n\x1b[31m";
    take(&sandbox, evil, &["--owner", "\u{202e}<b>eve</b>"]);
    let (_running, url) = web(&sandbox, &[]);
    let page = Browser::open(&url, DESK, false);

    page.shows("#locks tbody", "<script>window.evil=1</script>");
    page.shows("#locks tbody", "</script>\\n\\u{1b}[31m");
    page.shows("#locks tbody", "\\u{202e}<b>eve</b>");
    page.click("#locks .name");
    page.shows("#lock-title", "<script>window.evil=1</script>");
    page.shows("#lock-nodes", "held by \\u{202e}<b>eve</b>");

    assert!(page.run("return window.evil ?? null").is_null());
    assert_eq!(page.run("return document.querySelectorAll('main img, main script, b').length"), 0);
    assert_eq!(page.complaints(), [""; 0]);
}

#[test]
fn locks_are_found_sorted_and_released_with_the_password_only() {
    let sandbox = Sandbox::embedded();
    write_password(&sandbox, PASSWORD, 0o600);
    take(&sandbox, "alpha", &["--owner", "zoe"]);
    take(&sandbox, "beta", &["--owner", "ada"]);
    let (_running, url) = web(&sandbox, &["--allow-release-with", "password"]);
    let page = Browser::open(&url, DESK, true);
    page.shows("#locks tbody", "beta");

    page.click("#locks th:nth-child(2) button");
    let sorted = "return document.querySelector('#locks th:nth-child(2)').ariaSort + \
                  document.querySelector('#locks tbody th').innerText";
    support::eventually(support::PATIENCE, || page.run(sorted) == "ascendingbeta");
    page.type_into("#filter", "ALPH");
    page.shows("#more", "1 of 2 match.");
    page.click("#locks .name");
    page.shows("#lock-state", "Held by zoe");
    page.type_into("#password", "not the password at all");
    page.click("#release button");
    page.shows("#released", "this is not the password");
    assert!(!sandbox.is_free("alpha"));
    // What was typed for zoe does not reach who comes after her.
    page.type_into("#password", PASSWORD);
    start(sandbox.redlatch(["release", "--force", "--yes", "alpha"])).end().exits_with(0);
    take(&sandbox, "alpha", &["--owner", "kim"]);
    page.shows("#lock-state", "Held by kim");
    page.shows("#released", "It has changed hands while you typed. Look again.");
    assert_eq!(page.run("return document.querySelector('#password').value"), "");
    page.type_into("#password", PASSWORD);
    page.click("#release button");
    page.shows("#released", "taken away on the only node");
    assert_eq!(page.text("#released"), "alpha was held by kim; taken away on the only node");

    assert!(sandbox.is_free("alpha"));
    assert!(!sandbox.is_free("beta"));
    page.shows("#lock-state", "Free");
    let kept =
        "return document.cookie + JSON.stringify({...localStorage, ...sessionStorage}) + location";
    assert!(!page.run(kept).as_str().unwrap().contains(PASSWORD));
}

#[test]
fn a_phone_shows_all_of_it_without_scrolling_sideways() {
    let (servers, sandbox) = Sandbox::with_servers(3);
    take(
        &sandbox,
        "nightly:export-of-everything-to-the-archive",
        &["--owner", "web1.example/4711"],
    );
    take(&sandbox, "backup", &["--owner", "db2/991"]);
    servers[2].kill();
    let (_running, url) = web(&sandbox, &[]);

    let page = Browser::open(&url, PHONE, true);

    page.shows("#locks tbody", "nightly:export");
    page.shows("#findings", "down");
    let widths = "return [document.documentElement.scrollWidth, innerWidth]";
    assert_eq!(page.run(widths), serde_json::json!([PHONE.0, PHONE.0]));
    page.keep_picture("web-phone");
}
