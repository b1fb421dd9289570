//! Requests to any server of the web, for addresses that somebody else chose. Connects only to the internet addresses
//! that it has looked at itself, so that a name cannot mean another machine at the second look. Judges no host by name.
//!
//! A proxy looks names up for itself and reaches what is private to it, so that one is used only where the caller brings
//! it: what is private as it is written, and names that mean a private address here, are refused there as well.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::HeaderValue;
use reqwest::{Client, Proxy, Url};
use tokio::time::timeout;

use super::certificates;
use super::error::{HttpError, cause_of};
use super::host::{PrivateHost, is_private, is_public};
use crate::limits::{FETCH_CONNECT, HTTP_KEEP};

/// Looks up the internet addresses of a name.
type Lookup =
    dyn Fn(String) -> Pin<Box<dyn Future<Output = std::io::Result<Vec<SocketAddr>>> + Send>> + Send + Sync;

/// Which machines a request may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Those of the public internet.
    Public,
    /// All: the host is one that the configuration names.
    Any,
}

/// The proxies that an environment names, and the hosts that are reached without them.
pub struct Proxies(Matcher);

/// One of them, with what it wants to know of its user.
#[derive(Clone, PartialEq, Eq)]
struct OneProxy {
    address: String,
    login: Option<HeaderValue>,
}

impl Proxies {
    /// Those of the variables `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capitals or small letters.
    pub fn of(variable: impl Fn(&str) -> Option<String>) -> Self {
        let either = |name: &str| {
            let is_set = |value: &String| !value.trim().is_empty();
            variable(name).filter(is_set).or_else(|| variable(&name.to_lowercase()).filter(is_set))
        };
        let mut builder = Matcher::builder();
        if let Some(proxy) = either("ALL_PROXY") {
            builder = builder.all(proxy);
        }
        if let Some(proxy) = either("HTTP_PROXY") {
            builder = builder.http(proxy);
        }
        if let Some(proxy) = either("HTTPS_PROXY") {
            builder = builder.https(proxy);
        }
        if let Some(hosts) = either("NO_PROXY") {
            builder = builder.no(hosts);
        }
        Self(builder.build())
    }

    /// The proxy for an address; none for this machine, however it is written: another machine would take it for itself.
    fn proxy(&self, url: &Url) -> Option<OneProxy> {
        let is_here = |host: &str| {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            host.parse::<IpAddr>()
                .map(|address| address.to_canonical())
                .is_ok_and(|address| address.is_loopback() || address.is_unspecified())
        };
        if url.domain().is_some() && is_private(url) || url.host_str().is_none_or(is_here) {
            return None;
        }
        let proxy = self.0.intercept(&url.as_str().parse().ok()?)?;
        Some(OneProxy { address: proxy.uri().to_string(), login: proxy.basic_auth().cloned() })
    }
}

/// The clients of a process, made at their first use.
pub struct Web {
    lookup: Arc<Lookup>,
    public: OnceLock<Client>,
    any: OnceLock<Client>,
    /// The one for the proxy that was used last: a process has one.
    proxied: Mutex<Option<(OneProxy, Client)>>,
}

impl Default for Web {
    fn default() -> Self {
        Self::looking_up(Arc::new(|name| {
            Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
        }))
    }
}

impl Web {
    fn looking_up(lookup: Arc<Lookup>) -> Self {
        Self { lookup, public: OnceLock::new(), any: OnceLock::new(), proxied: Mutex::default() }
    }

    /// The client for an address, through one of `proxies` if they have one for it.
    ///
    /// # Errors
    /// An address that may not be reached as it is written, or through a proxy as its name means here; a proxy of another
    /// kind; a system without certificates.
    pub async fn client(
        &self,
        url: &Url,
        reach: Reach,
        proxies: Option<&Proxies>,
    ) -> Result<Client, HttpError> {
        // Such a host is connected to without a look at its name.
        if reach != Reach::Any && is_private(url) {
            let host = url.host_str().unwrap_or_default().to_owned();
            return Err(HttpError::Impossible(PrivateHost(host).to_string()));
        }
        if let Some(proxy) = proxies.and_then(|proxies| proxies.proxy(url)) {
            if reach != Reach::Any {
                self.means_no_private(url).await?;
            }
            return self.through(proxy);
        }
        let place = match reach {
            Reach::Public => &self.public,
            Reach::Any => &self.any,
        };
        if let Some(client) = place.get() {
            return Ok(client.clone());
        }
        let looking = Looking { lookup: self.lookup.clone(), only_public: reach == Reach::Public };
        let client = built(certificates(true).no_proxy().dns_resolver(Arc::new(looking)))?;
        Ok(place.get_or_init(|| client).clone())
    }

    /// The client for all that goes through a proxy.
    fn through(&self, proxy: OneProxy) -> Result<Client, HttpError> {
        let mut place = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = place.as_ref().filter(|(known, _)| *known == proxy) {
            return Ok(client.clone());
        }
        let unfit = || {
            HttpError::Impossible("the proxy that is set here is none with http:// or https://".to_owned())
        };
        if !proxy.address.starts_with("http://") && !proxy.address.starts_with("https://") {
            return Err(unfit());
        }
        let mut all = Proxy::all(&proxy.address).map_err(|_| unfit())?;
        if let Some(login) = proxy.login.clone() {
            all = all.custom_http_auth(login);
        }
        let client = built(certificates(true).proxy(all))?;
        *place = Some((proxy, client.clone()));
        Ok(client)
    }

    /// Refuses a name that means nothing but private addresses here. One that means nothing here may mean something to a
    /// proxy.
    async fn means_no_private(&self, url: &Url) -> Result<(), HttpError> {
        let Some(name) = url.domain() else { return Ok(()) };
        let found = timeout(FETCH_CONNECT, (self.lookup)(name.to_owned())).await;
        let found = found.ok().and_then(Result::ok).unwrap_or_default();
        match found.is_empty() || found.iter().any(|address| is_public(address.ip())) {
            true => Ok(()),
            false => Err(HttpError::Impossible(PrivateHost(name.to_owned()).to_string())),
        }
    }
}

/// A client that sends nothing but what it is asked for.
fn built(builder: reqwest::ClientBuilder) -> Result<Client, HttpError> {
    let client = builder
        .user_agent(concat!("edn-bridge/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .connect_timeout(FETCH_CONNECT)
        .pool_idle_timeout(HTTP_KEEP)
        .http1_only();
    client.build().map_err(|error| HttpError::Impossible(cause_of(&error)))
}

/// What connects: each name is looked up here, and nowhere again before the connection.
struct Looking {
    lookup: Arc<Lookup>,
    only_public: bool,
}

impl Resolve for Looking {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        let (found, only_public) = ((self.lookup)(name.clone()), self.only_public);
        Box::pin(async move {
            let mut found = found.await.map_err(|error| Box::new(error) as Box<dyn Error + Send + Sync>)?;
            found.retain(|address| !only_public || is_public(address.ip()));
            match found.is_empty() {
                true => Err(Box::new(PrivateHost(name)) as _),
                false => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    /// A server that answers once, and the number of connections that it got.
    fn server() -> (SocketAddr, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, met) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let count = met.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let _ = stream.read(&mut [0; 4096]);
                let _ =
                    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
            }
        });
        (address, met)
    }

    /// The web with a name server that answers anything with these addresses, one list after the other.
    fn web(answers: Vec<Vec<SocketAddr>>) -> Web {
        let looks = Arc::new(AtomicUsize::new(0));
        Web::looking_up(Arc::new(move |_| {
            let look = looks.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1);
            let answer = answers[look].clone();
            Box::pin(async move { Ok(answer) })
        }))
    }

    async fn get(web: &Web, url: &Url, reach: Reach) -> Result<u16, HttpError> {
        got(web, url, reach, None).await
    }

    async fn got(web: &Web, url: &Url, reach: Reach, proxies: Option<&Proxies>) -> Result<u16, HttpError> {
        let request = web.client(url, reach, proxies).await?.get(url.clone());
        super::super::send(request, Duration::from_secs(30)).await.map(|response| response.status().as_u16())
    }

    #[tokio::test]
    async fn name_of_a_private_address_is_refused_unless_allowed() {
        let (address, met) = server();
        let url = Url::parse(&format!("http://rebound.example:{}/", address.port())).unwrap();
        let refused = get(&web(vec![vec![address]]), &url, Reach::Public).await;
        let Err(HttpError::Impossible(why)) = refused else { panic!("{refused:?}") };
        assert_eq!(why, "the host rebound.example is on this machine or in a private network");
        assert_eq!(met.load(Ordering::SeqCst), 0, "nothing was connected to");
        assert_eq!(get(&web(vec![vec![address]]), &url, Reach::Any).await, Ok(200));
        assert_eq!(met.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn name_that_is_rebound_reaches_no_private_address() {
        let (address, met) = server();
        let url = Url::parse(&format!("http://rebound.example:{}/", address.port())).unwrap();
        // A private address beside a public one is left out, so that it is no second choice.
        let public: SocketAddr = "192.88.99.255:9".parse().unwrap();
        let looking = Looking { lookup: web(vec![vec![public, address]]).lookup, only_public: true };
        let kept: Vec<_> = looking.resolve("rebound.example".parse().unwrap()).await.unwrap().collect();
        assert_eq!(kept, [public]);
        // And each connection looks for itself.
        let web = web(vec![vec![address]]);
        for _ in 0..2 {
            assert!(get(&web, &url, Reach::Public).await.is_err());
        }
        assert_eq!(met.load(Ordering::SeqCst), 0);
    }

    #[tokio::test]
    async fn proxy_reaches_no_name_that_is_private_here() {
        let ((address, met), (proxy, asked)) = (server(), server());
        let proxies = Proxies::of(|name| match name {
            "HTTP_PROXY" => Some(String::new()),
            "http_proxy" => Some(format!("http://{proxy}")),
            "NO_PROXY" => Some("direct.example, 10.0.0.0/8".to_owned()),
            _ => None,
        });
        let url = |host: &str| Url::parse(&format!("http://{host}:{}/", address.port())).unwrap();
        let public: SocketAddr = "192.88.99.255:9".parse().unwrap();
        let refused = got(&web(vec![vec![address]]), &url("in.example"), Reach::Public, Some(&proxies)).await;
        assert!(matches!(refused, Err(HttpError::Impossible(_))), "{refused:?}");
        for host in ["127.0.0.1", "10.0.0.1", "[::1]", "a.localhost"] {
            assert!(got(&web(vec![vec![public]]), &url(host), Reach::Public, Some(&proxies)).await.is_err());
        }
        assert_eq!(asked.load(Ordering::SeqCst), 0, "the proxy is not asked for what is private");
        // Where the configuration names the host, and where the name means something public, or nothing here.
        for (known, reach) in
            [(vec![address], Reach::Any), (vec![public, address], Reach::Public), (vec![], Reach::Public)]
        {
            assert_eq!(got(&web(vec![known]), &url("out.example"), reach, Some(&proxies)).await, Ok(200));
        }
        assert_eq!((asked.load(Ordering::SeqCst), met.load(Ordering::SeqCst)), (3, 0));
        // Without the proxy: this machine, and the hosts that are to be reached so, to which the usual rule applies.
        assert_eq!(got(&Web::default(), &url("127.0.0.1"), Reach::Any, Some(&proxies)).await, Ok(200));
        let direct = url("a.direct.example");
        assert_eq!(got(&web(vec![vec![address]]), &direct, Reach::Any, Some(&proxies)).await, Ok(200));
        assert!(got(&web(vec![vec![address]]), &direct, Reach::Public, Some(&proxies)).await.is_err());
        assert_eq!((asked.load(Ordering::SeqCst), met.load(Ordering::SeqCst)), (3, 2));
        for here in ["a.localhost", "localhost.", "[::ffff:127.0.0.1]", "127.8.8.8", "0.0.0.0", "[::]"] {
            assert!(proxies.proxy(&url(here)).is_none(), "{here}");
        }
        assert!(proxies.proxy(&url("[2606:4700::1]")).is_some() && proxies.proxy(&url("11.0.0.1")).is_some());
        // One of another kind is no silent way around it.
        let socks = Proxies::of(|name| (name == "ALL_PROXY").then(|| format!("socks5://{proxy}")));
        let refused = got(&web(vec![vec![public]]), &url("out.example"), Reach::Public, Some(&socks)).await;
        assert!(matches!(refused, Err(HttpError::Impossible(_))), "{refused:?}");
    }

    #[tokio::test]
    async fn private_host_as_written_is_refused_before_any_look() {
        let (address, met) = server();
        let url = Url::parse(&format!("http://127.0.0.1:{}/", address.port())).unwrap();
        assert!(matches!(get(&Web::default(), &url, Reach::Public).await, Err(HttpError::Impossible(_))));
        assert_eq!(met.load(Ordering::SeqCst), 0);
        assert_eq!(get(&Web::default(), &url, Reach::Any).await, Ok(200));
    }
}
