//! A proxy that turns into a liar: it passes on what the real server answers, and
//! nonsense once it is told to.

use redlatch_testbed::Server;
use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
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
    lies: Arc<Lies>,
}

#[derive(Default)]
struct Lies {
    lie: Mutex<Lie>,
    /// Whether anyone has received the current lie.
    is_told: AtomicBool,
}

impl Lies {
    fn is_lying(&self) -> bool {
        self.lie.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn present(&self) -> Lie {
        self.lie.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Turncoat {
    pub(crate) fn before(server: &Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its number").port();
        let lies = Arc::<Lies>::default();
        let (server, shared) = (server.port(), lies.clone());
        // It ends with the process: a listener cannot be woken.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                relay(&client, &server, &shared);
            }
        });
        Turncoat { port, lies }
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

    /// Whether anyone has received the current lie.
    pub(crate) fn has_lied(&self) -> bool {
        self.lies.is_told.load(Ordering::Acquire)
    }

    fn tell(&self, lie: Lie) {
        let mut present = self.lies.lie.lock().unwrap_or_else(PoisonError::into_inner);
        self.lies.is_told.store(false, Ordering::Release);
        *present = lie;
    }
}

fn relay(client: &TcpStream, server: &TcpStream, lies: &Arc<Lies>) {
    let pair = || io::Result::Ok((client.try_clone()?, server.try_clone()?));
    let (Ok((mut asks, mut to)), Ok((to_client, from))) = (pair(), pair()) else { return };
    thread::spawn(move || {
        let _ = io::copy(&mut asks, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
    let lies = lies.clone();
    // An error is a client that left.
    thread::spawn(move || drop(answer(from, to_client, &lies)));
}

fn answer(mut from: TcpStream, mut client: TcpStream, lies: &Lies) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return client.shutdown(std::net::Shutdown::Both);
        }
        let Some((bytes, manner)) = lies.present() else {
            client.write_all(&buffer[..read])?;
            continue;
        };
        lies.is_told.store(true, Ordering::Release);
        client.write_all(&bytes)?;
        match manner {
            Manner::Once => {}
            Manner::Endlessly => {
                while lies.is_lying() {
                    client.write_all(&bytes)?;
                }
                return client.shutdown(std::net::Shutdown::Both);
            }
            Manner::Trickling => {
                let mut rows = bytes.split_inclusive(|byte| *byte == b'\n');
                for byte in rows.next_back().unwrap_or_default().iter().cycle() {
                    client.write_all(&[*byte])?;
                    thread::sleep(Duration::from_millis(5));
                }
            }
        }
    }
}
