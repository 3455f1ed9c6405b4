//! Checks of links: order, answers, several at once.

use super::site::{Claim, LONG, Outcome, SHORT, Site, problem};
use redlatch_core::{KeyState, Reply, Vote};
use std::time::Instant;

pub(super) async fn commands_sent_at_once_are_carried_out_in_order(site: &Site<'_>) -> Outcome {
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

pub(super) async fn every_command_is_answered_once(site: &Site<'_>) -> Outcome {
    let mut link = site.link();
    for number in 0..250 {
        let claim = site.claim([number.to_string()]);
        link.send(claim.take(LONG));
        link.send(claim.inspect());
        link.send(claim.extend(LONG));
        link.send(claim.release());
    }
    link.answers().await?;
    // A surplus answer would arrive in place of this one.
    link.identity().await?;
    link.identity().await.map(drop)
}

pub(super) async fn links_see_each_other(site: &Site<'_>) -> Outcome {
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

pub(super) async fn all_links_name_the_same_run(site: &Site<'_>) -> Outcome {
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

/// It is unspecified whether the commands of a dropped link are carried out, but they must
/// leave a consistent state.
pub(super) async fn a_dropped_link_does_no_harm(site: &Site<'_>) -> Outcome {
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
    // A take still in progress may be carried out in between.
    while let Err(held) = link.granted(next.take(LONG)).await {
        if start.elapsed() > LONG / 6 {
            return Err(held);
        }
        link.expired(&dropped).await?;
    }
    link.owned(&next).await?;
    link.owned(&kept).await.map(drop)
}
