//! A client's socket, and the thread that reads it.
//!
//! A thread, because the runtime that polls the link may have no I/O driver.

use super::{Directory, parse};
use redlatch_core::{Ticket, Wake, resource::MAX_NAME};
use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixDatagram,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};
use tokio::sync::mpsc::UnboundedSender;

/// Where the wakes of one link arrive. The link and its database share it: the database
/// opens it when its client first joins a line, and the link closes it when it is
/// dropped, without waiting for the database.
#[derive(Debug, Default)]
pub(in super::super) struct Ear(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unused,
    Open(Listening),
    /// The link is gone.
    Closed,
}

impl Ear {
    /// Returns whether it hears wakes of this client. Opens it if it is not in use.
    pub(in super::super) fn hears(
        &self,
        client: u64,
        open: impl FnOnce() -> Option<Listening>,
    ) -> bool {
        let mut state = self.state();
        if matches!(*state, State::Unused)
            && let Some(listening) = open()
        {
            *state = State::Open(listening);
        }
        matches!(&*state, State::Open(listening) if listening.client == client)
    }

    /// Closes it for good.
    pub(in super::super) fn close(&self) {
        *self.state() = State::Closed;
    }

    /// Closes it until it is used again.
    pub(in super::super) fn rest(&self) {
        let mut state = self.state();
        if matches!(*state, State::Open(_)) {
            *state = State::Unused;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A socket that is read until this is dropped.
#[derive(Debug)]
pub(in super::super) struct Listening {
    client: u64,
    directory: Arc<Directory>,
    socket: Arc<UnixDatagram>,
    closed: Arc<AtomicBool>,
}

impl Listening {
    pub(super) fn start(
        client: u64,
        directory: Directory,
        socket: UnixDatagram,
        told: UnboundedSender<Wake>,
    ) -> io::Result<Self> {
        let (directory, socket) = (Arc::new(directory), Arc::new(socket));
        let closed = Arc::new(AtomicBool::new(false));
        let listening = Listening { client, directory, socket, closed };
        let (directory, socket) = (listening.directory.clone(), listening.socket.clone());
        let closed = listening.closed.clone();
        thread::Builder::new().name("redlatch-wake".into()).spawn(move || {
            directory.sweep();
            drop(directory);
            read(client, &socket, &closed, &told);
        })?;
        Ok(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::SeqCst);
        self.directory.unbind(self.client);
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn read(client: u64, socket: &UnixDatagram, closed: &AtomicBool, told: &UnboundedSender<Wake>) {
    let mut message = [0; Ticket::LENGTH + MAX_NAME + 1];
    while !closed.load(Ordering::SeqCst) {
        match socket.recv(&mut message) {
            Ok(length) => {
                let wake = parse(&message[..length]);
                if let Some(wake) = wake.filter(|wake| wake.ticket.waiter.client() == client) {
                    let _ = told.send(wake);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
