//! An exporter, and what it says.

use super::{PATIENCE, Running, Sandbox, eventually, start};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// An exporter, and its port.
pub fn exporter(sandbox: &Sandbox) -> (Running, u16) {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let running = start(sandbox.redlatch(["exporter", "--every", "0s", "--listen", &listen]));
    eventually(PATIENCE, || TcpStream::connect(&listen).is_ok());
    (running, port)
}

pub fn ask(port: u16, question: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub fn scrape(port: u16) -> String {
    ask(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
}
