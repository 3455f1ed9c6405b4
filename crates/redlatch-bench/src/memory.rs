//! How much memory a server needs for names that were locked once: the fencing
//! registers are bounded, however many names there were.

use crate::{cli::MemoryPlan, contender::redlatch::guarded, exit::Exit};
use anyhow::{Context as _, ensure};
use redlatch_testbed::{Server, Servers};
use tokio::task::JoinSet;

const CALLERS: usize = 256;

pub(crate) fn run(plan: &MemoryPlan) -> anyhow::Result<Exit> {
    ensure!(plan.names > 0, "nothing to lock");
    let servers = Servers::start(1)?;
    let server = &servers[0];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (before, after) = runtime.block_on(async {
        let locks = guarded(&servers.urls()).await?.connect().await?;
        // Connections and scripts are there before the first look.
        locks.lock("first").await?.release().await?;
        let before = used(server)?;
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (locks, names) = (locks.clone(), plan.names);
            callers.spawn(async move {
                for name in (caller..names).step_by(CALLERS) {
                    locks.lock(format!("name:{name}")).await?.release().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(one) = callers.join_next().await {
            one??;
        }
        locks.settled().await;
        anyhow::Ok((before, used(server)?))
    })?;
    let grown = (after - before) / 1e6;
    let registers = server.run(&["HLEN", "redlatch:node"]).int().unwrap_or_default();
    println!(
        "{} names locked once: {registers} fields, {:.1} MB before, {:.1} MB after, {grown:.1} MB more",
        plan.names,
        before / 1e6,
        after / 1e6
    );
    ensure!(server.keys().is_empty(), "locks were left behind");
    let missed = (grown > plan.max_mb)
        .then(|| format!("the server is {grown:.1} MB larger, allowed are {}", plan.max_mb));
    Ok(if plan.check { Exit::of(missed.as_slice()) } else { Exit::Met })
}

fn used(server: &Server) -> anyhow::Result<f64> {
    let used = server.info("used_memory").context("the server does not tell its memory")?;
    Ok(used.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_need_no_more_memory_than_the_registers() -> anyhow::Result<()> {
        let plan = MemoryPlan { names: 20_000, max_mb: 10.0, check: true };

        assert_eq!(run(&plan)?, Exit::Met);
        let strict = MemoryPlan { names: 20_000, max_mb: 0.1, check: true };
        assert_eq!(run(&strict)?, Exit::Missed);
        Ok(())
    }
}
