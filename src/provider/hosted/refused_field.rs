//! A field of a request that its server refuses: left out, or written under the name that the server wants. Knows no protocol.

use serde_json::Value as Json;

/// Top-level fields that make the request: without one of them it would be another.
const NEEDED: [&str; 9] = [
    "model",
    "messages",
    "input",
    "contents",
    "stream",
    "system",
    "instructions",
    "tools",
    "systemInstruction",
];

/// A field that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedField {
    /// The keys that lead to it, the outermost first.
    path: Vec<String>,
    /// The name that it has instead, next to it.
    instead: Option<String>,
}

impl RefusedField {
    /// The field that a server names in its words or beside them, if it stands in this request.
    pub fn find(body: &Json, message: &str, named: Option<&str>) -> Option<Self> {
        let quoted = message.split(['\'', '"', '`']).skip(1).step_by(2);
        let words =
            message.split_whitespace().map(|word| word.trim_matches(['.', ',', ':', ';', '\'', '"', '`']));
        let mut candidates = named.into_iter().chain(quoted).chain(words).filter(|name| !name.is_empty());
        let path = candidates.find_map(|name| path(body, name))?;
        let instead =
            message.split_once("se '").and_then(|(_, after)| after.split_once('\'')).map(|(name, _)| name);
        let is_name =
            |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
        Some(Self { path, instead: instead.filter(is_name).map(str::to_owned) })
    }

    /// Takes it out of a body.
    pub fn apply(&self, body: &mut Json) {
        let Some((last, outer)) = self.path.split_last() else { return };
        let parent = outer.iter().try_fold(body, |json, key| json.get_mut(key));
        let Some(Json::Object(parent)) = parent else { return };
        if let (Some(value), Some(instead)) = (parent.remove(last), &self.instead) {
            parent.insert(instead.clone(), value);
        }
    }
}

/// The way to a field of a body, by its name in the server's words: `a.b` or the name of a field alone, in either way to
/// write several words.
fn path(body: &Json, name: &str) -> Option<Vec<String>> {
    let name = name.strip_prefix("body.").unwrap_or(name);
    let mut steps = name.split('.');
    let first = found(body, steps.next()?)?;
    if NEEDED.contains(&first.0) {
        return None;
    }
    let mut path = vec![first.0.to_owned()];
    let mut json = first.1;
    for step in steps {
        let (key, inner) = found(json, step)?;
        path.push(key.to_owned());
        json = inner;
    }
    Some(path)
}

/// The field of that name: `thinking_budget` is `thinkingBudget` too.
fn found<'j>(json: &'j Json, name: &str) -> Option<(&'j str, &'j Json)> {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    let wanted = plain(name);
    json.as_object()?.iter().find(|(key, _)| plain(key) == wanted).map(|(key, value)| (key.as_str(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_field_is_found_and_left_out_or_renamed() {
        let body = serde_json::json!({
            "model": "m", "stream": true, "max_tokens": 5, "stream_options": {"include_usage": true},
            "reasoning": {"effort": "low", "summary": "auto"},
            "generationConfig": {"thinkingConfig": {"thinkingLevel": "low"}},
        });
        for (message, named, gone, there) in [
            ("Unrecognized request argument supplied: stream_options", None, "/stream_options", ""),
            ("Unsupported parameter", Some("stream_options"), "/stream_options", ""),
            (
                "Unsupported parameter: 'reasoning.summary' is not supported",
                None,
                "/reasoning/summary",
                "/reasoning/effort",
            ),
            (
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                None,
                "/max_tokens",
                "/max_completion_tokens",
            ),
            ("stream_options: Extra inputs are not permitted", None, "/stream_options", ""),
            (
                "Unknown name at generation_config.thinking_config.thinking_level",
                None,
                "/generationConfig/thinkingConfig/thinkingLevel",
                "/generationConfig/thinkingConfig",
            ),
        ] {
            let field = RefusedField::find(&body, message, named).unwrap();
            let mut less = body.clone();
            field.apply(&mut less);
            assert!(body.pointer(gone).is_some() && less.pointer(gone).is_none(), "{message}: {less}");
            assert!(less.pointer(there).is_some(), "{message}: {less}");
            let again = RefusedField::find(&less, message, named);
            assert!(again.is_none_or(|again| again != field), "{message}: no endless tries");
        }
        for message in ["Unsupported value: 'model'", "stream is not supported", "no such thing", "", "'"] {
            assert_eq!(RefusedField::find(&body, message, None), None, "{message}");
        }
    }
}
