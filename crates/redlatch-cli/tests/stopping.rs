//! Whichever processes of `redlatch run` are stopped and go on, and in whatever order:
//! nobody works without the lock.
//!
//! A search, not a case: it draws which one or two of the three processes stop, when, for
//! how long, and how they go on, and sometimes kills the holder or the watchdog before.
//! `REDLATCH_STOPPING=600` searches for so many seconds; `REDLATCH_SEED` draws the same
//! again, as far as a machine repeats itself.
#![allow(clippy::unwrap_used, reason = "all of this is a test")]

mod support;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use redlatch_core::dice::Dice;
use std::{
    env, fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime},
};
use support::{Running, Sandbox, start};

const CONTENDERS: usize = 3;
/// Long enough that the command is killed well before another can have the lock, however
/// busy the machine is.
const TTL: Duration = Duration::from_secs(4);
/// How long this searches by default.
const USUALLY: u64 = 40;

/// Writes its fencing token again and again, for longer than a lease, in a process that the
/// command has started in a session of its own. What is appended has an order.
const WORK: &str = "
    setsid sh -c '
        i=0
        while [ $i -lt 400 ]; do
            echo $REDLATCH_FENCING_TOKEN $(date +%s.%N) $$ >> work
            i=$((i + 1))
            sleep 0.02
        done
    ' & wait";

/// The processes of one `redlatch run`: the first, the holder and the watchdog.
#[derive(Debug)]
struct Trio([Pid; 3]);

/// Whether a process is there and not dead.
fn lives(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

impl Trio {
    /// `None` while it starts or ends, and once one of them is dead: if the other two were
    /// stopped, nobody would be left.
    fn of(front: u32) -> Option<Self> {
        let children = fs::read_to_string(format!("/proc/{front}/task/{front}/children")).ok()?;
        let pid = |text: &str| text.parse().ok().map(Pid::from_raw);
        let mut children = children.split_whitespace();
        let (holder, watchdog) = (pid(children.next()?)?, pid(children.next()?)?);
        let trio = Trio([Pid::from_raw(front.try_into().ok()?), holder, watchdog]);
        trio.lives().then_some(trio)
    }

    fn lives(&self) -> bool {
        self.0.iter().all(|pid| lives(*pid))
    }

    /// Whether its command runs.
    fn works(&self) -> bool {
        let holder = self.0[1];
        fs::read_to_string(format!("/proc/{holder}/task/{holder}/children"))
            .is_ok_and(|children| !children.is_empty())
    }

    /// One or two of them, in any order. If all three are stopped, nothing helps.
    fn some(&self, dice: &mut Dice) -> Vec<Pid> {
        let mut all = self.0.to_vec();
        let count = dice.between(1, 2);
        (0..count).map(|_| all.swap_remove(dice.index(all.len()))).collect()
    }
}

/// Contenders that want the lock again and again.
struct Contenders {
    sandbox: Sandbox,
    /// The first process of each one's `redlatch run`.
    running: Mutex<[Option<Running>; CONTENDERS]>,
    is_over: AtomicBool,
    /// How many lost the lock.
    lost: AtomicUsize,
}

impl Contenders {
    fn contend(&self, at: usize) {
        while !self.is_over.load(Ordering::Relaxed) {
            let ttl = format!("{}s", TTL.as_secs());
            let options = ["run", "x", "--wait", "10m", "--ttl", &ttl, "--quiet"];
            let command = self.sandbox.redlatch(options.iter().chain(&["--", "sh", "-c", WORK]));
            self.running.lock().unwrap()[at] = Some(start(command));
            let ended = loop {
                // Reaped only while the stopper does not look: a pid stays its own until then.
                let mut running = self.running.lock().unwrap();
                if let Some(ended) = running[at].take_if(Running::has_ended) {
                    break ended.end();
                }
                drop(running);
                thread::sleep(Duration::from_millis(5));
            };
            match ended.status.code() {
                Some(0) => {}
                Some(123 | 125) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
                _ => panic!("{ended:?}"),
            }
        }
    }

    /// Stops some processes of one contender, mostly of the one that works, and lets them
    /// go on after a while.
    fn disturb(&self, dice: &mut Dice) {
        let pause = |dice: &mut Dice, most| thread::sleep(dice.time(Duration::ZERO, most));
        let Some((trio, some)) = self.choose(dice) else {
            return pause(dice, Duration::from_millis(100));
        };
        let [front, holder, watchdog] = trio.0;
        println!("{:.3} front {front}, holder {holder}, watchdog {watchdog}", seconds());
        let some = match dice.index(10) {
            0..3 => {
                // The first process may be stopped while it kills what a dead holder has left.
                send(holder, Signal::SIGKILL);
                pause(dice, Duration::from_millis(15));
                send(front, Signal::SIGSTOP);
                vec![front]
            }
            3..5 => {
                // Only the first process is left to kill the command.
                send(watchdog, Signal::SIGKILL);
                send(holder, Signal::SIGSTOP);
                vec![holder]
            }
            _ => {
                for pid in &some {
                    send(*pid, Signal::SIGSTOP);
                    pause(dice, TTL / 20);
                }
                some
            }
        };
        thread::sleep(TTL / 2);
        pause(dice, TTL + TTL / 2);
        let mut stopped = some;
        while !stopped.is_empty() {
            let next = stopped.swap_remove(dice.index(stopped.len()));
            send(next, Signal::SIGCONT);
            // One that went on may stop again, beside one that has not gone on yet.
            if dice.percent(20) {
                let other = dice.pick(&trio.0);
                if trio.lives() && stopped.len() < 2 && !stopped.contains(&other) {
                    send(other, Signal::SIGSTOP);
                    stopped.push(other);
                }
            }
            pause(dice, TTL / 2);
        }
    }

    fn choose(&self, dice: &mut Dice) -> Option<(Trio, Vec<Pid>)> {
        let running = self.running.lock().unwrap();
        let trios = running.iter().flatten().filter_map(|running| Trio::of(running.pid()));
        let wants_work = dice.percent(80);
        let mut trios: Vec<_> = trios.filter(|trio| trio.works() || !wants_work).collect();
        let trio = trios.swap_remove(trios.len().checked_sub(1).map(|last| dice.index(last + 1))?);
        let some = trio.some(dice);
        Some((trio, some))
    }
}

/// Says so, for whoever reads of a failure.
fn send(pid: Pid, signal: Signal) {
    println!("{:.3} {signal} to {pid}", seconds());
    let _ = kill(pid, signal);
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn whatever_is_stopped_and_goes_on_nobody_works_without_the_lock() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seed = number("REDLATCH_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let span = Duration::from_secs(number("REDLATCH_STOPPING").unwrap_or(USUALLY));
    println!("seed {seed}");
    let contenders = Arc::new(Contenders {
        sandbox: Sandbox::embedded(),
        running: Mutex::default(),
        is_over: AtomicBool::new(false),
        lost: AtomicUsize::new(0),
    });
    let threads: Vec<_> = (0..CONTENDERS)
        .map(|at| {
            let contenders = Arc::clone(&contenders);
            thread::spawn(move || contenders.contend(at))
        })
        .collect();

    let (mut dice, end) = (Dice::of(seed, &[]), Instant::now() + span);
    while Instant::now() < end {
        contenders.disturb(&mut dice);
    }
    contenders.is_over.store(true, Ordering::Relaxed);
    for contender in threads {
        contender.join().unwrap();
    }

    let work = fs::read_to_string(contenders.sandbox.path("work")).unwrap();
    // Token, time and process.
    let work: Vec<Vec<&str>> = work.lines().map(|line| line.split(' ').collect()).collect();
    let token = |line: &[&str]| line[0].parse::<u64>().unwrap();
    let late: Vec<_> = work.windows(2).filter(|pair| token(&pair[1]) < token(&pair[0])).collect();
    assert!(late.is_empty(), "work of an earlier holder after that of a later one: {late:?}");
    println!("{} lines, {} lost", work.len(), contenders.lost.load(Ordering::Relaxed));
}
