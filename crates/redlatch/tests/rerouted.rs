//! An address of the list that leads to the server of another, on real servers:
//! one server has one vote.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use redlatch::{AdmitError, Builder, Cause, Locks, RestartGuard, Vote, Votes};
use redlatch_testbed::{Direction, Proxy};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use support::{Fleet, MS, NAME, SEC, in_time, no_majority, soon, vouch};
use tokio::task::JoinSet;

/// Three servers, and the network in front of them.
struct Site {
    fleet: Fleet,
    network: Vec<Proxy>,
    /// The addresses of the nodes, with their names if they have their own.
    nodes: Vec<String>,
}

impl Site {
    /// All servers may vote. One that forgets is quarantined for longer than a test
    /// lasts.
    async fn new() -> Self {
        Site::with_names(["", "", ""]).await
    }

    /// The same, with this behind the addresses of the nodes.
    async fn with_names(names: [&str; 3]) -> Self {
        let fleet = Fleet::of(3);
        let network: Vec<_> =
            fleet.servers.iter().map(|server| Proxy::to(server).unwrap()).collect();
        let nodes = network.iter().zip(names).map(|(node, name)| node.url() + name).collect();
        let site = Site { fleet, network, nodes };
        vouch(&site.builder()).await;
        site
    }

    fn builder(&self) -> Builder {
        let builder = Locks::builder().nodes(&self.nodes);
        builder.max_ttl(60 * SEC).ttl(2 * SEC).node_timeout(500 * MS).wait(Duration::ZERO)
    }

    /// Locks that are patient with a busy machine.
    fn patient(&self) -> Builder {
        self.builder().ttl(30 * SEC).node_timeout(3 * SEC)
    }

    /// The address of the first node leads to the second server, and the third
    /// is not to be reached.
    fn reroute(&self) {
        self.network[0].lead_to(&self.fleet.servers[1]);
        self.network[2].black_hole();
        self.network[2].reset_all();
    }

    fn other_node(&self) -> Cause {
        let [is, asked] = [1, 0].map(|node: usize| self.network[node].url().into());
        Cause::OtherNode { is, asked }
    }

    fn kept(&self, node: usize, field: &str) -> String {
        let kept = self.fleet.servers[node].run(&["HGET", "redlatch:node", field]);
        kept.text().unwrap_or_default()
    }
}

fn cause(votes: &Votes) -> Option<Cause> {
    match &votes.iter().next()?.vote {
        Vote::Quarantined(quarantine) => Some(quarantine.cause.clone()),
        _ => None,
    }
}

/// The votes by which the first node is quarantined: a connection that was just reset
/// fails once before it says so.
async fn out(locks: &Locks) -> Votes {
    loop {
        let votes = no_majority(locks.lock(NAME).await);
        if cause(&votes).is_some() {
            return votes;
        }
        tokio::time::sleep(20 * MS).await;
    }
}

#[tokio::test]
async fn a_server_refuses_to_vote_under_another_name_and_says_which_is_its_own() {
    let site = Site::new().await;
    let locks = site.builder().connect().await.unwrap();
    site.reroute();

    let votes = in_time(out(&locks)).await;

    assert_eq!(cause(&votes), Some(site.other_node()));
    let said = votes.to_string();
    let names = format!("admitted as {}, not as {}", site.network[1].url(), site.network[0].url());
    assert!(said.contains(&names) && said.contains("lead to one server"), "{said}");
}

#[tokio::test]
async fn a_lease_is_lost_when_one_server_is_left_under_two_names() {
    let site = Site::new().await;
    let locks = site.builder().connect().await.unwrap();
    let guard = locks.lock(NAME).await.unwrap();

    site.reroute();

    in_time(guard.lost()).await;
}

/// The server is quarantined, and has the key that was planted there again.
#[tokio::test]
async fn a_lease_is_lost_when_one_server_that_forgot_is_left_under_two_names() {
    let site = Site::new().await;
    let locks = site.builder().connect().await.unwrap();
    let guard = locks.lock(NAME).await.unwrap();
    site.fleet.servers[1].run(&["FLUSHALL"]);
    soon("its key is back", || site.fleet.value(1, NAME).is_some()).await;
    assert_eq!(site.kept(1, "admitted"), "");

    site.reroute();

    in_time(guard.lost()).await;
}

#[tokio::test]
async fn a_client_without_the_guard_heeds_the_name_under_which_others_know_a_server() {
    let site = Site::new().await;
    let off = site.builder().restart_guard(RestartGuard::Off).connect().await.unwrap();
    off.lock(NAME).await.unwrap().release().await.unwrap();
    site.reroute();

    let votes = in_time(out(&off)).await;

    assert_eq!(cause(&votes), Some(site.other_node()));
}

/// A holder at work, while an address is led to the server of another node and
/// back. Nothing closes the connection to the wrong one: a corrected DNS record
/// or forward does not.
async fn finds_its_way_back(site: &Site, locks: Builder) {
    let locks = locks.connect().await.unwrap();
    let guard = locks.lock(NAME).renew_every(500 * MS).await.unwrap();
    let route = &site.network[0];
    route.lead_to(&site.fleet.servers[1]);
    soon("it is connected to the wrong server", || route.open_connections() > 0).await;
    site.fleet.remove(0, NAME);

    route.lead_next_to(&site.fleet.servers[0]);

    soon("its key is back", || site.fleet.value(0, NAME).is_some()).await;
    guard.release().await.unwrap();
    site.fleet.is_tidy_soon().await;
}

#[tokio::test]
async fn a_holder_finds_the_server_of_an_address_that_is_led_back() {
    let site = Site::new().await;

    finds_its_way_back(&site, site.patient()).await;
}

#[tokio::test]
async fn a_holder_without_the_guard_finds_the_server_of_an_address_that_is_led_back() {
    let site = Site::new().await;

    finds_its_way_back(&site, site.patient().restart_guard(RestartGuard::Off)).await;
}

/// A server tells which node it is by name, not by address.
#[tokio::test]
async fn a_holder_finds_the_server_of_a_node_with_a_name_that_is_led_back() {
    let site = Site::with_names(["?name=a", "?name=b", "?name=c"]).await;

    finds_its_way_back(&site, site.patient().restart_guard(RestartGuard::Off)).await;
}

#[tokio::test]
async fn a_server_that_turns_a_holder_away_is_dialled_once_a_second_at_most() {
    let site = Site::new().await;
    let locks = site.patient().connect().await.unwrap();
    let _guard = locks.lock(NAME).renew_every(200 * MS).await.unwrap();
    let (route, since) = (&site.network[0], Instant::now());
    route.lead_to(&site.fleet.servers[1]);
    let before = route.connections();

    soon("it was dialled three times", || route.connections() >= before + 3).await;

    assert!(since.elapsed() >= 2 * SEC, "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_server_that_may_have_forgotten_locks_is_not_dialled_again() {
    let site = Site::new().await;
    let locks = site.patient().connect().await.unwrap();
    locks.lock(NAME).await.unwrap().release().await.unwrap();
    site.fleet.servers[0].run(&["FLUSHALL"]);
    let (route, since) = (&site.network[0], Instant::now());
    let before = route.connections();

    while since.elapsed() < 2 * SEC {
        locks.lock(NAME).await.unwrap().release().await.unwrap();
    }

    assert_eq!(route.connections(), before);
}

/// Two of three refuse, so every attempt shows its votes. They are spread over
/// the time that an answer takes, so some are always under way.
#[tokio::test]
async fn no_command_is_cut_off_by_dialling_again() {
    let site = Site::new().await;
    let locks = site.patient().connect().await.unwrap();
    let route = &site.network[0];
    route.lead_to(&site.fleet.servers[1]);
    site.network[2].lead_to(&site.fleet.servers[1]);
    in_time(out(&locks)).await;
    let enough = route.connections() + 2;

    let mut attempts = JoinSet::new();
    let attempt = |attempts: &mut JoinSet<_>, number: u32| {
        let locks = locks.clone();
        attempts.spawn(async move {
            tokio::time::sleep(MS * (number % 32)).await;
            locks.lock(format!("{NAME}:{number}")).await
        });
    };
    route.delay(Direction::Replies, 30 * MS);
    (0..32).for_each(|number| attempt(&mut attempts, number));
    let all_answered = async {
        for number in 32.. {
            let Some(attempted) = attempts.join_next().await else { break };
            let votes = no_majority(attempted.unwrap());
            assert_eq!(cause(&votes), Some(site.other_node()), "{votes}");
            if route.connections() < enough {
                attempt(&mut attempts, number);
            }
        }
    };
    in_time(all_answered).await;
}

/// An operator who does not see that the address is wrong changes nothing.
#[tokio::test]
async fn no_server_is_taken_under_the_name_of_another() {
    let site = Site::new().await;
    let observer = site.builder().observer().unwrap();
    let names: Vec<Arc<str>> = observer.nodes().map(Arc::from).collect();
    let admitted = site.kept(1, "admitted");
    site.network[0].lead_to(&site.fleet.servers[1]);

    let refused = observer.replace(&names[..1]).await.unwrap_err();

    assert!(matches!(&refused, AdmitError::SameServer { .. }), "{refused}");
    assert_eq!(site.kept(1, "admitted"), admitted);
}
