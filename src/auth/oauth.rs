//! OAuth: the description of a login in a configuration, and the requests to the server of tokens.
//!
//! No client id is shipped: a login is somebody's registration with a provider, and the configuration names
//! it. The protocol is the `oauth2` crate's; the bytes go through this program's own HTTP client.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use oauth2::basic::{BasicClient, BasicTokenResponse};
use oauth2::{
    AuthUrl, AuthorizationCode, ClientId, ClientSecret, CsrfToken, DeviceAuthorizationUrl, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RefreshToken, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse, StandardErrorResponse, TokenResponse as _, TokenUrl,
};

use super::command;
use super::credentials::Tokens;
use crate::clock::Clock;
use crate::environment::Environment;
use crate::files::Seal;
use crate::http::{self, Http, HttpError, Url};
use crate::limits::{HTTP_ERROR_BYTES, LOGIN_PATIENCE, TOKEN_PATIENCE};
use crate::secret::Secret;
use crate::value::Value;

/// How to log in, as a configuration describes it.
#[derive(Debug, Clone)]
pub struct Login {
    client_id: String,
    client_secret_command: Option<Vec<String>>,
    /// What the command gets.
    pub(super) environment: Environment,
    /// The files that the command names.
    pub(super) seal: Seal,
    authorize: Option<Url>,
    token: Url,
    device: Option<Url>,
    redirect: Option<Url>,
    scopes: Vec<String>,
    extra: Vec<(String, String)>,
}

/// Why there are no tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OauthError {
    /// The server does not want to. Says why.
    Refused(String),
    /// It could not be asked, or did not answer.
    Passing(String),
}

/// A requested authorisation: its page, and the proof that this process requested it.
pub struct AuthorizationRequest {
    /// The page.
    pub url: Url,
    /// What the page hands on.
    pub state: CsrfToken,
    /// What only this process knows.
    pub verifier: PkceCodeVerifier,
    /// Where the page sends the browser.
    pub redirect: Url,
}

/// A code for a device that has no browser.
pub struct Device {
    details: StandardDeviceAuthorizationResponse,
    /// The page.
    pub url: String,
    /// What is typed there.
    pub code: String,
    /// When it ends.
    pub ends: Timestamp,
}

/// Why a configured login cannot be used. Completes a sentence whose subject is the provider.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginShapeError {
    /// It is no map.
    #[error("needs a map at :login")]
    NoMap,
    /// It has an unknown key.
    #[error("has no {0} in its :login; it may have {known}", known = LOGIN_KEYS.map(|key| format!(":{key}")).join(" "))]
    UnknownKey(String),
    /// A key is missing.
    #[error("needs {0} in its :login")]
    Missing(&'static str),
    /// An address is unencrypted or cannot be parsed. The value may contain a secret and is not shown.
    #[error("needs an address that begins with https:// at :{0} of its :login")]
    Address(&'static str),
}

/// The keys of a login.
const LOGIN_KEYS: [&str; 8] = [
    "client-id",
    "client-secret-command",
    "authorize-url",
    "token-url",
    "device-url",
    "redirect-url",
    "scopes",
    "extra",
];

impl Login {
    /// Reads a login.
    ///
    /// # Errors
    /// See [`LoginShapeError`].
    pub fn read(value: &Value<'_>) -> Result<Self, LoginShapeError> {
        let map = value.as_map().ok_or(LoginShapeError::NoMap)?;
        let is_known = |key: &Value<'_>| key.as_keyword().is_some_and(|key| LOGIN_KEYS.contains(&key));
        if let Some((key, _)) = map.iter().find(|(key, _)| !is_known(key)) {
            return Err(LoginShapeError::UnknownKey(key.to_string()));
        }
        let text = |key: &str| map.get_keyword(key).and_then(Value::as_str).map(str::to_owned);
        let texts = |key: &str| {
            let items = map.get_keyword(key).and_then(Value::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
        };
        let url = |key: &'static str| match text(key) {
            None => Ok(None),
            Some(text) => match Url::parse(&text) {
                // Logins send secrets there.
                Ok(url) if url.scheme() == "https" || (url.scheme() == "http" && http::is_loopback(&url)) => {
                    Ok(Some(url))
                }
                _ => Err(LoginShapeError::Address(key)),
            },
        };
        let (authorize, device) = (url("authorize-url")?, url("device-url")?);
        let client_id = text("client-id").ok_or(LoginShapeError::Missing("a :client-id"))?;
        if authorize.is_none() && device.is_none() {
            return Err(LoginShapeError::Missing("an :authorize-url or a :device-url"));
        }
        let command = texts("client-secret-command");
        let extra =
            map.get_keyword("extra").and_then(Value::as_map).into_iter().flat_map(crate::value::Map::iter);
        let extra = extra.filter_map(|(key, value)| {
            let key = key.as_str().or_else(|| key.as_keyword())?;
            Some((key.to_owned(), value.as_str()?.to_owned()))
        });
        Ok(Self {
            client_id,
            client_secret_command: (!command.is_empty()).then_some(command),
            environment: Environment::default(),
            seal: Seal::default(),
            authorize,
            token: url("token-url")?.ok_or(LoginShapeError::Missing("a :token-url"))?,
            device,
            redirect: url("redirect-url")?,
            scopes: texts("scopes"),
            extra: extra.collect(),
        })
    }

    /// Where the browser is to be sent, if the configuration says so.
    pub fn redirect(&self) -> Option<&Url> {
        self.redirect.as_ref()
    }

    /// Whether a page asks the person, rather than a code for a device.
    pub fn has_page(&self) -> bool {
        self.authorize.is_some()
    }

    /// Asks for an authorisation.
    ///
    /// # Errors
    /// [`OauthError::Refused`] if the configuration has no page.
    pub fn ask(&self, redirect: Url) -> Result<AuthorizationRequest, OauthError> {
        let page = self
            .authorize
            .clone()
            .ok_or_else(|| OauthError::Refused("there is no page to log in at".into()))?;
        let (challenge, verifier) = PkceCodeChallenge::new_random_sha256();
        let client = BasicClient::new(ClientId::new(self.client_id.clone()))
            .set_auth_uri(AuthUrl::from_url(page))
            .set_redirect_uri(RedirectUrl::from_url(redirect.clone()));
        let mut request = client.authorize_url(CsrfToken::new_random).set_pkce_challenge(challenge);
        for scope in &self.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        for (key, value) in &self.extra {
            request = request.add_extra_param(key, value);
        }
        let (url, state) = request.url();
        Ok(AuthorizationRequest { url, state, verifier, redirect })
    }

    /// Exchanges the code of the page for tokens.
    ///
    /// # Errors
    /// See [`OauthError`].
    pub async fn exchange(
        &self,
        code: &Secret,
        verifier: PkceCodeVerifier,
        redirect: Url,
        http: &Arc<Http>,
        clock: &dyn Clock,
    ) -> Result<Tokens, OauthError> {
        let client = self.client().await?.set_redirect_uri(RedirectUrl::from_url(redirect));
        let answer = client
            .exchange_code(AuthorizationCode::new(code.expose().to_owned()))
            .set_pkce_verifier(verifier)
            .request_async(&caller(http))
            .await;
        tokens(answer.map_err(|error| sort(&error, code))?, None, clock)
    }

    /// Asks for fresh tokens.
    ///
    /// # Errors
    /// See [`OauthError`].
    pub async fn refresh(
        &self,
        refresh: &Secret,
        http: &Arc<Http>,
        clock: &dyn Clock,
    ) -> Result<Tokens, OauthError> {
        let client = self.client().await?;
        let token = RefreshToken::new(refresh.expose().to_owned());
        let answer = client.exchange_refresh_token(&token).request_async(&caller(http)).await;
        tokens(answer.map_err(|error| sort(&error, refresh))?, Some(refresh), clock)
    }

    /// Asks for a code for a device.
    ///
    /// # Errors
    /// See [`OauthError`].
    pub async fn device(&self, http: &Arc<Http>, clock: &dyn Clock) -> Result<Device, OauthError> {
        let url =
            self.device.clone().ok_or_else(|| OauthError::Refused("there is no login by code".into()))?;
        let client = self.client().await?.set_device_authorization_url(DeviceAuthorizationUrl::from_url(url));
        let mut request = client.exchange_device_code();
        for scope in &self.scopes {
            request = request.add_scope(Scope::new(scope.clone()));
        }
        for (key, value) in &self.extra {
            request = request.add_extra_param(key.clone(), value.clone());
        }
        let none = Secret::new(String::new());
        let details: StandardDeviceAuthorizationResponse =
            request.request_async(&caller(http)).await.map_err(|error| sort(&error, &none))?;
        let url = details.verification_uri_complete().map(|url| url.secret().clone());
        let url = url.unwrap_or_else(|| details.verification_uri().to_string());
        // A frontend opens it, so it must be a page, not a script or a file.
        if http::page(&url).is_none() {
            return Err(OauthError::Refused("the server names no page of the web to log in at".to_owned()));
        }
        let time = details.expires_in().min(LOGIN_PATIENCE);
        Ok(Device {
            url,
            code: details.user_code().secret().clone(),
            ends: clock.now().checked_add(time).unwrap_or(Timestamp::MAX),
            details,
        })
    }

    /// Waits until the person has typed a device's code.
    ///
    /// # Errors
    /// See [`OauthError`].
    pub async fn wait(
        &self,
        device: &Device,
        http: &Arc<Http>,
        clock: &dyn Clock,
    ) -> Result<Tokens, OauthError> {
        let client = self.client().await?;
        let time = device.details.expires_in().min(LOGIN_PATIENCE);
        let answer = client
            .exchange_device_access_token(&device.details)
            .request_async(&caller(http), tokio::time::sleep, Some(time))
            .await;
        let none = Secret::new(String::new());
        tokens(answer.map_err(|error| sort(&error, &none))?, None, clock)
    }

    async fn client(
        &self,
    ) -> Result<
        BasicClient<
            oauth2::EndpointNotSet,
            oauth2::EndpointNotSet,
            oauth2::EndpointNotSet,
            oauth2::EndpointNotSet,
            oauth2::EndpointSet,
        >,
        OauthError,
    > {
        let mut client = BasicClient::new(ClientId::new(self.client_id.clone()));
        if let Some(command) = &self.client_secret_command {
            let secret =
                command::run(command, &self.seal, "the login's client secret", &self.environment).await;
            let secret = secret.map_err(|error| OauthError::Refused(error.to_string()))?;
            client = client.set_client_secret(ClientSecret::new(secret.expose().to_owned()));
        }
        Ok(client.set_token_uri(TokenUrl::from_url(self.token.clone())))
    }
}

fn tokens(
    answer: BasicTokenResponse,
    before: Option<&Secret>,
    clock: &dyn Clock,
) -> Result<Tokens, OauthError> {
    let access = Secret::new(answer.access_token().secret().clone());
    if access.is_empty() {
        return Err(OauthError::Refused("the server gave an empty token.".to_owned()));
    }
    let refresh = answer.refresh_token().map(|token| Secret::new(token.secret().clone()));
    let ends = answer.expires_in().and_then(|time| {
        let time = SignedDuration::try_from(time).ok()?;
        clock.now().checked_add(time).ok()
    });
    // A server that gives no new one lets the old one stand.
    Ok(Tokens { access, refresh: refresh.or_else(|| before.cloned()), ends })
}

/// An exchange under way.
type Exchange = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send>>;

/// What the protocol's crate sends its requests through.
fn caller(http: &Arc<Http>) -> impl Fn(HttpRequest) -> Exchange + Send + Sync + 'static {
    let http = http.clone();
    move |request| {
        let http = http.clone();
        Box::pin(async move { call(&http, request).await })
    }
}

/// One exchange with the server.
///
/// # Errors
/// See [`HttpError`].
pub async fn call(http: &Http, request: HttpRequest) -> Result<HttpResponse, HttpError> {
    let (head, body) = request.into_parts();
    let wrong = |error: String| HttpError::Impossible(error);
    let url = Url::parse(&head.uri.to_string()).map_err(|error| wrong(error.to_string()))?;
    let call = http.client(&url)?.request(head.method, url).headers(head.headers).body(body);
    let mut response = http::send(call, TOKEN_PATIENCE).await?;
    let mut answer = HttpResponse::new(Vec::new());
    *answer.status_mut() = response.status();
    *answer.headers_mut() = response.headers().clone();
    *answer.body_mut() = http::whole(&mut response, HTTP_ERROR_BYTES, TOKEN_PATIENCE).await?;
    Ok(answer)
}

/// What a failure comes to. What was sent is not shown, and neither is an answer that could not be read: it
/// may hold a token.
fn sort<T: oauth2::ErrorResponseType + fmt::Display + 'static>(
    error: &RequestTokenError<HttpError, StandardErrorResponse<T>>,
    sent: &Secret,
) -> OauthError {
    match error {
        RequestTokenError::ServerResponse(response) => {
            let kind = response.error();
            let code = serde_json::to_value(kind).ok().and_then(|code| code.as_str().map(str::to_owned));
            let code = code.unwrap_or_else(|| "the server refused".to_owned());
            let text = match response.error_description() {
                Some(description) => format!("{description} ({code})."),
                None => format!("{code}."),
            };
            OauthError::Refused(sent.redact(&text).into_owned())
        }
        RequestTokenError::Request(error) => {
            let advice = error.advice().map(|advice| format!(". {advice}"));
            match error.lasts() {
                true => OauthError::Refused(format!("{error}{}", advice.as_deref().unwrap_or("."))),
                false => OauthError::Passing(format!("{error}{}", advice.unwrap_or_default())),
            }
        }
        RequestTokenError::Parse(..) => OauthError::Refused("the server's answer cannot be read.".to_owned()),
        RequestTokenError::Other(_) => OauthError::Refused("the server gave no tokens in time.".to_owned()),
    }
}
