//! What is asked of a session on another host is done there: undo, jobs, outputs, commands, the queue, settings, queries,
//! control, and what takes long.

use edn_bridge::value::Value;

use super::{ask, end_of_turn, host, host_of, host_with, listed, question, shared, switch};
use crate::fixture::{Daemon, END, approve, session_of, signal, until};
use crate::server::{Engine as _, Server};
use crate::support::{Bridge, at, code, control, data, is_event, wait_until};

/// Two hosts, of which the first owns a shared session that the second one shows.
pub struct Two {
    pub a: Bridge,
    pub b: Bridge,
    pub alpha: Daemon,
    pub beta: Daemon,
    pub server: Server,
    pub session: String,
}

impl Two {
    pub fn with(script: &str, prepare: impl Fn(&Daemon)) -> Option<Self> {
        let server = Server::start()?;
        let (alpha, beta) = (host(&server, "alpha", ":all", script), host(&server, "beta", ":all", END));
        [&alpha, &beta].into_iter().for_each(prepare);
        let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
        // The owner has another session too, which is none of the other host's business.
        ask(&mut a, "new_session", "{}");
        let session = shared(&mut a);
        listed(&mut b, &session, |row| host_of(row) == "alpha");
        switch(&mut b, &session);
        ask(&mut b, "set_mode", "{:mode \"yolo\"}");
        Some(Self { server, alpha, beta, a, b, session })
    }

    pub fn start(script: &str) -> Option<Self> {
        Self::with(script, |_| {})
    }
}

fn calls(tool: &str, arguments: &str) -> String {
    format!(
        "{{:turns [{{:steps [{{:tool-call {{:name {tool:?} :arguments {arguments}}}}}]}}
                   {{:steps [{{:delta \"end\"}}]}}] :then :cycle}}"
    )
}

fn refusal(bridge: &mut Bridge, op: &str, params: &str) -> String {
    code(&bridge.ask("no", op, params)).to_owned()
}

#[test]
fn changes_of_files_are_undone_where_they_are() {
    let script = calls("write", "{:path \"made\" :content \"by the model\"}");
    let Some(mut two) = Two::start(&script) else { return };
    let Two { alpha, beta, a, b, .. } = &mut two;
    ask(b, "prompt", "{:message \"write\"}");
    end_of_turn(b);
    assert_eq!(std::fs::read_to_string(alpha.file("made")).unwrap(), "by the model");
    let undone = ask(b, "undo", "{}").to_string();
    assert!(undone.contains(":steps 1") && undone.contains(":action \"removed\""), "{undone}");
    assert!(!alpha.file("made").exists() && !beta.file("made").exists());
    ask(b, "redo", "{}");
    assert_eq!(std::fs::read_to_string(alpha.file("made")).unwrap(), "by the model");
    // What was undone at the owner itself, too.
    ask(a, "undo", "{}");
    let redone = ask(b, "redo", "{}").to_string();
    assert!(redone.contains(":steps 1") && redone.contains(":action \"created\""), "{redone}");
    assert_eq!(std::fs::read_to_string(alpha.file("made")).unwrap(), "by the model");
    // Its refusal crosses with its facts.
    std::fs::write(alpha.file("made"), "by a person").unwrap();
    let refused = b.ask("u", "undo", "{}");
    assert_eq!(code(&refused), "request/file-changed", "{refused}");
    let path = alpha.file("made").canonicalize().unwrap();
    assert!(refused.to_string().contains(&format!(":changed [{path:?}]")), "{refused}");
    assert_eq!(std::fs::read_to_string(alpha.file("made")).unwrap(), "by a person");
}

#[test]
fn jobs_of_another_host_are_seen_and_ended() {
    let script = calls("bash", "{:command \"echo begun; exec sleep 1000\" :background true}");
    let Some(mut two) = Two::start(&script) else { return };
    let Two { a, b, .. } = &mut two;
    ask(b, "prompt", "{:message \"begin\"}");
    end_of_turn(b);
    let job = |bridge: &mut Bridge| {
        let jobs = ask(bridge, "list_background_jobs", "{:statuses [\"running\"]}");
        let jobs = at(&jobs, &["data", "jobs"]).and_then(Value::as_slice).unwrap().to_vec();
        jobs.first().and_then(|job| job.get("id")).and_then(Value::as_str).map(str::to_owned)
    };
    let id = job(b).unwrap();
    let graph = "{:query \"[:psi.realm/host {:psi.agent-session/jobs [:psi.job/id :psi.job/status]}]\"}";
    let answer = ask(b, "query_eql", graph).to_string();
    for known in [":psi.realm/host \"beta\"", &format!(":psi.job/id {id:?}"), ":psi.job/status \"running\""] {
        assert!(answer.contains(known), "{known} is not in {answer}");
    }
    let cell = std::cell::RefCell::new(&mut *b);
    wait_until("its output is there", || {
        let shown = ask(&mut cell.borrow_mut(), "inspect_background_job", &format!("{{:job-id {id:?}}}"));
        shown.to_string().contains("begun")
    });
    assert_eq!(refusal(b, "inspect_background_job", "{:job-id \"j\"}"), "request/not-found");
    ask(b, "cancel_background_job", &format!("{{:job-id {id:?}}}"));
    for bridge in [a, b] {
        let cell = std::cell::RefCell::new(bridge);
        wait_until("it has ended", || job(&mut cell.borrow_mut()).is_none());
    }
}

#[test]
fn commands_and_tools_of_a_person_run_at_the_session() {
    let script = calls("bash", "{:command \"seq 1 20000\"}");
    let Some(mut two) = Two::start(&script) else { return };
    let Two { alpha, beta, b, .. } = &mut two;
    let ran = ask(b, "bash", "{:command \"echo ran > ran; seq 1 20000\"}");
    assert_eq!(at(&ran, &["data", "exit-code"]).and_then(Value::as_i64), Some(0), "{ran}");
    assert!(alpha.file("ran").exists() && !beta.file("ran").exists());
    // The output was kept there, and is asked of it.
    let output = data(&ran, "handle").to_owned();
    let part = ask(b, "read_output", &format!("{{:handle {output:?} :offset 0 :limit 4}}"));
    assert_eq!(data(&part, "text"), "1\n2\n");
    assert_eq!(refusal(b, "read_output", "{:handle \"o\"}"), "request/not-found");
    // That of a tool of a turn as well.
    ask(b, "prompt", "{:message \"count\"}");
    let end = b.until(|frame| is_event(frame, "tool/result"));
    let text = end.to_string();
    let handle = text.split(":handle \"").nth(1).and_then(|rest| rest.split('"').next());
    let handle = handle.unwrap_or_else(|| panic!("no handle in {text}")).to_owned();
    end_of_turn(b);
    let part = ask(b, "read_output", &format!("{{:handle {handle:?} :offset 4 :limit 4}}"));
    assert_eq!(data(&part, "text"), "3\n4\n");
}

/// The queued messages in a session, with their ids.
fn waiting(bridge: &mut Bridge) -> Vec<(String, String)> {
    let waiting = ask(bridge, "list_pending", "{}");
    let waiting = at(&waiting, &["data", "waiting"]).and_then(Value::as_slice).unwrap().to_vec();
    let text = |message: &Value<'_>, key| message.get(key).and_then(Value::as_str).unwrap().to_owned();
    waiting.iter().map(|message| (text(message, "entry-id"), text(message, "text"))).collect()
}

#[test]
fn waiting_message_is_edited_from_another_host() {
    let script = calls("bash", &format!("{{:command {:?}}}", until("go")));
    let Some(mut two) = Two::start(&script) else { return };
    let Two { alpha, a, b, .. } = &mut two;
    ask(b, "prompt", "{:message \"begin\"}");
    wait_until("the command runs", || alpha.file("began").exists());
    for message in ["first", "second"] {
        ask(b, "follow_up", &format!("{{:message {message:?}}}"));
    }
    let before = waiting(a);
    assert_eq!(before.len(), 2);
    let (first, second) = (&before[0].0, &before[1].0);
    ask(b, "edit_pending", &format!("{{:entry-id {first:?} :message \"other\"}}"));
    ask(b, "remove_pending", &format!("{{:entry-id {second:?}}}"));
    assert_eq!(waiting(a), [(first.clone(), "other".to_owned())]);
    assert_eq!(refusal(b, "edit_pending", "{:entry-id \"e\" :message \"x\"}"), "request/not-found");
    ask(b, "abort", "{}");
    assert_eq!(data(&end_of_turn(b), "outcome"), "aborted");
}

#[test]
fn queue_is_ordered_and_resumed_from_another_host() {
    let script = format!(
        "{{:turns [{{:steps [{{:tool-call {{:name \"bash\" :arguments {{:command {:?}}}}}}}]}}
                  {{:steps [{{:delta \"said\"}}]}} {{:steps [{{:delta \"said\"}}]}} {{:steps [{{:delta \"said\"}}]}}]}}",
        until("go")
    );
    let Some(mut two) = Two::start(&script) else { return };
    let Two { alpha, a, b, .. } = &mut two;
    ask(b, "prompt", "{:message \"begin\"}");
    wait_until("the command runs", || alpha.file("began").exists());
    for message in ["first", "second", "third"] {
        ask(b, "follow_up", &format!("{{:message {message:?}}}"));
    }
    let [first, second, third] = <[_; 3]>::try_from(waiting(a)).unwrap();
    ask(b, "move_pending", &format!("{{:entry-id {:?} :before {:?}}}", third.0, first.0));
    ask(b, "move_pending", &format!("{{:entry-id {:?}}}", first.0));
    assert_eq!(waiting(a), [third, second, first]);
    assert_eq!(refusal(b, "move_pending", "{:entry-id \"e\"}"), "request/not-found");
    ask(b, "abort", "{}");
    assert_eq!(data(&end_of_turn(b), "outcome"), "aborted");
    assert_eq!(waiting(a).len(), 3, "an abort holds them");
    let resumed = ask(b, "resume_queue", "{}");
    assert_eq!(at(&resumed, &["data", "resumed"]).and_then(Value::as_bool), Some(true), "{resumed}");
    for message in ["third", "second", "first"] {
        let said = b.event("user/message");
        assert!(said.to_string().contains(message), "{message} is not in {said}");
        assert_eq!(data(&end_of_turn(b), "outcome"), "completed");
    }
    assert!(waiting(a).is_empty());
}

#[test]
fn option_of_an_agent_is_chosen_where_the_agent_runs() {
    let program = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/agent.py");
    let agent = |host: &Daemon| {
        let env = format!("{{\"STARTED\" {:?} \"AGENT_LOG\" {:?}}}", host.file("started"), host.file("log"));
        configured(host, &format!(":agents {{\"a\" {{:command [\"python3\" {program:?}] :env {env}}}}}"));
    };
    let Some(mut two) = Two::with(END, agent) else { return };
    let Two { alpha, beta, a, b, .. } = &mut two;
    assert!(b.ask("o", "agent_options", "{}").to_string().contains("has no agent with options"));
    ask(a, "new_session", "{:agent \"a\"}");
    let session = shared(a);
    listed(b, &session, |row| host_of(row) == "alpha");
    switch(b, &session);
    let options = ask(b, "agent_options", "{}").to_string();
    assert!(options.contains(":id \"model\"") && options.contains("\"m-large\""), "{options}");
    let set = ask(b, "set_option", "{:option \"model\" :value \"m-large\"}").to_string();
    assert!(set.contains(":value \"m-large\""), "{set}");
    assert_eq!(refusal(b, "set_option", "{:option \"none\" :value \"x\"}"), "request/not-found");
    let given = std::fs::read_to_string(alpha.file("log")).unwrap();
    assert_eq!(given.matches("session/set_config_option").count(), 1, "{given}");
    assert!(!beta.file("started").exists(), "no agent of this host is started");
}

#[test]
fn settings_go_to_the_owner_and_usual_ones_stay() {
    let Some(mut two) = Two::start(END) else { return };
    let Two { alpha, beta, a, b, session, .. } = &mut two;
    let model = |bridge: &mut Bridge| {
        let state = ask(bridge, "get_state", "{}");
        let of = |key| at(&state, &["data", "state", key]).unwrap().to_string();
        (of("model-provider"), of("model-id"))
    };
    let (provider, id) = model(a);
    let set = |scope: &str| format!("{{:provider {provider} :model-id {id} :scope {scope:?}}}");
    let chosen =
        |host: &Daemon| std::fs::read_to_string(host.setup.state().join("chosen.edn")).unwrap_or_default();
    let before = chosen(alpha);
    let refused = b.ask("m", "set_model", &set("project"));
    assert_eq!(code(&refused), "request/invalid-params", "{refused}");
    assert!(refused.to_string().contains("another host"), "{refused}");
    ask(b, "set_model", &set("user"));
    assert!(chosen(beta).contains(&format!(":model {id}")), "{}", chosen(beta));
    ask(b, "set_thinking_level", "{:level \"high\" :scope \"user\"}");
    assert_eq!(chosen(alpha), before, "what is usual there stays");
    let unknown = b.ask("m", "set_model", "{:provider \"x\" :model-id \"y\" :scope \"user\"}");
    assert_eq!(code(&unknown), "request/unknown-model", "{unknown}");
    assert!(unknown.to_string().contains(":nearest"), "{unknown}");

    // What stays with a session's host is refused, and changes nothing here.
    for (op, params) in [
        ("trust_project", "{:trusted true}"),
        ("trust_preview", "{}"),
        ("list_rules", "{}"),
        ("list_mcp", "{}"),
        ("complete_mcp", "{:reference \"files:\"}"),
        ("list_audit", "{}"),
    ] {
        let refused = b.ask("s", op, params);
        assert_eq!(code(&refused), "realm/owned", "{op} {refused}");
    }
    ask(b, "command", "{:text \"/remember a note\"}");
    let told = b.event("command-result");
    assert!(data(&told, "type") == "error" && data(&told, "message").contains("alpha"), "{told}");
    // A session of this machine may.
    ask(b, "new_session", "{}");
    ask(b, "list_rules", "{}");
    switch(b, session);

    let names = |bridge: &mut Bridge| ask(bridge, "get_commands", "{}").to_string();
    assert!(names(b).contains(":name \"give\""));
    let mut alone = crate::support::Setup::new().ready();
    let listed = names(&mut alone);
    for name in ["share", "hosts", "take", "give"] {
        assert!(!listed.contains(&format!(":name {name:?}")), "{name} in {listed}");
    }
    assert!(listed.contains(":name \"mode\""), "{listed}");
    alone.ask("c", "command", "{:text \"/help\"}");
    let help = alone.event("command-result");
    assert!(!data(&help, "message").contains("/give") && data(&help, "message").contains("/mode"), "{help}");
}

#[test]
fn query_asks_the_host_what_it_alone_knows() {
    let Some(mut two) = Two::start(END) else { return };
    let Two { alpha, b, session, .. } = &mut two;
    std::fs::write(alpha.file("AGENTS.md"), "Be kind to alpha.").unwrap();
    ask(b, "prompt", "{:message \"read what is here\"}");
    end_of_turn(b);
    let query = "{:query \"[:psi.agent-session/session-id :psi.agent-session/system-prompt :psi.no/such {:psi.tool/list [:psi.tool/name]}]\"}";
    let answer = ask(b, "query_eql", query);
    let text = answer.to_string();
    for known in [
        &format!(":psi.agent-session/session-id {session:?}"),
        "Be kind to alpha.",
        ":psi.tool/name \"bash\"",
        ":psi.no/such",
    ] {
        assert!(text.contains(known), "{known} is not in {text}");
    }
    signal(alpha.pid(), "-KILL");
    listed(b, session, super::is_lost);
    let text = ask(b, "query_eql", query).to_string();
    assert!(text.contains(&format!(":psi.agent-session/session-id {session:?}")), "{text}");
    assert!(text.contains("realm/owner-lost") && !text.contains("Be kind"), "{text}");
    let strict = query.replace("}]\"}", "}]\" :strict true}").replace(":psi.no/such ", "");
    assert_eq!(refusal(b, "query_eql", &strict), "realm/owner-lost");
}

/// Adds to a host's configuration.
fn configured(host: &Daemon, more: &str) {
    let path = host.setup.dir.path().join("config/edn-bridge/config.edn");
    let realm = std::fs::read_to_string(&path).unwrap();
    std::fs::write(path, format!("{} {more}}}", realm.trim_end().strip_suffix('}').unwrap())).unwrap();
}

/// Gives a host a team for control.
pub fn team(host: &Daemon) {
    configured(host, ":control {:ack-timeout-ms 60000 :teams [{:name \"t\" :members [\"ann\"]}]}");
}

#[test]
fn control_requests_reach_a_session_of_another_host() {
    let script = calls("bash", &format!("{{:command {:?}}}", until("go")));
    let Some(mut two) = Two::with(&script, team) else { return };
    let Two { alpha, a, b, session, server, .. } = &mut two;
    let result = |bridge: &mut Bridge, params: &str| {
        let answer = ask(bridge, "control", params);
        let ack = at(&answer, &["data"]).unwrap().to_string();
        let word = |key: &str| ack.split(&format!(":{key} ")).nth(1).unwrap_or_default().to_owned();
        let first =
            |text: String| text.split([' ', '}']).next().unwrap_or_default().trim_matches('"').to_owned();
        (first(word("result")), first(word("duplicate")))
    };
    let done = |result: &str, duplicate: &str| (result.to_owned(), duplicate.to_owned());
    let text = control("r-1", session, Some("from a program"));
    assert_eq!(result(b, &text), done("ok", "false"));
    wait_until("the turn runs", || alpha.file("began").exists());
    assert_eq!(result(b, &text), done("ok", "true"));
    assert_eq!(result(a, &text), done("ok", "true"), "the key is the session's");
    assert_eq!(result(b, &control("r-1", session, Some("other"))).0, "rejected");
    let handled = b.until(|frame| is_event(frame, "control/handled"));
    assert_eq!(data(&handled, "request-id"), "r-1");
    // A sender whom this machine does not know asks nobody; one whom the owner does not know is refused there.
    assert_eq!(result(b, &text.replace("ann", "bob")).0, "rejected");
    assert_eq!(result(b, &control("r-2", session, None)), done("ok", "false"));
    std::fs::write(alpha.file("go"), "").unwrap();
    assert_eq!(data(&end_of_turn(b), "outcome"), "interrupted");
    let count = format!(
        "SELECT count(*) FROM edn_bridge.entry WHERE session = '{session}' AND line LIKE '%from a program%'"
    );
    assert_eq!(server.sql(&count), ["1"]);
    // From a host that has no copy of it.
    let gamma = host_with(server, "gamma", ":share :all :lease-ms 3000", END);
    team(&gamma);
    let mut c = gamma.setup.interactor();
    listed(&mut c, session, |_| true);
    assert_eq!(result(&mut c, &text), done("ok", "true"));
}

#[test]
fn long_call_is_answered_when_it_ends_and_made_once() {
    let Some(Two { server, alpha, beta: _beta, a, mut b, session: _ }) = Two::start(END) else { return };
    let command = "echo ran >> once; until [ -e go ]; do sleep 0.01; done";
    b.request("long", "bash", &format!("{{:command {command:?}}}"));
    wait_until("it runs", || alpha.file("once").exists());
    // It was answered when it began, so that no other process of that host begins it again.
    let begun = "SELECT count(*) FROM edn_bridge.request WHERE answer = ':begun'";
    assert_eq!(server.sql(begun), ["1"]);
    std::fs::write(alpha.file("go"), "").unwrap();
    assert_eq!(code(&b.answer("long")), "");

    std::fs::remove_file(alpha.file("go")).unwrap();
    b.request("cut", "bash", &format!("{{:command {command:?}}}"));
    let runs = || std::fs::read_to_string(alpha.file("once")).unwrap().lines().count();
    wait_until("it runs again", || runs() == 2);
    alpha.kill(a);
    let mut a = alpha.setup.interactor();
    let refused = b.answer("cut");
    assert_eq!(code(&refused), "realm/in-doubt", "{refused}");
    ask(&mut a, "list_sessions", "{:scope \"all\"}");
    assert_eq!(runs(), 2, "it is not begun again");
}

#[test]
fn compaction_may_take_longer_than_an_answer() {
    let script = r#"{:turns [{:steps [{:delta "one"}]} {:steps [{:delta "two"}]}
                             {:steps [{:sleep-ms 31000} {:delta "The summary."}]}]}"#;
    let Some(mut two) = Two::start(script) else { return };
    let Two { server, alpha, beta, b, session, .. } = &mut two;
    for message in ["first", "second"] {
        ask(b, "prompt", &format!("{{:message {message:?}}}"));
        end_of_turn(b);
    }
    // Of a client that leaves, nobody waits for the end.
    let mut left = beta.setup.interactor();
    switch(&mut left, session);
    left.request("left", "bash", "{:command \"touch once; until [ -e go ]; do sleep 0.01; done\"}");
    wait_until("it runs", || alpha.file("once").exists());
    drop(left);
    let compacted = ask(b, "compact", "{}");
    assert!(compacted.to_string().contains("The summary."), "{compacted}");
    let awaited = "SELECT count(*) FROM edn_bridge.request WHERE call LIKE '%:end%' AND answer IS NULL \
                   AND expires > clock_timestamp()";
    wait_until("nobody asks for what nobody waits for", || server.sql(awaited) == ["0"]);
    std::fs::write(alpha.file("go"), "").unwrap();
}

#[test]
fn question_that_its_own_host_ends_is_withdrawn_elsewhere() {
    let script = calls("bash", "{:command \"true\"}");
    let Some(mut two) = Two::start(&script) else { return };
    let Two { a, b, .. } = &mut two;
    ask(b, "set_mode", "{:mode \"ask\"}");
    ask(a, "prompt", "{:message \"begin\"}");
    let asked = question(b);
    let id = data(&asked, "interaction-id");
    assert_eq!(data(&question(a), "interaction-id"), id);
    ask(a, "abort", "{}");
    let over = b.event("interaction/answered");
    assert_eq!((data(&over, "interaction-id"), data(&over, "status")), (id, "cancelled"), "{over}");
    let late = format!(
        "{{:interaction-id {id:?} :status \"accepted\" :value {{:outcome \"approve\" :scope \"once\"}}}}"
    );
    assert_eq!(refusal(b, "interaction_respond", &late), "request/interaction-already-answered");
}

#[test]
fn approval_and_job_of_a_session_wait_for_either_host() {
    let script = calls("bash", "{:command \"sleep 1000\" :background true}");
    let Some(mut two) = Two::start(&script) else { return };
    let Two { a, b, .. } = &mut two;
    ask(b, "set_mode", "{:mode \"ask\"}");
    ask(b, "prompt", "{:message \"begin\"}");
    let asked = question(b);
    approve(b, &asked);
    end_of_turn(b);
    assert_eq!(session_of(a), session_of(b));
    ask(b, "command", "{:text \"/jobs\"}");
    let told = b.event("command-result");
    assert!(data(&told, "message").contains("sleep 1000"), "{told}");
}
