//! Decides what to do when something happens to a running command, its lock or its
//! caller.
//!
//! In:  events. Out: what to do, in order.
//!
//! Promise: once the lock is ending, the course ends only when every process of the
//! command is gone or known to have outlived the lock, with the lock's exit status,
//! not the command's. If a signal ends the command, all its processes end, too,
//! while the lock is still held.

use crate::{cli::OnLost, exit::Exit};
use nix::sys::signal::Signal;

/// What can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The front forwarded a signal for the command.
    Told(Signal),
    /// The caller resumed us, in the terminal's foreground or not.
    Continued { foreground: bool },
    /// The process that the caller started is dead.
    FrontDied,
    /// The command was stopped, perhaps because it wants the terminal.
    Stopped { wants_terminal: bool },
    /// The command ended, with this status.
    Ended(Exit),
    /// No process of the command is left.
    AllGone,
    /// The lock is about to end.
    Ending(Cause),
    /// The grace period is over.
    GraceOver,
    /// The lease has ended, or there is no time left to kill what a signal did not end.
    TimeOver,
    /// Some of the command's processes are still alive and cannot be killed.
    Survived,
}

/// Why the command has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    Lost,
    MaxHold,
    FrontDied,
    /// A signal ended the command, or asked it to end and it did, with this status.
    Told(Exit),
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Send the signal to the command's process group.
    Forward(Signal),
    /// Ask every process of the command to end, and start the grace period.
    Terminate,
    /// The group has the signal: ask processes outside it to end, and start the grace
    /// period.
    AwaitOthers,
    /// Only the command got the signal: ask all others to end, and start the grace
    /// period.
    EndOthers,
    /// Kill every process of the command, again and again until none is left.
    Kill,
    /// The lock is still being renewed: set a time limit for the killing.
    LimitKilling,
    /// Report the survivors, and kill what can be killed.
    GiveUp,
    /// The command was stopped: return the terminal and stop, too.
    StopToo { wants_terminal: bool },
    /// Resume the command, with the terminal or without.
    Resume { foreground: bool },
    /// Done: exit with this status.
    Finish(Exit),
}

/// The state of a running command.
#[derive(Debug)]
pub(super) struct Course {
    on_lost: OnLost,
    ending: Option<Cause>,
    /// Whether a signal asked the command to end.
    told_to_end: bool,
    /// Whether the command was stopped, and not resumed since.
    is_stopped: bool,
    /// The exit status, if not the command's own.
    verdict: Option<Exit>,
}

impl Course {
    pub(super) fn new(on_lost: OnLost) -> Self {
        Course { on_lost, ending: None, told_to_end: false, is_stopped: false, verdict: None }
    }

    pub(super) fn handle(&mut self, event: Event) -> Vec<Act> {
        match (event, self.ending) {
            (Event::Told(signal), _) => self.forward(signal),
            (Event::Continued { foreground }, _) => {
                self.is_stopped = false;
                vec![Act::Resume { foreground }]
            }
            (Event::Stopped { .. }, None) if self.told_to_end => {
                vec![Act::Forward(Signal::SIGCONT)]
            }
            (Event::Stopped { wants_terminal }, None) => {
                self.is_stopped = true;
                vec![Act::StopToo { wants_terminal }]
            }
            // It was asked to end, so resume it to let it.
            (Event::Stopped { .. }, Some(_)) => vec![Act::Forward(Signal::SIGCONT)],
            (Event::FrontDied, _) => {
                self.ending = Some(Cause::FrontDied);
                vec![Act::Kill]
            }
            (Event::Ending(cause), None | Some(Cause::Told(_))) => self.end(cause),
            (Event::GraceOver, Some(Cause::Told(_))) => vec![Act::Kill, Act::LimitKilling],
            (Event::GraceOver, Some(_)) => vec![Act::Kill],
            (Event::Ended(exit), None) => {
                let verdict = self.verdict.unwrap_or(exit);
                let act = if self.told_to_end || is_told(exit) {
                    Act::AwaitOthers
                } else if matches!(exit, Exit::Signal(_)) {
                    Act::EndOthers
                } else {
                    return vec![Act::Finish(verdict)];
                };
                self.ending = Some(Cause::Told(verdict));
                vec![act]
            }
            (Event::AllGone, Some(cause)) => vec![Act::Finish(cause.exit())],
            (Event::TimeOver, Some(_)) => vec![Act::GiveUp],
            // Whatever the cause, the command has outlived its lock.
            (Event::Survived, _) => vec![Act::Finish(Exit::Lost)],
            // Processes that the command started may still be alive.
            (Event::Ended(_) | Event::Ending(_), Some(_))
            | (Event::GraceOver | Event::AllGone | Event::TimeOver, None) => vec![],
        }
    }

    /// A stopped command that is asked to end is resumed, so that it can.
    fn forward(&mut self, signal: Signal) -> Vec<Act> {
        let ends = ENDING.contains(&signal);
        self.told_to_end |= ends;
        let was_stopped = self.is_stopped;
        self.is_stopped &= !ends && signal != Signal::SIGCONT;
        let mut acts = vec![Act::Forward(signal)];
        acts.extend((ends && was_stopped).then_some(Act::Forward(Signal::SIGCONT)));
        acts
    }

    fn end(&mut self, cause: Cause) -> Vec<Act> {
        match self.on_lost {
            OnLost::Warn => {
                self.verdict = Some(cause.exit());
                if let Some(Cause::Told(exit)) = &mut self.ending {
                    *exit = cause.exit();
                }
                vec![]
            }
            OnLost::Term => {
                self.ending = Some(cause);
                vec![Act::Terminate]
            }
            OnLost::Kill => {
                self.ending = Some(cause);
                vec![Act::Kill]
            }
        }
    }
}

impl Cause {
    fn exit(self) -> Exit {
        match self {
            Cause::Lost => Exit::Lost,
            Cause::MaxHold => Exit::MaxHold,
            Cause::FrontDied => FRONT_DIED,
            Cause::Told(exit) => exit,
        }
    }
}

/// What the caller sees if the front is dead. We cannot know which signal killed it;
/// usually it is this one.
pub(super) const FRONT_DIED: Exit = Exit::Signal(Signal::SIGKILL as i32);

/// The signals that ask a command to end.
const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Whether one of them ended the command: a Ctrl-C in the terminal doesn't go through us.
fn is_told(exit: Exit) -> bool {
    ENDING.iter().any(|signal| exit == Exit::Signal(*signal as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(on_lost: OnLost, events: &[Event]) -> Vec<Act> {
        let mut course = Course::new(on_lost);
        events.iter().flat_map(|event| course.handle(*event)).collect()
    }

    #[test]
    fn a_command_left_alone_ends_with_its_own_status() {
        let ended = Event::Ended(Exit::Code(7));

        assert_eq!(after(OnLost::Term, &[ended]), [Act::Finish(Exit::Code(7))]);
    }

    #[test]
    fn a_lost_lock_ends_in_nothing_but_the_death_of_all() {
        let lost = Event::Ending(Cause::Lost);
        // The command itself exits normally, but what it started stays.
        let ended = Event::Ended(Exit::Done);

        let acts = after(OnLost::Term, &[lost, ended, Event::GraceOver, Event::AllGone]);

        assert_eq!(acts, [Act::Terminate, Act::Kill, Act::Finish(Exit::Lost)]);
    }

    #[test]
    fn processes_that_outlive_the_lock_make_it_a_lost_one() {
        let full = Event::Ending(Cause::MaxHold);

        let acts = after(OnLost::Kill, &[full, Event::TimeOver, Event::Survived]);

        assert_eq!(acts, [Act::Kill, Act::GiveUp, Act::Finish(Exit::Lost)]);
        assert_eq!(after(OnLost::Warn, &[full, Event::TimeOver]), []);
    }

    #[test]
    fn a_command_that_a_signal_ends_takes_all_its_processes_with_it() {
        let ended = Event::Ended(Exit::Code(3));
        let told = [Event::Told(Signal::SIGTERM), ended, Event::GraceOver, Event::AllGone];

        let mut acts = after(OnLost::Term, &told);

        assert_eq!(acts.remove(0), Act::Forward(Signal::SIGTERM));
        let rest = [Act::AwaitOthers, Act::Kill, Act::LimitKilling];
        assert_eq!(acts, [&rest[..], &[Act::Finish(Exit::Code(3))]].concat());
        let interrupted = Event::Ended(Exit::Signal(Signal::SIGINT as i32));
        assert_eq!(after(OnLost::Warn, &[interrupted]), [Act::AwaitOthers]);
        let crashed = Event::Ended(Exit::Signal(Signal::SIGSEGV as i32));
        assert_eq!(after(OnLost::Warn, &[crashed]), [Act::EndOthers]);
        let usr1 = after(OnLost::Term, &[Event::Told(Signal::SIGUSR1), ended]);
        assert_eq!(usr1.last(), Some(&Act::Finish(Exit::Code(3))));
    }

    #[test]
    fn a_lock_that_ends_while_others_are_awaited_is_a_lost_one() {
        let lost = [Event::Ending(Cause::Lost), Event::AllGone];
        for on_lost in [OnLost::Term, OnLost::Kill, OnLost::Warn] {
            let ended = Event::Ended(Exit::Signal(Signal::SIGTERM as i32));

            let acts = after(on_lost, &[&[ended], &lost[..]].concat());

            assert_eq!(acts.last(), Some(&Act::Finish(Exit::Lost)));
        }
    }

    #[test]
    fn killing_at_once_leaves_no_grace() {
        let acts = after(OnLost::Kill, &[Event::Ending(Cause::MaxHold), Event::AllGone]);

        assert_eq!(acts, [Act::Kill, Act::Finish(Exit::MaxHold)]);
    }

    #[test]
    fn a_warning_leaves_the_command_alone_but_not_the_exit_status() {
        let lost = Event::Ending(Cause::Lost);

        let acts = after(OnLost::Warn, &[lost, Event::Ended(Exit::Done)]);

        assert_eq!(acts, [Act::Finish(Exit::Lost)]);
    }

    #[test]
    fn the_death_of_the_caller_kills_whatever_was_asked_for() {
        for on_lost in [OnLost::Term, OnLost::Kill, OnLost::Warn] {
            let acts = after(on_lost, &[Event::FrontDied, Event::AllGone]);

            assert_eq!(acts, [Act::Kill, Act::Finish(Exit::Signal(9))]);
        }
    }

    #[test]
    fn a_command_that_is_stopped_stops_us_unless_it_has_to_end() {
        let stopped = Event::Stopped { wants_terminal: false };
        let too = Act::StopToo { wants_terminal: false };
        assert_eq!(after(OnLost::Term, &[stopped]), [too]);

        let acts = after(OnLost::Term, &[Event::Ending(Cause::Lost), stopped]);
        assert_eq!(acts, [Act::Terminate, Act::Forward(Signal::SIGCONT)]);
    }

    #[test]
    fn a_stopped_command_that_is_asked_to_end_is_resumed() {
        let stopped = Event::Stopped { wants_terminal: false };
        let told = |signal| Event::Told(signal);
        let forwarded = |events: &[Event]| after(OnLost::Term, events).split_off(1);
        let [term, cont] = [Signal::SIGTERM, Signal::SIGCONT].map(Act::Forward);

        assert_eq!(forwarded(&[stopped, told(Signal::SIGTERM)]), [term, cont]);
        assert_eq!(forwarded(&[told(Signal::SIGTERM), stopped]), [cont]);
        assert_eq!(
            forwarded(&[stopped, told(Signal::SIGCONT), told(Signal::SIGTERM)]),
            [cont, term]
        );
    }

    #[test]
    fn what_comes_after_the_loss_changes_nothing() {
        let lost = Event::Ending(Cause::Lost);

        let acts = after(OnLost::Term, &[lost, Event::Ending(Cause::MaxHold), Event::AllGone]);

        assert_eq!(acts, [Act::Terminate, Act::Finish(Exit::Lost)]);
    }
}
