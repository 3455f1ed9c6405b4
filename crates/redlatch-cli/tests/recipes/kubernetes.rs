//! Kubernetes: what the container of a pod runs.

use super::{
    Scene, path, recipe,
    support::{PATIENCE, binary, dies, eventually, start},
    text, yaml,
};
use std::{collections::BTreeMap, process::Command};

/// The container of a Job or a Deployment, ready to be started.
fn container(scene: &Scene, manifest: &str, programs: &[(&str, &str)]) -> Command {
    let manifest = yaml(&scene.here(manifest, programs));
    let pod = &manifest["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut variables = BTreeMap::from([("PATH".to_owned(), path())]);
    for variable in container["env"].as_vec().unwrap() {
        let secret = &variable["valueFrom"]["secretKeyRef"];
        let value = if secret.is_badvalue() {
            text(&variable["value"])
        } else {
            scene.servers.urls().join(",")
        };
        variables.insert(text(&variable["name"]), value);
    }
    let words = [&container["command"], &container["args"]];
    let words: Vec<String> =
        words.iter().flat_map(|list| list.as_vec().unwrap()).map(text).collect();
    // Not the child of a shell: its path is looked up here.
    assert_eq!(words[0], "redlatch");
    let mut command = scene.bare(binary().to_str().unwrap(), &variables);
    command.args(&words[1..]);
    command
}

#[test]
fn kubernetes_jobs_run_one_after_the_other() {
    let scene = Scene::new();
    let migrate = scene.program(
        "migrate",
        "test ! -e busy && : > busy && sleep 0.3 && rm busy && echo ran >> ran",
    );
    let job = recipe("migrate-job.yaml");

    let pods = [(); 3].map(|()| start(container(&scene, &job, &[("/app/migrate", &migrate)])));
    for pod in pods {
        pod.end().exits_with(0);
    }

    assert_eq!(scene.lines("ran"), 3);
    let grace = yaml(&job)["spec"]["template"]["spec"]["terminationGracePeriodSeconds"].as_i64();
    assert!(grace > Some(5), "longer than --grace: {grace:?}");
}

#[test]
fn the_second_pod_leads_when_the_first_is_killed_or_stopped() {
    let scene = Scene::new();
    let reports = scene.program("reports", "echo $$ >> leaders; exec sleep 100");
    let manifest = recipe("leader.yaml");
    assert_eq!(yaml(&manifest)["spec"]["replicas"].as_i64(), Some(2));
    let pod = || start(container(&scene, &manifest, &[("/app/reports", &reports)]));

    let first = pod();
    let leads = scene.sandbox.read_pid("leaders");
    let mut second = pod();
    scene.has_a_waiter("leader:reports");
    first.signal("KILL");
    dies(leads);
    eventually(PATIENCE, || scene.lines("leaders") == 2);
    assert!(!second.has_ended());
    let third = pod();
    scene.has_a_waiter("leader:reports");
    second.signal("TERM");
    second.end().exits_with(143);
    eventually(PATIENCE, || scene.lines("leaders") == 3);
    third.signal("TERM");
    third.end().exits_with(143);
}
