//! A node whose server is a blocking library, run on its own thread.
//!
//! In:  commands, and a way to open the store.
//! Out: one reply per command, in the order of the commands.
//!
//! Promise: every command is answered, even if the thread cannot be started or
//! the store panics. Queued commands run even if the link is dropped first: a
//! queued release still frees its lock.

use super::Link;
use redlatch_core::{Command, Fault, Reply, Tag};
use std::{
    any::Any,
    collections::VecDeque,
    fmt, io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    task::{Context, Poll},
    thread,
};
use tokio::sync::mpsc as wakeful;

/// A server that is a function call, which may block.
pub trait Store: 'static {
    /// Runs one command, all or nothing.
    ///
    /// # Errors
    ///
    /// An error means that the store is no longer usable: it is closed, and the
    /// next command opens another. A fault that leaves the store usable is a
    /// normal reply ([`Reply::failed`]).
    fn execute(&mut self, command: &Command) -> Result<Reply, Fault>;
}

/// A [`Link`] to a [`Store`] on its own thread, so that waiting for a disk or a
/// file lock blocks nobody else.
pub struct Threaded {
    work: Arc<Work>,
    /// `None` before the first command, and after a thread has died.
    thread: Option<Ends>,
    /// Handed to the thread and not yet answered, oldest first.
    waiting: VecDeque<Tag>,
    /// Replies that we made ourselves; older than anything that the thread has yet to
    /// send.
    ready: Vec<(Tag, Reply)>,
}

type Inbox = mpsc::Receiver<(Tag, Command)>;
type Outbox = wakeful::UnboundedSender<(Tag, Reply)>;
type Work = dyn Fn(&Inbox, &Outbox) + Send + Sync;

/// Our ends of the channels to the thread.
struct Ends {
    commands: mpsc::Sender<(Tag, Command)>,
    replies: wakeful::UnboundedReceiver<(Tag, Reply)>,
}

impl Threaded {
    /// Creates a link to the store that `open` opens.
    ///
    /// The thread starts with the first command and opens the store; if that
    /// fails, each command tries again. Dropping the link ends the thread once
    /// it has run all queued commands.
    ///
    /// # Example
    ///
    /// ```
    /// use redlatch::node::{Link, Store, Threaded};
    /// use redlatch_core::{Command, Fault, Reply};
    ///
    /// struct Mute;
    ///
    /// impl Store for Mute {
    ///     fn execute(&mut self, _: &Command) -> Result<Reply, Fault> {
    ///         Ok(Reply::failed(Fault::Unfit("it knows no commands yet".into())))
    ///     }
    /// }
    ///
    /// let link: Box<dyn Link> = Box::new(Threaded::new(|| Ok(Mute)));
    /// ```
    pub fn new<S: Store>(open: impl Fn() -> Result<S, Fault> + Send + Sync + 'static) -> Self {
        let work = move |inbox: &Inbox, outbox: &Outbox| {
            let mut store = None;
            while let Ok((tag, command)) = inbox.recv() {
                let reply = carry_out(&mut store, &open, &command);
                // If nobody is listening, run the rest anyway.
                let _ = outbox.send((tag, reply));
            }
        };
        Threaded { work: Arc::new(work), thread: None, waiting: VecDeque::new(), ready: Vec::new() }
    }

    fn start(&self) -> io::Result<Ends> {
        let (commands, inbox) = mpsc::channel();
        let (outbox, replies) = wakeful::unbounded_channel();
        let work = Arc::clone(&self.work);
        thread::Builder::new().name("redlatch-node".into()).spawn(move || work(&inbox, &outbox))?;
        Ok(Ends { commands, replies })
    }

    fn hand_over(&mut self, started: io::Result<Ends>, (tag, command): (Tag, Command)) {
        match started {
            Ok(ends) => {
                // If the thread has already died, `poll` will notice.
                let _ = ends.commands.send((tag, command));
                self.waiting.push_back(tag);
                self.thread = Some(ends);
            }
            Err(error) => {
                let reason = format!("the node's thread cannot be started: {error}");
                self.ready.push((tag, Reply::failed(Fault::Unreachable(reason.into()))));
            }
        }
    }

    /// Answers for a dead thread, so that another can be started.
    fn bury(&mut self) {
        if let Some(mut ends) = self.thread.take() {
            while let Ok(reply) = ends.replies.try_recv() {
                self.waiting.pop_front();
                self.ready.push(reply);
            }
        }
        let fault = || Fault::Disconnected("the node's thread died".into());
        let unanswered = self.waiting.drain(..).map(|tag| (tag, Reply::failed(fault())));
        self.ready.extend(unanswered);
    }
}

impl Link for Threaded {
    fn send(&mut self, tag: Tag, command: Command) {
        let mut parcel = (tag, command);
        if let Some(ends) = &self.thread {
            match ends.commands.send(parcel) {
                Ok(()) => return self.waiting.push_back(tag),
                Err(returned) => parcel = returned.0,
            }
        }
        self.bury();
        let started = self.start();
        self.hand_over(started, parcel);
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        replies.append(&mut self.ready);
        while let Some(ends) = &mut self.thread {
            match ends.replies.poll_recv(cx) {
                Poll::Pending => return,
                Poll::Ready(Some(reply)) => {
                    self.waiting.pop_front();
                    replies.push(reply);
                }
                Poll::Ready(None) => {
                    self.bury();
                    replies.append(&mut self.ready);
                }
            }
        }
    }
}

impl fmt::Debug for Threaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threaded").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

/// Runs one command, opening the store if necessary. Closes a store that failed
/// or panicked.
fn carry_out<S: Store>(
    store: &mut Option<S>,
    open: impl Fn() -> Result<S, Fault>,
    command: &Command,
) -> Reply {
    let attempt = || {
        let mut current = match store.take() {
            Some(current) => current,
            None => open()?,
        };
        let reply = current.execute(command)?;
        *store = Some(current);
        Ok(reply)
    };
    // After a panic the store is gone, so nobody sees a half-finished state.
    match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(Ok(reply)) => reply,
        Ok(Err(fault)) => Reply::failed(fault),
        Err(panic) => {
            let reason = format!("the node panicked: {}", words_of(&*panic));
            Reply::failed(Fault::Disconnected(reason.into()))
        }
    }
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::conformance::{self, resources, tag};
    use redlatch_core::{Token, Vote};
    use std::{
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Wake, Waker},
        time::Duration,
    };

    /// Grants everything and records it; panics and fails by name.
    struct Diary(Arc<Mutex<Vec<String>>>);

    impl Store for Diary {
        fn execute(&mut self, command: &Command) -> Result<Reply, Fault> {
            let Command::Release { resources, .. } = command else {
                panic!("only releases are tested here");
            };
            let name = resources.to_string();
            assert_ne!(name, "panic", "as asked");
            if name == "break" {
                return Err(Fault::Disconnected("as asked".into()));
            }
            self.0.lock().unwrap().push(name);
            Ok(Reply::Vote(Vote::Granted))
        }
    }

    fn release(name: &str) -> Command {
        Command::Release {
            resources: resources([name]),
            token: Token::from_bytes(b"t"),
            then: None,
        }
    }

    async fn replies(link: &mut Threaded, count: usize) -> Vec<(Tag, Reply)> {
        let replies = conformance::replies(link, count, Duration::from_secs(10)).await;
        assert!(replies.len() >= count, "every command is answered: {replies:?}");
        replies
    }

    fn diary() -> (Arc<Mutex<Vec<String>>>, Arc<AtomicUsize>, Threaded) {
        let pages = Arc::<Mutex<Vec<String>>>::default();
        let opened = Arc::<AtomicUsize>::default();
        let (same, count) = (Arc::clone(&pages), Arc::clone(&opened));
        let link = Threaded::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
            Ok(Diary(Arc::clone(&same)))
        });
        (pages, opened, link)
    }

    #[tokio::test]
    async fn a_panic_answers_its_command_and_the_next_one_opens_a_new_store() {
        let (pages, opened, mut link) = diary();

        for (number, name) in (0..).zip(["a", "panic", "b", "break", "c"]) {
            link.send(tag(number), release(name));
        }
        let replies = replies(&mut link, 5).await;

        let granted = Reply::Vote(Vote::Granted);
        assert_eq!(
            replies.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4].map(tag)
        );
        assert_eq!([0, 2, 4].map(|at| replies[at].1.clone()), [(); 3].map(|()| granted.clone()));
        let Reply::Vote(Vote::Failed(Fault::Disconnected(why))) = &replies[1].1 else {
            panic!("{:?}", replies[1]);
        };
        assert!(why.contains("as asked"), "{why}");
        assert_eq!(*pages.lock().unwrap(), ["a", "b", "c"]);
        assert_eq!(opened.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_opened_is_tried_again_with_every_command() {
        let tries = Arc::<AtomicUsize>::default();
        let count = Arc::clone(&tries);
        let fault = || Fault::Unfit("not yet".into());
        let mut link = Threaded::new(move || match count.fetch_add(1, Ordering::SeqCst) {
            0 => Err(fault()),
            _ => Ok(Diary(Arc::default())),
        });

        link.send(tag(0), release("a"));
        link.send(tag(1), release("a"));

        let granted = Reply::Vote(Vote::Granted);
        let expected = [(tag(0), Reply::failed(fault())), (tag(1), granted)];
        assert_eq!(replies(&mut link, 2).await, expected);
    }

    #[tokio::test]
    async fn what_was_handed_over_is_done_after_the_link_is_dropped() {
        let (pages, _, mut link) = diary();
        let names: Vec<_> = (0..1_000).map(|number| number.to_string()).collect();

        for name in &names {
            link.send(tag(0), release(name));
        }
        let thread = Arc::downgrade(&link.work);
        drop(link);

        // The thread holds the last reference to its work.
        let ended = async {
            while thread.strong_count() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), ended).await.expect("the thread ends");
        assert_eq!(*pages.lock().unwrap(), names);
    }

    /// A death that `catch_unwind` cannot catch, as seen from outside.
    #[tokio::test]
    async fn a_dead_thread_answers_what_it_had_and_the_next_command_starts_another() {
        let (pages, _, mut link) = diary();
        let (commands, inbox) = mpsc::channel();
        let (outbox, replies_of_dead) = wakeful::unbounded_channel();
        link.thread = Some(Ends { commands, replies: replies_of_dead });

        link.send(tag(0), release("a"));
        link.send(tag(1), release("b"));
        outbox.send((tag(0), Reply::Vote(Vote::Granted))).unwrap();
        drop((inbox, outbox));
        link.send(tag(2), release("c"));
        let replies = replies(&mut link, 3).await;

        let died = Reply::failed(Fault::Disconnected("the node's thread died".into()));
        let granted = Reply::Vote(Vote::Granted);
        assert_eq!(replies, [(tag(0), granted.clone()), (tag(1), died), (tag(2), granted)]);
        assert_eq!(*pages.lock().unwrap(), ["c"]);
    }

    #[tokio::test]
    async fn without_a_thread_a_command_fails_and_the_next_one_tries_again() {
        let (_, _, mut link) = diary();

        link.hand_over(Err(io::ErrorKind::WouldBlock.into()), (tag(0), release("a")));
        link.send(tag(1), release("b"));
        let replies = replies(&mut link, 2).await;

        let (first, Reply::Vote(Vote::Failed(Fault::Unreachable(why)))) = &replies[0] else {
            panic!("{:?}", replies[0]);
        };
        assert_eq!(*first, tag(0));
        assert!(why.contains("cannot be started"), "{why}");
        assert_eq!(replies[1], (tag(1), Reply::Vote(Vote::Granted)));
    }

    /// Counts how many times a task would be polled again.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The test plays the thread: a real one wakes the link a moment after its
    /// reply becomes readable, which is late on a busy machine.
    #[test]
    fn a_link_at_rest_is_not_polled_again() {
        let (_, _, mut link) = diary();
        let (commands, _inbox) = mpsc::channel();
        let (outbox, replies_of_thread) = wakeful::unbounded_channel();
        link.thread = Some(Ends { commands, replies: replies_of_thread });
        let count = Arc::<Wakes>::default();
        let waker = Waker::from(Arc::clone(&count));
        let poll = |link: &mut Threaded| {
            let mut replies = Vec::new();
            link.poll(&mut Context::from_waker(&waker), &mut replies);
            replies
        };
        let granted = Reply::Vote(Vote::Granted);

        link.send(tag(0), release("a"));
        assert_eq!(poll(&mut link), []);
        assert_eq!(count.0.load(Ordering::SeqCst), 0, "there is no reply yet");
        outbox.send((tag(0), granted.clone())).unwrap();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "the reply is there");
        assert_eq!(poll(&mut link), [(tag(0), granted)]);

        assert_eq!(poll(&mut link), []);
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "there is nothing to wait for");
    }
}
