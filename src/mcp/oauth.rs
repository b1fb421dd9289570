//! Logins at servers over HTTP: where to log in is found out from the server, this program is registered there, and the
//! tokens are kept beside the other credentials.
//!
//! The protocol is `rmcp`'s; the bytes go through this program's own HTTP client, and only to addresses that a server of
//! that place may name.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::transport::auth::{
    AuthClient, AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession, CredentialStore,
    OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest, StoredCredentials,
    WWWAuthenticateParams,
};

use super::http_client::ServerClient;
use super::server_context::ServerContext;
use super::settings::Server;
use crate::auth::{Credential, Credentials, KeySource, Keys, ProviderEntry, exchange};
use crate::http::{self, Client, Http, StatusCode, Url};
use crate::limits::MCP_LOGIN_REDIRECTS;
use crate::peer::Tokens;
use crate::secret::Secret;

/// Requests with the tokens of a login, which are renewed.
pub(super) type Authorized = AuthClient<ServerClient>;

/// A login that waits for its page.
pub(super) struct Pending {
    session: AuthorizationSession,
    client: Client,
    /// The page.
    pub(super) page: Url,
}

/// The name of a server's entry among the credentials. What the server may name as its login is checked against the
/// issuer that stands in the entry.
pub(super) fn entry_of(url: &Url) -> String {
    format!("mcp:{}", http::shown(url))
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The entry of a server among the credentials.
struct Store {
    credentials: Credentials,
    entry: String,
    /// Learns each token that is met.
    tokens: Arc<Tokens>,
}

impl Store {
    fn of(url: &Url, place: &ServerContext, tokens: &Arc<Tokens>) -> Self {
        let (credentials, entry) = (place.credentials.clone(), entry_of(url));
        Self { credentials, entry, tokens: tokens.clone() }
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Credentials, &str) -> Result<T, String> + Send + 'static,
    ) -> Result<T, AuthError> {
        let (credentials, entry) = (self.credentials.clone(), self.entry.clone());
        let done = tokio::task::spawn_blocking(move || work(&credentials, &entry)).await;
        done.unwrap_or_else(|error| Err(error.to_string())).map_err(AuthError::CredentialStoreError)
    }
}

impl CredentialStore for Store {
    fn load<'s, 'f>(&'s self) -> Boxed<'f, Result<Option<StoredCredentials>, AuthError>>
    where
        's: 'f,
        Self: 'f,
    {
        let tokens = self.tokens.clone();
        Box::pin(self.blocking(move |credentials, entry| {
            let Some(ProviderEntry::Key(text)) = credentials.get(entry).map_err(|error| error.to_string())?
            else {
                return Ok(None);
            };
            tokens.learn(text.expose());
            // An entry of an earlier version is none: the person logs in again.
            Ok(serde_json::from_str(text.expose()).ok())
        }))
    }

    fn save<'s, 'f>(&'s self, stored: StoredCredentials) -> Boxed<'f, Result<(), AuthError>>
    where
        's: 'f,
        Self: 'f,
    {
        let tokens = self.tokens.clone();
        Box::pin(self.blocking(move |credentials, entry| {
            let text = serde_json::to_string(&stored).map_err(|error| error.to_string())?;
            tokens.learn(&text);
            let kept = ProviderEntry::Key(Secret::new(text));
            credentials.put(entry, kept).map_err(|error| error.to_string())
        }))
    }

    fn clear<'s, 'f>(&'s self) -> Boxed<'f, Result<(), AuthError>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.blocking(|credentials, entry| {
            credentials.forget(entry).map(drop).map_err(|error| error.to_string())
        }))
    }
}

/// This program's HTTP client, for the requests of a login.
struct Web {
    http: Arc<Http>,
    /// Whether the server itself is on this machine or in a private network: then its login may be too.
    is_private: bool,
    /// Whether it is on this machine.
    is_local: bool,
}

impl Web {
    fn of(http: Arc<Http>, server: &Url) -> Self {
        Self { http, is_private: http::host::is_private(server), is_local: http::is_loopback(server) }
    }

    /// Whether a server may send a request there: not to this machine or a private network, unless it is there itself.
    fn may_ask(&self, url: &Url) -> bool {
        match url.scheme() {
            "https" => self.is_private || !http::host::is_private(url),
            "http" => self.is_local && http::is_loopback(url),
            _ => false,
        }
    }
}

impl OAuthHttpClient for Web {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let OAuthHttpRequest { mut request, redirect_policy, .. } = request;
            let follows = matches!(redirect_policy, OAuthHttpRedirectPolicy::Follow);
            for _ in 0..=MCP_LOGIN_REDIRECTS {
                let url = Url::parse(&request.uri().to_string())?;
                if !self.may_ask(&url) {
                    return Err("an address of the login is none that this server may name".into());
                }
                let answer = exchange(&self.http, request.clone()).await?;
                let is_moved = matches!(
                    answer.status(),
                    StatusCode::MOVED_PERMANENTLY
                        | StatusCode::FOUND
                        | StatusCode::TEMPORARY_REDIRECT
                        | StatusCode::PERMANENT_REDIRECT
                );
                let place =
                    answer.headers().get(http::header::LOCATION).and_then(|place| place.to_str().ok());
                let next = place.and_then(|place| url.join(place).ok());
                // Only within one origin: what is sent was meant for it.
                let next = next.filter(|next| next.origin() == url.origin());
                match next.filter(|_| follows && is_moved && request.body().is_empty()) {
                    Some(next) => *request.uri_mut() = next.as_str().parse()?,
                    None => return Ok(answer),
                }
            }
            Err("the login is moved too often".into())
        })
    }
}

async fn manager(
    url: &Url,
    place: &ServerContext,
    tokens: &Arc<Tokens>,
) -> Result<AuthorizationManager, AuthError> {
    let web = Web::of(place.http.clone(), url);
    let mut manager = AuthorizationManager::new_with_oauth_http_client(url.as_str(), Arc::new(web)).await?;
    manager.set_credential_store(Store::of(url, place, tokens));
    Ok(manager)
}

/// Requests with the tokens that are kept of a server; `None` if there are none.
///
/// # Errors
/// Why they cannot be used, as a sentence.
pub(super) async fn restored(
    url: &Url,
    place: &ServerContext,
    tokens: &Arc<Tokens>,
    client: &Client,
) -> Result<Option<Authorized>, String> {
    let (credentials, entry) = (place.credentials.clone(), entry_of(url));
    let has = tokio::task::spawn_blocking(move || credentials.has(&entry)).await;
    if !has.unwrap_or(false) {
        return Ok(None);
    }
    let restored = async {
        let mut manager = manager(url, place, tokens).await?;
        let is_there = manager.initialize_from_store().await?;
        Ok::<_, AuthError>(is_there.then(|| AuthClient::new(ServerClient::new(client.clone()), manager)))
    };
    restored.await.map_err(|error| words(&error))
}

/// Begins a login: finds out where, and registers this program there. `challenge` is what the server said when it
/// wanted one.
///
/// # Errors
/// Why there is none, as a sentence.
pub(super) async fn begin(
    server: &Server,
    url: &Url,
    place: &ServerContext,
    tokens: &Arc<Tokens>,
    redirect: &Url,
    challenge: Option<&str>,
) -> Result<Pending, String> {
    let client = place.http.client(url).map_err(|error| error.to_string())?.clone();
    let mut manager = manager(url, place, tokens).await.map_err(|error| words(&error))?;
    let resolution =
        manager.resolve_metadata_from_challenge(challenge).await.map_err(|error| words(&error))?;
    manager.set_metadata(resolution.metadata);
    let mut request = AuthorizationRequest::new(redirect.as_str());
    request =
        request.with_initial_scope_selection().with_client_name("edn-bridge").with_application_type("native");
    let mut scopes = server.client.scopes.clone();
    if let Some(wanted) = challenge.map(|challenge| WWWAuthenticateParams::parse(challenge, url))
        && wanted.is_insufficient_scope()
    {
        // More rights than before: the old ones stay.
        let granted = granted(place, url, tokens).await;
        let wanted = wanted.scope.iter().flat_map(|scope| scope.split_whitespace().map(str::to_owned));
        scopes.extend(granted.into_iter().chain(wanted));
        let mut seen = std::collections::HashSet::new();
        scopes.retain(|scope| seen.insert(scope.clone()));
    }
    request = request.with_scopes(scopes);
    if let Some(id) = &server.client.id {
        // An address is a document about this program, which a server may read; anything else a registration.
        request = match id.starts_with("https://") {
            true => request.with_client_metadata_url(id),
            false => request.with_preregistered_client(id),
        };
        if let Some(secret) = secret(server, place).await? {
            request = request.with_client_secret(secret.expose());
        }
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| words(&error))?;
    let page = http::page(session.get_authorization_url());
    let page = page.ok_or_else(|| "the server names no page of the web to log in at".to_owned())?;
    Ok(Pending { session, client, page })
}

/// The scopes that were granted before.
async fn granted(place: &ServerContext, url: &Url, tokens: &Arc<Tokens>) -> Vec<String> {
    Store::of(url, place, tokens)
        .load()
        .await
        .ok()
        .flatten()
        .map(|stored| stored.granted_scopes)
        .unwrap_or_default()
}

/// The secret of a registration, from the command that prints it.
async fn secret(server: &Server, place: &ServerContext) -> Result<Option<Secret>, String> {
    let Some(command) = &server.client.secret_command else { return Ok(None) };
    let source = KeySource {
        command: Some(command.clone()),
        seal: server.seal.clone(),
        environment: place.environment.clone(),
        ..KeySource::default()
    };
    let name: Arc<str> = format!("mcp:{}", server.name).into();
    let (credentials, http, clock) = (place.credentials.clone(), place.http.clone(), place.clock.clone());
    match Keys::new(name.clone(), name, source, credentials, http, clock).get(false, None).await {
        Ok(Credential::Key(secret) | Credential::Token(secret)) => Ok(Some(secret)),
        Ok(Credential::None) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

/// Completes a login with the address that the page sent the browser to. Checks that it belongs to this login, and who
/// has issued it.
///
/// # Errors
/// Why it failed, as a sentence.
pub(super) async fn finish(pending: Pending, callback: &str) -> Result<Authorized, String> {
    let Pending { session, client, .. } = pending;
    session.handle_callback_url(callback).await.map_err(|error| words(&error))?;
    Ok(AuthClient::new(ServerClient::new(client), session.auth_manager))
}

/// Forgets the tokens of a server; returns whether there were any. Blocks.
pub(super) fn forget(url: &Url, place: &ServerContext) -> Result<bool, String> {
    place.credentials.forget(&entry_of(url)).map_err(|error| error.to_string())
}

/// The words of an error. They name addresses and what a server said, no token.
fn words(error: &AuthError) -> String {
    match error {
        AuthError::AuthorizationRequired => "a login is needed".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn login_stays_where_its_server_may_send_it() {
        let ask = |server: &str, url: &str| {
            Web::of(Arc::default(), &Url::parse(server).unwrap()).may_ask(&Url::parse(url).unwrap())
        };
        for (url, far, private, local) in [
            ("https://auth.example/token", true, true, true),
            ("http://auth.example/token", false, false, false),
            ("http://127.0.0.1:1/token", false, false, true),
            ("https://localhost/token", false, true, true),
            ("https://localhost./token", false, true, true),
            ("https://[::ffff:127.0.0.1]/token", false, true, true),
            ("https://0.0.0.0/token", false, true, true),
            ("https://10.0.0.1/token", false, true, true),
            ("https://169.254.169.254/token", false, true, true),
            ("http://10.0.0.1/token", false, false, false),
            ("file:///etc/passwd", false, false, false),
        ] {
            let may = ["https://mcp.example/", "https://10.1.1.1/", "http://127.0.0.1:2/"]
                .map(|server| ask(server, url));
            assert_eq!(may, [far, private, local], "{url}");
        }
    }
}
