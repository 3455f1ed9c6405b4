//! Everything that `docs/recipes.md` and the guide tell people to paste works: each recipe
//! is a file, and is run here as cron, systemd, CI, Kubernetes or a container would.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod ci;
mod container;
mod cron;
mod kubernetes;
#[path = "../support/mod.rs"]
mod support;
mod systemd;

use redlatch::node::REDIS_PERMISSIONS;
use redlatch_testbed::{Server, Servers};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use support::{PATIENCE, Running, Sandbox, binary, child_of, eventually, start};
use yaml_rust2::{Yaml, YamlLoader};

const ADDRESSES: &str = "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";

/// How long nightly jobs wait, and how long here, where another has the lock.
const WAIT: &str = "--wait 3m";
const SHORT: &str = "--wait 1s";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn recipe(name: &str) -> String {
    fs::read_to_string(docs().join("recipes").join(name)).unwrap()
}

/// Three servers and a place for the programs of a recipe.
struct Scene {
    servers: Servers,
    sandbox: Sandbox,
}

impl Scene {
    fn new() -> Self {
        let (servers, sandbox) = Sandbox::with_servers(3);
        Scene { servers, sandbox }
    }

    /// Puts a script where a recipe expects a program, and returns its path here.
    fn program(&self, name: &str, script: &str) -> String {
        let path = self.sandbox.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// The text with the paths and addresses of this place.
    fn here(&self, text: &str, programs: &[(&str, &str)]) -> String {
        let mut text = text.replace("/usr/bin/redlatch", binary().to_str().unwrap());
        for (name, path) in programs {
            assert!(text.contains(name), "{name} is not in\n{text}");
            text = text.replace(name, path);
        }
        text.replace(ADDRESSES, &self.servers.urls().join(","))
    }

    /// A program with this environment and nothing of ours, but for the restart guard,
    /// which would quarantine new servers for a minute, and root's log, which would be
    /// the machine's.
    fn bare(&self, program: &str, variables: &BTreeMap<String, String>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.sandbox.dir()).env("HOME", self.sandbox.dir());
        command.env("REDLATCH_RESTART_GUARD", "off").env("XDG_STATE_HOME", self.sandbox.dir());
        command.envs(variables);
        command
    }

    /// Waits until somebody is in line for the lock.
    #[track_caller]
    fn has_a_waiter(&self, name: &str) {
        eventually(PATIENCE, || {
            let status = self.sandbox.redlatch(["status", name, "--json"]).output().unwrap();
            String::from_utf8_lossy(&status.stdout).contains("\"waiters\":1")
        });
    }

    /// How often a script has written a line.
    fn lines(&self, file: &str) -> usize {
        fs::read_to_string(self.sandbox.path(file)).unwrap_or_default().lines().count()
    }
}

/// Where containers and CI find programs.
fn path() -> String {
    format!("{}:/usr/bin:/bin", binary().parent().unwrap().display())
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// Ends a run whose command is done, and which keeps the lock for `--at-least`.
fn interrupt_at_least(running: Running) {
    let pid = running.pid();
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    // Some shells become the last command.
    support::send("TERM", if name.trim() == "sh" { child_of(pid) } else { pid });
    let ended = running.end().exits_with(0);
    assert!(ended.stderr.contains("--at-least"), "{ended:?}");
}

fn yaml(text: &str) -> Yaml {
    let documents = YamlLoader::load_from_str(text).unwrap();
    let [document] = &documents[..] else { panic!("{documents:?}") };
    document.clone()
}

fn text(value: &Yaml) -> String {
    match value {
        Yaml::String(text) => text.clone(),
        Yaml::Integer(number) => number.to_string(),
        other => panic!("neither text nor number: {other:?}"),
    }
}

fn map(value: &Yaml) -> BTreeMap<String, Yaml> {
    value.as_hash().unwrap().iter().map(|(key, value)| (text(key), value.clone())).collect()
}

#[test]
fn the_page_shows_every_recipe_as_it_is() {
    let page = fs::read_to_string(docs().join("recipes.md")).unwrap();
    let files = fs::read_dir(docs().join("recipes")).unwrap().flatten();
    let files: BTreeSet<String> =
        files.map(|file| file.file_name().into_string().unwrap()).collect();

    let blocks: Vec<&str> = page.split("```").skip(1).step_by(2).collect();
    for file in &files {
        let after = page.split(&format!("[recipes/{file}](recipes/{file})")).nth(1);
        let after = after.unwrap_or_else(|| panic!("the page does not show {file}"));
        let block = after.split("```").nth(1).unwrap().split_once('\n').unwrap().1;
        assert_eq!(block, recipe(file), "{file}");
    }
    assert_eq!(blocks.len(), files.len(), "every block is a file");
}

#[test]
fn the_permissions_of_the_guide_are_those_that_locks_need() {
    let guide = fs::read_to_string(docs().join("cli.md")).unwrap();
    let line = guide.lines().find(|line| line.starts_with("ACL SETUSER")).unwrap();
    assert_eq!(
        line,
        format!("ACL SETUSER locks on >PASSWORD {REDIS_PERMISSIONS} ~redlatch:* ~deploy:*")
    );
    let server = Server::start().unwrap();
    let typed: Vec<_> = line.split(' ').map(|word| word.replace("PASSWORD", "pw")).collect();
    server.run(&typed);
    let sandbox = Sandbox::embedded();
    let redlatch = |args: &[&str]| {
        let mut command = sandbox.redlatch(args);
        command.env("REDLATCH_NODES", server.url_as("locks", "pw"));
        start(command).end()
    };

    redlatch(&["run", "deploy:web", "--", "true"]).exits_with(0);
    redlatch(&["ls"]).exits_with(0);
    let doctor = redlatch(&["doctor", "--prefix", "deploy:", "--json"]);
    assert!(!doctor.stdout.contains("ACL SETUSER"), "nothing is missing: {doctor:?}");
    redlatch(&["run", "other", "--", "true"]).exits_with(122);
}
