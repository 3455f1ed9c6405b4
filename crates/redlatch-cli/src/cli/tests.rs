use super::{Cli, Page};
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

#[test]
fn the_arguments_fit_together() {
    Cli::command().debug_assert();
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
