//! TLS, with a provider of our own choice: the process may have chosen another,
//! or none.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};
#[cfg(any(feature = "redis", feature = "postgres", feature = "zookeeper", feature = "etcd"))]
use tokio::io::{AsyncRead, AsyncWrite};
#[cfg(any(feature = "redis", feature = "postgres", feature = "zookeeper", feature = "etcd"))]
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::error::{Error, Result};
use crate::url::Options;

/// The files of TLS, as options name them.
#[derive(Clone, Default)]
pub(in crate::engines) struct Files {
    /// Who signs servers; the roots of the web if not given.
    pub(in crate::engines) ca: Option<PathBuf>,
    /// Our own certificate and its key.
    pub(in crate::engines) own: Option<(PathBuf, PathBuf)>,
}

impl Files {
    /// The options that name them.
    pub(in crate::engines) const OPTIONS: [&'static str; 3] = ["ca", "cert", "cert_key"];

    pub(in crate::engines) fn from_options(options: &Options) -> Result<Self> {
        let path = |key| options.get(key).map(|path| path.map(PathBuf::from));
        let own = match (path("cert")?, path("cert_key")?) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some((cert, key)),
            _ => {
                return Err(Error::invalid("options \"cert\" and \"cert_key\" are given together"));
            }
        };
        Ok(Self { ca: path("ca")?, own })
    }
}

/// Reads the files once; connections share the result.
pub(in crate::engines) fn config(files: &Files) -> Result<Arc<ClientConfig>> {
    let builder = builder()?.with_root_certificates(roots(files)?);
    introduce(builder, files)
}

/// The same, for a server that need not prove who it is: against listeners, not
/// against impostors.
#[cfg(feature = "postgres")]
pub(in crate::engines) fn trusting(files: &Files) -> Result<Arc<ClientConfig>> {
    let builder = builder()?.dangerous().with_custom_certificate_verifier(Arc::new(Anyone));
    introduce(builder, files)
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|cause| Error::invalid("TLS cannot be set up").caused_by(cause))
}

/// Adds who we are.
fn introduce(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    files: &Files,
) -> Result<Arc<ClientConfig>> {
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

#[cfg(any(feature = "redis", feature = "postgres", feature = "zookeeper", feature = "etcd"))]
/// Greets the server. Its certificate must name `host`.
pub(in crate::engines) async fn wrap<S: AsyncRead + AsyncWrite + Unpin>(
    config: Arc<ClientConfig>,
    host: &str,
    stream: S,
) -> std::io::Result<TlsStream<S>> {
    let name =
        rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(std::io::Error::other)?;
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

/// Believes every certificate.
#[cfg(feature = "postgres")]
#[derive(Debug)]
struct Anyone;

#[cfg(feature = "postgres")]
mod anyone {
    use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
    use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature};
    use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use rustls::{DigitallySignedStruct, Error, SignatureScheme};

    impl ServerCertVerifier for super::Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            Ok(ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = ring::default_provider().signature_verification_algorithms;
            verify_tls12_signature(message, cert, signed, &known)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = ring::default_provider().signature_verification_algorithms;
            verify_tls13_signature(message, cert, signed, &known)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            ring::default_provider().signature_verification_algorithms.supported_schemes()
        }
    }
}
