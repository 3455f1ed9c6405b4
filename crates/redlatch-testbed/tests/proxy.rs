//! What a `Proxy` promises, in front of a real server.

use redlatch_testbed::{Direction, Proxy, Server, eventually, wait_until};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_secs(10);
/// Long enough for an answer on loopback that is not held back.
const MOMENT: Duration = Duration::from_millis(50);

/// A server, a proxy before it, and a client of the proxy.
struct Setup {
    client: TcpStream,
    proxy: Proxy,
    server: Server,
}

impl Setup {
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
    let setup = Setup::new();

    setup.send("PING");

    assert_eq!(setup.answer(), "+PONG\r\n");
    assert_eq!(setup.proxy.url(), format!("redis://127.0.0.1:{}", setup.proxy.port()));
}

#[test]
fn much_data_passes_unharmed() {
    let setup = Setup::new();
    let value = "x".repeat(8 << 20);
    setup.server.run(&["SET", "a", &value]);

    setup.send("GET a");
    let mut received = vec![0; "$8388608\r\n".len() + value.len() + 2];
    (&setup.client).read_exact(&mut received).expect("all of it");

    assert!(received == format!("$8388608\r\n{value}\r\n").into_bytes());
}

#[test]
fn the_end_of_a_connection_passes_too() {
    let setup = Setup::new();
    setup.send("PING");
    setup.answer();
    assert_eq!(setup.server.connected_clients(), 1);

    setup.send("QUIT");
    assert_eq!(setup.answer(), "+OK\r\n");

    assert_eq!(setup.answer(), "");
    drop(setup.client);
    eventually(LIMIT, || setup.proxy.open_connections() == 0);
    eventually(LIMIT, || setup.server.connected_clients() == 0);
    assert_eq!(setup.proxy.connections(), 1);
}

#[test]
fn a_delay_adds_up_with_that_of_the_other_direction() {
    let setup = Setup::new();
    setup.proxy.delay(Direction::Requests, Duration::from_millis(30));
    setup.proxy.delay(Direction::Replies, Duration::from_millis(40));

    let begin = Instant::now();
    setup.send("PING");

    assert_eq!(setup.answer(), "+PONG\r\n");
    assert!(begin.elapsed() >= Duration::from_millis(70), "{:?}", begin.elapsed());
}

#[test]
fn held_requests_reach_the_server_when_released() {
    let setup = Setup::new();
    setup.proxy.hold(Direction::Requests);

    setup.send("SET a b");
    assert!(setup.is_mute());
    assert_eq!(setup.server.key_count(), 0);
    setup.proxy.release(Direction::Requests);

    assert_eq!(setup.answer(), "+OK\r\n");
    assert_eq!(setup.server.keys(), ["a"]);
}

#[test]
fn held_replies_come_in_order_when_released() {
    let setup = Setup::new();
    setup.proxy.hold(Direction::Replies);

    setup.send("SET a b");
    eventually(LIMIT, || setup.server.key_count() == 1);
    setup.send("STRLEN a");
    assert!(setup.is_mute());
    setup.proxy.pass();

    let mut answers = setup.answer();
    eventually(LIMIT, || {
        if answers.len() < 9 {
            answers += &setup.answer();
        }
        answers == "+OK\r\n:1\r\n"
    });
}

#[test]
fn a_lost_reply_was_carried_out() {
    let setup = Setup::new();
    setup.proxy.lose_next_reply();

    setup.send("SET a b");
    eventually(LIMIT, || setup.proxy.lost_replies() == 1);

    assert_eq!(setup.server.keys(), ["a"]);
    assert!(setup.is_mute());
}

#[test]
fn after_a_lost_reply_requests_still_pass_and_other_connections_work() {
    let setup = Setup::new();
    setup.proxy.lose_next_reply();
    setup.send("SET a b");
    eventually(LIMIT, || setup.proxy.lost_replies() == 1);

    setup.send("DEL a");
    eventually(LIMIT, || setup.server.key_count() == 0);
    assert!(setup.is_mute());

    let setup = Setup { client: dial(&setup.proxy), ..setup };
    setup.send("PING");
    assert_eq!(setup.answer(), "+PONG\r\n");
}

#[test]
fn discarded_requests_never_arrive_and_the_connection_stays_mute() {
    let setup = Setup::new();
    setup.proxy.discard(Direction::Requests);
    setup.send("SET a b");
    assert!(setup.is_mute());

    setup.proxy.pass();
    setup.send("SET a b");

    assert!(setup.is_mute());
    assert_eq!(setup.server.key_count(), 0);
}

#[test]
fn a_black_hole_accepts_and_says_nothing() {
    let setup = Setup::new();
    setup.proxy.black_hole();

    let setup = Setup { client: dial(&setup.proxy), ..setup };
    setup.send("SET a b");

    assert!(setup.is_mute());
    assert_eq!(setup.server.key_count(), 0);
}

#[test]
fn a_reset_reaches_both_sides() {
    let setup = Setup::new();
    setup.send("PING");
    setup.answer();

    setup.proxy.reset_all();

    let error = setup.receive(LIMIT).expect_err("no answer");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(setup.proxy.open_connections(), 0);
    eventually(LIMIT, || setup.server.connected_clients() == 0);
}

#[test]
fn a_hanging_connect_gets_through_afterwards() {
    let setup = Setup::new();
    setup.proxy.hang_connects();
    let address = ([127, 0, 0, 1], setup.proxy.port()).into();

    let error = TcpStream::connect_timeout(&address, MOMENT).expect_err("no connection");
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    setup.send("PING");
    assert_eq!(setup.answer(), "+PONG\r\n", "a connection that exists goes on");
    setup.proxy.pass();

    eventually(LIMIT, || TcpStream::connect_timeout(&address, LIMIT).is_ok());
    let setup = Setup { client: dial(&setup.proxy), ..setup };
    setup.send("PING");
    assert_eq!(setup.answer(), "+PONG\r\n");
}

#[test]
fn a_client_of_a_dead_server_is_turned_away() {
    let setup = Setup::new();
    setup.server.kill();

    let setup = Setup { client: dial(&setup.proxy), ..setup };

    assert!(matches!(setup.receive(LIMIT).as_deref(), Ok("") | Err(_)));
    assert!(!setup.is_mute());
}

#[test]
fn a_dropped_proxy_ends_its_thread_and_its_connections() {
    let Setup { client, proxy, server } = Setup::new();
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
    let Setup { client, proxy, server } = Setup::new();
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
