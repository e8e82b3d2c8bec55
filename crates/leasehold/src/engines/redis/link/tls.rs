//! TLS, with a provider of our own choice: the process may have chosen another,
//! or none.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::super::settings::Files;
use crate::error::{Error, Result};

/// Reads the files once; connections share the result.
pub(super) fn config(files: &Files) -> Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::invalid("TLS cannot be set up").caused_by(cause))?
        .with_root_certificates(roots(files)?);
    let config = match &files.own {
        None => Ok(builder.with_no_client_auth()),
        Some((cert, key)) => {
            let key = PrivateKeyDer::from_pem_file(key).map_err(|e| unread("cert_key", key, e))?;
            builder.with_client_auth_cert(chain("cert", cert)?, key)
        }
    };
    let refused =
        |cause| Error::invalid("option \"cert\" does not fit \"cert_key\"").caused_by(cause);
    config.map(Arc::new).map_err(refused)
}

/// Greets the server. Its certificate must name `host`.
pub(super) async fn wrap(
    config: Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
    TlsConnector::from(config).connect(name, stream).await
}

fn roots(files: &Files) -> Result<RootCertStore> {
    let Some(ca) = &files.ca else {
        return Ok(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect());
    };
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(chain("ca", ca)?);
    if added == 0 { Err(unread("ca", ca, "no certificate in it")) } else { Ok(store) }
}

fn chain(option: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|cause| unread(option, path, cause))
}

fn unread(option: &str, path: &Path, cause: impl std::fmt::Display) -> Error {
    Error::invalid(format!("option {option:?} takes a readable PEM file"))
        .with("file", path.display())
        .caused_by(cause)
}
