//! Several servers at once: the nodes of a lock.

use crate::{error::StartError, options::ServerOptions, server::Server};
use std::{ops::Index, thread};

/// Several independent servers, started in parallel.
///
/// ```
/// use redlatch_testbed::Servers;
///
/// let servers = Servers::start(3)?;
///
/// servers.kill(&[0]);
/// servers.restart(&[0]);
///
/// assert_eq!(servers.urls().len(), 3);
/// # Ok::<(), redlatch_testbed::StartError>(())
/// ```
#[derive(Debug)]
pub struct Servers {
    servers: Vec<Server>,
}

impl Servers {
    /// Starts `count` servers with the default options.
    pub fn start(count: usize) -> Result<Self, StartError> {
        Self::start_with(count, &ServerOptions::default())
    }

    /// Starts `count` servers with the same options.
    pub fn start_with(count: usize, options: &ServerOptions) -> Result<Self, StartError> {
        Self::start_each(vec![options.clone(); count])
    }

    /// Starts one server per set of options, for a mixed set.
    pub fn start_each(
        options: impl IntoIterator<Item = ServerOptions>,
    ) -> Result<Self, StartError> {
        let servers: Result<_, StartError> = thread::scope(|scope| {
            let starting: Vec<_> =
                options.into_iter().map(|options| scope.spawn(move || options.start())).collect();
            starting
                .into_iter()
                .map(|thread| thread.join().expect("starting does not panic"))
                .collect()
        });
        Ok(Self { servers: servers? })
    }

    /// Returns the addresses, in order.
    pub fn urls(&self) -> Vec<String> {
        self.iter().map(Server::url).collect()
    }

    /// Returns how many there are, dead or alive.
    #[expect(clippy::len_without_is_empty, reason = "nobody starts no servers")]
    pub fn len(&self) -> usize {
        self.servers.len()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Server> {
        self.servers.iter()
    }

    pub fn kill(&self, which: &[usize]) {
        self.each(which, Server::kill);
    }

    pub fn freeze(&self, which: &[usize]) {
        self.each(which, Server::freeze);
    }

    /// Lets some frozen ones continue.
    pub fn thaw(&self, which: &[usize]) {
        self.each(which, Server::thaw);
    }

    /// Restarts some of them, with what is on their disks.
    pub fn restart(&self, which: &[usize]) {
        self.each(which, Server::restart);
    }

    /// Returns the keys of every server, in order. All servers must be up.
    #[track_caller]
    pub fn keys_everywhere(&self) -> Vec<Vec<String>> {
        self.iter().map(Server::keys).collect()
    }

    fn each(&self, which: &[usize], act: impl Fn(&Server)) {
        for &index in which {
            act(&self[index]);
        }
    }
}

impl Index<usize> for Servers {
    type Output = Server;

    fn index(&self, index: usize) -> &Server {
        &self.servers[index]
    }
}

impl<'a> IntoIterator for &'a Servers {
    type Item = &'a Server;
    type IntoIter = std::slice::Iter<'a, Server>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
