//! What the user wants to see: the order, a filter, one lock. Pure.

use super::keys::Key;
use crate::{
    live::{Lock, Snapshot},
    percent,
};
use std::cmp::Reverse;

/// How far the page keys go.
const PAGE: usize = 10;

#[derive(Debug, Clone, Default)]
pub(super) struct View {
    pub(super) sort: Sort,
    pub(super) filter: String,
    /// Whether keys are typed into the filter.
    pub(super) is_typing: bool,
    /// The lock under the cursor.
    pub(super) selected: Option<String>,
    pub(super) page: Page,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Page {
    #[default]
    All,
    /// The selected lock.
    One,
    Help,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    /// What is wrong, first.
    #[default]
    Trouble,
    Name,
    Oldest,
    Waiting,
    EndsFirst,
}

impl Sort {
    pub(super) fn word(self) -> &'static str {
        match self {
            Sort::Trouble => "trouble",
            Sort::Name => "name",
            Sort::Oldest => "oldest",
            Sort::Waiting => "most waited for",
            Sort::EndsFirst => "ends first",
        }
    }

    fn next(self) -> Self {
        match self {
            Sort::Trouble => Sort::Name,
            Sort::Name => Sort::Oldest,
            Sort::Oldest => Sort::Waiting,
            Sort::Waiting => Sort::EndsFirst,
            Sort::EndsFirst => Sort::Trouble,
        }
    }
}

impl View {
    /// The locks to show, in order.
    pub(super) fn locks<'a>(&self, snapshot: &'a Snapshot) -> Vec<&'a Lock> {
        let is_wanted = |lock: &&Lock| lock.contains(&self.filter);
        let mut locks: Vec<&Lock> = snapshot.locks.iter().filter(is_wanted).collect();
        match self.sort {
            Sort::Name => {}
            Sort::Trouble => locks.sort_by_key(|lock| {
                (!lock.state.is_on_few(), lock.is_renewed, Reverse(lock.waiters))
            }),
            Sort::Waiting => locks.sort_by_key(|lock| Reverse(lock.waiters)),
            Sort::Oldest => locks.sort_by_key(|lock| Reverse(lock.held_for)),
            Sort::EndsFirst => locks.sort_by_key(|lock| (lock.remaining.is_none(), lock.remaining)),
        }
        locks
    }

    /// Where the cursor is.
    pub(super) fn position(&self, locks: &[&Lock]) -> usize {
        let is_selected = |lock: &&Lock| Some(&lock.id) == self.selected.as_ref();
        locks.iter().position(is_selected).unwrap_or(0)
    }

    /// The exact name of the lock to show in detail.
    pub(super) fn wanted(&self) -> Option<Vec<u8>> {
        let id = self.selected.as_ref().filter(|_| self.page == Page::One)?;
        percent::decode(id)
    }

    /// Does what the key says. Returns whether to quit.
    pub(super) fn press(&mut self, key: Key, snapshot: Option<&Snapshot>) -> bool {
        if self.is_typing {
            self.edit(key);
            return false;
        }
        match key {
            Key::Char('q') => return true,
            Key::Char('?' | 'h') if self.page != Page::Help => self.page = Page::Help,
            Key::Escape if self.page == Page::All => self.filter.clear(),
            Key::Escape | Key::Backspace | Key::Char('?' | 'h') => self.page = Page::All,
            Key::Enter if self.page == Page::Help => self.page = Page::All,
            Key::Char('s') => self.sort = self.sort.next(),
            Key::Char('/') => {
                self.page = Page::All;
                self.is_typing = true;
            }
            Key::Enter => {
                self.go(snapshot, |at| at);
                self.page = if self.selected.is_some() { Page::One } else { Page::All };
            }
            Key::Up | Key::Down | Key::Char('j' | 'k') if self.selected.is_none() => {
                self.go(snapshot, |at| at);
            }
            Key::Up | Key::Char('k') => self.go(snapshot, |at| at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.go(snapshot, |at| at + 1),
            Key::PageUp => self.go(snapshot, |at| at.saturating_sub(PAGE)),
            Key::PageDown => self.go(snapshot, |at| at + PAGE),
            Key::Home => self.go(snapshot, |_| 0),
            Key::End => self.go(snapshot, |_| usize::MAX),
            Key::Char(_) => {}
        }
        false
    }

    fn edit(&mut self, key: Key) {
        match key {
            Key::Char(char) if !char.is_control() => self.filter.push(char),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn go(&mut self, snapshot: Option<&Snapshot>, to: impl Fn(usize) -> usize) {
        let Some(snapshot) = snapshot else { return };
        let locks = self.locks(snapshot);
        let at = to(self.position(&locks)).min(locks.len().saturating_sub(1));
        self.selected = locks.get(at).map(|lock| lock.id.clone());
    }
}
