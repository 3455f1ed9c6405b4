//! The man pages, generated from the arguments and from the tables of the code.

mod sections;

use crate::{cli::Cli, exit::Exit, failure::Failure};
use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use std::{fs, path::Path};

/// Writes all pages into a directory, creating it if necessary.
pub(crate) fn install(dir: &Path) -> Result<(), Failure> {
    let refused = |path: &Path, error| {
        Failure::new(Exit::Failed, format!("could not write {}: {error}", path.display()))
    };
    fs::create_dir_all(dir).map_err(|error| refused(dir, error))?;
    for page in Page::all() {
        let path = dir.join(page.file());
        fs::write(&path, page.text()).map_err(|error| refused(&path, error))?;
    }
    Ok(())
}

/// One page: `redlatch`, or `redlatch-run` and so on.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    name: String,
    command: Box<Command>,
}

impl Page {
    /// All pages; that of `redlatch` is first.
    pub(crate) fn all() -> Vec<Page> {
        let mut root = Cli::command();
        root.build();
        let sub = |sub: &Command| Page {
            name: format!("redlatch-{}", sub.get_name()),
            command: Box::new(sub.clone()),
        };
        let subs: Vec<_> = root.get_subcommands().map(sub).collect();
        [Page { name: "redlatch".into(), command: Box::new(root) }]
            .into_iter()
            .chain(subs)
            .collect()
    }

    /// Finds a page by name; `run` is short for `redlatch-run`.
    pub(crate) fn named(name: &str) -> Result<Page, String> {
        let all = Page::all();
        let is_it = |page: &&Page| page.name == name || page.short() == name;
        all.iter().find(is_it).cloned().ok_or_else(|| {
            let names: Vec<_> = all.iter().map(Page::short).collect();
            format!("there is no such page, only {}", names.join(", "))
        })
    }

    /// The name of its file.
    pub(crate) fn file(&self) -> String {
        format!("{}.1", self.name)
    }

    /// The page in `man`'s format.
    pub(crate) fn text(&self) -> Vec<u8> {
        // No version, so that a release doesn't change every page. What ends `--help`
        // has sections of its own here.
        let command = Command::clone(&self.command).version(None::<&str>).after_help(None::<&str>);
        let own = sections::of(&command, self.name == "redlatch").render();
        let mut text = Vec::new();
        // Writing to memory cannot fail.
        let _ = Man::new(command).source("Redlatch").render(&mut text);
        // Each text begins with the same lines, before its first section.
        let own = own.find(".SH").map_or("", |first| &own[first..]);
        text.extend_from_slice(own.as_bytes());
        text
    }

    fn short(&self) -> &str {
        self.name.strip_prefix("redlatch-").unwrap_or(&self.name)
    }
}
