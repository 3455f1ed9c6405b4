//! The suite finds what it is there to find: fences with known faults.

use super::suite::{CHECKS, Target, failures};
use redlatch::{
    FencingToken,
    fence::{self, Stale},
};
use std::{
    collections::BTreeSet,
    mem,
    sync::{Arc, Mutex, MutexGuard},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    KeepsTheFirstValue,
    AppliesAll,
    RefusesEqual,
    RefusesEqualSeals,
    StaleWritesAllTheSame,
    StaleSealErases,
    SealDoesNothing,
    SealErases,
    SealLowers,
    NamesTheWrongToken,
    ComparesText,
    ComparesRoughly,
    ForgetsPerConnection,
    ChecksBeforeItWrites,
    CutsAtZero,
    ForgetsSealOfNothing,
}

const FAULTS: [Fault; 16] = [
    Fault::KeepsTheFirstValue,
    Fault::AppliesAll,
    Fault::RefusesEqual,
    Fault::RefusesEqualSeals,
    Fault::StaleWritesAllTheSame,
    Fault::StaleSealErases,
    Fault::SealDoesNothing,
    Fault::SealErases,
    Fault::SealLowers,
    Fault::NamesTheWrongToken,
    Fault::ComparesText,
    Fault::ComparesRoughly,
    Fault::ForgetsPerConnection,
    Fault::ChecksBeforeItWrites,
    Fault::CutsAtZero,
    Fault::ForgetsSealOfNothing,
];

/// All who write at once go far beyond this token.
const EARLY: u64 = 150;

#[derive(Debug, Clone, Default)]
struct State {
    greatest: Option<FencingToken>,
    value: Option<Vec<u8>>,
    /// Whether a write has let all others overtake it.
    has_waited: bool,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    state: Arc<Mutex<State>>,
}

impl Faulty {
    fn with(fault: Fault) -> Self {
        Faulty { fault, state: Arc::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// Of several who write at once, one that began early is last to finish, however the
    /// machine schedules them.
    async fn until_alone(&self, token: FencingToken) {
        // The place under test, the watcher's and this one.
        let is_alone = || Arc::strong_count(&self.state) <= 3;
        if token.get() > EARLY || is_alone() || mem::replace(&mut self.state().has_waited, true) {
            return;
        }
        while !is_alone() {
            tokio::task::yield_now().await;
        }
    }

    fn admits(&self, greatest: Option<FencingToken>, token: FencingToken) -> Result<(), Stale> {
        let stale = fence::accept(greatest, token);
        let Some(seen) = greatest else { return stale };
        let refusal = || fence::accept(FencingToken::new(seen.get() + 1), token);
        #[expect(clippy::cast_precision_loss, reason = "that is the fault")]
        let roughly = |token: FencingToken| token.get() as f32;
        match self.fault {
            Fault::AppliesAll => Ok(()),
            Fault::RefusesEqual if seen == token => refusal(),
            Fault::NamesTheWrongToken if stale.is_err() => refusal(),
            Fault::ComparesText if seen.to_string() <= token.to_string() => Ok(()),
            Fault::ComparesText => refusal(),
            Fault::ComparesRoughly if roughly(seen) <= roughly(token) => Ok(()),
            _ => stale,
        }
    }
}

impl Target for Faulty {
    type Error = Stale;

    async fn another(&mut self) -> Self {
        let state = match self.fault {
            Fault::ForgetsPerConnection => {
                Arc::new(Mutex::new(State { greatest: None, ..self.state().clone() }))
            }
            _ => self.state.clone(),
        };
        Faulty { fault: self.fault, state }
    }

    async fn write(&mut self, token: FencingToken, value: &[u8]) -> Result<(), Stale> {
        if self.fault == Fault::ChecksBeforeItWrites {
            let greatest = self.state().greatest;
            self.admits(greatest, token)?;
            self.until_alone(token).await;
        }
        let mut state = self.state();
        if self.fault != Fault::ChecksBeforeItWrites {
            let admitted = self.admits(state.greatest, token);
            if self.fault == Fault::StaleWritesAllTheSame {
                state.value = Some(value.to_vec());
            }
            admitted?;
        }
        state.greatest = Some(token);
        if self.fault == Fault::KeepsTheFirstValue && state.value.is_some() {
            return Ok(());
        }
        let cut = self.fault == Fault::CutsAtZero;
        let value = value.split(|byte| cut && *byte == 0).next().unwrap_or_default();
        state.value = Some(value.to_vec());
        Ok(())
    }

    async fn seal(&mut self, token: FencingToken) -> Result<(), Stale> {
        let mut state = self.state();
        match self.fault {
            Fault::SealDoesNothing => return Ok(()),
            Fault::SealLowers => {}
            Fault::ForgetsSealOfNothing if state.value.is_none() => return Ok(()),
            Fault::RefusesEqualSeals if state.greatest == Some(token) => {
                fence::accept(FencingToken::new(token.get() + 1), token)?;
            }
            Fault::StaleSealErases if fence::accept(state.greatest, token).is_err() => {
                state.value = None;
                self.admits(state.greatest, token)?;
            }
            _ => self.admits(state.greatest, token)?,
        }
        state.greatest = Some(token);
        if self.fault == Fault::SealErases {
            state.value = None;
        }
        Ok(())
    }

    async fn read(&mut self) -> Option<Vec<u8>> {
        self.state().value.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_planted_fault_is_found_and_every_check_finds_one() {
    let mut useful = BTreeSet::new();

    for fault in FAULTS {
        let failed = failures(async || Faulty::with(fault)).await;
        assert!(!failed.is_empty(), "{fault:?} passes the suite");
        useful.extend(failed);
    }

    let idle: Vec<_> = CHECKS.iter().filter(|check| !useful.contains(*check)).collect();
    assert!(idle.is_empty(), "these never fail: {idle:?}");
    assert_eq!(failures(async || Faulty::with(Fault::None)).await, [""; 0]);
}
