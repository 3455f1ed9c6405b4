//! Everything that `docs/recipes.md` and the guide tell people to paste works: each recipe
//! is a file, and is run here as cron, systemd, CI, Kubernetes or a container would.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use redlatch::node::REDIS_PERMISSIONS;
use redlatch_testbed::{Server, Servers};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};
use support::{PATIENCE, Running, Sandbox, child_of, dies, eventually, redlatch, start};
use yaml_rust2::{Yaml, YamlLoader};

const ADDRESSES: &str = "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn recipe(name: &str) -> String {
    fs::read_to_string(docs().join("recipes").join(name)).unwrap()
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
        let mut text = text.replace("/usr/bin/redlatch", redlatch().to_str().unwrap());
        for (name, path) in programs {
            assert!(text.contains(name), "{name} is not in\n{text}");
            text = text.replace(name, path);
        }
        text.replace(ADDRESSES, &self.servers.urls().join(","))
    }

    /// A program with this environment and nothing of ours, but for the restart guard,
    /// which would quarantine new servers for a minute.
    fn bare(&self, program: &str, variables: &BTreeMap<String, String>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.sandbox.dir()).env("HOME", self.sandbox.dir());
        command.env("REDLATCH_RESTART_GUARD", "off").envs(variables);
        command
    }

    fn bin(&self) -> String {
        format!("{}:/usr/bin:/bin", redlatch().parent().unwrap().display())
    }

    /// How often a script has written a line.
    fn lines(&self, file: &str) -> usize {
        fs::read_to_string(self.sandbox.path(file)).unwrap_or_default().lines().count()
    }
}

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
            Some((name, value)) => drop(variables.insert(name.to_owned(), value.to_owned())),
            None => {
                jobs.push(line.splitn(7, [' ']).filter(|part| !part.is_empty()).last().unwrap())
            }
        }
    }
    let [job] = jobs[..] else { panic!("{jobs:?}") };
    let job = job.trim().strip_prefix("root").unwrap().trim();
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
    let service = scene.here(&recipe("nightly.service"), &[("/usr/local/bin/nightly", &nightly)]);
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
    // KillMode=mixed: only the main process gets the signal.
    first.signal("TERM");
    let stopped = first.end().status.code().unwrap();
    assert!(stopped == 143 && fine(&leader, stopped), "{stopped}");
    dies(leads);
    eventually(PATIENCE, || scene.lines("leaders") == 2);
    second.signal("TERM");
    second.end().exits_with(143);
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
        variables.insert("PATH".into(), scene.bin());
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

/// The container of a Job or a Deployment, ready to be started.
fn container(scene: &Scene, manifest: &str, programs: &[(&str, &str)]) -> Command {
    let manifest = yaml(&scene.here(manifest, programs));
    let pod = &manifest["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let mut variables = BTreeMap::from([("PATH".to_owned(), scene.bin())]);
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
    let mut command = scene.bare(redlatch().to_str().unwrap(), &variables);
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
    let pod = |log: &str| {
        let mut command = container(&scene, &manifest, &[("/app/reports", &reports)]);
        command.stderr(fs::File::create(scene.sandbox.path(log)).unwrap());
        Running::of(command.spawn().unwrap())
    };
    let waits = |log: &str| {
        let log = scene.sandbox.path(log);
        eventually(PATIENCE, || fs::read_to_string(&log).unwrap().contains("; waiting for"));
    };

    let first = pod("first");
    let leads = scene.sandbox.read_pid("leaders");
    let mut second = pod("second");
    waits("second");
    first.signal("KILL");
    dies(leads);
    eventually(PATIENCE, || scene.lines("leaders") == 2);
    assert!(!second.has_ended());
    let third = pod("third");
    waits("third");
    second.signal("TERM");
    second.end().exits_with(143);
    eventually(PATIENCE, || scene.lines("leaders") == 3);
    third.signal("TERM");
    third.end().exits_with(143);
}

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
        ("PATH".to_owned(), scene.bin()),
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
