//! What a `Proxy` promises, in front of a real server.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use redlatch_testbed::{Direction, Proxy, Server, eventually, wait_until};

const LIMIT: Duration = Duration::from_secs(10);
/// Long enough for an answer on loopback that is not held back.
const MOMENT: Duration = Duration::from_millis(50);

/// A server, a proxy before it, and a client of the proxy.
struct Line {
    client: TcpStream,
    proxy: Proxy,
    server: Server,
}

impl Line {
    fn new() -> Self {
        let server = Server::start().expect("a server");
        let proxy = Proxy::to(&server).expect("a proxy");
        let client = dial(&proxy);
        Self { client, proxy, server }
    }

    fn send(&self, command: &str) {
        (&self.client).write_all(format!("{command}\r\n").as_bytes()).expect("sent");
    }

    /// What comes back within the limit; empty at the end of the connection.
    fn receive(&self, limit: Duration) -> io::Result<String> {
        self.client.set_read_timeout(Some(limit))?;
        let mut buffer = [0; 1024];
        let read = (&self.client).read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
    }

    fn answer(&self) -> String {
        self.receive(LIMIT).expect("an answer")
    }

    fn is_mute(&self) -> bool {
        self.receive(MOMENT).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn dial(proxy: &Proxy) -> TcpStream {
    TcpStream::connect(("127.0.0.1", proxy.port())).expect("a connection")
}

#[test]
fn everything_passes_at_first() {
    let line = Line::new();

    line.send("PING");

    assert_eq!(line.answer(), "+PONG\r\n");
    assert_eq!(line.proxy.url(), format!("redis://127.0.0.1:{}", line.proxy.port()));
}

#[test]
fn much_data_passes_unharmed() {
    let line = Line::new();
    let value = "x".repeat(8 << 20);
    line.server.run(&["SET", "a", &value]);

    line.send("GET a");
    let mut received = vec![0; "$8388608\r\n".len() + value.len() + 2];
    (&line.client).read_exact(&mut received).expect("all of it");

    assert!(received == format!("$8388608\r\n{value}\r\n").into_bytes());
}

#[test]
fn the_end_of_a_connection_passes_too() {
    let line = Line::new();
    line.send("PING");
    line.answer();
    assert_eq!(line.server.connected_clients(), 1);

    line.send("QUIT");
    assert_eq!(line.answer(), "+OK\r\n");

    assert_eq!(line.answer(), "");
    drop(line.client);
    eventually(LIMIT, || line.proxy.open_connections() == 0);
    eventually(LIMIT, || line.server.connected_clients() == 0);
    assert_eq!(line.proxy.connections(), 1);
}

#[test]
fn a_delay_adds_up_with_that_of_the_other_direction() {
    let line = Line::new();
    line.proxy.delay(Direction::Requests, Duration::from_millis(30));
    line.proxy.delay(Direction::Replies, Duration::from_millis(40));

    let begin = Instant::now();
    line.send("PING");

    assert_eq!(line.answer(), "+PONG\r\n");
    assert!(begin.elapsed() >= Duration::from_millis(70), "{:?}", begin.elapsed());
}

#[test]
fn held_requests_reach_the_server_when_released() {
    let line = Line::new();
    line.proxy.hold(Direction::Requests);

    line.send("SET a b");
    assert!(line.is_mute());
    assert_eq!(line.server.key_count(), 0);
    line.proxy.release(Direction::Requests);

    assert_eq!(line.answer(), "+OK\r\n");
    assert_eq!(line.server.keys(), ["a"]);
}

#[test]
fn held_replies_come_in_order_when_released() {
    let line = Line::new();
    line.proxy.hold(Direction::Replies);

    line.send("SET a b");
    eventually(LIMIT, || line.server.key_count() == 1);
    line.send("STRLEN a");
    assert!(line.is_mute());
    line.proxy.pass();

    let mut answers = line.answer();
    eventually(LIMIT, || {
        if answers.len() < 9 {
            answers += &line.answer();
        }
        answers == "+OK\r\n:1\r\n"
    });
}

#[test]
fn a_lost_reply_was_carried_out() {
    let line = Line::new();
    line.proxy.lose_next_reply();

    line.send("SET a b");
    eventually(LIMIT, || line.proxy.lost_replies() == 1);

    assert_eq!(line.server.keys(), ["a"]);
    assert!(line.is_mute());
}

#[test]
fn after_a_lost_reply_requests_still_pass_and_other_connections_work() {
    let line = Line::new();
    line.proxy.lose_next_reply();
    line.send("SET a b");
    eventually(LIMIT, || line.proxy.lost_replies() == 1);

    line.send("DEL a");
    eventually(LIMIT, || line.server.key_count() == 0);
    assert!(line.is_mute());

    let line = Line { client: dial(&line.proxy), ..line };
    line.send("PING");
    assert_eq!(line.answer(), "+PONG\r\n");
}

#[test]
fn discarded_requests_never_arrive_and_the_connection_stays_mute() {
    let line = Line::new();
    line.proxy.discard(Direction::Requests);
    line.send("SET a b");
    assert!(line.is_mute());

    line.proxy.pass();
    line.send("SET a b");

    assert!(line.is_mute());
    assert_eq!(line.server.key_count(), 0);
}

#[test]
fn a_black_hole_accepts_and_says_nothing() {
    let line = Line::new();
    line.proxy.black_hole();

    let line = Line { client: dial(&line.proxy), ..line };
    line.send("SET a b");

    assert!(line.is_mute());
    assert_eq!(line.server.key_count(), 0);
}

#[test]
fn a_reset_reaches_both_sides() {
    let line = Line::new();
    line.send("PING");
    line.answer();

    line.proxy.reset_all();

    let error = line.receive(LIMIT).expect_err("no answer");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(line.proxy.open_connections(), 0);
    eventually(LIMIT, || line.server.connected_clients() == 0);
}

#[test]
fn a_hanging_connect_gets_through_afterwards() {
    let line = Line::new();
    line.proxy.hang_connects();
    let address = ([127, 0, 0, 1], line.proxy.port()).into();

    let error = TcpStream::connect_timeout(&address, MOMENT).expect_err("no connection");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    line.send("PING");
    assert_eq!(line.answer(), "+PONG\r\n", "a connection that exists goes on");
    line.proxy.pass();

    eventually(LIMIT, || TcpStream::connect_timeout(&address, LIMIT).is_ok());
    let line = Line { client: dial(&line.proxy), ..line };
    line.send("PING");
    assert_eq!(line.answer(), "+PONG\r\n");
}

#[test]
fn a_client_of_a_dead_server_is_turned_away() {
    let line = Line::new();
    line.server.kill();

    let line = Line { client: dial(&line.proxy), ..line };

    assert!(matches!(line.receive(LIMIT).as_deref(), Ok("") | Err(_)));
    assert!(!line.is_mute());
}

#[test]
fn a_dropped_proxy_ends_its_thread_and_its_connections() {
    let Line { client, proxy, server } = Line::new();
    proxy.hold(Direction::Replies);
    let port = proxy.port();

    let begin = Instant::now();
    drop(proxy);

    assert!(begin.elapsed() < LIMIT);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(matches!((&client).read(&mut [0]), Ok(0) | Err(_)));
    eventually(LIMIT, || server.connected_clients() == 0);
}

#[test]
fn an_idle_proxy_does_not_spin() {
    let Line { client, proxy, server } = Line::new();
    proxy.hold(Direction::Replies);
    drop(client);
    eventually(LIMIT, || server.connected_clients() == 0);

    let before = cpu_time();
    assert!(!wait_until(Duration::from_millis(200), || false));

    assert!(cpu_time() - before < 10, "ticks of the whole process");
}

/// Ticks of 10 ms that this process has used.
fn cpu_time() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<_> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let ticks = |index: usize| fields[index].parse::<u64>().expect("a number");
    ticks(11) + ticks(12)
}
