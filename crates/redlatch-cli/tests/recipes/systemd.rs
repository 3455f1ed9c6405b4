//! systemd: units that it accepts, and what they start.

use super::{
    SHORT, Scene, WAIT, interrupt_at_least, owned, recipe,
    support::{PATIENCE, Running, dies, eventually, start},
};
use std::{fs, process::Command};

/// The values of a key in a unit file.
fn unit<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// What `systemd-analyze` has to say about units.
fn verify(scene: &Scene, units: &[(&str, &str)]) -> String {
    for (name, text) in units {
        fs::write(scene.sandbox.path(name), text).unwrap();
    }
    let paths = units.iter().map(|(name, _)| scene.sandbox.path(name));
    let mut analyze = Command::new("systemd-analyze");
    let output = analyze.args(["verify", "--man=no"]).args(paths).output();
    let output = output.expect("systemd-analyze: run `cargo xtask servers`");
    // It only knows the units of this place.
    let about = |line: &&str| line.contains("nightly") || line.contains("reports");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    said.lines().filter(about).collect::<Vec<_>>().join("\n")
}

/// Starts what a unit starts, as systemd would.
fn exec_start(scene: &Scene, text: &str) -> Running {
    let variables = unit(text, "Environment").into_iter().map(|pair| pair.split_once('=').unwrap());
    let variables = variables.map(owned).collect();
    let line = unit(text, "ExecStart")[0];
    let mut words = line.split(' ');
    let mut command = scene.bare(words.next().unwrap(), &variables);
    command.args(words).env("PATH", "/usr/bin:/bin");
    start(command)
}

#[test]
fn systemd_accepts_the_units_and_stopping_them_is_no_failure() {
    let scene = Scene::new();
    let nightly = scene.program("nightly", "echo ran >> ran");
    let reports = scene.program("reports", "echo $$ >> leaders; exec sleep 100");
    let here = [("/usr/local/bin/nightly", &*nightly), (WAIT, SHORT)];
    let service = scene.here(&recipe("nightly.service"), &here);
    let leader = scene.here(&recipe("reports.service"), &[("/usr/local/bin/reports", &reports)]);
    let timer = recipe("nightly.timer");

    let units =
        [("nightly.service", &*service), ("nightly.timer", &*timer), ("reports.service", &*leader)];
    assert_eq!(verify(&scene, &units), "");
    let broken = leader.replace("KillMode=mixed", "KillMod=mixed");
    assert!(verify(&scene, &[("reports.service", &broken)]).contains("KillMod"), "it would say");

    let fine = |text: &str, code: i32| {
        let listed = unit(text, "SuccessExitStatus").concat();
        code == 0 || listed.split(' ').any(|listed| listed == code.to_string())
    };
    let runs = exec_start(&scene, &service);
    scene.sandbox.read("ran");
    exec_start(&scene, &service).end().exits_with(121);
    assert!(fine(&service, 121));
    interrupt_at_least(runs);
    assert_eq!(scene.lines("ran"), 1);

    let first = exec_start(&scene, &leader);
    let leads = scene.sandbox.read_pid("leaders");
    let second = exec_start(&scene, &leader);
    scene.has_a_waiter("reports");
    // KillMode=mixed: only the main process gets the signal.
    first.signal("TERM");
    let stopped = first.end().status.code().unwrap();
    assert!(stopped == 143 && fine(&leader, stopped), "{stopped}");
    dies(leads);
    eventually(PATIENCE, || scene.lines("leaders") == 2);
    second.signal("TERM");
    second.end().exits_with(143);
}
