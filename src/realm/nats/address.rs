//! The address of a NATS server or cluster: what may stand in it, and that nothing crosses a network unencrypted.

use std::path::PathBuf;
use std::sync::Arc;

use async_nats::{Auth, ServerAddr};

use crate::realm::error::RealmError;
use crate::realm::tls::{is_encrypted, is_loopback};

/// Where the engine is, and how it is reached. It contains a password: nothing prints it.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) servers: Vec<ServerAddr>,
    pub(super) auth: Auth,
    /// Certificates that are trusted instead of the system's.
    pub(super) roots: Option<PathBuf>,
    pub(super) is_encrypted: bool,
    /// The server's own page about itself (`http://host:8222`).
    pub(super) monitor: Option<Arc<str>>,
    /// Copies of the stream on servers of a cluster, for `realm init`.
    pub(super) replicas: usize,
}

impl Address {
    /// Reads `nats://USER:PASSWORD@HOST:PORT,HOST:PORT?…`, or `nats://TOKEN@HOST`. It is encrypted, unless all servers are
    /// this machine; `sslmode=verify-full` encrypts there too. `sslrootcert` names certificates in a PEM file, `monitor` the server's
    /// own page about itself, `replicas` the copies that `realm init` asks a cluster for. No text of an error repeats the
    /// address.
    pub(super) fn parse(url: &str) -> Result<Self, RealmError> {
        let unfit = |text: &str| RealmError::Unfit(text.into());
        let unread = || unfit("The address of the realm's engine cannot be read.");
        let rest = url.strip_prefix("nats://");
        let rest = rest.ok_or_else(|| unfit("The engine of a realm is an address like nats://user@host."))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (mut mode, mut roots, mut monitor, mut replicas) = (None, None, None, 1);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", "system")) => {}
                Some(("sslrootcert", path)) => roots = Some(PathBuf::from(plain(path).ok_or_else(unread)?)),
                Some(("monitor", page)) => monitor = Some(plain(page).ok_or_else(unread)?.into()),
                Some(("replicas", count)) => replicas = count.parse().map_err(|_| unread())?,
                _ => return Err(unfit("The address of the realm's engine has a setting that there is not.")),
            }
        }
        let (user, hosts) = place.trim_end_matches('/').rsplit_once('@').unwrap_or(("", place));
        // A login stands once, before all servers.
        if user.contains(',') {
            return Err(unread());
        }
        let servers = hosts.split(',').map(|host| host.trim_end_matches('/').parse());
        let servers: Vec<ServerAddr> = servers.collect::<Result<_, _>>().map_err(|_| unread())?;
        if servers.iter().any(|server| server.has_user_pass() || server.host().is_empty()) {
            return Err(unread());
        }
        let is_encrypted = is_encrypted(mode, servers.iter().all(|server| is_loopback(server.host())))?;
        let mut auth = Auth::new();
        match user.split_once(':') {
            Some((user, password)) => {
                auth.username = Some(plain(user).ok_or_else(unread)?);
                auth.password = Some(plain(password).ok_or_else(unread)?);
            }
            None if user.is_empty() => {}
            None => auth.token = Some(plain(user).ok_or_else(unread)?),
        }
        Ok(Self { servers, auth, roots, is_encrypted, monitor, replicas })
    }

    /// Where it is, without user and password.
    pub(super) fn name(&self) -> Arc<str> {
        let name = |server: &ServerAddr| format!("{}:{}", server.host(), server.port());
        self.servers.iter().map(name).collect::<Vec<_>>().join(",").into()
    }
}

/// A text in which `%2F` stands for `/`.
fn plain(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = more;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_is_never_unencrypted() {
        for (url, encrypted) in [
            ("nats://127.0.0.1", Some(false)),
            ("nats://u:p@localhost:4223", Some(false)),
            ("nats://[::1]:4222", Some(false)),
            ("nats://localhost?sslmode=verify-full", Some(true)),
            ("nats://localhost?sslmode=require&sslrootcert=system", Some(true)),
            ("nats://localhost?sslmode=nonsense", None),
            ("nats://token@nats.example", Some(true)),
            ("nats://u:p@a.example:4222,b.example:4222?replicas=3&sslrootcert=%2Fetc%2Fca.pem", Some(true)),
            ("nats://127.0.0.1,nats.example", Some(true)),
            ("nats://nats.example?sslmode=disable", None),
            ("nats://127.0.0.1.example?sslmode=disable", None),
            ("nats://127.0.0.1,u:secret@nats.example", None),
            ("nats://u:secret@nats.example?nonsense=secret", None),
            ("nats://u:secret%z@localhost", None),
            ("tls://u:secret@localhost", None),
            ("nats://u:secret@", None),
        ] {
            match (Address::parse(url), encrypted) {
                (Ok(address), Some(encrypted)) => assert_eq!(address.is_encrypted, encrypted, "{url}"),
                (Err(error), None) => assert!(!error.to_string().contains("secret"), "{error}"),
                (Ok(_), None) => panic!("{url} was taken"),
                (Err(error), Some(_)) => panic!("{url}: {error}"),
            }
        }
        let address = Address::parse("nats://Bob%20b:p%40ss@localhost:1").unwrap();
        assert_eq!(address.auth.username.as_deref(), Some("Bob b"));
        assert_eq!(address.auth.password.as_deref(), Some("p@ss"));
        assert_eq!(&*address.name(), "localhost:1");
    }
}
