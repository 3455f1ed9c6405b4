//! Every kind of node, reached in every way, passes the same suite.

use redlatch::{
    LockError, Locks,
    node::{self, Memory, conformance},
};
#[cfg(feature = "file")]
use redlatch_testbed::Scratch;
use redlatch_testbed::{Flavour, Server, ServerOptions};

/// What an ACL user needs, as SECURITY.md tells operators.
fn least_rights() -> String {
    let told = include_str!("../../../SECURITY.md");
    let rights =
        told.lines().find_map(|line| line.strip_prefix("ACL SETUSER redlatch on >PASSWORD "));
    rights.expect("SECURITY.md tells the rights").into()
}

fn server(options: &ServerOptions) -> Server {
    options.start().unwrap_or_else(|error| panic!("{error}"))
}

async fn check(url: &str) {
    let node = node::parse(url).unwrap_or_else(|error| panic!("{error}"));
    conformance::check(&*node).await;
}

#[tokio::test]
async fn memory() {
    conformance::check(&Memory::new("memory:")).await;
}

#[tokio::test]
async fn memory_by_its_address() {
    check("memory:").await;
}

#[cfg(feature = "file")]
#[tokio::test]
async fn file() {
    let scratch = Scratch::new().unwrap();

    conformance::check(&node::File::new(scratch.file("locks.db"))).await;
}

#[cfg(feature = "file")]
#[tokio::test]
async fn file_by_its_address() {
    let scratch = Scratch::new().unwrap();

    std::fs::create_dir(scratch.file("a directory")).unwrap();

    check(&format!("file:{}", scratch.file("a directory/locks.db").display())).await;
}

#[tokio::test]
async fn redis_7() {
    check(&server(&Server::options().flavour(Flavour::Redis7)).url()).await;
}

#[tokio::test]
async fn redis_6_2() {
    check(&server(&Server::options().flavour(Flavour::Redis62)).url()).await;
}

#[tokio::test]
async fn valkey() {
    check(&server(&Server::options().flavour(Flavour::Valkey)).url()).await;
}

#[tokio::test]
async fn redis_over_a_unix_socket() {
    check(&server(&Server::options().unix_socket()).unix_url()).await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn redis_over_tls() {
    let certificates = redlatch_testbed::Certificates::good();
    // The only one that is built with TLS.
    let server = server(&Server::options().flavour(Flavour::Redis7).tls(certificates));
    let ca = server.dir().join("ca.pem");

    check(&format!("{}?ca={}", server.tls_url(), ca.display())).await;
}

#[tokio::test]
async fn redis_with_a_password() {
    check(&server(&Server::options().password("secret")).url()).await;
}

#[tokio::test]
async fn redis_as_a_user_with_the_least_rights() {
    for flavour in Flavour::ALL {
        let options = Server::options().flavour(flavour);
        let server = server(&options.user("latch", "secret", &least_rights()));

        check(&server.url_as("latch", "secret")).await;
    }
}

#[tokio::test]
async fn redis_in_a_database_of_its_own() {
    let server = server(&Server::options().unix_socket());
    server.run(&["SET", "invoice:42", "in database 0"]);

    check(&format!("{}/7", server.url())).await;
    check(&format!("{}?db=7", server.unix_url())).await;

    assert_eq!(server.keys(), ["invoice:42"]);
}

#[tokio::test]
async fn a_suite_leaves_nothing_on_a_server() {
    let server = server(&Server::options());

    check(&server.url()).await;

    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn a_key_of_another_type_counts_as_held_on_every_server() {
    for flavour in Flavour::ALL {
        let server = server(&Server::options().flavour(flavour));
        server.run(&["LPUSH", "list", "not a lock"]);
        let locks = Locks::connect([server.url()]).await.unwrap();

        for tried in [locks.try_lock("list"), locks.try_lock_all(["free", "list"])] {
            let tried = tried.await;
            assert!(matches!(tried, Err(LockError::Held { .. })), "{tried:?}");
        }

        locks.settled().await;
        assert_eq!(server.keys(), ["list"], "neither deleted nor joined");
    }
}
