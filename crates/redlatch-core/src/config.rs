//! Checks the times of one lock against each other.
//!
//! In:  what the caller wants, with gaps.
//! Out: [`Terms`], which cannot be wrong, or an error that names the value and the
//!      rule.

use crate::{lease, line::LOOK};
use alloc::sync::Arc;
use core::{ops::Deref, time::Duration};

/// The default limit on the TTL. Renewal makes longer ones unnecessary.
pub const DEFAULT_MAX_TTL: Duration = Duration::from_secs(30);
/// The default TTL.
pub const DEFAULT_TTL: Duration = Duration::from_secs(10);
/// The shortest node timeout that anyone may set: no node answers sooner.
const LEAST_NODE_TIMEOUT: Duration = Duration::from_millis(1);
/// The shortest pause that anyone may set between two checks of a lock.
const LEAST_POLL: Duration = Duration::from_millis(1);
/// How long renewal continues by default.
pub const DEFAULT_MAX_HOLD: Duration = Duration::from_secs(3600);

/// The times that a caller wants for a lock; `None` selects the default given for each
/// field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// How long a key lives without renewal.
    pub ttl: Duration,
    /// The limit on `ttl`, the same for all clients of the nodes.
    pub max_ttl: Duration,
    /// How long one node may take to answer; at least 1 ms. Default: `ttl / 20`, at most
    /// 500 ms and at least 5 ms (or a quarter of the usable time, if that is less).
    pub node_timeout: Option<Duration>,
    /// The least time that a new lease must have left. Default: half of its usable time.
    pub min_validity: Option<Duration>,
    /// How long before the end its loss is signalled. Default: a tenth of the
    /// usable time, at most 500 ms.
    pub notice: Option<Duration>,
    /// Whether and how the lease is renewed; `None` for no renewal.
    pub renewal: Option<WantedRenewal>,
}

/// The renewal that a caller wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedRenewal {
    /// How often to renew. Default: a third of the TTL, at most half of its usable time.
    pub every: Option<Duration>,
    /// The longest time the lock may be held; `Duration::MAX` for no limit.
    pub max_hold: Duration,
}

impl Default for Wanted {
    fn default() -> Self {
        Wanted {
            ttl: DEFAULT_TTL,
            max_ttl: DEFAULT_MAX_TTL,
            node_timeout: None,
            min_validity: None,
            notice: None,
            renewal: Some(WantedRenewal { every: None, max_hold: DEFAULT_MAX_HOLD }),
        }
    }
}

/// The times of one lock, cheap to clone. Only [`Terms::check`] creates them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Terms(Arc<Times>);

/// The times themselves; [`Terms`] derefs to them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Times {
    /// How long a key lives without renewal, in whole milliseconds.
    pub ttl: Duration,
    /// The limit on `ttl`, and on the TTL of every extension.
    pub max_ttl: Duration,
    /// How long one node may take to answer.
    pub node_timeout: Duration,
    /// The least time that a new lease must have left.
    pub min_validity: Duration,
    /// How long before the end of the lease its loss is signalled.
    pub notice: Duration,
    /// How the lease is renewed, if it is.
    pub renewal: Option<Renewal>,
}

/// How a lease is renewed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Renewal {
    /// The interval between two extensions.
    pub every: Duration,
    /// The longest time the lock may be held.
    pub max_hold: Duration,
}

impl Terms {
    /// Fills the gaps and checks all values against each other.
    ///
    /// # Errors
    ///
    /// If a value breaks a rule; the error names both.
    pub fn check(wanted: &Wanted) -> Result<Terms, TermsError> {
        let ttl = check_ttl(wanted.ttl, wanted.max_ttl)?;
        let usable = lease::usable(ttl);
        let times = Times {
            ttl,
            max_ttl: wanted.max_ttl,
            node_timeout: wanted.node_timeout.unwrap_or_else(|| default_node_timeout(ttl)),
            min_validity: wanted.min_validity.unwrap_or(usable / 2),
            notice: wanted.notice.unwrap_or_else(|| default_notice(ttl)),
            renewal: wanted.renewal.as_ref().map(|renewal| Renewal {
                every: renewal.every.unwrap_or_else(|| (ttl / 3).min(usable / 2)),
                max_hold: renewal.max_hold,
            }),
        };
        if wanted.node_timeout.is_some_and(|timeout| timeout < LEAST_NODE_TIMEOUT) {
            return Err(TermsError::NodeTimeout { node_timeout: times.node_timeout, usable });
        }
        let every = wanted.renewal.as_ref().and_then(|renewal| renewal.every);
        times.cross_check(usable, every.is_some())?;
        Ok(Terms(Arc::new(times)))
    }

    /// Returns the same times with another node timeout, unchecked.
    #[must_use]
    pub fn with_node_timeout(mut self, node_timeout: Duration) -> Self {
        Arc::make_mut(&mut self.0).node_timeout = node_timeout;
        self
    }
}

impl Deref for Terms {
    type Target = Times;

    fn deref(&self) -> &Times {
        &self.0
    }
}

impl Times {
    /// Returns how much of the TTL a lease may use.
    #[must_use]
    pub fn usable(&self) -> Duration {
        lease::usable(self.ttl)
    }

    fn cross_check(&self, usable: Duration, is_every_wanted: bool) -> Result<(), TermsError> {
        let Times { node_timeout, min_validity, notice, .. } = *self;
        if node_timeout >= usable {
            return Err(TermsError::NodeTimeout { node_timeout, usable });
        }
        if min_validity > usable {
            return Err(TermsError::MinValidity { min_validity, usable });
        }
        if notice >= usable {
            return Err(TermsError::Notice { notice, usable });
        }
        let Some(Renewal { every, max_hold }) = self.renewal else {
            return Ok(());
        };
        let needed = every.saturating_add(node_timeout);
        let usable = usable.saturating_sub(notice);
        if every.is_zero() || needed >= usable {
            let most = usable.saturating_sub(node_timeout);
            return Err(if is_every_wanted && !most.is_zero() {
                TermsError::RenewEvery { every, most }
            } else {
                TermsError::Renewal { every, needed, usable }
            });
        }
        if max_hold.is_zero() {
            return Err(TermsError::MaxHold);
        }
        Ok(())
    }
}

/// Checks one TTL and truncates it to the whole milliseconds that servers count in: a lease
/// must not rely on time that its keys do not have.
///
/// # Errors
///
/// If the TTL is above `max_ttl`, or clock drift uses it up.
pub fn check_ttl(ttl: Duration, max_ttl: Duration) -> Result<Duration, TermsError> {
    if ttl > max_ttl {
        return Err(TermsError::TtlTooLong { ttl, max_ttl });
    }
    let millis = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    let ttl = Duration::from_millis(millis);
    if lease::usable(ttl).is_zero() {
        return Err(TermsError::TtlTooShort { ttl, drift: lease::drift(ttl) });
    }
    Ok(ttl)
}

/// Checks the longest pause between two checks of a lock that another library holds.
///
/// # Errors
///
/// If it is below 1 ms or above 1 s.
pub fn check_poll_max(poll_max: Duration) -> Result<(), TermsError> {
    let fits = (LEAST_POLL..=LOOK).contains(&poll_max);
    if fits { Ok(()) } else { Err(TermsError::PollMax { poll_max }) }
}

fn default_node_timeout(ttl: Duration) -> Duration {
    let usable = lease::usable(ttl);
    let least = Duration::from_millis(5).min(usable / 4);
    (ttl / 20).clamp(least, Duration::from_millis(500))
}

fn default_notice(ttl: Duration) -> Duration {
    (lease::usable(ttl) / 10).min(Duration::from_millis(500))
}

/// Times that do not fit together. Nothing was sent.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TermsError {
    /// The TTL is zero, or clock drift alone uses it up.
    #[error(
        "a TTL of {ttl:?} leaves nothing after {drift:?} for clock drift; use at least 3ms for `ttl`"
    )]
    TtlTooShort {
        /// The TTL asked for, in whole milliseconds.
        ttl: Duration,
        /// How much of it drift uses up.
        drift: Duration,
    },
    /// The TTL is above the limit that all clients agreed on.
    #[error(
        "a TTL of {ttl:?}{} is above max_ttl, {max_ttl:?}; use a shorter `ttl` (renewal keeps a lock \
         for longer than that), or raise `max_ttl` for all clients of the nodes",
        if *ttl == DEFAULT_TTL { ", the default," } else { "" }
    )]
    TtlTooLong {
        /// What was asked for.
        ttl: Duration,
        /// The limit.
        max_ttl: Duration,
    },
    /// Waiting for one node could use up the lease, or no node could answer in time.
    #[error(
        "node_timeout is {node_timeout:?}; it must be at least {LEAST_NODE_TIMEOUT:?} and below what \
         a lease has of its TTL, {usable:?}; use a longer `ttl`, or another `node_timeout`"
    )]
    NodeTimeout {
        /// What was asked for.
        node_timeout: Duration,
        /// What the TTL leaves after drift.
        usable: Duration,
    },
    /// No lease could ever have that much time left.
    #[error(
        "min_validity is {min_validity:?}; it cannot be above what a lease has of its TTL, \
         {usable:?}; use a longer `ttl`, or a smaller `min_validity`"
    )]
    MinValidity {
        /// What was asked for.
        min_validity: Duration,
        /// What the TTL leaves after drift.
        usable: Duration,
    },
    /// Loss would be signalled before the lease starts.
    #[error(
        "notice is {notice:?}; it must be below what a lease has of its TTL, {usable:?}; use a \
         longer `ttl`, or a shorter `notice`"
    )]
    Notice {
        /// What was asked for.
        notice: Duration,
        /// What the TTL leaves after drift.
        usable: Duration,
    },
    /// The lease would be renewed too late, or without pause.
    #[error(
        "renew_every is {every:?}; it must be above zero and below {most:?}, so that a renewal is \
         answered before loss is signalled"
    )]
    RenewEvery {
        /// The interval asked for.
        every: Duration,
        /// Usable time minus notice and node timeout.
        most: Duration,
    },
    /// The other times leave none to renew the lease.
    #[error(
        "there is no time to renew the lease: a renewal after {every:.1?} may take until \
         {needed:.1?}, and loss is signalled after {usable:.1?}; use a longer `ttl`, or a shorter \
         `notice` or `node_timeout`"
    )]
    Renewal {
        /// The interval.
        every: Duration,
        /// Interval and node timeout together.
        needed: Duration,
        /// Usable time minus notice.
        usable: Duration,
    },
    /// A pause that is no pause, or longer than the longest.
    #[error("poll_max is {poll_max:?}; it must be from {LEAST_POLL:?} to {LOOK:?}")]
    PollMax {
        /// What was asked for.
        poll_max: Duration,
    },
    /// The limit is zero.
    #[error("max_hold is zero; to turn renewal off, use `LockRequest::no_renewal`")]
    MaxHold,
    /// No extension can ensure this much time.
    #[error(
        "{least:?} cannot be ensured: that takes a TTL of {ttl:.1?}, with the notice of loss and \
         clock drift, which is above max_ttl, {max_ttl:?}; do the work in shorter steps"
    )]
    EnsureTooLong {
        /// The time to be ensured.
        least: Duration,
        /// The TTL that this would take.
        ttl: Duration,
        /// The limit.
        max_ttl: Duration,
    },
    /// The lock ends earlier, however it is extended.
    #[error(
        "{least:?} cannot be ensured: max_hold ends the lease, and its loss is signalled in {left:.1?}; raise max_hold"
    )]
    EnsureMaxHold {
        /// The time to be ensured.
        least: Duration,
        /// The time until loss is signalled.
        left: Duration,
    },
}

crate::debug_is_display!(TermsError);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const MS: Duration = Duration::from_millis(1);

    fn with_ttl(ttl: Duration) -> Wanted {
        Wanted { ttl, ..Wanted::default() }
    }

    #[test]
    fn defaults_fit_together_for_every_ttl_that_is_allowed() {
        for ttl in (3..100).chain([1_000, 10_000, 30_000]) {
            let terms = Terms::check(&with_ttl(ttl * MS));

            assert!(terms.is_ok(), "{ttl} ms: {terms:?}");
        }
    }

    #[test]
    fn a_ttl_that_drift_eats_is_refused() {
        for ttl in [Duration::ZERO, Duration::from_micros(999), MS, 2 * MS] {
            let refused = Terms::check(&with_ttl(ttl));

            assert!(matches!(refused, Err(TermsError::TtlTooShort { .. })), "{ttl:?}");
        }
    }

    #[test]
    fn a_ttl_above_the_maximum_is_refused() {
        let ttl = DEFAULT_MAX_TTL + MS;

        let refused = Terms::check(&with_ttl(ttl));

        assert_eq!(refused, Err(TermsError::TtlTooLong { ttl, max_ttl: DEFAULT_MAX_TTL }));
        assert!(matches!(
            Terms::check(&with_ttl(Duration::MAX)),
            Err(TermsError::TtlTooLong { .. })
        ));
    }

    #[test]
    fn a_ttl_is_cut_to_the_milliseconds_that_servers_know() {
        let terms = Terms::check(&with_ttl(Duration::from_micros(100_900))).unwrap();

        assert_eq!(terms.ttl, 100 * MS);
    }

    #[test]
    fn renewal_that_would_come_too_late_is_refused() {
        let every = Some(9_000 * MS);
        let renewal = Some(WantedRenewal { every, max_hold: Duration::MAX });
        let refused = Terms::check(&Wanted { renewal, ..Wanted::default() });

        assert!(matches!(refused, Err(TermsError::RenewEvery { .. })), "{refused:?}");
    }

    /// Whoever sets one time is not told to change another that is a default.
    #[test]
    fn an_error_about_times_names_the_setting_that_can_be_changed() {
        let said = |wanted: Wanted| Terms::check(&wanted).unwrap_err().to_string();
        let notice = said(Wanted { notice: Some(9_000 * MS), ..Wanted::default() });
        let every = WantedRenewal { every: Some(Duration::ZERO), max_hold: Duration::MAX };
        let zero = said(Wanted { renewal: Some(every), ..Wanted::default() });
        let short = said(Wanted { max_ttl: 5_000 * MS, ..Wanted::default() });
        let long = said(with_ttl(45_000 * MS));

        assert!(!notice.contains("renew_every") && notice.contains("`notice`"), "{notice}");
        assert!(zero.starts_with("renew_every is 0ns; it must be above zero and below "), "{zero}");
        assert!(short.starts_with("a TTL of 10s, the default, is above max_ttl, 5s; "), "{short}");
        assert!(long.starts_with("a TTL of 45s is above max_ttl, 30s; use a shorter"), "{long}");
    }

    #[test]
    fn a_pause_between_checks_is_from_one_millisecond_to_one_second() {
        for fits in [MS, LOOK] {
            assert_eq!(check_poll_max(fits), Ok(()));
        }
        for poll_max in [Duration::ZERO, MS.saturating_sub(NS), LOOK + NS, 3_600_000 * MS] {
            assert_eq!(check_poll_max(poll_max), Err(TermsError::PollMax { poll_max }));
        }
    }

    #[test]
    fn zero_and_oversized_times_are_refused_by_name() {
        let zero = Some(Duration::ZERO);
        let huge = Some(Duration::MAX);
        let cases = [
            Wanted { node_timeout: zero, ..Wanted::default() },
            Wanted { node_timeout: huge, ..Wanted::default() },
            Wanted { min_validity: huge, ..Wanted::default() },
            Wanted { notice: huge, ..Wanted::default() },
        ];
        for wanted in cases {
            assert!(Terms::check(&wanted).is_err(), "{wanted:?}");
        }
        let every = WantedRenewal { every: zero, max_hold: Duration::MAX };
        let hold = WantedRenewal { every: None, max_hold: Duration::ZERO };
        for renewal in [every, hold] {
            let wanted = Wanted { renewal: Some(renewal), ..Wanted::default() };
            assert!(Terms::check(&wanted).is_err(), "{wanted:?}");
        }
    }

    const NS: Duration = Duration::from_nanos(1);
    /// One nanosecond less than the usable time of a one-second TTL.
    const ALMOST: Duration = Duration::from_nanos(987_999_999);

    /// A TTL of one second leaves 988 ms usable, with a node timeout of 50 ms and
    /// 98.8 ms notice.
    fn second(change: impl FnOnce(&mut Wanted)) -> Result<Terms, TermsError> {
        let mut wanted = Wanted { renewal: None, ..with_ttl(1000 * MS) };
        change(&mut wanted);
        Terms::check(&wanted)
    }

    #[test]
    fn the_shortest_and_the_longest_ttl_are_allowed() {
        assert_eq!(check_ttl(3 * MS, DEFAULT_MAX_TTL), Ok(3 * MS));
        assert_eq!(check_ttl(DEFAULT_MAX_TTL, DEFAULT_MAX_TTL), Ok(DEFAULT_MAX_TTL));
        let longer = check_ttl(DEFAULT_MAX_TTL + NS, DEFAULT_MAX_TTL);
        assert!(matches!(longer, Err(TermsError::TtlTooLong { .. })), "{longer:?}");
    }

    #[test]
    fn a_node_may_take_all_but_the_last_of_the_usable_time() {
        let within = |timeout| second(|wanted| wanted.node_timeout = Some(timeout));

        assert!(within(MS).is_ok());
        assert!(matches!(within(MS.saturating_sub(NS)), Err(TermsError::NodeTimeout { .. })));
        assert!(within(ALMOST).is_ok());
        assert!(matches!(within(988 * MS), Err(TermsError::NodeTimeout { .. })));
    }

    #[test]
    fn a_lease_may_have_to_have_all_of_its_usable_time_left_and_no_more() {
        let left = |least| second(|wanted| wanted.min_validity = Some(least));

        assert!(left(Duration::ZERO).is_ok());
        assert!(left(988 * MS).is_ok());
        assert!(matches!(left(988 * MS + NS), Err(TermsError::MinValidity { .. })));
    }

    #[test]
    fn loss_is_signalled_after_the_lease_began() {
        let notice = |notice| second(|wanted| wanted.notice = Some(notice));

        assert!(notice(Duration::ZERO).is_ok());
        assert!(notice(ALMOST).is_ok());
        assert!(matches!(notice(988 * MS), Err(TermsError::Notice { .. })));
    }

    #[test]
    fn a_renewal_is_answered_before_loss_is_signalled() {
        let renewed = |every| {
            second(|wanted| {
                let every = Some(every);
                wanted.renewal = Some(WantedRenewal { every, max_hold: Duration::MAX });
            })
        };
        // 988 ms minus 98.8 ms of notice and 50 ms of node timeout.
        let latest = Duration::from_micros(839_200);

        assert!(renewed(NS).is_ok());
        assert!(renewed(latest.saturating_sub(NS)).is_ok());
        assert_eq!(renewed(latest), Err(TermsError::RenewEvery { every: latest, most: latest }));
    }

    #[test]
    fn a_lock_may_be_held_for_any_time_but_none() {
        let held = |max_hold| {
            second(|wanted| wanted.renewal = Some(WantedRenewal { every: None, max_hold }))
        };

        assert!(held(NS).is_ok());
        assert_eq!(held(Duration::ZERO), Err(TermsError::MaxHold));
    }

    #[test]
    fn defaults_are_what_they_are_said_to_be() {
        let defaults = |ttl: u32| {
            let terms = Terms::check(&with_ttl(ttl * MS)).unwrap();
            let every = terms.renewal.as_ref().unwrap().every;
            (terms.node_timeout, terms.min_validity, terms.notice, every)
        };
        let micros = Duration::from_micros;

        let longest = (500 * MS, micros(14_849_000), 500 * MS, 10_000 * MS);
        assert_eq!(defaults(30_000), longest, "500 ms at most");
        assert_eq!(defaults(1_000), (50 * MS, 494 * MS, micros(98_800), ttl_third(1_000)));
        assert_eq!(defaults(60), (5 * MS, micros(28_700), micros(5_740), 20 * MS), "5 ms at least");
        assert_eq!(
            defaults(3),
            (micros(970) / 4, micros(485), micros(97), micros(485)),
            "unless that is too much of the little there is"
        );
    }

    fn ttl_third(ttl: u32) -> Duration {
        ttl * MS / 3
    }
}
