//! How many grants agree on their fencing token only in a second round trip:
//! with a lock for each caller, and with one lock for all.

use crate::{cli::RoundsPlan, contender::redlatch::guarded, exit::Exit};
use ::redlatch::Locks;
use anyhow::ensure;
use redlatch_testbed::Servers;
use serde::Serialize;
use serde_json::json;
use std::fmt;
use tokio::task::JoinSet;

/// How many clients, each with connections of its own, and callers in each.
const CLIENTS: usize = 4;
const CALLERS: usize = 8;

pub(crate) fn run(plan: &RoundsPlan) -> anyhow::Result<Exit> {
    ensure!(plan.grants > 0 && plan.nodes > 0, "nothing to count");
    let servers = Servers::start(plan.nodes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let counts = runtime.block_on(async {
        let builder = guarded(&servers.urls()).await?;
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(builder.clone().connect().await?);
        }
        let alone = count(&clients, plan.grants, |caller| format!("own:{caller}")).await?;
        let together = count(&clients, plan.grants / 10, |_| "one".to_owned()).await?;
        anyhow::Ok([Count { load: "a lock each", ..alone }, Count { load: "one lock", ..together }])
    })?;
    if plan.json {
        println!("{:#}", json!({ "nodes": plan.nodes, "rows": counts }));
    } else {
        println!("{CLIENTS} clients with {CALLERS} callers each, {} nodes", plan.nodes);
        println!("{:<14} {:>9} {:>14} {:>9}", "load", "grants", "second rounds", "share");
        for count in &counts {
            println!("{count}");
        }
    }
    let alone = &counts[0];
    let missed = (alone.percent() > plan.max_percent).then(|| {
        format!("{:.2} % needed a second round, allowed are {}", alone.percent(), plan.max_percent)
    });
    Ok(if plan.check { Exit::of(missed.as_slice()) } else { Exit::Met })
}

#[derive(Debug, Default, Serialize)]
struct Count {
    load: &'static str,
    grants: u32,
    second_rounds: u32,
}

impl Count {
    fn percent(&self) -> f64 {
        100.0 * f64::from(self.second_rounds) / f64::from(self.grants)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count { load, grants, second_rounds } = self;
        write!(f, "{load:<14} {grants:>9} {second_rounds:>14} {:>7.2} %", self.percent())
    }
}

/// Lets all callers take locks until there were enough grants.
async fn count(
    clients: &[Locks],
    grants: usize,
    name: impl Fn(usize) -> String,
) -> anyhow::Result<Count> {
    let mut callers = JoinSet::new();
    for caller in 0..clients.len() * CALLERS {
        let (locks, name) = (clients[caller % clients.len()].clone(), name(caller));
        let share = grants.div_ceil(clients.len() * CALLERS);
        callers.spawn(async move {
            let mut second_rounds = 0;
            for _ in 0..share {
                let guard = locks.lock(&name).wait(std::time::Duration::from_secs(60)).await?;
                second_rounds += u32::from(guard.took_second_round());
                guard.release().await?;
            }
            anyhow::Ok((u32::try_from(share)?, second_rounds))
        });
    }
    let mut count = Count::default();
    while let Some(one) = callers.join_next().await {
        let (grants, second_rounds) = one??;
        count.grants += grants;
        count.second_rounds += second_rounds;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_over_all_callers() -> anyhow::Result<()> {
        let plan = RoundsPlan { nodes: 3, grants: 64, max_percent: 100.0, json: true, check: true };

        assert_eq!(run(&plan)?, Exit::Met);
        Ok(())
    }
}
