//! A file.

use super::{
    beaten_by,
    suite::{self, Target},
    token,
};
use redlatch::{
    FencingToken,
    fence::{File, FileError},
};
use redlatch_testbed::Scratch;
use std::{
    fs, io,
    io::Read,
    os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// What a child is handed over: the file to write to.
const CHILD: &str = "REDLATCH_TEST_FENCED_FILE";

struct OnDisk(PathBuf);

impl Target for OnDisk {
    type Error = FileError;

    async fn another(&mut self) -> Self {
        OnDisk(self.0.clone())
    }

    async fn write(&mut self, token: FencingToken, value: &[u8]) -> Result<(), FileError> {
        File::new(&self.0).write(token, value)
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), FileError> {
        File::new(&self.0).seal(token)
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        match fs::read(&self.0) {
            Ok(content) => Some(content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn a_file_passes_the_suite() {
    let scratch = Scratch::new().unwrap();
    let next = AtomicU32::new(0);

    suite::passes(async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        OnDisk(scratch.path().join(format!("file {number}")))
    })
    .await;
}

/// A file that does not exist yet, and its directory.
fn report() -> (Scratch, PathBuf) {
    let scratch = Scratch::new().expect("a directory");
    let path = scratch.file("report");
    (scratch, path)
}

#[test]
fn the_fence_is_kept_where_the_docs_say_and_nothing_else_is_left() {
    let scratch = Scratch::new().unwrap();

    File::new(scratch.path().join("report.json")).write(token(5), "{}").unwrap();

    let expected = ["report.json", "report.json.fence", "report.json.fence.lock"];
    assert_eq!(names(scratch.path()), expected);
    assert_eq!(fs::read_to_string(scratch.path().join(expected[1])).unwrap(), "5\n");
}

#[test]
fn a_file_keeps_its_permissions() {
    let (_scratch, path) = report();
    let file = File::new(&path);

    for wanted in [0o640, 0o600, 0o755, 0o444] {
        fs::write(&path, "old").ok();
        fs::set_permissions(&path, fs::Permissions::from_mode(wanted)).unwrap();
        file.write(token(5), "new").unwrap();
        assert_eq!(mode(&path), wanted);
    }
}

#[test]
fn all_names_of_a_file_have_one_fence_and_a_link_stays_a_link() {
    let scratch = Scratch::new().unwrap();
    let [path, link] = ["report", "link"].map(|name| scratch.path().join(name));
    fs::write(&path, "old").unwrap();
    symlink(&path, &link).unwrap();

    File::new(&link).write(token(5), "new").unwrap();

    assert_eq!(beaten_by(File::new(&path).write(token(4), "late")), 5);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn a_link_to_a_file_that_is_not_there_yet_leads_to_the_same_fence() {
    let scratch = Scratch::new().unwrap();
    fs::create_dir(scratch.path().join("deep")).unwrap();
    let [path, near, far] = ["deep/report", "near", "far"].map(|name| scratch.path().join(name));
    symlink("deep/report", &near).unwrap();
    symlink(&near, &far).unwrap();

    File::new(&far).write(token(5), "new").unwrap();

    assert_eq!(beaten_by(File::new(&path).write(token(4), "late")), 5);
    assert_eq!(beaten_by(File::new(&near).seal(token(4))), 5);
    assert!(fs::symlink_metadata(&far).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(names(scratch.path()), ["deep", "far", "near"]);
}

#[test]
fn what_is_not_a_file_is_neither_followed_nor_replaced() {
    let scratch = Scratch::new().unwrap();
    let [ring, dir, pipe] = ["ring", "dir", "pipe"].map(|name| scratch.path().join(name));
    symlink("ring", &ring).unwrap();
    fs::create_dir(&dir).unwrap();
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());

    for (path, reason) in [
        (ring, "a loop"),
        (dir.join(".."), "is a directory"),
        (dir, "not a regular file"),
        (pipe, "not a regular file"),
        (PathBuf::from("/"), "is a directory"),
        (PathBuf::new(), "is a directory"),
    ] {
        let before = fs::symlink_metadata(&path).ok().map(|there| there.file_type());
        let error = File::new(&path).write(token(5), "new").expect_err("not a file").to_string();
        assert!(error.contains(reason), "{}: {error}", path.display());
        assert_eq!(fs::symlink_metadata(&path).ok().map(|there| there.file_type()), before);
    }
}

#[test]
fn the_files_beside_it_are_private_where_they_could_be_used_to_block_a_writer() {
    let scratch = Scratch::new().unwrap();
    let lock = scratch.path().join("report.fence.lock");
    let file = File::new(scratch.path().join("report"));

    file.seal(token(5)).unwrap();
    assert_eq!(mode(&lock), 0o600);
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o644)).unwrap();
    file.seal(token(5)).unwrap();

    assert_eq!(mode(&lock), 0o600);
}

#[test]
fn a_link_in_place_of_the_lock_is_not_followed() {
    let scratch = Scratch::new().unwrap();
    symlink("elsewhere", scratch.path().join("report.fence.lock")).unwrap();

    let error = File::new(scratch.path().join("report")).seal(token(5)).expect_err("a link");

    assert!(error.to_string().starts_with("could not open "), "{error}");
    assert_eq!(names(scratch.path()), ["report.fence.lock"]);
}

/// Only root can give a file away; everybody else owns all that is here.
fn give(path: &Path, user: u32) {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(user), Some(user)).expect("given");
    }
}

fn owner(path: &Path) -> (u32, u32) {
    let metadata = fs::metadata(path).expect("a file");
    (metadata.uid(), metadata.gid())
}

#[test]
fn a_file_keeps_its_owner_and_gives_it_to_the_files_beside_it() {
    let (scratch, path) = report();
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4640)).unwrap();
    give(&path, 65534);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4640)).unwrap();
    let owner_before = owner(&path);

    File::new(&path).write(token(5), "new").unwrap();

    for name in names(scratch.path()) {
        assert_eq!(owner(&scratch.path().join(&name)), owner_before, "{name}");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o4640);
}

/// As root: a thread that is somebody else, in a directory of theirs, meets a
/// file of a third.
#[test]
fn a_user_who_cannot_keep_the_owner_of_a_file_is_refused_and_leaves_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (scratch, path) = report();
    fs::write(&path, "old").unwrap();
    give(scratch.path(), 65534);
    give(&path, 1);

    let other = path.clone();
    let result = thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("somebody else");
        File::new(other).write(token(5), "new")
    });
    let error = result.join().expect("no panic").expect_err("not the owner");

    assert!(error.to_string().contains("the owner of"), "{error}");
    assert_eq!((owner(&path), fs::read_to_string(&path).unwrap()), ((1, 1), "old".into()));
    assert_eq!(names(scratch.path()), ["report"]);
}

/// In a child whose files may not grow beyond a few kilobytes.
#[test]
fn a_write_that_finds_no_room_leaves_the_old_file_and_nothing_else() {
    let (scratch, path) = report();
    fs::write(&path, "old").unwrap();

    let limited = r#"trap "" XFSZ; ulimit -f 4; exec "$0" "$@""#;
    let status = Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().expect("this program"))
        .args(["file::child_without_room", "--exact", "--ignored"])
        .env(CHILD, &path)
        .stdout(Stdio::null())
        .status()
        .expect("a child");

    assert!(status.success());
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    assert_eq!(names(scratch.path()), ["report", "report.fence", "report.fence.lock"]);
}

#[test]
#[ignore = "the child of another test"]
fn child_without_room() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let error = File::new(path).write(token(5), content_of(1_000_000)).expect_err("no room");
    assert!(error.to_string().contains("could not write "), "{error}");
}

#[test]
fn what_a_crashed_writer_left_is_in_nobodys_way() {
    let (scratch, path) = report();
    fs::write(scratch.path().join("report.fence.new"), "half a rep").unwrap();

    File::new(&path).write(token(5), "new").unwrap();

    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert!(!names(scratch.path()).contains(&"report.fence.new".into()));
}

#[test]
fn a_damaged_fence_lets_nobody_in() {
    let (scratch, path) = report();
    File::new(&path).write(token(5), "old").unwrap();

    for damage in ["", "1", "five\n", "-1\n", "9007199254740992\n"] {
        fs::write(scratch.path().join("report.fence"), damage).unwrap();

        let error = File::new(&path).write(token(6), "new").expect_err("damaged");

        assert!(matches!(error, FileError::Damaged { .. }), "{damage:?}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }
}

#[test]
fn the_fence_is_raised_before_the_file_is_replaced() {
    let (_scratch, path) = report();
    // No file takes the place of a directory.
    fs::create_dir(&path).unwrap();

    let error = File::new(&path).write(token(5), "new").expect_err("in the way");

    let FileError::Io { what, path: named, .. } = error else { panic!("{error}") };
    assert_eq!((what, named), ("replace", fs::canonicalize(&path).unwrap()));
    fs::remove_dir(&path).unwrap();
    assert_eq!(beaten_by(File::new(&path).write(token(4), "late")), 5);
    File::new(&path).write(token(5), "new").expect("the same token again");
}

#[test]
fn an_error_names_the_file() {
    let error = File::new("/nowhere/report").seal(token(1)).expect_err("no directory");

    let text = error.to_string();
    assert!(text.starts_with("could not find the directory /nowhere: "), "{text}");
}

/// A child writes as fast as it can until it is killed, again and again.
#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_file_and_a_fence_above_it() {
    let (scratch, path) = report();

    for round in 0..40 {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["file::child_that_writes", "--exact", "--ignored", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let output = child.stdout.as_mut().expect("its output");
        wait_for(output, b"writing\n");
        // Not a wait for something: a moment that is different each time.
        thread::sleep(Duration::from_micros(round * 137));
        child.kill().expect("killed");
        child.wait().expect("ended");

        let content = fs::read_to_string(&path).expect("a file");
        let written: u64 = content.lines().next().expect("a line").parse().expect("a number");
        assert_eq!(content, content_of(written), "not whole");
        let fence = fs::read_to_string(scratch.path().join("report.fence")).expect("a fence");
        let fence: u64 = fence.trim().parse().expect("a number");
        assert!(fence == written || fence == written + 1, "fence {fence}, content {written}");
        assert_eq!(beaten_by(File::new(&path).write(token(fence - 1), "late")), fence);
    }
}

/// Reads up to and including those bytes.
fn wait_for(output: &mut impl Read, words: &[u8]) {
    let mut heard = Vec::new();
    while !heard.ends_with(words) {
        let mut byte = [0];
        output.read_exact(&mut byte).expect("the child's words");
        heard.extend(byte);
    }
}

fn content_of(number: u64) -> String {
    format!("{number}\n").repeat(2000)
}

#[test]
#[ignore = "the child of another test"]
fn child_that_writes() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    let beside = path.with_file_name("report.fence");
    let fence = fs::read_to_string(beside).unwrap_or_default();
    let last: u64 = fence.trim().parse().unwrap_or(1);
    let file = File::new(path);
    for number in last + 1.. {
        file.write(token(number), content_of(number)).expect("written");
        if number == last + 1 {
            println!("writing");
        }
    }
}
