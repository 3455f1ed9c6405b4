//! Remembers what machines and nodes did: the same state and the same input have
//! the same outcome, so it is computed once.
//!
//! This is where the speed comes from. A world has millions of states, but its parts
//! have only a few: most outcomes are looked up.

use super::{
    hash::{AsItIs, Shared, hash_of},
    world::Sequence,
};
use crate::node::{Clock, Habits, Node};
use redlatch_core::{Command, Input, Machine, Now, Output, Reply, Tag, Wake};
use std::{cell::RefCell, collections::HashMap, hash::BuildHasherDefault, rc::Rc};

#[derive(Debug, Default)]
pub(super) struct Memo {
    reactions: RefCell<Known<Rc<Reaction>>>,
    executions: RefCell<Known<Execution>>,
}

/// Keyed by the hash of the part and the hash of its input.
type Known<T> = HashMap<(u64, u64), T, BuildHasherDefault<AsItIs>>;

/// How a machine reacts to an input.
#[derive(Debug)]
pub(super) struct Reaction {
    pub(super) machine: Shared<Machine<Sequence>>,
    pub(super) effects: Vec<Effect>,
    /// The input has no effect at all.
    pub(super) is_nothing: bool,
}

#[derive(Debug)]
pub(super) enum Effect {
    Send(usize, Tag, Shared<Command>),
    Say(Output),
}

/// A node's next state, its reply, and whom it wakes.
pub(super) type Execution = (Shared<Node>, Shared<Reply>, Rc<[Wake]>);

/// Bounds the memory, whatever the scenario.
const MOST: usize = 1 << 20;

impl Memo {
    pub(super) fn react(
        &self,
        now: Now,
        machine: &Shared<Machine<Sequence>>,
        input: Input,
    ) -> Rc<Reaction> {
        let key = (machine.hash(), hash_of(&(now, &input)));
        if let Some(known) = self.reactions.borrow().get(&key) {
            return Rc::clone(known);
        }
        let reaction = Rc::new(Reaction::of(now, machine, input));
        remember(&mut self.reactions.borrow_mut(), key, Rc::clone(&reaction));
        reaction
    }

    pub(super) fn execute(
        &self,
        clock: Clock,
        node: &Shared<Node>,
        command: &Shared<Command>,
        habits: Habits,
    ) -> Execution {
        let key = (node.hash(), hash_of(&(clock.now, command.hash())));
        if let Some(known) = self.executions.borrow().get(&key) {
            return known.clone();
        }
        let mut next = Node::clone(node);
        let reply = next.carry_out(clock, command, habits);
        let wakes = std::mem::take(&mut next.wakes).into();
        let execution = (Shared::new(next), Shared::new(reply), wakes);
        remember(&mut self.executions.borrow_mut(), key, execution.clone());
        execution
    }
}

impl Reaction {
    fn of(now: Now, machine: &Shared<Machine<Sequence>>, input: Input) -> Self {
        let mut next = Machine::clone(machine);
        next.handle(now, input);
        let mut effects = Vec::new();
        while let Some(output) = next.poll() {
            effects.push(match output {
                Output::Send { node, tag, command } => {
                    Effect::Send(node, tag, Shared::new(command))
                }
                said => Effect::Say(said),
            });
        }
        let is_nothing = effects.is_empty() && next == **machine;
        Reaction { machine: Shared::new(next), effects, is_nothing }
    }
}

fn remember<T>(known: &mut Known<T>, key: (u64, u64), value: T) {
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(key, value);
}
