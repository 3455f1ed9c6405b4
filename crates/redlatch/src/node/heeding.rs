//! A link for a client without the restart guard: it heeds those that have one.
//!
//! In:  commands, the nodes that this client counts, and which of them this is.
//! Out: replies; a vote only from a node whose clients with a guard count the
//! same nodes, and know it by the same name.
//!
//! Promise: no vote is sent before the node has told what its other clients
//! count, and none counts on an answer older than [`LOOK_AGAIN`]: the question
//! then goes ahead of the vote, in the same write. No answer is no vote.
//! Which answer forbids the vote is the core's to say ([`Ledger::other_nodes`]).

use super::Link;
use redlatch_core::{Agreement, Command, Fault, Ledger, Quarantine, Reply, Tag, Vote};
use std::{collections::VecDeque, task::Context, time::Duration};
use tokio::time::Instant;

/// How old an answer may be; the same as for the identity of a Redis server.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The most votes that wait for the first answer.
const MOST_HELD: usize = 1024;

pub(crate) struct Heeding {
    link: Box<dyn Link>,
    counted: Agreement,
    heard: Heard,
    asked_at: Option<Instant>,
    /// Questions of our own that are not answered yet.
    asking: usize,
    /// Waits for the first answer: a vote, and all that was sent behind it.
    held: VecDeque<(Tag, Command)>,
    /// What is under way, in order, and whether it is a vote.
    under_way: VecDeque<(Tag, bool)>,
    /// Answered without the node.
    ready: Vec<(Tag, Reply)>,
    incoming: Vec<(Tag, Reply)>,
}

/// What the node last said of its clients with a guard.
enum Heard {
    /// Nothing yet, or not since the connection broke.
    Nothing,
    /// They count the nodes that we count, or there are none.
    Same,
    /// They do not, or they may not.
    Otherwise(Quarantine),
    /// It would not say.
    Refused(Fault),
}

impl Heeding {
    pub(crate) fn new(link: Box<dyn Link>, counted: Agreement) -> Self {
        Heeding {
            link,
            counted,
            heard: Heard::Nothing,
            asked_at: None,
            asking: 0,
            held: VecDeque::new(),
            under_way: VecDeque::new(),
            ready: Vec::new(),
            incoming: Vec::new(),
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

    /// Asks unless there is a recent answer, or one that nobody can vote without
    /// is on its way.
    fn ask_if_due(&mut self) {
        let now = Instant::now();
        let is_due = match self.heard {
            Heard::Nothing | Heard::Refused(_) => self.asking == 0,
            Heard::Same | Heard::Otherwise(_) => {
                self.asked_at.is_none_or(|asked| now - asked > LOOK_AGAIN)
            }
        };
        if is_due {
            self.asked_at = Some(now);
            self.asking += 1;
            self.link.send(Tag::DRIVER, Command::Ledger);
        }
    }

    /// Takes in the answer to a question of our own.
    fn answered(&mut self, reply: Reply) {
        self.asking = self.asking.saturating_sub(1);
        match reply {
            Reply::Ledger(ledger) => self.heard = self.judge(&ledger),
            Reply::Vote(Vote::Failed(fault)) => self.heard = Heard::Refused(fault),
            _ => {
                let fault = Fault::Nonsense("not an answer to who its clients are".into());
                self.heard = Heard::Refused(fault);
            }
        }
        for (tag, command) in std::mem::take(&mut self.held) {
            match &self.heard {
                _ if !is_vote(&command) => self.pass_on(tag, command),
                Heard::Refused(fault) => self.ready.push((tag, Reply::failed(fault.clone()))),
                _ => self.send_vote(tag, command),
            }
        }
    }

    fn judge(&self, ledger: &Ledger) -> Heard {
        match ledger.other_nodes(&self.counted) {
            None => Heard::Same,
            Some(cause) => Heard::Otherwise(Quarantine::new(cause)),
        }
    }

    fn pass_on(&mut self, tag: Tag, command: Command) {
        self.under_way.push_back((tag, is_vote(&command)));
        self.link.send(tag, command);
    }

    /// Takes in what the node said to a command of the caller's.
    fn answered_to(&mut self, tag: Tag, reply: Reply) {
        // The first, unless a command was refused without the node.
        let at = self.under_way.iter().position(|(sent, _)| *sent == tag);
        let reply = match at.and_then(|at| self.under_way.remove(at)) {
            Some((_, true)) => self.counted(reply),
            _ => reply,
        };
        match &reply {
            Reply::Ledger(ledger) => self.heard = self.judge(ledger),
            // Whoever answers on the next connection must be asked first.
            Reply::Vote(Vote::Failed(Fault::Unreachable(_) | Fault::Disconnected(_))) => {
                self.heard = Heard::Nothing;
            }
            _ => {}
        }
        self.ready.push((tag, reply));
    }

    /// A vote as far as it counts, by the question that was sent ahead of it.
    fn counted(&self, reply: Reply) -> Reply {
        if matches!(reply, Reply::Vote(Vote::Failed(_))) {
            return reply;
        }
        match &self.heard {
            Heard::Same | Heard::Nothing => reply,
            Heard::Otherwise(quarantine) => Reply::Vote(Vote::Quarantined(quarantine.clone())),
            // It was sent: its fault must not say otherwise.
            Heard::Refused(fault) => Reply::failed(Fault::Refused(fault.to_string().into())),
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
            let mut incoming = std::mem::take(&mut self.incoming);
            self.link.poll(cx, &mut incoming);
            // What was held goes out now, and must be moved, too.
            let again = incoming.iter().any(|(tag, _)| *tag == Tag::DRIVER);
            for (tag, reply) in incoming.drain(..) {
                match tag {
                    Tag::DRIVER => self.answered(reply),
                    _ => self.answered_to(tag, reply),
                }
            }
            self.incoming = incoming;
            replies.append(&mut self.ready);
            if !again {
                return;
            }
        }
    }
}

/// Whether a node that grants it counts towards a majority.
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
    use crate::node::conformance::{resources, tag};
    use redlatch_core::Token;
    use std::{
        sync::{Arc, Mutex, PoisonError},
        task::Waker,
    };

    /// A link that a test answers for.
    #[derive(Clone, Default)]
    struct Wire(Arc<Mutex<Both>>);

    /// What was sent, and what is to be answered.
    type Both = (Vec<(Tag, Command)>, Vec<(Tag, Reply)>);

    impl Wire {
        /// What was sent since the last time.
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
        (Heeding::new(Box::new(wire.clone()), counted), wire)
    }

    fn take() -> Command {
        let (resources, token) = (resources(["x"]), Token::from_bytes(b"t"));
        let ttl = Duration::from_secs(1);
        Command::Take { resources, token, ttl, fence: None, guard: None }
    }

    /// Puts a lease back.
    fn plant() -> Command {
        let (resources, token) = (resources(["x"]), Token::from_bytes(b"t"));
        Command::Plant { resources, token, ttl: Duration::from_secs(1), guard: None }
    }

    fn release() -> Command {
        Command::Release { resources: resources(["x"]), token: Token::from_bytes(b"t") }
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
        assert_eq!(wire.sent(), [(Tag::DRIVER, Command::Ledger)]);
        assert_eq!(replies(&mut link), []);

        wire.answer(Tag::DRIVER, nothing_kept());

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

                wire.answer(Tag::DRIVER, answer.clone());

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
        tokio::time::advance(2 * LOOK_AGAIN).await;

        link.send(tag(3), take());
        let sent: Vec<_> = wire.sent().into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(sent, [Tag::DRIVER, tag(3)]);
        wire.answer(tag(2), Reply::Vote(Vote::Granted));
        wire.answer(Tag::DRIVER, of_others());
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

        wire.answer(Tag::DRIVER, Reply::failed(Fault::Unfit("it does not know this".into())));
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

        assert_eq!(wire.sent(), [(Tag::DRIVER, Command::Ledger)]);
    }
}
