//! TLS to the engine, with the certificates of the system or those of a file, and the name always verified.
//!
//! The client of PostgreSQL's protocol asks for a stream, which it gets from rustls; no channel binding.

use std::error::Error;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

use crate::realm::error::RealmError;

/// Makes the streams of connections.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn new(roots: Option<&Path>) -> Result<Self, RealmError> {
        let unfit = |error: &dyn std::fmt::Display| {
            RealmError::Unfit(
                format!("The certificates for the realm's engine cannot be used: {error}.").into(),
            )
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unfit(&error))?;
        let config = match roots {
            None => builder.with_platform_verifier().map_err(|error| unfit(&error))?.with_no_client_auth(),
            Some(path) => {
                let mut store = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| unfit(&error))? {
                    let certificate = certificate.map_err(|error| unfit(&error))?;
                    store.add(certificate).map_err(|error| unfit(&error))?;
                }
                builder.with_root_certificates(store).with_no_client_auth()
            }
        };
        Ok(Self(Arc::new(config)))
    }
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

/// One connection's beginning.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// An encrypted stream.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, Self::Error> {
        Ok(Handshake { config: self.0.clone(), name: ServerName::try_from(host.to_owned())? })
    }
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted>>;

    fn connect(self, socket: Socket) -> Self::Future {
        let connector = tokio_rustls::TlsConnector::from(self.config);
        async move { connector.connect(self.name, socket).await.map(Encrypted) }.boxed()
    }
}

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
