//! An established connection.
//!
//! In:  commands. Out: replies, for each resource in the order of its commands.
//!
//! Commands sent before the next write go out in as few calls as possible: see [`Turn`].

use super::{
    super::{
        Address,
        connect::Connection,
        look::{Look, Question, role_changed},
        plain::PlainTakes,
        resp::Value,
        scripts::Naming,
        translate::{self, MarkerText},
        turn::Turn,
        wakes::{Heard, Wakes},
    },
    server::{Server, is_no_script},
    wire::Wire,
};
use crate::node::heeding::is_vote;
use redlatch_core::{Command, Fault, Reply, Tag, link::LONGEST_SILENCE};
use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep};

/// A vote re-checks the server's identity and fitness if the last check is older than this.
/// The server may have been a replica in between (it has its old marker if it followed its
/// own copy), or an operator may have let it evict keys (locks go first, since they expire;
/// the marker stays).
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The re-check is a full one if the last full one is older than this.
const LOOK_CLOSELY: Duration = Duration::from_secs(1);
/// How many times to read in one turn, so that a server that sends endlessly does not keep
/// the engine from the other nodes.
const MOST_READS: usize = 16;

/// With this many commands unanswered, the next ones wait for company.
const MANY: usize = 16;
/// The longest that they wait, if no answer arrives.
const COMPANY: Duration = Duration::from_millis(1);

pub(super) struct Ready {
    server: Server,
    wire: Wire,
    marker: MarkerText,
    /// All commands that are still to be sent or answered.
    commands: Commands,
    /// Sent by the core, but not yet turned into bytes.
    queued: Queue,
    /// Takes that `SET` refused: to be sent again as a script, which joins the line.
    refused: Queue,
    /// To be sent again, with the script in full: the server did not know it.
    again: Queue,
    /// The latest time at which the queue goes out, while it waits for company.
    held_until: Option<Pin<Box<Sleep>>>,
    plain: PlainTakes,
    turn: Turn,
    /// Written, but not yet answered.
    unanswered: Queue,
    /// What the server will answer next, in order.
    under_way: VecDeque<Sent>,
    /// How many of all these commands are takes.
    takes: usize,
    /// The most commands at any time since there were last none.
    most: usize,
    /// When an answer last arrived, or there was none to wait for.
    quiet_since: Instant,
    /// When the server was greeted or last re-checked.
    looked_at: Instant,
    /// When it was last re-checked in full, if ever.
    looked_closely: Option<Instant>,
    look: Look,
    wakes: Wakes,
}

/// Something that was sent and awaits one answer.
enum Sent {
    /// The next commands, this many.
    Call(usize, Form),
    /// A question of a re-check.
    Look(Question),
    /// A subscription: answered by a push, or by an error if it is denied.
    Subscription,
}

/// How commands were sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One take, as `SET`.
    Plain,
    /// As a script, named by its hash.
    ByHash,
    /// As a script, in full.
    InFull,
}

impl Ready {
    pub(super) fn new(address: Arc<Address>, connection: Connection) -> Self {
        let Connection { stream, identity, is_resp3 } = connection;
        let now = Instant::now();
        Ready {
            server: Server::new(address, identity),
            wire: Wire::new(stream),
            marker: MarkerText::default(),
            commands: Commands::default(),
            queued: VecDeque::new(),
            refused: VecDeque::new(),
            again: VecDeque::new(),
            held_until: None,
            plain: PlainTakes::default(),
            turn: Turn::default(),
            unanswered: VecDeque::new(),
            under_way: VecDeque::new(),
            takes: 0,
            most: 0,
            quiet_since: now,
            looked_at: now,
            looked_closely: None,
            look: Look::default(),
            wakes: Wakes::new(is_resp3),
        }
    }

    /// How many takes are unanswered.
    pub(super) fn takes(&self) -> usize {
        self.takes
    }

    /// How many commands are unanswered.
    pub(super) fn commands(&self) -> usize {
        self.queued.len() + self.refused.len() + self.again.len() + self.unanswered.len()
    }

    /// Whether nothing is waiting to be sent or answered.
    pub(super) fn is_idle(&self) -> bool {
        self.commands() == 0 && self.under_way.is_empty()
    }

    /// Whether to use a new connection for the next command.
    pub(super) fn is_to_be_left(&self) -> bool {
        self.server.is_to_be_left()
    }

    pub(super) fn send(&mut self, tag: Tag, command: Command) {
        self.takes += usize::from(is_take(&command));
        self.queued.push_back(self.commands.add(tag, command));
        self.most = self.most.max(self.commands());
    }

    /// Frees the memory of an earlier crowd, once there are far fewer commands.
    fn shrink(&mut self) {
        let most = std::mem::take(&mut self.most).max(Turn::MOST);
        if self.queued.capacity().max(self.unanswered.capacity()) > 4 * most {
            self.commands.clear();
            self.queued.shrink_to(most);
            self.unanswered.shrink_to(most);
            self.under_way.shrink_to(most);
            self.wire.shrink();
        }
    }

    /// Ready, with the reason, when the connection has ended.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        replies: &mut Vec<(Tag, Reply)>,
    ) -> Poll<Fault> {
        // Read once, and not at all if there is nothing to send or to wait for.
        let now = if self.is_idle() { self.quiet_since } else { Instant::now() };
        let mut reads = 0;
        loop {
            // Commands sent while the server does not read go out together later.
            if self.wire.is_written() && !self.queued.is_empty() && !self.waits(cx, reads > 0) {
                self.held_until = None;
                self.write_queued(now);
            }
            if let Poll::Ready(Err(error)) = self.wire.poll_write(cx) {
                return Poll::Ready(disconnected(&error.to_string()));
            }
            if reads == MOST_READS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            reads += 1;
            let Poll::Ready(read) = self.wire.poll_read(cx) else { break };
            match read {
                Ok(0) => return Poll::Ready(disconnected("closed by the server")),
                Ok(_) => {}
                Err(error) => return Poll::Ready(disconnected(&error.to_string())),
            }
            if let Err(fault) = self.understand(now, replies) {
                return Poll::Ready(fault);
            }
            if self.is_idle() {
                self.shrink();
            }
        }
        if !self.under_way.is_empty() && now - self.quiet_since > LONGEST_SILENCE {
            let reason = format!("no answer to anything for {LONGEST_SILENCE:?}");
            return Poll::Ready(disconnected(&reason));
        }
        Poll::Pending
    }

    /// Returns the commands that were not answered: the connection has ended.
    pub(super) fn unanswered(&mut self) -> impl Iterator<Item = Tag> + '_ {
        let Ready { unanswered, refused, again, queued, commands, .. } = self;
        let sent = unanswered.drain(..).chain(refused.drain(..)).chain(again.drain(..));
        sent.chain(queued.drain(..)).map(|at| commands.remove(at))
    }

    /// Whether we expected the server to wake us over this connection.
    pub(super) fn could_be_woken(&self) -> bool {
        self.wakes.is_expected()
    }

    /// Whether the queue waits for company: the server is busy, has not answered just now,
    /// and there is room for more in one call. Otherwise every request that comes in from
    /// another thread would be a separate call.
    fn waits(&mut self, cx: &mut Context<'_>, answered: bool) -> bool {
        if answered || self.unanswered.len() < MANY || self.queued.len() >= Turn::MOST {
            return false;
        }
        let until = self.held_until.get_or_insert_with(|| Box::pin(sleep(COMPANY)));
        until.as_mut().poll(cx).is_pending()
    }

    /// Turns the queue into bytes.
    fn write_queued(&mut self, now: Instant) {
        if self.under_way.is_empty() {
            self.quiet_since = now;
        }
        let votes = self.commands.of(&self.queued).any(is_vote);
        if votes && now - self.looked_at > LOOK_AGAIN {
            self.looked_at = now;
            let is_full = self.looked_closely.is_none_or(|last| now - last > LOOK_CLOSELY);
            if is_full {
                self.looked_closely = Some(now);
            }
            let asked = Look::write(self.wire.out(), is_full);
            self.under_way.extend(asked.map(Sent::Look));
        }
        for command in self.commands.of(&self.queued) {
            if self.wakes.subscribe(command, self.wire.out()) {
                self.under_way.push_back(Sent::Subscription);
            }
        }
        let mut queued = std::mem::take(&mut self.queued);
        self.write_plain(&mut queued);
        self.write_all(&mut queued, Form::ByHash);
        self.queued = queued;
    }

    /// Turns the plain takes into bytes, and leaves the rest queued.
    fn write_plain(&mut self, queue: &mut Queue) {
        if !self.plain.look(self.commands.of(queue)) {
            return;
        }
        queue.retain(|at| {
            let is_plain = self.plain.write(self.wire.out(), self.commands.at(*at));
            if is_plain {
                self.under_way.push_back(Sent::Call(1, Form::Plain));
                self.unanswered.push_back(*at);
            }
            !is_plain
        });
    }

    /// Turns commands into bytes, as many per call as possible.
    fn write_all(&mut self, queue: &mut Queue, form: Form) {
        let naming = match form {
            Form::InFull => Naming::Source,
            _ => Naming::Hash,
        };
        let (out, run) = (self.wire.out(), &self.server.identity.run);
        while let Some(first) = queue.front() {
            let together = self.turn.gather(self.commands.of(queue));
            if together > 1 {
                let called = self.commands.of(queue).take(together);
                let marker = self.marker.of(self.turn.fingerprint(), run);
                self.turn.write(out, called, marker, naming);
            } else {
                let command = self.commands.at(*first);
                let marker = self.marker.of(command.fingerprint(), run);
                translate::write(out, command, marker, naming, &self.server.address);
            }
            self.under_way.push_back(Sent::Call(together, form));
            self.unanswered.extend(queue.drain(..together));
        }
    }

    /// Parses what was read into replies.
    fn understand(&mut self, now: Instant, replies: &mut Vec<(Tag, Reply)>) -> Result<(), Fault> {
        while let Some(value) = self.wire.next()? {
            // Only whole answers count, not the bytes of one that never ends.
            self.quiet_since = now;
            if let Value::Push(parts) = &value {
                let awaited = matches!(self.under_way.front(), Some(Sent::Subscription));
                match Heard::of(parts) {
                    Heard::Wake(wake) => replies.push((Tag::WAKE, Reply::Woken(wake))),
                    Heard::Subscribed if awaited => drop(self.under_way.pop_front()),
                    Heard::Subscribed | Heard::Noise => {}
                }
                continue;
            }
            match self.under_way.pop_front() {
                Some(Sent::Call(commands, Form::ByHash)) if is_no_script(&value) => {
                    self.send_again(commands, replies);
                }
                Some(Sent::Call(_, Form::Plain))
                    if value == Value::Nil
                        && joins_line(&self.commands, &self.unanswered, &self.queued) =>
                {
                    self.refused.extend(self.unanswered.pop_front());
                }
                Some(Sent::Call(commands, _)) => {
                    let (answers, mut is_another) = (Answers::of(&value, commands)?, false);
                    for (number, at) in self.unanswered.drain(..commands).enumerate() {
                        let (command, answer) = (self.commands.at(at), answers.to(number));
                        let reply = self.server.reply(command, answer);
                        is_another |= is_read_only(answer) || self.server.is_another(&reply);
                        self.takes -= usize::from(is_take(command));
                        replies.push((self.commands.remove(at), reply));
                    }
                    if is_another {
                        return Err(role_changed()); // re-check the server's identity
                    }
                }
                Some(Sent::Look(question)) => {
                    let Server { address, identity, .. } = &self.server;
                    self.look.hear(question, &value, address, &identity.run)?;
                }
                // Denied: the server will not wake us.
                Some(Sent::Subscription) => {}
                None => return Err(Fault::Nonsense("an answer to nothing".into())),
            }
        }
        if !self.refused.is_empty() {
            let mut refused = std::mem::take(&mut self.refused);
            self.write_all(&mut refused, Form::ByHash);
            self.refused = refused;
        }
        if !self.again.is_empty() {
            let mut again = std::mem::take(&mut self.again);
            self.write_all(&mut again, Form::InFull);
        }
        Ok(())
    }

    /// The server has forgotten the script (SCRIPT FLUSH), so it did nothing. Commands
    /// whose undo is already in progress are not sent again: they would arrive after it.
    fn send_again(&mut self, commands: usize, replies: &mut Vec<(Tag, Reply)>) {
        let forgotten: Vec<_> = self.unanswered.drain(..commands).collect();
        for at in forgotten {
            let command = self.commands.at(at);
            if released_since(command, &self.commands, &self.unanswered, &self.queued) {
                self.takes -= usize::from(is_take(command));
                let reason = "NOSCRIPT, and it is not sent again behind its own undo";
                let reply = Reply::failed(Fault::Refused(reason.into()));
                replies.push((self.commands.remove(at), reply));
            } else {
                self.again.push_back(at);
            }
        }
    }
}

/// Commands to be sent or answered, by their places in [`Commands`], in order.
type Queue = VecDeque<usize>;

/// The commands, each in a place from which it is never moved.
#[derive(Default)]
struct Commands {
    places: Vec<Option<(Tag, Command)>>,
    free: Vec<usize>,
}

impl Commands {
    fn add(&mut self, tag: Tag, command: Command) -> usize {
        if let Some(at) = self.free.pop() {
            self.places[at] = Some((tag, command));
            return at;
        }
        self.places.push(Some((tag, command)));
        self.places.len() - 1
    }

    /// The command at a place that is in one of the queues.
    fn at(&self, at: usize) -> &Command {
        let Some((_, command)) = &self.places[at] else { unreachable!("{GONE}") };
        command
    }

    fn of<'a>(&'a self, queue: &'a Queue) -> impl Iterator<Item = &'a Command> {
        queue.iter().map(|at| self.at(*at))
    }

    fn remove(&mut self, at: usize) -> Tag {
        let place = &mut self.places[at];
        let Some((tag, _)) = *place else { unreachable!("{GONE}") };
        // In place: taking it out would copy it first.
        *place = None;
        self.free.push(at);
        tag
    }

    /// Frees the memory of all places. None of them may be in a queue.
    fn clear(&mut self) {
        *self = Commands::default();
    }
}

const GONE: &str = "only what is answered is removed";

/// Whether the next take, which `SET` refused, should wait in line. Not if it has been
/// undone meanwhile: it would arrive after its undo.
fn joins_line(commands: &Commands, unanswered: &Queue, queued: &Queue) -> bool {
    commands.of(unanswered).next().is_some_and(|take| {
        matches!(take, Command::Take { place: Some(_), .. })
            && !released_since(take, commands, unanswered, queued)
    })
}

/// Whether the undo of this take or plant has been sent after it.
fn released_since(
    command: &Command,
    commands: &Commands,
    unanswered: &Queue,
    queued: &Queue,
) -> bool {
    let (Command::Take { token, resources, .. } | Command::Plant { token, resources, .. }) =
        command
    else {
        return false;
    };
    commands.of(unanswered).chain(commands.of(queued)).any(|later| match later {
        Command::Release { token: released, resources: names, .. } => {
            released == token && names == resources
        }
        _ => false,
    })
}

/// The answers to the commands of a call.
enum Answers<'a, 'b> {
    Each(&'a [Value<'b>]),
    /// One answer for all commands (or the only one). If it is an error, what several did
    /// is unknown.
    All(&'a Value<'b>),
}

impl<'a, 'b> Answers<'a, 'b> {
    fn of(value: &'a Value<'b>, commands: usize) -> Result<Self, Fault> {
        match value {
            Value::Array(each) if commands > 1 && each.len() == commands => Ok(Answers::Each(each)),
            Value::Error(_) => Ok(Answers::All(value)),
            _ if commands == 1 => Ok(Answers::All(value)),
            _ => {
                let reason = format!("not {commands} answers to as many commands");
                Err(Fault::Nonsense(reason.into()))
            }
        }
    }

    /// The answer to the command at this position in the call.
    fn to(&self, at: usize) -> &'a Value<'b> {
        match self {
            Answers::Each(each) => &each[at],
            Answers::All(value) => value,
        }
    }
}

fn is_take(command: &Command) -> bool {
    matches!(command, Command::Take { .. })
}

/// Only a replica gives this answer.
fn is_read_only(value: &Value<'_>) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(b"READONLY"))
}

fn disconnected(reason: &str) -> Fault {
    Fault::Disconnected(reason.into())
}
