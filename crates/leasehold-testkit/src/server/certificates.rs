//! Certificates for servers with TLS.

use std::fs;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::ServerError;

/// A CA, and what it has signed for the server and for a client.
pub(super) fn make(folder: &Path) -> Result<(), ServerError> {
    write(folder).map_err(|error| ServerError(error.to_string()))
}

fn write(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, "testkit");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    fs::write(folder.join("ca.pem"), authority.pem())?;
    for name in ["server", "client"] {
        let key = KeyPair::generate()?;
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
        fs::write(folder.join(format!("{name}.pem")), certificate.pem())?;
        fs::write(folder.join(format!("{name}.key")), key.serialize_pem())?;
    }
    Ok(())
}
