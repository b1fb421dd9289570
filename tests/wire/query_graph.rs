//! The graph on a live session: every attribute, with the graph's own example query.
use crate::support;

use edn_bridge::edn;
use edn_bridge::query::parse::parse;
use edn_bridge::value::{Owned, Value};
use support::{Bridge, Setup};

const SCRIPT: &str = "{:turns [{:steps [{:thinking \"hm\"} {:delta \"Hello.\"}] :usage {:input 10 :output 5}}] :then :repeat-last}";

fn live() -> (Setup, Bridge) {
    let setup = Setup::new().script(SCRIPT);
    let git = setup.project().join(".git");
    std::fs::create_dir_all(git.join("refs/heads")).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("refs/heads/main"), "0123456789012345678901234567890123456789\n").unwrap();
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"hello\"}");
    bridge.event("turn/ended");
    bridge.ask("n", "set_session_name", "{:name \"first\"}");
    (setup, bridge)
}

/// A workflow that nobody lets begin.
const WAITS: &str =
    "{:doc \"Waits for a word.\" :stages [{:id :a :body \"{{args}}\" :gate [{:confirm \"Begin?\"}]}]}";

fn live_with_workflow() -> (Setup, Bridge) {
    let setup = Setup::new().script(SCRIPT);
    let config = setup.dir.path().join("user.edn");
    std::fs::write(&config, "{}").unwrap();
    std::fs::create_dir_all(setup.dir.path().join("workflows")).unwrap();
    std::fs::write(setup.dir.path().join("workflows/waits.edn"), WAITS).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let mut bridge = setup.serve();
    let hello =
        "{:client-info {:name \"t\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}";
    bridge.ask("h", "handshake", hello);
    bridge.ask("s", "subscribe", "{}");
    (setup, bridge)
}

const BUSY: &str = "{:turns [{:steps [{:delta \"Hello.\"}] :usage {:input 10 :output 5}} \
    {:steps [{:tool-call {:name \"bash\" :arguments {:command \"true\" :background true}}}]} \
    {:steps [{:delta \"It runs.\"}]} \
    {:steps [{:tool-call {:name \"bash\" :arguments {:command \"echo done\"}}}]} \
    {:steps [{:delta \"Done.\"}]}] :then :repeat-last}";

/// A session of everything: turns, a run of a workflow, a background job, a call that waits for a person's
/// word and one that was answered, a queued message for the turn, a name, a hook, a rule, an MCP server,
/// an external agent, a skill, a template.
fn busy() -> (Setup, Bridge) {
    let setup = Setup::new().script(BUSY);
    let config = setup.dir.path().join("user.edn");
    let server = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mcp_engine/server.py");
    let started = setup.dir.path().join("started");
    std::fs::write(
        &config,
        format!(
            "{{:hooks [{{:stage :tool-call :point :post :kind :observer :command [\"true\"] :tools [\"read\"]}}] \
              :permissions {{:rules [{{:decision :deny :tool \"bash\" :command \"rm\"}}]}} \
              :mcp {{\"s\" {{:command [\"python3\" {server:?}] :env {{\"STARTED\" {started:?}}}}}}} \
              :agents {{\"a\" {{:command [\"true\"]}}}}}}"
        ),
    )
    .unwrap();
    let workflows = setup.dir.path().join("workflows");
    std::fs::create_dir_all(&workflows).unwrap();
    std::fs::write(workflows.join("waits.edn"), WAITS).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let git = setup.project().join(".git");
    std::fs::create_dir_all(git.join("refs/heads")).unwrap();
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(git.join("refs/heads/main"), "0123456789012345678901234567890123456789\n").unwrap();
    let skill = setup.project().join(".edn-bridge/skills/tidy");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\ndescription: Tidies up.\n---\n").unwrap();
    let prompts = setup.project().join(".edn-bridge/prompts");
    std::fs::create_dir_all(&prompts).unwrap();
    std::fs::write(prompts.join("greet.md"), "---\ndescription: Greets.\n---\nHello $1\n").unwrap();
    let mut bridge = setup.serve();
    bridge.ask(
        "h",
        "handshake",
        "{:client-info {:name \"test\" :version \"1\" :protocol-version \"1.0\" :features [\"interactor\"]}}",
    );
    bridge.ask("s", "subscribe", "{}");
    // To its end: the model's last words, and behind them the session at rest.
    let turn = |bridge: &mut Bridge, message: &str, last: &str| {
        bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
        let data = |frame: &Owned, key: &str| {
            support::at(frame, &["data", key]).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        bridge.until(|frame| support::is_event(frame, "assistant/message") && data(frame, "text") == last);
        bridge.until(|frame| support::is_event(frame, "session/updated") && data(frame, "phase") == "idle");
    };
    turn(&mut bridge, "hello", "Hello.");
    bridge.ask("w", "command", "{:text \"/workflow waits now\"}");
    let question = bridge.event("interaction/requested");
    let id = support::at(&question, &["data", "interaction-id"]).unwrap().to_string();
    bridge.ask("r", "interaction_respond", &format!("{{:interaction-id {id} :status \"cancelled\"}}"));
    bridge.event("ui/notification");
    bridge.until(|frame| {
        let phase = support::at(frame, &["data", "phase"]).and_then(Value::as_str);
        support::is_event(frame, "session/updated") && phase == Some("idle")
    });
    bridge.ask("m", "set_mode", "{:mode \"yolo\"}");
    turn(&mut bridge, "a job", "It runs.");
    bridge.ask("m", "set_mode", "{:mode \"ask\"}");
    bridge.ask("n", "set_session_name", "{:name \"first\"}");
    bridge.ask("q", "prompt", "{:message \"ask me\"}");
    bridge.event("interaction/requested");
    bridge.ask("l", "follow_up", "{:message \"later\"}");
    (setup, bridge)
}

/// The `:data` of the answer.
fn query(bridge: &mut Bridge, text: &str) -> Owned {
    let answer = bridge.ask("q", "query_eql", &format!("{{:query {}}}", edn::to_string(&Value::from(text))));
    answer.get("data").cloned().unwrap_or_else(|| panic!("{text}: {answer}"))
}

fn result(bridge: &mut Bridge, text: &str) -> Owned {
    let data = query(bridge, text);
    assert!(data.get("errors").is_none(), "{text}: {data}");
    data.get("result").cloned().unwrap()
}

/// Whether a result has the last attribute of its query, below every join and in every list.
fn holds(query: &Owned, result: &Owned) -> Result<(), &'static str> {
    match &query.as_slice().unwrap()[0] {
        Value::Keyword(name) => result.get(name).map(|_| ()).ok_or("missing"),
        Value::Map(join) => {
            let (key, below) = join.iter().next().unwrap();
            match result.get(key.as_keyword().unwrap()) {
                None => Err("missing above"),
                Some(Value::Vector(items)) if items.is_empty() => Err("empty"),
                Some(Value::Vector(items)) => items
                    .iter()
                    .map(|item| holds(below, item))
                    .find(Result::is_ok)
                    .unwrap_or(Err("missing in list")),
                Some(one) => holds(below, one),
            }
        }
        other => panic!("{other}"),
    }
}

#[test]
fn every_attribute_of_the_graph_resolves_on_a_live_session() {
    let (_setup, mut bridge) = busy();
    let all = result(&mut bridge, "[{:psi.graph/attributes [*]}]");
    let all = all.get("psi.graph/attributes").unwrap().as_slice().unwrap().to_vec();
    let (mut resolved, mut empty, mut wrong) = (0, Vec::new(), Vec::new());
    for attribute in &all {
        let name = attribute.get("psi.attribute/name").unwrap().to_string();
        assert!(!attribute.get("psi.attribute/doc").unwrap().as_str().unwrap().is_empty());
        let Some(example) = attribute.get("psi.attribute/example").and_then(Value::as_str) else {
            wrong.push(format!("{name} has no example"));
            continue;
        };
        let found = query(&mut bridge, example);
        match holds(&parse(example).unwrap().to_value(), found.get("result").unwrap()) {
            Ok(()) => resolved += 1,
            Err("empty") => empty.push(name),
            Err(why) => wrong.push(format!("{name}: {why}: {example} answers {found}")),
        }
    }
    println!("{resolved} of {} attributes resolve; below empty lists: {empty:?}", all.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A bridge alone is in no realm; tests/realm/federation.rs asks for its sessions and hosts.
    let (of_realm, empty): (Vec<String>, Vec<String>) =
        empty.into_iter().partition(|name| name.starts_with(":psi.realm-"));
    assert!(empty.is_empty(), "the session has none of these: {empty:?}");
    assert!(all.len() > 220 && resolved + of_realm.len() == all.len(), "{resolved} of {}", all.len());
}

#[test]
fn configuration_and_decisions_are_queryable() {
    let (_setup, mut bridge) = busy();
    let mut check = |query: &str, expected: &str| {
        let found = result(&mut bridge, query).to_string();
        assert!(found.contains(expected), "{query}: {found} has no {expected}");
    };
    check(
        "[{:psi.workflow/list [:psi.workflow/name :psi.workflow/doc :psi.workflow/problem {:psi.workflow/stages [:psi.workflow-stage/id]}]}]",
        "{:psi.workflow/name \"waits\" :psi.workflow/doc \"Waits for a word.\" :psi.workflow/problem nil \
         :psi.workflow/stages [{:psi.workflow-stage/id \"a\"}]}",
    );
    check(
        "[{:psi.agent-session/workflow-runs [:psi.workflow/doc :psi.workflow-run/arguments :psi.workflow-run/status \
          {:psi.workflow-run/steps [:psi.workflow-step/id :psi.workflow-step/status :psi.workflow-step/why]}]}]",
        "[{:psi.workflow/doc \"Waits for a word.\" :psi.workflow-run/arguments \"now\" \
         :psi.workflow-run/status \"skipped\" :psi.workflow-run/steps [{:psi.workflow-step/id \"a\" \
         :psi.workflow-step/status \"skipped\" :psi.workflow-step/why \"the user dismissed \\\"Begin?\\\"\"}]}]",
    );
    check(
        "[{:psi.audit/list [:psi.audit/kind :psi.audit/outcome]}]",
        "[{:psi.audit/kind \"confirm\" :psi.audit/outcome \"cancelled\"}]",
    );
    check(
        "[{:psi.agent-session/rules [:psi.rule/decision :psi.rule/tool :psi.rule/command :psi.rule/source]}]",
        "{:psi.rule/decision :deny :psi.rule/tool \"bash\" :psi.rule/command \"rm\" :psi.rule/source :configured}",
    );
    check(
        "[{:psi.agent-session/skills [:psi.skill/name :psi.skill/description]}]",
        "[{:psi.skill/name \"tidy\" :psi.skill/description \"Tidies up.\"}]",
    );
    check(
        "[{:psi.agent-session/prompt-templates [:name :description]}]",
        "{:name \"greet\" :description \"Greets.\"}",
    );
}

#[test]
fn workflow_shows_status_while_it_runs() {
    let (_setup, mut bridge) = live_with_workflow();
    bridge.ask("w", "command", "{:text \"/workflow waits\"}");
    let question = bridge.event("interaction/requested");
    let found = result(
        &mut bridge,
        "[:psi.ui/statuses {:psi.ui/widgets [:widget-id :content-lines]} {:psi.ui/widget-specs [:title]} \
          {:psi.agent-session/workflow-runs [:psi.workflow-run/status {:psi.workflow-run/steps [:psi.workflow-step/status]}]}]",
    );
    assert_eq!(
        found.to_string(),
        "{:psi.ui/statuses [{:extension-id \"edn-bridge\" :text \"workflow waits: a\"}] \
         :psi.ui/widgets [{:widget-id \"workflow\" :content-lines [\"Workflow waits\" \"  ● a  running\"]}] \
         :psi.ui/widget-specs [{:title \"Workflow\"}] \
         :psi.agent-session/workflow-runs [{:psi.workflow-run/status \"running\" \
         :psi.workflow-run/steps [{:psi.workflow-step/status \"running\"}]}]}"
    );
    let id = support::at(&question, &["data", "interaction-id"]).unwrap().to_string();
    bridge.ask("r", "interaction_respond", &format!("{{:interaction-id {id} :status \"cancelled\"}}"));
    bridge.event("ui/notification");
    assert_eq!(result(&mut bridge, "[:psi.ui/statuses]").to_string(), "{:psi.ui/statuses []}");
}

/// What a query tells of a session holds together, whatever happens to the session meanwhile; and it is
/// answered while the turn goes on.
#[test]
fn query_in_running_turn_reads_one_state() {
    let setup = Setup::new().script(
        "{:turns [{:steps [{:tool-call {:name \"find\" :arguments {:glob \"*\"}}}]}] :then :repeat-last}",
    );
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go on and on\"}");
    let number = |found: &Owned, key: &str| found.get(key).and_then(Value::as_i64).unwrap();
    let count = |items: &[Owned]| i64::try_from(items.len()).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut runs = true;
    while runs && seen.len() < 20 {
        let found = result(
            &mut bridge,
            "[:psi.agent-session/message-count {:psi.agent-session/messages [:psi.message/id :psi.message/parent-id]} \
              {:psi.agent-session/entries [:psi.entry/id]} :psi.agent-session/offset :psi.agent-session/message-counts \
              :psi.agent-session/is-streaming]",
        );
        let list = |key: &str| found.get(key).unwrap().as_slice().unwrap();
        let messages = list("psi.agent-session/messages");
        let counts = found.get("psi.agent-session/message-counts").unwrap().as_map().unwrap();
        let counted: i64 = counts.iter().filter_map(|(_, count)| count.as_i64()).sum();
        let told = number(&found, "psi.agent-session/message-count");
        assert_eq!([told, counted], [count(messages); 2], "{found}");
        assert_eq!(number(&found, "psi.agent-session/offset"), count(list("psi.agent-session/entries")));
        seen.insert(told);
        runs = found.get("psi.agent-session/is-streaming").and_then(Value::as_bool).unwrap();
    }
    assert!(seen.len() > 3, "the session stood still: {seen:?}");
    bridge.ask("a", "abort", "{}");
}

#[test]
fn running_and_waiting_things_are_seen_and_acted_on() {
    let (_setup, mut bridge) = busy();
    let found = result(
        &mut bridge,
        "[{:psi.agent-session/queue [:psi.queue/until :psi.queue/text]} \
          {:psi.agent-session/running-tool-calls [:psi.tool-lifecycle.summary/tool-name :psi.tool-lifecycle.summary/status]} \
          :psi.turn/stage :psi.turn/point {:psi.agent-session/turns [:psi.turn/text :psi.turn/tool-call-count]} \
          {(:psi.agent-session/interactions {:kind :approve}) [:psi.interaction/kind :psi.interaction/shown-to]} \
          {:psi.agent-session/jobs [:psi.job/command {:>/turn [:psi.turn/text]}]}]",
    );
    assert_eq!(
        found.to_string(),
        "{:psi.agent-session/queue [{:psi.queue/until :follow-up :psi.queue/text \"later\"}] \
         :psi.agent-session/running-tool-calls [{:psi.tool-lifecycle.summary/tool-name \"bash\" \
         :psi.tool-lifecycle.summary/status :waiting}] :psi.turn/stage :tool-call :psi.turn/point :pre \
         :psi.agent-session/turns [{:psi.turn/text \"Hello.\" :psi.turn/tool-call-count 0} \
         {:psi.turn/text \"It runs.\" :psi.turn/tool-call-count 1} {:psi.turn/text \"\" :psi.turn/tool-call-count 1}] \
         :psi.agent-session/interactions [{:psi.interaction/kind :approve :psi.interaction/shown-to 1}] \
         :psi.agent-session/jobs [{:psi.job/command \"true\" :>/turn {:psi.turn/text \"It runs.\"}}]}"
    );
    let id = |bridge: &mut Bridge, text: &str, list: &str, key: &str| {
        let found = result(bridge, text);
        let first = found.get(list).unwrap().as_slice().unwrap()[0].clone();
        first.get(key).unwrap().as_str().unwrap().to_owned()
    };
    let job = id(&mut bridge, "[{:psi.job/list [:psi.job/id]}]", "psi.job/list", "psi.job/id");
    let found = result(
        &mut bridge,
        &format!("[{{(psi.job/cancel {{:id {job:?}}}) [:psi.job/id :psi.job/command]}}]"),
    );
    assert_eq!(
        found.to_string(),
        format!("{{psi.job/cancel {{:psi.job/id {job:?} :psi.job/command \"true\"}}}}")
    );
    let question = "[{:psi.interaction/list [:psi.interaction/id]}]";
    let question = id(&mut bridge, question, "psi.interaction/list", "psi.interaction/id");
    result(&mut bridge, &format!("[(psi.interaction/grant {{:id {question:?} :note \"go on\"}})]"));
    let done = bridge.event("tool/result");
    assert!(
        support::at(&done, &["data", "result-text"]).unwrap().as_str().unwrap().contains("done"),
        "{done}"
    );
    let late = query(&mut bridge, &format!("[(psi.interaction/refuse {{:id {question:?}}})]"));
    assert!(late.to_string().contains("request/interaction-already-answered"), "{late}");
}

#[test]
fn refused_call_does_not_run_and_model_gets_reason() {
    let (_setup, mut bridge) = busy();
    let found = result(&mut bridge, "[{:psi.interaction/list [:psi.interaction/id]}]");
    let question = &found.get("psi.interaction/list").unwrap().as_slice().unwrap()[0];
    let id = question.get("psi.interaction/id").unwrap().as_str().unwrap();
    let refuse = format!("[(psi.interaction/refuse {{:id {id:?} :note \"not today\"}})]");
    result(&mut bridge, &refuse);
    let done = bridge.event("tool/result");
    let told = support::at(&done, &["data", "result-text"]).unwrap().as_str().unwrap();
    assert!(told.contains("not today") && !told.contains("done"), "{told}");
}

#[test]
fn notes_are_kept_and_removed_by_mutations() {
    let (_setup, mut bridge) = live();
    let found = result(&mut bridge, "[{(psi.memory/remember {:text \"--forget nothing\"}) [:note]}]");
    let note = found.as_map().unwrap().iter().next().unwrap().1.get("note").unwrap().clone();
    assert_eq!(note.get("text").and_then(Value::as_str), Some("--forget nothing"));
    let id = note.get("id").unwrap().as_str().unwrap().to_owned();
    let forget = format!("[(psi.memory/forget {{:id {id:?}}})]");
    result(&mut bridge, &forget);
    let again = query(&mut bridge, &forget);
    assert!(again.to_string().contains("request/not-found"), "{again}");
    let empty = query(&mut bridge, "[(psi.memory/remember {:text \" \"})]");
    assert!(empty.to_string().contains("request/invalid-params"), "{empty}");
}

#[test]
fn every_setting_has_its_source_and_no_secret() {
    let setup =
        Setup::new().script(SCRIPT).arg("--mode").arg("read-only").env("EDN_BRIDGE_MODEL", "scripted");
    let file = setup.dir.path().join("user.edn");
    std::fs::write(
        &file,
        "{:mode :yolo :models [{:provider \"p\" :id \"m\" :api-key \"canary-7f3\"}] \
         :permissions {:rules [{:decision :deny :tool \"bash\"}]}}",
    )
    .unwrap();
    let setup = setup.arg("--config").arg(file.to_str().unwrap()).env("ANTHROPIC_API_KEY", "canary-7f4");
    let mut bridge = setup.ready();
    let found = result(
        &mut bridge,
        "[{:psi.config/settings [:psi.config/key :psi.config/value :psi.config/source]}]",
    );
    let text = found.to_string();
    let of = |key: &str, value: &str, source: &str| {
        format!("{{:psi.config/key :{key} :psi.config/value {value} :psi.config/source {source:?}}}")
    };
    for there in [
        of("mode", "\"read-only\"", "the option --mode"),
        of("model", "\"scripted\"", "the variable EDN_BRIDGE_MODEL"),
        of("provider", "\"scripted\"", "the option --script"),
        of("durability", "\"full\"", "default"),
        of("permissions", "{:rules [{:decision :deny :tool \"bash\"}]}", file.to_str().unwrap()),
    ] {
        assert!(text.contains(&there), "{there} is not in {text}");
    }
    assert!(text.contains(":api-key :hidden") && !text.contains("canary"), "{text}");
    let found = result(&mut bridge, "[{[:psi.config/key :mode] [:psi.config/value :psi.config/source]}]");
    assert!(found.to_string().contains("the option --mode"), "{found}");
    let found = result(
        &mut bridge,
        "[{[:psi.provider/name \"anthropic\"] [:psi.provider/api :psi.provider/base-url :psi.provider/key-from]}]",
    );
    assert_eq!(
        found.to_string(),
        "{[:psi.provider/name \"anthropic\"] {:psi.provider/api :anthropic \
         :psi.provider/base-url \"https://api.anthropic.com/\" :psi.provider/key-from \"ANTHROPIC_API_KEY\"}}"
    );
}

#[test]
fn every_attribute_of_the_spec_is_in_the_graph() {
    let spec = include_str!("../../spec/query.allium");
    let mut named = Vec::new();
    for word in spec.split('`').filter(|word| word.starts_with("psi.") && word.contains('/')) {
        named.push(word.to_owned());
    }
    let graph = edn_bridge::query::graph();
    let lacking: Vec<_> = named.iter().filter(|name| graph.attr(name).is_none()).collect();
    assert!(named.len() > 60 && lacking.is_empty(), "{lacking:?}");
}

#[test]
fn joins_idents_params_and_links_are_resolved() {
    let (_setup, mut bridge) = live();
    let found = result(&mut bridge, "[{:psi.agent-session/messages [:psi.message/role :psi.message/text]}]");
    assert_eq!(
        found.to_string(),
        "{:psi.agent-session/messages [{:psi.message/role \"user\" :psi.message/text \"hello\"} \
         {:psi.message/role \"assistant\" :psi.message/text \"Hello.\"}]}"
    );
    let found = result(&mut bridge, "[{(:psi.agent-session/messages {:limit 1}) [:psi.message/text]}]");
    assert_eq!(found.to_string(), "{:psi.agent-session/messages [{:psi.message/text \"Hello.\"}]}");
    let found = result(&mut bridge, "[{[:psi.op/name \"ping\"] [:psi.op/doc]}]");
    assert_eq!(found.to_string(), "{[:psi.op/name \"ping\"] {:psi.op/doc \"Answers at once.\"}}");
    let found = result(&mut bridge, "[{:psi.catalog/ops [:psi.op/name [:psi.agent-session/phase _]]}]");
    let first = &found.get("psi.catalog/ops").unwrap().as_slice().unwrap()[0];
    assert_eq!(first.to_string(), "{:psi.op/name \"handshake\" :psi.agent-session/phase :idle}");
    let found = result(
        &mut bridge,
        "[{:psi.agent-session/entries {:psi.message/id [:psi.message/role] :psi.entry/id [:psi.entry/type]}}]",
    );
    assert_eq!(
        found.to_string(),
        "{:psi.agent-session/entries [{:psi.message/role \"user\"} {:psi.entry/type :turn} \
         {:psi.message/role \"assistant\"} {:psi.entry/type :turn} {:psi.entry/type :name}]}"
    );
    // A message is found by its id, and its id on the message: a ring, which is not gone round.
    let found = result(
        &mut bridge,
        "[{:psi.agent-session/messages {:psi.message/stop-reason [:psi.message/text] :psi.message/id [:psi.message/role]}}]",
    );
    assert_eq!(
        found.to_string(),
        "{:psi.agent-session/messages [{:psi.message/role \"user\"} {:psi.message/text \"Hello.\"}]}"
    );
    let counts = result(&mut bridge, "[:psi.agent-session/message-counts]");
    assert_eq!(
        counts.to_string(),
        "{:psi.agent-session/message-counts {:user 1 :assistant 1 :tool 0 :system 0}}"
    );
    // A session of the list leads to the live one.
    let found =
        result(&mut bridge, "[{:psi.session/list [:psi.session-info/name :psi.agent-session/phase]}]");
    assert_eq!(
        found.to_string(),
        "{:psi.session/list [{:psi.session-info/name \"first\" :psi.agent-session/phase :idle}]}"
    );
    let found = query(&mut bridge, "[{[:psi.agent-session/session-id \"none\"] [:psi.agent-session/phase]}]");
    assert!(
        found
            .to_string()
            .contains(":missing [[[:psi.agent-session/session-id \"none\"] :psi.agent-session/phase]]"),
        "{found}"
    );
}

#[test]
fn mutations_make_the_checks_of_their_ops() {
    let (_setup, mut bridge) = live();
    let found = query(
        &mut bridge,
        "[{(psi.session/rename {:name \"second\"}) [:psi.agent-session/session-name]} :psi.agent-session/session-name]",
    );
    assert_eq!(
        found.to_string(),
        "{:result {psi.session/rename {:psi.agent-session/session-name \"second\"} :psi.agent-session/session-name \"second\"}}"
    );
    for (text, expected) in [
        (
            "[{(psi.session/set-model {:provider \"scripted\" :id \"scripted\"}) [:psi.agent-session/model-id]}]",
            "\"scripted\"}",
        ),
        ("[{(psi.session/set-mode {:mode \"read-only\"}) [:psi.agent-session/mode]}]", "\"read-only\"}"),
        (
            "[{(psi.session/set-thinking-level {:level :off}) [:psi.agent-session/thinking-level]}]",
            "\"off\"}",
        ),
        ("[{(psi.session/abort) [:psi.agent-session/phase]}]", ":idle}"),
    ] {
        let found = result(&mut bridge, text).to_string();
        assert!(found.contains(expected), "{text}: {found}");
    }
    for (text, code) in [
        ("[(psi.session/rename {:name \"\"})]", "request/invalid-params"),
        ("[(psi.session/rename {})]", "request/invalid-params"),
        ("[(psi.session/set-model {:provider \"none\" :id \"x\"})]", "request/unknown-model"),
        ("[(psi.job/cancel {:id \"none\"})]", "request/not-found"),
        ("[(psi.interaction/grant {:id \"none\"})]", "request/not-found"),
        ("[(psi.nothing/here {})]", "request/not-found"),
    ] {
        let found = query(&mut bridge, text);
        let errors = found.get("errors").unwrap_or_else(|| panic!("{text}: {found}"));
        assert!(errors.to_string().contains(&format!(":code {code:?}")), "{text}: {errors}");
    }
}

#[test]
fn wrong_query_error_has_place_or_missing_attributes() {
    let (_setup, mut bridge) = live();
    let answer = bridge.ask("q", "query_eql", "{:query \"[:a {:b}]\"}");
    assert_eq!(answer.get("error-code").and_then(Value::as_str), Some("request/invalid-query"));
    let answer = bridge.ask("q", "query_eql", "{:query \"[:a {:b 0}]\"}");
    assert_eq!(answer.get("data").unwrap().get("offset"), Some(&Value::int(8)));
    let answer =
        bridge.ask("q", "query_eql", "{:query \"[:psi.nothing/here :x]\" :entity \"{:x 1}\" :strict true}");
    assert_eq!(answer.get("error-code").and_then(Value::as_str), Some("runtime/query-failed"));
    assert_eq!(answer.get("data").unwrap().get("missing").unwrap().to_string(), "[:psi.nothing/here]");
    let answer = bridge.ask("q", "query_eql", "{:query \"[:x]\" :entity \"[]\"}");
    assert_eq!(answer.get("error-code").and_then(Value::as_str), Some("request/invalid-query"));
}

#[test]
fn plan_names_steps_and_query_shows_no_handles() {
    let (_setup, mut bridge) = live();
    let found = result(
        &mut bridge,
        "[(:psi.query/plan {:query \"[{:psi.session/list [:psi.agent-session/phase]} :psi.agent-session/phse]\"})]",
    );
    let plan = found.get("psi.query/plan").unwrap().to_string();
    assert!(
        plan.contains("[psi.session-info/session psi.agent-session/by-id psi.agent-session/facts]"),
        "{plan}"
    );
    assert!(plan.contains(":nearest [:psi.agent-session/phase"), "{plan}");
    let found = query(&mut bridge, "[:handle/session]");
    assert_eq!(found.to_string(), "{:result {} :missing [:handle/session]}");
}

#[test]
fn recorded_sessions_open_with_their_queue_and_runs() {
    let (setup, mut bridge) = live();
    let mut open = |name: &str, recorded: &str, query: &str| {
        let path = setup.dir.path().join(format!("{name}.edn"));
        let here = setup.project().to_string_lossy().into_owned();
        std::fs::write(&path, recorded.replace("/tmp/recorded/project", &here)).unwrap();
        let opened = bridge.ask("o", "switch_session", &format!("{{:session-path {path:?}}}"));
        assert_eq!(support::kind(&opened), "response", "{opened}");
        if name == "worked" {
            // The run that the process's end cut off is written down first.
            bridge.event("ui/notification");
        }
        result(&mut bridge, query).to_string()
    };
    assert_eq!(
        open(
            "waiting",
            include_str!("../recorded/waiting.edn"),
            "[{:psi.agent-session/queue [:psi.queue/until :psi.queue/text :psi.turn/id]}]"
        ),
        "{:psi.agent-session/queue [{:psi.queue/until :follow-up :psi.queue/text \"waits\" :psi.turn/id \"t-0063\"}]}"
    );
    let worked = open(
        "worked",
        include_str!("../recorded/worked.edn"),
        "[{:psi.agent-session/workflow-runs [:psi.workflow-run/id :psi.workflow-run/status \
           {:psi.workflow-run/steps [:psi.workflow-step/id :psi.workflow-step/status :psi.workflow-step/result]}]} \
          :psi.agent-session/queue]",
    );
    assert_eq!(
        worked,
        "{:psi.agent-session/workflow-runs [{:psi.workflow-run/id \"w-0034\" :psi.workflow-run/status \"done\" \
         :psi.workflow-run/steps [\
         {:psi.workflow-step/id \"a\" :psi.workflow-step/status \"done\" :psi.workflow-step/result {:answer \"yes\"}} \
         {:psi.workflow-step/id \"b\" :psi.workflow-step/status \"done\" :psi.workflow-step/result {}}]} \
         {:psi.workflow-run/id \"w-0054\" :psi.workflow-run/status \"interrupted\" :psi.workflow-run/steps [\
         {:psi.workflow-step/id \"a\" :psi.workflow-step/status nil :psi.workflow-step/result nil}]}] \
         :psi.agent-session/queue []}"
    );
}
