//! What a lock costs when there are many callers, or many other keys on the servers.

use crate::{
    entrant::{Entrant, OURS, PLAIN},
    field::{Field, Shape},
    setting::{Setting, servers},
    table::Table,
    team::Slice,
};
use anyhow::ensure;
use redlatch_testbed::{Server, Servers};

const NODES: usize = 5;
const CALLERS: usize = 256;
const FEW_KEYS: usize = 10;
const MANY_KEYS: usize = 1_000_000;
/// How many keys one script sets: it answers well before anyone loses patience.
const AT_ONCE: usize = 5_000;

/// Other locks, so to speak: strings that expire.
const FILL: &str = "\
for i = ARGV[1], ARGV[2] do redis.call('SET', 'other:' .. i, 'somebody', 'PX', 3600000) end";

/// What differs: its name, callers, servers.
type Side<'a> = (&'a str, usize, &'a Servers);

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let [few, many] = [servers(NODES)?, servers(NODES)?];
    let callers = [("64 callers", 64, &few), ("1024 callers", 1_024, &few)];
    let callers = measure_one(setting, format!("growth: callers, {NODES} nodes"), callers)?;
    fill(&few, FEW_KEYS)?;
    let many_keys = if setting.short { MANY_KEYS / 10 } else { MANY_KEYS };
    fill(&many, many_keys)?;
    let keys = [
        (&*format!("{FEW_KEYS} keys"), CALLERS, &few),
        (&*format!("{many_keys} keys"), CALLERS, &many),
    ];
    let title = format!("growth: other keys, {CALLERS} callers, {NODES} nodes");
    Ok(vec![callers, measure_one(setting, title, keys)?])
}

/// The second side over the first.
fn measure_one(setting: &Setting, title: String, sides: [Side; 2]) -> anyhow::Result<Table> {
    let mut field = Field::default();
    let named = |entrant: &Entrant, (side, ..): Side| format!("{}: {side}", entrant.name);
    for side @ (_, callers, servers) in sides {
        for entrant in [PLAIN, OURS] {
            let shape = Shape::new(1, callers);
            field.enter_as(named(&entrant, side), &entrant, shape, &servers.urls())?;
        }
    }
    let turns = setting.turns((30, 150), (5, 100));
    field.run(turns.rounds, Slice::own(0, turns.slice))?;
    let mut table = Table::new(title);
    for entrant in [PLAIN, OURS] {
        let [Some(first), Some(second)] = sides.map(|side| field.named(&named(&entrant, side)))
        else {
            continue;
        };
        let (time, cpu) = (first.rate_over(second), second.cpu_over(first));
        for (lane, time, cpu) in [(first, None, None), (second, time, cpu)] {
            table.row(
                &lane.name,
                vec![
                    ("locks/s", lane.rate().into()),
                    ("cpu µs", lane.cpu().into()),
                    ("x time per lock", time.into()),
                    ("x cpu per lock", cpu.into()),
                ],
            );
        }
        table.at_most(&format!("{}: time per lock", second.name), time, 1.2);
        table.at_most(&format!("{}: client CPU per lock", second.name), cpu, 1.2);
    }
    Ok(table)
}

fn fill(servers: &Servers, keys: usize) -> anyhow::Result<()> {
    std::thread::scope(|scope| {
        let filling: Vec<_> =
            servers.iter().map(|server| scope.spawn(move || fill_one(server, keys))).collect();
        filling.into_iter().try_for_each(|one| {
            one.join().map_err(|_| anyhow::anyhow!("a server could not be filled"))?
        })
    })
}

fn fill_one(server: &Server, keys: usize) -> anyhow::Result<()> {
    for first in (1..=keys).step_by(AT_ONCE) {
        let last = (first + AT_ONCE - 1).min(keys);
        server.run(&["EVAL", FILL, "0", &first.to_string(), &last.to_string()]);
    }
    let there = server.run(&["DBSIZE"]).int().unwrap_or_default();
    ensure!(there >= i64::try_from(keys)?, "{there} of {keys} keys are there");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_get_all_their_keys() -> anyhow::Result<()> {
        let servers = Servers::start(2)?;

        fill(&servers, AT_ONCE + 1)?;

        let expire = |server: &Server| server.run(&["PTTL", "other:5001"]).int() > Some(0);
        assert!(servers.iter().all(expire));
        Ok(())
    }
}
