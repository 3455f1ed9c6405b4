//! A container: process 1, and the signal that stops it.

use super::{
    Scene, docs, path,
    support::{self, PATIENCE, Running, child_of, eventually, start},
};
use std::{collections::BTreeMap, fs, process::Command};

/// Starts a program as process 1 of a container, and returns it with that process.
fn as_process_1(mut command: Command) -> (Running, u32) {
    let is_root = nix::unistd::geteuid().is_root();
    let user: &[&str] = if is_root { &[] } else { &["--user", "--map-root-user"] };
    let mut unshare = Command::new("unshare");
    unshare.args(user).args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    unshare.arg(command.get_program()).args(command.get_args());
    unshare.env_clear();
    for (name, value) in command.get_envs() {
        unshare.env(name, value.unwrap());
    }
    unshare.current_dir(command.get_current_dir().unwrap());
    command.stdin(std::process::Stdio::null());
    let running = start(unshare);
    let outer = running.pid();
    eventually(PATIENCE, || {
        fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"))
            .is_ok_and(|it| !it.is_empty())
    });
    let inner = child_of(outer);
    (running, inner)
}

#[test]
fn the_entrypoint_stops_its_command_and_releases_the_lock_when_the_container_is_stopped() {
    let scene = Scene::new();
    let work =
        "trap 'echo stopped >> ended; exit 7' TERM; echo $$ > up; while :; do sleep 0.1; done";
    let work = scene.program("work", work);
    let entrypoint = docs().join("recipes/entrypoint.sh").canonicalize().unwrap();
    let variables = BTreeMap::from([
        ("PATH".to_owned(), path()),
        ("LOCK".to_owned(), "x".to_owned()),
        ("REDLATCH_NODES".to_owned(), scene.servers.urls().join(",")),
    ]);
    let container = |variables: &BTreeMap<String, String>| {
        let mut command = scene.bare(entrypoint.to_str().unwrap(), variables);
        command.arg(&work);
        command
    };

    let (running, process_1) = as_process_1(container(&variables));
    let inside = scene.sandbox.read_pid("up");
    assert!(inside > 1, "redlatch is process 1, not the command");
    assert!(!scene.sandbox.is_free("x"));
    let name = fs::read_to_string(format!("/proc/{process_1}/comm")).unwrap();
    assert_eq!(name.trim(), "redlatch", "no shell in between");
    support::send("TERM", process_1);
    running.end().exits_with(7);
    assert_eq!(scene.lines("ended"), 1, "the command was told once");
    assert!(scene.sandbox.is_free("x"));

    let mut nameless = variables.clone();
    nameless.remove("LOCK");
    let refused = start(container(&nameless)).end();
    assert!(
        !refused.status.success() && refused.stderr.contains("LOCK: names the lock"),
        "{refused:?}"
    );
}
