//! Names, owners and commands of any bytes: exact for programs, harmless for people.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
use support::{Ended, Sandbox, json_lines, redlatch};

/// Bytes that are text and bytes that are none, quotes, what a shell or a terminal obeys, and
/// what looks like an escape.
const ODD: [&[u8]; 6] = [
    b"it's \"quoted\" \\ back",
    b"a\nb\x1b[31m",
    "ü \u{202e}evil\u{200b}".as_bytes(),
    b"\\u{202e}\\n%41",
    b"\xff\xfe/x",
    b"-x",
];

fn of(args: &[&str], name: &[u8]) -> Vec<std::ffi::OsString> {
    let args = args.iter().map(|arg| (*arg).into());
    args.chain(["--".into(), OsStr::from_bytes(name).to_owned()]).collect()
}

#[test]
fn what_json_calls_a_lock_is_what_other_commands_find_it_by() {
    let (_servers, sandbox) = Sandbox::with_servers(1);
    for name in ODD {
        redlatch(&sandbox, &of(&["acquire"], name)).exits_with(0);
    }

    let listed = json_lines(&redlatch(&sandbox, &["ls", "--json"]).exits_with(0).stdout);
    let top = redlatch(&sandbox, &["top", "--json", "--once"]).exits_with(0).stdout;
    let top = json_lines(&top)[0]["locks"].as_array().unwrap().clone();

    let mut names: Vec<_> = ODD.map(String::from_utf8_lossy).into();
    names.sort_unstable();
    for locks in [&listed, &top] {
        let mut told: Vec<_> = locks.iter().map(|lock| lock["name"].as_str().unwrap()).collect();
        told.sort_unstable();
        assert_eq!(told, names);
    }
    for (lock, same) in listed.iter().zip(&top) {
        assert_eq!((&lock["id"], &lock["name"]), (&same["id"], &same["name"]));
        let id = lock["id"].as_str().unwrap();
        let status = redlatch(&sandbox, &["status", "--json", "--id", "--", id]).exits_with(121);
        let status = &json_lines(&status.stdout)[0];
        assert_eq!((&status["id"], &status["name"]), (&lock["id"], &lock["name"]), "{status}");
        let name = lock["name"].as_str().unwrap();
        if !name.contains('\u{fffd}') {
            redlatch(&sandbox, &of(&["status"], name.as_bytes())).exits_with(121);
        }
        let log = redlatch(&sandbox, &["log", "--json", "--id", "--", id]).exits_with(0);
        assert_eq!(json_lines(&log.stdout)[0]["task"], "acquire", "{log:?}");
        redlatch(&sandbox, &["release", "--force", "--yes", "--id", "--", id]).exits_with(0);
    }
    assert_eq!(redlatch(&sandbox, &["ls", "--json"]).exits_with(0).stdout, "");
    let refused = redlatch(&sandbox, &["status", "--id", "100%"]).exits_with(125);
    assert!(refused.stderr.contains("100% is not an id"), "{refused:?}");
}

/// The name of a lock, an owner or a command must not fake what an operator reads.
#[test]
fn nothing_that_cannot_be_seen_reaches_a_person() {
    let (servers, sandbox) = Sandbox::with_servers(1);
    let marks = "\u{202a}\u{202e}\u{2066}\u{2069}\u{200b}\u{200f}\u{feff}\u{2060}\u{2028}";
    let name = format!("n{marks}");
    let owner = format!("{}@o\u{202e}\u{200b};user=u\u{2067};command=c\u{feff}", "0".repeat(40));
    let put = || servers[0].run(&["SET", &name, &owner, "PX", "600000"]);
    put();
    let named = |args: &[&str]| redlatch(&sandbox, &of(args, name.as_bytes()));
    let refused = |ended: Ended| ended.stdout + &ended.stderr;

    let shown = [
        refused(named(&["status"]).exits_with(121)),
        refused(redlatch(&sandbox, &["ls"]).exits_with(0)),
        refused(redlatch(&sandbox, &["top", "--once"]).exits_with(0)),
        refused(named(&["acquire"]).exits_with(121)),
        refused(redlatch(&sandbox, &["admit", "--all", "--restart-guard", "on"])),
        refused(named(&["release", "--force", "--yes"]).exits_with(0)),
        refused(named(&["log"]).exits_with(0)),
        refused(redlatch(&sandbox, &["doctor"])),
    ];
    for text in &shown {
        assert!(!text.contains(|c| marks.contains(c) || c == '\u{2067}'), "{text:?}");
    }
    for text in &shown[..4] {
        assert!(text.contains(r"n\u{202a}\u{202e}\u{2066}\u{2069}\u{200b}\u{200f}"), "{text}");
        assert!(text.contains(r"o\u{202e}\u{200b}"), "{text}");
    }
    // For programs, it is what it is.
    put();
    let json = &json_lines(&redlatch(&sandbox, &["ls", "--json"]).exits_with(0).stdout)[0];
    assert_eq!((&json["name"], &json["owner"]), (&name.into(), &"o\u{202e}\u{200b}".into()));
    assert_eq!((&json["user"], &json["command"]), (&"u\u{2067}".into(), &"c\u{feff}".into()));
    let top =
        &json_lines(&redlatch(&sandbox, &["top", "--json", "--once"]).exits_with(0).stdout)[0];
    assert_eq!(top["locks"][0]["command"], "c\u{feff}");
}

#[test]
fn the_log_distinguishes_names_that_are_not_text() {
    let sandbox = Sandbox::embedded();
    for name in [b"\xff", b"\xfe"] {
        redlatch(&sandbox, &of(&["acquire"], name)).exits_with(0);
    }

    let log = redlatch(&sandbox, &["log", "--json", "--id", "%ff"]).exits_with(0).stdout;

    assert_eq!(log.lines().count(), 1, "{log}");
    assert_eq!(json_lines(&log)[0]["ids"], serde_json::json!(["%ff"]), "{log}");
}

#[test]
fn a_pattern_whose_class_has_no_end_is_refused() {
    let sandbox = Sandbox::embedded();
    redlatch(&sandbox, &["acquire", "a[b"]).exits_with(0);

    for open in ["a[b", "[", r"[a\]", "[a]*[b-"] {
        let refused = redlatch(&sandbox, &["ls", open]).exits_with(125);
        assert!(refused.stderr.contains(r"write `\[`"), "{refused:?}");
    }

    for closed in [r"a\[b", "a[[]b", "a?[^c]"] {
        let listed = redlatch(&sandbox, &["ls", "--json", closed]).exits_with(0);
        assert_eq!(json_lines(&listed.stdout).len(), 1, "{closed}: {listed:?}");
    }
}
