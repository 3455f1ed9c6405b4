//! A server that answers nonsense.

use crate::{error::StartError, port::Port};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
};

/// How the nonsense is served.
#[derive(Debug, Clone)]
enum Manner {
    /// The bytes, once per request.
    PerRequest(Vec<u8>),
    /// The bytes over and over, as long as somebody reads.
    Endless(Vec<u8>),
}

/// A fake server that sends whatever a test wants.
///
/// It does not parse what it reads: whatever arrives at once counts as one request.
///
/// ```
/// use redlatch_testbed::Nonsense;
///
/// let liar = Nonsense::answering(b"$99999999999\r\n")?;
/// assert!(liar.url().starts_with("redis://127.0.0.1:"));
/// # Ok::<(), redlatch_testbed::StartError>(())
/// ```
#[derive(Debug)]
pub struct Nonsense {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    port: Port,
}

#[derive(Debug)]
struct Shared {
    manner: Manner,
    requests: AtomicUsize,
    /// `None` once the server has ended.
    guests: Mutex<Option<Vec<Guest>>>,
}

/// A connection and the thread that serves it.
type Guest = (TcpStream, JoinHandle<()>);

impl Nonsense {
    /// Answers every request with these bytes.
    pub fn answering(bytes: impl Into<Vec<u8>>) -> Result<Self, StartError> {
        Self::start(Manner::PerRequest(bytes.into()))
    }

    /// Sends these bytes over and over to every client.
    pub fn endless(bytes: impl Into<Vec<u8>>) -> Result<Self, StartError> {
        Self::start(Manner::Endless(bytes.into()))
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns how many requests were read so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    fn start(manner: Manner) -> Result<Self, StartError> {
        let (port, listener) = Port::listen().map_err(|_| StartError::NoPort)?;
        let guests = Mutex::new(Some(Vec::new()));
        let shared = Arc::new(Shared { manner, requests: AtomicUsize::new(0), guests });
        let host = Arc::clone(&shared);
        let thread = thread::spawn(move || host.welcome(&listener));
        Ok(Self { shared, thread: Some(thread), port })
    }
}

impl Drop for Nonsense {
    fn drop(&mut self) {
        let guests = self.shared.guests.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One more connection, to wake the accepting thread.
        let _ = TcpStream::connect(("127.0.0.1", self.port()));
        let _ = self.thread.take().map(JoinHandle::join);
        for (stream, thread) in guests.into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn welcome(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(guests) = guests.as_mut() else { return };
            guests.retain(|(_, thread)| !thread.is_finished());
            let Ok(kept) = stream.try_clone() else { continue };
            let host = Arc::clone(&self);
            // An error here means that a client left.
            guests.push((kept, thread::spawn(move || drop(host.serve(stream)))));
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        if let Manner::Endless(bytes) = &self.manner {
            loop {
                stream.write_all(bytes)?;
            }
        }
        let Manner::PerRequest(bytes) = &self.manner else { return Ok(()) };
        let mut buffer = [0; 16 * 1024];
        while stream.read(&mut buffer)? > 0 {
            self.requests.fetch_add(1, Ordering::Relaxed);
            stream.write_all(bytes)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn dial(liar: &Nonsense) -> TcpStream {
        TcpStream::connect(("127.0.0.1", liar.port())).expect("a connection")
    }

    #[test]
    fn every_request_gets_the_same_answer() {
        let liar = Nonsense::answering(b":7\r\n").expect("a server");
        let mut client = dial(&liar);

        for _ in 0..2 {
            let mut answer = [0; 4];
            client.write_all(b"PING\r\n").expect("sent");
            client.read_exact(&mut answer).expect("an answer");
            assert_eq!(&answer, b":7\r\n");
        }

        assert_eq!(liar.requests(), 2);
    }

    #[test]
    fn an_endless_answer_has_no_end_until_the_server_is_dropped() {
        let liar = Nonsense::endless(b"*1\r\n").expect("a server");
        let mut client = dial(&liar);

        let mut answer = vec![0; 1 << 20];
        client.read_exact(&mut answer).expect("a lot");
        drop(liar);

        client.set_read_timeout(Some(Duration::from_secs(10))).expect("a limit");
        let end = io::copy(&mut client, &mut io::sink()).map_err(|error| error.kind());
        assert_ne!(end, Err(io::ErrorKind::WouldBlock));
    }
}
