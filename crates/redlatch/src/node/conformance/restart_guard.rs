//! Checks of the restart guard.
//!
//! A node in use cannot show what a new one does. But a node taken from other clients is
//! quarantined, too: that is how each check begins.

use super::{
    party::Party,
    site::{CheckedLink, Claim, LONG, Outcome, Site, problem},
};
use redlatch_core::{Command, FencingToken, KeyState, Mark};
use std::time::{Duration, Instant};

pub(super) async fn a_quarantined_node_grants_no_take(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let (plain, fenced) = (site.claim(["a"]), site.claim(["b"]));
    let (held, several) = (site.claim(["c"]), site.claim(["c", "d"]));
    let number = link.numbered(held.take_fenced(LONG, 1)).await?;
    let highest = link.highest().await?;

    link.out(&party).await?;
    link.forgot(party.by(plain.take(LONG))).await?;
    link.forgot(party.by(fenced.take_fenced(LONG, 1))).await?;
    link.forgot(party.by(several.take_fenced(LONG, 1))).await?;

    link.free(&plain).await?;
    link.free(&fenced).await?;
    same(link.highest().await?, highest)?;
    same(standing(&mut link, &held).await?, Some(number))
}

pub(super) async fn a_quarantined_node_raises_no_register(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let ours = site.claim(["a"]);
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;

    link.out(&party).await?;
    link.forgot(party.by(ours.raise(above(number)?))).await?;

    same(standing(&mut link, &ours).await?, Some(number))
}

/// The node has not forgotten them: a restart that keeps its data must not cost a
/// lease.
pub(super) async fn a_quarantined_node_extends_the_locks_it_has(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let (ours, lost) = (site.claim(["a"]), site.claim(["b"]));
    let (theirs, none) = (site.claim(["a"]), site.claim(["a", "b"]));
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;

    link.out(&party).await?;
    link.granted(party.by(ours.extend_fenced(3 * LONG, above(number)?))).await?;
    for other in [lost, theirs, none] {
        link.forgot(party.by(other.extend(LONG))).await?;
        link.forgot(party.by(other.extend_fenced(LONG, above(number)?))).await?;
    }

    same(standing(&mut link, &ours).await?, Some(above(number)?))?;
    let remaining = link.owned(&ours).await?;
    if remaining < 2 * LONG {
        return problem(format!("a lock that was extended lives for {remaining:?}"));
    }
    Ok(())
}

/// A lease held elsewhere must be on the node before it votes again.
pub(super) async fn a_lease_is_planted_also_on_a_quarantined_node(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let (ours, others) = (site.claim(["a"]), site.claim(["a", "b"]));
    link.out(&party).await?;

    link.granted(party.by(ours.plant(LONG))).await?;
    link.held(party.by(others.plant(LONG))).await?;

    link.owned(&ours).await?;
    link.granted(party.by(ours.extend(LONG))).await?;
    link.free(&site.claim(["b"])).await
}

/// An attempt must be undone, whatever has happened to the node meanwhile.
pub(super) async fn a_quarantined_node_still_releases(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let ours = site.claim(["a", "b"]);
    link.admitted(&party).await?;
    link.granted(party.by(ours.take(LONG))).await?;

    link.out(&Party::new()).await?;
    link.granted(ours.release()).await?;
    link.gone(ours.release()).await?;

    link.free(&ours).await
}

pub(super) async fn a_vote_without_guard_needs_no_marker(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    link.admitted(&party).await?;
    let of_others = site.claim(["a"]);
    votes(&mut link, &of_others, |command| command).await?;

    link.out(&Party::new()).await?;
    let of_nobody = site.claim(["b"]);
    votes(&mut link, &of_nobody, |command| command).await
}

pub(super) async fn an_admitted_node_votes(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    link.admitted(&party).await?;

    votes(&mut link, &site.claim(["a"]), |command| party.by(command)).await?;
    let plain = site.claim(["b"]);
    link.granted(party.by(plain.take(LONG))).await?;
    link.held(party.by(plain.take(LONG))).await?;
    link.granted(plain.release()).await?;
    link.gone(party.by(plain.extend(LONG))).await?;

    let mut other = site.link();
    votes(&mut other, &site.claim(["c", "d"]), |command| party.by(command)).await
}

/// As long as the mark is the same, nobody has admitted the node since.
pub(super) async fn a_quarantined_node_keeps_its_first_mark(site: &Site<'_>) -> Outcome {
    let (party, mut here, mut there) = (Party::new(), site.link(), site.link());

    let first = here.out(&party).await?;
    for watch in [party.watch(), party.replace(), Party::new().watch()] {
        same_mark(&party.awaits(&there.facts(watch).await?)?, &first)?;
    }
    same_mark(&party.awaits(&here.facts(party.watch()).await?)?, &first)
}

pub(super) async fn no_two_marks_are_alike(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());

    let first = link.out(&party).await?;
    link.granted(party.admit(&first, None)).await?;
    link.admitted(&Party::new()).await?;
    let second = link.out(&party).await?;

    if first.id == second.id {
        return problem(format!("two marks were both {}", first.id));
    }
    Ok(())
}

pub(super) async fn a_mark_says_how_long_the_node_has_been_quarantined(site: &Site<'_>) -> Outcome {
    const REST: Duration = Duration::from_millis(100);
    // How much the two may differ, including the error of both clocks.
    const LEEWAY: Duration = Duration::from_millis(5);
    let (party, mut link) = (Party::new(), site.link());
    link.admitted(&party).await?;
    let next = Party::new();

    let start = Instant::now();
    let young = link.out(&next).await?.age;
    let until_young = start.elapsed();
    tokio::time::sleep(REST).await;
    let old = next.awaits(&link.facts(next.watch()).await?)?.age;
    let until_old = start.elapsed();

    if young > until_young + LEEWAY || old > until_old + LEEWAY || old + LEEWAY < REST {
        return problem(format!(
            "a mark was {young:?} old after {until_young:?}, and {old:?} after {until_old:?}"
        ));
    }
    Ok(())
}

pub(super) async fn a_watch_leaves_an_admitted_node_alone(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    link.admitted(&party).await?;

    party.has(&link.facts(party.watch()).await?)?;
    party.has(&link.facts(party.replace()).await?)?;
    party.has(&link.facts(party.watch()).await?)?;

    votes(&mut link, &site.claim(["a"]), |command| party.by(command)).await
}

pub(super) async fn an_admission_needs_the_mark_that_is_there(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let ours = site.claim(["a"]);
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    link.admitted(&Party::new()).await?;
    let (mark, highest) = (link.out(&party).await?, link.highest().await?);
    let higher = Some(above(highest.unwrap_or(number))?);

    for wrong in [another(&mark)?, Mark { id: "none".into(), ..mark.clone() }] {
        link.gone(party.admit(&wrong, higher)).await?;
    }
    same(link.highest().await?, highest)?;
    link.forgot(party.by(site.claim(["b"]).take(LONG))).await?;
    same_mark(&party.awaits(&link.facts(party.watch()).await?)?, &mark)?;

    link.granted(party.admit(&mark, None)).await?;
    link.gone(party.admit(&mark, higher)).await?;
    same(link.highest().await?, highest)?;
    party.has(&link.facts(party.watch()).await?)
}

pub(super) async fn no_register_counts_from_below_the_floor(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let (ours, unmoved) = (site.claim(["a"]), site.claim(["b"]));
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    // Ahead of the clock, which numbers never fall behind anyway, and of every
    // number granted here.
    let highest = link.highest().await?.unwrap_or(number);
    let floor = ahead(number)?.max(above(highest)?);
    let mark = link.out(&party).await?;

    link.granted(party.admit(&mark, Some(floor))).await?;

    at_least(link.highest().await?, floor)?;
    same(Some(link.numbered(party.by(ours.raise(number))).await?), Some(floor))?;
    let next = link.numbered(party.by(unmoved.take_fenced(LONG, 1))).await?;
    if next <= floor {
        return problem(format!("the floor is {floor}, but a lock was given {next}"));
    }
    Ok(())
}

pub(super) async fn a_floor_is_never_lowered(site: &Site<'_>) -> Outcome {
    let (party, mut link) = (Party::new(), site.link());
    let ours = site.claim(["a"]);
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let floor = above(link.highest().await?.unwrap_or(number))?;
    let mark = link.out(&party).await?;
    link.granted(party.admit(&mark, Some(floor))).await?;

    let next = Party::new();
    let mark = link.out(&next).await?;
    link.granted(next.admit(&mark, FencingToken::new(1))).await?;

    at_least(link.highest().await?, floor)?;
    same(Some(link.numbered(next.by(ours.raise(number))).await?), Some(floor))
}

pub(super) async fn a_node_of_others_does_not_vote(site: &Site<'_>) -> Outcome {
    let (others, party, mut link) = (Party::new(), Party::new(), site.link());
    let (theirs, ours) = (site.claim(["a"]), site.claim(["b"]));
    link.admitted(&others).await?;
    let number = link.numbered(others.by(theirs.take_fenced(LONG, 1))).await?;

    link.disagrees(party.by(ours.take(LONG)), &others).await?;
    link.disagrees(party.by(theirs.take_fenced(LONG, 1)), &others).await?;
    link.disagrees(party.by(theirs.raise(above(number)?)), &others).await?;
    link.disagrees(party.by(theirs.extend(LONG)), &others).await?;
    link.disagrees(party.by(ours.plant(LONG)), &others).await?;

    link.free(&ours).await?;
    same(standing(&mut link, &theirs).await?, Some(number))?;
    link.granted(others.by(theirs.extend(LONG))).await
}

/// Only an operator knows which agreement is right.
pub(super) async fn a_watch_leaves_a_node_of_others_alone(site: &Site<'_>) -> Outcome {
    let (others, party, mut link) = (Party::new(), Party::new(), site.link());
    link.admitted(&others).await?;

    others.has(&link.facts(party.watch()).await?)?;
    others.has(&link.facts(others.watch()).await?)?;

    votes(&mut link, &site.claim(["a"]), |command| others.by(command)).await
}

pub(super) async fn a_replaced_node_is_quarantined_and_reserved(site: &Site<'_>) -> Outcome {
    let (others, party, mut link) = (Party::new(), Party::new(), site.link());
    let ours = site.claim(["a"]);
    link.admitted(&others).await?;

    let facts = link.facts(party.replace()).await?;
    let mark = party.awaits(&facts)?;
    if facts.agreement.as_deref() != Some(others.agreement()) {
        return problem(format!(
            "it was taken from others, but their agreement is gone: {facts:?}"
        ));
    }
    link.forgot(party.by(ours.take(LONG))).await?;
    link.quarantined(others.by(ours.take(LONG))).await?;
    link.quarantined(others.by(ours.plant(LONG))).await?;
    party.awaits(&link.facts(others.watch()).await?)?;
    link.gone(others.admit(&mark, None)).await?;

    link.granted(party.admit(&mark, None)).await?;
    party.has(&link.facts(party.watch()).await?)?;
    link.disagrees(others.by(ours.take(LONG)), &party).await?;
    votes(&mut link, &ours, |command| party.by(command)).await
}

pub(super) async fn an_examination_reports_what_a_watch_reports(site: &Site<'_>) -> Outcome {
    let (party, next, mut link) = (Party::new(), Party::new(), site.link());

    link.admitted(&party).await?;
    party.has(&link.facts(Command::Examine).await?)?;

    let mark = link.out(&next).await?;
    let facts = link.facts(Command::Examine).await?;
    same_mark(&next.awaits(&facts)?, &mark)?;
    if facts.agreement.as_deref() != Some(party.agreement()) {
        return problem(format!("an examination did not tell the agreement: {facts:?}"));
    }
    Ok(())
}

/// Clients without a restart guard rely on it.
pub(super) async fn the_ledger_is_reported_as_kept(site: &Site<'_>) -> Outcome {
    let (party, next, mut link) = (Party::new(), Party::new(), site.link());

    link.admitted(&party).await?;
    let admitted = link.ledger().await?;
    if admitted.agreement.as_deref() != Some(party.agreement()) || admitted.watched.is_some() {
        return problem(format!("a node that was admitted told {admitted:?}"));
    }

    let mark = link.out(&next).await?;
    let out = link.ledger().await?;
    let kept = (out.admitted.as_deref(), out.agreement.as_deref(), out.watched.as_ref());
    if kept != (None, Some(party.agreement()), Some(&mark.id)) || out.reserved.is_none() {
        return problem(format!("a node that was taken from others told {out:?}"));
    }
    Ok(())
}

pub(super) async fn the_greatest_number_that_was_given_is_reported(site: &Site<'_>) -> Outcome {
    let (mut link, ours, other) = (site.link(), site.claim(["a"]), site.claim(["b"]));
    let lower = link.numbered(other.take_fenced(LONG, 1)).await?;
    let taken = link.numbered(ours.take_fenced(LONG, 1)).await?;
    at_least(link.highest().await?, taken)?;

    let raised = above(above(link.highest().await?.unwrap_or(taken))?)?;
    link.numbered(ours.raise(raised)).await?;
    link.numbered(other.raise(above(lower)?)).await?;
    at_least(link.highest().await?, raised)?;

    let extended = above(raised)?;
    link.granted(ours.extend_fenced(LONG, extended)).await?;
    at_least(link.highest().await?, extended)?;
    link.granted(ours.release()).await?;
    at_least(link.highest().await?, extended)
}

/// Whoever vouches for new nodes relies on it.
pub(super) async fn a_node_that_holds_a_lock_is_not_empty(site: &Site<'_>) -> Outcome {
    let (mut link, ours) = (site.link(), site.claim(["a"]));

    link.granted(ours.take(LONG)).await?;

    if link.facts(Command::Examine).await?.empty {
        return problem("a node with a lock said that it was empty");
    }
    link.granted(ours.release()).await
}

/// Makes the node vote on everything.
async fn votes(link: &mut CheckedLink, ours: &Claim, by: impl Fn(Command) -> Command) -> Outcome {
    let number = link.numbered(by(ours.take_fenced(LONG, 1))).await?;
    same(Some(link.numbered(by(ours.raise(number))).await?), Some(number))?;
    link.granted(by(ours.extend(LONG))).await?;
    link.granted(by(ours.extend_fenced(LONG, number))).await?;
    link.granted(ours.release()).await
}

/// The number in the register of a held claim.
async fn standing(link: &mut CheckedLink, claim: &Claim) -> Outcome<Option<FencingToken>> {
    match link.states(claim).await?.first() {
        Some(KeyState::Held { number, .. }) => Ok(*number),
        _ => problem("a lock that should be held is not"),
    }
}

fn at_least(told: Option<FencingToken>, given: FencingToken) -> Outcome {
    if told >= Some(given) {
        return Ok(());
    }
    problem(format!("{given} was given, but the greatest number told is {told:?}"))
}

/// A mark of the same run that was never made.
fn another(mark: &Mark) -> Outcome<Mark> {
    let Some((run, _)) = mark.id.split_once(' ') else {
        return problem(format!("a mark begins with the run, but this one is {}", mark.id));
    };
    Ok(Mark { id: format!("{run} 0123456789abcdef 0").into(), ..mark.clone() })
}

/// Ten seconds later.
fn ahead(number: FencingToken) -> Outcome<FencingToken> {
    let later = FencingToken::new(number.get() + 10_000_000);
    later.map_or_else(|| problem("no number is left"), Ok)
}

fn above(number: FencingToken) -> Outcome<FencingToken> {
    FencingToken::new(number.get() + 1).map_or_else(|| problem("no number is left"), Ok)
}

fn same(number: Option<FencingToken>, wanted: Option<FencingToken>) -> Outcome {
    if number == wanted {
        return Ok(());
    }
    problem(format!("the register stands at {number:?} and not at {wanted:?}"))
}

fn same_mark(mark: &Mark, wanted: &Mark) -> Outcome {
    if mark.id == wanted.id {
        return Ok(());
    }
    problem(format!("the mark was {}, and then {}", wanted.id, mark.id))
}
