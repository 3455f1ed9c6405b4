//! The setting of the restart guard.

/// Whether nodes that may have forgotten locks are kept from voting until those
/// locks have expired.
///
/// A server without persistence forgets its locks when it restarts. One with
/// persistence may forget the last second, or come back with an old dump. A
/// promoted replica forgets what its master did not replicate. One such node in
/// three is enough to give a lock two owners. With the guard, every node carries a
/// marker that each vote checks: a node that lost its marker is quarantined for
/// `max_ttl + skew`, 60 s by default, and then admitted again by any client.
///
/// New servers are quarantined too: nobody can tell them from servers that forgot.
/// [`LockError::Quarantined`](crate::LockError::Quarantined) says how much time is
/// left. In development and CI,
/// [`Builder::admit_new_servers`](crate::Builder::admit_new_servers) skips the
/// wait.
///
/// Set by [`Builder::restart_guard`](crate::Builder::restart_guard).
///
/// # Example
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use redlatch::{Locks, RestartGuard};
///
/// let locks = Locks::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .restart_guard(RestartGuard::Strict)
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// Every node votes at any time: after a server restart, one lock may have two
    /// owners. The default for one node, and fine for tests on their own servers.
    Off,
    /// Nodes that may have forgotten locks do not vote. The default for several
    /// nodes.
    On,
    /// Like `On`, but does not trust a server's clock to tell how long it has been
    /// quarantined: one client must have watched it for the whole time.
    Strict,
}
