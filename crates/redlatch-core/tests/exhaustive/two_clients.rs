//! Two clients and three nodes: every order in which takes, undos, releases
//! and replies can go through, with time passing and clients sleeping between.

use crate::support::{Lock, MS, Mode, TTL, World, plain};
use core::time::Duration;
use redlatch_core::{Command, Moment, Token};
use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// One thing that can happen next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The node carries out the client's next command.
    CarryOut { client: usize, node: usize },
    /// The client gets the node's oldest reply.
    Answer { client: usize, node: usize },
    /// The holder releases the lock.
    Release { client: usize },
    /// Time passes until a client is due, and it is called.
    Wait,
    /// A TTL passes while both clients sleep.
    Sleep,
}

#[derive(Debug, Clone)]
struct State {
    world: World,
    /// What signs the first client's first attempt.
    first: Token,
    locks: [Lock; 2],
    released: [bool; 2],
    waits: u32,
    sleeps: u32,
}

/// What was seen in some history.
#[derive(Debug, Default)]
struct Seen {
    granted: [bool; 2],
    granted_to_both: bool,
    granted_to_nobody: bool,
    states: usize,
}

impl State {
    fn start(wait: [Duration; 2], waits: u32, sleeps: u32) -> Self {
        let mut world = World::with(2, 3);
        world.pauses_of(128);
        world.all_lines(Mode::Held);
        let locks = [0, 1].map(|client| world.acquire_as(client, plain(), wait[client]));
        let first = world.tokens()[0].clone();
        State { world, first, locks, released: [false; 2], waits, sleeps }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for client in 0..2 {
            for node in 0..3 {
                let channel = &self.world.clients[client].channels[node];
                if channel.next().is_some() && !self.is_mirrored(client, node) {
                    steps.push(Step::CarryOut { client, node });
                }
                if channel.has_answer() {
                    steps.push(Step::Answer { client, node });
                }
            }
            if self.holds(client) {
                steps.push(Step::Release { client });
            }
        }
        if self.waits > 0 && self.world.next_due().is_some() {
            steps.push(Step::Wait);
        }
        // Sleeping with nothing under way only means waking up later.
        if self.sleeps > 0 && !steps.is_empty() {
            steps.push(Step::Sleep);
        }
        steps
    }

    /// Nodes are alike, so they may as well be numbered in the order in which
    /// they carry out the takes of the first client's first attempt.
    fn is_mirrored(&self, client: usize, node: usize) -> bool {
        let first_take = |node: usize| match self.world.clients[0].channels[node].next() {
            Some(Command::Take { token, .. }) => *token == self.first,
            _ => false,
        };
        client == 0 && node > 0 && first_take(node) && first_take(node - 1)
    }

    fn after(&self, step: Step) -> State {
        let mut next = self.clone();
        next.take(step);
        next
    }

    fn take(&mut self, step: Step) {
        for client in &mut self.world.clients {
            client.sent.clear();
        }
        match step {
            Step::CarryOut { client, node } => self.carry_out(client, node),
            Step::Answer { client, node } => self.world.answer_one(client, node),
            Step::Release { client } => {
                self.released[client] = true;
                self.world.release(self.locks[client]);
            }
            Step::Wait => {
                self.waits -= 1;
                let due = self.world.next_due().expect("somebody waits");
                self.world.now = self.world.now.max(due);
                self.world.tick();
            }
            Step::Sleep => {
                self.sleeps -= 1;
                self.world.freeze(TTL);
            }
        }
    }

    /// When the reply to an undo comes matters to nobody: it comes at once, so
    /// that there are fewer orders to try.
    fn carry_out(&mut self, client: usize, node: usize) {
        let channel = &self.world.clients[client].channels[node];
        let undo = matches!(channel.next(), Some(Command::Release { .. }));
        self.world.carry_out_one(client, node);
        while undo && self.world.clients[client].channels[node].has_answer() {
            self.world.answer_one(client, node);
        }
    }

    /// Whether nobody can tell if it happens now or later: a reply after the
    /// answer, or an undo on a node where nobody wants anything any more.
    fn concerns_nobody(&self, step: Step) -> bool {
        match step {
            Step::Answer { client, .. } => self.is_answered(client),
            Step::CarryOut { client, node } => {
                let channel = |client: usize| &self.world.clients[client].channels[node];
                let other = 1 - client;
                matches!(channel(client).next(), Some(Command::Release { .. }))
                    && !matches!(channel(other).next(), Some(Command::Take { .. }))
                    && self.is_answered(other)
            }
            Step::Release { .. } | Step::Wait | Step::Sleep => false,
        }
    }

    /// Whether it is a reply that decides nothing. It may as well come at once,
    /// unless time passes before it.
    fn is_quiet(&self, step: Step) -> bool {
        let Step::Answer { client, .. } = step else { return false };
        let next = &self.after(step).world.clients[client];
        next.sent.is_empty() && next.said.len() == self.world.clients[client].said.len()
    }

    fn is_answered(&self, client: usize) -> bool {
        self.world.acquired(self.locks[client]).is_some()
    }

    fn granted_until(&self, client: usize) -> Option<Moment> {
        let answer = self.world.acquired(self.locks[client])?;
        answer.as_ref().ok().map(|grant| grant.deadlines.ends_at)
    }

    fn holds(&self, client: usize) -> bool {
        let until = self.granted_until(client);
        !self.released[client] && until.is_some_and(|until| self.world.now < until)
    }

    /// Equal for two states that can only have the same future.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.world.now, &self.world.nodes).hash(&mut hasher);
        (self.released, self.waits, self.sleeps).hash(&mut hasher);
        for client in &self.world.clients {
            (&client.machine, &client.channels).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Everything that can come next, without orders that make no difference.
fn successors(state: &State) -> Vec<State> {
    let steps = state.steps();
    let all = |steps: Vec<Step>| steps.into_iter().map(|step| state.after(step)).collect();
    if let Some(step) = steps.iter().find(|step| state.concerns_nobody(**step)) {
        return all(vec![*step]);
    }
    let quiet = steps.iter().find(|step| state.is_quiet(**step));
    match quiet {
        Some(step) if steps.contains(&Step::Wait) => all(vec![*step, Step::Wait]),
        Some(step) => all(vec![*step]),
        None => all(steps),
    }
}

/// Goes through every history.
fn explore(start: State) -> Seen {
    let mut seen = Seen::default();
    let mut known = HashSet::from([start.fingerprint()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        seen.states += 1;
        assert!(!(state.holds(0) && state.holds(1)), "two holders: {state:#?}");
        let next = successors(&state);
        if next.is_empty() {
            look_at_end(&state, &mut seen);
        }
        open.extend(next.into_iter().filter(|next| known.insert(next.fingerprint())));
    }
    seen
}

fn look_at_end(state: &State, seen: &mut Seen) {
    let granted = [0, 1].map(|client| state.granted_until(client).is_some());
    seen.granted[0] |= granted[0];
    seen.granted[1] |= granted[1];
    seen.granted_to_both |= granted == [true, true];
    seen.granted_to_nobody |= granted == [false, false];

    let mut world = state.world.clone();
    world.all_lines(Mode::Open);
    world.pass(3 * TTL);
    assert_eq!(world.locked(), [0; 0], "left behind: {state:#?}");
    assert!(world.is_idle(), "{state:#?}");
}

#[test]
fn two_clients_never_hold_the_lock_together() {
    let seen = explore(State::start([Duration::ZERO; 2], 0, 0));

    assert_eq!(seen.granted, [true, true], "each in some history");
    assert!(seen.granted_to_both, "one after the other");
    assert!(!seen.granted_to_nobody, "three nodes, all up: a majority goes to somebody");
    assert!(seen.states > 2_000, "{}", seen.states);
}

#[test]
fn two_clients_that_sleep_for_a_ttl_never_hold_the_lock_together() {
    let seen = explore(State::start([Duration::ZERO; 2], 0, 1));

    assert_eq!(seen.granted, [true, true], "each in some history");
    assert!(seen.granted_to_nobody, "the grants of both came too late");
    assert!(seen.states > 10_000, "{}", seen.states);
}

#[test]
fn two_clients_whose_nodes_time_out_never_hold_the_lock_together() {
    let seen = explore(State::start([Duration::ZERO; 2], 2, 0));

    assert_eq!(seen.granted, [true, true], "each in some history");
    assert!(seen.granted_to_both, "one after the other");
    assert!(seen.granted_to_nobody, "both gave up");
    assert!(seen.states > 10_000, "{}", seen.states);
}

#[test]
fn two_clients_of_which_one_tries_again_never_hold_the_lock_together() {
    let seen = explore(State::start([60 * MS, Duration::ZERO], 1, 0));

    assert_eq!(seen.granted, [true, true], "each in some history");
    assert!(seen.granted_to_both, "one after the other");
    assert!(seen.states > 10_000, "{}", seen.states);
}
