//! The address of an engine: what may stand in it, and that nothing crosses a network unencrypted.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::limits::REALM_CALL_WAIT;
use crate::realm::error::RealmError;
use crate::realm::postgres::tls::Tls;
use crate::realm::tls::{self, is_encrypted};

/// Where the engine is, and how it is reached. Its text contains a password: nothing prints it.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) config: Config,
    /// Certificates that are trusted instead of the system's.
    roots: Option<PathBuf>,
    pub(super) is_encrypted: bool,
    /// What encrypts its connections, once there was one.
    tls: Arc<OnceLock<Tls>>,
}

impl Address {
    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`. `sslmode` is `verify-full`, which is the default and what
    /// every other mode but `disable` is taken for; `disable` only to this machine. `sslrootcert` names certificates in
    /// a PEM file. No text of an error repeats the address.
    pub(super) fn parse(url: &str) -> Result<Self, RealmError> {
        let unfit = |text: &str| RealmError::Unfit(text.into());
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(unfit("The engine of a realm is an address like postgres://user@host/database."));
        }
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", "system")) => {}
                Some(("sslrootcert", path)) => {
                    roots = Some(PathBuf::from(path.replace("%2F", "/").replace("%2f", "/")));
                }
                _ => rest.push(pair),
            }
        }
        let rest = if rest.is_empty() { place.to_owned() } else { format!("{place}?{}", rest.join("&")) };
        let mut config: Config =
            rest.parse().map_err(|_| unfit("The address of the realm's engine cannot be read."))?;
        // Where there is an address beside the name, that is what is connected to.
        let is_here = !config.get_hosts().is_empty()
            && config.get_hosts().iter().all(is_loopback)
            && config.get_hostaddrs().iter().all(std::net::IpAddr::is_loopback);
        let is_encrypted = is_encrypted(mode, is_here)?;
        config
            .ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable })
            .connect_timeout(REALM_CALL_WAIT)
            .tcp_user_timeout(REALM_CALL_WAIT)
            .keepalives_idle(REALM_CALL_WAIT)
            .keepalives_interval(REALM_CALL_WAIT)
            .application_name("edn-bridge");
        Ok(Self { config, roots, is_encrypted, tls: Arc::default() })
    }

    /// What encrypts its connections. The certificates are read once.
    ///
    /// # Errors
    /// [`RealmError::Unfit`] if they cannot be read.
    pub(super) fn tls(&self) -> Result<Tls, RealmError> {
        if let Some(tls) = self.tls.get() {
            return Ok(tls.clone());
        }
        let tls = Tls::new(self.roots.as_deref())?;
        Ok(self.tls.get_or_init(|| tls).clone())
    }

    /// Where it is, without user and password.
    pub(super) fn name(&self) -> Arc<str> {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate().map(|(n, host)| {
            let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => format!("{}:{port}", path.display()),
            }
        });
        hosts.collect::<Vec<_>>().join(",").into()
    }
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => tls::is_loopback(name),
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_never_unencrypted() {
        for (url, encrypted) in [
            ("postgres://u@127.0.0.1/d", Some(false)),
            ("postgres://u@localhost:5433/d", Some(false)),
            ("postgres://u@[::1]/d", Some(false)),
            ("postgres://u@%2Frun%2Fpostgresql/d", Some(false)),
            ("postgres://u@localhost/d?sslmode=require", Some(true)),
            ("postgres://u@localhost/d?hostaddr=10.0.0.1", Some(true)),
            ("postgres://u@localhost/d?hostaddr=127.0.0.1", Some(false)),
            ("postgres://u@db.example/d", Some(true)),
            ("postgres://u@db.example/d?sslmode=prefer", Some(true)),
            ("postgres://u@db.example/d?sslmode=verify-full&sslrootcert=/etc/ca.pem", Some(true)),
            ("postgresql://u@10.0.0.1/d?connect_timeout=5", Some(true)),
            ("postgres://u@db.example/d?sslmode=disable", None),
            ("postgres://u@127.0.0.1,db.example/d?sslmode=disable", None),
            ("postgres://u@127.0.0.1.example/d?sslmode=disable", None),
            ("postgres://u:secret@db.example/d?sslmode=never", None),
            ("mysql://u:secret@localhost/d", None),
            ("postgres://u:secret@localhost/d?nonsense=secret", None),
        ] {
            match (Address::parse(url), encrypted) {
                (Ok(address), Some(encrypted)) => assert_eq!(address.is_encrypted, encrypted, "{url}"),
                (Err(error), None) => assert!(!error.to_string().contains("secret"), "{error}"),
                (Ok(_), None) => panic!("{url} was taken"),
                (Err(error), Some(_)) => panic!("{url}: {error}"),
            }
        }
    }
}
