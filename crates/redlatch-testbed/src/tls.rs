//! Certificates for servers, good ones and bad ones.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, Error, IsCa, KeyPair};
use std::{fmt::Write, fs, io, path::Path};

/// A server's certificate, and that of the authority a client should trust.
///
/// A client that trusts [`ca_pem`](Self::ca_pem) must reject all but the
/// [good](Self::good) one.
#[derive(Debug, Clone)]
pub struct Certificates {
    ca: String,
    certificate: String,
    key: String,
}

impl Certificates {
    /// For `localhost` and `127.0.0.1`, signed by the trusted authority.
    pub fn good() -> Self {
        let ca = authority();
        Self::signed(&ca, &ca, &params(&["localhost", "127.0.0.1"]))
    }

    /// Good, except that another authority of the same name signed it.
    pub fn wrong_ca() -> Self {
        Self::signed(&authority(), &authority(), &params(&["localhost", "127.0.0.1"]))
    }

    /// Good, except that it is for another host.
    pub fn wrong_host() -> Self {
        let ca = authority();
        Self::signed(&ca, &ca, &params(&["elsewhere.invalid"]))
    }

    /// Good, except that it has expired.
    pub fn expired() -> Self {
        let ca = authority();
        let mut params = params(&["localhost", "127.0.0.1"]);
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        Self::signed(&ca, &ca, &params)
    }

    /// For the right hosts, but the certificate of an authority, which signed itself.
    pub fn authority_itself() -> Self {
        let mut params = params(&["localhost", "127.0.0.1"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = made(KeyPair::generate());
        let pem = made(params.self_signed(&key)).pem();
        Self { ca: pem.clone(), certificate: pem, key: key.serialize_pem() }
    }

    /// Returns the certificate of the authority that a client should trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    fn signed(trusted: &Authority, signer: &Authority, params: &CertificateParams) -> Self {
        let key = made(KeyPair::generate());
        let certificate = made(params.signed_by(&key, signer));
        Self { ca: trusted.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Writes the files that a server needs, and returns the configuration that
    /// names them.
    pub(crate) fn install(&self, dir: &Path) -> io::Result<String> {
        let files = [("ca", &self.ca), ("cert", &self.certificate), ("key", &self.key)];
        let mut config = String::from("tls-auth-clients no\n");
        for (name, text) in files {
            let path = dir.join(format!("{name}.pem"));
            fs::write(&path, text)?;
            let directive = if name == "ca" { "ca-cert" } else { name };
            let _ = writeln!(config, "tls-{directive}-file {}", path.display());
        }
        Ok(config)
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = params(&[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, "Testbed");
    made(KeyPair::generate().and_then(|key| Authority::self_signed(params, key)))
}

fn params(names: &[&str]) -> CertificateParams {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    made(CertificateParams::new(names))
}

/// Cannot fail: the inputs are our own constants.
fn made<T>(result: Result<T, Error>) -> T {
    result.expect("a certificate")
}
