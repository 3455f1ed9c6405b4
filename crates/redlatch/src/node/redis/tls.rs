//! TLS with rustls: the server's certificate is always verified.

use super::TlsFiles;
use redlatch_core::Fault;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::{io, path::Path, sync::Arc};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

pub(super) async fn handshake(
    files: &TlsFiles,
    host: &str,
    tcp: TcpStream,
) -> Result<TlsStream<TcpStream>, Fault> {
    let unfit = |reason: String| Fault::Unfit(reason.into());
    // Read again for each connection: certificates are replaced while we run.
    let config = client_config(files).map_err(unfit)?;
    let name = ServerName::try_from(host.to_string())
        .map_err(|_| unfit(format!("`{host}` is not a name a certificate can have")))?;
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, tcp).await.map_err(|error| {
        if let Some(fault) = refusal(&error) {
            return fault;
        }
        if let Some(words) = distrust(&error, files) {
            return unfit(format!("TLS: {words}"));
        }
        match error.kind() {
            _ if is_not_tls(&error) => unfit(format!("TLS: {error}; is this a TLS port?")),
            // The handshake itself failed: a wrong name, an expired certificate.
            io::ErrorKind::InvalidData => unfit(format!("TLS: {error}")),
            _ => Fault::Unreachable(format!("TLS: {error}; is this a TLS port?").into()),
        }
    })
}

/// What is wrong according to rustls, if the error comes from rustls.
fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref().and_then(|inner| inner.downcast_ref())
}

/// Whether what came back was not TLS at all.
fn is_not_tls(error: &io::Error) -> bool {
    matches!(cause(error), Some(rustls::Error::InvalidMessage(_)))
}

/// Why we do not trust the server's certificate and, where known, what to do about it.
fn distrust(error: &io::Error, files: &TlsFiles) -> Option<String> {
    let Some(rustls::Error::InvalidCertificate(why)) = cause(error) else { return None };
    match (why, &files.ca) {
        (CertificateError::UnknownIssuer | CertificateError::BadSignature, Some(ca)) => {
            Some(format!("its certificate was not signed by an authority in {}", ca.display()))
        }
        (CertificateError::UnknownIssuer, None) => Some(
            "its certificate was not signed by an authority that this machine trusts; name the \
             authority that signed it: ?ca=FILE"
                .into(),
        ),
        // There is no other sign: the error's type belongs to a crate that rustls does not expose.
        (CertificateError::Other(other), _) if other.to_string().contains("CaUsedAsEndEntity") => {
            Some(
                "its certificate is that of an authority (CA:TRUE), not of a server; give the \
                 server a certificate of its own, signed by that authority"
                    .into(),
            )
        }
        _ => None,
    }
}

/// Why the server refuses our certificate, or the lack of one. It says so during the
/// handshake or, since TLS 1.3, in answer to the first bytes that we send.
pub(super) fn refusal(error: &io::Error) -> Option<Fault> {
    let Some(rustls::Error::AlertReceived(alert)) = cause(error) else { return None };
    let words = match alert {
        AlertDescription::CertificateRequired => {
            "it wants a certificate of the client: add cert=FILE and key=FILE to the address"
        }
        AlertDescription::BadCertificate
        | AlertDescription::CertificateExpired
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnknownCA
        | AlertDescription::UnsupportedCertificate => {
            "it does not accept the client's certificate, cert= in the address"
        }
        _ => return None,
    };
    Some(Fault::Unfit(format!("TLS: {words} ({alert:?})").into()))
}

pub(super) fn client_config(files: &TlsFiles) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots(files.ca.as_deref())?);
    match (&files.cert, &files.key) {
        (None, None) => Ok(builder.with_no_client_auth()),
        (Some(cert), Some(key)) => {
            let chain = certificates(cert)?;
            let secret = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("the key {} cannot be read: {error}", key.display()))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| {
                let (cert, key) = (cert.display(), key.display());
                match error {
                    rustls::Error::InconsistentKeys(_) => {
                        format!("the key {key} does not belong to the certificate {cert}")
                    }
                    _ => format!("the certificate {cert} with the key {key}: {error}"),
                }
            })
        }
        _ => Err("`cert` and `key` go together; one of them is missing".into()),
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(ca) = ca else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    for certificate in certificates(ca)? {
        roots.add(certificate).map_err(|error| format!("{}: {error}", ca.display()))?;
    }
    Ok(roots)
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(certificates) if certificates.is_empty() => {
            Err(format!("there is no certificate in {}", path.display()))
        }
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(format!("the certificate {} cannot be read: {error}", path.display())),
    }
}
