//! Replaces `meter` without the feature `metrics`: the same calls, which do nothing, read
//! no clock and use no memory.
#![expect(clippy::unused_self, reason = "the same calls")]

use super::LeaseEnd;
use crate::driver::clock::Clock;
use redlatch_core::{AcquireError, Ballot, Moment, Reply, Tag};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Meter;

impl Meter {
    pub(super) fn of(_: impl IntoIterator<Item = Arc<str>>) -> Self {
        Meter
    }

    pub(super) fn round(&self, _: &Ballot) {}
}

#[derive(Debug, Default)]
pub(super) struct OnTheWay {}

impl OnTheWay {
    pub(super) fn sent(&mut self, _: Clock, _: usize, _: Tag) {}
    pub(super) fn replied(&mut self, _: Moment, _: usize, _: (Tag, &Reply), _: &Meter) {}
}

pub(super) fn attempt(_: Option<&AcquireError>) {}
pub(super) fn renewal(_: bool) {}
pub(super) fn not_voting(_: &Arc<str>, _: &'static str, _: f64) {}

#[derive(Debug)]
pub(super) struct Holding;

impl Holding {
    pub(super) fn begin(_: Clock) -> Self {
        Holding
    }

    pub(super) fn end(&self, _: Clock, _: &LeaseEnd) {}
}

pub(crate) struct Waiting;

impl Waiting {
    pub(crate) fn since(_: Moment, _: Clock) -> Self {
        Waiting
    }

    pub(crate) fn end_as(self, _: &'static str) {}
}
