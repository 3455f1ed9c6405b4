//! Measurements that need a process to themselves: what it does is all there is to
//! its memory and its processor time. The result goes out as one line of JSON.

use crate::parts::{held, many};
use anyhow::{Context as _, ensure};
use redlatch_testbed::{Process, Scratch, wait_until};
use serde::de::DeserializeOwned;
use std::{
    env,
    fs::{self, File},
    process::{Command, Stdio},
    time::Duration,
};

/// No measurement takes that long.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, clap::Args)]
pub(crate) struct AlonePlan {
    #[arg(value_enum)]
    what: What,
    /// How many locks.
    locks: usize,
    #[arg(required = true)]
    urls: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum What {
    Held,
    Many,
}

pub(crate) fn run(plan: &AlonePlan) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let line = match plan.what {
        What::Held => serde_json::to_string(&runtime.block_on(held::hold(plan.locks, &plan.urls))?),
        What::Many => serde_json::to_string(&runtime.block_on(many::ask(plan.locks, &plan.urls))?),
    }?;
    println!("{line}");
    Ok(())
}

/// Has it done by a process of its own.
pub(crate) fn measure<T: DeserializeOwned>(
    what: What,
    locks: usize,
    urls: &[String],
) -> anyhow::Result<T> {
    let scratch = Scratch::in_memory()?;
    let [output, words] = [scratch.file("output"), scratch.file("words")];
    let name = clap::ValueEnum::to_possible_value(&what).context("no such measurement")?;
    let mut command = Command::new(env::current_exe()?);
    command.args(["alone", name.get_name(), &locks.to_string()]).args(urls);
    command.stdin(Stdio::null()).stdout(File::create(&output)?).stderr(File::create(&words)?);
    let mut process = Process::spawn(command)?;
    ensure!(wait_until(PATIENCE, || process.has_ended()), "{what:?}: not within {PATIENCE:?}");
    let line = fs::read_to_string(output)?;
    let words = fs::read_to_string(words)?;
    serde_json::from_str(&line).with_context(|| format!("{what:?}: {}", words.trim_end()))
}

/// What the system says of this process's memory (`VmRSS`, `VmHWM`), in bytes.
pub(crate) fn memory(field: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with(field));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kilobytes.context("the system does not tell our memory")?.parse::<f64>()? * 1024.0)
}
