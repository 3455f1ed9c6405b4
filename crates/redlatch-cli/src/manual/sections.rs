//! The sections that man pages have beyond the arguments.
//!
//! In:  a command. Out: what of the tables that the code itself uses matters to it.

use crate::{
    config, environment, exit, help, settings,
    share::{FILE, PLACE},
    trace::usual_place,
};
use clap::Command;
use clap_mangen::roff::{Roff, bold, roman};
use std::path::{Path, PathBuf};

/// EXIT STATUS, ENVIRONMENT, FILES, EXAMPLES and SEE ALSO of a command's page.
pub(super) fn of(command: &Command, is_root: bool) -> Roff {
    let name = command.get_name();
    let mut roff = Roff::new();
    exit_status(&mut roff, exit::help(name));
    let matters = |with: &str| {
        is_root || command.get_arguments().any(|argument| argument.get_id().as_str() == with)
    };
    let variables = environment::KNOWN.iter().filter(|variable| matters(variable.with));
    list(&mut roff, "ENVIRONMENT", variables.map(|it| (it.name.to_owned(), it.what.to_owned())));
    let files = files().into_iter().filter(|file| matters(file.with));
    list(&mut roff, "FILES", files.map(|file| (file.path, file.what.to_owned())));
    let examples = help::examples(name).iter();
    list(&mut roff, "EXAMPLES", examples.map(|it| (it.typed.to_owned(), it.what.to_owned())));
    if !is_root {
        roff.control("SH", ["SEE ALSO"]).text([bold("redlatch"), roman("(1)")]);
    }
    roff
}

/// The numbers are those of `--help`; the line without one follows them.
fn exit_status(roff: &mut Roff, help: &str) {
    let lines = help.lines().skip(1).map(str::trim);
    let (numbered, words): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let pairs = numbered.into_iter().filter_map(|line| line.split_once("  "));
    let pairs = pairs.map(|(code, what)| (code.to_owned(), what.trim().to_owned()));
    list(roff, "EXIT STATUS", pairs);
    for line in words {
        roff.control("PP", []).text([roman(line)]);
    }
}

fn list(roff: &mut Roff, title: &str, rows: impl Iterator<Item = (String, String)>) {
    let mut rows = rows.peekable();
    if rows.peek().is_some() {
        roff.control("SH", [title]);
    }
    for (term, what) in rows {
        roff.control("TP", []).text([bold(term)]).text([roman(what)]);
    }
}

struct FileEntry {
    path: String,
    /// As for variables.
    with: &'static str,
    what: &'static str,
}

/// The files, where the code looks for them.
fn files() -> Vec<FileEntry> {
    let home = Path::new("/~");
    let own = |path: Option<PathBuf>| path.map(|path| shown(&path)).unwrap_or_default();
    let entry = |path: String, with, what| FileEntry { path, with, what };
    let told = ["The user's, if there is none; see $XDG_CONFIG_HOME.", "The system's."];
    let places = config::places(None, Some(home.into()));
    let places = places.iter().zip(told).map(|(place, told)| entry(shown(place), "config", told));
    let here = entry(config::NAME.into(), "config", "The config file, in the working directory.");
    let mut files: Vec<_> = [here].into_iter().chain(places).collect();
    let locks = |is_root| own(settings::embedded_path(is_root, None, Some(home)));
    let log = |is_root| own(usual_place(is_root, None, Some(home)));
    files.extend([
        entry(
            format!("{PLACE}/{FILE}"),
            "nodes",
            "The locks of root, and of all members of its group if the directory has mode 2770, if no nodes are named.",
        ),
        entry(locks(false), "nodes", "The locks of any other user; see $XDG_STATE_HOME."),
        entry(log(false), "log", "What came of every attempt; see $XDG_STATE_HOME. Its predecessor ends with .1."),
        entry(log(true), "log", "The same for root."),
        entry("DIR/redlatch-USER.prom".into(), "metrics_dir", "Metrics for node_exporter."),
    ]);
    files
}

/// Relative to the user's home.
fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    text.strip_prefix('/').filter(|rest| rest.starts_with('~')).unwrap_or(&text).to_owned()
}
