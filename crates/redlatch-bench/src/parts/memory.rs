//! How much memory a server needs for names that were locked once: the fencing
//! registers are bounded, however many names there were.

use crate::{
    setting::{Setting, servers},
    table::Table,
};
use anyhow::Context as _;
use redlatch::Locks;
use redlatch_testbed::{Server, Servers};
use tokio::task::JoinSet;

const CALLERS: usize = 256;
const MOST_MB: f64 = 10.0;

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let names = if setting.short { 50_000 } else { 1_000_000 };
    Ok(vec![table(names, &servers(1)?)?])
}

fn table(names: usize, servers: &Servers) -> anyhow::Result<Table> {
    let server = &servers[0];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (before, after) = runtime.block_on(async {
        let locks = Locks::builder().nodes(servers.urls()).admit_new_servers().connect().await?;
        // Connections and scripts are there before the first look.
        locks.lock("first").await?.release().await?;
        let before = used_mb(server)?;
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let locks = locks.clone();
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
        anyhow::Ok((before, used_mb(server)?))
    })?;
    let registers = server.run(&["HLEN", "redlatch:node"]).int().unwrap_or_default();
    let mut table = Table::new(format!("memory: {names} names locked once, 1 node"));
    table.row(
        "redlatch",
        vec![
            ("fields", u64::try_from(registers)?.into()),
            ("MB before", before.into()),
            ("MB after", after.into()),
        ],
    );
    table.at_most("megabytes more on the server", after - before, MOST_MB);
    table.never("locks were left behind", server.key_count() as u64);
    Ok(table)
}

fn used_mb(server: &Server) -> anyhow::Result<f64> {
    let used = server.info("used_memory").context("the server does not tell its memory")?;
    Ok(used.parse::<f64>()? / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_need_no_more_memory_than_the_registers() -> anyhow::Result<()> {
        let table = table(20_000, &servers(1)?)?;

        assert!(table.bounds.iter().all(|bound| bound.met), "{:?}", table.bounds);
        Ok(())
    }
}
