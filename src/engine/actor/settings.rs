//! What clients choose for a session, as entries: its name, its model, and settings that hold from here on. Writes nothing.

use std::sync::Arc;

use crate::facts::SessionFacts;
use crate::session::ApiError;
use crate::store::EntryBody;
use crate::value::Value;
use crate::visible;

/// Names the session. Lists show the name in a row, so it is one line of characters that are seen.
///
/// # Errors
/// If it is not.
pub(super) fn name(name: String) -> Result<(EntryBody, String), ApiError> {
    if visible::line(&name) != name {
        let expected = "one line without control characters and other hidden ones";
        return Err(ApiError::invalid_param("name", expected));
    }
    Ok((EntryBody::Name(name.as_str().into()), name))
}

/// A model that holds from the next model call on.
pub(super) fn model(provider: Arc<str>, id: Arc<str>) -> (EntryBody, (String, String)) {
    let answer = (provider.to_string(), id.to_string());
    (EntryBody::Model { provider, id }, answer)
}

/// A choice that holds from here on.
pub(super) fn choice(key: &str, value: impl Into<Value<'static>>) -> EntryBody {
    EntryBody::Setting { key: key.into(), value: value.into() }
}

/// An MCP server, or one of its tools, that is switched on or off.
pub(super) fn mcp(facts: &SessionFacts, name: Arc<str>, enabled: bool) -> EntryBody {
    let mut off = (*facts.mcp_off).clone();
    let _ = if enabled { off.remove(&name) } else { off.insert(name) };
    choice("mcp-off", Value::vector(off.iter().map(|name| Value::from(name.to_string()))))
}
