//! Sessions with the real program: lists, searches, forks, ways to open them, figures, exports, notes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    dead_code,
    reason = "tests"
)]

use crate::store_support;
use crate::support;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use edn_bridge::export::{Format, Transcript, export};
use edn_bridge::message::{Block, Message, Role};
use edn_bridge::store::{Durability, Entry, EntryBody, Header, Journals as _, Parent, Store};
use edn_bridge::value::Owned;
use edn_bridge::visible;
use store_support::{Place, append, chain, entry, header};
use support::{Bridge, Setup, at, code, data, is_event, text};

const ECHO: &str = "{:turns [{:steps [{:echo :last-user}] :usage {:input 10 :output 5}}]}";

/// A prompt, to its end: the session is idle again.
fn turn(bridge: &mut Bridge, id: &str, message: &str) {
    bridge.ask(id, "prompt", &format!("{{:message {message:?}}}"));
    bridge.event("assistant/message");
    bridge.until(|frame| {
        is_event(frame, "session/updated")
            && at(frame, &["data", "phase"]).and_then(Owned::as_str) == Some("idle")
    });
}

fn strings(value: Option<&Owned>, key: &str) -> Vec<String> {
    let items = value.and_then(Owned::as_slice).unwrap_or_default();
    items.iter().map(|item| item.get(key).and_then(Owned::as_str).unwrap_or_default().to_owned()).collect()
}

/// The first list of sessions with this name. One of the time before may come after the answer to the change.
fn list_with_name(bridge: &mut Bridge, name: &str) -> Owned {
    bridge.until(|frame| {
        is_event(frame, "context/updated")
            && strings(at(frame, &["data", "sessions"]), "name").iter().any(|found| found == name)
    })
}

/// Runs a command of the program and returns its exit status, standard output and standard error.
fn run(setup: &Setup, arguments: &[&str]) -> (i32, String, String) {
    let output = setup.command().args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn session_list_shows_names_and_follows_appends() {
    let place = Place::new();
    let name = |id: &str, parent: &str, name: &str| {
        let body = EntryBody::Name(name.into());
        Arc::new(Entry { id: id.into(), parent: Some(parent.into()), ts: "t".into(), request: None, body })
    };
    place.session("s-1", 2);
    let long = place.store.create(Header { cwd: "/other".into(), ..header("s-2") });
    append(&long, &chain(None, 1)).unwrap();
    append(&long, &[name("n1", "e0", "in the middle")]).unwrap();
    append(&long, &chain(Some(0), 2_000)).unwrap();
    let names = |cwd: Option<&str>| -> Vec<(String, Option<String>)> {
        let mut list: Vec<_> = place
            .store
            .list(cwd.map(Path::new))
            .unwrap()
            .into_iter()
            .map(|info| (info.header.session.to_string(), info.name))
            .collect();
        list.sort();
        list
    };
    assert_eq!(names(Some("/p")), [("s-1".to_owned(), None)]);
    // Both ends of a long file are looked at; the middle is known once the index has read it.
    assert_eq!(names(None).len(), 2);
    place.store.index_all().unwrap();
    #[cfg(feature = "index")]
    assert_eq!(names(None)[1], ("s-2".to_owned(), Some("in the middle".to_owned())));
    append(&long, &[name("n2", "e0", "new name")]).unwrap();
    assert_eq!(names(None)[1], ("s-2".to_owned(), Some("new name".to_owned())));
    append(&long, &chain(Some(2_000), 1_000)).unwrap();
    #[cfg(feature = "index")]
    assert_eq!(names(None)[1], ("s-2".to_owned(), Some("new name".to_owned())));
    // What is only out of sight stays known.
    let path = store_support::path_of(&long);
    let (folder, aside) = (path.parent().unwrap(), place.folder.path().join("aside"));
    fs::rename(folder, &aside).unwrap();
    std::os::unix::fs::symlink(folder, folder).unwrap();
    assert_eq!(names(None), [("s-1".to_owned(), None)]);
    fs::remove_file(folder).unwrap();
    fs::rename(&aside, folder).unwrap();
    #[cfg(feature = "index")]
    assert_eq!(names(None)[1], ("s-2".to_owned(), Some("new name".to_owned())));
    drop(long);
    fs::remove_file(path).unwrap();
    assert_eq!(names(None), [("s-1".to_owned(), None)]);
}

#[test]
fn search_finds_messages_and_names_without_index_too() {
    let place = Place::new();
    for (id, text) in [("s-1", "The Über parser fails on émigré input"), ("s-2", "parsers \"and\" lexers")]
    {
        let journal = place.store.create(header(id));
        append(&journal, &[entry("e0", None, text)]).unwrap();
    }
    let found = |text: &str| -> Vec<String> {
        let mut ids: Vec<_> = place
            .store
            .search(None, text, true, 10)
            .unwrap()
            .iter()
            .map(|hit| hit.info.header.session.to_string())
            .collect();
        ids.sort();
        ids
    };
    let check = || {
        assert_eq!(found("parser"), ["s-1", "s-2"], "the last word is a beginning");
        assert_eq!(found("parser fails"), ["s-1"]);
        assert_eq!(found("FAILS über"), ["s-1"]);
        assert_eq!(found("lexers parsers"), ["s-2"]);
        assert_eq!(found("\"and"), ["s-2"]);
        for nothing in ["", "  ", "absent", "parser absent"] {
            assert_eq!(found(nothing), Vec::<String>::new(), "{nothing:?}");
        }
        // What would be syntax is text.
        for odd in ["* OR", "NEAR(", "a\" b", "-x", "body:"] {
            found(odd);
        }
    };
    check();
    let index = place.folder.path().join("sessions-index.db");
    for damage in [b"no database at all".to_vec(), Vec::new()] {
        if index.exists() {
            fs::write(&index, damage).unwrap();
        }
        let store = Store::new(place.folder.path(), Durability::Full).unwrap();
        assert_eq!(store.search(None, "lexers", true, 10).unwrap().len(), 1);
        assert_eq!(store.list(None).unwrap().len(), 2);
    }
    let _ = fs::remove_file(&index);
    let store = Store::new(place.folder.path(), Durability::Full).unwrap();
    let hits = store.search(None, "lexers", true, 10).unwrap();
    assert_eq!(hits[0].excerpt, "parsers \"and\" lexers");
    // What is appended is found without reading the rest again.
    let path = std::path::PathBuf::from(&*hits[0].info.location());
    let journal = store.open_file(&path).unwrap().journal;
    append(&journal, &[entry("e1", Some("e0"), "something newer")]).unwrap();
    assert_eq!(store.search(None, "newer", true, 10).unwrap().len(), 1);
    assert_eq!(store.search(None, "lexers", true, 10).unwrap().len(), 1);
}

#[test]
fn messages_to_fork_at_are_the_newest_that_fit_into_a_frame() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    let text = "x".repeat(edn_bridge::limits::MAX_PAGE_BYTES / 3);
    for n in 0..4 {
        turn(&mut bridge, &n.to_string(), &format!("{n}{text}"));
    }
    let answer = bridge.ask("f", "get_fork_messages", "{}");
    let messages = at(&answer, &["data", "messages"]).and_then(Owned::as_slice).unwrap();
    // The texts are longer than those that are told twice.
    let starts: Vec<bool> =
        messages.iter().zip(2..).map(|(it, n)| it.to_string().contains(&format!("\"{n}x"))).collect();
    assert_eq!(starts, [true, true]);
}

#[test]
fn fork_has_history_up_to_entry_and_names_parent() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    turn(&mut bridge, "1", "first");
    turn(&mut bridge, "2", "second");
    let answer = bridge.ask("3", "get_fork_messages", "{}");
    let points = strings(at(&answer, &["data", "messages"]), "id");
    assert_eq!(points.len(), 2);
    let source = at(&bridge.ask("4", "get_state", "{}"), &["data", "state", "session-id"]).cloned().unwrap();

    let answer = bridge.ask("5", "fork", &format!("{{:entry-id {:?}}}", points[1]));
    bridge.skip_to_now();
    let fork = at(&answer, &["data", "session-id"]).unwrap().as_str().unwrap().to_owned();
    let file = at(&answer, &["data", "session-file"]).unwrap().as_str().unwrap().to_owned();
    // Every way in tells the same, in this order, after the answer.
    for (topic, key) in [("session/resumed", "message-count"), ("session/rehydrated", "tool-order")] {
        let event = bridge.frame();
        assert!(is_event(&event, topic), "{event}");
        assert!(at(&event, &["data", key]).is_some());
        assert_eq!(at(&event, &["data", "session-id"]).unwrap().as_str(), Some(fork.as_str()));
    }
    let event = bridge.event("context/updated");
    let parents = strings(at(&event, &["data", "sessions"]), "parent-session-id");
    assert_eq!(parents, ["", source.as_str().unwrap()]);
    let answer = bridge.ask("6", "get_messages", "{}");
    assert_eq!(at(&answer, &["data", "messages"]).unwrap().as_slice().unwrap().len(), 3);
    let content = Store::new(&setup.state(), Durability::Full).unwrap().read_file(file.as_ref()).unwrap();
    let parent = content.header.parent.unwrap();
    assert_eq!(Some(parent.session.as_str()), source.as_str());
    assert_eq!(parent.entry.unwrap().as_str(), points[1]);
    assert!(parent.path.unwrap().ends_with(".edn"));

    assert_eq!(code(&bridge.ask("7", "fork", "{:entry-id \"e-none\"}")), "request/not-found");
    assert_eq!(code(&bridge.ask("8", "switch_session", "{:session-id \"s-none\"}")), "request/not-found");
    assert_eq!(
        code(&bridge.ask("9", "switch_session", "{:session-path \"/none.edn\"}")),
        "request/not-found"
    );
    assert_eq!(code(&bridge.ask("10", "switch_session", "{}")), "request/invalid-params");
    // A copy of what is open would make two files of one session.
    let copy = setup.dir.path().join("copy.edn");
    fs::copy(&file, &copy).unwrap();
    let refused = bridge.ask("11", "switch_session", &format!("{{:session-path {copy:?}}}"));
    assert!(text(&refused, "error-message").contains("is a copy of the session"), "{refused}");
    // By path, what is open is the same session.
    let answer = bridge.ask("12", "switch_session", &format!("{{:session-path {file:?}}}"));
    assert_eq!(at(&answer, &["data", "session-id"]).unwrap().as_str(), Some(fork.as_str()));
}

#[test]
fn session_reopens_by_id_and_path_with_name_and_repairs() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    turn(&mut bridge, "1", "hello");
    bridge.ask("2", "set_session_name", "{:name \"The name\"}");
    let state = bridge.ask("3", "get_state", "{}");
    let field = |key: &str| at(&state, &["data", "state", key]).unwrap().as_str().unwrap().to_owned();
    let (id, file) = (field("session-id"), field("session-file"));
    bridge.finish();
    assert!(!Path::new(&file).with_extension("edn.lock").exists(), "the lock is gone with its holder");

    for (n, target) in
        [format!("{{:session-id {id:?}}}"), format!("{{:session-path {file:?}}}")].iter().enumerate()
    {
        let mut torn = fs::OpenOptions::new().append(true).open(&file).unwrap();
        std::io::Write::write_all(&mut torn, b"{:id \"torn").unwrap();
        let mut bridge = setup.ready();
        bridge.ask("s", "switch_session", target);
        let repaired = bridge.event("diagnostic");
        assert_eq!(at(&repaired, &["data", "code"]).unwrap().as_str(), Some("session/repaired"), "{n}");
        assert!(at(&repaired, &["data", "message"]).unwrap().as_str().unwrap().contains("cut off"));
        let state = bridge.ask("st", "get_state", "{}");
        assert_eq!(at(&state, &["data", "state", "session-name"]).unwrap().as_str(), Some("The name"));
        let answer = bridge.ask("m", "get_messages", "{:limit 1}");
        assert_eq!(strings(at(&answer, &["data", "messages"]), "role"), ["assistant"]);
        assert_eq!(at(&answer, &["data", "more"]).unwrap().as_bool(), Some(true));
        // While it is open here, another process is told who has it.
        let mut other = setup.ready();
        let refused = other.ask("o", "switch_session", target);
        assert!(text(&refused, "error-message").contains(&format!("process {}", bridge.pid())), "{refused}");
    }
}

#[test]
fn resuming_long_session_sends_one_page() {
    let setup = Setup::new().script(ECHO);
    let store = Store::new(&setup.state(), Durability::Full).unwrap();
    let cwd = setup.project().canonicalize().unwrap().to_string_lossy().into();
    let header = Header { cwd, ..header("s-long") };
    let tool = |n: usize, parent: &str| {
        let parent: Option<edn_bridge::message::EntryId> = Some(parent.into());
        let mut message = Message::new(
            format!("t{n}").as_str().into(),
            Role::Tool,
            vec![Block::Text("x".repeat(100_000).into())],
            "2026-01-01T00:00:01.000Z".into(),
        );
        message.parent_id.clone_from(&parent);
        message.tool_call_id = Some(format!("call-{n}").into());
        message.tool_name = Some("bash".into());
        message.is_error = Some(n == 0);
        let body = EntryBody::Message(Arc::new(message));
        Arc::new(Entry {
            id: format!("t{n}").as_str().into(),
            parent,
            ts: "2026-01-01T00:00:01.000Z".into(),
            request: None,
            body,
        })
    };
    let mut entries = chain(None, 3_000);
    entries
        .extend((0..20).map(|n| tool(n, &if n == 0 { "e2999".to_owned() } else { format!("t{}", n - 1) })));
    drop(store.create_with(header, &mut entries.into_iter()).unwrap());
    drop(store);

    let mut bridge = setup.ready();
    bridge.ask("1", "switch_session", "{:session-id \"s-long\"}");
    let event = bridge.event("session/rehydrated");
    let messages = at(&event, &["data", "messages"]).unwrap().as_slice().unwrap();
    // A megabyte of messages: ten outputs of a hundred thousand bytes.
    assert_eq!(messages.len(), 10);
    assert_eq!(at(&event, &["data", "more"]).unwrap().as_bool(), Some(true));
    assert_eq!(at(&event, &["data", "tool-order"]).unwrap().as_slice().unwrap().len(), 10);
    let call = at(&event, &["data", "tool-calls"]).unwrap().as_map().unwrap();
    let call = call.get(&Owned::from("call-19".to_owned())).unwrap();
    assert_eq!(text(call, "tool-name"), "bash");
    // Page by page to the first message, each once.
    let mut before = text(&messages[0], "id").to_owned();
    let mut seen = messages.len();
    for page in 0..100 {
        let params = format!("{{:before {before:?} :limit 700}}");
        let answer = bridge.ask(&format!("p{page}"), "get_messages", &params);
        let messages = at(&answer, &["data", "messages"]).unwrap().as_slice().unwrap();
        seen += messages.len();
        if at(&answer, &["data", "more"]).unwrap().as_bool() == Some(false) {
            break;
        }
        before = text(&messages[0], "id").to_owned();
    }
    assert_eq!(seen, 3_020);
    assert_eq!(code(&bridge.ask("x", "get_messages", "{:before \"none\"}")), "request/not-found");

    let stats = bridge.ask("st", "get_session_stats", "{}");
    let stat = |path: &[&str]| {
        let path: Vec<&str> = ["data", "stats"].into_iter().chain(path.iter().copied()).collect();
        at(&stats, &path).and_then(Owned::as_i64)
    };
    assert_eq!(stat(&["messages", "user"]), Some(3_000));
    assert_eq!(stat(&["messages", "tool"]), Some(20));
    assert_eq!(stat(&["entry-count"]), Some(3_020));
    assert_eq!(stat(&["duration-ms"]), Some(1_000));
    let errors = at(&stats, &["data", "stats", "tool-errors"]).unwrap().as_map().unwrap();
    assert_eq!(errors.get(&Owned::from("bash".to_owned())).unwrap().as_i64(), Some(1));
    let path = setup.state();
    let file = Store::new(&path, Durability::Full).unwrap().look_up(&"s-long".into()).unwrap().unwrap();
    assert_eq!(stat(&["bytes"]), Some(i64::try_from(fs::metadata(file).unwrap().len()).unwrap()));
}

#[test]
fn exported_page_runs_nothing_of_transcript() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    bridge.ask("n", "set_session_name", "{:name \"</title><script>alert(1)</script>\"}");
    turn(
        &mut bridge,
        "1",
        "<img src=x onerror=alert(2)> [a](javascript:alert(3)) [b](https://x.example/\"onclick=\") \
         ![p](https://t.example/p.png)\n\n<script>alert(4)</script>\n\n```html\n</code></pre><script>5</script>\n```\n\n\
         ```rust\nlet x = \"<i>\"; // <b>\n```\n",
    );
    let answer = bridge.ask("2", "export_html", "{}");
    let path = at(&answer, &["data", "path"]).unwrap().as_str().unwrap().to_owned();
    assert!(path.starts_with(setup.project().canonicalize().unwrap().to_str().unwrap()), "{path}");
    let page = fs::read_to_string(&path).unwrap();
    let mode =
        || std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o7777;
    assert_eq!(mode(), 0o600);
    for never in
        ["<script", "<img", "onerror=alert(2)>", "href=\"javascript", "\"onclick", "src=\"http", "<b>", "<i>"]
    {
        assert!(!page.contains(never), "{never} in\n{page}");
    }
    for there in [
        "default-src 'none'",
        "&lt;script&gt;alert(4)&lt;/script&gt;",
        "<span class=\"k\">let</span>",
        "<span class=\"c\">// &lt;b&gt;</span>",
        "href=\"https://x.example/",
        "10 tokens in, 5 out",
    ] {
        assert!(page.contains(there), "{there} not in\n{page}");
    }
    // An earlier page is replaced, another file is not.
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(support::kind(&bridge.ask("3", "export_html", &format!("{{:path {path:?}}}"))), "response");
    assert_eq!(mode(), 0o600);
    std::os::unix::fs::symlink(&path, setup.project().join("link.html")).unwrap();
    assert_eq!(code(&bridge.ask("6", "export_html", "{:path \"link.html\"}")), "runtime/failed");
    let mine = setup.project().join("mine.html");
    fs::write(&mine, "<p>mine</p>").unwrap();
    let refused = bridge.ask("4", "export_html", "{:path \"mine.html\"}");
    assert_eq!(code(&refused), "runtime/failed");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "<p>mine</p>");
    assert_eq!(code(&bridge.ask("5", "export_html", "{:path \"no/such/folder.html\"}")), "runtime/failed");
}

/// Every text of a transcript, whoever wrote it, is text in the page: there are the page's own tags, with its
/// own attributes, and links that open a page.
#[test]
fn exported_fields_stay_in_their_elements() {
    const EVIL: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>&lt;--><svg onload=x>";
    let prose = format!(
        "{EVIL}\n\n# {EVIL}\n\n- {EVIL}\n\n| {EVIL} |\n|---|\n| {EVIL} |\n\n[x](javascript:alert(1)) \
         [y](<data:text/html,{EVIL}>) [z](JaVaScRiPt:x) [w](https://a.example/?{EVIL}) <javascript:x> <b onclick=x>\n\n\
         ```{EVIL}\n{EVIL}\n```\n\n`{EVIL}` $${EVIL}$$ ![{EVIL}](https://b.example/{EVIL})"
    );
    let evil = || EVIL.into();
    let arguments = Owned::map([
        (Owned::keyword("path"), Owned::from(EVIL)),
        (Owned::from(EVIL), Owned::from(format!("{EVIL}\n"))),
    ]);
    let content = vec![
        Block::Text(prose.as_str().into()),
        Block::thinking(prose.as_str()),
        Block::ToolCall { id: evil(), name: evil(), arguments: arguments.into() },
        Block::Image { mime_type: evil(), data: "aaaa".into() },
        Block::Image { mime_type: "image/png".into(), data: evil() },
        Block::Image { mime_type: "image/svg+xml".into(), data: "aaaa".into() },
    ];
    let message = |role| {
        let mut message = Message::new(EVIL.into(), role, content.clone(), evil());
        message.error_message = Some(evil());
        message.tool_name = Some(evil());
        message.tool_call_id = Some(evil());
        Arc::new(message)
    };
    let transcript = Transcript {
        session: EVIL.into(),
        title: EVIL.to_owned(),
        created_at: evil(),
        cwd: evil(),
        messages: [Role::User, Role::Assistant, Role::Tool, Role::System].map(message).to_vec(),
        interrupted: Vec::new(),
    };
    let page = export(&transcript, Format::Html);
    let (_, body) = page.split_once("</style>").unwrap();
    let mut tags = 0;
    for (at, _) in body.match_indices('<') {
        let tag = &body[at + 1..at + body[at..].find('>').unwrap()];
        let (name, rest) = tag.split_once(' ').unwrap_or((tag, ""));
        let known = "head body h1 h2 h3 h4 p code main article header a time div pre span details summary table \
                     tr th td ul li br em strong blockquote hr html";
        assert!(known.split(' ').any(|known| known == name.trim_start_matches('/')), "<{tag}>");
        // Between quotes there is text; outside of them, names of attributes.
        for (place, part) in rest.split('"').enumerate() {
            let fine = match (place % 2, part.trim()) {
                (0, "" | "open" | "class=" | "id=" | "href=" | "rel=") => true,
                (0, _) => false,
                _ => !part.contains(['<', '>', '\'']) && !part.to_lowercase().starts_with("javascript"),
            };
            assert!(fine, "{part:?} in <{tag}>");
        }
        tags += 1;
    }
    assert!(tags > 200 && body.contains("https://a.example/?"), "{tags}");
}

/// Hidden characters are marked codes in a page and codes in Markdown, in each text of a transcript; EDN is data.
#[test]
fn exports_show_hidden_characters_as_codes() {
    const EVIL: &str = "a\u{1b}[2Jb\u{9b}c\u{8}d\u{202e}e\u{2066}f\u{200b}g\u{e000}";
    let prose = format!(
        "{EVIL}\n\n# {EVIL}\n\n`{EVIL}`\n\n```rust\n\"{EVIL}\" // {EVIL}\n```\n\n```diff\n+{EVIL}\n```\n"
    );
    let evil = || EVIL.into();
    let arguments =
        Owned::map([(Owned::keyword("command"), Owned::from(EVIL)), (Owned::from(EVIL), Owned::from(1))]);
    let content = vec![
        Block::Text(prose.as_str().into()),
        Block::thinking(EVIL),
        Block::ToolCall { id: evil(), name: evil(), arguments: arguments.into() },
        Block::Image { mime_type: evil(), data: "aaaa".into() },
    ];
    let message = |role| {
        let mut message = Message::new("m".into(), role, content.clone(), "now".into());
        message.error_message = Some(evil());
        message.tool_name = Some(evil());
        Arc::new(message)
    };
    let transcript = Transcript {
        session: "s".into(),
        title: EVIL.to_owned(),
        created_at: "now".into(),
        cwd: evil(),
        messages: [Role::User, Role::Assistant, Role::Tool].map(message).to_vec(),
        interrupted: Vec::new(),
    };
    for format in [Format::Html, Format::Markdown] {
        let text = export(&transcript, format);
        let left: String =
            text.chars().filter(|c| *c != '\n' && visible::hidden(&c.to_string()).next().is_some()).collect();
        assert_eq!(left, "", "{format:?}: {text}");
        assert!(!text.contains('\u{fffd}') && text.matches("u{202E}").count() >= 20, "{format:?}: {text}");
    }
    let page = export(&transcript, Format::Html);
    assert!(page.contains("d<span class=\"x\">\\u{202E}</span>e"), "{page}");
    assert!(page.contains("<title>a\\u{1B}[2Jb"), "a title has no elements: {page}");
    assert!(export(&transcript, Format::Edn).contains('\u{202e}'));
}

#[test]
fn session_name_with_hidden_characters_is_refused() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    for name in ["a\u{1b}[2Jb", "a\\nb", "a\\tb", "\u{202e}a", "a\u{200b}", "\u{9b}m", "\u{e000}"] {
        let answer = bridge.ask("n", "set_session_name", &format!("{{:name \"{name}\"}}"));
        assert_eq!(code(&answer), "request/invalid-params", "{name:?}");
    }
    let answer = bridge.ask("n", "set_session_name", "{:name \"⚠\u{fe0f} a λ name\u{a0}!\"}");
    assert_eq!(data(&answer, "session-name"), "⚠\u{fe0f} a λ name\u{a0}!");
}

#[test]
fn sessions_command_lists_shows_exports_and_verifies() {
    let setup = Setup::new().script(ECHO);
    let (status, out, _) = run(&setup, &["sessions"]);
    assert_eq!((status, out.as_str()), (0, ""), "nothing there is no error");
    let mut bridge = setup.ready();
    turn(&mut bridge, "1", "needle in a haystack");
    bridge.ask("2", "set_session_name", "{:name \"Named\"}");
    let state = bridge.ask("3", "get_state", "{}");
    let id = at(&state, &["data", "state", "session-id"]).unwrap().as_str().unwrap().to_owned();
    let file = at(&state, &["data", "state", "session-file"]).unwrap().as_str().unwrap().to_owned();
    // All of it works while the session is open.
    let (_, out, _) = run(&setup, &["sessions", "list"]);
    assert!(out.contains(&id) && out.contains("Named") && out.contains("  2  "), "{out}");
    let (_, out, _) = run(&setup, &["sessions", "list", "--all", "haystack"]);
    assert!(out.contains("needle in a haystack"), "{out}");
    for session in [&id, &file, &id[..id.len() - 2].to_owned()] {
        let (status, out, _) = run(&setup, &["sessions", "show", session]);
        assert!(status == 0 && out.starts_with("# Named\n") && out.contains("## Assistant"), "{out}");
    }
    let (_, out, _) = run(&setup, &["sessions", "export", &id, "--format", "edn"]);
    let map = edn_bridge::edn::read_one(out.as_bytes()).unwrap().into_owned();
    assert_eq!(strings(map.get("messages"), "role"), ["user", "assistant"]);
    let page = setup.dir.path().join("page.html");
    let (status, _, _) = run(&setup, &["sessions", "export", &id, "-o", page.to_str().unwrap()]);
    assert!(status == 0 && fs::read_to_string(&page).unwrap().starts_with("<!doctype html>"));
    let (status, _, told) = run(&setup, &["sessions", "show", "s-none"]);
    assert!(status == 1 && told.contains("There is no session"), "{told}");

    let (status, out, _) = run(&setup, &["sessions", "verify"]);
    assert_eq!((status, out.as_str()), (0, "1 files: 1 whole, 0 with faults, 0 left as they are.\n"));
    let mut torn = fs::OpenOptions::new().append(true).open(&file).unwrap();
    std::io::Write::write_all(&mut torn, b"garbage\n").unwrap();
    let (status, out, _) = run(&setup, &["sessions", "verify"]);
    assert!(status == 1 && out.contains("is not an entry"), "{out}");
    let (status, out, _) = run(&setup, &["sessions", "verify", "--repair"]);
    assert!(status == 1 && out.contains(&format!("process {}", bridge.pid())), "{out}");
    bridge.finish();
    let (status, out, _) = run(&setup, &["sessions", "verify", "--repair"]);
    assert!(status == 0 && out.contains("before-repair"), "{out}");
    assert_eq!(run(&setup, &["sessions", "verify"]).0, 0);
}

#[test]
fn notes_are_kept_per_project_prompted_and_removed() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    let mut say = |id: &str, line: &str| {
        bridge.request(id, "command", &format!("{{:text {line:?}}}"));
        let event = bridge.event("command-result");
        at(&event, &["data", "message"]).unwrap().as_str().unwrap().to_owned()
    };
    assert!(say("1", "/remember").starts_with("Nothing is remembered"));
    assert_eq!(say("2", "/remember run make check first"), "Remembered.");
    let list = say("3", "/remember");
    let id = list.split_whitespace().find(|word| word.starts_with("m-")).unwrap().to_owned();
    assert!(list.ends_with("run make check first"), "{list}");
    assert_eq!(say("4", &format!("/remember --forget {id}")), "Forgotten.");
    assert!(say("5", &format!("/remember --forget {id}")).starts_with("There is no note"));
    assert!(say("6", "/remember").starts_with("Nothing is remembered"));
}

/// The names and excerpts of the sessions that are listed, and whether one of them is the active one.
fn listed(bridge: &mut Bridge, id: &str, params: &str) -> (Vec<String>, Vec<String>, bool) {
    let answer = bridge.ask(id, "list_sessions", params);
    let slots = at(&answer, &["data", "sessions"]).unwrap();
    let active = |slot: &Owned| at(slot, &["is-active"]).and_then(Owned::as_bool) == Some(true);
    let any = slots.as_slice().unwrap().iter().any(active);
    (strings(Some(slots), "display-name"), strings(Some(slots), "excerpt"), any)
}

#[test]
fn resume_with_text_searches_all_projects() {
    let setup = Setup::new().script(ECHO);
    let store = Store::new(&setup.state(), Durability::Full).unwrap();
    for (id, text) in [("s-1", "the needle is here"), ("s-2", "only hay")] {
        let journal = store.create(Header { cwd: format!("/{id}").into(), ..header(id) });
        append(&journal, &[entry("e0", None, text)]).unwrap();
    }
    drop(store);
    let mut bridge = setup.ready();
    let mut offered = |id: &str, line: &str| {
        bridge.request(id, "command", &format!("{{:text {line:?}}}"));
        let event = bridge.event("ui/frontend-action-requested");
        let items = at(&event, &["data", "ui/action", "ui/items"]).unwrap();
        let mut labels = strings(Some(items), "ui.item/label");
        labels.sort();
        labels
    };
    assert_eq!(offered("1", "/resume needle"), ["the needle is here"]);
    assert_eq!(offered("2", "/resume"), ["only hay", "the needle is here"]);
    let one = |text: &str| vec![text.to_owned()];
    let needle = "the needle is here";
    assert_eq!(
        listed(&mut bridge, "3", "{:text \"needle\" :scope \"all\"}"),
        (one(needle), one(needle), false)
    );
    assert_eq!(
        listed(&mut bridge, "4", "{:text \"needle\"}"),
        (vec![], vec![], false),
        "it is another project's"
    );
    // A name is found as soon as it is given, and shown with the session's state.
    bridge.ask("5", "set_session_name", "{:name \"Needlework\"}");
    assert_eq!(
        listed(&mut bridge, "6", "{:text \"needlework\"}"),
        (one("Needlework"), one("Needlework"), true)
    );
    assert_eq!(listed(&mut bridge, "7", "{}"), (one("Needlework"), one(""), true));
}

#[test]
fn parent_that_is_not_live_is_named() {
    let place = Place::new();
    let parent = Parent { session: "s-0".into(), path: Some("/x.edn".into()), entry: Some("e0".into()) };
    let with = Header { parent: Some(parent.clone()), ..header("s-1") };
    drop(place.store.create_with(with, &mut chain(None, 1).into_iter()).unwrap());
    for _ in 0..2 {
        assert_eq!(place.store.list(None).unwrap()[0].header.parent, Some(parent.clone()));
    }
}

/// A prompt, to its end, and the session's id and file.
fn talked(bridge: &mut Bridge, id: &str, message: &str) -> (String, std::path::PathBuf) {
    turn(bridge, id, message);
    let state = bridge.ask(&format!("{id}-state"), "get_state", "{}");
    let field = |key| at(&state, &["data", "state", key]).and_then(Owned::as_str).unwrap().to_owned();
    (field("session-id"), field("session-file").into())
}

/// Everything in the state folder whose name has that text.
fn named(setup: &Setup, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = support::files(&setup.state());
    found.retain(|path| path.to_string_lossy().contains(text));
    found
}

#[test]
fn deleted_session_leaves_nothing_behind() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let (id, file) = talked(&mut bridge, "1", "a needle in hay");
    bridge.ask("2", "bash", "{:command \"seq 1 50000\"}");
    bridge.ask("3", "list_sessions", "{:text \"needle\"}");
    bridge.ask("4", "archive_session", &format!("{{:session-id {id:?}}}"));
    fs::write(file.with_extension("edn.before-repair"), "").unwrap();
    assert!(named(&setup, &id).len() >= 4, "{:?}", named(&setup, &id));
    bridge.ask("5", "new_session", "{}");
    let answer = bridge.ask("6", "delete_session", &format!("{{:session-id {id:?}}}"));
    assert_eq!(at(&answer, &["data", "deleted"]), Some(&Owned::Bool(true)), "{answer}");
    // With the answer, and without an orderly end.
    bridge.kill();
    assert_eq!(named(&setup, &id), Vec::<std::path::PathBuf>::new());
    #[cfg(feature = "index")]
    {
        let index = rusqlite::Connection::open(setup.state().join("sessions-index.db")).unwrap();
        let count = |query: &str| index.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(count("SELECT count(*) FROM sessions"), 0);
        assert_eq!(count("SELECT count(*) FROM texts WHERE texts MATCH 'needle'"), 0);
    }
}

#[test]
fn deletion_leaves_a_session_whose_id_begins_alike() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let (id, file) = talked(&mut bridge, "1", "hello");
    let (other, lock) = (file.with_extension("edn.other.edn"), file.with_extension("edn.other.edn.lock"));
    // A session of its own, not a copy.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&other, text.replace(&id, &format!("{id}.edn.other"))).unwrap();
    fs::write(&lock, "").unwrap();
    bridge.ask("2", "new_session", "{}");
    let answer = bridge.ask("3", "delete_session", &format!("{{:session-id {id:?}}}"));
    assert_eq!(at(&answer, &["data", "deleted"]), Some(&Owned::Bool(true)), "{answer}");
    assert!(!file.exists() && other.exists() && lock.exists());
}

#[test]
fn session_outside_the_state_folder_is_not_deleted() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let (id, file) = talked(&mut bridge, "1", "hello");
    bridge.finish();
    let copy = setup.dir.path().join("copy.edn");
    fs::rename(&file, &copy).unwrap();
    let mut bridge = setup.interactor();
    bridge.ask("2", "switch_session", &format!("{{:session-path {copy:?}}}"));
    bridge.ask("3", "new_session", "{}");
    let answer = bridge.ask("4", "delete_session", &format!("{{:session-id {id:?}}}"));
    assert!(answer.to_string().contains("is not in the state folder"), "{answer}");
    assert!(copy.exists());
}

#[test]
fn deletion_that_was_killed_is_finished_at_next_start() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let (id, file) = talked(&mut bridge, "1", "hello");
    bridge.ask("2", "bash", "{:command \"seq 1 50000\"}");
    bridge.ask("3", "archive_session", &format!("{{:session-id {id:?}}}"));
    bridge.ask("4", "new_session", "{}");
    let (other, _) = talked(&mut bridge, "5", "stays");
    bridge.kill();
    // What a kill leaves after the first step.
    let deleted = setup.state().join("deleted");
    fs::create_dir(&deleted).unwrap();
    fs::rename(&file, deleted.join(file.file_name().unwrap())).unwrap();
    fs::write(file.with_extension("edn.lock"), "").unwrap();
    let mut bridge = setup.ready();
    assert_eq!(named(&setup, &id), Vec::<std::path::PathBuf>::new());
    let list = bridge.ask("6", "list_sessions", "{:archived? true}");
    let ids = strings(at(&list, &["data", "sessions"]), "id");
    assert!(ids.contains(&other) && !ids.contains(&id), "{ids:?}");
}

#[test]
fn session_of_another_process_is_not_deleted() {
    let setup = Setup::new().script(ECHO);
    let mut holder = setup.interactor();
    let (id, file) = talked(&mut holder, "1", "mine");
    let mut other = setup.ready();
    for (op, more) in [("delete_session", ""), ("archive_session", ""), ("rename_session", ":name \"x\"")] {
        let answer = other.ask(op, op, &format!("{{:session-id {id:?} {more}}}"));
        let expected = if op == "rename_session" { "runtime/failed" } else { "request/session-not-idle" };
        assert_eq!(code(&answer), expected, "{answer}");
        assert!(text(&answer, "error-message").contains("is open already, in process"), "{answer}");
    }
    assert!(file.exists());
    let list = other.ask("l", "list_sessions", "{}");
    assert!(strings(at(&list, &["data", "sessions"]), "id").contains(&id));
}

#[test]
fn session_with_a_running_job_is_not_deleted() {
    let script = "{:turns [{:steps [{:tool-call {:name \"bash\" :arguments {:command \"sleep 1000\" \
                  :background true}}}]} {:steps [{:delta \"done\"}]}] :then :repeat-last}";
    let setup = Setup::new().script(script);
    let mut bridge = setup.interactor();
    bridge.ask("m", "set_mode", "{:mode \"yolo\"}");
    let (id, _) = talked(&mut bridge, "1", "begin");
    bridge.ask("2", "new_session", "{}");
    let delete = format!("{{:session-id {id:?}}}");
    let answer = bridge.ask("3", "delete_session", &delete);
    assert_eq!(code(&answer), "request/session-not-idle", "{answer}");
    let jobs = bridge.ask("4", "list_background_jobs", &format!("{{:session-id {id:?}}}"));
    let job = strings(at(&jobs, &["data", "jobs"]), "id").remove(0);
    bridge.ask("5", "cancel_background_job", &format!("{{:session-id {id:?} :job-id {job:?}}}"));
    bridge.until(|frame| {
        is_event(frame, "job/updated")
            && at(frame, &["data", "job", "status"]).and_then(Owned::as_str) != Some("running")
    });
    let answer = bridge.ask("6", "delete_session", &delete);
    assert_eq!(at(&answer, &["data", "deleted"]), Some(&Owned::Bool(true)), "{answer}");
}

#[test]
fn first_session_is_deleted_and_the_next_client_starts_anew() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let (id, _) = talked(&mut bridge, "1", "first");
    bridge.ask("2", "new_session", "{}");
    bridge.ask("3", "delete_session", &format!("{{:session-id {id:?}}}"));
    let mut guest = support::guest::Guest::interactor(&support::guest::socket(&setup.state()));
    let state = guest.ask("4", "get_state", "{}");
    let focus = at(&state, &["data", "state", "session-id"]).and_then(Owned::as_str).unwrap().to_owned();
    assert_ne!(focus, id);
}

#[test]
fn archived_sessions_are_listed_on_demand() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let (id, _) = talked(&mut bridge, "1", "put aside");
    bridge.ask("2", "archive_session", &format!("{{:session-id {id:?}}}"));
    bridge.close_input();
    bridge.wait();
    let (_, bare, _) = run(&setup, &["sessions", "list"]);
    assert!(!bare.contains(&id), "{bare}");
    let (_, all, _) = run(&setup, &["sessions", "list", "--archived"]);
    assert!(all.contains(&id) && all.contains("archived"), "{all}");
}

#[test]
fn stored_session_is_archived_right_after_a_rename() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.interactor();
    let stored: Vec<String> = (0..60)
        .map(|n| {
            bridge.ask(&format!("n{n}"), "new_session", "{}");
            talked(&mut bridge, &format!("t{n}"), "put aside").0
        })
        .collect();
    bridge.close_input();
    bridge.wait();
    let mut bridge = setup.ready();
    for (n, id) in stored.iter().enumerate() {
        // Each is opened for its name and leaves again while the next request arrives.
        bridge.ask(&format!("r{n}"), "rename_session", &format!("{{:session-id {id:?} :name \"again\"}}"));
        let answer = bridge.ask(&format!("a{n}"), "archive_session", &format!("{{:session-id {id:?}}}"));
        assert_eq!(at(&answer, &["data", "archived"]), Some(&Owned::Bool(true)), "{answer}");
    }
}

#[test]
fn cut_turn_is_marked_in_every_export() {
    let message = |turn: &str, text: &str| {
        let mut message = Message::new("m".into(), Role::User, vec![Block::Text(text.into())], "now".into());
        message.turn_id = Some(turn.into());
        Arc::new(message)
    };
    let transcript = Transcript {
        session: "s".into(),
        title: "t".to_owned(),
        created_at: "now".into(),
        cwd: "/".into(),
        messages: vec![message("t-1", "first"), message("t-1", "second"), message("t-2", "third")],
        interrupted: vec!["t-1".into()],
    };
    for format in [Format::Html, Format::Markdown] {
        let text = export(&transcript, format);
        let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what} in {text}"));
        assert_eq!(text.matches("was cut off here").count(), 1, "{text}");
        assert!(place("second") < place("was cut off here") && place("was cut off here") < place("third"));
    }
    assert!(export(&transcript, Format::Edn).contains(":interrupted [\"t-1\"]"));
}

/// A list that grows with the live sessions would be sent several times a turn.
#[test]
fn context_update_has_the_newest_sessions_and_their_number() {
    let setup = Setup::new().script(ECHO);
    let mut bridge = setup.ready();
    turn(&mut bridge, "first", "hello");
    let first = at(&bridge.ask("st", "get_state", "{}"), &["data", "state", "session-id"]).cloned().unwrap();
    let mut newest = Vec::new();
    for number in 0..70 {
        let answer = bridge.ask(&format!("n{number}"), "new_session", "{}");
        newest.push(at(&answer, &["data", "session-id"]).and_then(Owned::as_str).unwrap().to_owned());
    }
    bridge.skip_to_now();
    bridge.ask("name", "set_session_name", "{:name \"told\"}");
    let event = list_with_name(&mut bridge, "told");
    let ids = strings(at(&event, &["data", "sessions"]), "id");
    assert_eq!(ids, newest[newest.len() - 50..]);
    assert_eq!(at(&event, &["data", "live-count"]).and_then(Owned::as_i64), Some(71));
    let lines =
        at(&event, &["data", "session-tree-widget", "content-lines"]).and_then(Owned::as_slice).unwrap();
    assert_eq!((lines.len(), lines.last().and_then(Owned::as_str)), (51, Some("… and 21 older ones")));
    // One that a client shows is listed, however old it is.
    bridge.ask("sw", "switch_session", &format!("{{:session-id {first}}}"));
    bridge.ask("name-2", "set_session_name", "{:name \"told too\"}");
    let event = list_with_name(&mut bridge, "told too");
    let ids = strings(at(&event, &["data", "sessions"]), "id");
    assert_eq!((ids.len(), Some(ids[0].as_str())), (50, first.as_str()));
    // A list that was asked for has all.
    let answer = bridge.ask("all", "list_sessions", "{}");
    assert_eq!(strings(at(&answer, &["data", "sessions"]), "id").len(), 71);
}
