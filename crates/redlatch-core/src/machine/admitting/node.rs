//! What this client knows about one node, and what an operator vouched for.

use crate::{
    agreement::{Admission, Fingerprint},
    command::{Facts, Reply},
    moment::Steady,
    mutant::{self, Mutant},
    watch::{Outlook, Watch},
};
use alloc::sync::Arc;
use core::time::Duration;

/// What this client knows about one node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) watch: Watch,
    pub(super) outlook: Option<Outlook>,
    pub(super) word: Word,
    /// Whether to take it over from clients with another agreement.
    pub(super) replace: bool,
    /// How much longer than its window it stays quarantined because nobody knows which
    /// numbers it gave. `Duration::MAX` if only an operator can decide.
    pub(super) extra: Duration,
    /// Its answer in this phase.
    pub(super) answer: Option<Reply>,
    /// Its last answer to a look.
    pub(super) look: Option<Reply>,
}

/// An operator's word that a node remembers every lock. It covers the node in its present
/// state: if the node forgets again, the word is void.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) enum Word {
    #[default]
    None,
    /// Given, but not yet tied to a run or mark; the next look does that.
    Given,
    /// Valid for this run, which has no mark yet.
    Run(Arc<str>),
    /// Valid as long as the node has this mark.
    For(Arc<str>),
}

impl Node {
    /// Returns the mark by which the node may be admitted at `now`, if it may be.
    pub(super) fn ripe(&self, now: Steady) -> Option<&Arc<str>> {
        match &self.outlook {
            Some(Outlook::Quarantined { mark, from })
                if from.after(self.extra) <= now || self.is_vouched(mark) =>
            {
                Some(mark)
            }
            _ => None,
        }
    }

    fn is_vouched(&self, mark: &Arc<str>) -> bool {
        matches!(&self.word, Word::For(known) if known == mark)
    }

    pub(super) fn is_seen(&self) -> bool {
        matches!(self.answer, Some(Reply::Facts(_)))
    }

    /// Returns what the node said at the last look.
    pub(super) fn facts(&self) -> Option<&Facts> {
        self.look.as_ref().and_then(Reply::facts)
    }

    /// Returns whether an operator has reserved it for our agreement.
    pub(super) fn is_reserved(&self, fingerprint: Fingerprint) -> bool {
        self.facts().is_some_and(|facts| facts.reserved == Some(fingerprint))
    }

    /// Draws conclusions from the node's last answer. No answer leaves its state open and
    /// voids an operator's word, unless the node will be looked at `again` before the
    /// caller is answered.
    pub(super) fn conclude(
        &mut self,
        now: Steady,
        admission: &Admission,
        node: usize,
        again: bool,
    ) {
        let reserved = self.is_reserved(admission.fingerprint(node));
        let Some(Reply::Facts(facts)) = &self.look else {
            self.outlook = None;
            if !(again && self.word == Word::Given) {
                self.word = Word::None;
            }
            return;
        };
        self.replace &= !reserved;
        let outlook = self.watch.look(now, facts, admission, node);
        self.replace &= outlook != Outlook::Admitted;
        let run = &facts.identity.run;
        self.word = match (&outlook, core::mem::take(&mut self.word)) {
            (Outlook::Unmarked, Word::Given) => Word::Run(run.clone()),
            (Outlook::Quarantined { mark, .. }, Word::Given) => Word::For(mark.clone()),
            (Outlook::Quarantined { mark, .. }, Word::Run(meant)) if meant == *run => {
                Word::For(mark.clone())
            }
            (Outlook::Quarantined { mark, .. }, Word::For(meant)) if meant == *mark => {
                Word::For(meant)
            }
            (_, Word::For(_) | Word::Given) if mutant::on(Mutant::WordOutlives) => Word::Given,
            _ => Word::None,
        };
        self.outlook = Some(outlook);
    }

    /// Returns how much longer it stays quarantined, if known.
    pub(super) fn remaining(&self, now: Steady) -> Option<Duration> {
        match &self.outlook {
            Some(Outlook::Quarantined { from, .. }) if self.extra < Duration::MAX => {
                Some(from.after(self.extra).since(now))
            }
            _ => None,
        }
    }

    pub(super) fn needs_watching(&self) -> bool {
        let in_or_unknown = matches!(self.outlook, None | Some(Outlook::Admitted));
        !in_or_unknown || self.watch.is_on()
    }
}
