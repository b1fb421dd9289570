//! The conversation of a request, as each protocol writes it: its pieces in their order, with their places.

use serde_json::Value as Json;

/// A piece of a conversation.
#[derive(Debug)]
pub struct Piece<'j> {
    /// The number of its message.
    pub message: usize,
    /// Its number in that.
    pub part: usize,
    /// Its place, as the server names it.
    pub place: String,
    pub by_model: bool,
    pub kind: Kind<'j>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind<'j> {
    Text(&'j str),
    /// Thinking that the server has signed.
    Thinking,
    /// An item of reasoning, with its id.
    Reasoning(&'j str),
    Call {
        /// Empty where the protocol has none.
        id: &'j str,
        name: &'j str,
        is_signed: bool,
    },
    Result {
        id: &'j str,
        name: &'j str,
    },
    Image {
        mime: &'j str,
        data: &'j str,
        in_result: bool,
    },
    /// A call of the server's own tools.
    ServerCall(&'j str),
    ServerResult(&'j str),
    Other,
}

fn text<'j>(json: &'j Json, key: &str) -> &'j str {
    json.get(key).and_then(Json::as_str).unwrap_or_default()
}

fn list<'j>(json: &'j Json, key: &str) -> &'j [Json] {
    json.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The type and the base64 of a data URL.
fn data_url(url: &str) -> (&str, &str) {
    let rest = url.strip_prefix("data:").unwrap_or_default();
    rest.split_once(";base64,").unwrap_or_default()
}

/// The pieces of a request.
pub fn of<'j>(api: &str, body: &'j Json) -> Vec<Piece<'j>> {
    let mut pieces = Vec::new();
    let key = match api {
        "openai-responses" => "input",
        "gemini" => "contents",
        _ => "messages",
    };
    for (message, json) in list(body, key).iter().enumerate() {
        let role = text(json, "role");
        let by_model = ["assistant", "model"].contains(&role)
            || (api == "openai-responses"
                && !["message", "function_call_output"].contains(&text(json, "type")));
        let mut part = 0;
        let mut add = |place: String, kind: Kind<'j>| {
            pieces.push(Piece { message, part, place, by_model, kind });
            part += 1;
        };
        match api {
            "openai" => openai(json, message, &mut add),
            "openai-responses" => responses(json, message, &mut add),
            "anthropic" => anthropic(json, message, &mut add),
            _ => gemini(json, message, &mut add),
        }
    }
    pieces
}

fn openai<'j>(json: &'j Json, n: usize, add: &mut dyn FnMut(String, Kind<'j>)) {
    let result = Kind::Result { id: text(json, "tool_call_id"), name: text(json, "name") };
    if text(json, "role") == "tool" {
        add(format!("messages[{n}].tool_call_id"), result);
    }
    match json.get("content") {
        Some(Json::String(content)) if text(json, "role") != "tool" => {
            add(format!("messages[{n}].content"), Kind::Text(content));
        }
        _ => {}
    }
    for (m, part) in list(json, "content").iter().enumerate() {
        let (mime, data) =
            data_url(part.pointer("/image_url/url").and_then(Json::as_str).unwrap_or_default());
        let in_result = text(json, "role") == "tool";
        let kind = match text(part, "type") {
            "text" => Kind::Text(text(part, "text")),
            "image_url" => Kind::Image { mime, data, in_result },
            _ => Kind::Other,
        };
        add(format!("messages[{n}].content[{m}]"), kind);
    }
    for (m, call) in list(json, "tool_calls").iter().enumerate() {
        let name = call.get("function").map(|function| text(function, "name")).unwrap_or_default();
        let is_signed = call.pointer("/extra_content/google/thought_signature").is_some();
        let kind = Kind::Call { id: text(call, "id"), name, is_signed };
        add(format!("messages[{n}].tool_calls[{m}]"), kind);
    }
}

fn responses<'j>(json: &'j Json, n: usize, add: &mut dyn FnMut(String, Kind<'j>)) {
    let image = |part: &'j Json, in_result: bool| {
        let (mime, data) = data_url(text(part, "image_url"));
        Kind::Image { mime, data, in_result }
    };
    match text(json, "type") {
        "reasoning" => add(format!("input[{n}]"), Kind::Reasoning(text(json, "id"))),
        "function_call" => {
            let kind = Kind::Call { id: text(json, "call_id"), name: text(json, "name"), is_signed: false };
            add(format!("input[{n}]"), kind);
        }
        "function_call_output" => {
            add(format!("input[{n}]"), Kind::Result { id: text(json, "call_id"), name: "" });
            for (m, part) in list(json, "output").iter().enumerate() {
                if text(part, "type") == "input_image" {
                    add(format!("input[{n}].output[{m}]"), image(part, true));
                }
            }
        }
        "message" => {
            for (m, part) in list(json, "content").iter().enumerate() {
                let kind = match text(part, "type") {
                    "input_image" => image(part, false),
                    "input_text" | "output_text" => Kind::Text(text(part, "text")),
                    _ => Kind::Other,
                };
                add(format!("input[{n}].content[{m}]"), kind);
            }
        }
        _ => add(format!("input[{n}]"), Kind::Other),
    }
}

fn anthropic<'j>(json: &'j Json, n: usize, add: &mut dyn FnMut(String, Kind<'j>)) {
    let image = |part: &'j Json, in_result: bool| {
        let source = part.get("source").unwrap_or(&Json::Null);
        Kind::Image { mime: text(source, "media_type"), data: text(source, "data"), in_result }
    };
    for (m, part) in list(json, "content").iter().enumerate() {
        let place = format!("messages.{n}.content.{m}");
        let kind = match text(part, "type") {
            "text" => Kind::Text(text(part, "text")),
            "thinking" | "redacted_thinking" => Kind::Thinking,
            "image" => image(part, false),
            "tool_use" => Kind::Call { id: text(part, "id"), name: text(part, "name"), is_signed: false },
            "server_tool_use" => Kind::ServerCall(text(part, "id")),
            "web_search_tool_result" | "web_fetch_tool_result" => {
                Kind::ServerResult(text(part, "tool_use_id"))
            }
            "tool_result" => {
                add(place.clone(), Kind::Result { id: text(part, "tool_use_id"), name: "" });
                for (k, inner) in list(part, "content").iter().enumerate() {
                    if text(inner, "type") == "image" {
                        add(format!("{place}.tool_result.content.{k}"), image(inner, true));
                    }
                }
                continue;
            }
            _ => Kind::Other,
        };
        add(place, kind);
    }
}

fn gemini<'j>(json: &'j Json, n: usize, add: &mut dyn FnMut(String, Kind<'j>)) {
    let image = |part: &'j Json, in_result: bool| {
        let data = part.get("inlineData").unwrap_or(&Json::Null);
        Kind::Image { mime: text(data, "mimeType"), data: text(data, "data"), in_result }
    };
    for (m, part) in list(json, "parts").iter().enumerate() {
        let place = format!("contents[{n}].parts[{m}]");
        let is_signed = part.get("thoughtSignature").is_some();
        if let Some(call) = part.get("functionCall") {
            add(place, Kind::Call { id: text(call, "id"), name: text(call, "name"), is_signed });
        } else if let Some(result) = part.get("functionResponse") {
            add(place.clone(), Kind::Result { id: text(result, "id"), name: text(result, "name") });
            for (k, inner) in list(result, "parts").iter().enumerate() {
                add(format!("{place}.functionResponse.parts[{k}]"), image(inner, true));
            }
        } else if part.get("inlineData").is_some() {
            add(place, image(part, false));
        } else if let Some(call) = part.get("toolCall") {
            add(place, Kind::ServerCall(text(call, "id")));
        } else if let Some(result) = part.get("toolResponse") {
            add(place, Kind::ServerResult(text(result, "id")));
        } else {
            add(place, Kind::Text(text(part, "text")));
        }
    }
}
