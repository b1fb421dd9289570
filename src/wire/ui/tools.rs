//! Calls of the tools that the interface brings: the request to it, and its answer. Decides nothing.

use crate::event::{Event, ToolRequest};
use crate::json;
use crate::session::ToolAnswer;
use crate::value::{Map, Value};
use crate::wire::jsonrpc::{at, flag, text};
use crate::wire::ui::connection_state::{OpenCall, UiStateInner};
use crate::wire::ui::{frames, input};

/// Asks the interface to carry out a call.
pub fn request(state: &mut UiStateInner, out: &mut Vec<u8>, event: &Event, asked: &ToolRequest) {
    // That of a subagent belongs to the run that it works for.
    let run = state.running().map(ToString::to_string);
    let run = run.or_else(|| event.turn.as_ref().map(ToString::to_string)).unwrap_or_default();
    let name = asked.call.name.to_string();
    let mut params = Map::new().with("run_id", run.clone()).with("name", name.clone());
    params
        .put("arguments", asked.call.parsed.as_map().map(|map| map.clone().into_owned()).unwrap_or_default());
    params.put("raw_arguments", as_json(&asked.call.parsed));
    frames::ask(out, &asked.request, "client.tool.call", &params);
    state.calls.insert(asked.request.clone(), OpenCall { run, name });
}

/// The call has ended without an answer. The interface learns of the end of a run by its state, and here of a time-out.
pub fn cancelled(state: &mut UiStateInner, out: &mut Vec<u8>, request: &str, reason: &str) {
    let Some(OpenCall { run, name }) = state.calls.remove(request) else { return };
    if reason == "timed-out" {
        let mut params = Map::new().with("request_id", request.to_owned()).with("run_id", run);
        params.put("name", name);
        params.put("reason", "timeout");
        frames::notify(out, "client.tool.cancel", &params);
    }
}

/// Reads the interface's answer to a call. What is malformed is a failure.
pub fn answer(result: &Result<Value<'_>, String>) -> ToolAnswer {
    let failed = |text: String| ToolAnswer { text, is_error: true, ..ToolAnswer::default() };
    let result = match result {
        Ok(result) => result,
        Err(message) => return failed(format!("The interface refused the call: {message}")),
    };
    match (flag(result, "ok"), text(result, "error")) {
        (Some(true), _) => {}
        (Some(false), Some(error)) => return failed(error.to_owned()),
        _ => return failed("The interface's answer cannot be read.".to_owned()),
    }
    let Some(result) = at(result, "result") else { return ToolAnswer::default() };
    let (kind, list) = (text(result, "type"), at(result, "parts").and_then(Value::as_slice));
    match (kind, text(result, "text"), at(result, "value"), list) {
        (Some("text"), Some(text), ..) => ToolAnswer { text: text.to_owned(), ..ToolAnswer::default() },
        (Some("json"), _, Some(value), _) => ToolAnswer { text: as_json(value), ..ToolAnswer::default() },
        (Some("parts"), .., Some(list)) => match input::parts(list, "result.parts") {
            Ok((text, images)) => ToolAnswer { text, images, ..ToolAnswer::default() },
            Err(fault) => failed(fault.message),
        },
        _ => {
            let text = result.as_str().map_or_else(|| as_json(result), str::to_owned);
            ToolAnswer { text, ..ToolAnswer::default() }
        }
    }
}

fn as_json(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    json::write(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_of_any_shape_is_text_for_the_model() {
        for (line, text, is_error) in [
            (r#"{"ok":true,"result":"seen"}"#, "seen", false),
            (r#"{"ok":true}"#, "", false),
            (r#"{"ok":true,"result":null}"#, "", false),
            (r#"{"ok":true,"result":7}"#, "7", false),
            (r#"{"ok":true,"result":{"a":[1,true]}}"#, r#"{"a":[1,true]}"#, false),
            (r#"{"ok":true,"result":{"type":"text","text":"t"}}"#, "t", false),
            (r#"{"ok":true,"result":{"type":"json","value":{"a":1}}}"#, r#"{"a":1}"#, false),
            (
                r#"{"ok":true,"result":{"type":"parts","parts":[{"type":"text","text":"a"},{"text":"b"}]}}"#,
                "a\nb",
                false,
            ),
            (r#"{"ok":false,"error":"no such file"}"#, "no such file", true),
            (r#"{"ok":"true","result":"x"}"#, "The interface's answer cannot be read.", true),
            ("[]", "The interface's answer cannot be read.", true),
            ("null", "The interface's answer cannot be read.", true),
        ] {
            let found = answer(&Ok(json::read(line.as_bytes()).unwrap()));
            assert_eq!((found.text.as_str(), found.is_error), (text, is_error), "{line}");
        }
        let image = r#"{"ok":true,"result":{"type":"parts","parts":[{"image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}}"#;
        assert_eq!(answer(&Ok(json::read(image.as_bytes()).unwrap())).images.len(), 1);
        let broken = image.replace("iVBORw0KGgo=", "AAAA");
        assert!(answer(&Ok(json::read(broken.as_bytes()).unwrap())).is_error);
        assert!(answer(&Err("unknown method".to_owned())).text.contains("unknown method"));
    }
}
