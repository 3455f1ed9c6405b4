//! x
use std::time::Duration;
mod contender;
use contender::*;
fn main() -> anyhow::Result<()> {
    let urls: Vec<String> = (17300..17305).map(|p| format!("redis://127.0.0.1:{p}")).collect();
    let on = hosted::Flavour::Current;
    let mut all: Vec<Box<dyn Contender>> = vec![
        Box::new(floor::Floor::connect(&urls)?),
        Box::new(hosted::Hosted::connect("redis", on, redis::Bare::connect(&urls))?),
        Box::new(hosted::Hosted::connect("rslock", on, async { rslock::Rslock::new(&urls) })?),
    ];
    for _ in 0..3 {
        for tasks in [1, 256] {
            for c in &mut all {
                let mut s = c.run(Load { tasks, slice: Duration::from_millis(1000), limit: None })?;
                s.cycles.sort_by_key(|c| c.whole);
                let n = s.cycles.len();
                println!("{:8} {tasks:4} {:8.0}/s p50 {:?} p99 {:?} fail {}", c.name(), s.cycles_per_second(), s.cycles[n / 2].whole, s.cycles[n * 99 / 100].whole, s.failures);
                c.settle(Duration::from_millis(5))?;
            }
        }
    }
    Ok(())
}
