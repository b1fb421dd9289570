//! What a server asks, as questions of ours, and the answers as it takes them.

#![expect(deprecated, reason = "servers in the field ask for roots and for answers of a model")]

use std::sync::Arc;

use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, ErrorData, Role, SamplingContent, SamplingMessage, SamplingMessageContentBlock,
};
use serde_json::Value as Json;

use super::convert::json_of;
use super::elicit::{
    Choice, ElicitReply, Field, FieldKind, Format, Question, SampleMessage, Sampled, Sampling,
};
use crate::http;
use crate::limits::{
    MCP_CHOICES, MCP_FIELDS, MCP_QUESTION_BYTES, MCP_QUESTIONS, MCP_SAMPLE_BYTES, MCP_SAMPLE_MESSAGES,
    MCP_TITLE_BYTES,
};
use crate::peer::{Redactor, shown};

/// A form or a page.
///
/// # Errors
/// Why nobody can be asked that.
pub(super) fn elicitation(params: &ElicitRequestParams, noted: &Redactor) -> Result<Question, String> {
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => Ok(Question::Form {
            message: shown(noted, message, MCP_QUESTION_BYTES),
            fields: fields(requested_schema, noted)?,
        }),
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => page(message, url, false, noted),
        _ => Err("this kind of question is not known".to_owned()),
    }
}

/// The pages that must be seen before a request is answered, as an error names them. As many as may be asked about.
///
/// # Errors
/// Why nobody can be asked for that.
pub(super) fn pages_first(error: &ErrorData, noted: &Redactor) -> Result<Vec<Question>, String> {
    let named = error.data.as_ref().and_then(|data| data.get("elicitations")?.as_array());
    let named = named.filter(|named| (1..=MCP_QUESTIONS).contains(&named.len()));
    let named = named.ok_or_else(|| format!("it must name 1 to {MCP_QUESTIONS} pages"))?;
    let page_of = |named: &Json| {
        let text = |key: &str| named.get(key).and_then(Json::as_str).unwrap_or_default();
        page(text("message"), text("url"), true, noted)
    };
    named.iter().map(page_of).collect()
}

/// A form of somebody else who speaks of fields in the same way: an agent.
///
/// # Errors
/// Why nobody can be asked that.
pub fn form(message: &str, schema: &Json, noted: &Redactor) -> Result<Question, String> {
    let schema = serde_json::from_value::<ElicitationSchema>(schema.clone());
    let schema = schema.map_err(|_| "a field of the form cannot be asked for".to_owned())?;
    Ok(Question::Form { message: shown(noted, message, MCP_QUESTION_BYTES), fields: fields(&schema, noted)? })
}

/// The answer to such a form or page, as JSON: `action`, and `content` where it was accepted.
pub fn form_answer(question: &Question, answer: ElicitReply) -> Json {
    serde_json::to_value(elicited(question, answer))
        .unwrap_or_else(|_| serde_json::json!({"action": "cancel"}))
}

/// A page. Its whole address is shown, so a long one cannot be asked for. `is_first` says whether it must be seen before
/// something else is answered.
///
/// # Errors
/// Why nobody can be asked for it.
pub fn page(message: &str, url: &str, is_first: bool, noted: &Redactor) -> Result<Question, String> {
    if noted.is_in(url) {
        return Err("the address has a key in it that the server was given".to_owned());
    }
    if url.len() > MCP_QUESTION_BYTES || http::page(url).is_none() {
        return Err("the address must be one of the web, of a length that can be shown".to_owned());
    }
    Ok(Question::Page { message: shown(noted, message, MCP_QUESTION_BYTES), url: url.into(), is_first })
}

fn fields(schema: &ElicitationSchema, noted: &Redactor) -> Result<Vec<Field>, String> {
    let order = schema.property_order.clone().unwrap_or_else(|| schema.properties.keys().cloned().collect());
    if order.len() > MCP_FIELDS {
        return Err(format!("a form has at most {MCP_FIELDS} fields"));
    }
    let required = schema.required.as_deref().unwrap_or_default();
    let field = |key: &String| {
        let property = schema.properties.get(key)?;
        let property = serde_json::to_value(property).ok()?;
        let text = |name: &str| property.get(name).and_then(Json::as_str);
        Some(Field {
            key: (key.len() <= MCP_TITLE_BYTES && !noted.is_in(key)).then(|| key.as_str().into())?,
            title: shown(noted, text("title").unwrap_or(key), MCP_TITLE_BYTES),
            description: text("description").map(|text| shown(noted, text, MCP_QUESTION_BYTES)),
            required: required.contains(key),
            kind: kind(&property, noted)?,
        })
    };
    let fields: Option<Vec<Field>> = order.iter().map(field).collect();
    fields.ok_or_else(|| "a field of the form cannot be asked for".to_owned())
}

fn kind(property: &Json, noted: &Redactor) -> Option<FieldKind> {
    let number = |name: &str| property.get(name).and_then(Json::as_f64);
    let count = |name: &str| property.get(name).and_then(Json::as_u64);
    let default = property.get("default");
    let text = |value: Option<&Json>| {
        value.and_then(Json::as_str).map(|text| shown(noted, text, MCP_QUESTION_BYTES))
    };
    let kind = property.get("type").and_then(Json::as_str)?;
    if let Some(options) = options(property, noted) {
        return Some(FieldKind::Choice {
            options: options?,
            many: false,
            least: None,
            most: None,
            default: text(default).into_iter().collect(),
        });
    }
    Some(match kind {
        "string" => FieldKind::Text {
            least: count("minLength"),
            most: count("maxLength"),
            format: match property.get("format").and_then(Json::as_str) {
                Some("email") => Some(Format::Email),
                Some("uri") => Some(Format::Uri),
                Some("date") => Some(Format::Date),
                Some("date-time") => Some(Format::DateTime),
                _ => None,
            },
            default: text(default),
        },
        "number" | "integer" => FieldKind::Number {
            whole: kind == "integer",
            least: number("minimum"),
            most: number("maximum"),
            default: default.and_then(Json::as_f64),
        },
        "boolean" => FieldKind::Switch { default: default.and_then(Json::as_bool) },
        "array" => {
            let chosen = default.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
            FieldKind::Choice {
                options: options(property.get("items")?, noted)??,
                many: true,
                least: count("minItems"),
                most: count("maxItems"),
                default: chosen.iter().filter_map(|one| text(Some(one))).collect(),
            }
        }
        _ => return None,
    })
}

/// What may be chosen: `None` where nothing is said of it, and inside `None` where that cannot be offered.
fn options(schema: &Json, noted: &Redactor) -> Option<Option<Vec<Choice>>> {
    let choice = |value: &str, title: &str| Choice {
        value: value.into(),
        title: shown(noted, title, MCP_TITLE_BYTES),
    };
    let list = |name: &str| schema.get(name).and_then(Json::as_array);
    let options: Option<Vec<Choice>> = if let Some(values) = list("enum") {
        let titles = list("enumNames").map(Vec::as_slice).unwrap_or_default();
        let named = values.iter().enumerate().map(|(at, value)| {
            let value = value.as_str()?;
            Some(choice(value, titles.get(at).and_then(Json::as_str).unwrap_or(value)))
        });
        named.collect()
    } else {
        let named = list("oneOf").or_else(|| list("anyOf"))?.iter().map(|option| {
            let value = option.get("const")?.as_str()?;
            Some(choice(value, option.get("title").and_then(Json::as_str).unwrap_or(value)))
        });
        named.collect()
    };
    let fits = |options: &Vec<Choice>| {
        (1..=MCP_CHOICES).contains(&options.len())
            && options
                .iter()
                .all(|option| option.value.len() <= MCP_TITLE_BYTES && !noted.is_in(&option.value))
    };
    Some(options.filter(fits))
}

/// The answer to a form or a page. What does not fit the form is not sent.
pub(super) fn elicited(question: &Question, answer: ElicitReply) -> ElicitResult {
    match (question, answer) {
        (Question::Form { fields, .. }, ElicitReply::Form(values)) => {
            let mut content = serde_json::Map::new();
            for field in fields {
                let given = values.get(&field.key.as_ref().into()).filter(|value| !value.is_nil()).cloned();
                match given.or_else(|| field.default()).map(|value| field.check(&value)) {
                    Some(Ok(value)) => {
                        content.insert(field.key.to_string(), json_of(&value));
                    }
                    None if !field.required => {}
                    Some(Err(_)) | None => return ElicitResult::new(ElicitationAction::Cancel),
                }
            }
            ElicitResult::new(ElicitationAction::Accept).with_content(Json::Object(content))
        }
        (Question::Form { fields, .. }, ElicitReply::Agreed)
            if fields.iter().all(|field| !field.required) =>
        {
            ElicitResult::new(ElicitationAction::Accept).with_content(Json::Object(serde_json::Map::new()))
        }
        (Question::Page { .. }, ElicitReply::Agreed) => ElicitResult::new(ElicitationAction::Accept),
        (_, ElicitReply::Declined) => ElicitResult::new(ElicitationAction::Decline),
        _ => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// A request for an answer of a model.
///
/// # Errors
/// Why nobody is asked for that.
pub(super) fn sampling(params: &CreateMessageRequestParams, noted: &Redactor) -> Result<Question, String> {
    if params.tools.as_ref().is_some_and(|tools| !tools.is_empty()) {
        return Err("answers are given without tools".to_owned());
    }
    if params.messages.is_empty() || params.messages.len() > MCP_SAMPLE_MESSAGES {
        return Err(format!("the conversation must have 1 to {MCP_SAMPLE_MESSAGES} messages"));
    }
    let messages: Vec<SampleMessage> = params.messages.iter().map(|one| message(one, noted)).collect();
    let system: Option<Arc<str>> = params.system_prompt.as_deref().map(|text| noted.redact(text).into());
    let bytes = messages.iter().map(|message| message.text.len()).sum::<usize>();
    if bytes.saturating_add(system.as_ref().map_or(0, |system| system.len())) > MCP_SAMPLE_BYTES {
        return Err(format!("the conversation may have {MCP_SAMPLE_BYTES} bytes"));
    }
    Ok(Question::Sample(Sampling { system, messages, most_tokens: params.max_tokens }))
}

fn message(message: &SamplingMessage, noted: &Redactor) -> SampleMessage {
    let block = |block: &SamplingMessageContentBlock| match block {
        SamplingMessageContentBlock::Text(text) => text.text.clone(),
        SamplingMessageContentBlock::Image(image) => {
            format!("[image {}: not shown]", shown(noted, &image.mime_type, 100))
        }
        SamplingMessageContentBlock::Audio(audio) => {
            format!("[audio {}: not shown]", shown(noted, &audio.mime_type, 100))
        }
        _ => "[content of another kind: not shown]".to_owned(),
    };
    let text = match &message.content {
        SamplingContent::Single(one) => block(one),
        SamplingContent::Multiple(all) => all.iter().map(block).collect::<Vec<_>>().join("\n"),
    };
    SampleMessage { by_model: message.role == Role::Assistant, text: noted.redact(&text).into() }
}

/// The answer of a model; `None` if there is none.
pub(super) fn sampled(answer: ElicitReply) -> Option<CreateMessageResult> {
    let ElicitReply::Sampled(Sampled { model, text, is_cut }) = answer else { return None };
    let reason = if is_cut { "maxTokens" } else { "endTurn" };
    Some(CreateMessageResult::new(SamplingMessage::assistant_text(text), model).with_stop_reason(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Map, Value};

    fn form(schema: Json) -> Result<Question, String> {
        let params = serde_json::json!({"mode": "form", "message": "m", "requestedSchema": schema});
        elicitation(&serde_json::from_value(params).unwrap(), &Redactor::default())
    }

    #[test]
    fn form_reads_in_order_and_takes_only_what_fits() {
        let question = form(serde_json::json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "title": "Your name", "minLength": 2},
                "age": {"type": "integer", "minimum": 0},
                "color": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "maxItems": 1},
                "old": {"type": "string", "enum": ["x", "y"], "enumNames": ["X", "Y"]},
                "ok": {"type": "boolean", "default": true},
            },
            "required": ["name"],
        }));
        let question = question.unwrap();
        let Question::Form { fields, .. } = &question else { panic!("{question:?}") };
        assert_eq!(fields.len(), 6);
        let find = |key: &str| fields.iter().find(|field| &*field.key == key).unwrap();
        assert!(find("name").required && &*find("name").title == "Your name");
        assert!(
            matches!(&find("color").kind, FieldKind::Choice { options, many: false, .. } if options.len() == 2)
        );
        assert!(matches!(&find("tags").kind, FieldKind::Choice { many: true, most: Some(1), .. }));
        assert!(matches!(&find("old").kind, FieldKind::Choice { options, .. } if &*options[1].title == "Y"));
        assert_eq!(find("ok").kind, FieldKind::Switch { default: Some(true) });
        let answer = |entries: &[(&str, Value<'static>)]| {
            let mut map = Map::new();
            for (key, value) in entries {
                map.insert(Value::from((*key).to_owned()), value.clone());
            }
            elicited(&question, ElicitReply::Form(map))
        };
        let text = |text: &str| Value::from(text.to_owned());
        let accepted = answer(&[("name", text("Ada")), ("age", text("7")), ("extra", text("x"))]);
        assert_eq!(accepted.action, ElicitationAction::Accept);
        assert_eq!(accepted.content, Some(serde_json::json!({"name": "Ada", "age": 7, "ok": true})));
        assert_eq!(answer(&[("name", text("A"))]).action, ElicitationAction::Cancel);
        assert_eq!(answer(&[]).action, ElicitationAction::Cancel);
        assert_eq!(elicited(&question, ElicitReply::Agreed).action, ElicitationAction::Cancel);
        assert_eq!(elicited(&question, ElicitReply::Declined).action, ElicitationAction::Decline);
    }

    #[test]
    fn question_that_cannot_be_shown_is_not_asked() {
        let many: serde_json::Map<String, Json> =
            (0..=MCP_FIELDS).map(|n| (format!("f{n}"), serde_json::json!({"type": "string"}))).collect();
        assert!(form(serde_json::json!({"type": "object", "properties": many})).is_err());
        for url in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "",
            &format!("https://h.example/{}", "x".repeat(9000)),
        ] {
            assert!(page("m", url, false, &Redactor::default()).is_err(), "{url}");
        }
        assert!(page("m", "https://h.example/", false, &Redactor::default()).is_ok());
    }
}
