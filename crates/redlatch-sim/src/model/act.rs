//! Applies a step to a state.
//!
//! In:  a state and a step that is possible in it.
//! Out: the next state, and what the machines told their callers.

use super::{
    caller::{Caller, Lease, Stage, Successor},
    memo::Effect,
    properties::{Mark, Marks},
    scenario::{NODES, ms},
    step::Step,
    world::{World, attempt_of},
};
use redlatch_core::{
    Command, FencingToken, Input, Moment, OpId, Output, lease::Loss, machine::Vouch,
};

/// The operation of every look: nobody waits for the answer.
const LOOK: OpId = OpId::new(1000);

/// What happened on the way from one state to the next.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// What the machines told their callers.
    pub(super) said: Vec<(usize, Output)>,
    pub(super) marks: Marks,
}

impl World {
    pub(super) fn after(&self, step: Step) -> (World, Heard) {
        let mut next = self.clone();
        let mut heard = Heard::default();
        next.take(step, &mut heard);
        for client in 0..next.clients() {
            next.hurry(client, &mut heard);
        }
        next.note_lines();
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
            Step::Wake { client, node } => self.wake(client, node, heard),
            Step::Mislay { node, how } => self.mislay(node, how),
            Step::Cut { client, node } => {
                let is_idle = self.channel(client, node).is_idle();
                let left = if is_idle { &mut self.faults.deaf } else { &mut self.faults.cuts };
                *left -= 1;
                self.cut(client, node, heard);
            }
            Step::Refuse { client, node } => self.refuse(client, node, heard),
            Step::Repeat { client, node } => self.repeat(client, node),
            Step::Echo { client, node } => self.echo(client, node),
            Step::Straggle { client, node } => self.straggle(client, node),
            Step::Restart { node } => self.restart(node, heard),
            Step::FailOver { node } => self.fail_over(node, heard),
            Step::FlushAll => self.flush_all(),
            Step::Jump { client } => self.jump(client),
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

impl World {
    pub(super) fn start(&mut self, caller: usize, heard: &mut Heard) {
        let home = self.home(caller);
        let last = self.callers_of(home).map(|other| self.callers[other].op).max();
        self.callers[caller].op = last.unwrap_or(0) + 1;
        self.callers[caller].started += 1;
        self.callers[caller].stage = Stage::Wanting;
        self.arrive(caller);
        let arrived = self.callers[caller].arrived;
        let order = self.setting.order(caller, self.clock(home).lease, arrived);
        self.hand_in(home, Input::Acquire(self.op(caller), order), heard);
    }

    fn release(&mut self, caller: usize, heard: &mut Heard) {
        self.callers[caller].stage = Stage::Idle;
        self.hand_in(self.home(caller), Input::Release(self.op(caller)), heard);
    }

    fn extend(&mut self, caller: usize, heard: &mut Heard) {
        self.callers[caller].extends -= 1;
        let ttl = ms(self.setting.scenario.scripts[caller].extend_ms);
        self.hand_in(self.home(caller), Input::Extend(self.op(caller), ttl), heard);
    }

    fn cancel(&mut self, caller: usize, heard: &mut Heard) {
        self.callers[caller].stage = Stage::Idle;
        self.leaves_line(caller);
        self.hand_in(self.home(caller), Input::Cancel(self.op(caller)), heard);
    }

    fn look(&mut self, client: usize, heard: &mut Heard) {
        self.callers[client].looks -= 1;
        let vouch = Vouch::default();
        self.hand_in(client, Input::Admit(LOOK, vouch), heard);
    }

    pub(super) fn hand_in(&mut self, client: usize, input: Input, heard: &mut Heard) {
        let reaction = self.setting.memo.react(self.clock(client), &self.machines[client], input);
        self.machines[client] = reaction.machine.clone();
        for effect in &reaction.effects {
            match effect {
                Effect::Send(node, tag, command) => {
                    self.note_sent(client, command);
                    let now = self.now;
                    let overtakes =
                        self.setting.undos_overtake && matches!(**command, Command::Release { .. });
                    let line = self.channel_mut(client, *node);
                    line.change(|line| line.push(now, *tag, command.clone(), overtakes));
                }
                Effect::Say(output) => {
                    let caller = self.who_asked(client, output);
                    self.hear(caller, output, &mut heard.marks);
                    heard.said.push((caller, output.clone()));
                }
            }
        }
        self.drop_dead_replies(client);
    }

    fn note_sent(&mut self, client: usize, command: &Command) {
        let bit = |(other, caller): (usize, &Caller)| u8::from(caller.lease().is_some()) << other;
        // It is used only there; elsewhere it would make equal states differ.
        let matters = self.setting.scenario.faults.removals > 0;
        let under = self.callers.iter().enumerate().filter(|_| matters).map(bit).sum();
        let client = self.who_signed(client, command);
        let caller = &mut self.callers[client];
        match command {
            // A take under a lease plants its key again.
            Command::Take { token, .. } if caller.lease().is_none() => {
                // A node may be asked again in the same attempt.
                let attempt = attempt_of(token.as_bytes());
                if std::mem::replace(&mut caller.attempt, attempt) == attempt {
                    return;
                }
                caller.floor = self.granted.iter().copied().max().unwrap_or(0);
                caller.under = under;
                caller.raised = false;
            }
            Command::Raise { .. } => caller.raised = true,
            Command::Extend { .. } => {
                if let Some(lease) = caller.lease_mut() {
                    lease.extended();
                }
            }
            _ => {}
        }
    }

    fn hear(&mut self, client: usize, output: &Output, marks: &mut Marks) {
        match output {
            Output::Acquired(_, Ok(grant)) => {
                let fence = grant.fence.map_or(0, FencingToken::get);
                let until = grant.deadlines.ends_at.before(self.ahead(self.home(client)));
                self.granted(client, until, fence, marks);
            }
            Output::Acquired(_, Err(_)) => {
                marks.add(Mark::Refusal);
                self.callers[client].stage = Stage::Idle;
                self.leaves_line(client);
            }
            Output::Retrying(..) => marks.add(Mark::Retry),
            Output::Admitted(_) => marks.add(Mark::Admission),
            Output::Kept(_, kept) => {
                marks.add(Mark::Renewal);
                let until = kept.deadlines.ends_at.before(self.ahead(self.home(client)));
                if let Some(lease) = self.callers[client].lease_mut() {
                    lease.until = until;
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
        self.overtakes(client);
        self.rival_to_others(client, self.callers[client].under);
        self.callers[client].stage = Stage::Holding(Lease {
            until,
            fence,
            rival: false,
            successor: Successor::Nobody,
            lost: false,
        });
    }

    /// Every other client with a lease now has a rival, and a successor if it
    /// already had the lease when the winner's attempt began.
    pub(super) fn rival_to_others(&mut self, client: usize, under: u8) {
        for (other, caller) in self.callers.iter_mut().enumerate() {
            if let Some(lease) = caller.lease_mut().filter(|_| other != client) {
                lease.rival = true;
                if under & 1 << other != 0 && lease.successor == Successor::Nobody {
                    lease.successor = Successor::Somebody;
                }
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
