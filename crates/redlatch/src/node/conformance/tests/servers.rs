//! What a suite cannot ask of a server in use: it is restarted, or its
//! registers are full.

use super::{
    super::site::{LONG, PATIENCE, Site},
    Party,
};
use crate::node::{self, Node};
use redlatch_core::{FencingToken, fence};
use redlatch_testbed::{Flavour, Server};
use std::sync::Arc;

fn node(server: &Server) -> Arc<dyn Node> {
    node::parse(&server.url()).unwrap_or_else(|error| panic!("{error}"))
}

/// The mark outlives a restart with all data, and is of the run before.
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
