//! A file.

use super::{
    Scratch, beaten_by,
    suite::{self, Place},
    token,
};
use redlatch::{
    FencingToken,
    fence::{File, FileError, WriteError},
};
use std::{
    fs, io,
    io::Read,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

/// What a child is handed over: the file to write to.
const CHILD: &str = "REDLATCH_TEST_FENCED_FILE";

struct OnDisk(PathBuf);

impl Place for OnDisk {
    type Error = FileError;

    async fn another(&mut self) -> Self {
        OnDisk(self.0.clone())
    }

    async fn write(
        &mut self,
        token: FencingToken,
        value: &[u8],
    ) -> Result<(), WriteError<FileError>> {
        File::new(&self.0).write(token, value)
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), WriteError<FileError>> {
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
    let scratch = Scratch::new();
    let next = AtomicU32::new(0);

    suite::passes(async || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        OnDisk(scratch.path().join(format!("file {number}")))
    })
    .await;
}

#[test]
fn the_fence_is_kept_where_the_docs_say_and_nothing_else_is_left() {
    let scratch = Scratch::new();

    File::new(scratch.path().join("report.json")).write(token(5), "{}").unwrap();

    let expected = ["report.json", "report.json.fence", "report.json.fence.lock"];
    assert_eq!(names(scratch.path()), expected);
    assert_eq!(fs::read_to_string(scratch.path().join(expected[1])).unwrap(), "5\n");
}

#[test]
fn a_file_keeps_its_permissions() {
    let scratch = Scratch::new();
    let path = scratch.path().join("report");
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
    let scratch = Scratch::new();
    let [path, link] = ["report", "link"].map(|name| scratch.path().join(name));
    fs::write(&path, "old").unwrap();
    symlink(&path, &link).unwrap();

    File::new(&link).write(token(5), "new").unwrap();

    assert_eq!(beaten_by(File::new(&path).write(token(4), "late")), 5);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
}

#[test]
fn what_a_crashed_writer_left_is_in_nobodys_way() {
    let scratch = Scratch::new();
    let path = scratch.path().join("report");
    fs::write(scratch.path().join("report.fence.new"), "half a rep").unwrap();

    File::new(&path).write(token(5), "new").unwrap();

    assert_eq!(fs::read_to_string(&path).unwrap(), "new");
    assert!(!names(scratch.path()).contains(&"report.fence.new".into()));
}

#[test]
fn a_damaged_fence_lets_nobody_in() {
    let scratch = Scratch::new();
    let path = scratch.path().join("report");
    File::new(&path).write(token(5), "old").unwrap();

    for damage in ["", "1", "five\n", "-1\n", "9007199254740992\n"] {
        fs::write(scratch.path().join("report.fence"), damage).unwrap();

        let error = File::new(&path).write(token(6), "new").expect_err("damaged");

        assert!(matches!(error, WriteError::Damaged { .. }), "{damage:?}: {error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
    }
}

#[test]
fn the_fence_is_raised_before_the_file_is_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("report");
    // No file takes the place of a directory.
    fs::create_dir(&path).unwrap();

    let error = File::new(&path).write(token(5), "new").expect_err("in the way");

    let WriteError::Store(error) = error else { panic!("{error}") };
    assert_eq!((error.what, &error.path), ("replace", &path));
    fs::remove_dir(&path).unwrap();
    assert_eq!(beaten_by(File::new(&path).write(token(4), "late")), 5);
    File::new(&path).write(token(5), "new").expect("the same token again");
}

#[test]
fn an_error_names_the_file() {
    let error = File::new("/nowhere/report").seal(token(1)).expect_err("no directory");

    let text = error.to_string();
    assert!(text.starts_with("could not open /nowhere/report.fence.lock: "), "{text}");
}

/// A child writes as fast as it can until it is killed, again and again.
#[test]
fn a_writer_killed_at_any_moment_leaves_a_whole_file_and_a_fence_above_it() {
    let scratch = Scratch::new();
    let path = scratch.path().join("report");

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
