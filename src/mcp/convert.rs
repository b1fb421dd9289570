//! What a server says, as plain data of ours: bounded, and with what was passed over.

use std::collections::HashSet;
use std::sync::Arc;

use rmcp::model::{self, ContentBlock, ResourceContents};
use serde_json::Value as Json;

use super::facts::{Argument, Content, Prompt, Resource, Template, ToolFacts};
use super::names::offered;
use super::noted::Noted;
use super::settings::Server;
use crate::json;
use crate::limits::{
    MCP_DESCRIPTION_BYTES, MCP_LISTED, MCP_RESULT_BYTES, MCP_SCHEMA_BYTES, MCP_SERVER_TOOLS, MCP_TITLE_BYTES,
};
use crate::message::image::Image;
use crate::sha256;
use crate::value::Value;

/// A text cut to a length in bytes, with a mark where something is missing.
pub(super) fn cut(text: &str, most: usize) -> Arc<str> {
    if text.len() <= most {
        return text.into();
    }
    let end = (0..=most.saturating_sub('…'.len_utf8())).rev().find(|end| text.is_char_boundary(*end));
    format!("{}…", text.get(..end.unwrap_or(0)).unwrap_or_default()).into()
}

fn title(text: Option<&str>) -> Option<Arc<str>> {
    text.filter(|text| !text.trim().is_empty()).map(|text| cut(text, MCP_TITLE_BYTES))
}

fn description(text: Option<&str>) -> Arc<str> {
    cut(text.unwrap_or_default().trim(), MCP_DESCRIPTION_BYTES)
}

/// JSON as a value; the keys of objects are strings.
pub(super) fn value_of(json: Json) -> Value<'static> {
    json::from_serde(json, &Value::from)
}

/// A value as JSON. A keyword becomes its name; what JSON lacks becomes text.
pub(super) fn json_of(value: &Value<'_>) -> Json {
    let mut text = Vec::new();
    json::write(value, &mut text);
    serde_json::from_slice(&text).unwrap_or(Json::Null)
}

/// The tools of a server that are offered. What is not, is told with why.
pub(super) fn tools(server: &Server, all: Vec<model::Tool>, passed_over: &mut Vec<String>) -> Vec<ToolFacts> {
    let (mut names, mut tools) = (HashSet::new(), Vec::new());
    for tool in all {
        if server.only.as_ref().is_some_and(|only| !only.iter().any(|name| *name == tool.name))
            || server.without.iter().any(|name| *name == tool.name)
        {
            continue;
        }
        let shown = cut(&tool.name, MCP_TITLE_BYTES);
        if tools.len() >= MCP_SERVER_TOOLS {
            passed_over
                .push(format!("tool {shown:?}: at most {MCP_SERVER_TOOLS} tools of a server are offered"));
            break;
        }
        match self::tool(server, tool) {
            Ok(tool) if names.insert(tool.name.clone()) => tools.push(tool),
            Ok(_) => passed_over.push(format!("tool {shown:?}: there are two of that name")),
            Err(why) => passed_over.push(format!("tool {shown:?}: {why}")),
        }
    }
    tools
}

fn tool(server: &Server, tool: model::Tool) -> Result<ToolFacts, String> {
    if tool.name.is_empty() || tool.name.len() > MCP_TITLE_BYTES {
        return Err(format!("its name must have 1 to {MCP_TITLE_BYTES} bytes"));
    }
    let mut schema = Json::Object(tool.input_schema.as_ref().clone());
    if let Json::Object(fields) = &mut schema {
        fields.entry("type").or_insert_with(|| "object".into());
    }
    if schema.get("type").and_then(Json::as_str) != Some("object") {
        return Err("its schema must be that of an object".to_owned());
    }
    let length = schema.to_string().len();
    if length > MCP_SCHEMA_BYTES {
        return Err(format!("its schema has {length} bytes, and may have {MCP_SCHEMA_BYTES}"));
    }
    if let Some(reference) = remote_reference(&schema) {
        return Err(format!("its schema refers to {:?}, and may only refer to itself", cut(reference, 100)));
    }
    // All that decides what a person thinks the tool is, uncut.
    let output = tool.output_schema.as_ref().map(|schema| Json::Object(schema.as_ref().clone()));
    let hints = tool.annotations.as_ref().and_then(|hints| serde_json::to_value(hints).ok());
    let all = serde_json::json!([tool.title, tool.description, schema, output, hints]);
    let read_only = tool.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false);
    let hinted = tool.annotations.as_ref().and_then(|hints| hints.title.as_deref());
    Ok(ToolFacts {
        name: offered(&server.name, &tool.name).into(),
        title: title(tool.title.as_deref().or(hinted)),
        description: description(tool.description.as_deref()),
        read_only,
        digest: sha256::hex(all.to_string()).into(),
        schema: Arc::new(value_of(schema)),
        tool: tool.name.as_ref().into(),
    })
}

/// The first reference of a schema that leads out of it.
fn remote_reference(schema: &Json) -> Option<&str> {
    match schema {
        Json::Object(fields) => fields.iter().find_map(|(key, value)| match value.as_str() {
            Some(reference) if matches!(key.as_str(), "$ref" | "$dynamicRef" | "$recursiveRef") => {
                (!reference.starts_with('#')).then_some(reference)
            }
            _ => remote_reference(value),
        }),
        Json::Array(items) => items.iter().find_map(remote_reference),
        _ => None,
    }
}

/// The prompts of a server.
pub(super) fn prompts(
    server: &Server,
    all: Vec<model::Prompt>,
    passed_over: &mut Vec<String>,
) -> Vec<Prompt> {
    let mut commands = HashSet::new();
    let prompts = all.into_iter().filter_map(|prompt| {
        let fits = (1..=MCP_TITLE_BYTES).contains(&prompt.name.len());
        let command: Arc<str> = offered(&server.name, &prompt.name).into();
        if !fits || !commands.insert(command.clone()) {
            passed_over
                .push(format!("prompt {:?}: its name is too long or there twice", cut(&prompt.name, 100)));
            return None;
        }
        let arguments = prompt.arguments.unwrap_or_default().into_iter().take(crate::limits::MCP_FIELDS);
        let argument = |argument: model::PromptArgument| Argument {
            name: cut(&argument.name, MCP_TITLE_BYTES),
            description: description(argument.description.as_deref().or(argument.title.as_deref())),
            required: argument.required.unwrap_or(false),
        };
        Some(Prompt {
            command,
            title: title(prompt.title.as_deref()),
            description: description(prompt.description.as_deref()),
            arguments: arguments.map(argument).collect(),
            name: prompt.name.into(),
        })
    });
    prompts.take(MCP_LISTED).collect()
}

/// A resource of a server, if its address is short enough.
pub(super) fn resource(resource: &model::Resource) -> Option<Resource> {
    (resource.uri.len() <= MCP_TITLE_BYTES).then(|| Resource {
        uri: resource.uri.as_str().into(),
        name: cut(&resource.name, MCP_TITLE_BYTES),
        title: title(resource.title.as_deref()),
        description: description(resource.description.as_deref()),
        mime_type: resource.mime_type.as_deref().map(|kind| cut(kind, 100)),
        size: resource.size,
    })
}

/// A template of a server, if it is short enough.
pub(super) fn template(template: &model::ResourceTemplate) -> Option<Template> {
    (template.uri_template.len() <= MCP_TITLE_BYTES).then(|| Template {
        uri: template.uri_template.as_str().into(),
        name: cut(&template.name, MCP_TITLE_BYTES),
        title: title(template.title.as_deref()),
        description: description(template.description.as_deref()),
        mime_type: template.mime_type.as_deref().map(|kind| cut(kind, 100)),
    })
}

/// A block of content: text, an image that models take, or a note of what it is.
pub(super) fn content(block: ContentBlock, noted: &Noted) -> Content {
    let note = |text: String| Content::Text(cut(&noted.redact(&text), MCP_RESULT_BYTES));
    match block {
        ContentBlock::Text(text) => note(text.text),
        ContentBlock::Image(image) => picture(&image.mime_type, &image.data)
            .unwrap_or_else(|| note(unshown("image", &image.mime_type, &image.data))),
        ContentBlock::Audio(audio) => note(unshown("audio", &audio.mime_type, &audio.data)),
        ContentBlock::Resource(embedded) => contents(embedded.resource, noted),
        ContentBlock::ResourceLink(link) => {
            let kind = link.mime_type.map(|kind| format!(" ({kind})")).unwrap_or_default();
            let about = link.description.map(|about| format!(": {about}")).unwrap_or_default();
            note(format!("[resource {} {}{kind}{about}]", link.name, link.uri))
        }
        _ => note("[content of a kind that is not known]".to_owned()),
    }
}

/// The contents of a resource.
pub(super) fn contents(resource: ResourceContents, noted: &Noted) -> Content {
    match resource {
        ResourceContents::TextResourceContents { text, .. } => {
            Content::Text(cut(&noted.redact(&text), MCP_RESULT_BYTES))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_default();
            picture(&kind, &blob).unwrap_or_else(|| {
                let text = unshown(&format!("resource {}", cut(&uri, MCP_TITLE_BYTES)), &kind, &blob);
                Content::Text(noted.redact(&text).into())
            })
        }
        _ => Content::Text("[a resource of a kind that is not known]".into()),
    }
}

/// An image of a type and size that models take.
fn picture(mime_type: &str, data: &str) -> Option<Content> {
    let (mime_type, data) = Image::from_base64(mime_type, data).ok()?.into_parts();
    Some(Content::Image { mime_type, data })
}

fn unshown(what: &str, mime_type: &str, data: &str) -> String {
    let bytes = data.len() / 4 * 3;
    format!("[{what} {}, some {bytes} bytes: not shown]", cut(mime_type, 100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edn;
    use crate::mcp::settings::Source;

    fn server(text: &str) -> Server {
        Server::read("s", &edn::read_one(text.as_bytes()).unwrap(), Source::User("/u".into())).unwrap()
    }

    fn tool_of(json: Json) -> model::Tool {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn tool_that_cannot_be_offered_is_passed_over_with_why() {
        let object = serde_json::json!({"type": "object"});
        let with =
            |name: &str, schema: Json| tool_of(serde_json::json!({"name": name, "inputSchema": schema}));
        let all = vec![
            with("good", object.clone()),
            with("good", object.clone()),
            with("list", serde_json::json!({"type": "array"})),
            with(
                "far",
                serde_json::json!({"type": "object", "properties": {"a": {"$ref": "https://x.example/s"}}}),
            ),
            with("near", serde_json::json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}})),
            with("big", serde_json::json!({"type": "object", "title": "x".repeat(MCP_SCHEMA_BYTES)})),
            with("hidden", object),
        ];
        let mut passed_over = Vec::new();
        let server = server(r#"{:command ["a"] :without-tools ["hidden"]}"#);
        let tools = tools(&server, all, &mut passed_over);
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.tool).collect();
        assert_eq!(names, ["good", "near"]);
        let told = passed_over.join("\n");
        for why in ["two of that name", "that of an object", "only refer to itself", "its schema has"] {
            assert!(told.contains(why), "{why}: {told}");
        }
        assert!(!told.contains("hidden"));
    }

    #[test]
    fn tools_of_a_server_are_bounded() {
        let all = 0..MCP_SERVER_TOOLS + 5;
        let all =
            all.map(|n| tool_of(serde_json::json!({"name": format!("t{n}"), "inputSchema": {}}))).collect();
        let mut passed_over = Vec::new();
        assert_eq!(tools(&server(r#"{:command ["a"]}"#), all, &mut passed_over).len(), MCP_SERVER_TOOLS);
        assert_eq!(passed_over.len(), 1);
    }

    #[test]
    fn digest_of_a_tool_changes_with_what_it_says() {
        let server = server(r#"{:command ["a"]}"#);
        let digest = |json: Json| tool(&server, tool_of(json)).unwrap().digest;
        let base = serde_json::json!({"name": "t", "description": "d", "inputSchema": {"type": "object"}});
        let first = digest(base.clone());
        assert_eq!(first, digest(base.clone()));
        // What is cut for models counts all the same.
        let long = "x".repeat(MCP_DESCRIPTION_BYTES);
        let changes = [
            ("description", Json::from(format!("{long}a"))),
            ("description", Json::from(format!("{long}b"))),
            ("inputSchema", serde_json::json!({"type": "object", "properties": {"a": {}}})),
            ("annotations", serde_json::json!({"readOnlyHint": true})),
            ("title", Json::from("t")),
        ];
        let mut digests = HashSet::from([first]);
        for (key, value) in changes {
            let mut changed = base.clone();
            changed[key] = value;
            assert!(digests.insert(digest(changed)), "{key}");
        }
    }

    #[test]
    fn text_is_cut_at_a_character() {
        assert_eq!(&*cut("ää", 4), "ää");
        assert_eq!(&*cut("äää", 5), "ä…");
        assert_eq!(&*cut("äää", 3), "…");
        assert_eq!(&*cut("ää", 2), "…");
    }
}
