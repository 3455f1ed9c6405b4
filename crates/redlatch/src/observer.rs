//! Inspecting locks and nodes without taking part.
//!
//! In:  nodes, reachable or not. Out: what each of them reports.
//!
//! Questions use their own connections, so that they never delay the commands of a
//! lock. A node that is down is an answer like any other. Nothing here holds a
//! lock.

mod others;
mod reports;
mod session;
mod standing;

pub use crate::client::advice::{advice, advice_to};
use crate::{
    client::{
        AdmitError, GrantId, InvalidRequest, ReplaceError, RestartGuard, Status,
        connect::{SURVEY_TIME, identities},
        one,
    },
    driver::{
        clock::Clock,
        engine::{Handle, Shared, spawn_here},
    },
    node::{Node, OtherName, label},
};
pub use others::{OtherKey, Others, Unseen};
use redlatch_core::{Admission, Command, Fault, Reply, Resource, Token, machine::Vouch};
pub use redlatch_core::{Agreement, Facts, Refusal, Standing, Taking, vote::of_nodes};
use reports::NodeListing;
pub(crate) use reports::fault_in_words;
pub use reports::{Examined, Forced, Listed, Listing, Removal, Trial, refusal};
use session::{Session, fault_in};
pub use standing::NodeStanding;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::task::JoinSet;

/// Inspects locks and nodes without taking part, for operators. Made by
/// [`Builder::observer`](crate::Builder::observer).
///
/// Questions to a node time out after two seconds. Async methods must run inside a
/// tokio runtime; those that do not return an [`AdmitError`] panic outside one.
///
/// # Example
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use redlatch::{LockState, Locks};
///
/// let observer = Locks::builder().node("memory:").observer()?;
///
/// assert_eq!(observer.status("deploy").await?.state, LockState::Free);
/// assert!(observer.list("deploy*").await.locks.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Observer {
    pub(crate) nodes: Arc<[Arc<dyn Node>]>,
    pub(crate) admission: Option<Admission>,
    pub(crate) agreement: Agreement,
}

impl Observer {
    /// Returns who holds a lock, as each node sees it, and who waits for it, without
    /// taking it.
    ///
    /// # Errors
    ///
    /// Fails if no lock can have this name. A node that does not answer is not an
    /// error: see [`NodeKey::Failed`](crate::NodeKey::Failed).
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    pub async fn status(&self, resource: impl AsRef<[u8]>) -> Result<Status, InvalidRequest> {
        let resource = Resource::new(resource)?;
        let replies = self
            .each(move |_, mut session| {
                let line = Command::Line { resource: resource.clone() };
                let keys = Command::Inspect { resources: resource.clone().into() };
                async move {
                    let keys = session.ask(keys).await;
                    if !matches!(keys, Reply::Keys(_)) {
                        return (keys, None);
                    }
                    (keys, Some((session.ask(line).await, session.ask(Command::Examine).await)))
                }
            })
            .await;
        let (mut keys, mut lines, mut facts) = (Vec::new(), Vec::new(), Vec::new());
        for (of_key, more) in replies {
            let (line, told) = more.unzip();
            lines.extend(line);
            // A node that did not answer the first question was not asked the others.
            facts.push(told.unwrap_or_else(|| of_key.clone()));
            keys.push(of_key);
        }
        let standings = self.told(&facts).into_iter().map(Some).collect();
        let mut status = Status::new(&self.nodes, &keys, &lines, standings);
        for (node, told) in status.nodes.iter_mut().zip(&facts) {
            node.refuses = match told {
                Reply::Facts(facts) => facts.refuses,
                _ => None,
            };
        }
        Ok(status)
    }

    /// Lists the locks whose names match `pattern` (see
    /// [`glob`](redlatch_core::glob)).
    ///
    /// Servers are read in small steps that delay nobody; locks that come and go in the
    /// meantime may be missed. The list leaves out locks of other libraries, because
    /// their keys look like any other (see [`others`](Self::others)), and keys that
    /// this user may not read (see [`Listing::unread`]).
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    pub async fn list(&self, pattern: impl AsRef<[u8]>) -> Listing {
        let pattern: Arc<[u8]> = pattern.as_ref().into();
        let told = self
            .each(move |_, mut session| {
                let pattern = pattern.clone();
                async move {
                    let (found, unread, fault) = session.pages(pattern).await;
                    let facts = match &fault {
                        Some(fault) => Reply::failed(fault.clone()),
                        None => session.ask(Command::Examine).await,
                    };
                    ((found, unread, fault), facts)
                }
            })
            .await;
        let (told, facts): (Vec<_>, Vec<_>) = told.into_iter().unzip();
        let told = told.into_iter().zip(self.told(&facts));
        let told = told.map(|((found, unread, fault), standing)| {
            // As for the status of one lock, unless it is known to be quarantined.
            let may_vote = standing.quarantine().is_none();
            NodeListing { found, unread, fault, may_vote, others: BTreeMap::new() }
        });
        let mut told: Vec<_> = told.collect();
        self.add_others(&mut told).await;
        Listing::new(&self.nodes, told)
    }

    /// Asks each node for the keys of locks that only other nodes list: it may have a key
    /// of another library there.
    async fn add_others(&self, told: &mut [NodeListing]) {
        let names: BTreeSet<Resource> =
            told.iter().flat_map(|node| &node.found).map(|lock| lock.key.name.clone()).collect();
        let missing: Vec<Vec<Resource>> = told.iter().map(|node| node.missing(&names)).collect();
        if missing.iter().all(Vec::is_empty) {
            return;
        }
        let missing = Arc::new(missing);
        let found = self.each(move |at, session| {
            let missing = Arc::clone(&missing);
            async move { session.keys(&missing[at]).await }
        });
        for (node, found) in told.iter_mut().zip(found.await) {
            match found {
                Ok(others) => node.others = others,
                Err(fault) => node.fault = Some(fault),
            }
        }
    }

    /// Lists the keys that may be locks of other libraries: everything that expires and
    /// is not ours. On a server that is also a cache, that is most of it. Keys that this
    /// user may not read are counted ([`Unseen::Denied`]).
    ///
    /// Servers are read in small steps that delay nobody, and only about the first
    /// 100,000 keys of each.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    pub async fn others(&self) -> Others {
        let told = self.each(|_, session| async move { session.others().await }).await;
        Others::new(&self.nodes, told)
    }

    /// Releases a lock by force, on every node that answers. Only the given
    /// [grants](Status::grants) are removed: if the lock has changed hands since they were
    /// read, the new holder keeps it. Keys that do not look like a lock stay.
    ///
    /// The holder notices at its next renewal, and keeps working without the lock until
    /// then.
    ///
    /// # Errors
    ///
    /// Fails if no lock can have this name. What went wrong on a node is in
    /// [`Forced::outcome`].
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe: dropping the future may leave the lock on some nodes only.
    /// Call it again.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let observer = redlatch::Locks::builder().node("memory:").observer()?;
    /// let seen = observer.status("deploy").await?;
    /// println!("{}; take it away?", seen.state);
    /// observer.force_release("deploy", &seen.grants).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn force_release(
        &self,
        resource: impl AsRef<[u8]>,
        grants: &[GrantId],
    ) -> Result<Vec<Forced>, InvalidRequest> {
        let resources = one(resource)?;
        let grants: Arc<[GrantId]> = grants.into();
        let done = self
            .each(move |_, session| {
                let (resources, grants) = (resources.clone(), Arc::clone(&grants));
                async move { session.force(resources, grants).await }
            })
            .await;
        let names = self.nodes.iter().map(|node| Arc::from(node.name()));
        let forced =
            names.zip(done).map(|(node, (owner, outcome))| Forced { node, owner, outcome });
        Ok(forced.collect())
    }

    /// Returns every node's report about itself, and whether it grants locks: one
    /// is tried on each, under a random name that starts with `prefix`.
    ///
    /// # Errors
    ///
    /// Fails if no lock can have such a name.
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe: dropping the future may leave the tried lock on a node, for two
    /// seconds.
    pub async fn examine(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<Examined>, InvalidRequest> {
        let mut name = prefix.as_ref().to_vec();
        let random = getrandom::u64().unwrap_or_default();
        name.extend(format!("{random:016x}:").bytes());
        let token = format!("{random:040x}@examiner");
        // Each node gets its own name: two addresses may reach the same server.
        let names = (0..self.nodes.len()).map(|at| {
            let mut name = name.clone();
            name.extend(format!("{at}").bytes());
            one(name)
        });
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let told = self
            .each(move |at, session| {
                let token = Token::from_bytes(token.as_bytes());
                let resources = names[at].clone();
                async move { session.examine(resources, token).await }
            })
            .await;
        Ok(told)
    }

    /// Returns every node's report about itself, without trying a lock: for
    /// monitoring, which must change nothing.
    ///
    /// # Example
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// # let observer = redlatch::Locks::builder().node("memory:").observer()?;
    /// for node in observer.reports().await {
    ///     println!("{}: answers in {:?}", node.label(), node.round_trip);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    pub async fn reports(&self) -> Vec<Examined> {
        self.each(|_, mut session| async move { session.report().await }).await
    }

    /// Every node's report about itself.
    pub(crate) async fn facts(&self) -> Vec<Result<Facts, Fault>> {
        let told =
            self.each(|_, mut session| async move { session.ask(Command::Examine).await }).await;
        let told = told.into_iter().map(|reply| match reply {
            Reply::Facts(facts) => Ok(*facts),
            reply => Err(fault_in(reply)),
        });
        told.collect()
    }

    /// Asks all nodes at the same time.
    async fn each<T, F>(&self, ask: impl Fn(usize, Session) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let mut asking = JoinSet::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let answer = ask(at, Session::to(node));
            asking.spawn(async move { (at, answer.await) });
        }
        let mut answers: Vec<(usize, T)> = asking.join_all().await;
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Returns the names of the nodes, in the order they were given.
    pub fn nodes(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name())
    }

    /// Returns the address, without secrets, of the node with this name.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<&str> {
        self.nodes.iter().find(|node| node.name() == name).map(|node| node.address())
    }

    /// Returns the node with this name as people see it: its name, followed by its
    /// address if that differs, as in `a (redis://localhost:6379)`.
    #[must_use]
    pub fn label<'a>(&self, name: &'a str) -> Cow<'a, str> {
        label(name, self.address(name).unwrap_or(name))
    }

    /// Returns the name that the node's clients use for it, if it does not vote for
    /// us because they have another list of nodes.
    #[must_use]
    pub fn other_name(&self, node: &str, standing: &Standing) -> Option<OtherName> {
        let Standing::Quarantined(quarantine) = standing else { return None };
        let ours = self.nodes.iter().find(|ours| ours.name() == node)?;
        OtherName::of(&quarantine.cause, &**ours)
    }

    /// Returns what all clients of these nodes with the restart guard must agree
    /// on. With the guard off, what this client would propose.
    #[must_use]
    pub fn agreement(&self) -> &Agreement {
        &self.agreement
    }

    /// Returns the setting of the restart guard, which by default depends on the
    /// number of nodes.
    #[must_use]
    pub fn restart_guard(&self) -> RestartGuard {
        match &self.admission {
            None => RestartGuard::Off,
            Some(admission) if admission.strict => RestartGuard::Strict,
            Some(_) => RestartGuard::On,
        }
    }

    /// Returns every node's standing, without changing it.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    pub async fn standings(&self) -> Vec<NodeStanding> {
        let told =
            self.each(|_, mut session| async move { session.ask(Command::Examine).await }).await;
        self.named(self.told(&told))
    }

    /// Returns the standings of the nodes that gave these reports, one for each node, in
    /// the order they were given.
    ///
    /// # Panics
    ///
    /// Panics if there are more reports than nodes.
    #[must_use]
    pub fn standings_of(&self, reports: &[Examined]) -> Vec<Standing> {
        let replies = reports.iter().map(|node| match &node.facts {
            Ok(facts) => Reply::Facts(Box::new(facts.clone())),
            Err(fault) => Reply::failed(fault.clone()),
        });
        self.told(&replies.collect::<Vec<_>>())
    }

    /// Returns how far others have got with taking a node from clients of our list,
    /// according to the facts that it reports, or `None` if nobody has begun. Nodes are
    /// numbered from zero, in the order they were given.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    #[must_use]
    pub fn taking(&self, node: usize, facts: &Facts) -> Option<Taking> {
        self.admission.as_ref()?.taking(node, facts)
    }

    /// The nodes' standings, from their answers.
    fn told(&self, replies: &[Reply]) -> Vec<Standing> {
        let Some(admission) = &self.admission else {
            let nodes = self.nodes.iter().zip(replies);
            let counted = |node: &Arc<dyn Node>| self.agreement.at(node.name());
            return nodes.map(|(node, reply)| counted(node).unguarded_standing(reply)).collect();
        };
        admission.standings(replies).into()
    }

    fn named(&self, standings: impl IntoIterator<Item = Standing>) -> Vec<NodeStanding> {
        let of = |(node, standing): (&Arc<dyn Node>, Standing)| NodeStanding {
            node: node.name().into(),
            standing,
        };
        self.nodes.iter().zip(standings).map(of).collect()
    }

    /// Admits these nodes at once: an operator vouches that they have forgotten no lock
    /// that could still be held. Nodes are given by [name](Self::nodes).
    ///
    /// # Errors
    ///
    /// See [`AdmitError`]. A node that cannot be admitted is not an error: its
    /// standing says why.
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe: dropping the future may leave only some of the nodes admitted. Call
    /// it again.
    ///
    /// # Example
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let nodes = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let observer = redlatch::Locks::builder().nodes(nodes).observer()?;
    ///
    /// let all: Vec<_> = observer.nodes().map(Into::into).collect();
    /// for node in observer.admit(&all).await? {
    ///     println!("{}: {:?}", node.node, node.standing);
    /// }
    /// # Ok(()) }
    /// ```
    pub async fn admit(&self, nodes: &[Arc<str>]) -> Result<Vec<NodeStanding>, AdmitError> {
        let remembers = self.positions(nodes);
        let handle = self.admitting().await?;
        let vouch = Vouch { remembers, ..Vouch::default() };
        self.vouch(&handle, vouch).await
    }

    /// Checks whether [`replace`](Self::replace) may take nodes, one by one, from
    /// clients with another list of nodes or other times while those are working.
    ///
    /// It may only if a majority of their nodes and one of ours always share a
    /// node. That holds for the same list, even under other names, and for one node
    /// more or less. It may also take back a node that others have begun to take
    /// from our list: see [`taking`](Self::taking).
    ///
    /// # Errors
    ///
    /// [`ReplaceError`] says why it may not.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: nothing changes on the nodes.
    pub async fn may_replace(&self) -> Result<(), ReplaceError> {
        let admission = self.admission.as_ref().ok_or(ReplaceError::NoGuard)?;
        let mut told = Vec::with_capacity(self.nodes.len());
        for (node, facts) in self.nodes().zip(self.facts().await) {
            let unseen = |fault| ReplaceError::Unseen { node: node.into(), fault };
            told.push((node, facts.map_err(unseen)?));
        }
        let all = || told.iter().map(|(node, facts)| (*node, facts));
        let (mut lists, mut forgot, mut begun) = (Vec::new(), Vec::new(), false);
        for (at, (node, facts)) in all().enumerate() {
            match facts.objection(admission.fingerprint(at)) {
                // It was ours until others began to take it.
                Some(_) if admission.taking(at, facts).is_some() => {}
                Some(cause) if cause.is_conflict() => {
                    let ours = |theirs: &_| admission.agreement.in_words_of(theirs, all());
                    lists.push(followed(admission, ours, node, facts)?);
                }
                Some(_) if facts.reserved.is_none() => forgot.push(node),
                _ => begun = true,
            }
        }
        let of_theirs = |node: &&str| lists.iter().any(|list| admission.may_be_of(node, list));
        // Once some nodes have changed over, the only way is forward: neither list
        // may admit a node that forgets now, unless it is taken, too.
        match forgot.into_iter().find(|node| !begun && of_theirs(node)) {
            Some(node) => Err(ReplaceError::Forgot { node: node.into() }),
            None => Ok(()),
        }
    }

    /// Takes these nodes from clients with another list of nodes or other times. It does
    /// not check whether that is safe while those clients are working:
    /// [`may_replace`](Self::may_replace) does.
    ///
    /// The nodes are admitted for our list once every lock of the other clients has
    /// expired; [`watch`](Self::watch) waits for that. Until then they vote for
    /// nobody.
    ///
    /// # Errors
    ///
    /// See [`AdmitError`]. A node that cannot be taken is not an error: its
    /// standing says why.
    ///
    /// # Cancel safety
    ///
    /// Not cancel-safe: dropping the future may leave only some of the nodes taken. Call it
    /// again.
    pub async fn replace(&self, nodes: &[Arc<str>]) -> Result<Vec<NodeStanding>, AdmitError> {
        let replace = self.positions(nodes);
        let handle = self.admitting().await?;
        let vouch = Vouch { replace, ..Vouch::default() };
        self.vouch(&handle, vouch).await
    }

    /// Watches the nodes and admits those that may vote, until all may vote or
    /// `enough` returns `true`. `enough` is called after every check.
    ///
    /// # Errors
    ///
    /// See [`AdmitError`]. Nodes that do not answer are not an error: it keeps
    /// watching.
    ///
    /// # Cancel safety
    ///
    /// Cancel-safe: dropping the future stops watching. Nodes that were admitted stay
    /// admitted.
    pub async fn watch(
        &self,
        mut enough: impl FnMut(&[NodeStanding]) -> bool,
    ) -> Result<Vec<NodeStanding>, AdmitError> {
        let handle = self.admitting().await?;
        loop {
            let look = Vouch { patient: true, ..Vouch::default() };
            let standings = self.vouch(&handle, look).await?;
            let all = standings.iter().all(|node| node.standing == Standing::Admitted);
            if enough(&standings) || all {
                return Ok(standings);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// A client of these nodes that only admits. It must not if one server answers
    /// for two of them: the right list would be locked out.
    async fn admitting(&self) -> Result<Handle, AdmitError> {
        let admission = self.admission.clone().ok_or(AdmitError::NoGuard)?;
        let shared = Shared::new(self.nodes.clone(), Clock::System).admitting(Some(admission));
        let handle = spawn_here(shared);
        let handle = handle.map_err(|error| AdmitError::NoRuntime(error.to_string().into()))?;
        identities(&handle, SURVEY_TIME).await?;
        Ok(handle)
    }

    async fn vouch(&self, handle: &Handle, vouch: Vouch) -> Result<Vec<NodeStanding>, AdmitError> {
        let standings = handle.admit(vouch).await.map_err(|_| AdmitError::Stopped)?;
        Ok(self.named(standings))
    }

    fn positions(&self, wanted: &[Arc<str>]) -> Box<[usize]> {
        let at = self.nodes.iter().enumerate();
        at.filter(|(_, node)| wanted.iter().any(|name| **name == *node.name()))
            .map(|(at, _)| at)
            .collect()
    }
}

/// The pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The agreement of a node that serves other clients, if our agreement may follow it.
/// `ours` returns our agreement with their names for the nodes.
fn followed(
    admission: &Admission,
    ours: impl Fn(&Agreement) -> Agreement,
    node: &str,
    facts: &Facts,
) -> Result<Agreement, ReplaceError> {
    if facts.marker.is_none() {
        return Err(ReplaceError::UnderWay { node: node.into() });
    }
    match facts.agreement.as_deref().and_then(Agreement::parse) {
        Some(theirs) if ours(&theirs).may_follow(&theirs) => Ok(theirs),
        theirs => {
            let ours = Box::new(admission.agreement.clone());
            Err(ReplaceError::TooDifferent {
                node: node.into(),
                theirs: theirs.map(Box::new),
                ours,
            })
        }
    }
}
