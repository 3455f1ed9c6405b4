//! Schedules in files: one line for the head, one per job and trouble, so that
//! lines can be removed by hand.

use super::{Job, Schedule, Trouble};
use serde::{Deserialize, Serialize};

impl Schedule {
    /// As text: one job or trouble per line.
    pub fn to_text(&self) -> serde_json::Result<String> {
        let mut head = self.clone();
        let (jobs, troubles) = (head.jobs.split_off(0), head.troubles.split_off(0));
        let mut text = serde_json::to_string(&Record::Head(Box::new(head)))?;
        for line in
            jobs.into_iter().map(Record::Job).chain(troubles.into_iter().map(Record::Trouble))
        {
            text.push('\n');
            text.push_str(&serde_json::to_string(&line)?);
        }
        text.push('\n');
        Ok(text)
    }

    /// Reads what [`to_text`](Self::to_text) wrote; lines may have been removed.
    pub fn from_text(text: &str) -> Result<Schedule, BadSchedule> {
        let mut schedule = None;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let line = serde_json::from_str(line)
                .map_err(|error| BadSchedule::Line { line: at + 1, error })?;
            match (line, &mut schedule) {
                (Record::Head(head), none @ None) => *none = Some(*head),
                (Record::Job(job), Some(schedule)) => schedule.jobs.push(job),
                (Record::Trouble(trouble), Some(schedule)) => schedule.troubles.push(trouble),
                _ => return Err(BadSchedule::Head),
            }
        }
        schedule.ok_or(BadSchedule::Head)
    }
}

#[derive(Serialize, Deserialize)]
enum Record {
    Head(Box<Schedule>),
    Job(Job),
    Trouble(Trouble),
}

/// A file that is not a schedule.
#[derive(Debug, thiserror::Error)]
pub enum BadSchedule {
    /// A line that is not part of a schedule.
    #[error("line {line} is no part of a schedule: {error}")]
    Line {
        /// Counted from one.
        line: usize,
        error: serde_json::Error,
    },
    /// The head is missing, or is not first, or there are two.
    #[error("a schedule begins with one line {{\"Head\":…}}")]
    Head,
}
