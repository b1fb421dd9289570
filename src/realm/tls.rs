//! TLS to an engine, with the certificates of the system or those of a file, and the name always verified.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;

use crate::realm::error::RealmError;

/// How connections are encrypted, trusting the system's certificates or those of a PEM file.
///
/// # Errors
/// [`RealmError::Unfit`] if they cannot be read.
pub(super) fn config(roots: Option<&Path>) -> Result<ClientConfig, RealmError> {
    let unfit = |error: &dyn std::fmt::Display| {
        RealmError::Unfit(format!("The certificates for the realm's engine cannot be used: {error}.").into())
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unfit(&error))?;
    let Some(path) = roots else {
        return Ok(builder.with_platform_verifier().map_err(|error| unfit(&error))?.with_no_client_auth());
    };
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unfit(&error))? {
        let certificate = certificate.map_err(|error| unfit(&error))?;
        store.add(certificate).map_err(|error| unfit(&error))?;
    }
    Ok(builder.with_root_certificates(store).with_no_client_auth())
}

/// Whether connections are encrypted: what `sslmode` in an address says, or what is usual. `verify-full` is what every mode
/// but `disable` is taken for.
///
/// # Errors
/// [`RealmError::Unfit`] for a mode that there is not, and for `disable` over a network.
pub(super) fn is_encrypted(mode: Option<&str>, is_here: bool) -> Result<bool, RealmError> {
    let unfit = |text: &str| Err(RealmError::Unfit(text.into()));
    match mode {
        None => Ok(!is_here),
        Some("disable") if is_here => Ok(false),
        Some("disable") => unfit(
            "The realm's engine is reached over a network, where sslmode=disable would show everything. Use \
             sslmode=verify-full.",
        ),
        Some("verify-full" | "verify-ca" | "require" | "prefer" | "allow") => Ok(true),
        Some(_) => unfit("The address of the realm's engine has an sslmode that there is not."),
    }
}

/// Whether a name or an address is this machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Why a certificate is refused, for a person, if that is why a connection failed.
pub(super) fn refusal(error: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(error);
    while let Some(error) = next {
        let inner = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(rustls::Error::InvalidCertificate(reason)) = inner.and_then(|inner| inner.downcast_ref())
        {
            return Some(match reason {
                CertificateError::UnknownIssuer => {
                    "its certificate is from an authority that this machine does not trust; `sslrootcert=FILE` in the \
                     address names one of your own"
                        .to_owned()
                }
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                    "its certificate is for another name than the one in the address".to_owned()
                }
                CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                    "its certificate has expired".to_owned()
                }
                reason => format!("its certificate is refused ({reason:?})"),
            });
        }
        next = error.source();
    }
    None
}
