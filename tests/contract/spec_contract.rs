//! Compares the specs with the catalogue, and the obligations of the specs with the checks.
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use edn_bridge::catalogue::{
    COMMANDS, ERROR_CODES, FEATURES, OPS, PROTOCOL_VERSION_TEXT, SCOPE_KEYS, TOPICS,
};
use edn_bridge::delivery::Class;
use edn_bridge::hook;
use edn_bridge::limits;
use edn_bridge::message::StopReason;
use edn_bridge::value::Value;
use edn_bridge_contract::{self as contract, Suite, Wire};

use crate::open;
use crate::server;
use crate::spec;

use open::OPEN;
use spec::Keys;

fn keys(required: &[&str], optional: &[&str]) -> Keys {
    let required = required.iter().map(|key| ((*key).to_owned(), true));
    required.chain(optional.iter().map(|key| ((*key).to_owned(), false))).collect()
}

/// The keys of a row; one that ends in `?` is optional.
fn keys_of(row: &[&str]) -> Keys {
    let key = |key: &&str| match key.strip_suffix('?') {
        Some(key) => (key.to_owned(), false),
        None => ((*key).to_owned(), true),
    };
    row.iter().map(key).collect()
}

/// Fails with one line for each difference.
#[track_caller]
fn same<V: PartialEq + std::fmt::Debug>(what: &str, spec: &BTreeMap<String, V>, code: &BTreeMap<String, V>) {
    let mut differences = Vec::new();
    for (name, stated) in spec {
        match code.get(name) {
            None => differences.push(format!("{what} {name} is not in the code")),
            Some(coded) if coded != stated => {
                differences.push(format!("{what} {name}\n  spec {stated:?}\n  code {coded:?}"));
            }
            Some(_) => {}
        }
    }
    let unstated = code.keys().filter(|name| !spec.contains_key(*name));
    differences.extend(unstated.map(|name| format!("{what} {name} is not in the spec")));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[track_caller]
fn same_names<'a>(what: &str, spec: &[String], code: impl IntoIterator<Item = &'a str>) {
    let spec: BTreeSet<&str> = spec.iter().map(String::as_str).collect();
    assert_eq!(spec, code.into_iter().collect::<BTreeSet<_>>(), "{what}");
}

#[test]
fn ops_and_their_params() {
    let code = OPS
        .iter()
        .map(|op| {
            let mut keys: Keys =
                op.params.iter().map(|param| (param.key.to_owned(), param.required)).collect();
            if op.session {
                keys.insert("session-id".to_owned(), false);
            }
            (op.name.to_owned(), keys)
        })
        .collect();
    same("op", &spec::read().ops, &code);
}

#[test]
fn answers_of_ops() {
    let spec = spec::read();
    let data = OPS.iter().map(|op| (op.name.to_owned(), keys_of(op.data))).collect();
    same("answer of", &spec.answers, &data);
    let errors = |op: &edn_bridge::catalogue::OpSpec| -> BTreeSet<String> {
        op.errors.iter().map(|code| code.as_str().to_owned()).collect()
    };
    same("errors of", &spec.errors, &OPS.iter().map(|op| (op.name.to_owned(), errors(op))).collect());
}

#[test]
fn topics_and_their_payloads() {
    let spec = spec::read();
    let code: BTreeMap<String, Keys> =
        TOPICS.iter().map(|topic| (topic.name.to_owned(), keys(topic.required, topic.also))).collect();
    // What any payload may carry stands in a value of its own; where a topic names such a key as
    // optional again, that says nothing new.
    let spec_topics = spec
        .topics
        .iter()
        .map(|(topic, keys)| {
            let said =
                keys.iter().filter(|(key, required)| **required || !SCOPE_KEYS.contains(&key.as_str()));
            (topic.clone(), said.map(|(key, required)| (key.clone(), *required)).collect())
        })
        .collect();
    same("topic", &spec_topics, &code);
    same_names("topics", &spec.enums["Topic"], TOPICS.iter().map(|topic| topic.name));
    assert_eq!(spec.values["Attribution"], keys(&[], SCOPE_KEYS), "what any payload may carry");
}

#[test]
fn delivery_of_topics() {
    let sets = spec::read().topic_sets;
    let of = |fits: &dyn Fn(&edn_bridge::catalogue::TopicSpec) -> bool| -> BTreeSet<String> {
        TOPICS.iter().filter(|topic| fits(topic)).map(|topic| topic.name.to_owned()).collect()
    };
    assert_eq!(sets["coalescible"], of(&|topic| topic.class == Class::Coalescible));
    assert_eq!(sets["latest"], of(&|topic| topic.class == Class::Latest));
    assert_eq!(sets["any_session"], of(&|topic| topic.anywhere));
    assert_eq!(sets["told_once"], of(&|topic| !topic.topic.is_shown_anew()));
}

#[test]
fn error_codes_features_and_commands() {
    let spec = spec::read();
    same_names("error codes", &spec.enums["ErrorCode"], ERROR_CODES.iter().map(|error| error.name));
    let data: BTreeMap<String, Keys> = ERROR_CODES
        .iter()
        .filter(|error| !error.data.is_empty())
        .map(|error| (spec::plain(error.name), keys_of(error.data)))
        .collect();
    same(":data of", &spec.contracts["ErrorData"], &data);
    same_names("features", &spec.enums["Feature"], FEATURES.iter().map(|(name, _)| *name));
    same_names("commands", &spec.enums["SlashCommand"], COMMANDS.iter().map(|command| command.name));
    for code in spec.errors.values().flatten() {
        assert!(spec.enums["ErrorCode"].contains(code), "{code} is no error code of the spec");
    }
}

#[test]
fn envelopes() {
    let values = spec::read().values;
    assert_eq!(values["RequestEnvelope"], keys(&["id", "kind", "op"], &["params"]));
    assert_eq!(values["ResponseEnvelope"], keys(&["id", "kind", "op", "ok"], &["data"]));
    assert_eq!(
        values["ErrorEnvelope"],
        keys(&["kind", "error-code", "error-message"], &["id", "op", "retryable", "data"])
    );
    assert_eq!(values["EventEnvelope"], keys(&["kind", "event", "data"], &["id", "seq", "ts"]));
}

#[test]
fn config_values() {
    let config = spec::read().config;
    let code = [
        ("rpc-edn.max_line_bytes", limits::MAX_LINE_BYTES.to_string()),
        ("rpc-edn.max_depth", limits::MAX_DEPTH.to_string()),
        ("rpc-edn.max_frame_values", limits::MAX_FRAME_VALUES.to_string()),
        ("rpc-edn.max_pending_requests", limits::MAX_PENDING.to_string()),
        ("subscriptions.credit_window_events", limits::FLOW_WINDOW_EVENTS.to_string()),
        ("subscriptions.kept_behind", limits::OUTBOX_EVENTS.to_string()),
        ("subscriptions.slow_client_ms", limits::SLOW_CLIENT.as_millis().to_string()),
        ("rpc-edn.protocol_major", edn_bridge::catalogue::PROTOCOL_VERSION.0.to_string()),
        ("rpc-edn.protocol_version", PROTOCOL_VERSION_TEXT.to_owned()),
        ("turns.compaction_reserve", limits::COMPACT_RESERVE_TOKENS.to_string()),
        ("turns.compaction_keep", limits::COMPACT_KEEP_TOKENS.to_string()),
        ("client-tools.tools_of_client", limits::CLIENT_TOOLS.to_string()),
        ("client-tools.tools_of_session", limits::BROUGHT_TOOLS.to_string()),
        ("client-tools.answer_seconds", limits::CLIENT_TOOL_TIME.as_secs().to_string()),
        ("client-tools.longest_seconds", limits::CLIENT_TOOL_LONGEST.as_secs().to_string()),
        ("client-tools.files_of_client", limits::CLIENT_FILES.to_string()),
        ("client-tools.file_seconds", limits::CLIENT_FILE_TIME.as_secs().to_string()),
        ("client-tools.diagnostics_seconds", limits::DIAGNOSTICS_TIME.as_secs().to_string()),
        ("client-tools.diagnostics_shown", limits::DIAGNOSTICS.to_string()),
        ("agents.agents", limits::AGENTS.to_string()),
        ("agents.starts", limits::AGENT_STARTS.to_string()),
        ("agents.hello_seconds", limits::AGENT_HELLO_WAIT.as_secs().to_string()),
        ("agents.cancel_seconds", limits::AGENT_CANCEL_WAIT.as_secs().to_string()),
        ("agents.open_requests", limits::AGENT_OPEN_REQUESTS.to_string()),
        ("agents.terminals", limits::AGENT_TERMINALS.to_string()),
        ("mcp-sessions.offered_tools", limits::OFFERED_TOOLS.to_string()),
        ("mcp-sessions.servers", limits::MCP_SERVERS.to_string()),
        ("mcp-sessions.ready_seconds", limits::MCP_READY_WAIT.as_secs().to_string()),
        ("mcp-sessions.questions_of_call", limits::MCP_QUESTIONS.to_string()),
        ("mcp-sessions.instructions_bytes", limits::MCP_INSTRUCTIONS_BYTES.to_string()),
        ("tools-permissions.parallel_tool_calls", limits::PARALLEL_TOOLS.to_string()),
        ("hooks.timeout_ms", limits::HOOK_MS.to_string()),
        ("hooks.longest_timeout_ms", limits::HOOK_MAX_MS.to_string()),
        ("hooks.hooks_at_most", limits::HOOKS.to_string()),
        ("subagents.deepest", limits::SUBAGENT_DEPTH.to_string()),
        ("workflows.stages_at_most", limits::WORKFLOW_STAGES.to_string()),
        ("workflows.siblings_at_most", limits::WORKFLOW_SIBLINGS.to_string()),
        ("workflows.steps_at_most", limits::WORKFLOW_STEPS.to_string()),
        ("workflows.attempts_at_most", limits::STAGE_ATTEMPTS.to_string()),
        ("workflows.turns_at_most", limits::STAGE_TURNS.to_string()),
        ("acp.max_line_bytes", limits::ACP_LINE_BYTES.to_string()),
        ("acp.max_sessions", limits::ACP_SESSIONS.to_string()),
        ("acp.listed_sessions", limits::ACP_LISTED.to_string()),
        ("acp.prompt_parts", limits::ACP_PARTS.to_string()),
        ("acp.session_roots", limits::SESSION_ROOTS.to_string()),
        ("control.max_age_ms", limits::CONTROL_AGE_MS.to_string()),
        ("control.max_skew_ms", limits::CONTROL_SKEW_MS.to_string()),
        ("control.dedupe_window_ms", limits::IDEMPOTENCY_WINDOW_MS.to_string()),
        (
            "subscriptions.tool_updates_per_second",
            (1_000 / limits::TOOL_UPDATE_PAUSE.as_millis()).to_string(),
        ),
        ("subscriptions.tool_update_bytes", limits::TOOL_EXCERPT_BYTES.to_string()),
        ("ui-protocol.max_line_bytes", limits::UI_LINE_BYTES.to_string()),
        ("ui-protocol.history_runs", limits::UI_HISTORY_RUNS.to_string()),
        ("ui-protocol.history_events", limits::UI_HISTORY_EVENTS.to_string()),
        ("ui-protocol.sessions", limits::UI_SESSIONS.to_string()),
        // No limit sets this: it is the length of a text.
        ("turns.short_system_prompt_tokens", "350".to_owned()),
    ];
    let code: BTreeMap<String, String> =
        code.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    // The texts of choices and answers are compared with the runner's tables.
    let of_tables = ["frontend-action-rpc.", "prompt-slash-commands."];
    let stated = config.into_iter().filter(|(name, _)| !of_tables.iter().any(|file| name.starts_with(file)));
    same("parameter", &stated.collect(), &code);
}

/// What the runner carries in its own tables.
#[test]
fn tables_of_the_runner() {
    let spec = spec::read();
    let suite = Suite::built_in().unwrap();
    let table =
        |keys: &[&'static str]| suite.table(&keys.iter().map(|key| Value::keyword(*key)).collect::<Vec<_>>());
    for (name, list) in [
        ("SessionAttribute", "session"),
        ("TurnAttribute", "turn"),
        ("RootAttribute", "root"),
        ("SessionInfoAttribute", "session-info"),
        ("ToolSummaryAttribute", "tool-summary"),
        ("GraphAttribute", "graph"),
        ("MemoryAttribute", "memory"),
    ] {
        let table = table(&["attributes", list]);
        let names = table.as_slice().unwrap().iter().map(|name| name.as_keyword().unwrap());
        assert_eq!(spec.enums[name], names.collect::<Vec<_>>(), "{name}");
    }
    let stated = &spec.contracts["InteractionPayloads"];
    let catalogue = suite.catalogue();
    for (kind, keys) in &catalogue.kinds {
        let required: Vec<&str> = stated[&spec::plain(kind)]
            .iter()
            .filter(|(_, required)| **required)
            .map(|(key, _)| key.as_str())
            .collect();
        let mut keys = keys.clone();
        keys.sort_unstable();
        assert_eq!(required, keys, "{kind}");
    }
    same_names(
        "kinds",
        &spec.enums["InteractionKind"],
        catalogue.kinds.iter().map(|(kind, _)| kind.as_str()),
    );
    let reasons = ["end-turn", "tool-use", "max-tokens", "refusal", "aborted", "interrupted", "error"];
    assert_eq!(spec.enums["StopReason"], reasons);
    assert!(
        reasons
            .iter()
            .all(|reason| StopReason::parse(reason).is_some_and(|parsed| parsed.as_str() == *reason))
    );
    let stages: Vec<&str> = hook::Stage::ALL.iter().map(|stage| stage.as_str()).collect();
    assert_eq!(spec.enums["Stage"], stages);
    let mut rewritable: Vec<&str> = hook::Stage::ALL
        .iter()
        .flat_map(|stage| [hook::Point::Pre, hook::Point::Post].map(|point| stage.rewritable(point)))
        .flatten()
        .copied()
        .collect();
    rewritable.sort_unstable();
    rewritable.dedup();
    same_names("keys that a transform may change", &spec.enums["RewritableKey"], rewritable);
    let prompts = ["resume_prompt", "session_prompt", "model_prompt", "thinking_prompt"];
    for (name, choice) in prompts.iter().zip(table(&["choices"]).as_slice().unwrap()) {
        let [_, action, prompt] = choice.as_slice().unwrap() else { panic!("{choice}") };
        assert_eq!(spec.config[&format!("frontend-action-rpc.{name}")], prompt.as_str().unwrap());
        assert!(spec.enums["ActionName"].contains(&action.as_keyword().unwrap().to_owned()));
    }
    let texts = ["thinking_set_prefix", "model_usage", "history_heading"];
    for (name, direct) in texts.iter().zip(table(&["direct"]).as_slice().unwrap()) {
        let text = direct.as_slice().unwrap()[1].as_str().unwrap();
        let stated = &spec.config[&format!("prompt-slash-commands.{name}")];
        assert!(text.starts_with(stated.as_str()), "{name}: {stated:?} and {text:?}");
    }
}

/// Every obligation that the specs have, with its file: `file/id`.
fn obligations() -> BTreeSet<String> {
    let program = allium();
    let planned = |name: &String| -> Vec<String> {
        let file = spec::folder().join(format!("{name}.allium"));
        let output =
            std::process::Command::new(&program).arg("plan").arg(&file).output().unwrap_or_else(|error| {
                panic!("{}: {error}; `make test` installs it, or name it in ALLIUM", program.display())
            });
        assert!(output.status.success(), "allium plan {name}: {}", String::from_utf8_lossy(&output.stderr));
        let plan: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let ids = plan["obligations"].as_array().unwrap().iter();
        ids.map(|obligation| format!("{name}/{}", obligation["id"].as_str().unwrap())).collect()
    };
    spec::files().keys().flat_map(planned).collect()
}

/// The `allium` program: where the variable ALLIUM says, in the tools of the build folder, or on the path.
fn allium() -> PathBuf {
    if let Some(named) = std::env::var_os("ALLIUM") {
        return named.into();
    }
    let target = Path::new(env!("CARGO_BIN_EXE_edn-bridge")).ancestors().nth(2).unwrap();
    let built = target.join("tools/bin/allium");
    if built.exists() { built } else { "allium".into() }
}

#[test]
fn specs_are_without_findings() {
    let output = std::process::Command::new(allium()).arg("check").arg(spec::folder()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let found: Vec<serde_json::Value> = serde_json::Deserializer::from_str(&text)
        .into_iter::<serde_json::Value>()
        .flat_map(|report| report.unwrap()["diagnostics"].as_array().cloned().unwrap_or_default())
        .collect();
    assert!(found.is_empty(), "{found:#?}");
    assert!(output.status.success());
}

#[test]
fn every_obligation_is_bound_to_a_check_that_exists() {
    let obligations = obligations();
    let bindings = contract::bindings().unwrap();
    let mut bound = BTreeSet::new();
    for binding in &bindings {
        assert!(bound.insert(binding.obligation.clone()), "{} is bound twice", binding.obligation);
    }
    let unbound: Vec<_> = obligations.difference(&bound).collect();
    let stale: Vec<_> = bound.difference(&obligations).collect();
    assert!(unbound.is_empty() && stale.is_empty(), "unbound {unbound:#?}\nstale {stale:#?}");

    let checks: BTreeSet<String> = names_of_checks().into_iter().collect();
    let rules: BTreeSet<String> = rule_names().into_iter().collect();
    for binding in bindings.iter().filter(|binding| binding.waived.is_none()) {
        let exists = match binding.check.strip_prefix("test:") {
            Some(test) => is_test(test),
            None => checks.contains(&binding.check) || rules.contains(&binding.check),
        };
        assert!(exists, "{} is bound to {}, which does not exist", binding.obligation, binding.check);
    }
    let waived = bindings.iter().filter(|binding| binding.waived.is_some()).count();
    assert!(waived * 20 <= obligations.len(), "{waived} of {} are waived", obligations.len());
}

/// The last column of a table of docs/clauses.md names checks, rules and tests.
#[test]
fn every_clause_names_checks_that_exist() {
    let page = include_str!("../../docs/clauses.md");
    let known: BTreeSet<String> = names_of_checks().into_iter().chain(rule_names()).collect();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| # "));
    let mut named = 0;
    for row in rows {
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        for name in shown_by.split('`').skip(1).step_by(2) {
            assert!(known.contains(name) || is_test(name), "{name} does not exist: {row}");
            named += 1;
        }
    }
    assert!(named > 100, "{named} names were found");
}

/// Whether there is a test of that name: of this file, `FILE/NAME` of another below the folder of a test program, or
/// `src/…/NAME` of a module.
fn is_test(name: &str) -> bool {
    let (file, name) = name.rsplit_once('/').unwrap_or(("spec_contract", name));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.to_owned(), root.join("tests")];
    if !file.starts_with("src/") {
        folders.extend(std::fs::read_dir(root.join("tests")).unwrap().map(|entry| entry.unwrap().path()));
    }
    let paths = folders.iter().map(|folder| folder.join(file).with_extension("rs"));
    let source: String = paths.flat_map(std::fs::read_to_string).collect();
    let kinds = ["#[test]\nfn", "#[test]\n    fn", "#[tokio::test(start_paused = true)]\n    async fn"];
    let each = format!("fn {name}<E: Engine>() {{");
    let is_each = source.contains(&each) && source.contains(&format!("\n    {name}\n"));
    is_each || kinds.iter().any(|kind| source.contains(&format!("{kind} {name}() {{")))
}

#[test]
fn names_of_checks_are_unique() {
    let mut seen = BTreeSet::new();
    for name in names_of_checks().into_iter().chain(rule_names()) {
        assert!(seen.insert(name.clone()), "{name} is there twice");
    }
}

/// Runs a room of the contract against this server. Fails where a check or rule fails that is not
/// known to be open, and where an open one passes.
fn live(room: &str) {
    let wire = if room.starts_with("ui-") { Wire::Ui } else { Wire::Edn };
    let (suite, launch) = (Suite::of(wire).unwrap(), server::command_line(wire));
    let mut problems = Vec::new();
    for (open, patience) in [(false, 20), (true, 2)] {
        let is_open = |name: &str| OPEN.iter().any(|(known, _)| *known == name);
        let checks = names_of_checks().into_iter();
        let chosen: Vec<String> =
            checks.filter(|name| name.starts_with(room) && is_open(name) == open).collect();
        if chosen.is_empty() {
            continue;
        }
        let only = if open { chosen } else { chosen.into_iter().chain(rule_names()).collect() };
        let options = contract::Options { only, patience: Duration::from_secs(patience) };
        let report = contract::run(&suite, &launch, &options);
        for finding in &report.findings {
            match (&finding.status, open) {
                (contract::Status::Failed(why), false) => {
                    problems.push(format!("{}: {why}\n  {}", finding.name, finding.frames.join("\n  ")));
                }
                (contract::Status::NotApplicable(why), false) if !says_nothing(&finding.name) => {
                    problems.push(format!("{} says nothing about this server: {why}", finding.name));
                }
                (contract::Status::Passed, true) => {
                    problems.push(format!("{} passes: take it off tests/contract/open.rs", finding.name));
                }
                _ => {}
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Rules, which look at what a room's checks happen to make the server say; and two checks that depend on
/// which of two threads is first.
fn says_nothing(name: &str) -> bool {
    ["pending.capacity", "id.duplicate"].contains(&name) || rule_names().contains(&name.to_owned())
}

/// Every topic of the catalogue is emitted by something real, with its keys.
#[test]
fn every_topic_arrives() {
    let is_open = |name: &str| OPEN.iter().any(|(known, _)| *known == name);
    let rooms = [
        "events.nobody-waits",
        "workflow.progress",
        "sessions.",
        "prompt.",
        "retry.",
        "again.retry",
        "undo.turn",
        "compact.",
        "tool.",
        "client-tool.abort",
        "client-tool.file-edit",
        "interaction.",
        "dialog.",
        "action.",
        "control.stdin",
        "command.",
        "jobs.",
        "persistence.torn",
        "agent.",
        "mcp.",
        "replay.",
    ];
    let checks = names_of_checks().into_iter();
    let told = checks.filter(|name| rooms.iter().any(|room| name.starts_with(room)) && !is_open(name));
    let only = told.chain(["topic.".to_owned()]).collect();
    let options = contract::Options { only, patience: Duration::from_secs(20) };
    let report = contract::run(&Suite::built_in().unwrap(), &server::command_line(Wire::Edn), &options);
    let topics = report.findings.iter().filter(|finding| finding.name.starts_with("topic."));
    let wrong: Vec<String> = topics
        .filter(|finding| (finding.status == contract::Status::Passed) == is_open(&finding.name))
        .map(|finding| format!("{}: {:?}", finding.name, finding.status))
        .collect();
    assert!(wrong.is_empty(), "not as tests/contract/open.rs has it:\n{}", wrong.join("\n"));
}

fn suites() -> [Suite; 2] {
    [Wire::Edn, Wire::Ui].map(|wire| Suite::of(wire).unwrap())
}

/// Of all suites: reading these takes longer than most checks.
fn names_of_checks() -> Vec<String> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let names = |suite: &Suite| suite.checks().iter().map(|check| check.name.clone()).collect::<Vec<_>>();
        suites().iter().flat_map(names).collect()
    });
    NAMES.clone()
}

fn rule_names() -> Vec<String> {
    static NAMES: LazyLock<Vec<String>> = LazyLock::new(|| {
        let rules = |suite: &Suite| suite.wire().rules(&suite.catalogue());
        suites().iter().flat_map(rules).map(|(name, _)| name).collect()
    });
    NAMES.clone()
}

macro_rules! live {
    ($($test:ident $($room:literal)+;)*) => {
        $(#[test]
        fn $test() {
            for room in [$($room),+] {
                live(room);
            }
        })*

        /// No check is left out of the rooms above.
        #[test]
        fn every_contract_check_runs_against_this_server() {
            let rooms = [$($($room),+),*];
            for name in names_of_checks() {
                let run = rooms.iter().filter(|room| name.starts_with(**room)).count();
                assert_eq!(run, 1, "{name} is run {run} times");
            }
        }
    };
}

live! {
    live_framing "framing.";
    live_envelope "envelope." "id." "op." "params." "order." "gate.";
    live_handshake "handshake." "ping." "end.";
    live_pending "pending.";
    live_events "subscribe." "unsubscribe." "events." "ack.";
    live_replay "replay.";
    live_sessions "sessions.";
    live_query "query.";
    live_prompt "prompt." "abort.";
    live_queue "queue.";
    live_again "again.";
    live_undo "undo.";
    live_steering "steer." "follow-up." "interrupt." "retry." "compact.";
    live_models "models." "thinking." "login." "logout.";
    live_commands "command.";
    live_actions "action.";
    live_tools "tool.";
    live_client_tools "client-tool.";
    live_agents "agent.";
    live_mcp "mcp.";
    live_modes "mode." "trust." "runtime.";
    live_interactions "interaction.";
    live_dialogs "dialog.";
    live_grants "grant." "audit.";
    live_hooks "hook.";
    live_subagents "subagent.";
    live_workflows "workflow.";
    live_control "control.";
    live_guests "guest.";
    live_jobs "output." "jobs." "bash.";
    live_plists "plist.";
    live_persistence "persistence.";
    live_ui_lines "ui-lines.";
    live_ui_runs "ui-runs.";
    live_ui_questions "ui-questions.";
    live_ui_sessions "ui-sessions." "ui-models." "ui-kept.";
    live_ui_commands "ui-shell." "ui-task." "ui-tool." "ui-tools.";
}

/// Every frame of every transcript keeps the rules.
#[test]
fn transcripts_keep_the_rules() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut frames = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let mut ledger = contract::Ledger::default();
        let mut witness = contract::Witness::new(Suite::built_in().unwrap().catalogue());
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            // `>` before what the client sent, `<` before what came; other lines are for the reader.
            if let Some(sent) = line.strip_prefix("> ") {
                // A line that is refused for its op, or for the lack of one, is answered under its id too.
                let request = edn_bridge::edn::read_one(sent.as_bytes()).unwrap_or(Value::Nil);
                let text = |key| request.get(key).and_then(Value::as_str).unwrap_or_default();
                if !text("id").is_empty() {
                    witness.sends(text("id"), text("op"));
                }
            } else if let Some(came) = line.strip_prefix("< {").map(|_| &line[2..]) {
                // Frames that are lists by agreement are looked at by the checks of that feature.
                witness.receives(came.as_bytes(), &mut ledger);
                frames += 1;
            }
        }
        assert!(ledger.breaches.is_empty(), "{}: {:#?}", path.display(), ledger.breaches);
    }
    assert!(frames > 0, "no transcript has a frame");
}
