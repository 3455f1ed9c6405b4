//! What the suite cannot do to a server in use: restart it, or fill up its registers.

use super::{
    super::site::{Claim, LONG, PATIENCE, Site},
    Party,
};
use crate::node::{self, Node};
use redlatch_core::{Command, FencingToken, fence};
use redlatch_testbed::{Flavour, Server};
use std::sync::Arc;

fn node(server: &Server) -> Arc<dyn Node> {
    node::parse(&server.url()).unwrap_or_else(|error| panic!("{error}"))
}

/// The mark survives a restart that keeps all data, but belongs to the earlier run.
#[tokio::test]
async fn a_mark_of_an_earlier_run_admits_nothing() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).appendonly().start().unwrap();
        let (party, node) = (Party::new(), node(&server));
        let mark = Site::new(&*node, PATIENCE).link().out(&party).await.unwrap();
        server.restart_with_data();
        let kept = || server.run(&["HGET", "redlatch:node", "watched"]).text().unwrap();
        assert_eq!(kept(), *mark.id, "it is still there");

        let site = Site::new(&*node, PATIENCE);
        let mut link = site.link();
        link.gone(party.admit(&mark, None)).await.unwrap();

        let facts = link.facts(party.watch()).await.unwrap();
        assert_eq!(facts.marker, None);
        assert_ne!(party.awaits(&facts).unwrap().id, mark.id, "it has to be watched anew");
    }
}

/// What was planted under the second mark is not in the first database.
#[tokio::test]
async fn a_mark_that_was_swapped_away_while_there_was_another_does_not_come_back() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).start().unwrap();
        let (party, node) = (Party::new(), node(&server));
        let site = Site::new(&*node, PATIENCE);
        let mut link = site.link();
        let first = link.out(&party).await.unwrap();

        server.run(&["SWAPDB", "0", "1"]);
        let second = link.out(&party).await.unwrap();
        server.run(&["SWAPDB", "0", "1"]);

        let third = party.awaits(&link.facts(party.watch()).await.unwrap()).unwrap();
        assert!(![first.id, second.id].contains(&third.id), "it has to be watched anew");
    }
}

/// The script of a release that is sent by itself.
pub(super) fn release_script() -> String {
    let included = include_str!("../../redis/scripts/line.lua");
    let release = include_str!("../../redis/scripts/release.lua");
    release.replace("-- include line.lua", included)
}

/// A server may have forgotten one script but not the other, because another client has
/// just sent that one.
#[tokio::test]
async fn what_a_server_does_not_know_is_not_sent_again_behind_its_own_undo() {
    let release = release_script();
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).start().unwrap();
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let mut link = site.link();
        link.identity().await.unwrap(); // connected, with all scripts loaded
        let votes: [fn(&Claim) -> Command; 3] =
            [|ours| ours.take(LONG), |ours| ours.take_fenced(LONG, 1), |ours| ours.plant(LONG)];
        for vote in votes {
            let ours = site.claim(["a"]);
            server.run(&["SCRIPT", "FLUSH"]);
            server.run(&["SCRIPT", "LOAD", &release]);

            let answers = link.ask_all([vote(&ours), ours.release()]).await;

            link.identity().await.unwrap(); // after anything that was sent again
            assert_eq!(server.keys(), [""; 0], "{:?}", vote(&ours));
            answers.unwrap();
        }
    }
}

#[tokio::test]
async fn a_take_for_which_no_number_is_left_leaves_no_key() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).start().unwrap();
        let node = node(&server);
        let site = Site::new(&*node, PATIENCE);
        let mut link = site.link();
        for claim in [site.claim(["a"]), site.claim(["b", "c", "d"])] {
            let register = fence::register(claim.first()).to_string();
            let last = FencingToken::MAX.to_string();
            server.run(&["HSET", "redlatch:node", &register, &last]);

            let refused = link.numbered(claim.take_fenced(LONG, 1)).await.unwrap_err();

            assert!(refused.to_string().contains("no number is left"), "{refused}");
            assert_eq!(server.keys(), [""; 0]);
            let stands = server.run(&["HGET", "redlatch:node", &register]).text();
            assert_eq!(stands, Some(last), "no number after the last");
        }
    }
}

#[tokio::test]
async fn the_last_number_is_given_out() {
    let server = Server::start().unwrap();
    let node = node(&server);
    let site = Site::new(&*node, PATIENCE);
    let claim = site.claim(["a"]);
    let register = fence::register(claim.first()).to_string();
    server.run(&["HSET", "redlatch:node", &register, &(FencingToken::MAX - 1).to_string()]);

    let number = site.link().numbered(claim.take_fenced(LONG, 1)).await.unwrap();

    assert_eq!(number.get(), FencingToken::MAX);
}

/// As text, 9 is greater than 10.
#[tokio::test]
async fn registers_are_compared_as_numbers() {
    let server = Server::start().unwrap();
    let node = node(&server);
    let site = Site::new(&*node, PATIENCE);
    let (claim, mut link) = (site.claim(["a"]), site.link());
    let register = claim.register().to_string();
    let set = || server.run(&["HSET", "redlatch:node", &register, "9"]);
    let number = link.numbered(claim.take_fenced(LONG, 1)).await.unwrap();

    set();
    assert_eq!(link.numbered(claim.raise(number)).await, Ok(number));
    set();
    link.granted(claim.extend_fenced(LONG, number)).await.unwrap();

    let stands = server.run(&["HGET", "redlatch:node", &register]).text();
    assert_eq!(stands, Some(number.to_string()));
}

/// What was written under the mark may be gone.
#[tokio::test]
async fn a_mark_of_before_keys_were_evicted_admits_nothing() {
    for flavour in Flavour::ALL {
        let server = Server::options().flavour(flavour).start().unwrap();
        let (party, node) = (Party::new(), node(&server));
        let mut link = Site::new(&*node, PATIENCE).link();
        let mark = link.out(&party).await.unwrap();

        server.run(&["SET", "something", "that expires", "EX", "60"]);
        server.run(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
        server.run(&["CONFIG", "SET", "maxmemory", "1kb"]);
        while server.info("evicted_keys").unwrap() == "0" {
            server.run(&["SET", "more", "than there is room for"]);
        }
        server.run(&["CONFIG", "SET", "maxmemory", "0"]);

        link.gone(party.admit(&mark, None)).await.unwrap();
        let site = Site::new(&*node, PATIENCE);
        let next = party.awaits(&site.link().facts(party.watch()).await.unwrap()).unwrap();
        assert_ne!(next.id, mark.id, "it has to be watched anew");
    }
}
