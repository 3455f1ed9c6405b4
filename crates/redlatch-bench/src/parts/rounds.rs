//! How many grants agree on their fencing token only in a second round trip:
//! with a lock for each caller, and with one lock for all.

use crate::{
    setting::{Setting, servers},
    table::Table,
};
use anyhow::ensure;
use redlatch::Locks;
use std::time::Duration;
use tokio::task::JoinSet;

const NODES: usize = 5;
/// How many clients, each with connections of its own, and callers in each.
const CLIENTS: usize = 4;
const CALLERS: usize = 8;
const MOST_PERCENT: f64 = 1.0;

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let grants = if setting.short { 4_000 } else { 20_000 };
    let servers = servers(NODES)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let [alone, together] = runtime.block_on(async {
        let builder = Locks::builder().nodes(servers.urls());
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(builder.clone().connect().await?);
        }
        let alone = count(&clients, grants, |caller| format!("own:{caller}")).await?;
        let together = count(&clients, grants / 10, |_| "one".to_owned()).await?;
        anyhow::Ok([alone, together])
    })?;
    let title = format!("rounds: {CLIENTS} clients with {CALLERS} callers each, {NODES} nodes");
    let mut table = Table::new(title);
    for (name, count) in [("a lock each", &alone), ("one lock", &together)] {
        table.row(
            name,
            vec![
                ("grants", u64::from(count.grants).into()),
                ("second rounds", u64::from(count.second_rounds).into()),
                ("%", count.percent().into()),
            ],
        );
    }
    table.at_most("% of grants in a second round, a lock each", alone.percent(), MOST_PERCENT);
    Ok(vec![table])
}

#[derive(Debug, Default)]
struct Count {
    grants: u32,
    second_rounds: u32,
}

impl Count {
    fn percent(&self) -> f64 {
        100.0 * f64::from(self.second_rounds) / f64::from(self.grants)
    }
}

/// Lets all callers take locks until there were enough grants.
async fn count(
    clients: &[Locks],
    grants: usize,
    name: impl Fn(usize) -> String,
) -> anyhow::Result<Count> {
    let share = grants.div_ceil(clients.len() * CALLERS);
    let mut callers = JoinSet::new();
    for caller in 0..clients.len() * CALLERS {
        let (locks, name) = (clients[caller % clients.len()].clone(), name(caller));
        callers.spawn(async move {
            let mut second_rounds = 0;
            for _ in 0..share {
                let guard = locks.lock(&name).wait(Duration::from_secs(60)).await?;
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
    ensure!(count.grants > 0, "nothing was granted");
    Ok(count)
}
