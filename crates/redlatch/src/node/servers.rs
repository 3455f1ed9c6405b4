//! Tracks which server answers for which node, so that none votes twice.

use redlatch_core::Fault;
use std::sync::{Arc, Mutex, PoisonError};

/// Which server answers for which node of a list.
#[derive(Debug)]
pub(crate) struct Servers(Mutex<Box<[Seen]>>);

/// A node's name, and the run of the server that last answered for it.
type Seen = (Arc<str>, Option<Arc<str>>);

impl Servers {
    pub(crate) fn of(names: impl IntoIterator<Item = Arc<str>>) -> Self {
        Servers(Mutex::new(names.into_iter().map(|name| (name, None)).collect()))
    }

    /// Records that this server answers for this node. Fails if it already
    /// answers for another.
    pub(super) fn claim(&self, node: usize, run: &Arc<str>) -> Result<(), Fault> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen[node].1 = None;
        if let Some((name, _)) = seen.iter().find(|(_, known)| known.as_ref() == Some(run)) {
            let reason = format!("it is the same server as {name}; each votes once");
            return Err(Fault::WrongAddress(reason.into()));
        }
        seen[node].1 = Some(run.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_has_moved_on_leaves_its_run_to_another_node() {
        let servers = Servers::of(["a".into(), "b".into()]);
        servers.claim(0, &"run-1".into()).unwrap();
        servers.claim(1, &"run-1".into()).unwrap_err();

        servers.claim(0, &"run-2".into()).unwrap();

        servers.claim(1, &"run-1".into()).unwrap();
    }
}
