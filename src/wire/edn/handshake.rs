//! The handshake: agrees on version and features. Does not know what a feature changes.

use std::sync::Arc;

use crate::catalogue::{ErrorCode, FEATURES, PROTOCOL_VERSION, PROTOCOL_VERSION_TEXT, excerpt};
use crate::facts::SessionFacts;
use crate::limits::CLIENT_NAME_BYTES;
use crate::projection;
use crate::projection::control::{self as control_messages, Spelling};
use crate::session::control::Capabilities;
use crate::session::{Agreed, ApiError};
use crate::value::{Map, Value};

/// Agrees on the lower of both minor versions and on the common features. `facts` gives those of the session.
///
/// # Errors
/// If a part is missing, or the major versions differ.
pub fn agree(
    params: &Value<'_>,
    facts: impl FnOnce() -> Option<Arc<SessionFacts>>,
    control: &Capabilities,
    outlives_clients: bool,
) -> Result<(Agreed, Map<'static>), ApiError> {
    let info = ClientInfo::read(params)?;
    let Some(minor) = common_minor(info.protocol_version) else {
        let message = format!(
            "This server speaks version {PROTOCOL_VERSION_TEXT}; the client asked for {:?}.",
            excerpt(info.protocol_version, 40)
        );
        let supported = Value::vector([Value::from(PROTOCOL_VERSION_TEXT)]);
        return Err(
            ApiError::new(ErrorCode::UnsupportedVersion, message).with("supported-versions", supported)
        );
    };
    let features: Vec<&'static str> =
        FEATURES.iter().map(|(name, _)| *name).filter(|name| info.features.contains(name)).collect();
    let mut server = facts().map(|facts| projection::server_info(&facts)).unwrap_or_default();
    server.put("name", env!("CARGO_PKG_NAME"));
    server.put("version", env!("CARGO_PKG_VERSION"));
    let protocol_version = format!("{}.{minor}", PROTOCOL_VERSION.0);
    server.put("protocol-version", protocol_version.clone());
    server.put("features", Value::vector(features.iter().map(|name| Value::from(*name))));
    if outlives_clients {
        server.put("outlives-clients", true);
    }
    if !control.kinds.is_empty() {
        server.put("control", control_messages::capabilities(control, Spelling::Edn));
    }
    let mut data = Map::new();
    data.put("server-info", Value::from(server));
    let agreed = Agreed {
        name: kept(info.name),
        version: kept(info.version),
        protocol_version: protocol_version.into(),
        features,
    };
    Ok((agreed, data))
}

struct ClientInfo<'v> {
    name: &'v str,
    version: &'v str,
    protocol_version: &'v str,
    features: Vec<&'v str>,
}

impl<'v> ClientInfo<'v> {
    fn read(params: &'v Value<'_>) -> Result<Self, ApiError> {
        let text = |key: &str| params.get("client-info")?.get(key)?.as_str();
        let named = |key: &str| {
            text(key).ok_or_else(|| ApiError::invalid_param(&format!("client-info :{key}"), "a string"))
        };
        let (name, version) = (named("name")?, named("version")?);
        let Some(protocol_version) = text("protocol-version") else {
            return Err(ApiError::invalid_param("client-info :protocol-version", "a string such as \"1.0\""));
        };
        let features = match params.get("client-info").and_then(|info| info.get("features")) {
            Some(list) if !list.is_nil() => list
                .as_slice()
                .and_then(|items| items.iter().map(Value::as_str).collect())
                .ok_or_else(|| ApiError::invalid_param("client-info :features", "a vector of strings"))?,
            _ => Vec::new(),
        };
        Ok(Self { name, version, protocol_version, features })
    }
}

/// The stored start of a name that the client gave itself.
fn kept(text: &str) -> Box<str> {
    text.get(..text.floor_char_boundary(CLIENT_NAME_BYTES)).unwrap_or_default().into()
}

/// The minor version that both sides speak, if the major versions are equal.
fn common_minor(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once('.').unwrap_or((text, "0"));
    let number =
        |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u32>().ok())?;
    (number(major)? == PROTOCOL_VERSION.0).then_some(number(minor)?.min(PROTOCOL_VERSION.1))
}

#[cfg(test)]
mod tests {
    use super::common_minor;

    #[test]
    fn handshake_agrees_on_lower_minor_version() {
        for (asked, expected) in [
            ("1.0", Some(0)),
            ("1.7", Some(0)),
            ("1", Some(0)),
            ("2.0", None),
            ("0.9", None),
            ("", None),
            ("1.", None),
            ("1.x", None),
            ("+1.0", None),
            ("1.0.0", None),
            ("99999999999.0", None),
        ] {
            assert_eq!(common_minor(asked), expected, "{asked:?}");
        }
    }
}
