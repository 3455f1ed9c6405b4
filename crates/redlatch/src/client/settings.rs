//! The settings of a request: the same for all four kinds.

use super::{error::InvalidRequest, request::Defaults};
use crate::driver::{clock::Clock, engine::Handle};
use redlatch_core::{
    Owner, Resources, Terms,
    config::{DEFAULT_MAX_HOLD, Wanted, WantedRenewal},
};
use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

/// The settings so far. They are checked when the request is handed over.
pub(crate) struct Settings {
    pub(super) handle: Handle,
    pub(super) defaults: Arc<Defaults>,
    pub(super) resources: Result<Resources, InvalidRequest>,
    pub(super) wanted: Wanted,
    pub(super) wait: Wait,
    pub(super) owner: Result<Owner, InvalidRequest>,
    pub(super) fencing: Option<Duration>,
    pub(super) fair: bool,
    /// The caller extends the lease.
    no_renewal: bool,
    /// The setting of this request that makes sense only with renewal.
    needs_renewal: Option<&'static str>,
}

/// How long to wait for a lock.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wait {
    /// This long from the first poll on.
    For(Duration),
    Until(Instant),
}

impl Wait {
    pub(super) fn left(self, clock: Clock) -> Duration {
        match self {
            Wait::For(wait) => wait,
            Wait::Until(deadline) => clock.until(deadline),
        }
    }
}

impl Settings {
    pub(crate) fn new(
        handle: Handle,
        defaults: &Arc<Defaults>,
        resources: Result<Resources, InvalidRequest>,
    ) -> Self {
        Settings {
            handle,
            defaults: defaults.clone(),
            resources,
            wanted: defaults.wanted.clone(),
            wait: Wait::For(defaults.wait),
            owner: Ok(defaults.owner.clone()),
            fencing: defaults.fencing,
            fair: defaults.fair,
            no_renewal: false,
            needs_renewal: None,
        }
    }

    pub(crate) fn renew_every(&mut self, every: Duration) {
        self.renewal().every = Some(every);
        self.needs_renewal = Some("renew_every");
    }

    pub(crate) fn max_hold(&mut self, max_hold: Duration) {
        self.renewal().max_hold = max_hold;
        self.needs_renewal = Some("max_hold");
    }

    pub(crate) fn no_renewal(&mut self) {
        self.no_renewal = true;
    }

    pub(crate) fn owner(&mut self, label: &str) {
        self.owner = self.defaults.signature.owner(label).map_err(Into::into);
    }

    fn renewal(&mut self) -> &mut WantedRenewal {
        let default = WantedRenewal { every: None, max_hold: DEFAULT_MAX_HOLD };
        self.wanted.renewal.get_or_insert(default)
    }

    /// Returns the times, if they fit together.
    pub(super) fn terms(&mut self) -> Result<Terms, InvalidRequest> {
        if self.no_renewal {
            if let Some(setting) = self.needs_renewal {
                return Err(InvalidRequest::NoRenewal { setting });
            }
            self.wanted.renewal = None;
        }
        match &self.defaults.terms {
            Some(terms) if self.wanted == self.defaults.wanted => Ok(terms.clone()),
            _ => Ok(self.defaults.share(Terms::check(&self.wanted)?)),
        }
    }
}

impl Defaults {
    /// Returns the same terms, shared with the previous request if it had the same.
    fn share(&self, terms: Terms) -> Terms {
        let mut last = self.changed_terms.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|last| *last != terms);
        last.get_or_insert(terms).clone()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { resources, wanted, wait, .. } = self;
        match resources {
            Ok(resources) => write!(f, "{resources}, ttl {:?}, wait {wait:?}", wanted.ttl),
            Err(error) => write!(f, "{error}"),
        }
    }
}

/// The methods of all requests, written once.
macro_rules! setters {
    ($Request:ident) => {
        impl $Request {
            /// Sets how long the lock outlives a holder that crashed. Default 10 s.
            ///
            /// A shorter TTL frees a crashed holder's lock sooner; a longer one
            /// survives longer outages of the nodes and of this process. It does not
            /// limit how long the lock can be held, because the lease is renewed: that
            /// is [`max_hold`](Self::max_hold). At most
            /// [`Builder::max_ttl`](crate::Builder::max_ttl).
            pub fn ttl(mut self, ttl: Duration) -> Self {
                self.0.wanted.ttl = ttl;
                self
            }

            /// Sets how often the lease is extended. Default: every third of the
            /// TTL.
            ///
            /// A shorter interval leaves more time to retry a failed extension, and
            /// costs the nodes more. It must leave room for one
            /// [node timeout](Self::node_timeout) before the loss is signalled.
            ///
            /// Cannot be combined with [`no_renewal`](Self::no_renewal).
            pub fn renew_every(mut self, every: Duration) -> Self {
                self.0.renew_every(every);
                self
            }

            /// Turns renewal off: the lease ends after one TTL unless you
            /// [extend](crate::Lease::extend) it.
            ///
            /// For work that should lose the lock if it hangs, and for leases that are
            /// [handed to another process](crate::Guard::into_parts).
            ///
            /// A request that also sets [`max_hold`](Self::max_hold) or
            /// [`renew_every`](Self::renew_every), before or after, fails with
            /// [`InvalidRequest::NoRenewal`](crate::InvalidRequest::NoRenewal).
            pub fn no_renewal(mut self) -> Self {
                self.0.no_renewal();
                self
            }

            /// Sets how long renewal may hold the lock. Default 1 h, so that a
            /// hung job does not hold it forever; `Duration::MAX` means no limit.
            /// When it is reached, the lease ends with
            /// [`Lost::MaxHold`](crate::Lost::MaxHold).
            ///
            /// Cannot be combined with [`no_renewal`](Self::no_renewal).
            pub fn max_hold(mut self, max_hold: Duration) -> Self {
                self.0.max_hold(max_hold);
                self
            }

            /// Sets how long one node may take to answer. Default `ttl / 20`,
            /// between 5 and 500 ms (for a TTL of less than 23 ms, a quarter of what
            /// clock drift leaves of it).
            ///
            /// The majority decides without waiting for slower nodes, so a dead node
            /// costs this time only if no majority answers. Distant nodes need more.
            pub fn node_timeout(mut self, timeout: Duration) -> Self {
                self.0.wanted.node_timeout = Some(timeout);
                self
            }

            /// Sets how much of the lease must be left when it is granted. Default:
            /// half of its time. A grant with less fails with
            /// [`LockError::TooSlow`](crate::LockError::TooSlow).
            ///
            /// Raise it if the work needs that much time without a renewal.
            pub fn min_validity(mut self, least: Duration) -> Self {
                self.0.wanted.min_validity = Some(least);
                self
            }

            /// Sets how long before the end of the lease its loss is signalled
            /// ([`Lease::lost`](crate::Lease::lost)). Default: a tenth of its time, at
            /// most 500 ms.
            ///
            /// Work that takes longer to stop needs more. A longer notice leaves less
            /// time to renew the lease.
            pub fn notice(mut self, notice: Duration) -> Self {
                self.0.wanted.notice = Some(notice);
                self
            }

            /// Sets the label that operators see on the nodes, in
            /// [`Status`](crate::Status) and in the errors of those who wait. Default
            /// `host/pid`.
            ///
            /// A label has 1 to 255 printable bytes without white space. It identifies
            /// nobody: the secret lock token decides whether a lock is ours.
            pub fn owner(mut self, label: impl AsRef<str>) -> Self {
                self.0.owner(label.as_ref());
                self
            }
        }
    };
}

/// The methods that only waiting requests have.
macro_rules! wait_setter {
    ($Request:ident) => {
        impl $Request {
            /// Sets how long to wait for the lock. Default 10 s, the default TTL:
            /// by then the lock of a crashed holder has expired. Zero makes one
            /// attempt.
            ///
            /// An attempt that is under way when the wait ends is completed. If nodes do
            /// not answer, the error comes up to one
            /// [node timeout](Self::node_timeout) later, or two if a majority has
            /// granted the lock and still has to agree on its fencing token.
            ///
            /// If too many nodes are [quarantined](crate::LockError::Quarantined) for
            /// longer than the wait, the request fails at once.
            ///
            /// When a process requests very many locks at once, a request first
            /// waits for its turn, for this time but at least for one node timeout.
            /// If its turn does not come, it fails with
            /// [`LockError::Busy`](crate::LockError::Busy).
            pub fn wait(mut self, wait: Duration) -> Self {
                self.0.wait = Wait::For(wait);
                self
            }

            /// Waits until this moment: no attempt begins later. One that is under way
            /// then is completed, as for [`wait`](Self::wait). With a moment in the past,
            /// the request makes one attempt.
            ///
            /// Under tokio's paused clock ([`testing`](crate::testing)), name a moment of
            /// that clock, `(tokio::time::Instant::now() + wait).into_std()`: real time
            /// hardly passes in such a test.
            pub fn wait_until(mut self, deadline: std::time::Instant) -> Self {
                self.0.wait = Wait::Until(deadline);
                self
            }

            /// Waits for as long as it takes, even while no majority of the nodes answers.
            /// The request still fails if its settings are wrong or the engine is gone.
            pub fn wait_forever(self) -> Self {
                self.wait(Duration::MAX)
            }

            /// Sets whether to wait in line, first come, first served, and be woken when
            /// it is our turn. Default `true`.
            ///
            /// With `false`, the request retries after random pauses: it costs the nodes
            /// more, and may be served before or after those in line. A request for
            /// several resources always works this way, so it may wait a long time if
            /// others contend for one of them.
            pub fn fair(mut self, fair: bool) -> Self {
                self.0.fair = fair;
                self
            }
        }
    };
}

pub(super) use {setters, wait_setter};
