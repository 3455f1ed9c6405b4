//! Which certificates a client accepts and which it must refuse.

use redlatch_testbed::{Certificates, Flavour, Server, StartError};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::Arc,
};

/// What a server with these certificates answers a client that trusts their
/// authority.
fn ping(certificates: &Certificates) -> io::Result<String> {
    let options = Server::options().flavour(Flavour::Redis7);
    let server = options.tls(certificates.clone()).start().expect("a server");
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(certificates.ca_pem().as_bytes()).expect("PEM");
    roots.add(ca).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let session = ClientConnection::new(Arc::new(config), name).expect("a session");
    let mut stream =
        StreamOwned::new(session, TcpStream::connect(("127.0.0.1", server.tls_port()))?);
    stream.write_all(b"PING\r\n")?;
    let mut answer = [0; 7];
    stream.read_exact(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

#[test]
fn the_good_certificate_is_accepted() {
    assert_eq!(ping(&Certificates::good()).expect("an answer"), "+PONG\r\n");
}

#[test]
fn every_wrong_certificate_is_refused_for_its_own_reason() {
    let refusals = [
        (Certificates::wrong_ca(), "BadSignature"),
        (Certificates::wrong_host(), "not valid for name"),
        (Certificates::expired(), "expired"),
    ];

    for (certificates, reason) in refusals {
        let error = ping(&certificates).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn the_url_names_the_tls_port_and_the_password() {
    let options = Server::options().flavour(Flavour::Redis7).password("secret");
    let server = options.tls(Certificates::good()).start().expect("a server");

    assert_ne!(server.tls_port(), server.port());
    assert_eq!(server.tls_url(), format!("rediss://:secret@127.0.0.1:{}", server.tls_port()));
}

#[test]
fn a_server_built_without_tls_says_so() {
    for flavour in [Flavour::Redis62, Flavour::Valkey] {
        let options = Server::options().flavour(flavour).tls(Certificates::good());

        let error = options.start().expect_err("no server");

        assert!(matches!(error, StartError::Unsupported { what: "TLS", .. }), "{error}");
    }
}
