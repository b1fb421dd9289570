//! The context of a model over the real wire: instructions, skills, templates, attached files, the editor's
//! view, notes.

use crate::support;

use std::path::Path;

use edn_bridge::value::Owned;
use support::{Bridge, Setup, at, code, data, is_event, text};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}]}]}";

fn setup() -> Setup {
    Setup::new().script(ECHO)
}

fn put(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn idle(bridge: &mut Bridge) {
    bridge.until(|frame| is_event(frame, "session/updated") && data(frame, "phase") == "idle");
}

/// What the model was told last: it says it again.
fn say(bridge: &mut Bridge, message: &str) -> String {
    let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
    assert_eq!(support::kind(&answer), "response", "{answer}");
    let message = bridge.event("assistant/message");
    idle(bridge);
    data(&message, "text").to_owned()
}

fn command(bridge: &mut Bridge, text: &str) -> String {
    bridge.ask("c", "command", &format!("{{:text {text:?}}}"));
    data(&bridge.event("command-result"), "message").to_owned()
}

fn query(bridge: &mut Bridge, query: &str) -> Owned {
    let answer = bridge.ask("q", "query_eql", &format!("{{:query {query:?}}}"));
    at(&answer, &["data", "result"]).unwrap_or_else(|| panic!("{answer}")).clone()
}

/// Kind and text of each part of the system prompt.
fn parts(bridge: &mut Bridge) -> Vec<(String, String)> {
    let wanted = "[{:psi.agent-session/prompt-parts [:psi.prompt-part/kind :psi.prompt-part/text :psi.prompt-part/bytes]}]";
    let result = query(bridge, wanted);
    let parts = result.get("psi.agent-session/prompt-parts").unwrap().as_slice().unwrap();
    parts
        .iter()
        .map(|part| {
            let kind = part.get("psi.prompt-part/kind").unwrap().as_keyword().unwrap().to_owned();
            let text = part.get("psi.prompt-part/text").unwrap().as_str().unwrap().to_owned();
            let bytes = part.get("psi.prompt-part/bytes").unwrap().as_i64().unwrap();
            assert_eq!(usize::try_from(bytes).unwrap(), text.len());
            (kind, text)
        })
        .collect()
}

#[test]
fn the_system_prompt_is_made_of_parts_that_can_be_queried() {
    let setup = setup();
    let (project, user) = (setup.project(), setup.dir.path().join("config/edn-bridge"));
    put(&project, ".git/HEAD", "ref: refs/heads/trunk\n");
    put(&project, "AGENTS.md", "Use tabs.");
    put(&user, "AGENTS.md", "Be brief.");
    put(&user, "skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies up.\n---\nSteps.");
    let mut bridge = setup.ready();
    assert_eq!(command(&mut bridge, "/remember The tests need make."), "Remembered.");
    let parts = parts(&mut bridge);
    let kinds: Vec<&str> = parts.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["base", "tools", "instructions", "instructions", "skills", "memory"]);
    for (at, expected) in [
        (1, "Read before you change."),
        (2, "Be brief."),
        (3, "Use tabs."),
        (4, "- tidy: Tidies up. ("),
        (5, "need make."),
    ] {
        assert!(parts[at].1.contains(expected), "{:?}", parts[at]);
    }
    let whole = query(&mut bridge, "[:psi.agent-session/system-prompt]");
    let whole = whole.get("psi.agent-session/system-prompt").unwrap().as_str().unwrap().to_owned();
    let joined: Vec<&str> = parts.iter().map(|(_, text)| text.as_str()).collect();
    assert_eq!(whole, joined.join("\n\n"));
    // A turn sees the folder as it is when it begins.
    put(&project, "AGENTS.md", "Use blanks.");
    say(&mut bridge, "go");
    assert!(self::parts(&mut bridge)[3].1.contains("Use blanks."));
}

#[test]
fn notes_can_be_queried_and_searched() {
    let mut bridge = setup().ready();
    for note in ["Tests run with make", "make makes make", "unrelated"] {
        command(&mut bridge, &format!("/remember {note}"));
    }
    let texts = |value: &Owned| {
        let notes = value.as_slice().unwrap().iter();
        notes.map(|note| text(note, "text").to_owned()).collect::<Vec<_>>()
    };
    let result = query(
        &mut bridge,
        "[:psi.memory/status :psi.memory/entries (:psi.memory/search-results {:text \"make\"})]",
    );
    assert_eq!(result.get("psi.memory/status").unwrap().as_keyword(), Some("ready"));
    let entries = result.get("psi.memory/entries").unwrap();
    assert_eq!(texts(entries), ["unrelated", "make makes make", "Tests run with make"]);
    let found = texts(result.get("psi.memory/search-results").unwrap());
    assert_eq!(found, ["make makes make", "Tests run with make"]);
    let newest = entries.as_slice().unwrap()[0].clone();
    assert!(!text(&newest, "created-at").is_empty() && text(&newest, "session-id").starts_with("s-"));
    command(&mut bridge, &format!("/remember --forget {}", text(&newest, "id")));
    let result = query(&mut bridge, "[:psi.memory/entry-count]");
    assert_eq!(result.get("psi.memory/entry-count").unwrap().as_i64(), Some(2));
}

#[test]
fn templates_and_skills_are_listed_and_used_as_commands() {
    let setup = setup();
    let project = setup.project();
    put(
        &project,
        ".edn-bridge/prompts/fix.md",
        "---\ndescription: Fixes.\nargument-hint: what where\n---\nFix $1 in $2.",
    );
    put(&project, ".edn-bridge/prompts/help.md", "hidden");
    put(&project, ".agents/skills/tidy/SKILL.md", "---\ndescription: Tidies up.\n---\nSteps.");
    put(&project, ".agents/skills/broken/SKILL.md", "nothing");
    let mut bridge = setup.ready();
    let listed = bridge.ask("l", "get_commands", "{}");
    let listed = at(&listed, &["data", "commands"]).unwrap().as_slice().unwrap().to_vec();
    let sources = |name: &str| -> Vec<String> {
        listed
            .iter()
            .filter(|one| text(one, "name") == name)
            .map(|one| text(one, "source").to_owned())
            .collect()
    };
    assert_eq!((sources("fix"), sources("tidy")), (vec!["template".to_owned()], vec!["skill".to_owned()]));
    assert_eq!(sources("help"), ["built-in"]);
    assert_eq!(say(&mut bridge, "/fix it 'a b'"), "Fix it in a b.");
    let told = say(&mut bridge, "/tidy the rest");
    assert!(told.starts_with("Use the skill tidy;") && told.ends_with("Steps.\n\nthe rest"), "{told}");
    // In `command` alike.
    bridge.ask("c", "command", "{:text \"/fix a b\"}");
    assert_eq!(data(&bridge.event("assistant/message"), "text"), "Fix a in b.");
    idle(&mut bridge);
    let unknown = bridge.ask("u", "prompt", "{:message \"/fixx\"}");
    assert_eq!(code(&unknown), "request/unknown-command");
    let nearest = at(&unknown, &["data", "nearest"]).unwrap().as_slice().unwrap();
    assert!(nearest.iter().any(|name| name.as_str() == Some("fix")), "{unknown}");
    let prompts = command(&mut bridge, "/prompts");
    assert!(
        prompts.contains("/fix what where  Fixes.") && prompts.contains("hidden by the command"),
        "{prompts}"
    );
    let skills = command(&mut bridge, "/skills");
    assert!(skills.contains("tidy  Tidies up.") && skills.contains("no front matter"), "{skills}");
    let result = query(
        &mut bridge,
        "[{:psi.agent-session/skills [:psi.skill/name]} :psi.agent-session/prompt-templates :psi.agent-session/context-problems]",
    );
    let skills = result.get("psi.agent-session/skills").unwrap().as_slice().unwrap();
    assert_eq!(skills[0].get("psi.skill/name").unwrap().as_str(), Some("tidy"));
    assert_eq!(result.get("psi.agent-session/prompt-templates").unwrap().as_slice().unwrap().len(), 2);
    assert_eq!(result.get("psi.agent-session/context-problems").unwrap().as_slice().unwrap().len(), 1);
    std::fs::remove_dir_all(project.join(".edn-bridge")).unwrap();
    let read = command(&mut bridge, "/reload");
    assert!(read.contains("1 skills, 0 prompt templates"), "{read}");
    let tools = command(&mut bridge, "/tools");
    assert!(tools.contains("\nbash") && tools.contains("ask-user"), "{tools}");
}

#[test]
fn the_files_of_the_users_own_skills_are_read_without_asking() {
    let setup = Setup::new();
    let skill = setup.dir.path().join("config/edn-bridge/skills/tidy");
    put(&skill, "SKILL.md", "---\ndescription: Tidies up.\n---\nSteps.");
    put(&skill, "more/steps.md", "More.");
    let call =
        |path: &str| format!("{{:steps [{{:tool-call {{:name \"read\" :arguments {{:path {path:?}}}}}}}]}}");
    let inside = call(skill.join("more/steps.md").to_str().unwrap());
    let beside = call(skill.join("../other").to_str().unwrap());
    let setup = setup.script(&format!("{{:turns [{inside} {beside} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    let first = bridge.event("tool/result");
    assert!(data(&first, "result-text").contains("More."), "{first}");
    let second = bridge.event("tool/result");
    assert!(data(&second, "result-text").contains("permission-required"), "{second}");
}

#[test]
fn a_file_that_a_prompt_refers_to_is_shown_to_the_model() {
    let setup = setup();
    let project = setup.project();
    put(&project, "src/a.rs", "one\ntwo\n");
    put(setup.dir.path(), "secret", "key");
    let mut bridge = setup.ready();
    let told = say(&mut bridge, "Look at @src/a.rs:2, please.");
    assert_eq!(told, "<file path=\"src/a.rs:2\">\n     2\ttwo\n</file>\nLook at @src/a.rs:2, please.");
    // What the person wrote stays what it was, and what the model was shown stays known.
    put(&project, "src/a.rs", "changed");
    let messages = bridge.ask("m", "get_messages", "{}");
    let first = at(&messages, &["data", "messages"]).unwrap().as_slice().unwrap()[0].clone();
    let blocks = first.get("content").unwrap().as_slice().unwrap();
    assert_eq!(blocks.len(), 1);
    assert_eq!(text(&blocks[0], "text"), "Look at @src/a.rs:2, please.");
    let entries = query(&mut bridge, "[{:psi.agent-session/entries [*]}]");
    assert!(entries.to_string().contains("2\\ttwo"), "{entries}");
    // What cannot be attached is told to both.
    for (reference, why) in [("../secret", "outside the workspace"), ("src/none.rs", "no such file")] {
        bridge.ask("p", "prompt", &format!("{{:message \"See @{reference}\"}}"));
        let notice = bridge.event("ui/notification");
        assert_eq!(data(&notice, "level"), "warning");
        assert!(data(&notice, "message").contains(why), "{notice}");
        let message = bridge.event("assistant/message");
        assert!(data(&message, "text").contains("error=\""), "{message}");
        assert!(!data(&message, "text").contains("key"), "{message}");
        idle(&mut bridge);
    }
    assert_eq!(say(&mut bridge, "mail me@example.com, @alice"), "mail me@example.com, @alice");
}

#[test]
fn skill_that_a_message_names_is_given_to_the_model() {
    let setup = setup();
    put(&setup.project(), ".agents/skills/tidy/SKILL.md", "---\ndescription: Tidies up.\n---\nSteps.");
    let mut bridge = setup.ready();
    let told = say(&mut bridge, "Please $tidy this, for $HOME.");
    assert!(told.starts_with("Use the skill tidy;"), "{told}");
    assert!(told.ends_with("\n\nSteps.\nPlease $tidy this, for $HOME."), "{told}");
    // What the person wrote stays what it was.
    let messages = bridge.ask("m", "get_messages", "{}");
    let first = at(&messages, &["data", "messages"]).unwrap().as_slice().unwrap()[0].clone();
    let blocks = first.get("content").unwrap().as_slice().unwrap();
    assert_eq!(text(&blocks[0], "text"), "Please $tidy this, for $HOME.");
    assert_eq!(say(&mut bridge, "for $1 and $none"), "for $1 and $none");
}

#[test]
fn a_file_in_a_message_that_waited_is_shown_too() {
    let setup = Setup::new()
        .script(
            r#"{:turns [{:steps [{:tool-call {:name "bash" :arguments {:command "while [ ! -e go ]; do sleep 0.02; done"}}}]}
                 {:steps [{:echo :last-user}]} {:steps [{:echo :last-user}]}]}"#,
        )
        .arg("--yolo");
    put(&setup.project(), "a.txt", "alpha");
    let mut bridge = setup.ready();
    bridge.ask("p", "prompt", "{:message \"work\"}");
    bridge.event("tool/executing");
    bridge.ask("s", "steer", "{:message \"see @a.txt\"}");
    bridge.ask("f", "follow_up", "{:message \"and @a.txt\"}");
    put(&setup.project(), "go", "");
    for end in ["see @a.txt", "and @a.txt"] {
        let message = bridge
            .until(|frame| is_event(frame, "assistant/message") && data(frame, "stop-reason") != "tool-use");
        let told = data(&message, "text");
        assert!(told.contains("1\talpha\n") && told.ends_with(end), "{told}");
    }
}

#[test]
fn what_the_editor_shows_is_told_once_and_replaced() {
    let setup = setup();
    put(&setup.project(), "a.rs", "one\ntwo\nthree\n");
    let mut bridge = setup.ready();
    let range = ":range {:start {:line 1 :column 0} :end {:line 1 :column 3}}";
    let update = |bridge: &mut Bridge, params: &str| {
        let answer = bridge.ask("u", "context_update", params);
        assert_eq!(support::kind(&answer), "response", "{answer}");
    };
    let both = format!(
        "{{:active-file {{:path \"a.rs\" :language-id \"rust\"}} :selection {{:path \"a.rs\" {range} :selected-text \"two\"}}}}"
    );
    update(&mut bridge, &both);
    let shown = query(&mut bridge, "[:psi.agent-session/editor-context]");
    assert_eq!(
        at(&shown, &["psi.agent-session/editor-context", "selection", "selected-text"]).unwrap().as_str(),
        Some("two")
    );
    let told = say(&mut bridge, "what is this?");
    assert!(told.contains("shows a.rs (rust).") && told.contains("```\ntwo\n```"), "{told}");
    assert!(told.ends_with("</editor>\nwhat is this?"), "{told}");
    assert_eq!(say(&mut bridge, "again"), "again");
    // Only the range: the bridge reads the lines itself.
    update(&mut bridge, &format!("{{:selection {{:path \"a.rs\" {range}}}}}"));
    assert!(say(&mut bridge, "and this?").contains("2\ttwo"));
    update(&mut bridge, "{}");
    assert!(say(&mut bridge, "now?").contains("no file in particular"));
    assert_eq!(say(&mut bridge, "still?"), "still?");
    // Folders alone are kept; the model is told once that no file is shown.
    update(&mut bridge, "{:cwd \"/tmp\"}");
    let shown = query(&mut bridge, "[:psi.agent-session/editor-context]");
    assert_eq!(at(&shown, &["psi.agent-session/editor-context", "cwd"]).unwrap().as_str(), Some("/tmp"));
    assert_eq!(say(&mut bridge, "and now?"), "and now?");
    update(&mut bridge, &both);
    assert!(say(&mut bridge, "a file?").contains("shows a.rs"));
    update(&mut bridge, "{:cwd \"/tmp\"}");
    assert!(say(&mut bridge, "no file?").contains("no file in particular"));
    assert_eq!(say(&mut bridge, "still none?"), "still none?");
    for (params, key) in
        [("{:selection {:path \"a\"}}", ":selection"), ("{:active-file {:path 7}}", ":active-file")]
    {
        let wrong = bridge.ask("w", "context_update", params);
        assert_eq!(
            (code(&wrong), at(&wrong, &["data", "key"]).unwrap().as_str()),
            ("request/invalid-params", Some(key))
        );
    }
}

#[test]
fn a_fork_at_a_message_has_what_went_with_it() {
    let setup = setup();
    put(&setup.project(), "a.txt", "alpha");
    let mut bridge = setup.ready();
    say(&mut bridge, "see @a.txt");
    let messages = bridge.ask("m", "get_fork_messages", "{}");
    let entry = at(&messages, &["data", "messages"]).unwrap().as_slice().unwrap()[0].clone();
    bridge.ask("f", "fork", &format!("{{:entry-id {:?}}}", text(&entry, "id")));
    let entries = query(&mut bridge, "[{:psi.agent-session/entries [*]}]");
    assert!(entries.to_string().contains("alpha"), "{entries}");
}

#[test]
fn a_chosen_model_holds_as_far_as_it_reaches() {
    let setup = setup();
    let config = setup.dir.path().join("user.edn");
    let model = |id: &str| format!("{{:provider \"scripted\" :id {id:?} :context-window 1000}}");
    std::fs::write(&config, format!("{{:models [{} {}]}}", model("one"), model("two"))).unwrap();
    let setup = setup.arg("--config").arg(config.to_str().unwrap());
    let started = |bridge: &mut Bridge| {
        let answer = bridge.handshake();
        at(&answer, &["data", "server-info", "model-id"]).unwrap().as_str().unwrap().to_owned()
    };
    let now = |bridge: &mut Bridge| {
        let state = bridge.ask("g", "get_state", "{}");
        at(&state, &["data", "state", "model-id"]).unwrap().as_str().unwrap().to_owned()
    };
    let set = |scope: &str, id: &str| {
        let mut bridge = setup.serve();
        let before = started(&mut bridge);
        let params = format!("{{:provider :scripted :model-id {id:?} :scope {scope:?}}}");
        assert_eq!(support::kind(&bridge.ask("m", "set_model", &params)), "response");
        assert_eq!(now(&mut bridge), id);
        bridge.ask("n", "new_session", "{}");
        (before, now(&mut bridge))
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(set("session", "one"), pair("scripted", "scripted"));
    assert_eq!(set("user", "one"), pair("scripted", "one"));
    assert_eq!(set("project", "two"), pair("one", "two"));
    // What is chosen for the project comes before what is chosen for the user.
    assert_eq!(set("user", "one"), pair("two", "two"));
    assert_eq!(set("session", "two"), pair("two", "two"));
}

#[test]
fn files_of_a_strange_project_end_and_stall_nothing() {
    let setup = setup();
    let project = setup.project();
    let pipe = |path: &str| {
        std::fs::create_dir_all(project.join(path).parent().unwrap()).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(project.join(path)).status().unwrap().success());
    };
    let zero = |path: &str| {
        std::fs::create_dir_all(project.join(path).parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", project.join(path)).unwrap();
    };
    for path in [".edn-bridge/config.edn", ".git/HEAD", "AGENTS.md", ".edn-bridge/workflows/a.edn"] {
        pipe(path);
    }
    for path in
        ["CLAUDE.md", ".agents/skills/a/SKILL.md", ".claude/commands/b.md", ".edn-bridge/workflows/c.edn"]
    {
        zero(path);
    }
    let mut bridge = setup.ready();
    let told = say(&mut bridge, "look at @AGENTS.md and @.edn-bridge/config.edn");
    assert_eq!(told.matches("is no regular file").count(), 2, "{told}");
    bridge.ask("t", "trust_project", "{}");
    query(&mut bridge, "[:git.repo/branch :psi.agent-session/prompt-parts]");
    let (status, _, told) = bridge.finish();
    assert!(status.success() && told.contains("no regular file"), "{status} {told}");
    // Nor does one that is no configuration.
    for text in ["{:mode", "{:mode :wild}", "[]"] {
        std::fs::remove_file(project.join(".edn-bridge/config.edn")).unwrap();
        put(&project, ".edn-bridge/config.edn", text);
        let mut bridge = setup.ready();
        bridge.ask("alive", "ping", "{}");
        let (status, _, told) = bridge.finish();
        assert!(status.success() && told.contains("config.edn"), "{text}: {status} {told}");
    }
}

#[test]
fn many_references_hold_up_neither_the_message_nor_the_end() {
    let setup = setup();
    put(&setup.project(), "a", "text");
    put(&setup.project(), ".edn-bridge/prompts/many.md", &"@a$1 ".repeat(15));
    let mut bridge = setup.ready();
    // Quadratic, each of these takes minutes at least: the dots are many, since one step is fast.
    let dots = format!("@a{}", ".".repeat(7_000_000));
    for message in [dots, "@b ".repeat(1_000_000), "x@".repeat(1_000_000)] {
        let answer = bridge.ask("p", "prompt", &format!("{{:message {message:?}}}"));
        assert_eq!(support::kind(&answer), "response", "{}", code(&answer));
        bridge.ask("a", "abort", "{}");
        support::end_of_turn(&mut bridge);
        idle(&mut bridge);
    }
    let many = format!("/many {}", ".".repeat(60_000));
    bridge.ask("c", "command", &format!("{{:text {many:?}}}"));
    support::end_of_turn(&mut bridge);
    assert!(bridge.finish().0.success());
}
