//! Users of one machine: they share their locks, or get told that they do not.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use nix::unistd::{Gid, chown, geteuid};
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};
use support::{Ended, Sandbox, copy_command, start};

/// Two users, and two groups. Nobody needs to know their names.
const ADA: u32 = 54_321;
const BOB: u32 = 54_322;
const TEAM: u32 = 54_399;
const OTHERS: u32 = 54_398;

/// A place that all users can enter. None where nobody can become another user.
fn place() -> Option<Sandbox> {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: only root can become other users");
        return None;
    }
    let sandbox = Sandbox::embedded();
    set_mode(sandbox.dir(), 0o777);
    copy_command(&sandbox);
    set_mode(&sandbox.path("command"), 0o755);
    Some(sandbox)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory of root's for the team.
fn shared(sandbox: &Sandbox) {
    let dir = sandbox.path("shared");
    fs::create_dir(&dir).unwrap();
    chown(&dir, None, Some(Gid::from_raw(TEAM))).unwrap();
    set_mode(&dir, 0o2770);
}

/// Runs a script as another user, with a home of their own.
fn run_as(sandbox: &Sandbox, user: u32, group: u32, script: &str) -> Ended {
    let home = sandbox.path(&format!("home{user}"));
    let _ = fs::create_dir(&home);
    chown(&home, Some(user.into()), None).unwrap();
    let model = sandbox.shell("");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("umask 022; {script}"));
    for (name, value) in model.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("XDG_STATE_HOME", &home).env("HOME", &home).current_dir(sandbox.dir());
    command.stdin(std::process::Stdio::null()).uid(user).gid(group);
    start(command).end()
}

#[test]
fn users_of_a_shared_directory_exclude_each_other() {
    let Some(sandbox) = place() else { return };
    shared(&sandbox);

    run_as(&sandbox, ADA, TEAM, "./command acquire x --owner ada").exits_with(0);
    let held = run_as(&sandbox, BOB, TEAM, "./command run x -- true").exits_with(121);
    let root = start(sandbox.redlatch(["run", "x", "--", "true"])).end().exits_with(121);

    for ended in [held, root] {
        assert!(ended.stderr.contains("x is held by ada"), "{ended:?}");
    }
    let file = sandbox.path("shared/locks.db").metadata().unwrap();
    assert_eq!((file.mode() & 0o777, file.gid()), (0o660, TEAM));
    let told = run_as(&sandbox, BOB, TEAM, "./command run y -v -- true").exits_with(0);
    assert!(told.stderr.contains("shared by the users of this machine"), "{told:?}");
}

/// Root has used the directory before it was for all.
#[test]
fn a_file_that_a_shared_directory_withholds_from_its_group_is_found_by_roots_doctor() {
    let Some(sandbox) = place() else { return };
    shared(&sandbox);
    let file = sandbox.path("shared/locks.db");
    fs::write(&file, "").unwrap();
    chown(&file, None, Some(Gid::from_raw(0))).unwrap();
    set_mode(&file, 0o600);
    let refused = run_as(&sandbox, ADA, TEAM, "./command run x -- true").exits_with(125).stderr;
    assert!(refused.contains(&format!("chgrp {TEAM} ")), "{refused}");
    let hers = run_as(&sandbox, ADA, TEAM, "./command doctor").exits_with(2).stdout;
    assert_eq!(hers.matches(&format!("chgrp {TEAM} ")).count(), 1, "{hers}");
    assert!(!hers.contains("change its owner or mode"), "{hers}");

    let doctor = start(sandbox.redlatch(["doctor"])).end().exits_with(1).stdout;

    let fix = doctor.lines().find_map(|line| Some(line.split_once("chgrp ")?.1));
    let fix = fix.unwrap_or_else(|| panic!("{doctor}"));
    start(sandbox.shell(&format!("chgrp {fix}"))).end().exits_with(0);
    run_as(&sandbox, ADA, TEAM, "./command run x -- true").exits_with(0);
    let doctor = start(sandbox.redlatch(["doctor"])).end().exits_with(0).stdout;
    assert!(doctor.contains("a file that the users of this machine share"), "{doctor}");
    // SQLite keeps it beside the file.
    let log = sandbox.path("shared/locks.db-wal");
    fs::write(&log, "").unwrap();
    set_mode(&log, 0o600);
    let refused = run_as(&sandbox, ADA, TEAM, "./command run x -- true").exits_with(125).stderr;
    assert!(refused.contains("locks.db-wal belongs to root"), "{refused}");
}

/// The guide's recipe, with a group that exists already.
#[test]
fn the_recipe_of_the_guide_shares_what_root_has_used_before() {
    let Some(sandbox) = place() else { return };
    let guide = include_str!("../../../docs/cli.md");
    let (_, recipe) = guide.split_once("```sh\ngroupadd redlatch && ").unwrap();
    let (recipe, _) = recipe.split_once("```").unwrap();
    let recipe = recipe.replace("usermod", ": usermod").replace("grp redlatch", "grp 54399");
    let recipe = recipe.replace("-g redlatch", "-g 54399");
    let user = format!("setpriv --reuid {ADA} --regid {TEAM} --clear-groups");
    let script = format!(
        "mount -t tmpfs none /var/lib || {{ echo NO MOUNT; exit 0; }}
         unset REDLATCH_SHARED XDG_STATE_HOME; export HOME=$PWD
         ./command run x --log off --quiet -- true || exit
         {recipe}
         ./command run x --log off -- {user} ./command run x --log off -- true"
    );
    fs::write(sandbox.path("script"), script).unwrap();

    let ended = start(sandbox.shell("unshare -m sh script || exit $?")).end();

    if ended.stdout.starts_with("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here: {}", ended.stderr);
        return;
    }
    ended.exits_with(121);
}

#[test]
fn a_directory_that_cannot_be_reached_any_more_is_not_called_deleted() {
    let Some(sandbox) = place() else { return };
    let script = "mkdir $HOME/d; ./command run x --node file:$HOME/d/x.db --ttl 1s \
                  --log off -- chmod 000 $HOME/d";

    let ended = run_as(&sandbox, ADA, TEAM, script).exits_with(0);

    let words = "can no longer be reached: Permission denied";
    assert!(ended.stderr.contains(words), "{ended:?}");
    assert!(!ended.stderr.contains("deleted or replaced"), "{ended:?}");
}

#[test]
fn a_user_outside_the_group_is_refused_and_does_not_lock_alone() {
    let Some(sandbox) = place() else { return };
    shared(&sandbox);

    let refused = run_as(&sandbox, BOB, OTHERS, "./command run x -- echo never").exits_with(125);

    assert_eq!(refused.stdout, "");
    let words = format!("for the group {TEAM}, and this user is not in it: join the group");
    assert!(refused.stderr.contains(&words), "{refused:?}");
    let script = "REDLATCH_SHARED=off ./command run x -v -- true";
    let alone = run_as(&sandbox, BOB, OTHERS, script).exits_with(0);
    assert!(alone.stderr.contains("of this user alone"), "{alone:?}");
}

#[test]
fn without_a_shared_directory_everyone_is_told_that_the_locks_are_theirs_alone() {
    let Some(sandbox) = place() else { return };

    let run = run_as(&sandbox, ADA, TEAM, "./command run x -v -- true").exits_with(0);
    let doctor = run_as(&sandbox, ADA, TEAM, "./command doctor").exits_with(0);

    assert!(run.stderr.contains("of this user alone; other users have other locks"), "{run:?}");
    assert!(doctor.stdout.contains("they exclude no other user of this machine"), "{doctor:?}");
    assert!(doctor.stdout.contains("install -d -m 2770"), "{doctor:?}");
}

#[test]
fn a_default_directory_that_its_group_may_no_longer_use_is_refused_and_nobody_locks_alone() {
    let Some(sandbox) = place() else { return };
    let user = format!("setpriv --reuid {ADA} --regid {TEAM} --clear-groups");
    let home = sandbox.path("home");
    fs::create_dir(&home).unwrap();
    chown(&home, Some(ADA.into()), None).unwrap();
    let closed = "its group may not write there";
    let places = [
        (format!("install -d -m 0755 -g {TEAM} /var/lib/redlatch"), closed),
        ("install -d -m 2750 -g 0 /var/lib/redlatch".into(), closed),
        (format!("install -d -m 0700 -g {TEAM} /var/lib/redlatch"), closed),
        (format!("install -d -m 2770 -o {ADA} -g {TEAM} /var/lib/redlatch"), "belong to root"),
        ("install -d -m 0755 -o 65534 /var/lib/redlatch".into(), "belong to root"),
        ("ln -s /nowhere /var/lib/redlatch".into(), "a link that leads nowhere"),
        ("echo > /var/lib/redlatch".into(), "it is not a directory"),
    ];
    for (make, reason) in places {
        let script = format!(
            "mount -t tmpfs none /var/lib || {{ echo NO MOUNT; exit 0; }}
             {make}
             unset REDLATCH_SHARED XDG_STATE_HOME; export HOME=$PWD/home
             exec {user} ./command run x --log off -- echo never"
        );
        fs::write(sandbox.path("script"), script).unwrap();

        let refused = start(sandbox.shell("unshare -m sh script || exit $?")).end();

        if refused.stdout.starts_with("NO MOUNT") {
            eprintln!("SKIPPED: no file system can be mounted here: {}", refused.stderr);
            return;
        }
        let refused = refused.exits_with(125);
        assert_eq!(refused.stdout, "");
        assert!(refused.stderr.contains(reason), "{make}: {refused:?}");
    }
}

#[test]
fn a_shared_directory_that_is_set_and_does_not_count_is_refused() {
    let Some(sandbox) = place() else { return };
    for (dir, owner, mode) in
        [("closed", 0, 0o750), ("hers", ADA, 0o2770), ("tmp", 0, 0o1777), ("mad", 0, 0o2777)]
    {
        fs::create_dir(sandbox.path(dir)).unwrap();
        set_mode(&sandbox.path(dir), mode);
        chown(&sandbox.path(dir), Some(owner.into()), Some(TEAM.into())).unwrap();
    }
    fs::write(sandbox.path("file"), "").unwrap();
    let at = |name: &str| sandbox.path(name).display().to_string();
    let [typo, file, closed, hers] = ["shraed", "file", "closed", "hers"].map(at);
    let [tmp, mad] = ["tmp", "mad"].map(at);
    let whose = |owner: &str, mode| format!("belongs to {owner}, group {TEAM}, mode {mode})");

    for (set, reason) in [
        ("", "it is empty".into()),
        ("Off", "`off` is written in lower case".into()),
        ("shared", "its path is not absolute".into()),
        (&typo, "there is no such directory".into()),
        (&file, "it is not a directory".into()),
        (&closed, format!("its group may not write there ({closed} {}", whose("root", "0750"))),
        (&hers, format!("it must belong to root ({hers} {}", whose(&ADA.to_string(), "2770"))),
        (&tmp, format!("everybody can write there ({tmp} {}", whose("root", "1777"))),
        (&mad, format!("everybody can write there ({mad} {}", whose("root", "2777"))),
    ] {
        let config = format!("printf 'shared = \"%s\"\\n' '{set}' > $HOME/r.toml; ");
        let by_file =
            format!("{config} unset REDLATCH_SHARED; ./command run x --config $HOME/r.toml");
        for (script, by) in [
            (format!("REDLATCH_SHARED='{set}' ./command run x -- echo never"), "REDLATCH_SHARED"),
            (format!("REDLATCH_SHARED='{set}' ./command doctor"), "REDLATCH_SHARED"),
            (format!("{by_file} -- echo never"), "`shared` in "),
        ] {
            let refused = run_as(&sandbox, ADA, TEAM, &script).exits_with(125);

            assert_eq!(refused.stdout, "", "{script}");
            for words in [by, &format!("is set to \"{set}\""), &reason, "or write `off`"] {
                assert!(refused.stderr.contains(words), "{words:?} is not in {refused:?}");
            }
            // What is set can be made, unless everybody uses it or it is no directory.
            let fix = [&typo, &closed, &hers].map(|dir| dir == set).contains(&true);
            let fix = format!("-g GROUP {})", if fix { set } else { "/var/lib/redlatch" });
            assert!(refused.stderr.contains(&fix), "{fix:?} is not in {refused:?}");
        }
    }
    let elsewhere = "REDLATCH_SHARED=nowhere ./command run x --node file:$HOME/x.db -- true";
    run_as(&sandbox, ADA, TEAM, elsewhere).exits_with(0);
}

#[test]
fn a_second_user_is_told_what_really_keeps_them_out() {
    let Some(sandbox) = place() else { return };
    fs::create_dir(sandbox.path("open")).unwrap();
    set_mode(&sandbox.path("open"), 0o755);
    chown(&sandbox.path("open"), Some(ADA.into()), Some(TEAM.into())).unwrap();
    let node = format!("--node file:{}", sandbox.path("open/locks.db").display());
    let run =
        |user, node: &str| run_as(&sandbox, user, TEAM, &format!("./command run x {node} -- true"));
    run(ADA, &node).exits_with(0);

    let mode = run(BOB, &node).exits_with(125).stderr;
    set_mode(&sandbox.path("open"), 0o700);
    let closed = run(BOB, &node).exits_with(125).stderr;

    let file = format!("locks.db belongs to {ADA}, group {TEAM}, mode 0600");
    assert!(mode.contains(&file), "{mode}");
    assert!(mode.contains("to share it with a group: chgrp"), "{mode}");
    let dir = format!("open belongs to {ADA}, group {TEAM}, mode 0700; only they can enter it");
    assert!(closed.contains(&dir), "{closed}");
}

/// `chmod 2770 /tmp`, pasted as root, would lock everybody out of it.
#[test]
fn a_second_user_of_a_file_where_everybody_can_write_is_not_told_to_change_the_directory() {
    let Some(sandbox) = place() else { return };
    fs::create_dir(sandbox.path("tmp")).unwrap();
    set_mode(&sandbox.path("tmp"), 0o1777);
    let node = format!("--node file:{}", sandbox.path("tmp/locks.db").display());
    let run = |user, task: &str| run_as(&sandbox, user, TEAM, &format!("./command {task} {node}"));
    run_as(&sandbox, ADA, TEAM, &format!("./command run x {node} -- true")).exits_with(0);

    let refused = run_as(&sandbox, BOB, TEAM, &format!("./command run x {node} -- echo never"));
    let doctor = run(BOB, "doctor").exits_with(2);

    let refused = refused.exits_with(125);
    let words = "tmp/locks.db belongs to another user, who may have put it there: name a file in \
                 a directory where not everybody can write";
    assert!(refused.stderr.contains(words), "{refused:?}");
    assert!(doctor.stdout.contains(words), "{doctor:?}");
    assert!(!refused.stderr.contains("chmod"), "{refused:?}");
}

#[test]
fn roots_own_file_is_that_of_all_users_even_if_root_does_without_it() {
    let Some(sandbox) = place() else { return };
    let script = format!(
        "mount -t tmpfs none /var/lib || {{ echo NO MOUNT; exit 0; }}
         install -d -m 2770 -g {TEAM} /var/lib/redlatch
         unset XDG_STATE_HOME; export REDLATCH_SHARED=off
         exec ./command run x -v --log off -- echo done"
    );
    fs::write(sandbox.path("script"), script).unwrap();

    let ran = start(sandbox.shell("unshare -m sh script || exit $?")).end().exits_with(0);

    if ran.stdout.starts_with("NO MOUNT") {
        eprintln!("SKIPPED: no file system can be mounted here: {}", ran.stderr);
        return;
    }
    assert!(ran.stderr.contains("/var/lib/redlatch/locks.db"), "{ran:?}");
    assert!(!ran.stderr.contains("of this user alone"), "{ran:?}");
}

#[test]
fn a_user_for_whom_no_default_directory_can_be_made_is_told_whose_the_place_is() {
    let Some(sandbox) = place() else { return };
    fs::create_dir(sandbox.path("closed")).unwrap();
    set_mode(&sandbox.path("closed"), 0o755);
    let script = "XDG_STATE_HOME=$PWD/closed/state ./command run x --log off -- echo never";

    let refused = run_as(&sandbox, ADA, TEAM, script).exits_with(125);

    assert_eq!(refused.stdout, "");
    let words = "closed belongs to root, group root, mode 0755; the directory of the file would be \
                 made there, and this user may not";
    assert!(refused.stderr.contains(words), "{refused:?}");
}

#[test]
fn a_log_of_another_user_is_there_but_cannot_be_read() {
    let Some(sandbox) = place() else { return };
    run_as(&sandbox, ADA, TEAM, "./command run x -- true").exits_with(0);
    let log = sandbox.path(&format!("home{ADA}/redlatch/runs.jsonl"));
    assert!(log.is_file());

    let script = format!("./command log --log {}", log.display());
    let refused = run_as(&sandbox, BOB, TEAM, &script).exits_with(125).stderr;

    assert!(refused.contains("runs.jsonl cannot be read: Permission denied"), "{refused}");
    // The directory was made for its owner alone, and so was the log.
    let dir = log.parent().unwrap();
    let whose = |path: &Path, mode: &str| {
        format!(
            "; {} belongs to {ADA}, group {TEAM}, mode {mode}; its owner and root can read the log",
            path.display()
        )
    };
    assert!(refused.contains(&whose(dir, "0700")), "{refused}");
    set_mode(dir, 0o755);
    let refused = run_as(&sandbox, BOB, TEAM, &script).exits_with(125).stderr;
    assert!(refused.contains(&whose(&log, "0600")), "{refused}");
    let home = sandbox.path(&format!("home{ADA}"));
    set_mode(&home, 0o700);
    let refused = run_as(&sandbox, BOB, TEAM, &script).exits_with(125).stderr;
    assert!(refused.contains("Permission denied"), "{refused}");
    assert!(refused.contains(&format!("; {} belongs to {ADA}, ", home.display())), "{refused}");
}

#[test]
fn doctor_names_a_log_and_metrics_that_this_user_may_not_write_and_whose_they_are() {
    let Some(sandbox) = place() else { return };
    run_as(&sandbox, ADA, TEAM, "mkdir metrics; ./command run x --log log -- true").exits_with(0);
    let script = "REDLATCH_LOG=log REDLATCH_METRICS_DIR=metrics ./command doctor";

    let ada = run_as(&sandbox, ADA, TEAM, script).exits_with(0).stdout;
    let bob = run_as(&sandbox, BOB, TEAM, script).exits_with(1).stdout;

    assert!(!ada.contains("warning  "), "{ada}");
    for (what, path, mode) in [
        ("the log of this user's runs, log, cannot be written", "log", "0600"),
        ("no metrics can be written to metrics", "metrics", "0755"),
    ] {
        let words = format!(
            "{what}: Permission denied (os error 13); {path} belongs to {ADA}, group {TEAM}, mode {mode}"
        );
        assert!(bob.contains(&words), "{bob}");
    }
}

#[test]
fn a_home_that_is_relative_is_named_as_such() {
    let Some(sandbox) = place() else { return };
    let at_home = |home: &str, task: &str| {
        let script = format!("unset XDG_STATE_HOME; HOME={home} ./command {task}");
        run_as(&sandbox, ADA, TEAM, &script).exits_with(125).stderr
    };

    let run = at_home("rel", "run x -- true");
    let log = at_home("rel", "log");

    let why = "HOME is relative (rel), and must be absolute";
    let no_place = format!("there is no place for the embedded node: {why}; name a node");
    assert!(run.contains(&no_place), "{run}");
    assert!(log.contains(&format!("there is no log: {why}")), "{log}");
    assert!(at_home("rel", "log --log off").contains("it is turned off"));
}

#[test]
fn a_user_without_a_home_is_told_that_nothing_is_on_record() {
    let Some(sandbox) = place() else { return };
    let at_home = |task: &str| {
        let script = format!("unset XDG_STATE_HOME; mkdir -pm 700 mine; HOME=rel ./command {task}");
        run_as(&sandbox, ADA, TEAM, &script)
    };
    let why = "HOME is relative (rel), and must be absolute";

    let run = at_home("run x --node file:$PWD/mine/x.db -- true").exits_with(0).stderr;
    let off = at_home("run x --node file:$PWD/mine/x.db --log off -- true").exits_with(0).stderr;
    let found = at_home("doctor --node file:$PWD/mine/x.db").exits_with(1).stdout;

    assert_eq!(run.matches(&format!("this attempt is not in the log: {why}")).count(), 1, "{run}");
    assert_eq!(off, "");
    assert!(found.contains(&format!("this user's runs are not logged: {why}")), "{found}");
}

#[test]
fn a_named_file_is_shared_if_its_directory_is() {
    let Some(sandbox) = place() else { return };
    shared(&sandbox);
    let node = format!("--node 'file:{}?name=a'", sandbox.path("shared/a%20b.db").display());
    let run = |user| run_as(&sandbox, user, TEAM, &format!("./command run x {node} -- true"));

    run(ADA).exits_with(0);
    run(BOB).exits_with(0);

    assert_eq!(sandbox.path("shared/a b.db").metadata().unwrap().mode() & 0o777, 0o660);
}
