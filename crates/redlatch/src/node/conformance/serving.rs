//! Checks of lines: who is served next, and how.

use super::{
    site::{LONG, Outcome, Site, problem},
    waiter::{PATIENT, TRIES, WaitingClient},
};
use redlatch_core::{Vote, line::LARGEST_SKEW};
use std::time::{Duration, Instant};

pub(super) async fn a_release_reserves_the_lock_for_the_first_and_wakes_it(
    site: &Site<'_>,
) -> Outcome {
    let [mut holder, mut first, mut second] = WaitingClient::behind_a_holder(site).await?;

    holder.granted(holder.release()).await?;

    first.is_woken().await?;
    let left = first.has_reservation().await?;
    if left > first.ticket.patience() {
        return problem(format!("it is reserved for {left:?}, longer than its patience"));
    }
    second.sleeps().await?;
    first.holds().await?;
    first.link.owned(&first.claim).await?;
    first.granted(first.release()).await?;
    second.is_woken().await.map(drop)
}

pub(super) async fn nobody_else_takes_what_is_reserved(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut later] = WaitingClient::line(site, &["a"]).await?;
    let (other, several) = (site.claim(["a"]), site.claim(["a", "b"]));
    holder.holds().await?;
    first.waits_behind(0).await?;
    holder.granted(holder.release()).await?;

    match later.link.held(later.take()).await? {
        Vote::Held(holder) if holder.ahead == Some(0) && holder.owner.is_none() => {}
        vote => return problem(format!("of a reserved lock the node said {vote:?}")),
    }
    for command in [other.take(LONG), several.take(LONG), other.plant(LONG)] {
        later.link.held(command).await?;
    }
    for command in [holder.claim.release(), holder.claim.extend(LONG), other.release()] {
        later.link.gone(command).await?;
    }
    first.has_reservation().await?;
    first.holds().await
}

pub(super) async fn what_is_reserved_lapses(site: &Site<'_>) -> Outcome {
    const PATIENCE: u16 = 200;
    let [mut holder, mut first] = WaitingClient::line(site, &["a"]).await?;
    let other = site.claim(["a"]);
    first.ticket.patience = PATIENCE;
    holder.holds().await?;
    first.waits_behind(0).await?;
    let start = Instant::now();
    holder.granted(holder.release()).await?;

    holder.link.expired(&holder.claim).await?;

    let lasted = start.elapsed();
    if lasted < Duration::from_millis(u64::from(PATIENCE)).mul_f64(0.95) {
        return problem(format!("a reservation for {PATIENCE} ms lapsed after {lasted:?}"));
    }
    holder.link.granted(other.take(LONG)).await
}

/// The waiter with the later ticket goes back into line.
pub(super) async fn an_earlier_ticket_takes_what_is_reserved_for_a_later_one(
    site: &Site<'_>,
) -> Outcome {
    for number in 0..TRIES {
        let ([mut holder, mut early, mut late], start) = WaitingClient::early(site, number).await?;
        late.waits_behind(0).await?;
        holder.granted(holder.release()).await?;
        late.is_woken().await?;

        match early.holds().await {
            Err(problem) if start.elapsed() < LARGEST_SKEW => return Err(problem),
            Err(_) => continue, // by the node's clock it may have arrived too long ago
            Ok(()) => {}
        }
        early.granted(early.release()).await?;
        late.is_woken().await?;
        return late.holds().await;
    }
    problem("the node is too slow to tell who came first")
}

pub(super) async fn a_release_that_waits_is_in_line_before_the_next_is_served(
    site: &Site<'_>,
) -> Outcome {
    let [mut holder, mut first] = WaitingClient::behind_a_holder(site).await?;

    holder.granted(holder.release_and_wait()).await?;

    holder.is_woken().await?;
    holder.has_reservation().await?;
    first.sleeps().await?;
    holder.holds().await?;
    first.waits_behind(0).await
}

pub(super) async fn only_the_holder_of_a_lock_can_wait_by_releasing_it(site: &Site<'_>) -> Outcome {
    let [mut holder, mut other, mut next] = WaitingClient::line(site, &["a"]).await?;
    holder.holds().await?;

    other.link.gone(other.release_and_wait()).await?;
    other.link.gone(other.pass()).await?;

    next.waits_behind(0).await?;
    holder.link.owned(&holder.claim).await.map(drop)
}

pub(super) async fn a_release_that_passes_on_reserves_no_matter_who_waits(
    site: &Site<'_>,
) -> Outcome {
    let [mut holder, mut first] = WaitingClient::behind_a_holder(site).await?;

    holder.granted(holder.pass()).await?;

    holder.has_reservation().await?;
    holder.sleeps().await?;
    first.waits_behind(0).await?;
    first.sleeps().await?;
    holder.holds().await
}

pub(super) async fn a_client_that_leaves_passes_on_what_is_reserved(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, mut second] = WaitingClient::behind_a_holder(site).await?;
    holder.granted(holder.release()).await?;
    first.is_woken().await?;

    first.link.gone(first.leave()).await?;

    second.is_woken().await?;
    second.has_reservation().await?;
    second.link.gone(second.leave()).await?;
    second.link.free(&second.claim).await
}

pub(super) async fn a_lease_is_planted_on_what_is_reserved_for_its_ticket(
    site: &Site<'_>,
) -> Outcome {
    let [mut early, mut holder, mut first] = WaitingClient::line(site, &["a"]).await?;
    holder.holds().await?;
    first.waits_behind(0).await?;
    holder.granted(holder.release()).await?;

    early.link.held(early.plant()).await?;
    first.granted(first.plant()).await?;

    first.link.owned(&first.claim).await.map(drop)
}

pub(super) async fn each_lock_has_a_line_of_its_own(site: &Site<'_>) -> Outcome {
    let [mut holder] = WaitingClient::line(site, &["a", "b", "c"]).await?;
    let [mut for_a] = WaitingClient::line(site, &["a"]).await?;
    let [mut for_b] = WaitingClient::line(site, &["b"]).await?;
    let for_c = site.claim(["c"]);
    holder.holds().await?;
    for_a.waits_behind(0).await?;
    for_b.waits_behind(0).await?;

    holder.granted(holder.release()).await?;

    for_a.is_woken().await?;
    for_b.is_woken().await?;
    holder.link.free(&for_c).await?;
    for_a.holds().await?;
    for_b.holds().await
}

pub(super) async fn a_lock_for_which_nobody_waits_is_free_after_its_release(
    site: &Site<'_>,
) -> Outcome {
    let [mut holder, mut gone] = WaitingClient::behind_a_holder(site).await?;
    gone.link.gone(gone.leave()).await?;

    holder.granted(holder.release()).await?;
    holder.link.free(&holder.claim).await?;
    holder.holds().await?;
    holder.granted(holder.leave()).await?;

    holder.link.free(&holder.claim).await
}

pub(super) async fn a_release_of_what_is_not_ours_serves_nobody(site: &Site<'_>) -> Outcome {
    let [mut holder, mut first, other] = WaitingClient::line(site, &["a"]).await?;
    holder.holds().await?;
    first.waits_behind(0).await?;

    holder.link.gone(other.release()).await?;
    holder.link.gone(other.leave()).await?;

    holder.link.owned(&holder.claim).await?;
    first.sleeps().await?;
    first.waits_behind(0).await
}

/// A node may take a moment to notice that a link was dropped. The client may soon be back,
/// so it keeps its place.
pub(super) async fn clients_that_are_gone_are_passed_over(site: &Site<'_>) -> Outcome {
    for number in 0..TRIES {
        let name = number.to_string();
        let [mut holder, mut gone, mut next] = WaitingClient::line(site, &[&name]).await?;
        holder.holds().await?;
        gone.waits_behind(0).await?;
        next.waits_behind(1).await?;

        let told = gone.as_told();
        drop(gone);
        tokio::time::sleep(Duration::from_millis(1 << number)).await;
        holder.granted(holder.release()).await?;

        if next.has_reservation().await.is_ok() {
            next.is_woken().await?;
            return next.is_waited_for_by(&[told]).await;
        }
    }
    problem(format!("locks are reserved for {PATIENT} ms for clients that are gone"))
}
