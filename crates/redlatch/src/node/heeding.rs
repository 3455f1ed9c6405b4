//! The link of a client without a restart guard, which respects guarded clients.
//!
//! In:  commands, this client's list of nodes, and which of them this is.
//! Out: replies. A vote counts only if the server is not another node of the list, and
//! the guarded clients use the same list and the same name for it.
//!
//! Promise: no vote is sent before the node has reported its identity and its clients'
//! list, and none counts on an answer older than [`LOOK_AGAIN`]: the question is then sent
//! ahead of the vote, in the same write. Without an answer, there is no vote. The core
//! decides which answer forbids the vote ([`Ledger::other_nodes`]).

use super::{Link, servers::Servers};
use redlatch_core::{Agreement, Command, Fault, Ledger, Quarantine, Reply, Tag, Vote};
use std::{collections::VecDeque, sync::Arc, task::Context, time::Duration};
use tokio::time::Instant;

/// The maximum age of an answer; the same as for the identity of a Redis server.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The maximum number of commands that wait for the first answer.
const MOST_HELD: usize = 1024;
/// The tag of our questions.
const QUESTION: Tag = Tag::of_driver(0);

pub(crate) struct Heeding {
    link: Box<dyn Link>,
    counted: Agreement,
    heard: Heard,
    servers: Arc<Servers>,
    /// Which node this is.
    node: usize,
    identity: Known,
    /// When the first vote since the last poll was sent. Later votes go out with it.
    now: Option<Instant>,
    asked_at: Option<Instant>,
    /// Our questions that have not been answered, in order.
    asking: VecDeque<Question>,
    /// Waiting for the first answer: a vote and everything sent after it.
    held: VecDeque<(Tag, Command)>,
    /// The votes in progress, in order. They may overtake other commands, which are kept apart.
    votes: VecDeque<Tag>,
    others: VecDeque<Tag>,
    /// Replies made without asking the node.
    ready: Vec<(Tag, Reply)>,
}

/// What we know of the server's identity.
enum Known {
    Nothing,
    /// It is not another node of the list.
    Itself,
    /// It is another node of the list, or did not say.
    Refused(Fault),
}

/// A question we send ahead of a vote.
#[derive(Clone, Copy)]
enum Question {
    WhoItIs,
    WhatItServes,
}

/// What the node last said about its guarded clients.
enum Heard {
    /// Nothing yet, or nothing since the connection broke.
    Nothing,
    /// They have the same list of nodes, or there are none.
    Same,
    /// They have, or may have, another list.
    Otherwise(Quarantine),
    /// It did not say.
    Refused(Fault),
}

impl Heeding {
    pub(crate) fn new(
        link: Box<dyn Link>,
        counted: Agreement,
        servers: Arc<Servers>,
        node: usize,
    ) -> Self {
        Heeding {
            link,
            counted,
            heard: Heard::Nothing,
            servers,
            node,
            identity: Known::Nothing,
            now: None,
            asked_at: None,
            asking: VecDeque::new(),
            held: VecDeque::new(),
            votes: VecDeque::new(),
            others: VecDeque::new(),
            ready: Vec::new(),
        }
    }

    fn send_vote(&mut self, tag: Tag, command: Command) {
        self.ask_if_due();
        match &self.heard {
            Heard::Same => self.pass_on(tag, command),
            Heard::Otherwise(quarantine) => {
                let vote = Vote::Quarantined(quarantine.clone());
                self.ready.push((tag, Reply::Vote(vote)));
            }
            Heard::Nothing | Heard::Refused(_) if self.held.len() < MOST_HELD => {
                self.held.push_back((tag, command));
            }
            Heard::Nothing | Heard::Refused(_) => {
                let reason = format!("{MOST_HELD} commands wait for its first answer");
                self.ready.push((tag, Reply::failed(Fault::Unreachable(reason.into()))));
            }
        }
    }

    /// Asks unless there is a recent answer, or votes already wait for one.
    fn ask_if_due(&mut self) {
        let now = *self.now.get_or_insert_with(Instant::now);
        let is_due = match self.heard {
            Heard::Nothing | Heard::Refused(_) => self.asking.is_empty(),
            Heard::Same | Heard::Otherwise(_) => {
                self.asked_at.is_none_or(|asked| now - asked > LOOK_AGAIN)
            }
        };
        if is_due {
            if !matches!(self.identity, Known::Itself) {
                self.asking.push_back(Question::WhoItIs);
                self.link.send(QUESTION, Command::Identify);
            }
            self.asked_at = Some(now);
            self.asking.push_back(Question::WhatItServes);
            self.link.send(QUESTION, Command::Ledger);
        }
    }

    /// Handles the answer to one of our questions.
    fn answered(&mut self, reply: Reply) {
        if let Some(Question::WhoItIs) = self.asking.pop_front() {
            self.identity = self.introduced(&reply);
            return; // what it serves comes next
        }
        self.heard = match (&self.identity, reply) {
            // An error that names the clients it serves says more than that it is
            // another node.
            (Known::Refused(fault), Reply::Ledger(ledger)) => match self.judge(&ledger) {
                Heard::Otherwise(quarantine) => Heard::Otherwise(quarantine),
                _ => Heard::Refused(fault.clone()),
            },
            (_, Reply::Ledger(ledger)) => self.judge(&ledger),
            (_, Reply::Vote(Vote::Failed(fault))) => {
                self.identity = Known::Nothing;
                Heard::Refused(fault)
            }
            _ => Heard::Refused(Fault::Nonsense("not an answer to who its clients are".into())),
        };
        for (tag, command) in std::mem::take(&mut self.held) {
            match &self.heard {
                _ if !is_vote(&command) => self.pass_on(tag, command),
                Heard::Refused(fault) => self.ready.push((tag, Reply::failed(fault.clone()))),
                _ => self.send_vote(tag, command),
            }
        }
    }

    fn introduced(&self, reply: &Reply) -> Known {
        let claimed = match reply {
            Reply::Identity(identity) => self.servers.claim(self.node, &identity.run),
            Reply::Vote(Vote::Failed(fault)) => Err(fault.clone()),
            _ => Err(Fault::Nonsense("not an answer to who it is".into())),
        };
        claimed.map_or_else(Known::Refused, |()| Known::Itself)
    }

    fn judge(&self, ledger: &Ledger) -> Heard {
        match ledger.other_nodes(&self.counted) {
            None => Heard::Same,
            Some(cause) => Heard::Otherwise(Quarantine::new(cause)),
        }
    }

    fn pass_on(&mut self, tag: Tag, command: Command) {
        let sent = if is_vote(&command) { &mut self.votes } else { &mut self.others };
        sent.push_back(tag);
        self.link.send(tag, command);
    }

    /// Handles the reply to a caller's command.
    fn answered_to(&mut self, tag: Tag, reply: &mut Reply) {
        if self.is_to_vote(tag)
            && let Some(instead) = self.instead_of(reply)
        {
            *reply = instead;
        }
        match &*reply {
            Reply::Ledger(ledger) => self.heard = self.judge(ledger),
            Reply::Identity(_) => self.identity = self.introduced(reply),
            // The server on the next connection has not been asked yet.
            Reply::Vote(Vote::Failed(Fault::Unreachable(_) | Fault::Disconnected(_))) => {
                self.heard = Heard::Nothing;
                self.identity = Known::Nothing;
            }
            _ => {}
        }
    }

    /// Returns whether this was the tag of a vote, and forgets the command.
    fn is_to_vote(&mut self, tag: Tag) -> bool {
        // It is usually the oldest of its kind, unless a command was refused without asking the
        // node.
        if self.others.front() == Some(&tag) {
            self.others.pop_front();
            return false;
        }
        if let Some(at) = self.votes.iter().position(|sent| *sent == tag) {
            self.votes.remove(at);
            return true;
        }
        self.others.iter().position(|sent| *sent == tag).map(|at| self.others.remove(at));
        false
    }

    /// Returns what replaces a vote that does not count, according to the question sent
    /// ahead of it.
    fn instead_of(&self, reply: &Reply) -> Option<Reply> {
        if matches!(reply, Reply::Vote(Vote::Failed(_))) {
            return None;
        }
        match &self.heard {
            Heard::Same | Heard::Nothing => None,
            Heard::Otherwise(quarantine) => {
                Some(Reply::Vote(Vote::Quarantined(quarantine.clone())))
            }
            // The vote was sent, so its fault must not say otherwise.
            Heard::Refused(fault) => Some(Reply::failed(Fault::Refused(fault.to_string().into()))),
        }
    }
}

impl Link for Heeding {
    fn send(&mut self, tag: Tag, command: Command) {
        if command == Command::Ledger {
            self.asked_at = Some(Instant::now());
        }
        if is_vote(&command) && self.held.is_empty() {
            self.send_vote(tag, command);
        } else if self.held.is_empty() {
            self.pass_on(tag, command);
        } else {
            self.held.push_back((tag, command));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        loop {
            replies.append(&mut self.ready);
            let (mut at, mut again) = (replies.len(), false);
            self.link.poll(cx, replies);
            while let Some((tag, reply)) = replies.get_mut(at) {
                if *tag == QUESTION {
                    let (_, reply) = replies.remove(at);
                    self.answered(reply);
                    again = true;
                } else {
                    self.answered_to(*tag, reply);
                    at += 1;
                }
            }
            // Held commands are sent now, and need polling, too.
            if !again {
                break;
            }
        }
        self.now = None;
    }
}

/// Whether granting this command counts towards a majority.
pub(super) fn is_vote(command: &Command) -> bool {
    matches!(
        command,
        Command::Take { .. }
            | Command::Raise { .. }
            | Command::Plant { .. }
            | Command::Extend { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::conformance::{self, resources, tag};
    use redlatch_core::Token;
    use std::{
        sync::{Arc, Mutex, PoisonError},
        task::Waker,
    };

    /// A link whose replies the test supplies.
    #[derive(Clone, Default)]
    struct Wire(Arc<Mutex<Both>>);

    /// What was sent, and the replies to give.
    type Both = (Vec<(Tag, Command)>, Vec<(Tag, Reply)>);

    impl Wire {
        /// Takes what was sent since the last call.
        fn sent(&self) -> Vec<(Tag, Command)> {
            std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).0)
        }

        fn answer(&self, tag: Tag, reply: Reply) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).1.push((tag, reply));
        }
    }

    impl Link for Wire {
        fn send(&mut self, tag: Tag, command: Command) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).0.push((tag, command));
        }

        fn poll(&mut self, _: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
            replies.append(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1);
        }
    }

    fn heeding() -> (Heeding, Wire) {
        let wire = Wire::default();
        let counted = Agreement::new(["a".into()], Duration::ZERO, Duration::ZERO);
        (
            known(Heeding::new(
                Box::new(wire.clone()),
                counted,
                Arc::new(Servers::of(["a".into()])),
                0,
            )),
            wire,
        )
    }

    /// A link whose server's identity is known.
    fn known(mut link: Heeding) -> Heeding {
        link.identity = Known::Itself;
        link
    }

    fn identity(run: &str) -> Reply {
        Reply::Identity(redlatch_core::Identity { run: run.into(), version: "".into() })
    }

    fn take() -> Command {
        conformance::take("x", b"t", Duration::from_secs(1))
    }

    /// Plants a lease again.
    fn plant() -> Command {
        let (resources, token) = (resources(["x"]), Token::from_bytes(b"t"));
        Command::Plant {
            resources,
            token,
            ttl: Duration::from_secs(1),
            fingerprint: None,
            ticket: None,
        }
    }

    fn release() -> Command {
        Command::Release { resources: resources(["x"]), token: Token::from_bytes(b"t"), then: None }
    }

    fn replies(link: &mut Heeding) -> Vec<(Tag, Reply)> {
        let mut replies = Vec::new();
        link.poll(&mut Context::from_waker(Waker::noop()), &mut replies);
        replies
    }

    fn nothing_kept() -> Reply {
        Reply::Ledger(Box::default())
    }

    fn of_others() -> Reply {
        let watched = Some("run 01 7".into());
        Reply::Ledger(Box::new(Ledger { watched, ..Ledger::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_behind_a_vote_overtakes_it_while_it_waits_for_the_first_answer() {
        let (mut link, wire) = heeding();
        link.send(tag(1), take());
        link.send(tag(2), release());
        assert_eq!(wire.sent(), [(QUESTION, Command::Ledger)]);
        assert_eq!(replies(&mut link), []);

        wire.answer(QUESTION, nothing_kept());

        assert_eq!(replies(&mut link), []);
        assert_eq!(wire.sent(), [(tag(1), take()), (tag(2), release())]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_vote_is_never_sent_where_the_first_answer_forbids_it_or_does_not_come() {
        let mute = || Reply::failed(Fault::Unreachable("mute".into()));
        let out = Reply::Vote(Vote::Quarantined(Quarantine::new(redlatch_core::Cause::Watched)));
        for (answer, expected) in [(of_others(), out), (mute(), mute())] {
            for vote in [take(), plant()] {
                let (mut link, wire) = heeding();
                link.send(tag(1), vote);
                wire.sent();

                wire.answer(QUESTION, answer.clone());

                assert_eq!(replies(&mut link), [(tag(1), expected.clone())]);
                assert_eq!(wire.sent(), []);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_vote_counts_by_the_question_that_went_ahead_of_it() {
        let (mut link, wire) = heeding();
        link.send(tag(1), Command::Ledger);
        wire.answer(tag(1), nothing_kept());
        replies(&mut link);
        link.send(tag(2), take());
        assert_eq!(wire.sent().len(), 2, "a recent answer will do");
        assert_eq!(replies(&mut link), []);
        tokio::time::advance(2 * LOOK_AGAIN).await;

        link.send(tag(3), take());
        let sent: Vec<_> = wire.sent().into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(sent, [QUESTION, tag(3)]);
        wire.answer(tag(2), Reply::Vote(Vote::Granted));
        wire.answer(QUESTION, of_others());
        wire.answer(tag(3), Reply::Vote(Vote::Granted));

        let got = replies(&mut link);
        assert_eq!(got[0], (tag(2), Reply::Vote(Vote::Granted)));
        assert!(matches!(got[1].1, Reply::Vote(Vote::Quarantined(_))), "{got:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_vote_that_was_sent_ahead_of_a_refused_answer_may_have_been_cast() {
        let (mut link, wire) = heeding();
        link.send(tag(1), Command::Ledger);
        wire.answer(tag(1), nothing_kept());
        replies(&mut link);
        tokio::time::advance(2 * LOOK_AGAIN).await;
        link.send(tag(2), take());

        wire.answer(QUESTION, Reply::failed(Fault::Unfit("it does not know this".into())));
        wire.answer(tag(2), Reply::Vote(Vote::Granted));

        let got = replies(&mut link);
        let [(_, Reply::Vote(Vote::Failed(fault)))] = got.as_slice() else { panic!("{got:?}") };
        assert!(!fault.never_sent(), "it must be undone: {fault}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_connection_broke_the_node_is_asked_again_before_it_votes() {
        let (mut link, wire) = heeding();
        link.send(tag(1), Command::Ledger);
        wire.answer(tag(1), nothing_kept());
        wire.answer(tag(2), Reply::failed(Fault::Disconnected("broken".into())));
        replies(&mut link);
        wire.sent();

        link.send(tag(3), take());

        let asked = [(QUESTION, Command::Identify), (QUESTION, Command::Ledger)];
        assert_eq!(wire.sent(), asked);
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_of_two_nodes_that_are_one_server_is_sent_a_vote() {
        let servers = Arc::new(Servers::of(["a".into(), "b".into()]));
        let counted = || Agreement::new(["a".into(), "b".into()], Duration::ZERO, Duration::ZERO);
        let [mut first, mut second] = [0, 1].map(|node| {
            let wire = Wire::default();
            (Heeding::new(Box::new(wire.clone()), counted(), servers.clone(), node), wire)
        });

        let mut voted = Vec::new();
        for (link, wire) in [&mut first, &mut second] {
            link.send(tag(1), take());
            wire.sent();
            wire.answer(QUESTION, identity("run-1"));
            wire.answer(QUESTION, nothing_kept());
            voted.push((replies(link), wire.sent()));
        }

        assert_eq!(voted[0], (vec![], vec![(tag(1), take())]));
        let (told, sent) = &voted[1];
        assert_eq!(*sent, []);
        let [(_, Reply::Vote(Vote::Failed(fault)))] = told.as_slice() else { panic!("{told:?}") };
        assert!(fault.to_string().contains("the same server as a"), "{fault}");
        assert!(fault.never_sent(), "there is nothing to undo: {fault}");
    }
}
