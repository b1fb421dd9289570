//! A server's answer, made fit for the types of the protocol before it is read: a bad item costs the item, never its list, its
//! result or the server. What does not matter is read as it is meant; a hint that loosens a permission counts only as the
//! protocol has it. Text that no type takes stays as it came, and fails its call.

use std::borrow::Cow;

use rmcp::model::{
    ContentBlock, MetaObject, Prompt, PromptMessage, RequestId, Resource, ResourceContents, ResourceTemplate,
    Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::json::without_lone_surrogates;
use crate::limits::{MCP_LEFT_OUT, MCP_TITLE_BYTES};
use crate::peer::cut;

/// The key of a list's `_meta` that says what was left out of it.
const LEFT_OUT: &str = "edn-bridge/left-out";

/// An item that was left out of a list.
#[derive(Debug, PartialEq)]
pub(super) struct LeftOut {
    /// Its own name, or its place in its page.
    pub(super) name: String,
    pub(super) why: String,
}

/// A kind of item, with the keys that it cannot do without. The first is its name.
struct Kind {
    required: &'static [&'static str],
    fits: fn(&Json) -> bool,
}

/// The lists of results by their keys.
const LISTS: [(&str, Kind); 4] = [
    ("tools", Kind { required: &["name", "inputSchema"], fits: fits::<Tool> }),
    ("prompts", Kind { required: &["name"], fits: fits::<Prompt> }),
    ("resources", Kind { required: &["uri", "name"], fits: fits::<Resource> }),
    ("resourceTemplates", Kind { required: &["uriTemplate", "name"], fits: fits::<ResourceTemplate> }),
];

fn fits<T: DeserializeOwned>(json: &Json) -> bool {
    T::deserialize(json).is_ok()
}

/// The text of a message as the types of the protocol take it. An error for nobody is the answer to what was `asked`, if it
/// comes where only that can be answered.
pub(super) fn mend<'t>(text: &'t [u8], asked: Option<&RequestId>) -> Cow<'t, [u8]> {
    let text = without_lone_surrogates(text);
    // Requests and notifications of servers are small and read elsewhere.
    let is_answer = |json: &Json| json.get("method").is_none() && json.is_object();
    let Some(mut json) = serde_json::from_slice::<Json>(&text).ok().filter(is_answer) else { return text };
    let is_changed = match &mut json {
        Json::Object(message) => answer(message, asked),
        _ => false,
    };
    match is_changed.then(|| serde_json::to_vec(&json)) {
        Some(Ok(mended)) => mended.into(),
        _ => text,
    }
}

/// The items that were left out of a list, by its `_meta`.
pub(super) fn left_out(meta: Option<&MetaObject>) -> Vec<LeftOut> {
    let noted = meta.and_then(|meta| meta.get(LEFT_OUT)?.as_array());
    let one = |item: &Json| {
        Some(LeftOut { name: item.get(0)?.as_str()?.to_owned(), why: item.get(1)?.as_str()?.to_owned() })
    };
    noted.into_iter().flatten().filter_map(one).collect()
}

fn answer(message: &mut Map<String, Json>, asked: Option<&RequestId>) -> bool {
    let is_nothing = |key: &str| message.get(key).is_some_and(Json::is_null);
    let (no_error, no_result) = (is_nothing("error"), is_nothing("result"));
    let mut is_changed = false;
    if no_error && message.contains_key("result") {
        message.remove("error");
        is_changed = true;
    } else if no_result && message.contains_key("error") {
        message.remove("result");
        is_changed = true;
    }
    let is_for_nobody = message.get("id").is_none_or(Json::is_null) && message.contains_key("error");
    if let Some(asked) = asked.filter(|_| is_for_nobody) {
        message.insert("id".to_owned(), json!(asked));
        is_changed = true;
    }
    match message.get_mut("result") {
        Some(Json::Object(result)) => self::result(result) || is_changed,
        _ => is_changed,
    }
}

fn result(result: &mut Map<String, Json>) -> bool {
    let mut is_changed = false;
    if result.get("_meta").is_some_and(|meta| !meta.is_object()) {
        is_changed |= result.remove("_meta").is_some();
    }
    for (key, kind) in &LISTS {
        is_changed |= list(result, key, kind);
    }
    if let Some(blocks) = result.get_mut("content") {
        is_changed |= content(blocks);
    }
    if let Some(Json::Array(all)) = result.get_mut("contents") {
        for one in all {
            is_changed |= resource(one);
        }
    }
    if let Some(Json::Array(messages)) = result.get_mut("messages") {
        for message in messages.iter_mut().filter(|message| !fits::<PromptMessage>(message)) {
            if let Some(block) = message.get_mut("content") {
                is_changed |= self::block(block);
            }
        }
        let count = messages.len();
        messages.retain(fits::<PromptMessage>);
        is_changed |= messages.len() < count;
    }
    // A result is an error or it is none: that must not be lost, however it is written.
    let is_error = result.get("isError").filter(|flag| !flag.is_boolean()).map(truth);
    if let Some(is_error) = is_error {
        result.insert("isError".to_owned(), is_error.into());
        is_changed = true;
    }
    is_changed
}

/// A flag that is no boolean.
fn truth(flag: &Json) -> bool {
    match flag {
        Json::String(text) => text.trim().eq_ignore_ascii_case("true") || text.trim() == "1",
        Json::Number(number) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

fn list(result: &mut Map<String, Json>, key: &str, kind: &Kind) -> bool {
    let Some(found) = result.get_mut(key) else { return false };
    let (mut is_changed, mut left_out) = (false, Vec::new());
    match found {
        Json::Array(items) => {
            let mut place = 0usize;
            items.retain_mut(|given| {
                place = place.saturating_add(1);
                if (kind.fits)(given) {
                    return true;
                }
                is_changed = true;
                match item(given, kind) {
                    Ok(()) => true,
                    Err(why) => {
                        left_out.push(json!([called(given, kind, place), why]));
                        false
                    }
                }
            });
        }
        other => {
            *other = json!([]);
            is_changed = true;
        }
    }
    // A cursor is a text. A number is one to whom it means something.
    match result.get("nextCursor") {
        None | Some(Json::String(_)) => {}
        Some(Json::Number(number)) => {
            let cursor = number.to_string();
            result.insert("nextCursor".to_owned(), cursor.into());
            is_changed = true;
        }
        Some(_) => is_changed |= result.remove("nextCursor").is_some(),
    }
    if left_out.len() > MCP_LEFT_OUT {
        let more = left_out.len().saturating_sub(MCP_LEFT_OUT);
        left_out.truncate(MCP_LEFT_OUT);
        left_out.push(json!([format!("{more} more"), "they do not fit the protocol either"]));
    }
    let meta = result.get_mut("_meta").and_then(Json::as_object_mut);
    match meta {
        // Only this program says what it left out.
        Some(meta) => {
            is_changed |= meta.remove(LEFT_OUT).is_some();
            if !left_out.is_empty() {
                meta.insert(LEFT_OUT.to_owned(), left_out.into());
            }
        }
        None if left_out.is_empty() => {}
        None => {
            result.insert("_meta".to_owned(), json!({LEFT_OUT: left_out}));
        }
    }
    is_changed
}

fn called(given: &Json, kind: &Kind, place: usize) -> String {
    let name = kind.required.first().and_then(|key| given.get(key)).and_then(Json::as_str);
    name.map_or_else(|| format!("number {place} of its page"), |name| cut(name, MCP_TITLE_BYTES).to_string())
}

/// Takes from an item what it can do without and no type takes.
///
/// # Errors
/// Why it is no item.
fn item(given: &mut Json, kind: &Kind) -> Result<(), String> {
    let Json::Object(fields) = given else { return Err("it is no object".to_owned()) };
    let mut bare = Map::new();
    for key in kind.required {
        let value = fields.get(*key).filter(|value| !value.is_null());
        let value = value.ok_or_else(|| format!("it has no {key}"))?;
        let is_schema = *key == "inputSchema";
        if !is_schema && !value.is_string() {
            return Err(format!("its {key} is no text"));
        }
        if is_schema && !value.is_object() {
            return Err(format!("its {key} is no object"));
        }
        bare.insert((*key).to_owned(), value.clone());
    }
    let mut with = Json::Object(bare);
    if !(kind.fits)(&with) {
        return Err("it is none of the protocol's".to_owned());
    }
    for (key, value) in std::mem::take(fields) {
        if kind.required.contains(&key.as_str()) {
            continue;
        }
        put_if_fit(&mut with, key, value, kind.fits);
    }
    *given = with;
    Ok(())
}

/// Puts a field into an object if it stays fit; of a field that is an object itself, what is fit of it.
fn put_if_fit(object: &mut Json, key: String, value: Json, fits: fn(&Json) -> bool) {
    let set = |object: &mut Json, value: Json| {
        if let Json::Object(fields) = object {
            fields.insert(key.clone(), value);
        }
    };
    let parts = match &value {
        Json::Object(parts) => parts.clone(),
        _ => Map::new(),
    };
    set(object, value);
    if fits(object) {
        return;
    }
    let mut fit = Map::new();
    for (part, value) in parts {
        let mut tried = fit.clone();
        tried.insert(part, value);
        set(object, Json::Object(tried.clone()));
        if fits(object) {
            fit = tried;
        }
    }
    set(object, Json::Object(fit));
    if !fits(object)
        && let Json::Object(fields) = object
    {
        fields.remove(&key);
    }
}

/// The blocks of a result. One that no type takes becomes a line of text in its place.
fn content(blocks: &mut Json) -> bool {
    match blocks {
        Json::Array(blocks) => {
            let mut is_changed = false;
            for one in blocks {
                is_changed |= block(one);
            }
            is_changed
        }
        Json::Null => {
            *blocks = json!([]);
            true
        }
        other => {
            let mut one = other.take();
            block(&mut one);
            *other = json!([one]);
            true
        }
    }
}

fn block(given: &mut Json) -> bool {
    if fits::<ContentBlock>(given) {
        return false;
    }
    if let Json::String(text) = given {
        *given = json!({"type": "text", "text": text});
        return true;
    }
    // A decoration does not cost a block its text.
    if let Json::Object(fields) = given {
        fields.retain(|key, _| !matches!(key.as_str(), "annotations" | "_meta"));
    }
    if !fits::<ContentBlock>(given) {
        let kind = given.get("type").and_then(Json::as_str).unwrap_or("unknown");
        let note = format!("[a block of type {} was left out]", cut(kind, MCP_TITLE_BYTES));
        *given = json!({"type": "text", "text": note});
    }
    true
}

fn resource(given: &mut Json) -> bool {
    if fits::<ResourceContents>(given) {
        return false;
    }
    if let Json::Object(fields) = given {
        fields.retain(|key, _| matches!(key.as_str(), "uri" | "mimeType" | "text" | "blob"));
        if fields.get("mimeType").is_some_and(|kind| !kind.is_string()) {
            fields.remove("mimeType");
        }
    }
    if !fits::<ResourceContents>(given) {
        let uri = given.get("uri").and_then(Json::as_str).unwrap_or_default();
        *given = json!({"uri": uri, "text": "[a part of the resource was left out: it is none of the protocol's]"});
    }
    true
}

#[cfg(test)]
mod tests {
    use rmcp::model::{ServerJsonRpcMessage, ServerResult};

    use super::*;

    fn read(result: Json) -> ServerResult {
        let text = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
        match serde_json::from_slice(&mend(text.as_bytes(), None)).unwrap() {
            ServerJsonRpcMessage::Response(response) => response.result,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn odd_tool_costs_itself_in_either_era() {
        let good = json!({"name": "good", "inputSchema": {"type": "object"}});
        for (odd, expected) in [
            (json!({"name": "odd"}), Some(("odd", "it has no inputSchema"))),
            (json!({"name": "odd", "inputSchema": null}), Some(("odd", "it has no inputSchema"))),
            (json!({"name": "odd", "inputSchema": true}), Some(("odd", "its inputSchema is no object"))),
            (json!({"name": "odd", "inputSchema": "object"}), Some(("odd", "its inputSchema is no object"))),
            (json!({"name": 5, "inputSchema": {}}), Some(("number 2 of its page", "its name is no text"))),
            (json!({"inputSchema": {}}), Some(("number 2 of its page", "it has no name"))),
            (json!(null), Some(("number 2 of its page", "it is no object"))),
            (json!("odd"), Some(("number 2 of its page", "it is no object"))),
            (json!({"name": "odd", "inputSchema": {}, "title": 7, "outputSchema": "no", "icons": {}}), None),
        ] {
            for result in [
                json!({"tools": [good, odd, good], "nextCursor": null}),
                json!({"tools": [good, odd, good], "resultType": "complete"}),
            ] {
                let ServerResult::ListToolsResult(list) = read(result) else { panic!("{odd}") };
                let names: Vec<&str> = list.tools.iter().map(|tool| &*tool.name).collect();
                let left: Vec<_> = left_out(list.meta.as_ref());
                let left: Vec<(&str, &str)> = left.iter().map(|one| (&*one.name, &*one.why)).collect();
                let expected: Vec<_> = expected.into_iter().collect();
                assert_eq!(left, expected, "{odd}");
                assert_eq!(names.len(), 3 - expected.len(), "{odd}");
            }
        }
    }

    #[test]
    fn hint_that_is_no_boolean_loosens_nothing() {
        let annotations = json!({"readOnlyHint": "true", "destructiveHint": true, "title": "T"});
        let tool = json!({"name": "a", "inputSchema": {}, "annotations": annotations, "description": "d"});
        let ServerResult::ListToolsResult(list) = read(json!({"tools": [tool]})) else { panic!() };
        let hints = list.tools[0].annotations.clone().unwrap();
        assert_eq!((hints.read_only_hint, hints.destructive_hint), (None, Some(true)));
        assert_eq!((hints.title.as_deref(), list.tools[0].description.as_deref()), (Some("T"), Some("d")));
    }

    #[test]
    fn unknown_block_leaves_the_texts_around_it() {
        let odd = [json!({"type": "video"}), json!({"type": "text"}), json!(7), json!({})];
        for odd in odd {
            let texts = |n: u8| json!({"type": "text", "text": n.to_string(), "annotations": "none"});
            let result = json!({"content": [texts(1), odd, texts(2)], "isError": "false"});
            let ServerResult::CallToolResult(result) = read(result) else { panic!("{odd}") };
            let texts: Vec<&str> =
                result.content.iter().map(|block| block.as_text().unwrap().text.as_str()).collect();
            assert_eq!((texts[0], texts[2], texts.len(), result.is_error), ("1", "2", 3, Some(false)));
            assert!(texts[1].starts_with("[a block of type "), "{texts:?}");
        }
        for (flag, is_error) in
            [(json!("True"), true), (json!(1), true), (json!(null), false), (json!("no"), false)]
        {
            let ServerResult::CallToolResult(result) = read(json!({"content": "x", "isError": flag})) else {
                panic!()
            };
            assert_eq!((result.is_error, result.content.len()), (Some(is_error), 1), "{flag}");
        }
    }

    #[test]
    fn result_beside_an_empty_error_is_a_result() {
        let text = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"error":null}"#;
        assert!(matches!(serde_json::from_slice(&mend(text, None)), Ok(ServerJsonRpcMessage::Response(_))));
        let text = br#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":-1,"message":"m"}}"#;
        assert!(matches!(serde_json::from_slice(&mend(text, None)), Ok(ServerJsonRpcMessage::Error(_))));
    }

    #[test]
    fn error_for_nobody_answers_what_was_asked() {
        let id = |text: &str, asked: Option<RequestId>| match serde_json::from_slice(&mend(
            text.as_bytes(),
            asked.as_ref(),
        ))
        .unwrap()
        {
            ServerJsonRpcMessage::Error(error) => error.id,
            other => panic!("{other:?}"),
        };
        let (asked, error) = (RequestId::Number(7), r#""error":{"code":-1,"message":"m"}}"#);
        for start in [r#"{"jsonrpc":"2.0","id":null,"#, r#"{"jsonrpc":"2.0","#] {
            assert_eq!(id(&format!("{start}{error}"), Some(asked.clone())), Some(asked.clone()));
            assert_eq!(id(&format!("{start}{error}"), None), None);
        }
        let own = format!(r#"{{"jsonrpc":"2.0","id":3,{error}"#);
        assert_eq!(id(&own, Some(asked)), Some(RequestId::Number(3)));
    }

    #[test]
    fn fit_text_stays_and_names_nothing_left_out() {
        let text = br#"{"jsonrpc":"2.0", "id":1, "result":{"tools":[],"x":12345678901234567890123}}"#;
        assert!(matches!(mend(text, None), Cow::Borrowed(same) if same == text));
        let ServerResult::ListToolsResult(list) =
            read(json!({"tools": [], "_meta": {LEFT_OUT: [["a", "b"]]}}))
        else {
            panic!()
        };
        assert_eq!(left_out(list.meta.as_ref()), []);
        let half = br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\ud83d"}]}}"#;
        assert!(serde_json::from_slice::<ServerJsonRpcMessage>(half).is_err());
        assert!(serde_json::from_slice::<ServerJsonRpcMessage>(&mend(half, None)).is_ok());
    }

    #[test]
    fn what_was_left_out_is_bounded() {
        let all: Vec<Json> = (0..MCP_LEFT_OUT + 5).map(|n| json!({"name": format!("t{n}")})).collect();
        let ServerResult::ListToolsResult(list) = read(json!({"tools": all})) else { panic!() };
        let left = left_out(list.meta.as_ref());
        assert_eq!((left.len(), &*left[MCP_LEFT_OUT].name), (MCP_LEFT_OUT + 1, "5 more"));
    }
}
