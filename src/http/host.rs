//! Hosts of addresses: patterns that name some, and which internet addresses belong to this machine or its networks.
//! Asks no name server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Hosts by name: `docs.rs`, every name below a domain as `*.docs.rs`, or `*` for all; with or without a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPattern {
    /// The host, or the domain of all its names; `None` for every host.
    name: Option<String>,
    /// Whether it names what is below the domain.
    is_below: bool,
    port: Option<u16>,
}

/// Why a text names no hosts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no host: write docs.rs, *.docs.rs, localhost:3000 or [::1]:8080")]
pub struct HostError(String);

/// A name whose internet addresses are all private.
#[derive(Debug, thiserror::Error)]
#[error("the host {0} is on this machine or in a private network")]
pub struct PrivateHost(pub String);

impl HostPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// A text that is more or less than a host and a port.
    pub fn read(text: &str) -> Result<Self, HostError> {
        let wrong = || HostError(text.chars().take(100).collect());
        let (is_below, host) = match text.strip_prefix("*.") {
            Some(domain) => (true, domain),
            None => (false, text),
        };
        let (host, is_any) = match host.strip_prefix('*') {
            Some(port) if !is_below && (port.is_empty() || port.starts_with(':')) => {
                (format!("x{port}"), true)
            }
            _ => (host.to_owned(), false),
        };
        if host.is_empty()
            || host.contains(['*', '/', '\\', '?', '#', '@', '%'])
            || host.contains(char::is_whitespace)
        {
            return Err(wrong());
        }
        let url = Url::parse(&format!("http://{host}/")).map_err(|_| wrong())?;
        // What the address leaves out is the port of http, which a pattern must be able to name.
        let port = match host.strip_suffix(":80") {
            Some(_) => Some(80),
            None => url.port(),
        };
        let name = name_of(&url).ok_or_else(wrong)?;
        if is_below && url.domain().is_none() {
            return Err(wrong());
        }
        Ok(Self { name: (!is_any).then_some(name), is_below, port })
    }

    /// Whether it names the host of an address, on any port unless it has one.
    pub fn names(&self, url: &Url) -> bool {
        let name = match (&self.name, name_of(url)) {
            (None, _) => true,
            (Some(domain), Some(host)) if self.is_below => host
                .strip_suffix(domain.as_str())
                .is_some_and(|above| above.len() > 1 && above.ends_with('.')),
            (Some(name), Some(host)) => *name == host,
            (Some(_), None) => false,
        };
        name && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }

    /// The same, where a pattern without a port names the usual port of the scheme only: for what widens.
    pub fn covers(&self, url: &Url) -> bool {
        self.names(url) && (self.port.is_some() || url.port().is_none())
    }
}

/// The host of an address for comparisons: without the dot of a whole name.
fn name_of(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}

/// The pattern that names the host of an address and its port, as short as it can be.
pub fn pattern_of(url: &Url) -> Option<String> {
    let name = name_of(url)?;
    Some(match url.port() {
        Some(port) => format!("{name}:{port}"),
        None => name,
    })
}

/// Whether an address is of this machine or of a private network as it is written, without a look at a name server.
pub fn is_private(url: &Url) -> bool {
    let Some(name) = name_of(url) else { return true };
    match name.trim_start_matches('[').trim_end_matches(']').parse() {
        Ok(address) => !is_public(address),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

/// Whether an internet address is one of the public internet: not of this machine, a private network, a link, a group of
/// machines, or reserved.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        // This network, networks behind a provider's translation, protocols, benchmarks.
        || a == 0
        || (a == 100 && b & 0b1100_0000 == 64)
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && b & 0b1111_1110 == 18)
        // Groups, reserved, broadcast.
        || a >= 224;
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_public_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b) {
        // Translated to the address at the end.
        (0x64, 0xff9b) if [c, d, e, f] == [0; 4] => v4(g, h),
        // 6to4: the gateway's address follows.
        (0x2002, high) => v4(high, c),
        // Protocols of their own, among them tunnels to any address.
        (0x2001, b) if b < 0x200 => false,
        // Documentation.
        (0x2001, 0xdb8) | (0x3fff, 0..0x1000) => false,
        _ => a & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn pattern_names_its_hosts_and_no_others() {
        for (pattern, address, names, covers) in [
            ("docs.rs", "https://docs.rs/x", true, true),
            ("docs.rs", "https://DOCS.rs./x", true, true),
            ("docs.rs", "http://docs.rs:8080/x", true, false),
            ("docs.rs:8080", "http://docs.rs:8080/x", true, true),
            ("docs.rs:80", "http://docs.rs/", true, true),
            ("docs.rs:80", "https://docs.rs/", false, false),
            ("docs.rs", "https://evil-docs.rs/", false, false),
            ("docs.rs", "https://docs.rs.evil.example/", false, false),
            ("docs.rs", "https://a.docs.rs/", false, false),
            ("*.docs.rs", "https://a.b.docs.rs/", true, true),
            ("*.docs.rs", "https://docs.rs/", false, false),
            ("*.docs.rs", "https://xdocs.rs/", false, false),
            ("*", "https://any.example/", true, true),
            ("*", "https://any.example:1/", true, false),
            ("*:1", "https://any.example:1/", true, true),
            ("bücher.example", "https://xn--bcher-kva.example/", true, true),
            ("[::1]:3000", "http://[::1]:3000/", true, true),
            ("127.0.0.1", "http://127.1/", true, true),
        ] {
            let read = HostPattern::read(pattern).unwrap();
            assert_eq!(
                (read.names(&url(address)), read.covers(&url(address))),
                (names, covers),
                "{pattern} {address}"
            );
        }
        for wrong in
            ["", "*.", "a/b", "a*", "*a", "*.*", "u@h", "http://h", "a b", "h:99999", "*.127.0.0.1", "h?q"]
        {
            assert!(HostPattern::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pattern_of_an_address_covers_it() {
        for address in ["https://docs.rs/x", "http://localhost:3000/", "http://[::1]:1/", "https://docs.rs./"]
        {
            let pattern = pattern_of(&url(address)).unwrap();
            assert!(HostPattern::read(&pattern).unwrap().covers(&url(address)), "{pattern}");
        }
    }

    #[test]
    fn private_addresses_are_known_in_every_form() {
        for text in [
            "127.0.0.1",
            "127.8.8.8",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::7f00:1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "fec0::1",
        ] {
            assert!(!is_public(text.parse().unwrap()), "{text}");
        }
        for text in
            ["8.8.8.8", "100.128.0.1", "172.32.0.1", "2606:4700::1", "64:ff9b::8.8.8.8", "2002:808:808::1"]
        {
            assert!(is_public(text.parse().unwrap()), "{text}");
        }
        for text in [
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "http://0x7f.1/",
            "http://2130706433/",
            "http://[::ffff:7f00:1]/",
            "http://127.0.0.1./",
            "http://0/",
        ] {
            assert!(is_private(&url(text)), "{text}");
        }
        assert!(!is_private(&url("http://localhost.example/")));
    }
}
