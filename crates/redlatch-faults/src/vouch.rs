//! An operator's word for servers that were just started: they have forgotten
//! nothing.

use std::sync::Arc;

use redlatch::{Builder, Standing};

/// Has all nodes admitted.
pub(crate) fn vouch(builder: &Builder) -> anyhow::Result<()> {
    let observer = builder.observer()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let nodes = observer.standings().await;
        let names: Vec<Arc<str>> = nodes.iter().map(|node| node.node.clone()).collect();
        let standings = observer.admit(&names).await?;
        let all_in = standings.iter().all(|node| node.standing == Standing::Admitted);
        anyhow::ensure!(all_in, "vouched for, but not admitted: {standings:?}");
        Ok(())
    })
}
