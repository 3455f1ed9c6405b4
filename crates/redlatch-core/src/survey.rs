//! Sends every node the same command and waits until all have answered or timed out.

use crate::{command::Reply, moment::Moment, vote::Fault};
use alloc::{boxed::Box, vec};
use core::time::Duration;

/// One command to all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Survey {
    started: Moment,
    deadline: Moment,
    replies: Box<[Option<Reply>]>,
}

impl Survey {
    /// Creates a survey that starts at `now`.
    #[must_use]
    pub(crate) fn new(now: Moment, nodes: usize, node_timeout: Duration) -> Self {
        let deadline = now.after(node_timeout);
        Survey { started: now, deadline, replies: vec![None; nodes].into() }
    }

    /// Returns when nodes that have not answered stop counting.
    #[must_use]
    pub(crate) fn deadline(&self) -> Moment {
        self.deadline
    }

    /// Records one answer. Returns all of them once the last has arrived.
    pub(crate) fn reply(&mut self, node: usize, reply: Reply) -> Option<Box<[Reply]>> {
        self.replies[node] = Some(reply);
        self.replies.iter().cloned().collect()
    }

    /// Returns all answers once the deadline has passed, with silent nodes as timed out.
    pub(crate) fn tick(&mut self, now: Moment) -> Option<Box<[Reply]>> {
        let silent = || Reply::failed(Fault::TimedOut(now.since(self.started)));
        let replies = self.replies.iter().cloned();
        (now >= self.deadline).then(|| replies.map(|reply| reply.unwrap_or_else(silent)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vote::Vote;

    #[test]
    fn ends_with_the_last_answer_or_at_the_deadline() {
        let timeout = Duration::from_millis(50);
        let granted = || Reply::Vote(Vote::Granted);
        let mut survey = Survey::new(Moment::START, 2, timeout);

        assert_eq!(survey.reply(1, granted()), None);
        assert_eq!(survey.tick(Moment::START), None);

        let late = survey.tick(survey.deadline()).unwrap();
        assert_eq!(*late, [Reply::failed(Fault::TimedOut(timeout)), granted()]);
        assert_eq!(*survey.reply(0, granted()).unwrap(), [granted(), granted()]);
    }
}
