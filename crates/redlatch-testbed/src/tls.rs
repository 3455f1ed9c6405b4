//! Certificates for servers, right ones and wrong ones.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, Error, IsCa, KeyPair};

/// The certificate of a server, and of the authority that a client should
/// trust.
///
/// All but the [good](Self::good) one must be refused by a client that trusts
/// [`ca_pem`](Self::ca_pem).
#[derive(Debug, Clone)]
pub struct Certificates {
    ca: String,
    certificate: String,
    key: String,
}

impl Certificates {
    /// For `localhost` and `127.0.0.1`, by the authority that is to be
    /// trusted.
    #[must_use]
    pub fn good() -> Self {
        let ca = authority();
        Self::signed(&ca, &ca, &params(&["localhost", "127.0.0.1"]))
    }

    /// Right in all but that another authority of the same name signed it.
    #[must_use]
    pub fn wrong_ca() -> Self {
        Self::signed(&authority(), &authority(), &params(&["localhost", "127.0.0.1"]))
    }

    /// Right in all but that it is for another host.
    #[must_use]
    pub fn wrong_host() -> Self {
        let ca = authority();
        Self::signed(&ca, &ca, &params(&["elsewhere.invalid"]))
    }

    /// Right in all but that its time is over.
    #[must_use]
    pub fn expired() -> Self {
        let ca = authority();
        let mut params = params(&["localhost", "127.0.0.1"]);
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2002, 1, 1);
        Self::signed(&ca, &ca, &params)
    }

    /// The certificate of the authority that a client should trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    fn signed(trusted: &Authority, signer: &Authority, params: &CertificateParams) -> Self {
        let key = made(KeyPair::generate());
        let certificate = made(params.signed_by(&key, signer));
        Self { ca: trusted.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
    }

    /// Writes the files that a server needs, and returns the configuration
    /// that names them.
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

/// The inputs are our own constants: what is made of them cannot fail.
fn made<T>(result: Result<T, Error>) -> T {
    result.expect("a certificate")
}
