//! The checks. The name of each is a sentence that is true for a node.

use super::{
    guard,
    site::{Claim, LONG, OWNER, Outcome, SHORT, Site, problem},
};
use redlatch_core::{FencingToken, KeyState, Reply, Token, Vote, fence, resource::MAX_RESOURCES};
use std::{
    pin::Pin,
    time::{Duration, Instant},
};

pub(super) type Check = for<'a> fn(&'a Site<'a>) -> Running<'a>;
type Running<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

macro_rules! all {
    ($($name:ident)*; guard: $($guard:ident)*) => {
        /// All checks by name.
        pub(super) const ALL: &[(&str, Check)] = &[
            $((stringify!($name), |site| Box::pin($name(site))),)*
            $((stringify!($guard), |site| Box::pin(guard::$guard(site)))),*
        ];
    };
}

all! {
    a_free_lock_is_granted_and_then_held
    a_take_by_the_same_token_is_held_too
    a_refusal_tells_the_truth_about_the_holder
    one_of_many_takes_at_once_is_granted
    only_its_token_releases_a_lock
    a_lock_is_released_once
    only_its_token_extends_a_lock
    an_extension_lengthens
    an_extension_never_shortens
    an_extension_never_recreates_what_is_gone
    a_lock_expires_but_not_early
    an_extended_lock_outlives_its_first_ttl
    an_expired_lock_belongs_to_who_takes_it_next
    several_are_taken_all_or_nothing
    several_are_released_each_for_itself
    several_are_extended_all_or_nothing
    the_most_and_longest_names_are_taken_together
    names_are_any_bytes_and_all_different
    values_are_any_bytes
    inspection_shows_value_and_time_in_order
    inspection_shows_what_the_register_of_each_lock_stands_at
    commands_sent_at_once_are_carried_out_in_order
    every_command_is_answered_once
    links_see_each_other
    all_links_name_the_same_run
    a_dropped_link_does_no_harm
    a_proposal_near_the_clock_is_the_number
    a_proposal_far_from_the_clock_is_clamped
    numbers_grow_whatever_is_proposed
    a_refused_take_moves_no_register
    several_get_one_number_above_all_theirs
    only_its_token_raises_a_register
    a_raise_reaches_at_least_its_number
    an_extension_brings_its_number_along
    a_release_keeps_the_number;
    guard:
    a_node_that_is_out_grants_no_take
    a_node_that_is_out_raises_no_register
    a_node_that_is_out_extends_no_lock
    a_node_that_is_out_releases_all_the_same
    a_vote_without_guard_needs_no_marker
    an_admitted_node_votes
    a_node_that_is_out_keeps_its_first_mark
    no_two_marks_are_alike
    a_mark_tells_for_how_long_the_node_has_been_out
    a_watch_leaves_an_admitted_node_alone
    an_admission_needs_the_mark_that_is_there
    an_admission_raises_the_registers_that_are_behind
    a_node_of_others_does_not_vote
    a_watch_leaves_a_node_of_others_alone
    a_replaced_node_is_out_and_reserved
    an_examination_tells_what_a_watch_tells
    every_number_that_was_given_out_is_told
}

/// Microseconds since 1970.
fn wall_clock() -> u64 {
    crate::clock::wall_micros()
}

const SECOND: u64 = 1_000_000;

async fn a_proposal_near_the_clock_is_the_number(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let proposed = wall_clock() + 15 * SECOND;

    let number = link.numbered(ours.take_fenced(LONG, proposed)).await?.get();

    // Another lock of the same register may have moved it further.
    if number < proposed || number > proposed + 20 * SECOND {
        return problem(format!("{proposed} was proposed, and {number} was the number"));
    }
    Ok(())
}

async fn a_proposal_far_from_the_clock_is_clamped(site: &Site<'_>) -> Outcome {
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

async fn numbers_grow_whatever_is_proposed(site: &Site<'_>) -> Outcome {
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

async fn a_refused_take_moves_no_register(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    link.held(theirs.take_fenced(LONG, number.get() + SECOND)).await?;

    same_number(link.numbered(ours.raise(number)).await?, number)
}

async fn several_get_one_number_above_all_theirs(site: &Site<'_>) -> Outcome {
    let (alone, together) = (site.claim(["b"]), site.claim(["a", "b", "c"]));
    let mut link = site.link();
    let before = link.numbered(alone.take_fenced(LONG, wall_clock() + 25 * SECOND)).await?;
    link.granted(alone.release()).await?;

    let number = link.numbered(together.take_fenced(LONG, 1)).await?;
    link.granted(together.release()).await?;

    let after = site.claim(["c"]);
    let later = link.numbered(after.take_fenced(LONG, 1)).await?;
    if before < number && number < later {
        return Ok(());
    }
    problem(format!("the numbers were {before}, {number} for all three, {later}"))
}

async fn only_its_token_raises_a_register(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;

    link.gone(theirs.raise(next(number)?)).await?;

    same_number(link.numbered(ours.raise(number)).await?, number)
}

async fn a_raise_reaches_at_least_its_number(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let higher = next(number)?;

    same_number(link.numbered(ours.raise(higher)).await?, higher)?;
    same_number(link.numbered(ours.raise(number)).await?, higher)
}

async fn an_extension_brings_its_number_along(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();
    let number = link.numbered(ours.take_fenced(LONG, 1)).await?;
    let higher = next(number)?;

    link.granted(ours.extend_fenced(LONG, higher)).await?;
    link.granted(ours.extend_fenced(LONG, number)).await?;

    same_number(link.numbered(ours.raise(number)).await?, higher)
}

async fn a_release_keeps_the_number(site: &Site<'_>) -> Outcome {
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

async fn a_free_lock_is_granted_and_then_held(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.free(&ours).await?;
    link.granted(ours.take(LONG)).await?;
    link.held(theirs.take(LONG)).await?;

    link.owned(&ours).await.map(drop)
}

/// A take that the network repeated must not pass for a second one.
async fn a_take_by_the_same_token_is_held_too(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.held(ours.take(LONG)).await?;

    link.owned(&ours).await.map(drop)
}

/// A node need not tell anything, but what it tells must be right.
async fn a_refusal_tells_the_truth_about_the_holder(site: &Site<'_>) -> Outcome {
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

async fn one_of_many_takes_at_once_is_granted(site: &Site<'_>) -> Outcome {
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

async fn only_its_token_releases_a_lock(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.gone(theirs.release()).await?;
    link.owned(&ours).await?;
    link.granted(ours.release()).await?;

    link.free(&ours).await
}

async fn a_lock_is_released_once(site: &Site<'_>) -> Outcome {
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

async fn only_its_token_extends_a_lock(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.gone(theirs.extend(2 * LONG)).await?;

    is_about(link.owned(&ours).await?, LONG)
}

async fn an_extension_lengthens(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();

    link.granted(ours.take(LONG / 2)).await?;
    link.granted(ours.extend(LONG)).await?;

    is_about(link.owned(&ours).await?, LONG)
}

async fn an_extension_never_shortens(site: &Site<'_>) -> Outcome {
    let ours = site.claim(["a"]);
    let mut link = site.link();

    link.granted(ours.take(LONG)).await?;
    link.granted(ours.extend(SHORT)).await?;

    is_about(link.owned(&ours).await?, LONG)
}

async fn an_extension_never_recreates_what_is_gone(site: &Site<'_>) -> Outcome {
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

async fn a_lock_expires_but_not_early(site: &Site<'_>) -> Outcome {
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

async fn an_extended_lock_outlives_its_first_ttl(site: &Site<'_>) -> Outcome {
    let (ours, witness) = (site.claim(["a"]), site.claim(["b"]));
    let mut link = site.link();

    link.granted(ours.take(SHORT)).await?;
    link.granted(witness.take(SHORT)).await?;
    link.granted(ours.extend(LONG)).await?;
    // The witness was taken later for the same time: it expires later, too.
    link.expired(&witness).await?;

    link.owned(&ours).await.map(drop)
}

async fn an_expired_lock_belongs_to_who_takes_it_next(site: &Site<'_>) -> Outcome {
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

async fn several_are_taken_all_or_nothing(site: &Site<'_>) -> Outcome {
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

async fn several_are_released_each_for_itself(site: &Site<'_>) -> Outcome {
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

async fn several_are_extended_all_or_nothing(site: &Site<'_>) -> Outcome {
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

async fn the_most_and_longest_names_are_taken_together(site: &Site<'_>) -> Outcome {
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

async fn names_are_any_bytes_and_all_different(site: &Site<'_>) -> Outcome {
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

async fn values_are_any_bytes(site: &Site<'_>) -> Outcome {
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

async fn inspection_shows_value_and_time_in_order(site: &Site<'_>) -> Outcome {
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

async fn inspection_shows_what_the_register_of_each_lock_stands_at(site: &Site<'_>) -> Outcome {
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
    // Names that hash alike share a register.
    let alike = fence::register(first.first()) == fence::register(last.first());
    let expected = [Some(upper), None, Some(if alike { upper } else { lower })];
    if shown != expected {
        return problem(format!("{shown:?} was shown where {expected:?} are the numbers"));
    }
    Ok(())
}

async fn commands_sent_at_once_are_carried_out_in_order(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let mut link = site.link();

    let commands = [
        ours.take(LONG),
        theirs.take(LONG),
        ours.inspect(),
        ours.release(),
        ours.inspect(),
        theirs.take(LONG),
        ours.extend(LONG),
        theirs.inspect(),
        theirs.release(),
        theirs.inspect(),
    ];
    let replies = link.ask_all(commands).await?;

    let seen: Vec<_> = replies.iter().map(|reply| brief(reply, &ours, &theirs)).collect();
    let expected = [
        "granted", "held", "ours", "granted", "free", "granted", "gone", "theirs", "granted",
        "free",
    ];
    if seen != expected {
        return problem(format!("{seen:?} came where {expected:?} should have come"));
    }
    Ok(())
}

fn brief(reply: &Reply, ours: &Claim, theirs: &Claim) -> &'static str {
    let is = |value: &Option<_>, claim: &Claim| value.as_deref() == Some(claim.value());
    match reply {
        Reply::Vote(Vote::Granted) => "granted",
        Reply::Vote(Vote::Held(_)) => "held",
        Reply::Vote(Vote::Gone) => "gone",
        Reply::Keys(keys) => match &**keys {
            [KeyState::Free] => "free",
            [KeyState::Held { value, .. }] if is(value, ours) => "ours",
            [KeyState::Held { value, .. }] if is(value, theirs) => "theirs",
            _ => "something else",
        },
        _ => "something else",
    }
}

async fn every_command_is_answered_once(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    for number in 0..250 {
        let claim = site.claim([number.to_string()]);
        link.send(claim.take(LONG));
        link.send(claim.inspect());
        link.send(claim.extend(LONG));
        link.send(claim.release());
    }
    link.answers().await?;
    // Were there one answer too many, it would come in place of this one.
    link.identity().await?;
    link.identity().await.map(drop)
}

async fn links_see_each_other(site: &Site<'_>) -> Outcome {
    let (ours, theirs) = (site.claim(["a"]), site.claim(["a"]));
    let (mut here, mut there) = (site.link(), site.link());

    here.granted(ours.take(LONG)).await?;
    there.held(theirs.take(LONG)).await?;
    there.owned(&ours).await?;
    there.granted(ours.release()).await?;
    here.gone(ours.extend(LONG)).await?;
    there.granted(theirs.take(LONG)).await?;

    here.owned(&theirs).await.map(drop)
}

async fn all_links_name_the_same_run(site: &Site<'_>) -> Outcome {
    let (mut here, mut there) = (site.link(), site.link());

    let (this, that) = (here.identity().await?, there.identity().await?);

    if this.run.is_empty() || this.version.is_empty() {
        return problem(format!("run and version may not be empty: {this:?}"));
    }
    if this != that || this != here.identity().await? {
        return problem(format!("one node gave two names: {this:?} and {that:?}"));
    }
    Ok(())
}

/// Whether the commands of a dropped link are carried out is open; what they
/// leave behind must be in order.
async fn a_dropped_link_does_no_harm(site: &Site<'_>) -> Outcome {
    let (kept, dropped, next) = (site.claim(["a"]), site.claim(["b"]), site.claim(["b"]));
    let mut link = site.link();
    link.granted(kept.take(LONG)).await?;

    let mut other = site.link();
    other.identity().await?;
    for _ in 0..100 {
        other.send(dropped.take(SHORT));
        other.send(dropped.extend(SHORT));
    }
    drop(other);

    link.owned(&kept).await?;
    link.expired(&dropped).await?;
    let start = Instant::now();
    // A take that was still under way may yet come in between.
    while let Err(held) = link.granted(next.take(LONG)).await {
        if start.elapsed() > LONG / 6 {
            return Err(held);
        }
        link.expired(&dropped).await?;
    }
    link.owned(&next).await?;
    link.owned(&kept).await.map(drop)
}

/// The claim on one of its resources alone.
fn part(site: &Site<'_>, claim: &Claim, name: &str) -> Claim {
    site.claim_by([name], Token::from_bytes(claim.value()))
}

/// Whether what remains fits a lock that was just made to live for `ttl`.
fn is_about(remaining: Duration, ttl: Duration) -> Outcome {
    // How long a check may be under way before the node looks at the lock.
    const UNDER_WAY: Duration = Duration::from_secs(20);
    if remaining > ttl + drift(ttl) || remaining + UNDER_WAY < ttl {
        return problem(format!("a lock for {ttl:?} had {remaining:?} left shortly after"));
    }
    Ok(())
}

/// How far the node's clock may be off in the time: what every lease allows.
fn drift(ttl: Duration) -> Duration {
    ttl / 100 + Duration::from_millis(2)
}
