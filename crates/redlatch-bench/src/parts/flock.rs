//! Ten commands under one lock, started one after the other: `redlatch run` on a
//! file and on three servers, beside `flock`. And what it adds to one.

mod added;

use crate::{
    setting::{Setting, servers},
    spread::Spread,
    table::Table,
    wire::now_ns,
};
use anyhow::{Context as _, ensure};
use redlatch_testbed::{Process, Scratch, wait_until};
use std::{
    env,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

const COMMANDS: usize = 10;
const NODES: usize = 3;
/// Between two starts: long enough for the first to be in the line before the second.
const APART: Duration = Duration::from_millis(30);
const LIMIT: Duration = Duration::from_secs(60);

/// What the commands do: stamp, hold, stamp.
#[derive(Debug, clap::Args)]
pub(crate) struct HoldPlan {
    file: PathBuf,
    number: usize,
}

const HELD: Duration = Duration::from_millis(50);

pub(crate) fn hold(plan: &HoldPlan) -> anyhow::Result<()> {
    let begin = now_ns();
    std::thread::sleep(HELD);
    let line = format!("{} {begin} {}\n", plan.number, now_ns());
    Ok(File::options().append(true).create(true).open(&plan.file)?.write_all(line.as_bytes())?)
}

pub(crate) fn measure(setting: &Setting) -> anyhow::Result<Vec<Table>> {
    let redlatch = env::current_exe()?.with_file_name("redlatch");
    if !redlatch.is_file() {
        eprintln!("skipped flock: no {} (build -p redlatch-cli)", redlatch.display());
        return Ok(Vec::new());
    }
    let servers = servers(NODES)?;
    let scratch = Scratch::in_memory()?;
    let file = scratch.file("lock");
    let wrappers = [
        ("flock", vec!["flock".into(), file.display().to_string()]),
        ("redlatch, file", run(&redlatch, &[format!("file:{}", scratch.file("node").display())])),
        ("redlatch, 3 nodes", run(&redlatch, &servers.urls())),
    ];
    let mut rounds = wrappers.each_ref().map(|_| Vec::new());
    for round in 0..setting.turns((5, 0), (1, 0)).rounds {
        for index in (0..wrappers.len()).map(|turn| (round + turn) % wrappers.len()) {
            let (name, wrapper) = &wrappers[index];
            let line = Line::of(wrapper, &scratch).with_context(|| (*name).to_owned())?;
            rounds[index].push(line);
        }
    }
    Ok(vec![report(&wrappers.map(|(name, _)| name), &rounds), added::measure(setting, &redlatch)?])
}

fn report(names: &[&str], rounds: &[Vec<Line>]) -> Table {
    let mut table =
        Table::new(format!("flock: {COMMANDS} commands of {HELD:?}, started {APART:?} apart"));
    let gaps = |lines: &[Line]| lines.iter().map(|line| Some(line.gaps)).collect::<Vec<_>>();
    for (name, lines) in names.iter().zip(rounds) {
        let ratio = Spread::of_ratios(gaps(lines), gaps(&rounds[0]));
        let disorder = lines.iter().filter(|line| !line.in_order).count() as u64;
        let median = Spread::of(lines.iter().map(|line| line.gaps * 1e3));
        table.row(
            *name,
            vec![
                ("gaps ms", median.into()),
                ("x flock", ratio.into()),
                ("rounds out of order", disorder.into()),
            ],
        );
        if *name != names[0] {
            let what = format!("{name}: gaps over those of flock");
            table.at_most(&what, ratio, 3.0);
            table.never(&format!("{name}: a round out of order"), disorder);
        }
    }
    table
}

fn run(redlatch: &Path, nodes: &[String]) -> Vec<String> {
    let mut words =
        vec![redlatch.display().to_string(), "run".into(), "--wait".into(), "60s".into()];
    words.extend(nodes.iter().flat_map(|node| ["--node".to_owned(), node.clone()]));
    words.extend(["job".into(), "--".into()]);
    words
}

/// One line of commands, as they were served.
struct Line {
    /// From the end of one command to the beginning of the next, in seconds, all of
    /// them together.
    gaps: f64,
    in_order: bool,
}

impl Line {
    fn of(wrapper: &[String], scratch: &Scratch) -> anyhow::Result<Self> {
        let stamps = scratch.file("stamps");
        let _ = fs::remove_file(&stamps);
        let mut processes = Vec::new();
        for number in 0..COMMANDS {
            let mut command = Command::new(&wrapper[0]);
            command.args(&wrapper[1..]).arg(env::current_exe()?).arg("hold");
            command.arg(&stamps).arg(number.to_string()).current_dir(scratch.path());
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.stderr(File::create(scratch.file("stderr"))?);
            processes.push(Process::spawn(command)?);
            std::thread::sleep(APART);
        }
        let ended = || processes.iter_mut().all(Process::has_ended);
        ensure!(wait_until(LIMIT, ended), "not done within {LIMIT:?}");
        let words = fs::read_to_string(scratch.file("stderr")).unwrap_or_default();
        Self::read(&fs::read_to_string(stamps).with_context(|| words)?)
    }

    /// Lines of number, begin and end, in the order of their ends.
    fn read(stamps: &str) -> anyhow::Result<Self> {
        let mut gaps = 0;
        let mut in_order = true;
        let mut last: Option<(usize, u64)> = None;
        let mut count = 0;
        for line in stamps.lines() {
            let mut fields = line.split(' ');
            let mut next = || fields.next().context("half a line");
            let number: usize = next()?.parse()?;
            let (begin, end): (u64, u64) = (next()?.parse()?, next()?.parse()?);
            if let Some((before, ended)) = last {
                ensure!(begin >= ended, "two commands at once: {stamps}");
                gaps += begin - ended;
                in_order &= number > before;
            }
            last = Some((number, end));
            count += 1;
        }
        ensure!(count == COMMANDS, "{count} of {COMMANDS} commands were run");
        Ok(Self { gaps: Duration::from_nanos(gaps).as_secs_f64(), in_order })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_between_the_end_of_one_command_and_the_beginning_of_the_next() -> anyhow::Result<()>
    {
        let stamps = |numbers: [usize; COMMANDS]| {
            let line = |(place, number): (usize, usize)| {
                format!("{number} {} {}\n", place * 1_000, place * 1_000 + 400)
            };
            numbers.into_iter().enumerate().map(line).collect::<String>()
        };

        let straight = Line::read(&stamps([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]))?;
        let crooked = Line::read(&stamps([0, 1, 2, 3, 4, 5, 6, 7, 9, 8]))?;

        assert!((straight.gaps - 9.0 * 600e-9).abs() < 1e-12, "{}", straight.gaps);
        assert!(straight.in_order && !crooked.in_order);
        Ok(())
    }

    #[test]
    fn two_commands_at_once_are_an_error() {
        let why = Line::read("0 0 10\n1 9 20\n").err().map(|error| error.to_string());

        assert!(why.is_some_and(|why| why.starts_with("two commands at once")));
    }
}
