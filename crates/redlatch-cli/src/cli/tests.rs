use super::{Cli, Page};
use crate::{environment::KNOWN, exit, help};
use clap::{CommandFactory as _, Parser as _};
use clap_complete::Shell;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn the_arguments_fit_together() {
    Cli::command().debug_assert();
}

#[test]
fn help_for_a_command_is_its_help() {
    let shown = |line: &str| {
        let typed = line.split(' ').map(Into::into);
        Cli::try_parse_from(super::typed(typed)).unwrap_err().to_string()
    };

    assert_eq!(shown("redlatch help run"), shown("redlatch run --help"));
    assert_eq!(shown("redlatch help"), shown("redlatch --help"));
    assert!(shown("redlatch help nonsense").contains("unrecognized subcommand"));
    assert!(!shown("redlatch run help").contains("COMMAND --help"));
}

#[test]
fn what_run_understands_by_itself_is_what_the_whole_understands() {
    let both = |line: &str| {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        let whole = Cli::try_parse_from(&args).map_err(|error| error.to_string());
        let parsed = super::parse(&args).map_err(|error| error.to_string());
        (format!("{parsed:?}"), format!("{whole:?}"))
    };

    for line in [
        "redlatch run a b --wait 1m --node redis://h -E 3 --quiet -- sh -c x",
        "redlatch run -- -x -- true",
        "redlatch run a --at-least 5s --on-lost kill --log off -- true --help",
        "redlatch run a --wait soon -- true",
        "redlatch run a --nodes x -- true",
        "redlatch run a",
        "redlatch run --help",
        "redlatch run --version",
        "redlatch status a",
        "redlatch rum a -- true",
    ] {
        let (parsed, whole) = both(line);
        assert_eq!(parsed, whole, "{line}");
    }
    let run = |line: &str| super::only_run(&line.split(' ').map(Into::into).collect::<Vec<_>>());
    assert!(run("run a -- true").is_some() && run("run a").is_none());
}

/// Packagers take completions and man pages from `assets`. They are generated from
/// the arguments: `REDLATCH_BLESS=1 cargo test -p redlatch-cli` updates them.
#[test]
fn completions_and_man_pages_are_those_of_the_arguments() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let made = made();
    if std::env::var_os("REDLATCH_BLESS").is_some() {
        let _ = fs::remove_dir_all(&dir);
        for (name, text) in &made {
            fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
            fs::write(dir.join(name), text).unwrap();
        }
    }

    for (name, text) in &made {
        let kept = fs::read_to_string(dir.join(name)).unwrap_or_default();
        assert!(
            kept == *text,
            "assets/{} is out of date: REDLATCH_BLESS=1 makes it anew",
            name.display()
        );
    }
    let kept =
        ["completions", "man"].iter().map(|part| fs::read_dir(dir.join(part)).unwrap().count());
    assert_eq!(kept.sum::<usize>(), made.len(), "there are files in assets that nobody makes");
}

fn made() -> BTreeMap<PathBuf, String> {
    let shells =
        [(Shell::Bash, "redlatch.bash"), (Shell::Zsh, "_redlatch"), (Shell::Fish, "redlatch.fish")];
    let completions = shells.map(|(shell, name)| {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), "redlatch", &mut text);
        (Path::new("completions").join(name), text)
    });
    let pages =
        Page::all().into_iter().map(|page| (Path::new("man").join(page.file()), page.text()));
    let files = completions.into_iter().chain(pages);
    files.map(|(path, text)| (path, String::from_utf8(text).unwrap())).collect()
}

/// The command of a page, by its name in [`help::examples`].
fn commands() -> Vec<String> {
    let root = Cli::command();
    let subs = root.get_subcommands().map(|sub| sub.get_name().to_owned());
    ["redlatch".to_owned()].into_iter().chain(subs).collect()
}

/// The arguments that the shell makes of a line, up to a pipe or a redirection.
fn typed(line: &str) -> Vec<String> {
    let line = line.split(" | ").next().unwrap().split(" > ").next().unwrap();
    let ours = r#"redlatch() { printf '%s\n' redlatch "$@"; }; mkdir() { :; }; lock=HANDLE"#;
    let script = format!("{ours}; {line}");
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap().lines().map(Into::into).collect()
}

#[test]
fn every_command_has_examples_that_can_be_typed_and_its_help_shows_them() {
    for name in commands() {
        let examples = help::examples(&name);
        assert!(!examples.is_empty(), "`{name}` has no example: add one to help.rs");
        let asked = if name == "redlatch" { vec![] } else { vec![&*name] };
        let asked = [&["redlatch"], &asked[..], &["--help"]].concat();
        let shown = Cli::try_parse_from(asked).unwrap_err().to_string();
        for example in examples {
            let typed = typed(example.typed);
            assert!(name == "redlatch" || typed[1] == name, "{example:?}");
            let parsed = Cli::try_parse_from(typed);
            assert!(parsed.is_ok(), "{example:?}: {}", parsed.unwrap_err());
            assert!(shown.contains(example.typed), "{name}: {shown}");
        }
        assert!(shown.contains(exit::help(&name)), "{name}: {shown}");
    }
}

/// The library's documentation has a table of its defaults and ours.
#[test]
fn the_defaults_are_those_that_the_library_documents() {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../redlatch/src/lib.rs");
    let library = fs::read_to_string(library).unwrap();
    let told = |what: &str| {
        let row = library.lines().find(|line| line.starts_with(&format!("//! | {what} | ")));
        row.unwrap().split(" | ").last().unwrap().trim_end_matches(" |").replace(' ', "")
    };
    let help = Cli::try_parse_from(["redlatch", "run", "--help"]).unwrap_err().to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");

    for (what, shown) in [
        ("TTL", "crashed holder [default: {}, at most --max-ttl]"),
        ("wait for a held lock", "or `forever` [default: {}]"),
        ("longest time held", "[default: {}]"),
    ] {
        let shown = shown.replace("{}", &told(what));
        assert!(help.contains(&shown), "{shown:?} is not in the help");
    }
}

/// A section of a man page, without its markup.
fn section(page: &str, title: &str) -> Option<String> {
    let page = page.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\e", "\\");
    let at = page.find(&format!(".SH \"{title}\"\n")).or(page.find(&format!(".SH {title}\n")))?;
    let rest = page[at + 1..].split_once('\n')?.1;
    Some(rest.split("\n.SH").next()?.to_owned())
}

#[test]
fn man_pages_say_what_the_tables_of_the_code_say() {
    for (page, name) in Page::all().iter().zip(commands()) {
        let text = String::from_utf8(page.text()).unwrap();
        let examples = section(&text, "EXAMPLES").unwrap_or_else(|| panic!("{text}"));
        for example in help::examples(&name) {
            assert!(examples.contains(example.typed), "{name}: {examples}");
        }
        let status = section(&text, "EXIT STATUS").unwrap();
        let numbered = exit::help(&name).lines().filter(|line| line.starts_with("  "));
        for line in numbered {
            let (code, what) = line.trim().split_once("  ").unwrap_or(("", line.trim()));
            assert!(status.contains(what.trim()) && status.contains(code), "{name}: {status}");
        }
        assert_eq!(section(&text, "EXTRA"), None);
    }
    let all = String::from_utf8(Page::named("redlatch").unwrap().text()).unwrap();
    let run = String::from_utf8(Page::named("run").unwrap().text()).unwrap();
    let log = String::from_utf8(Page::named("log").unwrap().text()).unwrap();
    let environment = section(&all, "ENVIRONMENT").unwrap();
    for known in KNOWN {
        assert!(environment.contains(known.name) && environment.contains(known.what), "{known:?}");
    }
    assert!(section(&run, "ENVIRONMENT").unwrap().contains("REDLATCH_FENCING_TOKEN"));
    assert!(!section(&log, "ENVIRONMENT").unwrap().contains("REDLATCH_FENCING_TOKEN"));
    let files = section(&run, "FILES").unwrap();
    for file in [
        "redlatch.toml",
        "~/.config/redlatch/redlatch.toml",
        "/etc/redlatch/redlatch.toml",
        "/var/lib/redlatch/locks.db",
        "~/.local/state/redlatch/locks.db",
        "~/.local/state/redlatch/runs.jsonl",
        "/var/log/redlatch/runs.jsonl",
        "DIR/redlatch-USER.prom",
    ] {
        assert!(files.contains(file), "{file}: {files}");
    }
}

/// The names of all variables that a text speaks of.
fn variables(text: &str) -> BTreeSet<&str> {
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    let names = text.match_indices("REDLATCH_").map(|(at, _)| &text[at..]);
    names.map(|rest| &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]).collect()
}

#[test]
fn the_guide_has_every_variable_and_no_other() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let guide = fs::read_to_string(guide).unwrap();

    let mut told = variables(&guide);
    told.remove("REDLATCH_"); // of any name
    assert_eq!(told, KNOWN.iter().map(|known| known.name).collect());
}
