//! Why a server could not be asked: one closed set of causes, each with its advice. Sorts the errors of the HTTP library,
//! whose own words hold addresses, and those may hold keys.

use std::error::Error;
use std::time::Duration;

use rustls::CertificateError;

use super::host::PrivateHost;

/// Why a server could not be asked, or did not answer to the end. [`HttpError::advice`] says what helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The request cannot be made at all; the same again will fail again.
    #[error("{0}")]
    Impossible(String),
    /// The name of the host has no address.
    #[error("the name of the host is not known: {0}")]
    Dns(String),
    /// The machine answers, and nothing listens at the port.
    #[error("connection refused")]
    Refused,
    /// There is no way to the machine, or it does not take the connection.
    #[error("{0}")]
    Unreachable(String),
    /// The proxy that the environment names cannot be reached, or does not connect to the server.
    #[error("the proxy made no connection: {0}")]
    ProxyRefused(String),
    /// The listener there speaks no TLS.
    #[error("it speaks no TLS")]
    NotTls,
    /// The listener there speaks no HTTP.
    #[error("it speaks no HTTP: {0}")]
    NotHttp(String),
    /// The server's certificate is not accepted.
    #[error("its certificate is not accepted: {0}")]
    Certificate(CertificateFault),
    /// The connection was lost, or could not be made for a reason that is none of the others.
    #[error("{0}")]
    Lost(String),
    /// Nothing came for so long.
    #[error("nothing came for {} seconds", .0.as_secs_f32())]
    Silent(Duration),
}

/// Why a certificate is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CertificateFault {
    /// No authority that is known here has signed it, as with the proxies of companies.
    #[error("no authority that is known here has signed it")]
    UnknownIssuer,
    /// It is an authority's, and the server shows it as its own.
    #[error("it is an authority's, shown as a server's")]
    Authority,
    /// It holds no longer, or not yet, by this machine's clock.
    #[error("it is not valid at this time")]
    Time,
    /// It is for other hosts.
    #[error("it is for another host")]
    Name,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl HttpError {
    /// The advice against it, as a sentence; `None` where the cause says all.
    pub const fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Impossible(_) => return None,
            Self::Dns(_) => "Correct the host in the address, or look at this machine's network.",
            Self::Refused => "Start the server, or correct the port in the address.",
            Self::Unreachable(_) => {
                "Look at this machine's network, a VPN or a firewall, and at the address."
            }
            Self::ProxyRefused(_) => {
                "Start the proxy, correct HTTPS_PROXY or HTTP_PROXY, or name the host in NO_PROXY."
            }
            Self::NotTls => "Write http:// in the address, or the port at which the server speaks TLS.",
            Self::NotHttp(_) => "Correct the port in the address, or write https://.",
            Self::Certificate(fault) => fault.advice(),
            Self::Lost(_) => "Try again; if it fails each time, look at the server's log.",
            Self::Silent(_) => {
                "Try again; if it fails each time, the server is overloaded, or a firewall is between."
            }
        })
    }

    /// Whether the same request fails again, however often it is sent.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Impossible(_) | Self::NotTls | Self::Certificate(_))
    }

    /// Whether no connection was made, or it was lost.
    pub const fn is_of_connection(&self) -> bool {
        matches!(self, Self::Dns(_) | Self::Refused | Self::Unreachable(_) | Self::Lost(_))
    }
}

impl CertificateFault {
    const fn advice(&self) -> &'static str {
        match self {
            Self::UnknownIssuer => {
                "If a proxy of your company signs connections, or the server has an authority of its own, name its \
                 certificates (PEM) in the variable SSL_CERT_FILE, with those of the system."
            }
            Self::Authority => {
                "Give the server a certificate that an authority has signed; that of the authority is refused there \
                 even if SSL_CERT_FILE names it."
            }
            Self::Time => "Look at this machine's clock; else the server needs a new certificate.",
            Self::Name => "Correct the host in the address to one that the certificate names.",
            Self::Other(_) => "The server needs another certificate.",
        }
    }
}

impl From<&CertificateError> for CertificateFault {
    fn from(error: &CertificateError) -> Self {
        match error {
            CertificateError::UnknownIssuer => Self::UnknownIssuer,
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => Self::Time,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => Self::Name,
            error => match error.to_string() {
                text if text.contains("CaUsedAsEndEntity") => Self::Authority,
                text => Self::Other(text),
            },
        }
    }
}

impl From<&reqwest::Error> for HttpError {
    fn from(error: &reqwest::Error) -> Self {
        let mut cause = error.source();
        while let Some(inner) = cause {
            // The library's types for these are private.
            let words = inner.to_string();
            if words.starts_with("tunnel error") {
                return Self::ProxyRefused(cause_of(error));
            }
            if words.starts_with("dns error") && !is_private_host(inner) {
                return Self::Dns(cause_of(error));
            }
            if inner.is::<PrivateHost>() {
                return Self::Impossible(cause_of(error));
            }
            if let Some(error) = inner.downcast_ref::<rustls::Error>() {
                return Self::of_tls(error);
            }
            if let Some(io) = inner.downcast_ref::<std::io::Error>() {
                match io.kind() {
                    std::io::ErrorKind::ConnectionRefused => return Self::Refused,
                    std::io::ErrorKind::HostUnreachable | std::io::ErrorKind::NetworkUnreachable => {
                        return Self::Unreachable(io.to_string());
                    }
                    _ => {}
                }
            }
            cause = behind(inner);
        }
        match error {
            error if error.is_builder() => Self::Impossible(cause_of(error)),
            error if error.is_connect() && error.is_timeout() => {
                Self::Unreachable("it did not take the connection in time".to_owned())
            }
            error => match cause_of(error) {
                // Of SSH, mail and others, the server speaks first.
                words
                    if words.starts_with("invalid HTTP version")
                        || words.starts_with("received unexpected") =>
                {
                    Self::NotHttp(words)
                }
                words => Self::Lost(words),
            },
        }
    }
}

impl HttpError {
    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(fault) => Self::Certificate(fault.into()),
            rustls::Error::InvalidMessage(_) => Self::NotTls,
            error => Self::Impossible(error.to_string()),
        }
    }
}

/// The error behind another one. Those of the system hide theirs.
fn behind<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    error.source().or_else(|| {
        let inner = error.downcast_ref::<std::io::Error>()?.get_ref()?;
        Some(inner as &(dyn Error + 'static))
    })
}

fn is_private_host(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if inner.is::<PrivateHost>() {
            return true;
        }
        cause = behind(inner);
    }
    false
}

/// The innermost cause: the outer errors only say that something did. Never the address, which may
/// hold what is nobody's business.
pub(super) fn cause_of(error: &reqwest::Error) -> String {
    let mut innermost: &dyn Error = error;
    while let Some(inner) = innermost.source() {
        innermost = inner;
    }
    if std::ptr::addr_eq(innermost, error) {
        return if error.is_connect() { "no connection" } else { "the request failed" }.to_owned();
    }
    innermost.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_tls_have_their_own_advice() {
        let certificate = rustls::Error::InvalidCertificate;
        let other = rustls::Error::InvalidCertificate(CertificateError::Other(rustls::OtherError(
            std::sync::Arc::new(std::io::Error::other("CaUsedAsEndEntity")),
        )));
        for (error, advice) in [
            (certificate(CertificateError::UnknownIssuer), "SSL_CERT_FILE, with those"),
            (certificate(CertificateError::Expired), "clock"),
            (certificate(CertificateError::NotValidForName), "names"),
            (other, "even if"),
            (rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType), "http://"),
        ] {
            let found = HttpError::of_tls(&error);
            assert!(found.lasts() && found.advice().unwrap().contains(advice), "{error:?}: {found:?}");
        }
    }

    #[tokio::test]
    async fn causes_are_told_apart() {
        use std::io::Write as _;
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let talks = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let open = talks.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in talks.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.write_all(b"SSH-2.0-x\r\n");
                // The request is read, so that what was written arrives.
                let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
            }
        });
        let _ = rustls::crypto::ring::default_provider().install_default();
        let direct = reqwest::Client::builder().no_proxy().build().unwrap();
        let proxy = reqwest::Proxy::all(format!("http://{closed}")).unwrap();
        let proxied = reqwest::Client::builder().proxy(proxy).build().unwrap();
        for (client, url, expected) in [
            (&direct, format!("http://{closed}/"), "Refused"),
            (&direct, format!("http://{open}/"), "NotHttp"),
            (&direct, format!("https://{open}/"), "NotTls"),
            (&direct, "http://no-such-host.invalid/".to_owned(), "Dns"),
            (&proxied, "https://server.invalid/".to_owned(), "ProxyRefused"),
        ] {
            let error = HttpError::from(&client.get(&url).send().await.unwrap_err());
            assert!(format!("{error:?}").starts_with(expected), "{url}: {error:?}");
            assert!(error.advice().is_some(), "{error:?}");
        }
    }
}
