//! The search of a model's provider: offered when the person wants it, its sources kept and shown, its data sent back to its
//! origin alone. A fake server refuses what the real one refuses.

use edn_bridge::value::Value;
use serde_json::{Value as Json, json};

use super::program::bridge;
use super::{KEY, words};
use crate::support::server::{Answer, Asked, Server};
use crate::support::{Bridge, Setup, at, data, end_of_turn};

/// The search of each protocol as a request offers it, in EDN.
fn search_of(api: &str) -> &'static str {
    match api {
        "anthropic" => r#"[{:type "web_search_20250305" :name "web_search"}]"#,
        "openai" => r#"[{:type "openrouter:web_search"}]"#,
        "openai-responses" => r#"[{:type "web_search"}]"#,
        _ => "[{:googleSearch {}} {:urlContext {}}]",
    }
}

/// An answer of these events.
fn events(events: &[Json]) -> Answer {
    Answer::events(events.iter().map(|event| format!("data: {event}\n\n")).collect::<String>())
}

/// An answer that searched, and cites one page for its second sentence "Ünd so." and another for all of it.
fn searched(api: &str, number: usize) -> Answer {
    match api {
        "anthropic" => {
            let start = |index: u64, block: Json| json!({"type": "content_block_start", "index": index, "content_block": block});
            let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
            let delta = |index: u64, delta: Json| json!({"type": "content_block_delta", "index": index, "delta": delta});
            let cited = |url: &str| {
                json!({"type": "citations_delta", "citation": {"type": "web_search_result_location", "url": url,
                       "title": "News [1]", "encrypted_index": "E+", "cited_text": "so"}})
            };
            let call = json!({"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}});
            let found = json!({"type": "web_search_result", "url": "https://a.example/1", "title": "News",
                               "encrypted_content": "SECRET+"});
            let results =
                json!({"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [found]});
            events(&[
                start(0, call),
                delta(0, json!({"type": "input_json_delta", "partial_json": "{\"query\":\"rust\"}"})),
                stop(0),
                start(1, results),
                stop(1),
                start(2, json!({"type": "text", "text": ""})),
                delta(2, json!({"type": "text_delta", "text": "Ja. "})),
                stop(2),
                start(3, json!({"type": "text", "text": ""})),
                delta(3, json!({"type": "text_delta", "text": "Ünd so."})),
                delta(3, cited("https://a.example/1")),
                delta(3, cited("javascript:alert(1)")),
                stop(3),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
                json!({"type": "message_stop"}),
            ])
        }
        "openai" => {
            let cited = |url: &str| {
                json!({"type": "url_citation", "url_citation": {"url": url, "title": "News [1]", "start_index": 4,
                       "end_index": 11}})
            };
            let choice = |delta: Json, reason: Json| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
            events(&[
                choice(json!({"content": "Ja. Ünd so."}), Json::Null),
                choice(
                    json!({"annotations": [cited("https://a.example/1"), cited("javascript:alert(1)")]}),
                    Json::Null,
                ),
                choice(json!({}), "stop".into()),
            ])
        }
        "openai-responses" => {
            let cited = |url: &str| json!({"type": "url_citation", "url": url, "title": "News [1]", "start_index": 4, "end_index": 11});
            let call = json!({"type": "web_search_call", "id": format!("ws_{number}"), "status": "completed",
                              "action": {"type": "search", "query": "rust"}});
            let message = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text",
                "text": "Ja. Ünd so.", "annotations": [cited("https://a.example/1"), cited("javascript:alert(1)")]}]});
            events(&[
                json!({"type": "response.web_search_call.searching", "output_index": 0, "item_id": format!("ws_{number}")}),
                json!({"type": "response.output_item.done", "output_index": 0, "item": call}),
                json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Ja. "}),
                json!({"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "Ünd so."}),
                json!({"type": "response.output_item.done", "output_index": 1, "item": message}),
                json!({"type": "response.completed", "response": {"status": "completed", "output": [call, message]}}),
            ])
        }
        _ => {
            let own = |part: Json| json!({"candidates": [{"content": {"parts": [part]}}]});
            let grounding = json!({
                "webSearchQueries": ["rust"],
                "groundingChunks": [{"web": {"uri": "https://a.example/1", "title": "News [1]"}},
                                    {"web": {"uri": "javascript:alert(1)", "title": "x"}}],
                // In bytes: the Ü has two.
                "groundingSupports": [{"segment": {"startIndex": 4, "endIndex": 12}, "groundingChunkIndices": [0, 1, 7]}],
            });
            events(&[
                own(
                    json!({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["rust"]}, "id": "t1"},
                           "thoughtSignature": "S1"}),
                ),
                own(
                    json!({"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "response": {"x": 1}, "id": "t1"},
                           "thoughtSignature": "S2"}),
                ),
                own(json!({"text": "Ja. "})),
                json!({"candidates": [{"content": {"parts": [{"text": "Ünd so."}]}, "finishReason": "STOP",
                       "groundingMetadata": grounding}]}),
            ])
        }
    }
}

/// Whether a request offers the search.
fn offers(asked: &Asked) -> bool {
    let tools = asked.json();
    let tools = tools["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().any(|tool| {
        let kind = tool["type"].as_str().unwrap_or_default();
        kind.contains("web_search") || tool.get("googleSearch").is_some()
    })
}

const APIS: [&str; 4] = ["anthropic", "openai", "openai-responses", "gemini"];

fn turn(bridge: &mut Bridge, text: &str) -> edn_bridge::value::Owned {
    bridge.request("p", "prompt", &format!("{{:message {text:?}}}"));
    let ended = end_of_turn(bridge);
    bridge.event("turn/ended");
    ended
}

#[test]
fn sources_are_kept_and_go_back_to_their_origin() {
    for api in APIS {
        let server = Server::of(move |asked| match asked.body.contains("and now") {
            false => searched(api, asked.body.len()),
            true => Answer::events(words(api, "ok")),
        });
        // The only server of this protocol with a search that it offers as a tool.
        if api == "openai" {
            server.stands_for("openrouter");
        }
        let setup = bridge(&server, api, &format!(":takes {{:search {}}}", search_of(api)));
        let mut first = setup.ready();
        // Off until the person wants it.
        let answer = turn(&mut first, "first");
        assert!(!offers(&server.all_asked()[0]), "{api}");
        assert!(answer.to_string().contains("https://a.example/1"), "read where it was not asked for: {api}");
        first.request("s", "prompt", "{:message \"/search on\"}");
        assert_eq!(data(&first.event("command-result"), "message"), "Web search is on for this session.");
        let state = first.ask("g", "get_state", "{}");
        assert_eq!(at(&state, &["data", "state", "web-search"]).and_then(Value::as_bool), Some(true));
        let answer = turn(&mut first, "search");
        let asked = server.all_asked();
        assert!(asked.len() == 1 && offers(&asked[0]), "{api}: {}", asked[0].body);
        let content = at(&answer, &["data", "content"]).and_then(Value::as_slice).unwrap();
        let sources = content.last().unwrap();
        let searches = if api == "openai" { "[]" } else { "[\"rust\"]" };
        let expected = format!(
            "{{:type :sources :searches {searches} :sources [{{:url \"https://a.example/1\" :title \"News [1]\" :start 4 :end 11}}]}}"
        );
        assert_eq!(sources.to_string(), expected, "{api}");
        let session = data(&answer, "session-id").to_owned();
        first.close_input();
        first.wait();
        // After a restart the server gets back what it wants, and the same request is valid.
        let mut second = setup.ready();
        second.ask("r", "switch_session", &format!("{{:session-id {session:?}}}"));
        assert_eq!(data(&turn(&mut second, "and now"), "text"), "ok", "{api}");
        let body = server.all_asked().pop().unwrap().body;
        for wanted in match api {
            "anthropic" => &["SECRET+", "\"encrypted_index\":\"E+\"", "srv1"][..],
            "openai-responses" => &["\"ws_"],
            "gemini" => &["\"toolCall\"", "\"toolResponse\"", "S2"],
            _ => &["Source: News [1] https://a.example/1"],
        } {
            assert!(body.contains(wanted), "{api}: {wanted}: {body}");
        }
        assert!(server.refusals().is_empty(), "{api}: {:?}", server.refusals());
        let shown = second.ask("m", "get_messages", "{}").to_string();
        assert!(!shown.contains("SECRET+"), "what a server wants back is shown to nobody");
    }
}

#[test]
fn another_model_gets_the_list_of_sources() {
    let searching = Server::new([searched("anthropic", 1)]);
    let other = Server::new([Answer::events(words("gemini", "ok"))]);
    let config = format!(
        "{{:providers {{\"p\" {{:api :anthropic :base-url \"{}\"}} \"q\" {{:api :gemini :base-url \"{}\"}}}}
           :models [{{:provider \"p\" :id \"m\" :context-window 100000}} {{:provider \"q\" :id \"n\" :context-window 100000}}]}}",
        searching.url(),
        other.url()
    );
    let mut bridge = configured(&config, &["--yolo"]).ready();
    turn(&mut bridge, "search");
    let set = bridge.ask("m", "set_model", "{:provider \"q\" :model-id \"n\"}");
    assert_eq!(at(&set, &["data", "model", "id"]).and_then(Value::as_str), Some("n"), "{set}");
    assert_eq!(data(&turn(&mut bridge, "and now"), "text"), "ok");
    let body = other.asked().body;
    assert!(body.contains("Searched the web: rust\\nSource: News [1] https://a.example/1"), "{body}");
    assert!(!body.contains("SECRET+"), "{body}");
}

/// A setup whose configuration is this text.
fn configured(text: &str, arguments: &[&str]) -> Setup {
    let mut setup = Setup::new().arg("--provider").arg("p").arg("--model").arg("m");
    for argument in arguments {
        setup = setup.arg(argument);
    }
    let config = setup.dir.path().join("config.edn");
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap().to_owned();
    setup.arg("--config").arg(&config)
}

#[test]
fn first_offer_is_asked_about_unless_a_rule_decides() {
    let config = |server: &Server, more: &str| {
        format!(
            "{{:tools {{:web-search true}} {more}
               :providers {{\"p\" {{:api :openai-responses :base-url \"{}\" :key-command [\"echo\" \"{KEY}\"]
                                    :takes {{:search [{{:type \"web_search\"}}]}}}}}}
               :models [{{:provider \"p\" :id \"m\"}}]}}",
            server.url()
        )
    };
    let server = || Server::of(|_| Answer::events(words("openai-responses", "ok")));
    for (more, expected) in [
        (":permissions {:rules [{:tool \"web-search\" :decision :deny}]}", false),
        (":permissions {:rules [{:tool \"web-search\" :decision :allow}]}", true),
        (":mode :yolo", true),
    ] {
        let server = server();
        let mut bridge = configured(&config(&server, more), &[]).ready();
        turn(&mut bridge, "hi");
        assert_eq!(offers(&server.asked()), expected, "{more}");
    }
    for ok in [true, false] {
        let server = server();
        let mut bridge = configured(&config(&server, ""), &[]).interactor();
        bridge.request("p", "prompt", "{:message \"hi\"}");
        let question = bridge.event("interaction/requested");
        assert!(question.to_string().contains("May m search the web in this session? p runs"), "{question}");
        let id = data(&question, "interaction-id").to_owned();
        let answer = format!("{{:interaction-id {id:?} :status \"accepted\" :value {{:ok {ok}}}}}");
        bridge.ask("r", "interaction_respond", &answer);
        end_of_turn(&mut bridge);
        bridge.event("turn/ended");
        // It is asked once.
        turn(&mut bridge, "again");
        let offered: Vec<bool> = server.all_asked().iter().map(offers).collect();
        assert_eq!(offered, [ok, ok]);
    }
    // Nobody is there to say so.
    let server = server();
    let mut bridge = configured(&config(&server, ""), &[]).ready();
    turn(&mut bridge, "hi");
    assert!(!offers(&server.asked()));
}
