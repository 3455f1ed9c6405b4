//! Seeds, too, find known mistakes planted in the core, one at a time. Runs alone
//! in its process: a planted mistake affects the whole process.
#![cfg(feature = "mutants")]

use redlatch_core::mutant::{Mutant, plant};
use redlatch_sim::search::{
    schedule::Schedule,
    world::{Options, play},
};

/// Of the other mutants, some need a coincidence that hardly any seed has, and one
/// (no undo where the take was refused) is harmless unless the network repeats
/// commands, which TCP never does: the model finds those. The command `mutants`
/// hunts more of them.
#[test]
fn planted_mistakes_of_the_core_are_found() {
    for (mutant, seeds) in [
        (Mutant::TokenReused, 60),
        (Mutant::NoSecondRound, 100),
        (Mutant::QuarantineTooShort, 100),
        (Mutant::WindowWithoutSkew, 50),
        (Mutant::AdmitsThoughRefused, 100),
        (Mutant::NumberNotCarried, 20),
        (Mutant::ValidityNotRechecked, 100),
    ] {
        plant(Some(mutant));

        let broken = (0..seeds)
            .find(|seed| play(&Schedule::of(*seed), Options::default()).violation.is_some());

        assert!(broken.is_some(), "{mutant:?} was not found in {seeds} seeds");
    }
    plant(None);
}
