//! Combines what is ready for a server into one call.
//!
//! In:  commands, in order.
//! Out: how many of them, from the first on, go out together, and that call.
//!
//! Promise: a call is short ([`Turn::MOST`]), and carries out its commands in the order in
//! which they were sent. Commands that `turn.lua` does not support are sent by themselves.

use super::{
    resp::{Digits, write_header, write_word},
    scripts::{NODE_KEY, Naming, Script},
    translate::{PlaceText, millis},
};
use redlatch_core::{
    Command, FencingToken, Fingerprint, Place, Proposal, Resource, Then, Token, fence,
};

/// The commands of one call.
#[derive(Debug, Default)]
pub(super) struct Turn {
    commands: usize,
    runs: Vec<Run>,
    /// The registers of the fenced commands, without duplicates.
    registers: Vec<u32>,
    /// Whether there are votes, which all carry the same agreement.
    votes: bool,
    fingerprint: Option<Fingerprint>,
    /// The skew of all proposals, in microseconds, once there are any.
    skew: Option<u64>,
}

/// Commands of one kind, with the same TTL and the same proposal.
#[derive(Debug)]
struct Run {
    kind: Kind,
    ttl: Option<u64>,
    proposed: Option<u64>,
    commands: usize,
}

impl Run {
    fn fits(&self, entry: &Entry<'_>) -> bool {
        (self.kind, self.ttl, self.proposed) == (entry.kind, entry.ttl, entry.proposed)
    }

    fn words(&self) -> usize {
        3 + usize::from(self.proposed.is_some()) + self.commands * self.kind.words()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Take,
    TakeFenced,
    Extend,
    ExtendFenced,
    Release,
    Leave,
    Wait,
    Pass,
}

impl Kind {
    /// Its name in the script.
    const fn name(self) -> &'static [u8] {
        match self {
            Kind::Take => b"take",
            Kind::TakeFenced => b"take_fenced",
            Kind::Extend => b"extend",
            Kind::ExtendFenced => b"extend_fenced",
            Kind::Release => b"release",
            Kind::Leave => b"leave",
            Kind::Wait => b"wait",
            Kind::Pass => b"pass",
        }
    }

    /// How many words each command of this kind has.
    const fn words(self) -> usize {
        match self {
            Kind::Extend | Kind::Release => 2,
            _ => 3,
        }
    }
}

/// One command as the script reads it.
struct Entry<'a> {
    kind: Kind,
    ttl: Option<u64>,
    name: &'a Resource,
    token: &'a Token,
    /// The place of a take, or the ticket of a release.
    place: Option<Place>,
    /// The number that a take proposes.
    proposed: Option<u64>,
    /// The number that an extension carries.
    number: Option<u64>,
    skew: Option<u64>,
    is_vote: bool,
    fingerprint: Option<Fingerprint>,
}

impl<'a> Entry<'a> {
    /// `None` for a command that goes out by itself.
    fn of(command: &'a Command) -> Option<Self> {
        match command {
            Command::Take { resources, token, ttl, fence, fingerprint, place } => Some(Entry {
                kind: if fence.is_some() { Kind::TakeFenced } else { Kind::Take },
                ttl: Some(millis(*ttl)),
                name: resources.single()?,
                token,
                place: *place,
                proposed: fence.map(Proposal::micros),
                number: None,
                skew: fence.map(Proposal::skew_micros),
                is_vote: true,
                fingerprint: *fingerprint,
            }),
            Command::Extend { resources, token, ttl, fence, fingerprint } => Some(Entry {
                kind: if fence.is_some() { Kind::ExtendFenced } else { Kind::Extend },
                ttl: Some(millis(*ttl)),
                name: resources.single()?,
                token,
                place: None,
                proposed: None,
                number: fence.map(FencingToken::get),
                skew: None,
                is_vote: true,
                fingerprint: *fingerprint,
            }),
            Command::Release { resources, token, then } => {
                let (kind, ticket) = match then {
                    None => (Kind::Release, None),
                    Some(Then::Leave(ticket)) => (Kind::Leave, Some(*ticket)),
                    Some(Then::Wait(ticket)) => (Kind::Wait, Some(*ticket)),
                    Some(Then::Pass(ticket)) => (Kind::Pass, Some(*ticket)),
                };
                Some(Entry {
                    kind,
                    ttl: None,
                    name: resources.single()?,
                    token,
                    place: ticket.map(|ticket| Place { ticket, known: false }),
                    proposed: None,
                    number: None,
                    skew: None,
                    is_vote: false,
                    fingerprint: None,
                })
            }
            _ => None,
        }
    }

    fn register(&self) -> Option<u32> {
        self.proposed.or(self.number).map(|_| fence::register(self.name))
    }
}

impl Turn {
    /// The most commands in one call, so that the call keeps the server from its other
    /// clients for less than a millisecond.
    pub(super) const MOST: usize = 64;

    /// Returns how many of these commands, from the first on, go out in one call: at least
    /// one, if there are any. [`write`](Self::write) writes them if there are several.
    pub(super) fn gather<'a>(&mut self, commands: impl Iterator<Item = &'a Command>) -> usize {
        self.commands = 0;
        self.runs.clear();
        self.registers.clear();
        (self.votes, self.fingerprint, self.skew) = (false, None, None);
        for command in commands {
            let Some(entry) = Entry::of(command) else { return self.commands.max(1) };
            let register = entry.register();
            if !self.admits(&entry, register) {
                return self.commands;
            }
            self.add(&entry, register);
        }
        self.commands
    }

    /// Whether the script can carry it out in the same call.
    fn admits(&self, entry: &Entry<'_>, register: Option<u32>) -> bool {
        let agrees = !self.votes || !entry.is_vote || self.fingerprint == entry.fingerprint;
        let skew_fits = self.skew.is_none() || entry.skew.is_none() || self.skew == entry.skew;
        let is_new = |register| !self.registers.contains(&register);
        self.commands < Self::MOST && agrees && skew_fits && register.is_none_or(is_new)
    }

    fn add(&mut self, entry: &Entry<'_>, register: Option<u32>) {
        self.commands += 1;
        self.votes |= entry.is_vote;
        self.fingerprint = self.fingerprint.or(entry.fingerprint);
        self.skew = self.skew.or(entry.skew);
        self.registers.extend(register);
        match self.runs.last_mut() {
            Some(run) if run.fits(entry) => run.commands += 1,
            _ => {
                let Entry { kind, ttl, proposed, .. } = *entry;
                self.runs.push(Run { kind, ttl, proposed, commands: 1 });
            }
        }
    }

    /// The agreement that the votes carry.
    pub(super) fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// Appends the call for the gathered commands.
    pub(super) fn write<'a>(
        &self,
        out: &mut Vec<u8>,
        commands: impl Iterator<Item = &'a Command>,
        marker: &[u8],
        naming: Naming,
    ) {
        let words = 7 + self.registers.len() + self.runs.iter().map(Run::words).sum::<usize>();
        let (verb, body) = naming.of(Script::Turn);
        let mut digits = Digits::default();
        write_header(out, b'*', words);
        write_word(out, verb);
        write_word(out, &body);
        write_word(out, b"1");
        write_word(out, NODE_KEY);
        write_word(out, marker);
        write_word(out, digits.of(self.skew.unwrap_or_default()));
        write_word(out, digits.of(self.registers.len() as u64));
        for register in &self.registers {
            write_word(out, digits.of((*register).into()));
        }
        let mut entries = commands.filter_map(Entry::of);
        for run in &self.runs {
            write_word(out, run.kind.name());
            write_word(out, digits.of(run.commands as u64));
            write_word(out, run.ttl.map_or(&[], |ttl| digits.of(ttl)));
            if let Some(proposed) = run.proposed {
                write_word(out, digits.of(proposed));
            }
            for entry in entries.by_ref().take(run.commands) {
                write_entry(out, &entry);
            }
        }
    }
}

fn write_entry(out: &mut Vec<u8>, entry: &Entry<'_>) {
    write_word(out, entry.name.as_bytes());
    write_word(out, entry.token.as_bytes());
    let is_take = matches!(entry.kind, Kind::Take | Kind::TakeFenced);
    match entry.place {
        Some(place) => write_word(out, PlaceText::of(place).as_bytes()),
        None if is_take => write_word(out, b""),
        None => {}
    }
    if let Some(number) = entry.number {
        write_word(out, Digits::default().of(number));
    }
}
