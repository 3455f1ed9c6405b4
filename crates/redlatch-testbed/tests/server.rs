//! What a `Server` promises, against the real ones.

use redlatch_testbed::{Flavour, Reply, Server, Servers, eventually, wait_until};
use std::{
    io::{BufRead, BufReader},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

const LIMIT: Duration = Duration::from_secs(10);

fn server() -> Server {
    Server::start().expect("a server")
}

fn every_flavour() -> impl Iterator<Item = Server> {
    Flavour::ALL
        .into_iter()
        .map(|flavour| Server::options().flavour(flavour).start().expect("a server"))
}

fn runs(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

#[test]
fn every_flavour_starts_and_answers() {
    for server in every_flavour() {
        assert!(server.run(&["SET", "a", "b"]).is_ok());
        assert_eq!(server.run(&["GET", "a"]), Reply::Bulk(b"b".into()));
        assert_eq!(server.keys(), ["a"]);
        assert_eq!(server.key_count(), 1);
    }
}

#[test]
fn an_expired_key_is_not_counted() {
    let server = server();

    server.run(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    server.run(&["SET", "a", "b", "PX", "1"]);

    eventually(LIMIT, || server.key_count() == 0);
}

#[test]
fn a_dropped_server_leaves_no_process_and_no_directory() {
    let server = server();
    let (pid, dir) = (server.pid().expect("a process"), server.dir());
    server.freeze();

    drop(server);

    assert!(!runs(pid));
    assert!(!dir.exists());
}

#[test]
fn a_killed_server_is_down_until_it_is_restarted_empty() {
    for server in every_flavour() {
        let (port, run_id) = (server.port(), server.info("run_id"));
        server.run(&["SET", "a", "b"]);

        server.kill();
        assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(server.try_run(&["PING"]).is_err());
        server.restart();

        assert_eq!(server.port(), port);
        assert_ne!(server.info("run_id"), run_id);
        assert_eq!(server.key_count(), 0);
    }
}

#[test]
fn a_restart_keeps_the_data_when_asked_to() {
    for server in every_flavour() {
        server.run(&["SET", "a", "b"]);

        server.restart_with_data();

        assert_eq!(server.keys(), ["a"]);
    }
}

#[test]
fn an_appendonly_server_survives_a_kill_with_its_data_unless_emptied() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).appendonly().start().expect("a server");
        server.run(&["SET", "a", "b"]);

        server.restart();
        assert_eq!(server.keys(), ["a"]);

        server.restart_empty();
        assert_eq!(server.key_count(), 0);
    }
}

#[test]
fn a_frozen_server_answers_after_the_thaw() {
    let server = server();
    server.freeze();

    thread::scope(|scope| {
        let answer = scope.spawn(|| server.try_run(&["PING"]));
        assert!(!wait_until(Duration::from_millis(50), || answer.is_finished()));
        server.thaw();

        assert_eq!(
            answer.join().expect("no panic").expect("an answer"),
            Reply::Status("PONG".into())
        );
    });
}

#[test]
fn only_foreign_connections_are_counted() {
    let server = server();
    assert_eq!(server.connected_clients(), 0);

    let client = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    eventually(LIMIT, || server.connected_clients() == 1);

    drop(client);
    eventually(LIMIT, || server.connected_clients() == 0);
}

#[test]
fn a_password_is_in_the_url_and_does_not_lock_the_testbed_out() {
    let server = Server::options()
        .password("secret")
        .user("anna", "pw", "~a* +@all")
        .start()
        .expect("a server");

    assert_eq!(server.url(), format!("redis://:secret@127.0.0.1:{}", server.port()));
    assert_eq!(server.url_as("anna", "pw"), format!("redis://anna:pw@127.0.0.1:{}", server.port()));
    assert!(server.run(&["AUTH", "anna", "pw"]).is_ok());
    assert!(
        matches!(server.run(&["SET", "b", "1"]), Reply::Error(error) if error.starts_with("NOPERM"))
    );
}

#[test]
fn a_unix_socket_is_there_when_asked_for() {
    let server = Server::options().unix_socket().start().expect("a server");

    assert!(UnixStream::connect(server.unix_path()).is_ok());
    assert!(server.unix_url().starts_with("redis+unix:///"));
}

#[test]
fn a_wrong_configuration_shows_the_servers_own_words() {
    let error = Server::options().config("no-such-directive 1").start().expect_err("no server");

    let text = error.to_string();

    assert!(text.contains("no-such-directive"), "{text}");
}

#[test]
fn a_fake_clock_moves_and_expiry_with_it() {
    let server = Server::options().fake_clock().start().expect("a server");
    server.run(&["SET", "a", "b", "EX", "60"]);

    server.clock_behind(Duration::from_secs(600));
    eventually(LIMIT, || clock_of(&server) < now() - 500);
    assert_eq!(server.key_count(), 1);
    server.clock_ahead(Duration::from_secs(3600));

    eventually(LIMIT, || clock_of(&server) > now() + 3500);
    assert_eq!(server.key_count(), 0);
}

fn clock_of(server: &Server) -> u64 {
    let time = server.run(&["TIME"]);
    time.items()[0].text().and_then(|seconds| seconds.parse().ok()).expect("seconds")
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

#[test]
fn servers_are_independent_and_known_by_number() {
    let servers = Servers::start(5).expect("servers");

    servers[3].run(&["SET", "a", "b"]);
    servers.freeze(&[0, 1]);
    servers.kill(&[2]);
    servers.thaw(&[0, 1]);
    servers.restart(&[2]);

    let keys = servers.keys_everywhere();
    assert_eq!(servers.urls().len(), 5);
    assert_eq!(keys.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 1, 0]);
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = thread::spawn(server).join().expect("no panic");

    assert_eq!(server.run(&["PING"]), Reply::Status("PONG".into()));
}

#[test]
fn a_server_dies_with_its_process_even_if_that_is_killed() {
    let mut owner = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "owner_that_is_killed", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let output = BufReader::new(owner.stdout.take().expect("its output"));
    let pid = output
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.split_once("server=")?.1.parse().ok())
        .expect("the id of its server");
    assert!(runs(pid));

    owner.kill().expect("kill");
    owner.wait().expect("end");

    eventually(LIMIT, || !runs(pid));
}

#[test]
#[ignore = "the other half of `a_server_dies_with_its_process_even_if_that_is_killed`"]
fn owner_that_is_killed() {
    let server = server();
    server.freeze();
    println!("server={}", server.pid().expect("a process"));
    loop {
        thread::park();
    }
}
