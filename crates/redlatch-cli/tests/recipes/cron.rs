//! cron: a bare environment, and mail for whatever is printed.

use super::{Scene, interrupt_at_least, owned, recipe, support::start};
use std::{collections::BTreeMap, fs};

#[test]
fn cron_runs_the_job_on_one_host_and_mails_only_failures() {
    let scene = Scene::new();
    let nightly = scene.program("nightly", "echo ran >> ran");
    let metrics = scene.sandbox.dir().display().to_string();
    let programs =
        [("/usr/local/bin/nightly", &*nightly), ("/var/lib/prometheus/node-exporter", &*metrics)];
    let crontab = scene.here(&recipe("crontab"), &programs);
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
    let job = &words[1..].join(" ");
    variables.extend([("PATH", "/usr/bin:/bin"), ("SHELL", "/bin/sh")].map(owned));
    let cron = || {
        let mut command = scene.bare("/bin/sh", &variables);
        command.args(["-c", job]);
        start(command)
    };

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
