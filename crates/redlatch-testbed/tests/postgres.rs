//! What a `Postgres` promises.

use redlatch_testbed::{Postgres, eventually};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

const LIMIT: Duration = Duration::from_secs(60);

fn dir(server: &Postgres) -> PathBuf {
    let conninfo = server.conninfo();
    let host = conninfo.split(' ').find_map(|word| word.strip_prefix("host="));
    host.expect("a directory").into()
}

fn pid(server: &Postgres) -> u32 {
    let file = fs::read_to_string(dir(server).join("data/postmaster.pid")).expect("a lock file");
    file.lines().next().and_then(|line| line.parse().ok()).expect("a process")
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

fn query(server: &Postgres, sql: &str) -> String {
    let psql = Postgres::find().expect("the programs").join("psql");
    let output = Command::new(psql).args([&server.conninfo(), "-XAtqc", sql]).output();
    let output = output.expect("psql");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

#[test]
fn a_server_answers_and_keeps_its_data_over_a_restart() {
    let server = Postgres::start().unwrap_or_else(|error| panic!("{error}"));
    query(&server, "CREATE TABLE kept AS SELECT 5 AS five");
    let before = pid(&server);

    server.restart();

    assert_ne!(pid(&server), before);
    assert!(!runs(before));
    assert_eq!(query(&server, "SELECT five FROM kept"), "5");
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_directory() {
    let server = Postgres::start().unwrap_or_else(|error| panic!("{error}"));
    let (dir, pid) = (dir(&server), pid(&server));
    assert!(runs(pid));

    drop(server);

    assert!(!dir.exists());
    eventually(LIMIT, || !runs(pid));
}
