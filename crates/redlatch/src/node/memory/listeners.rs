//! The links of a memory node whose clients can be woken.
//!
//! In:  wakes. Out: the same wakes, for each link of the client, in order.
//!
//! A client may have several links, such as one for a rescue; each gets the wake.

use redlatch_core::Wake;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    task::Waker,
};
use tokio::time::Instant;

/// Identifies a listening link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listener(u64);

/// All listening links, in the order in which they began to listen.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    mailboxes: BTreeMap<Listener, Mailbox>,
    added: u64,
}

#[derive(Debug)]
struct Mailbox {
    client: u64,
    /// Wakes not yet delivered, and when each was sent.
    wakes: VecDeque<(Instant, Wake)>,
    waker: Option<Waker>,
}

impl Listeners {
    pub(super) fn add(&mut self, client: u64) -> Listener {
        self.added += 1;
        let listener = Listener(self.added);
        let mailbox = Mailbox { client, wakes: VecDeque::new(), waker: None };
        self.mailboxes.insert(listener, mailbox);
        listener
    }

    pub(super) fn remove(&mut self, listener: Listener) {
        self.mailboxes.remove(&listener);
    }

    pub(super) fn clients(&self) -> BTreeSet<u64> {
        self.mailboxes.values().map(|mailbox| mailbox.client).collect()
    }

    /// Puts a wake into the mailbox of each link of its client.
    pub(super) fn tell(&mut self, wake: &Wake) {
        let client = wake.ticket.waiter.client();
        let theirs = self.mailboxes.values_mut().filter(|mailbox| mailbox.client == client);
        theirs.for_each(|mailbox| mailbox.wakes.push_back((Instant::now(), wake.clone())));
    }

    /// Returns the wakers of links that have mail.
    pub(super) fn ready(&mut self) -> Vec<Waker> {
        let told = self.mailboxes.values_mut().filter(|mailbox| !mailbox.wakes.is_empty());
        told.filter_map(|mailbox| mailbox.waker.take()).collect()
    }

    /// Returns when the oldest wake for a link was sent.
    pub(super) fn oldest(&self, listener: Listener) -> Option<Instant> {
        let (sent, _) = self.mailboxes.get(&listener)?.wakes.front()?;
        Some(*sent)
    }

    /// Takes the oldest wake for a link.
    pub(super) fn take(&mut self, listener: Listener) -> Option<Wake> {
        let (_, wake) = self.mailboxes.get_mut(&listener)?.wakes.pop_front()?;
        Some(wake)
    }

    /// Wakes the link's task when it gets mail.
    pub(super) fn wait(&mut self, listener: Listener, waker: &Waker) {
        if let Some(mailbox) = self.mailboxes.get_mut(&listener) {
            mailbox.waker = Some(waker.clone());
        }
    }

    /// Loses what was not delivered, as when connections break.
    pub(super) fn lose_all(&mut self) {
        self.mailboxes.values_mut().for_each(|mailbox| mailbox.wakes.clear());
    }
}
