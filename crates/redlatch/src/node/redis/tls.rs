//! TLS with rustls: the server's certificate is always verified.

use super::TlsFiles;
use redlatch_core::Fault;
use rustls::{
    ClientConfig, RootCertStore,
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
    connector.connect(name, tcp).await.map_err(|error| match error.kind() {
        _ if is_not_tls(&error) => unfit(format!("TLS: {error}; is this a TLS port?")),
        // The handshake itself: a wrong authority, a wrong name, an expired certificate.
        io::ErrorKind::InvalidData => unfit(format!("TLS: {error}")),
        _ => Fault::Unreachable(format!("TLS: {error}; is this a TLS port?").into()),
    })
}

/// Whether what came back was not TLS at all.
fn is_not_tls(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidMessage(_)))
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
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("the key {} cannot be read: {error}", key.display()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| error.to_string())
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
