//! Known mistakes in the core's decisions, planted one at a time, are found by
//! seeds, too. Alone in its process: what is planted is planted for all of it.
#![cfg(feature = "mutants")]

use redlatch_core::mutant::{Mutant, plant};
use redlatch_sim::search::{
    schedule::Schedule,
    world::{Options, play},
};

/// Of the others, some take a coincidence that hardly any seed has, and one (not
/// undoing where the take was refused) does no harm as long as the network does
/// not repeat commands, which TCP never does: the exhaustive model finds those.
/// The command `mutants` hunts more of them.
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
