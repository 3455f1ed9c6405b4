//! Checks of fencing tokens.

use super::site::{CheckedLink, Claim, LONG, Outcome, Site, problem};
use redlatch_core::{Command, FencingToken, KeyState, fence, fence::DEFAULT_SKEW};
use std::time::Duration;

/// Microseconds since 1970.
fn wall_clock() -> u64 {
    crate::driver::clock::wall_micros()
}

const SECOND: u64 = 1_000_000;

pub(super) async fn a_proposal_near_the_clock_is_the_number(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let proposed = wall_clock() + 15 * SECOND;

    let number = link.numbered(ours.take_fenced(LONG, proposed)).await?.get();

    // Another lock that shares the register may have moved it further.
    if number < proposed || number > proposed + 20 * SECOND {
        return problem(format!("{proposed} was proposed, and {number} was the number"));
    }
    Ok(())
}

pub(super) async fn a_proposal_far_from_the_clock_is_clamped(site: &Site<'_>) -> Outcome {
    let (high, low) = (site.claim(["a"]), site.claim(["b"]));
    let mut link = site.link();

    let year_2200 = 7_258_118_400 * SECOND;
    let from_ahead = link.numbered(high.take_fenced(LONG, year_2200)).await?.get();
    let from_behind = link.numbered(low.take_fenced(LONG, 1)).await?.get();

    let now = wall_clock();
    for number in [from_ahead, from_behind] {
        if number < now - 60 * SECOND || number > now + 60 * SECOND {
            return problem(format!("a wrong clock made the number {number} at {now}"));
        }
    }
    Ok(())
}

/// A proposal within the skew is accepted; a proposal beyond it is capped at the skew.
pub(super) async fn a_proposal_is_no_further_ahead_than_the_skew(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    // A node that reports no clock uses ours.
    let before = link.facts(Command::Examine).await?.clock.map_or_else(wall_clock, micros);

    let proposed = before + micros(DEFAULT_SKEW * 3 / 2);
    let number = link.numbered(ours.take_fenced(LONG, proposed)).await?.get();

    let after = link.facts(Command::Examine).await?.clock.map_or_else(wall_clock, micros);
    if number > after + micros(DEFAULT_SKEW) {
        return problem(format!("{proposed} was proposed at {before}, and {number} came"));
    }
    Ok(())
}

pub(super) async fn numbers_grow_whatever_is_proposed(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    let mut last = 0;
    for proposed in [wall_clock() + 20 * SECOND, wall_clock(), 1] {
        let ours = site.claim(["a"]);
        let number = link.numbered(ours.take_fenced(LONG, proposed)).await?.get();
        link.granted(ours.release()).await?;
        if number <= last {
            return problem(format!("{number} came after {last}"));
        }
        last = number;
    }
    Ok(())
}

/// Two clients whose clocks show the same time propose the same number.
pub(super) async fn numbers_grow_though_the_last_one_is_proposed_again(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    let mut last = wall_clock() + 15 * SECOND;
    for _ in 0..3 {
        let ours = site.claim(["a"]);
        let number = link.numbered(ours.take_fenced(LONG, last)).await?.get();
        link.granted(ours.release()).await?;
        let again = link.numbered(ours.take_fenced(LONG, number)).await?.get();
        link.granted(ours.release()).await?;
        if again <= number {
            return problem(format!("{number} was proposed when it was given out: {again} came"));
        }
        last = again;
    }
    Ok(())
}

pub(super) async fn a_refused_take_moves_no_register(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    link.held(theirs.take_fenced(LONG, number.get() + SECOND)).await?;

    same_number(link.numbered(ours.raise(number)).await?, number)
}

pub(super) async fn several_get_one_number_above_all_theirs(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    for name in ["a", "b", "c"] {
        let (alone, together) = (site.claim([name]), site.claim(["a", "b", "c"]));
        let before = link.numbered(alone.take_fenced(LONG, wall_clock() + 25 * SECOND)).await?;
        link.granted(alone.release()).await?;

        let number = link.numbered(together.take_fenced(LONG, 1)).await?;
        link.granted(together.release()).await?;

        let after = site.claim([name]);
        let later = link.numbered(after.take_fenced(LONG, 1)).await?;
        link.granted(after.release()).await?;
        if before >= number || number >= later {
            return problem(format!("the numbers were {before}, {number} for all three, {later}"));
        }
    }
    Ok(())
}

pub(super) async fn only_its_token_raises_a_register(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;

    link.gone(theirs.raise(next(number)?)).await?;

    same_number(link.numbered(ours.raise(number)).await?, number)
}

pub(super) async fn a_raise_reaches_at_least_its_number(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let higher = next(number)?;

    same_number(link.numbered(ours.raise(higher)).await?, higher)?;
    same_number(link.numbered(ours.raise(number)).await?, higher)
}

pub(super) async fn a_raise_moves_the_registers_of_all(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a", "b", "c"]);
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let higher = next(number)?;

    same_number(link.numbered(ours.raise(higher)).await?, higher)?;

    all_stand_at(&mut link, &ours, higher).await
}

/// Another lock that shares one of the registers may have moved it in the meantime.
pub(super) async fn a_raise_answers_the_greatest_of_all_registers(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    for name in ["a", "b", "c"] {
        let (one, ours) = (site.claim([name]), site.claim(["a", "b", "c"]));
        let other = alike(site, &one)?;
        let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
        let theirs = link.numbered(other.take_fenced(LONG, 1)).await?;
        if theirs <= number {
            return problem(format!("one register gave {number}, and then {theirs}"));
        }

        same_number(link.numbered(ours.raise(number)).await?, theirs)?;

        all_stand_at(&mut link, &ours, theirs).await?;
        link.granted(other.release()).await?;
        link.granted(ours.release()).await?;
    }
    Ok(())
}

/// A claim to another name with the same register.
fn alike(site: &Site<'_>, claim: &Claim) -> Outcome<Claim> {
    let names = (0..u64::from(fence::REGISTERS) * 64).map(|number| format!("alike {number}"));
    let found = names.map(|name| site.unclaimed(&name)).find(|other| other.1 == claim.register());
    found.map_or_else(
        || problem("no other name has that register"),
        |(name, _)| Ok(site.claim([name])),
    )
}

pub(super) async fn several_are_raised_all_or_nothing(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    for name in ["a", "b", "c"] {
        let ours = site.claim(["a", "b", "c"]);
        let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
        link.granted(ours.only(site, name).release()).await?;

        link.gone(ours.raise(next(number)?)).await?;

        link.gone(ours.release()).await?;
        let after = site.claim(["a", "b", "c"]);
        let stands = link.numbered(after.take_fenced(LONG, 1)).await?;
        link.granted(after.release()).await?;
        if stands <= number {
            return problem(format!("{stands} came after {number}"));
        }
    }
    Ok(())
}

pub(super) async fn an_extension_moves_the_registers_of_all(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a", "b", "c"]);
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let higher = next(number)?;

    link.granted(ours.extend_fenced(LONG, higher)).await?;

    all_stand_at(&mut link, &ours, higher).await
}

/// Checks that the register of each resource has this number.
async fn all_stand_at(link: &mut CheckedLink, ours: &Claim, wanted: FencingToken) -> Outcome {
    for state in link.states(ours).await? {
        match state {
            KeyState::Held { number: Some(number), .. } => same_number(number, wanted)?,
            other => return problem(format!("a fenced lock of ours is {other:?}")),
        }
    }
    Ok(())
}

pub(super) async fn an_extension_carries_its_number(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let higher = next(number)?;

    link.granted(ours.extend_fenced(LONG, higher)).await?;
    link.granted(ours.extend_fenced(LONG, number)).await?;

    same_number(link.numbered(ours.raise(number)).await?, higher)
}

pub(super) async fn a_release_keeps_the_number(site: &Site<'_>) -> Outcome {
    let (first, second) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();
    let before = link.numbered(first.take_fenced(LONG, wall_clock() + 20 * SECOND)).await?;

    link.granted(first.release()).await?;

    let after = link.numbered(second.take_fenced(LONG, 1)).await?;
    if after > before { Ok(()) } else { problem(format!("{after} came after {before}")) }
}

fn next(number: FencingToken) -> Outcome<FencingToken> {
    FencingToken::new(number.get() + 1).map_or_else(|| problem("no number is left"), Ok)
}

fn same_number(number: FencingToken, wanted: FencingToken) -> Outcome {
    if number == wanted {
        return Ok(());
    }
    problem(format!("the register stands at {number} and not at {wanted}"))
}

pub(super) async fn inspection_shows_the_register_of_each_lock(site: &Site<'_>) -> Outcome {
    let (first, last) = (site.claim(["a"]), site.claim(["c"]));
    let all = site.claim(["c", "b", "a"]);
    let mut link = site.link();

    let lower = link.numbered(first.take_fenced(LONG, 1)).await?;
    let upper = link.numbered(last.take_fenced(LONG, 1)).await?;
    let Some(upper) = FencingToken::new(upper.get() + 1_000_000) else {
        return problem("no number is left");
    };
    link.numbered(last.raise(upper)).await?;
    let states = link.states(&all).await?;

    let shown: Vec<_> = states
        .iter()
        .map(|state| match state {
            KeyState::Held { number, .. } => *number,
            KeyState::Free => None,
        })
        .collect();
    // Names with the same hash share a register.
    let alike = fence::register(first.first()) == fence::register(last.first());
    let expected = [Some(upper), None, Some(if alike { upper } else { lower })];
    if shown != expected {
        return problem(format!("{shown:?} was shown where {expected:?} are the numbers"));
    }
    Ok(())
}
