//! cron: a bare environment, and mail for whatever is printed.

use super::{
    SHORT, Scene, WAIT, interrupt_at_least, owned, recipe,
    support::{Running, binary, start},
};
use std::{collections::BTreeMap, fs};

/// The variables and the job of the crontab.
fn crontab(scene: &Scene, wait: &str) -> (BTreeMap<String, String>, String) {
    let nightly = scene.program("nightly", "echo ran >> ran");
    let metrics = scene.sandbox.dir().display().to_string();
    let here = [
        ("/usr/local/bin/nightly", &*nightly),
        ("/var/lib/prometheus/node-exporter", &*metrics),
        (WAIT, wait),
    ];
    let crontab = scene.here(&recipe("crontab"), &here);
    let mut variables = BTreeMap::new();
    let mut jobs = Vec::new();
    for line in crontab.lines().filter(|line| !line.starts_with('#')) {
        match line.split_once('=').filter(|(name, _)| !name.contains(' ')) {
            Some(pair) => variables.extend([owned(pair)]),
            None => jobs.push(line),
        }
    }
    let [job] = jobs[..] else { panic!("{jobs:?}") };
    // Five for the time, and a user.
    let words: Vec<_> = job.split_whitespace().skip(5).collect();
    assert_eq!(words[0], "root");
    variables.extend([("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/sh")].map(owned));
    (variables, words[1..].join(" "))
}

fn cron(scene: &Scene, variables: &BTreeMap<String, String>, job: &str) -> Running {
    let mut command = scene.bare("/bin/sh", variables);
    command.args(["-c", job]);
    start(command)
}

#[test]
fn cron_runs_the_job_on_one_host_and_mails_only_failures() {
    let scene = Scene::new();
    let (variables, job) = crontab(&scene, SHORT);
    let cron = || cron(&scene, &variables, &job);

    let first = cron();
    scene.sandbox.read("ran");
    let second = cron().end();
    interrupt_at_least(first);

    assert_eq!((second.status.code(), &*second.stdout, &*second.stderr), (Some(0), "", ""));
    assert_eq!(scene.lines("ran"), 1);
    assert!(
        fs::read_dir(scene.sandbox.dir())
            .unwrap()
            .flatten()
            .any(|file| { file.path().extension().is_some_and(|end| end == "prom") })
    );
    scene.servers.kill(&[0, 1]);
    let down = cron().end().exits_with(122);
    assert!(down.stderr.contains("2 of 3 nodes"), "{down:?}");
}

#[test]
fn cron_runs_the_job_though_nobody_has_seen_that_the_nodes_were_restarted() {
    let scene = Scene::new();
    let (mut variables, job) = crontab(&scene, WAIT);
    let guard =
        [("REDLATCH_RESTART_GUARD", "on"), ("REDLATCH_MAX_TTL", "2s"), ("REDLATCH_SKEW", "1s")];
    variables.extend(guard.map(owned));
    let mut admit = scene.bare(binary().to_str().unwrap(), &variables);
    admit.args(["admit", "--all", "--yes"]);
    start(admit).end().exits_with(0);
    for at in [1, 2] {
        scene.servers[at].restart_empty();
    }

    let _night = cron(&scene, &variables, &job);

    assert_eq!(scene.sandbox.read("ran"), "ran");
}
