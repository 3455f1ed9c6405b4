//! One connection to a server, made on demand.
//!
//! Promise: commands go out in order and each is answered once. A connection is
//! kept after a timeout, so that an undo stays behind its take; a command in
//! progress when the connection breaks is *not* sent again: it fails, with an
//! unknown outcome. After a failed connect, commands fail immediately for a
//! backoff that grows to a second. A vote is cast by the server that was
//! greeted, as fit as it was then: if it was a replica in between, has evicted
//! keys, or may evict them now, that is detected.
//! When a server turns us away because it is another node or serves other
//! clients, the link reconnects, at most once a second and with nothing in
//! progress: by then the address may lead to the right server.

use super::{
    Address,
    connect::{Connection, connect},
    look::{Look, role_changed},
    resp::{LARGEST, Nonsense, Progress, Value},
    scripts::Naming,
    translate::{self, MarkerText},
    wakes::{Heard, Wakes},
};
use crate::node::{Link, heeding::is_vote};
use redlatch_core::{
    Agreement, Command, Fault, Reply, Tag, Vote,
    link::{LONGEST_SILENCE, Rest},
};
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

/// The most takes that are unanswered, or wait for a connection, so that a
/// frozen server does not exhaust our memory. Beyond that it gets no more
/// takes, so there is nothing more to undo there either. Far more than the core
/// has in progress on nodes that answer.
const MOST_TAKES: usize = 16_384;
/// The most commands of any kind. A release is never refused: it frees a lock,
/// and there are no more of them than takes that were accepted.
const MOST_UNDER_WAY: usize = 65_536;
/// A vote re-checks the server's identity and fitness if the last check is older
/// than this. The server may have been a replica in between (its marker is the old
/// one if it followed its own copy), or an operator may have let it evict keys
/// (locks go first, since they expire; the marker stays).
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How long to keep a connection to a server that turns us away.
const REDIAL: Duration = Duration::from_secs(1);
/// How much to read at once.
const READ: usize = 16 * 1024;
/// How often to read in one turn, so that a server that sends endlessly does
/// not keep the engine from the other nodes.
const MOST_READS: usize = 16;

pub(super) struct RedisLink {
    address: Arc<Address>,
    state: State,
    /// Queued, not yet written to a connection.
    waiting: VecDeque<(Tag, Command)>,
    /// Answered without asking the server.
    refused: Vec<(Tag, Reply)>,
    rest: Rest,
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
    /// By its last reply it is not this node, or not for us.
    turns_us_away: bool,
    /// Whether it has voted on this connection.
    voted: bool,
    marker: MarkerText,
    under_way: VecDeque<Sent>,
    /// How many takes are among them.
    takes: usize,
    /// When an answer last came, or there was none to wait for.
    quiet_since: Instant,
    /// When the server was greeted, or last re-checked.
    looked_at: Instant,
    look: Look,
    wakes: Wakes,
    out: Vec<u8>,
    written: usize,
    /// Read but not yet parsed: `read[start..end]`.
    read: Vec<u8>,
    start: usize,
    end: usize,
    /// How far the reply at `start` has been parsed.
    progress: Progress,
}

/// What was sent and awaits an answer.
enum Sent {
    Command(Tag, Command, Named),
    /// One question of a re-check.
    Look,
    /// A subscription: answered by a push, or by an error if it is denied.
    Subscription,
}

impl RedisLink {
    pub(super) fn new(address: Arc<Address>) -> Self {
        RedisLink {
            address,
            state: State::Idle,
            waiting: VecDeque::new(),
            refused: Vec::new(),
            rest: Rest::default(),
        }
    }

    /// Why there is no room for another command, if there is none.
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

    /// Polls the connection, and answers for one that has ended.
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

    /// Connects if a command waits, but not while the old connection owes answers.
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

    /// The connect has finished: write what waits, or fail it.
    fn connected(&mut self, result: Result<Connection, Fault>) {
        match result {
            Ok(connection) => {
                self.rest = Rest::default();
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
                let until = Instant::now() + self.rest.begin();
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
        let (now, wakes) = (Instant::now(), Wakes::new(connection.is_resp3));
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
            look: Look::default(),
            wakes,
            out: Vec::with_capacity(READ),
            written: 0,
            read: vec![0; READ],
            start: 0,
            end: 0,
            progress: Progress::default(),
        }
    }

    fn send(&mut self, tag: Tag, command: Command) {
        let is_vote = is_vote(&command);
        if is_vote || self.under_way.is_empty() {
            let now = Instant::now();
            if self.under_way.is_empty() {
                self.quiet_since = now;
            }
            if is_vote && now - self.looked_at > LOOK_AGAIN {
                self.looked_at = now;
                Look::write(&mut self.out);
                self.under_way.extend((0..Look::PARTS).map(|_| Sent::Look));
            }
        }
        if self.wakes.subscribe(&command, &mut self.out) {
            self.under_way.push_back(Sent::Subscription);
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

    /// Parses what was read into replies.
    fn understand(&mut self, replies: &mut Vec<(Tag, Reply)>) -> Result<(), Fault> {
        let nonsense = |nonsense: Nonsense| Fault::Nonsense(nonsense.to_string().into());
        while let Some((value, length)) =
            self.progress.read(&self.read[self.start..self.end]).map_err(nonsense)?
        {
            self.start += length;
            if let Value::Push(parts) = &value {
                match Heard::of(parts) {
                    Heard::Wake(wake) => replies.push((Tag::WAKE, Reply::Woken(wake))),
                    Heard::Subscribed if self.awaits_subscription() => {
                        self.under_way.pop_front();
                    }
                    Heard::Subscribed | Heard::Noise => {}
                }
                continue;
            }
            let identity = &self.connection.identity;
            let (tag, command, named) = match self.under_way.pop_front() {
                Some(Sent::Command(tag, command, named)) => (tag, command, named),
                Some(Sent::Look) => {
                    self.look.hear(&value, &self.address, &identity.run)?;
                    continue;
                }
                // Denied: nobody wakes us.
                Some(Sent::Subscription) => continue,
                None => return Err(Fault::Nonsense("an answer to nothing".into())),
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
            let reply = translate::read(&command, &value, identity, self.address.allow_eviction);
            let another = is_read_only(&value) || self.is_another(&reply);
            self.heed(&command, &reply);
            replies.push((tag, reply));
            if another {
                // Re-check the server's identity.
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
        let marker = self.marker.of(command.fingerprint(), &identity.run);
        let naming = match named {
            Named::ByHash => Naming::Hash(hashes),
            Named::InFull => Naming::Source,
        };
        let may_evict = self.address.allow_eviction;
        translate::write(&mut self.out, &command, marker, naming, may_evict);
        self.under_way.push_back(Sent::Command(tag, command, named));
    }

    /// Whether the next thing to be answered is a subscription.
    fn awaits_subscription(&self) -> bool {
        matches!(self.under_way.front(), Some(Sent::Subscription))
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
                if is_vote(command) && (command.fingerprint().is_some() || !self.turns_us_away) =>
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
        agreement.is_some_and(|agreement| agreement.is_of_another(&self.address.name()))
    }

    /// Whether the server is no longer the one we connected to: it was a
    /// replica in between.
    fn is_another(&self, reply: &Reply) -> bool {
        matches!(reply, Reply::Facts(facts) if facts.identity.run != self.connection.identity.run)
    }

    /// Whether the undo of this take or plant is already in progress: sent again, the
    /// command would come after it.
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

/// The script was sent in full: a server that answers like this runs no scripts.
fn no_script() -> Fault {
    Fault::Nonsense("NOSCRIPT in answer to a script that was sent in full".into())
}

fn disconnected(reason: &str) -> Fault {
    Fault::Disconnected(reason.into())
}
