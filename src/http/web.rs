//! Requests to any server of the web, for addresses that somebody else chose. Connects only to the internet addresses
//! that it has looked at itself, so that a name cannot mean another machine at the second look. Judges no host by name.

use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, Url};

use super::host::{PrivateHost, is_private, is_public};
use super::{HttpError, cause_of, certificates};
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

/// The clients of a process, made at their first use.
pub struct Web {
    lookup: Arc<Lookup>,
    public: OnceLock<Client>,
    any: OnceLock<Client>,
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
        Self { lookup, public: OnceLock::new(), any: OnceLock::new() }
    }

    /// The client for an address.
    ///
    /// # Errors
    /// An address that may not be reached as it is written, or a system without certificates.
    pub fn client(&self, url: &Url, reach: Reach) -> Result<&Client, HttpError> {
        // Such a host is connected to without a look at its name.
        if reach != Reach::Any && is_private(url) {
            let host = url.host_str().unwrap_or_default().to_owned();
            return Err(HttpError::Impossible(PrivateHost(host).to_string()));
        }
        let place = match reach {
            Reach::Public => &self.public,
            Reach::Any => &self.any,
        };
        if let Some(client) = place.get() {
            return Ok(client);
        }
        let looking = Looking { lookup: self.lookup.clone(), only_public: reach == Reach::Public };
        // A proxy would look at names for itself, and reach what is private to it.
        let client = certificates(true)
            .no_proxy()
            .user_agent(concat!("edn-bridge/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .connect_timeout(FETCH_CONNECT)
            .pool_idle_timeout(HTTP_KEEP)
            .http1_only()
            .dns_resolver(Arc::new(looking))
            .build()
            .map_err(|error| HttpError::Impossible(cause_of(&error)))?;
        Ok(place.get_or_init(|| client))
    }
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
        let request = web.client(url, reach)?.get(url.clone());
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
    async fn private_host_as_written_is_refused_before_any_look() {
        let (address, met) = server();
        let url = Url::parse(&format!("http://127.0.0.1:{}/", address.port())).unwrap();
        assert!(matches!(get(&Web::default(), &url, Reach::Public).await, Err(HttpError::Impossible(_))));
        assert_eq!(met.load(Ordering::SeqCst), 0);
        assert_eq!(get(&Web::default(), &url, Reach::Any).await, Ok(200));
    }
}
