//! The result of `admit`: each node's standing, and whether it would vote.
//!
//! In:  the nodes' standings, and what they report.
//! Out: a line for each node, and an error if a named node does not vote.

use super::{cause_for, disagrees, is_down, may_vote, node_json, quarantined_for};
use crate::{
    doctor::refusing,
    exit::Exit,
    failure::Failure,
    look::failed_text,
    say::{Event, Paint, Say, print_json},
    stdout,
    trace::Trace,
};
use redlatch::{
    NodeStanding, Standing,
    observer::{Examined, Observer, Refusal, advice_to, of_nodes},
};
use serde_json::{Value, json};
use std::{fmt::Write as _, sync::Arc};

/// Each node's standing, and what it reports.
pub(super) struct Seen<'a> {
    observer: &'a Observer,
    reports: Vec<Examined>,
    standings: Vec<NodeStanding>,
}

impl<'a> Seen<'a> {
    pub(super) async fn now(observer: &'a Observer, standings: Vec<NodeStanding>) -> Self {
        Seen { observer, reports: observer.reports().await, standings }
    }

    /// Prints it. Returns the exit status: whether all of the named nodes vote.
    pub(super) fn tell(
        &self,
        named: &[Arc<str>],
        typed: &str,
        as_json: bool,
        say: Say,
    ) -> Result<Exit, Failure> {
        if as_json {
            let nodes: Vec<Value> = self.standings.iter().map(|node| self.json(node)).collect();
            print_json(&json!({ "nodes": nodes }))?;
        } else {
            stdout::print(self.text(Paint::stdout()).as_bytes())?;
        }
        let words = [self.out_of(named, typed), self.refusing(named)];
        let words: Vec<String> = words.into_iter().flatten().collect();
        if words.is_empty() {
            return Ok(Exit::Done);
        }
        say.say(&Event::failed(words.join("; "), Exit::NoMajority));
        Ok(Exit::NoMajority)
    }

    /// Records the result: which of the named nodes do not vote, and why.
    pub(super) fn record(&self, named: &[Arc<str>], is_replaced: bool, trace: &mut Trace) {
        let ours = || self.standings.iter().filter(|node| named.contains(&node.node));
        let is_not_taken =
            |node: &NodeStanding| is_down(&node.standing) || disagrees(&node.standing);
        let is_done = if is_replaced {
            !ours().all(is_not_taken)
        } else {
            ours().all(|node| node.standing == Standing::Admitted)
        };
        if is_done {
            trace.succeeded();
        }
        for words in [self.count_out(named), self.refusing(named)].into_iter().flatten() {
            trace.note(&words);
        }
        for node in ours().filter(|node| node.standing != Standing::Admitted) {
            let label = self.observer.label(&node.node);
            trace.note(&format!("{label}: {}", self.stands(node, Paint::none())));
        }
    }

    /// Says how many of these nodes do not vote, if any: quarantined or failed.
    fn count_out(&self, named: &[Arc<str>]) -> Option<String> {
        let out = named.iter().filter(|name| !may_vote(&self.standings, name)).count();
        let does = if out == 1 { "does" } else { "do" };
        (out > 0).then(|| format!("{} {does} not vote", subject(out, named.len())))
    }

    /// The same, with what to do.
    fn out_of(&self, named: &[Arc<str>], typed: &str) -> Option<String> {
        let mut words = self.count_out(named)?;
        if self.conflicts().any(|node| !named.contains(&node.node)) {
            words.push_str("; other nodes serve clients with another list, or other times");
        }
        if let Some(node) = self.conflicts().next()
            && let Some(quarantine) = node.standing.quarantine()
        {
            let other = self.observer.other_name(&node.node, &node.standing);
            let ours = self.observer.agreement();
            let advice = advice_to(ours, other.as_ref(), [], &quarantine.cause, "", typed);
            let _ = write!(words, "; waiting does not help: {advice}");
        }
        Some(words)
    }

    fn conflicts(&self) -> impl Iterator<Item = &NodeStanding> {
        self.standings.iter().filter(|node| disagrees(&node.standing))
    }

    /// Says which of these nodes may vote, but refuse writes, if any, and what to do.
    fn refusing(&self, named: &[Arc<str>]) -> Option<String> {
        let ours = self.standings.iter().filter(|node| named.contains(&node.node));
        let told = ours.filter_map(|node| {
            let why = self.refusal(node)?;
            let fix = refusing(why).fix.map_or(String::new(), |fix| format!("; {fix}"));
            Some(format!("{}: {why}{fix}", node.node))
        });
        let told: Vec<String> = told.collect();
        let (count, nodes) = (told.len(), named.len());
        let what = match count {
            0 => return None,
            1 => "is admitted, but refuses writes",
            _ => "are admitted, but refuse writes",
        };
        Some(format!("{} {what}: {}", subject(count, nodes), told.join("; ")))
    }

    /// Why an admitted node would not grant a lock.
    fn refusal(&self, node: &NodeStanding) -> Option<Refusal> {
        let report = self.reports.iter().find(|report| report.node == node.node)?;
        report.refuses().filter(|_| node.standing == Standing::Admitted)
    }

    fn text(&self, paint: Paint) -> String {
        let label = |node: &NodeStanding| self.observer.label(&node.node).into_owned();
        let widest = self.standings.iter().map(|node| label(node).len()).max().unwrap_or(0);
        let mut text = String::new();
        for node in &self.standings {
            let _ = writeln!(text, "{:widest$}  {}", label(node), self.stands(node, paint));
        }
        text
    }

    fn stands(&self, node: &NodeStanding, paint: Paint) -> String {
        match &node.standing {
            Standing::Admitted => match self.refusal(node) {
                None => paint.green("admitted"),
                Some(why) => paint.red(&format!("admitted, but {}", refusing(why).words)),
            },
            Standing::Quarantined(quarantine) => {
                let other = self.observer.other_name(&node.node, &node.standing);
                let other = other.map_or(String::new(), |other| format!("; {other}"));
                let cause = cause_for(self.observer, &quarantine.cause);
                // A client that one node refuses does not begin the time of any other.
                let is_refused = self.conflicts().next().is_some();
                let reports: &[_] = if is_refused { &[] } else { &self.reports };
                let out = quarantined_for(&node.node, quarantine, reports);
                paint.yellow(&format!("{out}: {cause}{other}"))
            }
            Standing::Failed(fault) => paint.red(&failed_text(fault)),
            _ => "not known".into(),
        }
    }

    fn json(&self, node: &NodeStanding) -> Value {
        let mut json = node_json(self.observer, node);
        if let Some(why) = self.refusal(node) {
            json["standing"] = "refusing".into();
            json["reason"] = refusing(why).words.into();
        }
        json
    }
}

/// How a sentence about some of the named nodes begins.
fn subject(count: usize, named: usize) -> String {
    if named == 1 { "the node".into() } else { of_nodes(count, named) }
}
