//! A proxy that turns into a liar: it passes on what the real server answers, and
//! nonsense once it is told to.

use redlatch_testbed::Server;
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// How it lies, if it does.
type Lie = Option<(Vec<u8>, Manner)>;

#[derive(Debug, Clone, Copy)]
enum Manner {
    Once,
    Endlessly,
    /// All at once, and then its last line byte by byte, over and over.
    Trickling,
}

pub(crate) struct Turncoat {
    port: u16,
    lie: Arc<Mutex<Lie>>,
}

impl Turncoat {
    pub(crate) fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let lie = Arc::<Mutex<Lie>>::default();
        let (server, shared) = (server.port(), lie.clone());
        // It ends with the process: a listener cannot be woken.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                relay(&client, &server, &shared);
            }
        });
        Turncoat { port, lie }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// From now on every answer is this.
    pub(crate) fn answer(&self, bytes: impl Into<Vec<u8>>) {
        self.tell(Some((bytes.into(), Manner::Once)));
    }

    /// From now on every answer starts with this and goes on with its last line,
    /// a byte at a time.
    pub(crate) fn trickle(&self, bytes: impl Into<Vec<u8>>) {
        self.tell(Some((bytes.into(), Manner::Trickling)));
    }

    /// From now on every answer is this, over and over.
    pub(crate) fn answer_endlessly(&self, bytes: impl Into<Vec<u8>>) {
        self.tell(Some((bytes.into(), Manner::Endlessly)));
    }

    /// Serves like the real one again.
    pub(crate) fn repent(&self) {
        self.tell(None);
    }

    fn tell(&self, lie: Lie) {
        *self.lie.lock().unwrap_or_else(PoisonError::into_inner) = lie;
    }
}

fn relay(client: &TcpStream, server: &TcpStream, lie: &Arc<Mutex<Lie>>) {
    let pair = || io::Result::Ok((client.try_clone()?, server.try_clone()?));
    let (Ok((mut asks, mut to)), Ok((to_client, from))) = (pair(), pair()) else { return };
    thread::spawn(move || {
        let _ = io::copy(&mut asks, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let lie = lie.clone();
    // An error is a client that left.
    thread::spawn(move || drop(answer(from, to_client, &lie)));
}

fn answer(mut from: TcpStream, mut client: TcpStream, lie: &Mutex<Lie>) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return client.shutdown(std::net::Shutdown::Both);
        }
        let lie = lie.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match lie {
            None => client.write_all(&buffer[..read])?,
            Some((bytes, Manner::Once)) => client.write_all(&bytes)?,
            Some((bytes, Manner::Endlessly)) => loop {
                client.write_all(&bytes)?;
            },
            Some((bytes, Manner::Trickling)) => {
                client.write_all(&bytes)?;
                let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
                for byte in lines.next_back().unwrap_or_default().iter().cycle() {
                    client.write_all(&[*byte])?;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}
