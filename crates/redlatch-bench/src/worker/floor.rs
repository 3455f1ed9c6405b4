//! The floor: what the sockets and the servers cost when nothing else does. One
//! thread, one epoll, one connection to each node; no channel, no waker, no task.

pub(crate) mod command;
pub(crate) mod node;
mod own;
mod relay;

pub(super) use self::{own::Own, relay::Relay};
