//! What a step does.
//!
//! In:  a state and a step that is possible in it.
//! Out: the next state, and what the machines said on the way.

use super::{
    caller::{Lease, Stage},
    foreign::Foreign,
    hash::Shared,
    line::Line,
    memo::Effect,
    properties::{Mark, Marks},
    scenario::{NODES, ms},
    step::Step,
    world::World,
};
use crate::node::Clock;
use redlatch_core::{
    Command, FencingToken, Input, Moment, OpId, Output, Reply, lease::Loss, machine::Vouch,
};
use std::rc::Rc;

/// The number of every look: nobody waits for the answer.
const LOOK: OpId = OpId::new(1000);

/// What happened on the way from one state to the next.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// What the machines told their callers.
    pub(super) said: Vec<(usize, Output)>,
    pub(super) marks: Marks,
}

impl World {
    /// The state after a step.
    pub(super) fn after(&self, step: Step) -> (World, Heard) {
        let mut next = self.clone();
        let mut heard = Heard::default();
        next.take(step, &mut heard);
        for client in 0..next.clients() {
            next.hurry(client, &mut heard);
        }
        (next, heard)
    }

    fn take(&mut self, step: Step, heard: &mut Heard) {
        match step {
            Step::Start { client } => self.start(client, heard),
            Step::Release { client } => self.release(client, heard),
            Step::Extend { client } => self.extend(client, heard),
            Step::Cancel { client } => self.cancel(client, heard),
            Step::Look { client } => self.look(client, heard),
            Step::Tick { client } => self.hand_in(client, Input::Tick, heard),
            Step::CarryOut { client, node } => self.carry_out_next(client, node),
            Step::Answer { client, node } => self.answer_first(client, node, heard),
            Step::Cut { client, node } => {
                self.faults.cuts -= 1;
                self.cut(client, node, heard);
            }
            Step::Refuse { client, node } => self.refuse(client, node, heard),
            Step::Repeat { client, node } => self.repeat(client, node),
            Step::Echo { client, node } => self.echo(client, node),
            Step::Straggle { client, node } => self.straggle(client, node),
            Step::Restart { node } => self.restart(node, heard),
            Step::FailOver { node } => self.fail_over(node, heard),
            Step::Expire { node } => {
                self.faults.expiries -= 1;
                self.remove_key(node);
            }
            Step::Remove => {
                self.faults.removals -= 1;
                (0..NODES).for_each(|node| self.remove_key(node));
            }
            Step::ForeignTake { node } => self.foreign_takes(node, heard),
            Step::ForeignDelete { node } => self.foreign_deletes(node),
            Step::Pass => self.pass(),
        }
    }
}

/// What callers do.
impl World {
    fn start(&mut self, client: usize, heard: &mut Heard) {
        self.callers[client].started += 1;
        self.callers[client].stage = Stage::Wanting;
        let order = self.setting.order(client, self.now);
        self.hand_in(client, Input::Acquire(self.op(client), order), heard);
    }

    fn release(&mut self, client: usize, heard: &mut Heard) {
        self.callers[client].stage = Stage::Idle;
        self.hand_in(client, Input::Release(self.op(client)), heard);
    }

    fn extend(&mut self, client: usize, heard: &mut Heard) {
        self.callers[client].extends -= 1;
        let ttl = ms(self.setting.scenario.scripts[client].extend_ms);
        self.hand_in(client, Input::Extend(self.op(client), ttl), heard);
    }

    fn cancel(&mut self, client: usize, heard: &mut Heard) {
        self.callers[client].stage = Stage::Idle;
        self.hand_in(client, Input::Cancel(self.op(client)), heard);
    }

    fn look(&mut self, client: usize, heard: &mut Heard) {
        self.callers[client].looks -= 1;
        let vouch = Vouch::default();
        self.hand_in(client, Input::Guard(LOOK, vouch), heard);
    }

    fn hand_in(&mut self, client: usize, input: Input, heard: &mut Heard) {
        let reaction = self.setting.memo.react(self.now, &self.machines[client], input);
        self.machines[client] = reaction.machine.clone();
        for effect in &reaction.effects {
            match effect {
                Effect::Send(node, tag, command) => {
                    self.note_sent(client, command);
                    let now = self.now;
                    let overtakes =
                        self.setting.undos_overtake && matches!(**command, Command::Release { .. });
                    let line = self.line_mut(client, *node);
                    line.change(|line| line.push(now, *tag, command.clone(), overtakes));
                }
                Effect::Say(output) => {
                    self.hear(client, output, &mut heard.marks);
                    heard.said.push((client, output.clone()));
                }
            }
        }
        self.drop_dead_replies(client);
    }

    fn note_sent(&mut self, client: usize, command: &Command) {
        let caller = &mut self.callers[client];
        match command {
            Command::Take { fence: Some(_), .. } => {
                caller.floor = self.granted.iter().copied().max().unwrap_or(0);
                caller.raised = false;
            }
            Command::Raise { .. } => caller.raised = true,
            Command::Extend { .. } => {
                if let Some(lease) = caller.lease_mut() {
                    lease.rival_when_extended = lease.rival;
                }
            }
            _ => {}
        }
    }

    fn hear(&mut self, client: usize, output: &Output, marks: &mut Marks) {
        match output {
            Output::Acquired(_, Ok(grant)) => {
                let fence = grant.fence.map_or(0, FencingToken::get);
                self.granted(client, grant.usable_until, fence, marks);
            }
            Output::Acquired(_, Err(_)) => {
                marks.add(Mark::Refusal);
                self.callers[client].stage = Stage::Idle;
            }
            Output::Retrying(..) => marks.add(Mark::Retry),
            Output::Admitted(_) => marks.add(Mark::Admission),
            Output::Kept(_, until, _) => {
                marks.add(Mark::Renewal);
                if let Some(lease) = self.callers[client].lease_mut() {
                    lease.until = *until;
                }
            }
            Output::Lost(_, loss) => {
                marks.add(Mark::Loss);
                self.lost(client, loss);
            }
            _ => {}
        }
    }

    fn granted(&mut self, client: usize, until: Moment, fence: u64, marks: &mut Marks) {
        marks.add(Mark::Grant);
        if self.setting.scenario.scripts[client].fenced {
            self.granted.push(fence);
        }
        if self.callers[client].raised {
            marks.add(Mark::SecondRound);
        }
        if self.callers.iter().any(|caller| caller.lease().is_some()) {
            marks.add(Mark::GrantAfterExpiry);
        }
        if client > 0 {
            marks.add(Mark::GrantToAnother);
        }
        self.rival_to_others(client);
        self.callers[client].stage = Stage::Holding(Lease {
            until,
            fence,
            rival: false,
            rival_when_extended: false,
            lost: false,
        });
    }

    /// Whoever has a lease and is not the one who was granted has a rival.
    fn rival_to_others(&mut self, client: usize) {
        for (other, caller) in self.callers.iter_mut().enumerate() {
            if let Some(lease) = caller.lease_mut().filter(|_| other != client) {
                lease.rival = true;
            }
        }
    }

    fn lost(&mut self, client: usize, loss: &Loss) {
        let caller = &mut self.callers[client];
        if let Some(lease) = caller.lease_mut() {
            lease.lost = true;
        }
        if matches!(loss, Loss::Gone(_)) {
            caller.stage = Stage::Idle;
        }
        caller.forget_what_is_over(self.now);
    }
}

/// What lines and nodes do.
impl World {
    fn carry_out_next(&mut self, client: usize, node: usize) {
        self.touch(client, node);
        let Some(next) = self.line(client, node).next() else { return };
        let command = next.command.clone();
        let reply = self.execute(node, &command);
        let now = self.now;
        self.line_mut(client, node).change(|line| line.carried_out_with(now, reply));
        self.drop_dead_replies(client);
    }

    /// What is not worth waiting for happens as soon as it can: the replies to
    /// undos, looks at nodes that are out, and where the scenario says so every
    /// reply.
    fn hurry(&mut self, client: usize, heard: &mut Heard) {
        while let Some((node, answer)) = self.next_in_a_hurry(client) {
            if answer {
                self.answer_first(client, node, heard);
            } else {
                self.carry_out_next(client, node);
            }
        }
    }

    /// The node of a line whose next reply, or command, is in a hurry.
    fn next_in_a_hurry(&self, client: usize) -> Option<(usize, bool)> {
        let scenario = &self.setting.scenario;
        let slow = scenario.guard.is_some_and(|guarded| guarded.slow);
        let reply = |command: &Command| {
            let undo = matches!(command, Command::Release { .. });
            undo || !scenario.late_replies || is_quick(command, slow)
        };
        (0..NODES).find_map(|node| {
            let line = self.line(client, node);
            if line.answer().is_some_and(|waiting| reply(&waiting.command)) {
                return Some((node, true));
            }
            let next = line.next().filter(|waiting| is_quick(&waiting.command, slow));
            next.map(|_| (node, false))
        })
    }

    fn answer_first(&mut self, client: usize, node: usize, heard: &mut Heard) {
        let answered = self.line_mut(client, node).change(Line::pop_answer);
        let Some((tag, reply)) =
            answered.and_then(|answered| Some((answered.tag, Reply::clone(&*answered.reply?))))
        else {
            return;
        };
        self.hand_in(client, Input::Reply { node, tag, reply }, heard);
    }

    fn cut(&mut self, client: usize, node: usize, heard: &mut Heard) {
        self.touch(client, node);
        let stragglers = self.faults.stragglers;
        let failed = self.line_mut(client, node).change(|line| line.cut(stragglers));
        for (tag, reply) in failed {
            self.hand_in(client, Input::Reply { node, tag, reply }, heard);
        }
    }

    fn refuse(&mut self, client: usize, node: usize, heard: &mut Heard) {
        self.touch(client, node);
        self.faults.refusals -= 1;
        let refused = self.line_mut(client, node).change(Line::refuse);
        if let Some((tag, reply)) = refused {
            self.hand_in(client, Input::Reply { node, tag, reply }, heard);
        }
    }

    fn repeat(&mut self, client: usize, node: usize) {
        self.touch(client, node);
        self.faults.repeats -= 1;
        let next = self.line(client, node).next().map(|next| next.command.clone());
        if let Some(command) = next {
            self.execute(node, &command);
        }
    }

    fn echo(&mut self, client: usize, node: usize) {
        self.faults.echoes -= 1;
        self.line_mut(client, node).change(Line::echo);
        self.carry_out_next(client, node);
    }

    fn remove_key(&mut self, node: usize) {
        self.nodes[node].change(|node| node.expire(Moment::NEVER));
    }

    fn straggle(&mut self, client: usize, node: usize) {
        let straggler = self.line_mut(client, node).change(Line::pop_straggler);
        if let Some(command) = straggler {
            self.execute(node, &command);
        }
    }

    fn restart(&mut self, node: usize, heard: &mut Heard) {
        self.faults.restarts -= 1;
        let now = self.now;
        self.nodes[node].change(|node| node.forget(now));
        self.cut_all(node, heard);
    }

    /// The replica was told of nothing that happened in this history.
    fn fail_over(&mut self, node: usize, heard: &mut Heard) {
        self.faults.failovers -= 1;
        let first = World::new(Rc::clone(&self.setting));
        let registers = first.nodes[node].registers().to_vec();
        self.nodes[node].change(|node| node.fail_over(&registers));
        self.cut_all(node, heard);
    }

    fn cut_all(&mut self, node: usize, heard: &mut Heard) {
        for client in 0..self.clients() {
            self.cut(client, node, heard);
        }
    }

    fn execute(&mut self, node: usize, command: &Shared<Command>) -> Shared<Reply> {
        let clock = Clock { now: self.now, wall: self.now.as_nanos() / 1000 };
        let habits = self.setting.habits;
        let memo = &self.setting.memo;
        let (next, reply) = memo.execute(clock, &self.nodes[node], command, habits);
        self.nodes[node] = next;
        reply
    }

    fn touch(&mut self, client: usize, node: usize) {
        if client == 0 {
            self.untouched &= !(1 << node);
        }
    }

    /// A reply that changes nothing now changes nothing later: what it answers
    /// is over. Such replies are dropped, or equal states would look different.
    fn drop_dead_replies(&mut self, client: usize) {
        for node in 0..NODES {
            while self.has_dead_reply(client, node) {
                self.line_mut(client, node).change(Line::pop_answer);
            }
        }
    }

    fn has_dead_reply(&self, client: usize, node: usize) -> bool {
        let Some(answer) = self.line(client, node).answer() else { return false };
        let Some(reply) = answer.reply.as_ref().map(|reply| Reply::clone(reply)) else {
            return false;
        };
        let input = Input::Reply { node, tag: answer.tag, reply };
        self.setting.memo.react(self.now, &self.machines[client], input).is_nothing
    }
}

/// Whether it is about the restart guard and takes no time.
fn is_quick(command: &Command, slow: bool) -> bool {
    match command {
        Command::Watch { .. } => true,
        Command::Registers | Command::Admit { .. } => !slow,
        _ => false,
    }
}

/// What the foreign client and time do.
impl World {
    fn foreign_takes(&mut self, node: usize, heard: &mut Heard) {
        let ttl = ms(self.setting.scenario.times.ttl_ms);
        let (now, name) = (self.now, self.setting.name.clone());
        let foreign: &mut Foreign = &mut self.foreign;
        let won = self.nodes[node].change(|held| foreign.take(now, node, held, &name, ttl));
        if won {
            heard.marks.add(Mark::ForeignGrant);
            self.rival_to_others(usize::MAX);
        }
    }

    fn foreign_deletes(&mut self, node: usize) {
        let name = self.setting.name.clone();
        let foreign: &mut Foreign = &mut self.foreign;
        self.nodes[node].change(|held| foreign.delete(node, held, &name));
    }

    fn pass(&mut self) {
        let overdue = (0..self.clients()).any(|client| self.is_due(client));
        self.faults.lags -= u8::from(overdue);
        let Some(next) = self.next_moment() else { return };
        self.now = next;
        for node in &mut self.nodes {
            if node.keys().any(|(_, key)| key.dies <= next) {
                node.change(|node| node.expire(next));
            }
        }
        for caller in &mut self.callers {
            caller.forget_what_is_over(next);
        }
    }
}
