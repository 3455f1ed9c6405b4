//! Checks of lines: who is in one, and where.

use super::{
    site::{Outcome, Site, problem},
    waiter::{TRIES, WaitingClient, clock, without_line},
};
use redlatch_core::{Command, KeyState, Reply, Waiting, line::LARGEST_SKEW};
use std::time::Duration;

pub(super) async fn a_refused_take_joins_the_line(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut second] = WaitingClient::line(site, &["a"]).await?;
    holder.holds().await?;

    first.waits_behind(0).await?;
    second.waits_behind(1).await?;
    first.waits_behind(0).await?;

    second.waits_behind(1).await
}

pub(super) async fn a_take_without_ticket_joins_no_line(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first] = WaitingClient::line(site, &["a"]).await?;
    let other = site.claim(["a"]);
    holder.holds().await?;

    without_line(&holder.link.ask(other.take(super::site::LONG)).await?)?;

    first.waits_behind(0).await
}

/// The client that arrived last joins first.
pub(super) async fn earlier_arrivals_are_ahead(site: &Site<'_>) -> Outcome {
    for number in 0..TRIES {
        let ([_holder, mut early, mut late], start) = WaitingClient::early(site, number).await?;

        late.waits_behind(0).await?;
        match early.waits_behind(0).await {
            Ok(()) => return late.waits_behind(1).await,
            Err(problem) if start.elapsed() < LARGEST_SKEW => return Err(problem),
            Err(_) => {} // by the node's clock it may have arrived too long ago
        }
    }
    problem("the node is too slow to tell who came first")
}

pub(super) async fn a_waiter_is_in_a_line_once(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut second] = WaitingClient::line(site, &["a"]).await?;
    holder.holds().await?;
    for _ in 0..3 {
        first.waits_behind(0).await?;
        first.claim = site.claim(["a"]); // every attempt has a fresh token
    }

    second.waits_behind(1).await
}

pub(super) async fn a_client_that_leaves_is_no_longer_in_line(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut second] = WaitingClient::behind_a_holder(site).await?;

    first.link.gone(first.leave()).await?;

    second.waits_behind(0).await?;
    holder.granted(holder.release()).await?;
    second.is_woken().await.map(drop)
}

/// The reservation for the first waiter lapses, and the second takes the lock out of turn.
pub(super) async fn a_grant_ends_a_place_that_is_known(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut second, mut third] = WaitingClient::line(site, &["a"]).await?;
    first.ticket.patience = 1;
    holder.holds().await?;
    first.waits_behind(0).await?;
    second.waits_behind(1).await?;
    holder.granted(holder.release()).await?;
    holder.link.expired(&holder.claim).await?;

    second.granted(second.take_known()).await?;

    third.waits_behind(0).await
}

pub(super) async fn a_take_of_several_joins_the_line_for_the_first_held(
    site: &Site<'_>,
) -> Outcome {
    let [mut holder] = WaitingClient::line(site, &["b", "c"]).await?;
    let [mut all] = WaitingClient::line(site, &["a", "b", "c"]).await?;
    let [mut for_b] = WaitingClient::line(site, &["b"]).await?;
    let [mut for_c] = WaitingClient::line(site, &["c"]).await?;
    holder.holds().await?;

    all.waits_behind(0).await?;

    for_b.waits_behind(1).await?;
    for_c.waits_behind(0).await
}

/// A client with a wrong clock neither overtakes everybody nor waits forever.
pub(super) async fn a_ticket_far_from_the_clock_is_brought_near(site: &Site<'_>) -> Outcome {
    let skew = u64::try_from(LARGEST_SKEW.as_micros()).unwrap_or(u64::MAX);
    for (name, arrived) in [("past", 1), ("future", 1 << 62)] {
        let [mut holder, mut first] = WaitingClient::line(site, &[name]).await?;
        first.ticket.arrived = arrived;
        holder.holds().await?;

        let before = clock(&mut first.link).await?;
        first.waits_behind(0).await?;
        let after = clock(&mut first.link).await?;
        holder.granted(holder.release()).await?;

        let kept = Duration::from_micros(first.is_woken().await?.arrived);
        let range = Duration::from_micros(before - skew)..=Duration::from_micros(after + skew);
        if !range.contains(&kept) {
            return problem(format!("{kept:?} is not near the node's clock: {range:?}"));
        }
    }
    Ok(())
}

pub(super) async fn waiters_are_reported_in_order(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut second] = WaitingClient::line(site, &["a"]).await?;
    holder.holds().await?;
    holder.is_waited_for_by(&[]).await?;
    first.waits_behind(0).await?;
    second.waits_behind(1).await?;

    holder.is_waited_for_by(&[first.as_told(), second.as_told()]).await?;
    first.link.gone(first.leave()).await?;

    holder.is_waited_for_by(&[second.as_told()]).await
}

/// A list may come in pages, and a page may lack the lock.
pub(super) async fn a_list_counts_the_waiters(site: &Site<'_>) -> Outcome {
    let [mut holder, _first] = WaitingClient::behind_a_holder(site).await?;

    let mut command = holder.claim.list();
    loop {
        let page = match holder.link.ask(command).await? {
            Reply::Page(page) => page,
            reply => return problem(format!("a list was answered with {reply:?}")),
        };
        match (page.locks.iter().find(|lock| lock.name == *holder.claim.first()), page.next) {
            (Some(lock), _) if lock.waiters == 1 => return Ok(()),
            (Some(lock), _) => {
                return problem(format!("one waits, but the list counts {}", lock.waiters));
            }
            (None, None) => return problem("a list lacks a lock that is held"),
            (None, after) => {
                command = Command::List { pattern: holder.claim.first().as_bytes().into(), after };
            }
        }
    }
}

pub(super) async fn a_reservation_says_for_whom_it_is(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first] = WaitingClient::behind_a_holder(site).await?;

    holder.granted(holder.release()).await?;

    first.has_reservation().await?;
    let states = first.link.states(&first.claim).await?;
    let reserved = states.first().and_then(|state| match state {
        KeyState::Held { value, .. } => Waiting::reserved_in(value.as_deref()?),
        KeyState::Free => None,
    });
    match reserved.and_then(|waiting| waiting.owner) {
        owner if owner == first.claim.owner() => Ok(()),
        owner => problem(format!("the lock is reserved for {owner:?}")),
    }
}

/// For nodes that keep no lines.
pub(super) async fn tickets_change_nothing(site: &Site<'_>) -> Outcome {
    let [mut holder, mut other] = WaitingClient::line(site, &["a"]).await?;
    for release in [holder.release(), holder.leave(), holder.release_and_wait(), holder.pass()] {
        holder.holds().await?;
        without_line(&other.link.ask(other.take()).await?)?;
        without_line(&other.link.ask(other.take_known()).await?)?;
        without_line(&other.link.ask(other.plant()).await?)?;
        holder.granted(release).await?;
        other.link.free(&other.claim).await?;
    }
    other.sleeps().await
}
