//! A second look at an address where no node answers: what is there instead?
//!
//! In:  the address. Out: what listens there, if that explains the silence.

use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How long the second look may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// The start of a TLS handshake: a `ClientHello` of TLS 1.2 with one cipher suite and a
/// random number of zeros. A TLS server answers with a handshake (22) or an alert (21).
const CLIENT_HELLO: [u8; 50] = {
    let mut hello = [0; 50];
    // A handshake record with 45 bytes: a ClientHello with 41, version 1.2.
    let start = [22, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    let mut at = 0;
    while at < start.len() {
        hello[at] = start[at];
        at += 1;
    }
    // After the random number and an empty session: two bytes of cipher suites
    // (ECDHE-RSA-AES128-GCM-SHA256), and one method of compression (none).
    (hello[45], hello[46], hello[47], hello[48]) = (2, 0xc0, 0x2f, 1);
    hello
};

/// What listens at an address instead of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listener {
    /// It speaks TLS, but we did not.
    Tls,
    /// We spoke TLS, but it does not.
    Plain,
    Sentinel,
}

/// Looks at an address once more.
pub(super) async fn probe(address: &str) -> Option<Listener> {
    let (scheme, rest) = address.split_once("://")?;
    let place = rest.split(['/', '?']).next()?;
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let ask = |question: &'static [u8]| async move {
        tokio::time::timeout(PATIENCE, answer(place, question)).await.ok().flatten()
    };
    match scheme {
        "redis" => {
            let info = ask(b"INFO server\r\n").await.unwrap_or_default();
            if contains(&info, b"redis_mode:sentinel") {
                return Some(Listener::Sentinel);
            }
            let hello = ask(&CLIENT_HELLO).await.unwrap_or_default();
            // Version 3.x of a handshake or an alert.
            matches!(hello[..], [21 | 22, 3, ..]).then_some(Listener::Tls)
        }
        "rediss" => {
            let pong = ask(b"PING\r\n").await.unwrap_or_default();
            matches!(pong[..], [b'+' | b'-', b'A'..=b'Z', ..]).then_some(Listener::Plain)
        }
        _ => None,
    }
}

/// The first bytes of the answer to a question.
async fn answer(place: &str, question: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(place).await.ok()?;
    stream.write_all(question).await.ok()?;
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.ok()?;
    answer.truncate(length);
    Some(answer)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
