//! A model server on loopback for real agents, in the four formats that they speak. It has no model: it does what the
//! person's last message says, with the agent's own tools.
//!
//! `DO say WORDS` is answered with the words; `DO run COMMAND` and `DO edit FILE OLD NEW` with tool calls, then with their
//! last result; `DO recall` with all that the person has said; `DO slow` with a beginning that nothing follows.

use serde_json::{Value as Json, json};

use crate::support::server::{Answer, Asked, End, Server};

/// What is written of a conversation, whatever the format.
#[derive(Debug, Default)]
struct Heard {
    /// What the person has asked for, without `DO`.
    prompts: Vec<String>,
    /// The results of tools since then.
    results: Vec<String>,
    /// The names of the tools.
    tools: Vec<String>,
}

/// What the model says.
#[derive(Debug)]
enum Said {
    Text(String),
    /// A text that has no end.
    Begun(String),
    /// A call of a tool with arguments; a text for a tool without a schema.
    Call(&'static str, Json),
}

/// What begins each of the tests' prompts, between all that agents write around it.
const MARK: &str = "DO ";

/// Starts the server.
pub fn start() -> Server {
    Server::of(answer)
}

fn answer(asked: &Asked) -> Answer {
    let path = asked.path.split('?').next().unwrap_or_default().to_owned();
    if asked.method != "POST" {
        return Answer::json(404, "{}");
    }
    let body: Json = serde_json::from_str(&asked.body).unwrap_or_default();
    if path.ends_with("/v1/messages") {
        anthropic(&body)
    } else if path.ends_with("/responses") {
        responses(&body)
    } else if path.ends_with("/chat/completions") {
        chat(&body)
    } else if path.contains("enerateContent") {
        gemini(&body, path.ends_with(":streamGenerateContent"))
    } else if path.ends_with("/count_tokens") {
        Answer::json(200, r#"{"input_tokens":10}"#)
    } else if path.ends_with(":countTokens") {
        Answer::json(200, r#"{"totalTokens":10}"#)
    } else {
        Answer::json(404, "{}")
    }
}

impl Heard {
    fn of(tools: &Json, names: &[&str]) -> Self {
        let name =
            |tool: &Json| names.iter().find_map(|name| tool.pointer(name)?.as_str().map(str::to_owned));
        let tools = tools.as_array().into_iter().flatten().filter_map(name).collect();
        Self { tools, ..Self::default() }
    }

    fn person(&mut self, text: &str) {
        if let Some((_, task)) = text.rsplit_once(MARK) {
            self.prompts.push(task.lines().next().unwrap_or_default().trim().to_owned());
            self.results.clear();
        }
    }

    fn result(&mut self, result: &Json) {
        let text = match result {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.results.push(text);
    }

    /// What is said next, if these are the calls for a command and for an edit.
    fn next(&self, run: impl Fn(&str) -> Call, edit: impl Fn(&str, &str, &str) -> Vec<Call>) -> Said {
        let prompt = self.prompts.last().map(String::as_str).unwrap_or_default();
        let (word, rest) = prompt.split_once(' ').unwrap_or((prompt, ""));
        let calls = match word {
            // A title is wanted, or something else beside the conversation.
            _ if self.tools.is_empty() => return Said::Text("A title".to_owned()),
            "say" => return Said::Text(rest.to_owned()),
            "recall" => return Said::Text(format!("recalled: {}", self.prompts.join(" | "))),
            "slow" => return Said::Begun("It begins".to_owned()),
            "run" => vec![run(rest)],
            "edit" => match rest.split(' ').collect::<Vec<_>>()[..] {
                [file, old, new] => edit(file, old, new),
                _ => return Said::Text(format!("no edit: {rest}")),
            },
            _ => return Said::Text(format!("not understood: {prompt}; tools {:?}", self.tools)),
        };
        match calls.into_iter().nth(self.results.len()) {
            Some(Call(tool, _)) if !self.tools.iter().any(|known| known == tool) => {
                Said::Text(format!("no tool {tool} among {:?}", self.tools))
            }
            Some(Call(tool, arguments)) => Said::Call(tool, arguments),
            None => Said::Text(format!("result: {}", self.results.last().map_or("", String::as_str))),
        }
    }
}

/// A tool's name and its arguments.
struct Call(&'static str, Json);

/// A name that no earlier answer had.
fn fresh(prefix: &str) -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Events of a stream, each under its type, if the format wants that. A text that has no end is left open.
fn stream(events: &[Json], is_named: bool, is_open: bool) -> Answer {
    let mut body = String::new();
    for event in events {
        if is_named {
            body.push_str(&format!("event: {}\n", event["type"].as_str().unwrap_or_default()));
        }
        let data = event.as_str().map_or_else(|| event.to_string(), str::to_owned);
        body.push_str(&format!("data: {data}\n\n"));
    }
    Answer::events(body).end(if is_open { End::Silent } else { End::Well })
}

/// The texts of a part of a message: one text, or a list of parts with texts.
fn texts(content: &Json) -> String {
    match content {
        Json::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    }
}

fn anthropic(body: &Json) -> Answer {
    let mut heard = Heard::of(&body["tools"], &["/name"]);
    for message in body["messages"].as_array().into_iter().flatten().filter(|m| m["role"] == "user") {
        heard.person(&texts(&message["content"]));
        for part in message["content"].as_array().into_iter().flatten() {
            if part["type"] == "tool_result" {
                heard.result(&Json::String(texts(&part["content"])));
            }
        }
    }
    let said = heard.next(
        |command| Call("Bash", json!({"command": command, "description": "Runs it"})),
        |file, old, new| {
            vec![
                Call("Read", json!({"file_path": file})),
                Call("Edit", json!({"file_path": file, "old_string": old, "new_string": new})),
            ]
        },
    );
    let (block, delta, stop) = match &said {
        Said::Text(text) | Said::Begun(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}), "end_turn")
        }
        Said::Call(tool, arguments) => (
            json!({"type": "tool_use", "id": fresh("toolu_"), "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
            "tool_use",
        ),
    };
    let usage = json!({"input_tokens": 10, "output_tokens": 5});
    let message = json!({"id": fresh("msg_"), "type": "message", "role": "assistant", "model": body["model"],
        "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage});
    if body["stream"] != true {
        let mut whole = message;
        whole["content"] = json!([{"type": "text", "text": "A title"}]);
        whole["stop_reason"] = "end_turn".into();
        return Answer::json(200, &whole.to_string());
    }
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
    ];
    let is_open = matches!(said, Said::Begun(_));
    if !is_open {
        events.extend([
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": usage}),
            json!({"type": "message_stop"}),
        ]);
    }
    stream(&events, true, is_open)
}

fn responses(body: &Json) -> Answer {
    let mut heard = Heard::of(&body["tools"], &["/name"]);
    for item in body["input"].as_array().into_iter().flatten() {
        match item["type"].as_str() {
            Some("function_call_output" | "custom_tool_call_output") => heard.result(&item["output"]),
            _ if item["role"] == "user" => heard.person(&texts(&item["content"])),
            _ => {}
        }
    }
    let said = heard.next(
        // Without asking for more than its sandbox allows it does not ask at all.
        |command| {
            let more = ("require_escalated", "May I?");
            Call(
                "exec_command",
                json!({"cmd": command, "sandbox_permissions": more.0, "justification": more.1}),
            )
        },
        |file, old, new| {
            let patch =
                format!("*** Begin Patch\n*** Update File: {file}\n@@\n-{old}\n+{new}\n*** End Patch\n");
            vec![Call("apply_patch", patch.into())]
        },
    );
    let id = fresh("resp_");
    let item = match &said {
        Said::Text(text) | Said::Begun(text) => {
            json!({"type": "message", "id": fresh("msg_"), "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]})
        }
        Said::Call(tool, Json::String(input)) => {
            json!({"type": "custom_tool_call", "id": fresh("ctc_"), "call_id": fresh("call_"), "name": tool,
                "input": input, "status": "completed"})
        }
        Said::Call(tool, arguments) => {
            json!({"type": "function_call", "id": fresh("fc_"), "call_id": fresh("call_"), "name": tool,
                "arguments": arguments.to_string(), "status": "completed"})
        }
    };
    let mut events = vec![
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
    ];
    if let Said::Text(text) | Said::Begun(text) = &said {
        let (item_id, index) = (&item["id"], 0);
        events.push(json!({"type": "response.output_text.delta", "item_id": item_id, "output_index": index,
            "content_index": 0, "delta": text}));
    }
    let is_open = matches!(said, Said::Begun(_));
    if !is_open {
        let usage = json!({"input_tokens": 10, "input_tokens_details": null, "output_tokens": 5,
            "output_tokens_details": null, "total_tokens": 15});
        events.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item}));
        let response = json!({"id": id, "status": "completed", "output": [item], "usage": usage});
        events.push(json!({"type": "response.completed", "response": response}));
    }
    stream(&events, true, is_open)
}

fn chat(body: &Json) -> Answer {
    let mut heard = Heard::of(&body["tools"], &["/function/name"]);
    for message in body["messages"].as_array().into_iter().flatten() {
        match message["role"].as_str() {
            Some("user") => heard.person(&texts(&message["content"])),
            Some("tool") => heard.result(&Json::String(texts(&message["content"]))),
            _ => {}
        }
    }
    let said = heard.next(
        |command| Call("bash", json!({"command": command, "description": "Runs it"})),
        |file, old, new| {
            vec![
                Call("read", json!({"filePath": file})),
                Call("edit", json!({"filePath": file, "oldString": old, "newString": new})),
            ]
        },
    );
    let id = fresh("chat-");
    let chunk = |delta: Json, finish: Option<&str>| {
        json!({"id": id, "object": "chat.completion.chunk", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
    };
    let (delta, finish) = match &said {
        Said::Text(text) | Said::Begun(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Said::Call(tool, arguments) => {
            let function = json!({"name": tool, "arguments": arguments.to_string()});
            let call = json!({"index": 0, "id": fresh("call_"), "type": "function", "function": function});
            (json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls")
        }
    };
    let mut events = vec![chunk(delta, None)];
    let is_open = matches!(said, Said::Begun(_));
    if !is_open {
        let mut last = chunk(json!({}), Some(finish));
        last["usage"] = json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15});
        events.extend([last, "[DONE]".into()]);
    }
    stream(&events, false, is_open)
}

fn gemini(body: &Json, is_stream: bool) -> Answer {
    let tools = body["tools"].as_array().into_iter().flatten();
    let functions: Vec<Json> =
        tools.flat_map(|tool| tool["functionDeclarations"].as_array().cloned().unwrap_or_default()).collect();
    let mut heard = Heard::of(&Json::Array(functions), &["/name"]);
    for content in body["contents"].as_array().into_iter().flatten().filter(|c| c["role"] == "user") {
        heard.person(&texts(&content["parts"]));
        for part in content["parts"].as_array().into_iter().flatten() {
            if part["functionResponse"].is_object() {
                heard.result(&part["functionResponse"]["response"]);
            }
        }
    }
    let said = heard.next(
        |command| Call("run_shell_command", json!({"command": command, "description": "Runs it"})),
        |file, old, new| {
            let arguments =
                json!({"file_path": file, "old_string": old, "new_string": new, "instruction": "Exchange it"});
            vec![Call("replace", arguments)]
        },
    );
    let part = match &said {
        // What is wanted as JSON is who speaks next.
        Said::Text(_) if body["generationConfig"]["responseMimeType"] == "application/json" => {
            json!({"text": json!({"reasoning": "It has ended.", "next_speaker": "user"}).to_string()})
        }
        Said::Text(text) | Said::Begun(text) => json!({"text": text}),
        Said::Call(tool, arguments) => {
            json!({"functionCall": {"id": fresh("call_"), "name": tool, "args": arguments}})
        }
    };
    let is_open = matches!(said, Said::Begun(_));
    let mut event = json!({
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        "modelVersion": "m",
    });
    if !is_open {
        event["candidates"][0]["finishReason"] = "STOP".into();
    }
    match is_stream {
        true => stream(&[event], false, is_open),
        false => Answer::json(200, &event.to_string()),
    }
}
