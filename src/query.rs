//! Queries in EQL.
//!
//! Knows EDN and the plain types of the session API; what an attribute is worth, the caller resolves.

use crate::catalogue::ErrorCode;
use crate::edn;
use crate::session::{ApiError, Query, QueryAnswer};
use crate::value::{Map, Value};

/// Runs a query of plain attributes: `resolve` is given a keyword's name, such as
/// `psi.agent-session/phase`, and knows its value or does not.
///
/// # Errors
/// `request/invalid-query` where the text is no EDN vector of keywords or the entity no map,
/// `runtime/query-failed` where a strict query names an attribute that is not known.
pub fn run(query: &Query, resolve: &dyn Fn(&str) -> Option<Value<'static>>) -> Result<QueryAnswer, ApiError> {
    let form = edn::read_one(query.text.as_bytes()).map_err(|error| {
        invalid(format!("The query is not EDN: {error}")).with("offset", Value::from(error.offset()))
    })?;
    let Value::Vector(attributes) = &form else {
        return Err(invalid(format!("A query is a vector of attributes, not {}.", form.kind_name())));
    };
    let entity = match &query.entity {
        None => Map::new(),
        Some(text) => edn::read_one(text.as_bytes())
            .ok()
            .and_then(|value| value.as_map().map(|map| map.clone().into_owned()))
            .ok_or_else(|| invalid(":entity must be an EDN map as a string.".to_owned()))?,
    };
    let mut result = Map::new();
    let mut missing = Vec::new();
    for attribute in attributes {
        let Some(name) = attribute.as_keyword() else {
            return Err(invalid(format!("An attribute is a keyword, not {}.", attribute.kind_name())));
        };
        match entity.get_keyword(name).cloned().or_else(|| resolve(name)) {
            Some(value) => {
                result.insert(attribute.clone().into_owned(), value);
            }
            None => missing.push(attribute.clone().into_owned()),
        }
    }
    if query.strict && !missing.is_empty() {
        let error = ApiError::new(
            ErrorCode::QueryFailed,
            "The query is strict, and not all of it could be resolved.",
        );
        return Err(error.with("missing", Value::vector(missing)));
    }
    Ok(QueryAnswer { result: Value::from(result), missing, errors: None })
}

fn invalid(message: String) -> ApiError {
    ApiError::new(ErrorCode::InvalidQuery, message)
}
