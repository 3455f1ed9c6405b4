//! What callers ask of a client's machine, and what it tells them.

use super::{Seen, Slip, World};
use crate::search::{
    client::{Client, Op, Waits, owner},
    event::{Act, Event},
    leases::{Lease, LeaseId},
    schedule::{End, Job, Queueing, Span, resources},
};
use redlatch_core::{
    Command, InLine, Input, Moment, OpId, Output, Terms, Then,
    config::{Wanted, WantedRenewal},
    lease::Loss,
    machine::{Grant, Order},
};
use std::time::Duration;

impl World<'_> {
    /// A caller acts, now or when its process resumes.
    pub(super) fn job(&mut self, job: usize, act: Act) {
        let client = self.heirs.get(&job).copied().unwrap_or(self.schedule.jobs[job].client);
        let Some(process) = self.clients.get_mut(client).filter(|process| process.down == 0) else {
            return; // its caller died with it, or was never started
        };
        if process.paused > 0 {
            return process.asks.push_back((job, act));
        }
        self.act(client, job, act);
    }

    pub(super) fn act(&mut self, client: usize, job: usize, act: Act) {
        let plan = &self.schedule.jobs[job];
        if act == Act::Ask {
            return self.ask(client, job, plan);
        }
        let Some(op) = self.clients[client].under_way(job) else {
            return; // of an earlier life, or it had no result
        };
        if let Act::HandOver(heir) = act {
            return self.hand_over(client, op, job, heir);
        }
        let end = if act == Act::Cancel { End::Drop } else { plan.end };
        match (act, end) {
            (Act::Extend(by), _) => {
                let known = self.clients[client].ops.get_mut(&op);
                if let Some(known) = known.filter(|known| !known.waits.extend) {
                    known.waits.extend = true;
                    self.hand_in(client, Input::Extend(op, by.get()));
                }
            }
            (_, End::Release) => {
                self.over(client, op, "released");
                if let Some(known) = self.clients[client].ops.get_mut(&op) {
                    known.waits.release = true;
                }
                self.hand_in(client, Input::Release(op));
            }
            (_, End::Drop) => {
                self.over(client, op, "dropped");
                if let Some(known) = self.clients[client].ops.get_mut(&op) {
                    known.dropped = true;
                    known.waits = Waits::default();
                }
                self.hand_in(client, Input::Cancel(op));
            }
            (_, End::Keep) => {}
        }
    }

    fn ask(&mut self, client: usize, job: usize, plan: &Job) {
        let (now, clients) = (self.now, &mut self.clients);
        let process = &mut clients[client];
        let op = process.next_op();
        let terms = terms(plan, self.schedule.party(client).max_ttl.get());
        let asked = process.clock.read(now);
        let wait_until = asked.after(plan.wait.get());
        let order = Order {
            resources: resources(&plan.resources),
            owner: owner(client, process.life),
            wait_until,
            fencing: plan.fenced.then(|| process.wall_clock(now)),
            line: plan.line.map(|line| in_line(line, process, now)),
            terms,
        };
        self.counts.in_line += u64::from(order.line.is_some());
        let answered = process.clock.when(wait_until.after(order.terms.usable()));
        self.queue.push(answered.after(Duration::from_micros(1)), Event::AnswerDue(client, op));
        if let Some(cancel) = plan.cancel {
            self.queue.push(now.after(cancel.get()), Event::Job(job, Act::Cancel));
        }
        let waits = Waits { acquire: true, ..Waits::default() };
        let known = Op { job, asked: now, wait_until, dropped: false, waits, waiting_since: None };
        process.ops.insert(op, known);
        process.jobs.insert(job, op);
        process.rested = false;
        self.counts.asked += 1;
        let sent = self.counts.commands;
        self.hand_in(client, Input::Acquire(op, order));
        self.counts.queued += u64::from(self.counts.commands == sent);
    }

    /// Feeds a machine one input and carries out what it says.
    pub(super) fn hand_in(&mut self, client: usize, input: Input) {
        let process = &mut self.clients[client];
        let now = process.now(self.now, self.slip == Some(Slip::OneClock));
        process.machine.handle(now, input);
        while let Some(output) = self.clients[client].machine.poll() {
            self.carry_out(client, output);
        }
        self.set_timer(client);
        let process = &mut self.clients[client];
        if !process.rested && process.is_quiet() {
            process.rested = true;
            self.see(&Seen::Quiet(client));
        }
    }

    fn carry_out(&mut self, client: usize, output: Output) {
        match output {
            Output::Send { node, tag, command } => {
                let process = &mut self.clients[client];
                let node = process.list[node];
                match &command {
                    Command::Take { token, .. } => {
                        process.attempts.entry(token.clone()).or_insert(self.now);
                    }
                    Command::Release { then: Some(Then::Leave(ticket)), .. } => {
                        process.gone.insert((node, ticket.waiter));
                    }
                    Command::Examine => {
                        process.refused_by.remove(&node);
                        process.reserved.remove(&node);
                        self.servers[node].memory.looked_at(self.now, client, tag);
                    }
                    Command::Watch { .. } | Command::Admit { .. } => {
                        self.see(&Seen::Sent { client, node, command: &command });
                    }
                    _ => {}
                }
                self.send(client, node, tag, command);
            }
            Output::Acquired(op, Ok(grant)) => self.granted(client, op, grant),
            Output::Acquired(op, Err(error)) => {
                self.note(client, || format!("no lock: {error}"));
                match self.answered(client, op, "refused", |waits| &mut waits.acquire) {
                    Some(job) => self.see(&Seen::Failed(job, error.to_string())),
                    None => return,
                }
                self.clients[client].ops.remove(&op);
            }
            Output::Extended(op, decision) => {
                self.note(client, || match &decision {
                    Ok(_) => "extended".to_owned(),
                    Err(error) => format!("not extended: {error:.30?}"),
                });
                self.resumed(client, op, &decision);
                self.answered(client, op, "extended", |waits| &mut waits.extend);
            }
            Output::Released(op, decision) => {
                self.note(client, || format!("release: {decision:.30?}"));
                self.answered(client, op, "released", |waits| &mut waits.release);
                self.clients[client].ops.remove(&op);
            }
            Output::Kept(op, kept) => self.kept(client, op, kept.deadlines.ends_at),
            Output::NotKept(_, ballot) => {
                self.note(client, || format!("not extended: {}", ballot.tally()));
            }
            Output::Lost(op, loss) => self.lost(client, op, loss),
            Output::Retrying(op, error, pause) => {
                if let Some(known) = self.clients[client].ops.get_mut(&op) {
                    known.waiting_since.get_or_insert(self.now);
                }
                self.note(client, || format!("{error}; again in {pause:.1?}"));
            }
            _ => {}
        }
    }

    /// An answer came; returns the job it is for.
    fn answered(
        &mut self,
        client: usize,
        op: OpId,
        what: &'static str,
        waits: impl FnOnce(&mut Waits) -> &mut bool,
    ) -> Option<usize> {
        let known = self.clients[client].ops.get_mut(&op);
        let dropped = known.as_ref().is_some_and(|known| known.dropped);
        let job =
            known.and_then(|known| std::mem::take(waits(&mut known.waits)).then_some(known.job));
        // A caller that dropped its guard does not listen, but a grant would belong
        // to nobody.
        if job.is_none() && (!dropped || what == "granted") {
            self.see(&Seen::Unasked(client, op, what));
        }
        job
    }

    fn granted(&mut self, client: usize, op: OpId, grant: Grant) {
        let Some(job) = self.answered(client, op, "granted", |waits| &mut waits.acquire) else {
            return;
        };
        let plan = &self.schedule.jobs[job];
        let terms = terms(plan, self.schedule.party(client).max_ttl.get());
        let max_hold = terms.renewal.as_ref().map_or(Duration::MAX, |renewal| renewal.max_hold);
        let lease = Lease {
            id: self.lease(client, op),
            resources: resources(&plan.resources),
            started: self.clients[client].attempts.remove(&grant.token).unwrap_or(self.now),
            token: Some(grant.token),
            until: grant.deadlines.ends_at,
            fence: grant.fence,
            granted: self.now,
            notice: terms.notice,
            least: terms.min_validity.min(max_hold),
        };
        self.counts.granted += 1;
        self.begin_bar(&lease);
        self.leases.add(lease);
        if let Some((after, by)) = plan.extend {
            self.queue.push(self.now.after(after.get()), Event::Job(job, Act::Extend(by)));
        }
        if let Some((after, heir)) = plan.hand_over {
            self.queue.push(self.now.after(after.get()), Event::Job(job, Act::HandOver(heir)));
        }
        self.queue.push(self.now.after(plan.hold.get()), Event::Job(job, Act::End));
        self.watch(client, op);
        self.see(&Seen::Granted(self.lease(client, op)));
    }

    fn kept(&mut self, client: usize, op: OpId, until: Moment) {
        let id = self.lease(client, op);
        self.counts.kept += 1;
        self.note(client, || "lease extended".into());
        if !self.leases.extend(id, until) {
            return self.see(&Seen::Unasked(client, op, "kept, though it had ended"));
        }
        self.watch(client, op);
        self.see(&Seen::Kept(id));
    }

    fn lost(&mut self, client: usize, op: OpId, loss: Loss) {
        self.counts.lost += 1;
        self.see(&Seen::Lost(self.lease(client, op), loss));
        self.over(client, op, "lost");
    }

    /// Its guard no longer says "held".
    pub(super) fn over(&mut self, client: usize, op: OpId, how: &str) {
        let id = self.lease(client, op);
        if self.leases.end(id).is_some() {
            self.end_bar(id, how);
        }
    }

    pub(super) fn lease(&self, client: usize, op: OpId) -> LeaseId {
        LeaseId::Ours(client, self.clients[client].life, op)
    }

    /// Checks again when the lease ends by its owner's clock.
    pub(super) fn watch(&mut self, client: usize, op: OpId) {
        let id = self.lease(client, op);
        if let Some(lease) = self.leases.get(id) {
            let ends = self.clients[client].clock.when(lease.until);
            self.queue.push(ends, Event::RunsOut(id, lease.until));
        }
    }

    pub(super) fn runs_out(&mut self, id: LeaseId, until: Moment) {
        let LeaseId::Ours(client, life, op) = id else { return self.over_foreign(id) };
        let process = &self.clients[client];
        let still = self.leases.get(id).is_some_and(|lease| lease.until == until);
        if !still || life != process.life {
            return;
        }
        if process.runs() && process.woke < self.now {
            self.see(&Seen::RanOut(id));
        }
        self.over(client, op, "ran out");
    }

    pub(super) fn answer_due(&mut self, client: usize, op: OpId) {
        let process = &self.clients[client];
        let Some(known) = process.ops.get(&op) else { return };
        if known.waits.acquire && process.runs() && process.woke <= known.asked {
            self.see(&Seen::Unanswered(client, op));
        }
    }

    /// Sets the timer that the machine asks for, in true time.
    fn set_timer(&mut self, client: usize) {
        let process = &mut self.clients[client];
        // A refused client looks again forever; after the end there is nothing to
        // see.
        if self.now > self.ends && process.machine.is_idle() {
            return;
        }
        let Some(due) = process.machine.due() else { return };
        let at = process.clock.when(due).max(self.now);
        if process.wakes.is_none_or(|wakes| at < wakes) {
            process.wakes = Some(at);
            self.queue.push(at, Event::Wakes(client));
        }
    }

    pub(super) fn wakes(&mut self, client: usize) {
        let process = &mut self.clients[client];
        if process.wakes != Some(self.now) || !process.runs() {
            return;
        }
        process.wakes = None;
        self.break_silent_links(client);
        self.hand_in(client, Input::Tick);
    }

    /// Handles what piled up while the process was paused, in the engine's order.
    pub(super) fn catch_up(&mut self, client: usize, keeper_first: bool) {
        self.clients[client].woke = self.now;
        self.clients[client].wakes = None;
        if keeper_first {
            self.keeper_gives_up(client);
        }
        while let Some((job, act)) = self.clients[client].asks.pop_front() {
            self.act(client, job, act);
        }
        for node in 0..self.servers.len() {
            while let Some(event) = self.clients[client].mail[node].pop_front() {
                self.happen(event);
            }
        }
        self.hand_in(client, Input::Tick);
    }

    /// The keeper signals losses by itself; the engine hears of them.
    fn keeper_gives_up(&mut self, client: usize) {
        let now = self.clients[client].clock.read(self.now);
        let gone = |lease: &&Lease| now >= lease.until.before(lease.notice);
        let ids: Vec<LeaseId> = self.leases.of(client).filter(gone).map(|lease| lease.id).collect();
        for id in ids {
            let LeaseId::Ours(_, _, op) = id else { continue };
            self.over(client, op, "given up by the keeper");
            self.hand_in(client, Input::GivenUp(op));
        }
    }
}

fn in_line(line: Queueing, process: &Client, now: Moment) -> InLine {
    let arrived = process.wall.read(now).as_nanos() / 1000;
    InLine { arrived, poll_max: line.poll_max.get(), local_batch: line.local_batch }
}

pub(super) fn terms(plan: &Job, max_ttl: Duration) -> Terms {
    let times = plan.terms;
    let some = |span: Option<Span>| span.map(Span::get);
    let renewal = plan.renewal.map(Span::get);
    let renewal = renewal.map(|max_hold| WantedRenewal { every: some(times.every), max_hold });
    let wanted = Wanted { ttl: plan.ttl.get(), max_ttl, renewal, ..Wanted::default() };
    let exact = Wanted {
        node_timeout: some(times.node_timeout),
        min_validity: some(times.min_validity),
        notice: some(times.notice),
        ..wanted.clone()
    };
    let without = || wanted.renewal.clone().map(|renewal| WantedRenewal { every: None, ..renewal });
    let terms = Terms::check(&exact);
    let terms = terms.or_else(|_| Terms::check(&Wanted { renewal: without(), ..wanted.clone() }));
    terms.expect("default times fit any TTL that is long enough")
}
