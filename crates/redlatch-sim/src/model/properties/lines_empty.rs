//! If a client wants nothing and no message is on its way to it, it stands in line on no
//! node, and nothing is reserved for it.

use crate::model::{scenario::NODES, words::waiter_text, world::World};
use redlatch_core::Ticket;

pub(super) fn broken(world: &World) -> Option<String> {
    let is_over = |client: &usize| {
        let is_quiet = world.callers_of(*client).all(|caller| world.is_quiet(caller));
        is_quiet && (0..NODES).all(|node| world.channel(*client, node).wake().is_none())
    };
    let clients = (0..world.clients()).filter(|client| world.home(*client) == *client);
    clients.filter(is_over).find_map(|client| {
        let ours = |ticket: &Ticket| usize::try_from(ticket.waiter.client()) == Ok(client);
        let left = (0..NODES).flat_map(|node| world.tickets(node)).find(ours)?;
        Some(format!("all is over, but {} is still in line", waiter_text(left.waiter)))
    })
}
