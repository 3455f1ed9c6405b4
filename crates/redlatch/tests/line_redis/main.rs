//! Lines, reservations and wakes on real servers, command by command.

mod joining;
mod oracle;
mod reserving;
#[path = "../support/mod.rs"]
mod support;
mod waking;

use redlatch_core::{Command, Then, Ticket, Vote};
use redlatch_testbed::{Flavour, Server, ServerOptions};
use support::wire::{Claim, Wire, ahead, is_granted};

const LINE: &str = "redlatch:line:a";
/// A ticket that arrived before all others, as far as a node believes it.
const EARLY: u64 = 0;

/// A server and the clients 1 to 4 of it; the first holds `a`, fenced or not.
struct Scene {
    server: Server,
    wires: [Wire; 4],
    claims: [Claim; 4],
}

impl Scene {
    async fn on(options: &ServerOptions, fence: bool) -> Self {
        let server = options.start().unwrap_or_else(|error| panic!("{error}"));
        let mut wires = [1, 2, 3, 4].map(|client| Wire::to(&server.url(), client));
        let claims = [0, 1, 2, 3].map(|at| Claim::of(&["a"], &wires[at]).fenced(fence));
        assert!(is_granted(&wires[0].vote(claims[0].take(None)).await));
        Scene { server, wires, claims }
    }

    /// One on every flavour, fenced and not.
    async fn everywhere() -> Vec<Self> {
        let mut scenes = Vec::new();
        for flavour in Flavour::ALL {
            for fence in [false, true] {
                scenes.push(Scene::on(&Server::options().flavour(flavour), fence).await);
            }
        }
        scenes
    }

    fn ticket(&self, client: usize) -> Ticket {
        self.wires[client - 1].ticket()
    }

    async fn vote(&mut self, client: usize, command: Command) -> Vote {
        self.wires[client - 1].vote(command).await
    }

    /// Lets the clients join the line, in this order.
    async fn queue<const N: usize>(&mut self, clients: [usize; N]) {
        for client in clients {
            let command = self.claims[client - 1].wait(self.ticket(client));
            assert!(ahead(&self.vote(client, command).await).is_some());
        }
    }

    /// Releases what the client holds.
    async fn release(&mut self, client: usize, then: Option<Then>) -> Vote {
        self.vote(client, self.claims[client - 1].release(then)).await
    }

    /// The clients in line.
    fn line(&self) -> Vec<u64> {
        let line = self.server.run(&["GET", LINE]).text().unwrap_or_default();
        let tickets = line.split_whitespace().map(|text| Ticket::parse(text.as_bytes()));
        tickets.map(|ticket| ticket.expect("a ticket").waiter.client()).collect()
    }

    /// The client for which the key is reserved.
    fn reserved(&self) -> Option<u64> {
        let value = self.server.run(&["GET", "a"]).text()?;
        Some(Ticket::reserved_in(value.as_bytes())?.waiter.client())
    }

    async fn is_woken(&mut self, client: usize) -> bool {
        self.wires[client - 1].is_woken().await
    }
}
