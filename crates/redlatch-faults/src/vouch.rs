//! Vouches for servers that were just started, as an operator does, and counts
//! those that have forgotten.

use redlatch::{Builder, Standing, observer::Observer};
use std::sync::Arc;
use tokio::runtime::Runtime;

pub(crate) fn vouch(builder: &Builder) -> anyhow::Result<()> {
    let observer = builder.observer()?;
    runtime()?.block_on(async {
        let nodes = observer.standings().await;
        let names: Vec<Arc<str>> = nodes.iter().map(|node| node.node.clone()).collect();
        let standings = observer.admit(&names).await?;
        let all_in = standings.iter().all(|node| node.standing == Standing::Admitted);
        anyhow::ensure!(all_in, "vouched for, but not admitted: {standings:?}");
        Ok(())
    })
}

/// Checks which nodes remember, that is, are admitted in their present run.
pub(crate) struct Memory {
    observer: Observer,
    runtime: Runtime,
}

impl Memory {
    pub(crate) fn new(builder: &Builder) -> anyhow::Result<Self> {
        Ok(Self { observer: builder.observer()?, runtime: runtime()? })
    }

    /// How many nodes have forgotten, or do not answer.
    pub(crate) fn forgotten(&self) -> usize {
        let standings = self.runtime.block_on(self.observer.standings());
        standings.iter().filter(|node| node.standing != Standing::Admitted).count()
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

#[cfg(test)]
mod tests {
    use redlatch_testbed::{Servers, eventually};

    use super::*;
    use crate::orders::Habits;
    use std::time::Duration;

    #[test]
    fn a_node_that_comes_back_empty_is_seen_to_have_forgotten_until_it_is_admitted() {
        let servers = Servers::start(3).unwrap();
        let builder = Habits::default().builder(&servers.urls());
        let memory = Memory::new(&builder).unwrap();
        assert_eq!(memory.forgotten(), 3, "nobody has admitted them");
        vouch(&builder).unwrap();
        // On a busy machine, a node may answer too late.
        eventually(Duration::from_secs(60), || memory.forgotten() == 0);

        servers[1].restart_empty();

        assert!(memory.forgotten() >= 1);
        vouch(&builder).unwrap();
        eventually(Duration::from_secs(60), || memory.forgotten() == 0);
    }
}
