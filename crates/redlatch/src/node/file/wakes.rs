//! How the clients of one file wake each other, across processes.
//!
//! In:  which client to wake, and for which key. Out: wakes for our own client.
//!
//! Each client that waits in line has a datagram socket in a directory next to the
//! database (`…-wake`). A release checks whether the socket of the first in line is
//! alive, and writes to it once the release is committed.
//!
//! Promise: nothing fails or blocks. If no sockets can be created, nobody is woken, and
//! clients find out by asking again. Only users of the database can create, read and
//! write the sockets. A forged wake only costs time.
//! Needs: `/proc`, like the rest of the embedded node.

mod directory;
mod listening;

use directory::Directory;
use listening::Listening;
use redlatch_core::{Resource, Ticket, Wake};
use std::{
    io,
    os::unix::net::UnixDatagram,
    path::{Path, PathBuf},
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub(super) use listening::Ear;

/// The sockets of one database's clients.
#[derive(Debug)]
pub(super) struct Wakes {
    /// The database; the sockets get its owner, group and permissions.
    database: PathBuf,
    told: UnboundedSender<Wake>,
}

impl Wakes {
    /// Creates nothing yet. Until `tell`, wakes for our client are dropped.
    pub(super) fn beside(database: &Path) -> Self {
        let database = database.canonicalize().unwrap_or_else(|_| database.into());
        Wakes { database, told: unbounded_channel().0 }
    }

    /// Sends the wakes for our client to this channel.
    pub(super) fn tell(&mut self, told: UnboundedSender<Wake>) {
        self.told = told;
    }

    /// Listens for wakes of this client from now on. `None` if that is not possible, or if
    /// another of its links already does.
    pub(super) fn listen(&self, client: u64) -> Option<Listening> {
        // The last client to leave removes the directory, perhaps right now.
        for _ in 0..3 {
            match self.try_listen(client) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::debug!("this client cannot be woken: {error}");
                    return None;
                }
                Ok(listening) => return listening,
            }
        }
        None
    }

    fn try_listen(&self, client: u64) -> io::Result<Option<Listening>> {
        let directory = Directory::make(&self.database)?;
        let socket = match directory.bind(client) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if self.reach(client).is_some() {
                    return Ok(None);
                }
                directory.bind(client)?
            }
            bound => bound?,
        };
        Listening::start(client, directory, socket, self.told.clone()).map(Some)
    }

    /// Returns the way to a client that is alive. Removes what a dead one left behind.
    pub(super) fn reach(&self, client: u64) -> Option<Reached> {
        Directory::open(&self.database).ok()?.connect(client).map(Reached)
    }
}

/// The way to a client that is alive.
#[derive(Debug)]
pub(super) struct Reached(UnixDatagram);

impl Reached {
    /// Notifies it of a key. If too many wakes are already waiting there, this one is lost.
    pub(super) fn tell(&self, wake: &Wake) {
        let message = [wake.ticket.to_string().as_bytes(), wake.resource.as_bytes()].concat();
        if let Err(error) = self.0.send(&message) {
            tracing::debug!("a client was not woken: {error}");
        }
    }
}

/// Parses what [`Reached::tell`] sends.
fn parse(message: &[u8]) -> Option<Wake> {
    let (ticket, name) = message.split_at_checked(Ticket::LENGTH)?;
    Some(Wake { resource: Resource::new(name).ok()?, ticket: Ticket::parse(ticket)? })
}
