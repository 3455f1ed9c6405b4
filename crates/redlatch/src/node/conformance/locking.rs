//! Checks of the locks themselves: taken, extended, released, expired.

use super::site::{Claim, LONG, OWNER, Outcome, SHORT, Site, problem};
use redlatch_core::{KeyState, Reply, Token, Vote, resource::MAX_RESOURCES};
use std::time::{Duration, Instant};

pub(super) async fn a_free_lock_is_granted_and_then_held(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.free(&ours).await?;
    link.granted(ours.take(LONG)).await?;
    link.held(theirs.take(LONG)).await?;

    link.owned(&ours).await.map(drop)
}

/// A take repeated by the network must not count as a second one.
pub(super) async fn a_take_by_the_same_token_is_held_too(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.held(ours.take(LONG)).await?;

    link.owned(&ours).await.map(drop)
}

/// A node need not report anything, but what it reports must be right.
pub(super) async fn a_refusal_is_right_about_the_holder(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    let Vote::Held(holder) = link.held(theirs.take(LONG)).await? else {
        return problem("a refusal is something else");
    };

    match holder.owner.as_deref() {
        None | Some(OWNER) => {}
        Some(other) => return problem(format!("the owner {OWNER} was shown as {other}")),
    }
    match holder.remaining {
        Some(remaining) => is_about(remaining, LONG),
        None => Ok(()),
    }
}

pub(super) async fn one_of_many_takes_at_once_is_granted(site: &Site<'_>) -> Outcome {
    const ROUNDS: usize = 20;
    let mut links: Vec<_> = (0..8).map(|_| site.link()).collect();
    for round in 0..ROUNDS {
        for link in &mut links {
            link.send(site.claim([round.to_string()]).take(LONG));
        }
        let mut granted = 0;
        for link in &mut links {
            match link.answers().await?.as_slice() {
                [Reply::Vote(Vote::Granted)] => granted += 1,
                [Reply::Vote(Vote::Held(_))] => {}
                other => return problem(format!("a take was answered with {other:?}")),
            }
        }
        if granted != 1 {
            return problem(format!("of 8 takes of one lock at once {granted} were granted"));
        }
    }
    Ok(())
}

pub(super) async fn only_its_token_releases_a_lock(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.gone(theirs.release()).await?;
    link.owned(&ours).await?;
    link.granted(ours.release()).await?;

    link.free(&ours).await
}

pub(super) async fn a_lock_is_released_once(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.gone(ours.release()).await?;
    link.granted(ours.take(LONG)).await?;
    link.granted(ours.release()).await?;
    link.gone(ours.release()).await?;

    link.granted(theirs.take(LONG)).await?;
    link.gone(ours.release()).await?;
    link.owned(&theirs).await.map(drop)
}

pub(super) async fn only_its_token_extends_a_lock(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.gone(theirs.extend(2 * LONG)).await?;

    is_about(link.owned(&ours).await?, LONG)
}

pub(super) async fn an_extension_lengthens(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();

    link.granted(ours.take(LONG / 2)).await?;
    link.granted(ours.extend(LONG)).await?;

    is_about(link.owned(&ours).await?, LONG)
}

pub(super) async fn an_extension_never_shortens(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.granted(ours.extend(SHORT)).await?;
    is_about(link.owned(&ours).await?, LONG)?;

    // Not even slightly: only the time that has passed may be missing.
    let (little, leeway) = (Duration::from_millis(900), Duration::from_millis(100));
    let (start, before) = (Instant::now(), link.owned(&ours).await?);
    link.granted(ours.extend(LONG.saturating_sub(little))).await?;
    let after = link.owned(&ours).await?;
    if after + start.elapsed() + leeway < before {
        return problem(format!("an extension made {after:?} of {before:?} that were left"));
    }
    Ok(())
}

pub(super) async fn an_extension_never_recreates_what_is_gone(site: &Site<'_>) -> Outcome {
    let (released, expired) = (site.claim(["a"]), site.claim(["b"]));
    let mut link = site.link();

    link.granted(released.take(LONG)).await?;
    link.granted(released.release()).await?;
    link.gone(released.extend(LONG)).await?;
    link.free(&released).await?;

    link.granted(expired.take(SHORT)).await?;
    link.expired(&expired).await?;
    link.gone(expired.extend(LONG)).await?;
    link.free(&expired).await
}

pub(super) async fn a_lock_expires_but_not_early(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    let start = Instant::now();
    link.granted(ours.take(SHORT)).await?;
    link.expired(&ours).await?;
    let lived = start.elapsed();

    if lived + drift(SHORT) < SHORT {
        return problem(format!("a lock for {SHORT:?} was free after {lived:?}"));
    }
    link.granted(theirs.take(LONG)).await
}

pub(super) async fn an_extended_lock_outlives_its_first_ttl(site: &Site<'_>) -> Outcome {
    let (ours, witness) = (site.claim(["a"]), site.claim(["b"]));
    let mut link = site.link();

    link.granted(ours.take(SHORT)).await?;
    link.granted(witness.take(SHORT)).await?;
    link.granted(ours.extend(LONG)).await?;
    // The witness was taken later with the same TTL, so it also expires later.
    link.expired(&witness).await?;

    link.owned(&ours).await.map(drop)
}

pub(super) async fn an_expired_lock_belongs_to_the_next_taker(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.granted(ours.take(SHORT)).await?;
    link.expired(&ours).await?;
    link.gone(ours.release()).await?;
    link.granted(theirs.take(LONG)).await?;
    link.gone(ours.extend(2 * LONG)).await?;
    link.gone(ours.release()).await?;

    is_about(link.owned(&theirs).await?, LONG)
}

pub(super) async fn several_are_taken_all_or_nothing(site: &Site<'_>) -> Outcome {
    let theirs = site.claim(["b"]);
    let (ours, first, last) = (site.claim(["a", "b", "c"]), site.claim(["a"]), site.claim(["c"]));
    let mut link = site.link();

    link.granted(theirs.take(LONG)).await?;
    link.held(ours.take(LONG)).await?;
    link.free(&first).await?;
    link.free(&last).await?;
    link.owned(&theirs).await?;

    link.granted(theirs.release()).await?;
    link.granted(ours.take(LONG)).await?;
    is_about(link.owned(&ours).await?, LONG)
}

pub(super) async fn several_are_released_each_for_itself(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a", "b", "c"]);
    let middle = part(site, &ours, "b");
    let (theirs, rest) = (site.claim(["b"]), site.claim(["a", "c"]));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.granted(ours.release()).await?;
    link.free(&ours).await?;

    link.granted(ours.take(LONG)).await?;
    link.granted(middle.release()).await?;
    link.granted(theirs.take(LONG)).await?;
    link.gone(ours.release()).await?;
    link.free(&rest).await?;
    link.owned(&theirs).await.map(drop)
}

pub(super) async fn several_are_extended_all_or_nothing(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a", "b", "c"]);
    let (first, middle, last) =
        (part(site, &ours, "a"), part(site, &ours, "b"), part(site, &ours, "c"));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.granted(ours.extend(2 * LONG)).await?;
    is_about(link.owned(&ours).await?, 2 * LONG)?;

    link.granted(middle.release()).await?;
    link.gone(ours.extend(4 * LONG)).await?;
    is_about(link.owned(&first).await?, 2 * LONG)?;
    is_about(link.owned(&last).await?, 2 * LONG)?;
    link.free(&middle).await
}

pub(super) async fn the_most_and_longest_names_are_taken_together(site: &Site<'_>) -> Outcome {
    let name = |number| format!("{number:0width$}", width = site.room());
    let ours = site.claim((0..MAX_RESOURCES).map(name));
    let theirs = site.claim([name(MAX_RESOURCES - 1)]);
    let neighbour = site.claim([name(MAX_RESOURCES)]);
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.held(theirs.take(LONG)).await?;
    link.granted(neighbour.take(LONG)).await?;
    link.owned(&ours).await?;
    link.granted(ours.release()).await?;

    link.free(&ours).await
}

pub(super) async fn names_are_any_bytes_and_all_different(site: &Site<'_>) -> Outcome {
    let names: &[&[u8]] = &[
        b"a",
        b"A",
        b"a ",
        b" a",
        b"a\0",
        b"a\0b",
        b"\0",
        b"a\r\n",
        b"\n",
        b"%s%n",
        b"{a}",
        b"a*",
        b"'\"; --",
        b"\xff",
        b"\xff\xfe",
        b"\xc3\xa4",
        b"a\xcc\x88",
        b"$5\r\nhello\r\n",
    ];
    let mut link = site.link();

    let claims: Vec<_> = names.iter().map(|name| site.claim([name])).collect();
    for claim in &claims {
        link.granted(claim.take(LONG)).await?;
    }
    for claim in &claims {
        link.owned(claim).await?;
        link.granted(claim.release()).await?;
        link.free(claim).await?;
    }
    Ok(())
}

pub(super) async fn values_are_any_bytes(site: &Site<'_>) -> Outcome {
    let every_byte: Vec<u8> = (0..=255).collect();
    let values: &[&[u8]] = &[b"x", b"\0", b"1", b"01", b"\r\n", b"\xff\xfe", b"nil", &every_byte];
    let mut link = site.link();

    for (number, value) in values.iter().enumerate() {
        let name = number.to_string();
        let ours = site.claim_by([&name], Token::from_bytes(value));
        let longer = site.claim_by([&name], Token::from_bytes(&[value, &b"\0"[..]].concat()));
        link.granted(ours.take(LONG)).await?;
        link.owned(&ours).await?;
        link.held(longer.take(LONG)).await?;
        link.gone(longer.release()).await?;
        link.granted(ours.extend(LONG)).await?;
        link.granted(ours.release()).await?;
    }
    Ok(())
}

pub(super) async fn inspection_shows_value_and_time_in_order(site: &Site<'_>) -> Outcome {
    let (first, last) = (site.claim(["a"]), site.claim(["c"]));
    let all = site.claim(["c", "b", "a"]);
    let mut link = site.link();

    link.granted(first.take(LONG)).await?;
    link.granted(last.take(2 * LONG)).await?;
    let states = link.states(&all).await?;

    let is = |state: &KeyState, claim: &Claim, ttl| match state {
        KeyState::Held { value: Some(value), remaining: Some(remaining), .. }
            if **value == *claim.value() =>
        {
            is_about(*remaining, ttl)
        }
        other => problem(format!("a lock was shown as {other:?}")),
    };
    is(&states[0], &last, 2 * LONG)?;
    is(&states[2], &first, LONG)?;
    match &states[1] {
        KeyState::Free => Ok(()),
        held @ KeyState::Held { .. } => problem(format!("nothing was shown as {held:?}")),
    }
}

/// The claim to just one of its resources.
fn part(site: &Site<'_>, claim: &Claim, name: &str) -> Claim {
    site.claim_by([name], Token::from_bytes(claim.value()))
}

/// Checks that the remaining time fits a lock just set to live for `ttl`.
fn is_about(remaining: Duration, ttl: Duration) -> Outcome {
    // How long a command may be in progress before the node reads the lock.
    const UNDER_WAY: Duration = Duration::from_secs(20);
    if remaining > ttl + drift(ttl) || remaining + UNDER_WAY < ttl {
        return problem(format!("a lock for {ttl:?} had {remaining:?} left shortly after"));
    }
    Ok(())
}

/// How far the node's clock may drift in that time: what every lease allows.
fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}
