//! CI: a step of a workflow, which may be cancelled.

use super::{
    Scene, map, path, recipe,
    support::{PATIENCE, dies, eventually, start},
    text, yaml,
};
use std::{collections::BTreeMap, fs};
use yaml_rust2::Yaml;

#[test]
fn ci_deploys_one_at_a_time_stops_when_cancelled_and_fails_without_its_secret() {
    let scene = Scene::new();
    let workflow = yaml(&recipe("deploy.yml"));
    let step = workflow["jobs"]["deploy"]["steps"].as_vec().unwrap().last().unwrap();
    let nodes = scene.servers.urls().join(",");
    let ci = |secret: &str| {
        let value = |value: &Yaml| text(value).replace("${{ secrets.REDLATCH_NODES }}", secret);
        let mut variables: BTreeMap<_, _> =
            map(&step["env"]).iter().map(|(name, set)| (name.clone(), value(set))).collect();
        assert!(variables.values().all(|value| !value.contains("${{")), "{variables:?}");
        variables.insert("PATH".into(), path());
        fs::write(scene.sandbox.path("step.sh"), text(&step["run"])).unwrap();
        let mut command = scene.bare("bash", &variables);
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "step.sh"]);
        start(command)
    };
    let overlaps = r#"kill -0 "$(tail -n 1 deploys)" && echo overlap >> overlaps"#;
    scene.program("deploy.sh", &format!("{overlaps}; echo $$ >> deploys; exec sleep 100"));

    let first = ci(&nodes);
    let deploys = scene.sandbox.read_pid("deploys");
    let mut second = ci(&nodes);
    scene.has_a_waiter("deploy:production");
    first.signal("INT");
    first.end().exits_with(130);
    dies(deploys);
    eventually(PATIENCE, || scene.lines("deploys") == 2);
    assert!(!second.has_ended());
    second.signal("INT");
    second.end().exits_with(130);

    let missing = ci("").end().exits_with(125);
    assert!(missing.stderr.contains("REDLATCH_NODES"), "{missing:?}");
    assert_eq!((scene.lines("deploys"), scene.lines("overlaps")), (2, 0));
}
