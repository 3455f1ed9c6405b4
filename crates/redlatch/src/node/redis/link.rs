//! One connection to a server, made when it is needed.
//!
//! Promise: commands go out in order and each is answered once. A connection is
//! kept after a time-out, so that an undo stays behind its take; a command that
//! was under way when a connection broke is *not* sent again: it failed, with
//! an unknown outcome. After a failed connect, commands fail at once for a
//! while that grows to a second. A vote under the restart guard is cast by the
//! server that was greeted: one that was a replica in between is found out.
//! When a server turns us away because it is another node or serves others, the
//! link dials again, at most once a second and with nothing under way: by then
//! the address may lead to the right server.

use super::{
    Address,
    connect::{Connection, connect},
    observe,
    resp::{LARGEST, Nonsense, Progress, Value, write_command},
    translate::{self, MarkerText, Naming},
};
use crate::node::{Link, heeding::is_vote};
use redlatch_core::{Agreement, Command, Fault, Reply, Tag, Vote};
use std::{
    collections::VecDeque,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// The most takes that are unanswered, or wait for a connection: a server that
/// is frozen does not eat our memory. It is asked for no more then, so there is
/// nothing more to undo there either. Far more than the core has under way on
/// nodes that answer.
const MOST_TAKES: usize = 16_384;
/// The most commands of any kind. A release is never refused: it frees what is
/// there, and there are no more of them than takes that were accepted.
const MOST_UNDER_WAY: usize = 65_536;
const FIRST_REST: Duration = Duration::from_millis(20);
const LONGEST_REST: Duration = Duration::from_secs(1);
/// A connection on which nothing was answered for so long is given up, even if
/// the other side acknowledges every byte: what acknowledges may be something in
/// between. A server that was only frozen finds all that was sent, in order.
const LONGEST_SILENCE: Duration = Duration::from_secs(30);
/// Before a vote, who the server is is asked again if that was so long ago: it
/// may have been a replica in between, and its marker is the old one if it
/// followed its own copy. While it is one, it refuses votes.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long a connection to a server that turns us away is kept.
const REDIAL: Duration = Duration::from_secs(1);
/// How much is read at once.
const READ: usize = 16 * 1024;
/// How often it is read in one turn: a server that sends without end does not
/// keep the engine from the others.
const MOST_READS: usize = 16;

pub(super) struct RedisLink {
    address: Arc<Address>,
    state: State,
    /// Handed over, not yet written into a connection.
    waiting: VecDeque<(Tag, Command)>,
    /// Answered without the server.
    refused: Vec<(Tag, Reply)>,
    rest: Duration,
}

enum State {
    Idle,
    Connecting(Pin<Box<dyn Future<Output = Result<Connection, Fault>> + Send>>),
    Ready(Box<Ready>),
    /// The last connect failed: so does every command until then.
    Resting {
        until: Instant,
        fault: Fault,
    },
}

struct Ready {
    address: Arc<Address>,
    connection: Connection,
    connected_at: Instant,
    /// Its last word was that it is not this node, or not for us.
    turns_us_away: bool,
    /// Whether it has voted on this connection.
    voted: bool,
    marker: MarkerText,
    under_way: VecDeque<Sent>,
    /// How many takes are among them.
    takes: usize,
    /// When there was last an answer, or nothing to answer.
    quiet_since: Instant,
    /// When the server was greeted, or a look was last sent.
    looked_at: Instant,
    out: Vec<u8>,
    written: usize,
    /// What was read and not yet understood is `read[start..end]`.
    read: Vec<u8>,
    start: usize,
    end: usize,
    /// How far the reply at `start` has been read.
    progress: Progress,
}

/// What was sent and is to be answered.
enum Sent {
    Command(Tag, Command, Named),
    /// A look at who the server is.
    Look,
}

impl RedisLink {
    pub(super) fn new(address: Arc<Address>) -> Self {
        RedisLink {
            address,
            state: State::Idle,
            waiting: VecDeque::new(),
            refused: Vec::new(),
            rest: FIRST_REST,
        }
    }

    /// Why there is no room for one command more, if there is none.
    fn no_room_for(&self, command: &Command) -> Option<String> {
        let waiting = self.waiting.len();
        let (takes, all) = match &self.state {
            State::Ready(ready) => (ready.takes + waiting, ready.under_way.len() + waiting),
            _ => (waiting, waiting),
        };
        match command {
            Command::Release { .. } => None,
            Command::Take { .. } if takes >= MOST_TAKES => {
                Some(format!("{takes} requests for locks are unanswered"))
            }
            _ if all >= MOST_UNDER_WAY => Some(format!("{all} commands are unanswered")),
            _ => None,
        }
    }

    fn refuse(&mut self, tag: Tag, fault: Fault) {
        self.refused.push((tag, Reply::failed(fault)));
    }

    /// Moves what a connection has to move, and answers for one that has ended.
    fn poll_ready(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        if let State::Ready(ready) = &mut self.state
            && let Poll::Ready(fault) = ready.poll(cx, replies)
        {
            for sent in ready.under_way.drain(..) {
                if let Sent::Command(tag, ..) = sent {
                    replies.push((tag, Reply::failed(fault.clone())));
                }
            }
            self.state = State::Idle;
        }
    }

    /// Dials if a command waits, but not while the old connection owes answers.
    fn dial_if_needed(&mut self) {
        let is_free = match &self.state {
            State::Idle | State::Resting { .. } => true,
            State::Ready(ready) => ready.under_way.is_empty(),
            State::Connecting(_) => false,
        };
        if is_free && !self.waiting.is_empty() {
            self.state = State::Connecting(Box::pin(connect(self.address.clone())));
        }
    }

    /// The connect came to an end: write what waits, or fail it.
    fn connected(&mut self, result: Result<Connection, Fault>) {
        match result {
            Ok(connection) => {
                self.rest = FIRST_REST;
                let mut ready = Box::new(Ready::new(self.address.clone(), connection));
                for (tag, command) in self.waiting.drain(..) {
                    ready.send(tag, command);
                }
                self.state = State::Ready(ready);
            }
            Err(fault) => {
                for (tag, _) in self.waiting.drain(..) {
                    self.refused.push((tag, Reply::failed(fault.clone())));
                }
                let until = Instant::now() + self.rest;
                self.rest = (self.rest * 2).min(LONGEST_REST);
                self.state = State::Resting { until, fault };
            }
        }
    }
}

impl Link for RedisLink {
    fn send(&mut self, tag: Tag, command: Command) {
        if let Some(reason) = self.no_room_for(&command) {
            return self.refuse(tag, Fault::Unreachable(reason.into()));
        }
        match &mut self.state {
            State::Ready(ready) if self.waiting.is_empty() && !ready.is_to_be_left() => {
                ready.send(tag, command);
            }
            State::Resting { until, fault } if Instant::now() < *until => {
                let fault = fault.clone();
                self.refuse(tag, fault);
            }
            _ => self.waiting.push_back((tag, command)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        self.poll_ready(cx, replies);
        self.dial_if_needed();
        if let State::Connecting(connecting) = &mut self.state
            && let Poll::Ready(result) = connecting.as_mut().poll(cx)
        {
            self.connected(result);
            self.poll_ready(cx, replies);
        }
        replies.append(&mut self.refused);
    }
}

impl Ready {
    fn new(address: Arc<Address>, connection: Connection) -> Self {
        let now = Instant::now();
        Ready {
            address,
            connection,
            connected_at: now,
            turns_us_away: false,
            voted: false,
            marker: MarkerText::default(),
            under_way: VecDeque::new(),
            takes: 0,
            quiet_since: now,
            looked_at: now,
            out: Vec::with_capacity(READ),
            written: 0,
            read: vec![0; READ],
            start: 0,
            end: 0,
            progress: Progress::default(),
        }
    }

    fn send(&mut self, tag: Tag, command: Command) {
        let is_guarded = command.guard().is_some();
        if is_guarded || self.under_way.is_empty() {
            let now = Instant::now();
            if self.under_way.is_empty() {
                self.quiet_since = now;
            }
            if is_guarded && now - self.looked_at > LOOK_AGAIN {
                self.looked_at = now;
                write_command(&mut self.out, &[b"INFO", b"replication"]);
                self.under_way.push_back(Sent::Look);
            }
        }
        self.takes += usize::from(is_take(&command));
        self.write_as(tag, command, Named::ByHash);
    }

    /// Ready when the connection has ended, with the reason.
    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) -> Poll<Fault> {
        let mut reads = 0;
        loop {
            if let Poll::Ready(Err(error)) = self.poll_write(cx) {
                return Poll::Ready(disconnected(&error.to_string()));
            }
            if reads == MOST_READS {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            reads += 1;
            let Poll::Ready(read) = self.poll_read(cx) else { break };
            match read {
                Ok(0) => return Poll::Ready(disconnected("closed by the server")),
                Ok(_) => {}
                Err(error) => return Poll::Ready(disconnected(&error.to_string())),
            }
            if let Err(fault) = self.understand(replies) {
                return Poll::Ready(fault);
            }
            self.quiet_since = Instant::now();
        }
        if !self.under_way.is_empty() && self.quiet_since.elapsed() > LONGEST_SILENCE {
            let reason = format!("no answer to anything for {LONGEST_SILENCE:?}");
            return Poll::Ready(disconnected(&reason));
        }
        Poll::Pending
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut stream = Pin::new(&mut self.connection.stream);
        while self.written < self.out.len() {
            match ready!(stream.as_mut().poll_write(cx, &self.out[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        self.out.clear();
        self.written = 0;
        stream.poll_flush(cx)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.end == self.read.len() {
            if self.start > 0 {
                self.read.copy_within(self.start.., 0);
                self.end -= self.start;
                self.start = 0;
            }
            let enough = self.read.len().max(self.end + READ);
            self.read.resize(enough, 0);
        }
        let mut buffer = ReadBuf::new(&mut self.read[self.end..]);
        ready!(Pin::new(&mut self.connection.stream).poll_read(cx, &mut buffer))?;
        let got = buffer.filled().len();
        self.end += got;
        Poll::Ready(Ok(got))
    }

    /// Turns what was read into replies.
    fn understand(&mut self, replies: &mut Vec<(Tag, Reply)>) -> Result<(), Fault> {
        let nonsense = |nonsense: Nonsense| Fault::Nonsense(nonsense.to_string().into());
        while let Some((value, length)) =
            self.progress.read(&self.read[self.start..self.end]).map_err(nonsense)?
        {
            let Some(sent) = self.under_way.pop_front() else {
                return Err(Fault::Nonsense("an answer to nothing".into()));
            };
            self.start += length;
            let Sent::Command(tag, command, named) = sent else {
                if !observe::is_still(&self.connection.identity.run, &value) {
                    return Err(role_changed());
                }
                continue;
            };
            let unknown = is_no_script(&value);
            if unknown && named == Named::ByHash && !self.released_since(&command) {
                // The server forgot the script (SCRIPT FLUSH), so it did nothing.
                self.write_as(tag, command, Named::InFull);
                continue;
            }
            self.takes -= usize::from(is_take(&command));
            if unknown && named == Named::InFull {
                replies.push((tag, Reply::failed(no_script())));
                continue;
            }
            let reply = translate::read(&command, &value, &self.connection.identity);
            let another = is_read_only(&value) || self.is_another(&reply);
            self.heed(&command, &reply);
            replies.push((tag, reply));
            if another {
                // Who it is must be asked again.
                return Err(role_changed());
            }
        }
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let rest = self.end - self.start;
        if rest > LARGEST { Err(nonsense(Nonsense::TooLarge)) } else { Ok(()) }
    }

    fn write_as(&mut self, tag: Tag, command: Command, named: Named) {
        let Connection { identity, hashes, .. } = &self.connection;
        let marker = self.marker.of(command.guard(), &identity.run);
        let naming = match named {
            Named::ByHash => Naming::Hash(hashes),
            Named::InFull => Naming::Source,
        };
        translate::write(&mut self.out, &command, marker, naming);
        self.under_way.push_back(Sent::Command(tag, command, named));
    }

    /// Whether the next command should go out on a new connection.
    fn is_to_be_left(&self) -> bool {
        self.turns_us_away && self.connected_at.elapsed() >= REDIAL
    }

    /// Notes whether the server votes as this node or turns us away.
    fn heed(&mut self, command: &Command, reply: &Reply) {
        let turns_us_away = match reply {
            Reply::Vote(Vote::Quarantined(quarantine)) => quarantine.cause.is_conflict(),
            // An unguarded vote does not count once the server has named another node.
            Reply::Vote(Vote::Granted | Vote::Numbered(_))
                if is_vote(command) && (command.guard().is_some() || !self.turns_us_away) =>
            {
                if !self.voted {
                    self.voted = true;
                    self.address.runs.voted(&self.connection.identity.run);
                }
                false
            }
            Reply::Facts(facts) if self.is_another_node(facts.agreement.as_deref()) => true,
            Reply::Ledger(ledger) => self.is_another_node(ledger.agreement.as_deref()),
            _ => return,
        };
        if turns_us_away && !self.turns_us_away {
            self.address.runs.refused(&self.connection.identity.run);
        }
        self.turns_us_away = turns_us_away;
    }

    /// Whether a server with this agreement is another node of our list.
    fn is_another_node(&self, agreement: Option<&str>) -> bool {
        let agreement = agreement.and_then(Agreement::parse);
        agreement.is_some_and(|agreement| agreement.is_of_another(&self.address.to_string()))
    }

    /// Whether the server tells that it is no longer the one that was connected
    /// to: it was a replica in between.
    fn is_another(&self, reply: &Reply) -> bool {
        matches!(reply, Reply::Facts(facts) if facts.identity.run != self.connection.identity.run)
    }

    /// Whether the undo of what sets these keys is under way already: sent once
    /// more, it would come behind it.
    fn released_since(&self, command: &Command) -> bool {
        let (Command::Take { token, .. } | Command::Plant { token, .. }) = command else {
            return false;
        };
        let releases = |later: &Sent| matches!(later, Sent::Command(_, Command::Release { token: released, .. }, _) if released == token);
        self.under_way.iter().any(releases)
    }
}

fn is_take(command: &Command) -> bool {
    matches!(command, Command::Take { .. })
}

/// How a script is named in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    ByHash,
    InFull,
}

/// Only a replica says so.
fn is_read_only(value: &Value<'_>) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(b"READONLY"))
}

fn is_no_script(value: &Value<'_>) -> bool {
    matches!(value, Value::Error(text) if text.starts_with(b"NOSCRIPT"))
}

/// No script was asked for by its hash: what answers so runs none.
fn no_script() -> Fault {
    Fault::Nonsense("NOSCRIPT in answer to a script that was sent in full".into())
}

fn role_changed() -> Fault {
    disconnected("the server changed its role")
}

fn disconnected(reason: &str) -> Fault {
    Fault::Disconnected(reason.into())
}
