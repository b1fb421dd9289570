//! What a server says, as plain data of ours: bounded, and with what was passed over.

use std::sync::Arc;

use rmcp::model::{self, ContentBlock, ResourceContents};
use serde_json::Value as Json;

use super::facts::{Argument, Content, Prompt, Resource, Template, ToolFacts};
use super::lists::{Item, ServerItem};
use super::names::offered;
use super::settings::Server;
use crate::json;
use crate::limits::{
    MCP_DESCRIPTION_BYTES, MCP_LISTED, MCP_RESULT_BYTES, MCP_SCHEMA_BYTES, MCP_SERVER_TOOLS, MCP_TITLE_BYTES,
};
use crate::message::image::Image;
use crate::peer::{Redactor, cut, shown};
use crate::sha256;
use crate::value::Value;

fn title(noted: &Redactor, text: Option<&str>) -> Option<Arc<str>> {
    text.filter(|text| !text.trim().is_empty()).map(|text| shown(noted, text, MCP_TITLE_BYTES))
}

fn description(noted: &Redactor, text: Option<&str>) -> Arc<str> {
    shown(noted, text.unwrap_or_default().trim(), MCP_DESCRIPTION_BYTES)
}

fn kind(noted: &Redactor, text: Option<&str>) -> Option<Arc<str>> {
    text.map(|kind| shown(noted, kind, 100))
}

fn bytes<'a>(texts: impl IntoIterator<Item = Option<&'a Arc<str>>>) -> usize {
    texts.into_iter().flatten().map(|text| text.len()).sum()
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

impl ServerItem for model::Tool {
    type Kept = ToolFacts;
    const WHAT: &'static str = "tool";
    const MOST: usize = MCP_SERVER_TOOLS;

    fn called(&self) -> &str {
        &self.name
    }

    fn is_wanted(name: &str, server: &Server) -> bool {
        server.only.as_ref().is_none_or(|only| only.iter().any(|one| one == name))
            && !server.without.iter().any(|one| one == name)
    }

    fn read(self, server: &Server, noted: &Redactor) -> Result<Item<ToolFacts>, String> {
        if self.name.is_empty() || self.name.len() > MCP_TITLE_BYTES {
            return Err(format!("its name must have 1 to {MCP_TITLE_BYTES} bytes"));
        }
        let mut schema = noted.redact_json(Json::Object(self.input_schema.as_ref().clone()));
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
            return Err(format!(
                "its schema refers to {:?}, and may only refer to itself",
                cut(reference, 100)
            ));
        }
        // All that decides what a person thinks the tool is, uncut.
        let output = self.output_schema.as_ref().map(|schema| Json::Object(schema.as_ref().clone()));
        let hints = self.annotations.as_ref().and_then(|hints| serde_json::to_value(hints).ok());
        let identity = server.identity();
        let all = serde_json::json!([identity.as_ref(), self.title, self.description, schema, output, hints]);
        let read_only = self.annotations.as_ref().and_then(|hints| hints.read_only_hint).unwrap_or(false);
        let hinted = self.annotations.as_ref().and_then(|hints| hints.title.as_deref());
        let kept = ToolFacts {
            name: offered(&server.name, &self.name).into(),
            title: title(noted, self.title.as_deref().or(hinted)),
            description: description(noted, self.description.as_deref()),
            read_only,
            // The keys are no part of it: the digest is kept, and another key makes no other tool.
            digest: sha256::hex(noted.redact_json(all).to_string()).into(),
            schema: Arc::new(value_of(schema)),
            tool: self.name.as_ref().into(),
        };
        let texts = bytes([Some(&kept.name), kept.title.as_ref(), Some(&kept.description), Some(&kept.tool)]);
        Ok(Item { key: Some(kept.name.clone()), bytes: texts.saturating_add(length), kept })
    }
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

impl ServerItem for model::Prompt {
    type Kept = Prompt;
    const WHAT: &'static str = "prompt";
    const MOST: usize = MCP_LISTED;

    fn called(&self) -> &str {
        &self.name
    }

    fn read(self, server: &Server, noted: &Redactor) -> Result<Item<Prompt>, String> {
        if self.name.is_empty() || self.name.len() > MCP_TITLE_BYTES {
            return Err(format!("its name must have 1 to {MCP_TITLE_BYTES} bytes"));
        }
        let arguments: Vec<_> =
            self.arguments.unwrap_or_default().into_iter().take(crate::limits::MCP_FIELDS).collect();
        if arguments.iter().any(|argument| noted.is_in(&argument.name)) {
            return Err("an argument's name has a key in it that the server was given".to_owned());
        }
        let argument = |argument: model::PromptArgument| Argument {
            name: cut(&argument.name, MCP_TITLE_BYTES),
            description: description(noted, argument.description.as_deref().or(argument.title.as_deref())),
            required: argument.required.unwrap_or(false),
        };
        let kept = Prompt {
            command: offered(&server.name, &self.name).into(),
            title: title(noted, self.title.as_deref()),
            description: description(noted, self.description.as_deref()),
            arguments: arguments.into_iter().map(argument).collect(),
            name: self.name.into(),
        };
        let texts = [Some(&kept.command), kept.title.as_ref(), Some(&kept.description), Some(&kept.name)];
        let arguments =
            kept.arguments.iter().flat_map(|argument| [Some(&argument.name), Some(&argument.description)]);
        Ok(Item { key: Some(kept.command.clone()), bytes: bytes(texts.into_iter().chain(arguments)), kept })
    }
}

impl ServerItem for model::Resource {
    type Kept = Resource;
    const WHAT: &'static str = "resource";
    const MOST: usize = MCP_LISTED;

    fn called(&self) -> &str {
        &self.uri
    }

    fn read(self, _: &Server, noted: &Redactor) -> Result<Item<Resource>, String> {
        if self.uri.len() > MCP_TITLE_BYTES {
            return Err(format!("its address may have {MCP_TITLE_BYTES} bytes"));
        }
        let kept = Resource {
            uri: self.uri.as_str().into(),
            name: shown(noted, &self.name, MCP_TITLE_BYTES),
            title: title(noted, self.title.as_deref()),
            description: description(noted, self.description.as_deref()),
            mime_type: kind(noted, self.mime_type.as_deref()),
            size: self.size,
        };
        let texts = [Some(&kept.uri), Some(&kept.name), kept.title.as_ref(), Some(&kept.description)];
        Ok(Item { key: None, bytes: bytes(texts.into_iter().chain([kept.mime_type.as_ref()])), kept })
    }
}

impl ServerItem for model::ResourceTemplate {
    type Kept = Template;
    const WHAT: &'static str = "template";
    const MOST: usize = MCP_LISTED;

    fn called(&self) -> &str {
        &self.uri_template
    }

    fn read(self, _: &Server, noted: &Redactor) -> Result<Item<Template>, String> {
        if self.uri_template.len() > MCP_TITLE_BYTES {
            return Err(format!("its address may have {MCP_TITLE_BYTES} bytes"));
        }
        let kept = Template {
            uri: self.uri_template.as_str().into(),
            name: shown(noted, &self.name, MCP_TITLE_BYTES),
            title: title(noted, self.title.as_deref()),
            description: description(noted, self.description.as_deref()),
            mime_type: kind(noted, self.mime_type.as_deref()),
        };
        let texts = [Some(&kept.uri), Some(&kept.name), kept.title.as_ref(), Some(&kept.description)];
        Ok(Item { key: None, bytes: bytes(texts.into_iter().chain([kept.mime_type.as_ref()])), kept })
    }
}

/// A block of content: text, an image that models take, or a note of what it is.
pub(super) fn content(block: ContentBlock, noted: &Redactor) -> Content {
    let note = |text: String| Content::Text(cut(&noted.redact(&text), MCP_RESULT_BYTES));
    match block {
        ContentBlock::Text(text) => note(text.text),
        ContentBlock::Image(image) => picture(&image.mime_type, &image.data)
            .unwrap_or_else(|| note(unshown(noted, "image", &image.mime_type, &image.data))),
        ContentBlock::Audio(audio) => note(unshown(noted, "audio", &audio.mime_type, &audio.data)),
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
pub(super) fn contents(resource: ResourceContents, noted: &Redactor) -> Content {
    match resource {
        ResourceContents::TextResourceContents { text, .. } => {
            Content::Text(cut(&noted.redact(&text), MCP_RESULT_BYTES))
        }
        ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
            let kind = mime_type.unwrap_or_default();
            picture(&kind, &blob).unwrap_or_else(|| {
                let text = format!("resource {}", shown(noted, &uri, MCP_TITLE_BYTES));
                Content::Text(unshown(noted, &text, &kind, &blob).into())
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

fn unshown(noted: &Redactor, what: &str, mime_type: &str, data: &str) -> String {
    let bytes = data.len() / 4 * 3;
    format!("[{what} {}, some {bytes} bytes: not shown]", shown(noted, mime_type, 100))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::edn;
    use crate::mcp::lists::Reading;
    use crate::peer::Source;

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
        let server = server(r#"{:command ["a"] :without-tools ["hidden"]}"#);
        let noted = Redactor::default();
        let mut tools = Reading::new(&server, &noted);
        assert!(tools.page(all, Vec::new()));
        let names: Vec<&str> = tools.kept.iter().map(|tool| &*tool.tool).collect();
        assert_eq!(names, ["good", "near"]);
        let told = tools.passed_over.join("\n");
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
        let (server, noted) = (server(r#"{:command ["a"]}"#), Redactor::default());
        let mut tools = Reading::new(&server, &noted);
        assert!(!tools.page(all, Vec::new()));
        assert_eq!((tools.kept.len(), tools.passed_over.len()), (MCP_SERVER_TOOLS, 1));
    }

    #[test]
    fn digest_of_a_tool_changes_with_what_it_says() {
        let server = server(r#"{:command ["a"]}"#);
        let digest = |json: Json| tool_of(json).read(&server, &Redactor::default()).unwrap().kept.digest;
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
        // The same words of another program or from another folder are another tool; another key or time makes none.
        let of = |text: &str| {
            tool_of(base.clone()).read(&self::server(text), &Redactor::default()).unwrap().kept.digest
        };
        let same = of(r#"{:command ["a"] :env {"K" "other"} :timeout-ms 5}"#);
        assert!(!digests.insert(same));
        for text in
            [r#"{:command ["a" "b"]}"#, r#"{:command ["a"] :cwd "/x"}"#, r#"{:url "https://h.example"}"#]
        {
            assert!(digests.insert(of(text)), "{text}");
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
