//! A node that tests can start again, flush and give to strangers.

use core::time::Duration;
use redlatch_core::{
    Command, Identity, Moment, Reply, Resource, Resources,
    reference::{Key, Reading, ReferenceNode},
};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

#[derive(Debug, Clone, Hash)]
pub(crate) struct Node {
    inner: ReferenceNode,
    /// Which server it is.
    number: usize,
    /// How often it has been started, and when.
    run: u32,
    pub(crate) started: Option<Moment>,
}

impl Deref for Node {
    type Target = ReferenceNode;

    fn deref(&self) -> &ReferenceNode {
        &self.inner
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut ReferenceNode {
        &mut self.inner
    }
}

impl Node {
    pub(crate) fn server(number: usize) -> Self {
        let identity = Identity { run: run_of(number, 0), version: "memory 1".into() };
        Node { inner: ReferenceNode::new(identity), number, run: 0, started: None }
    }

    /// Worlds that are equal have the same future, so what has expired must go.
    pub(crate) fn carry_out(&mut self, now: Moment, command: &Command) -> Reply {
        self.expire(now);
        // Right, as far as wall clocks go here.
        let wall = Duration::from_nanos(now.as_nanos());
        let uptime = Some(now.since(self.started.unwrap_or(Moment::START)));
        self.inner.carry_out(Reading { now, wall, uptime }, command)
    }

    /// Forgets everything, as a server without a disk does when it restarts.
    pub(crate) fn forget(&mut self, now: Moment) {
        self.flush();
        self.restart(now);
    }

    /// Restarts with all that it had.
    pub(crate) fn restart(&mut self, now: Moment) {
        self.run += 1;
        self.inner.restart(run_of(self.number, self.run));
        self.started = Some(now);
    }

    /// Gives the lock to somebody the machines know nothing of.
    pub(crate) fn occupy(&mut self, resources: &Resources, dies: Moment) {
        for resource in resources {
            let key = Key { value: Arc::from(*b"a stranger"), dies };
            self.contents.keys.insert(resource.clone(), key);
        }
    }

    /// What stands under the key, if it has not died.
    pub(crate) fn value(&self, now: Moment, resource: &Resource) -> Option<&[u8]> {
        Some(&self.key(now, resource)?.value)
    }

    pub(crate) fn dies(&self, resource: &Resource) -> Option<Moment> {
        Some(self.contents.keys.get(resource)?.dies)
    }
}

fn run_of(number: usize, run: u32) -> Arc<str> {
    format!("run-{number}-{run}").into()
}
