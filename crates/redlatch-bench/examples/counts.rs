//! Work whose instructions are counted: no network, no clock, no randomness, the
//! same in every run. `cargo xtask counts` runs it under valgrind, twice, and
//! divides the difference by the number of cycles.

// The codec is private to the library, and needs nothing of it. It is formatted and
// tested there.
#[allow(dead_code, reason = "the link needs more of it")]
#[rustfmt::skip]
#[path = "../../redlatch/src/node/redis/resp.rs"]
mod resp;

use redlatch_core::{
    Admission, Command, FencingToken, InLine, Input, Machine, Moment, Now, OpId, Output, Owner,
    Reply, Resources, Steady, Tag, Terms, Vote, WallClock,
    config::{DEFAULT_MAX_TTL, Wanted},
    dice::Dice,
    fence::DEFAULT_SKEW,
    machine::Order,
};
use std::{env, error::Error, hint::black_box, time::Duration};

const NODES: usize = 5;
const NAMES: [&str; NODES] = ["a", "b", "c", "d", "e"];
/// Microseconds since 1970, some time in 2023.
const WALL: u64 = 1_700_000_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [work, cycles] = &arguments[..] else { return Err("usage: WORK CYCLES".into()) };
    let cycles = cycles.parse()?;
    match work.as_str() {
        "core" => core(cycles),
        "write" => {
            write(cycles);
            Ok(())
        }
        "read" => read(cycles),
        _ => Err(format!("no such work: {work}").into()),
    }
}

/// Each cycle acquires a lock with default settings on five nodes, renews it once and
/// releases it.
fn core(cycles: u64) -> Result<(), Box<dyn Error>> {
    let admission = Admission::new(NAMES.map(Into::into), DEFAULT_MAX_TTL, DEFAULT_SKEW, false);
    let mut machine = Machine::new(NODES, Dice::of(1, &[])).admitting(admission);
    let (terms, owner) = (Terms::check(&Wanted::default())?, Owner::new("counts")?);
    let mut now = Moment::START;
    for cycle in 0..cycles {
        let id = OpId::new(cycle);
        let order = Order {
            resources: Resources::new([format!("invoice:{cycle:08}")])?,
            terms: terms.clone(),
            owner: owner.clone(),
            wait_until: now.after(Duration::from_secs(10)),
            fencing: Some(WallClock { read_at: now, micros: WALL, skew: DEFAULT_SKEW }),
            line: Some(InLine::at(WALL + cycle)),
        };
        let acquired = drive(&mut machine, now, Input::Acquire(id, order));
        let mut kept = Vec::new();
        while kept.is_empty() {
            now = machine.due().ok_or("a lease that is not renewed")?;
            kept = drive(&mut machine, now, Input::Tick);
        }
        let released = drive(&mut machine, now, Input::Release(id));
        if !matches!(acquired[..], [Output::Acquired(_, Ok(_))])
            || !matches!(kept[..], [Output::Kept(..)])
            || !matches!(released[..], [Output::Released(_, Ok(_))])
        {
            return Err(format!("{acquired:?} {kept:?} {released:?}").into());
        }
    }
    if machine.is_idle() { Ok(()) } else { Err("something is left to do".into()) }
}

/// Hands in one event, and the answers of all nodes to what comes of it.
fn drive(machine: &mut Machine<Dice>, now: Moment, input: Input) -> Vec<Output> {
    let time = Now { lease: now, steady: Steady::from_nanos(now.as_nanos()) };
    machine.handle(time, input);
    let (mut sent, mut said): (Vec<(usize, Tag, Command)>, _) = (Vec::new(), Vec::new());
    loop {
        while let Some(output) = machine.poll() {
            match output {
                Output::Send { node, tag, command } => sent.push((node, tag, command)),
                other => said.push(other),
            }
        }
        if sent.is_empty() {
            return said;
        }
        for (node, tag, command) in sent.drain(..) {
            let reply = Reply::Vote(vote(&command));
            machine.handle(time, Input::Reply { node, tag, reply });
        }
    }
}

fn vote(command: &Command) -> Vote {
    match command {
        Command::Take { fence: Some(proposal), .. } => {
            FencingToken::new(proposal.micros()).map_or(Vote::Granted, Vote::Numbered)
        }
        _ => Vote::Granted,
    }
}

/// Each cycle: a take and a release, encoded.
fn write(cycles: u64) {
    let (hash, token) = ([b'a'; 40], [b't'; 32]);
    let take: [&[u8]; 10] = [
        b"EVALSHA",
        &hash,
        b"2",
        b"invoice:00000042",
        b"redlatch:node",
        b"0123456789abcdef0123456789abcdef",
        &token,
        b"10000",
        b"1700000000000000",
        b"15000000",
    ];
    let release: [&[u8]; 5] = [b"EVALSHA", &hash, b"1", b"invoice:00000042", &token];
    let mut out = Vec::new();
    for _ in 0..cycles {
        out.clear();
        resp::write_command(&mut out, black_box(&take));
        resp::write_command(&mut out, black_box(&release));
        black_box(&out);
    }
}

/// Each cycle: replies of every kind that a lock gets, decoded.
fn read(cycles: u64) -> Result<(), Box<dyn Error>> {
    let mut replies =
        b"+OK\r\n:1\r\n$-1\r\n:1700000000000000\r\n*3\r\n:0\r\n$6\r\ncounts\r\n:9999\r\n".to_vec();
    replies.extend_from_slice(b"*16\r\n");
    (0..16).for_each(|_| replies.extend_from_slice(b":1700000000000000\r\n"));
    for _ in 0..cycles {
        let mut rest = black_box(&replies[..]);
        while !rest.is_empty() {
            let reply = resp::Progress::default().read(rest)?;
            let (value, length) = reply.ok_or("half a reply")?;
            black_box(value);
            rest = &rest[length..];
        }
    }
    Ok(())
}
