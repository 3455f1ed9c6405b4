//! Questions over HTTP, and the servers of the command.

use super::{PATIENCE, Running, Sandbox, wait_until};
use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    process::Stdio,
};

/// A password that the page accepts, if it is in a file of its owner alone.
pub const PASSWORD: &str = "0123456789abcdef-secret";

/// Writes the file for `--allow-release-with password`.
pub fn write_password(sandbox: &Sandbox, password: &str, mode: u32) {
    let path = sandbox.path("password");
    fs::write(&path, format!("{password}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Sends this as it is, and reads to the end.
pub fn send(port: u16, question: &str) -> Answer {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(question.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Answer { status: status.unwrap_or(0), head: head.into(), body: body.into() }
}

pub fn get(port: u16, target: &str) -> Answer {
    send(port, &format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"))
}

/// Posts JSON as a page would, with a password if there is one.
pub fn post(port: u16, target: &str, password: Option<&str>, body: &str) -> Answer {
    let password =
        password.map_or(String::new(), |password| format!("Authorization: Bearer {password}\r\n"));
    let length = body.len();
    send(
        port,
        &format!(
            "POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n\
             Content-Type: application/json\r\n{password}Content-Length: {length}\r\n\r\n{body}"
        ),
    )
}

/// Starts a server of the command at any free port. Its stderr is the file `stderr`.
pub fn serve(sandbox: &Sandbox, args: &[&str]) -> (Running, u16) {
    let mut command = sandbox.redlatch([args, &["--listen", "127.0.0.1:0"]].concat());
    let stderr = sandbox.path("stderr");
    let child = command.stdout(Stdio::null()).stderr(File::create(&stderr).unwrap()).spawn();
    let running = Running::of(child.unwrap());
    let mut port = None;
    let is_up = wait_until(PATIENCE, || {
        let said = fs::read_to_string(&stderr).unwrap_or_default();
        let rest =
            said.split_once("listening at http://127.0.0.1:").map(|(_, rest)| rest.to_owned());
        port = rest.and_then(|rest| rest.split_once('/')?.0.parse().ok());
        port.is_some()
    });
    assert!(is_up, "it does not listen: {:?}", fs::read_to_string(&stderr));
    (running, port.unwrap())
}
