//! The reference node with planted bugs.
//!
//! Each bug is added around a correct node: it changes the command before it is carried
//! out, or the node and its reply afterwards.

mod broken;
mod lines;

use self::broken::Broken;
use crate::{
    driver::clock::Clock,
    node::{Link, Node, Store, Threaded},
};
use redlatch_core::{Command, Fault, Reply, Tag, Wake};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What can be wrong with a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    None,
    GrantsAlways,
    GrantsItsOwnTokenAgain,
    TellsTheWrongOwner,
    TellsTheWrongTime,
    EveryLinkForItself,
    AnyoneReleases,
    ReleasesTwice,
    AnyoneExtends,
    NeverLengthens,
    Shortens,
    Recreates,
    ExpiresEarly,
    NeverExpires,
    ExpiresDespiteExtension,
    ReleasesTheExpired,
    TakesPart,
    ReleasesAllOrNothing,
    ExtendsPart,
    CutsNames,
    IgnoresCase,
    NamesEndAtNul,
    CutsValues,
    InspectsSorted,
    InspectsWithoutNumbers,
    AnswersInReverse,
    CarriesOutInReverse,
    AnswersTwice,
    SwallowsSome,
    AnotherRunPerLink,
    NoVersion,
    WipesOnDrop,
    IgnoresProposals,
    BelievesProposals,
    NumbersStandStill,
    RepeatsAProposal,
    BelievesTwiceTheSkew,
    RaisesPart,
    NumbersTheRefused,
    MovesOneRegister,
    RaisesOneRegister,
    AnyoneRaises,
    RaisesDown,
    ExtendsWithoutNumber,
    ForgetsNumbersOnRelease,
    GrantsThoughQuarantined,
    ComparesTooLate,
    RaisesThoughQuarantined,
    ExtendsNothingThoughQuarantined,
    PlantsNothingThoughQuarantined,
    PlantsForEverybody,
    GuardsReleases,
    GuardsTheUnguarded,
    AdmitsInWordsOnly,
    MarksAnew,
    MarksAlike,
    MarksStayYoung,
    MarksAreBornOld,
    WatchTakesOut,
    ReplaceTakesOut,
    AdmitsByAnyMark,
    AdmitsByTheSameMarkAgain,
    RaisesThoughNotAdmitted,
    AdmitsWithoutFloor,
    FloorIsForMovedRegisters,
    AdmissionLowersTheFloor,
    VotesForEverybody,
    HidesTheAgreement,
    WatchReplaces,
    NeverReplaces,
    ReservesNothing,
    ReplacesTheAgreementToo,
    StaysReserved,
    AdmitsForAnyone,
    ExaminesNoGuard,
    TellsNoLedger,
    TellsNoNumbers,
    TellsNoLocks,
    TellsLowerNumbers,
    TellsTheLastNumber,
    TellsNoFloor,
    KeepsNoLines,
    JoinsWithoutTicket,
    ServesByJoining,
    JoinsTwice,
    NobodyLeaves,
    GrantsKeepThePlace,
    JoinsEveryLine,
    BelievesTickets,
    TellsNobodyWaits,
    TellsTheLastFirst,
    ForgetsWhoWaits,
    ReservesNamelessly,
    CountsNobody,
    WakesNobody,
    WakesEverybody,
    ReservesNoLock,
    ReservationsStay,
    ReservationsLapseEarly,
    AnyoneTakesTheReserved,
    NobodyOvertakes,
    ForgetsTheOvertaken,
    NobodyWaits,
    AnyoneWaits,
    PassesToTheFirst,
    WakesWhoPasses,
    KeepsWhatIsReserved,
    PlantsNothingReserved,
    PlantsOvertake,
    ServesOneLine,
    WakesForTheFirstName,
    ReservesForNobody,
    AnyoneServes,
    ServesTheGone,
    DropsTheUnheard,
}

/// A node with a bug.
#[derive(Debug)]
pub(super) struct Toy {
    bug: Bug,
    server: Arc<Mutex<Broken>>,
    links: AtomicUsize,
}

impl Toy {
    pub(super) fn with(bug: Bug) -> Self {
        Toy { bug, server: Broken::with(bug), links: AtomicUsize::new(0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        let mut server = self.server.lock().unwrap();
        server.node.expire(Clock::System.now());
        server.node.contents.keys.is_empty()
    }
}

impl Node for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn open(&self, _: Clock) -> Box<dyn Link> {
        let (bug, link) = (self.bug, self.links.fetch_add(1, Ordering::Relaxed));
        let server = match bug {
            Bug::EveryLinkForItself => Broken::with(bug),
            _ => Arc::clone(&self.server),
        };
        let shared = Arc::clone(&server);
        let inner = Threaded::new(move || Ok(Connection { link, server: Arc::clone(&shared) }));
        let (wakes, woken) = unbounded_channel();
        Box::new(Wire { bug, link, inner, server, held_back: Vec::new(), wakes, woken })
    }
}

/// Bugs in transit.
struct Wire {
    bug: Bug,
    link: usize,
    inner: Threaded,
    server: Arc<Mutex<Broken>>,
    held_back: Vec<(Tag, Command)>,
    wakes: UnboundedSender<Wake>,
    woken: UnboundedReceiver<Wake>,
}

impl Link for Wire {
    fn send(&mut self, tag: Tag, command: Command) {
        if let Some(ticket) = command.ticket() {
            let mut server = self.server.lock().unwrap();
            server.listen(self.link, ticket.waiter.client(), &self.wakes);
        }
        match self.bug {
            Bug::CarriesOutInReverse => self.held_back.push((tag, command)),
            Bug::SwallowsSome if matches!(command, Command::Extend { .. }) => {}
            _ => self.inner.send(tag, command),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, replies: &mut Vec<(Tag, Reply)>) {
        while let Some((tag, command)) = self.held_back.pop() {
            self.inner.send(tag, command);
        }
        self.inner.poll(cx, replies);
        match self.bug {
            Bug::AnswersInReverse => replies.reverse(),
            Bug::AnswersTwice => replies.extend(replies.first().cloned()),
            _ => {}
        }
        while let Poll::Ready(Some(wake)) = self.woken.poll_recv(cx) {
            replies.push((Tag::WAKE, Reply::Woken(wake)));
        }
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.server.lock().unwrap().hang_up(self.link);
        if self.bug == Bug::WipesOnDrop {
            self.server.lock().unwrap().node.contents.keys.clear();
        }
    }
}

/// The server's end of a link.
struct Connection {
    link: usize,
    server: Arc<Mutex<Broken>>,
}

impl Store for Connection {
    fn execute(&mut self, command: &Command) -> Result<Reply, Fault> {
        let mut server = self.server.lock().unwrap();
        if server.bug == Bug::AnotherRunPerLink {
            server.node.identity.run = self.link.to_string().into();
        }
        Ok(server.execute(command))
    }
}
