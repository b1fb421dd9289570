//! The tool `fetch` with the real program, over HTTP on loopback. That a name cannot come to mean a private address is
//! in `src/http/web.rs`, with a name server of the test's.

use crate::support;

use edn_bridge::limits::{FETCH_BYTES, FETCH_REDIRECTS, TOOL_RESULT_BYTES};
use edn_bridge::value::Owned;
use support::server::{Answer, End, Server};
use support::{Bridge, Setup, accept, at, data, end_of_turn, is_event};

/// A bridge whose model fetches these addresses, each in an answer of its own, with that configuration.
fn fetches(urls: &[String], config: &str) -> Setup {
    let call = |url: &String| format!("{{:steps [{{:tool-call {{:name \"fetch\" :arguments {{{url}}}}}}}]}}");
    let turns: String = urls.iter().map(call).collect();
    let setup = Setup::new().script(&format!("{{:turns [{turns} {{:steps [{{:delta \"end\"}}]}}]}}"));
    let path = setup.dir.path().join("config.edn");
    std::fs::write(&path, config).unwrap();
    setup.arg("--config").arg(path.to_str().unwrap())
}

/// The arguments of a call.
fn url(url: &str) -> String {
    format!(":url {url:?}")
}

/// The configuration that lets the tool fetch from this machine.
const HERE: &str = "{:mode :yolo :fetch {:private [\"127.0.0.1\"]}}";

fn go(setup: &Setup) -> Bridge {
    let mut bridge = setup.interactor();
    bridge.ask("p", "prompt", "{:message \"go\"}");
    bridge
}

/// The results of the turn: text, and whether it failed.
fn results(bridge: &mut Bridge) -> Vec<(String, bool, Owned)> {
    let mut results = Vec::new();
    loop {
        let frame = bridge.until(|frame| {
            is_event(frame, "tool/result")
                || is_event(frame, "assistant/message") && data(frame, "stop-reason") != "tool-use"
        });
        if is_event(&frame, "assistant/message") {
            return results;
        }
        let failed = at(&frame, &["data", "is-error"]).and_then(Owned::as_bool).unwrap();
        results.push((data(&frame, "result-text").to_owned(), failed, frame));
    }
}

fn typed(kind: &str, body: impl Into<Vec<u8>>) -> Answer {
    Answer {
        status: 200,
        head: vec![("content-type".into(), kind.into())],
        parts: vec![body.into()],
        end: End::Well,
    }
}

fn redirect(to: &str) -> Answer {
    Answer { status: 302, head: vec![("location".into(), to.into())], parts: Vec::new(), end: End::Well }
}

#[test]
fn page_comes_as_markdown_and_text_as_it_is() {
    let html = "<title>The guide</title><nav>menu</nav><h1>Start</h1><p>See <a href='more'>more</a>.\
                <script>alert('x')</script><pre><code class=language-rust>fn main() {}</code></pre>";
    let server = Server::new([
        typed("text/html; charset=utf-8", html).with("set-cookie", "a=b").cut(5),
        typed("application/json", "{\"a\": [1,  2]}"),
        typed("text/plain; charset=iso-8859-1", b"na\xefve".to_vec()),
        typed("image/png", b"\x89PNG".to_vec()),
        Answer { status: 404, ..typed("text/html", "<h1>Gone</h1>") },
        typed("text/html", html).with("content-encoding", "gzip"),
    ]);
    let page = format!("{}/guide/start", server.url());
    let urls: Vec<String> =
        ["#top", "?b", "?c", "?d", "?e", "?f"].iter().map(|end| url(&format!("{page}{end}"))).collect();
    let found = results(&mut go(&fetches(&urls, HERE)));
    let more = format!("{}/guide/more", server.url());
    assert_eq!(
        found[0].0,
        format!(
            "Address: {page}\nTitle: The guide\nType: text/html; charset=utf-8\n\n# Start\n\nSee [more]({more}).\n\n\
             ```rust\nfn main() {{}}\n```"
        )
    );
    assert_eq!(at(&found[0].2, &["data", "details", "url"]).and_then(Owned::as_str), Some(&*page));
    assert!(found[1].0.ends_with("\n\n{\"a\": [1,  2]}"), "{found:?}");
    assert!(found[2].0.ends_with("\n\nnaïve"), "{found:?}");
    assert!(found[3].1 && found[3].0.contains("is image/png, which is neither a page nor text"), "{found:?}");
    assert!(found[4].1 && found[4].0.contains("answers 404 Not Found.\n\n# Gone"), "{found:?}");
    assert!(found[5].1 && found[5].0.contains("compressed as gzip"), "{found:?}");
    assert_eq!(
        found.iter().map(|(_, failed, _)| *failed).collect::<Vec<_>>(),
        [false, false, false, true, true, true]
    );
    for asked in server.all_asked() {
        assert_eq!((asked.method.as_str(), asked.line("cookie"), asked.line("referer")), ("GET", "", ""));
        assert!(
            !asked.path.contains('#') && asked.line("user-agent").starts_with("edn-bridge/"),
            "{asked:?}"
        );
    }
}

#[test]
fn private_host_is_refused_unless_configured() {
    let server = Server::new([typed("text/plain", "no")]);
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let urls: Vec<String> =
        ["127.0.0.1", "localhost", "[::1]", "0x7f.1", "[::ffff:127.0.0.1]", "a.localhost", "0.0.0.0"]
            .iter()
            .map(|host| url(&format!("http://{host}:{port}/")))
            .collect();
    // Another port is another host.
    for config in ["{:mode :yolo}", "{:mode :yolo :fetch {:private [\"10.0.0.1\" \"localhost:1\"]}}"] {
        let found = results(&mut go(&fetches(&urls, config)));
        for (text, failed, _) in &found {
            assert!(*failed && text.contains("on this machine or in a private network"), "{text}");
        }
        assert_eq!((found.len(), server.all_asked().len()), (urls.len(), 0));
    }
}

#[test]
fn proxy_is_not_used_and_named_where_it_is_missed() {
    let (server, proxy) = (Server::new([typed("text/plain", "here")]), Server::new([]));
    // Nobody listens there.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let urls = [url(&server.url()), url(&format!("http://{gone}/"))];
    let fetched = |urls: &[String], proxy: &str| {
        let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let setup = names.iter().fold(fetches(urls, HERE), |setup, name| setup.env(name, proxy));
        results(&mut go(&setup))
    };
    let found = fetched(&urls, &proxy.url());
    assert!(found[0].0.ends_with("here"), "{found:?}");
    assert!(found[1].1 && found[1].0.contains("fetch uses no proxy, though one is set here"), "{found:?}");
    assert_eq!(proxy.all_asked().len(), 0, "nothing goes there");
    let found = fetched(&urls[1..], "");
    assert!(found[0].1 && !found[0].0.contains("proxy"), "{found:?}");
}

#[test]
fn proxy_is_used_where_the_user_says_so() {
    let (server, proxy) =
        (Server::new([typed("text/plain", "here")]), Server::new([typed("text/plain", "through")]));
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    // Addresses of the public internet that nobody answers at, so that nothing needs a name server.
    let urls = [
        "http://192.88.99.255/a?b=c".to_owned(),
        format!("http://127.0.0.1:{port}/"),
        "http://10.0.0.9/".to_owned(),
        format!("http://localhost:{port}/"),
    ];
    let urls = urls.map(|address| url(&address));
    let with_proxy = |urls: &[String], config: &str| {
        let setup = fetches(urls, config);
        let setup =
            setup.env("http_proxy", &proxy.url()).env("HTTP_PROXY", "").env("HTTPS_PROXY", &proxy.url());
        setup.env("NO_PROXY", "192.88.99.254").env("no_proxy", "")
    };
    let found =
        results(&mut go(&with_proxy(&urls, "{:mode :yolo :fetch {:proxy true :private [\"127.0.0.1\"]}}")));
    assert!(!found[0].1 && found[0].0.ends_with("\n\nthrough"), "{found:?}");
    assert!(
        !found[1].1 && found[1].0.ends_with("\n\nhere"),
        "this machine is reached without one: {found:?}"
    );
    for (text, failed, _) in &found[2..] {
        assert!(*failed && text.contains("on this machine or in a private network"), "{text}");
    }
    let asked = proxy.all_asked();
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((asked[0].method.as_str(), asked[0].path.as_str()), ("GET", "http://192.88.99.255/a?b=c"));
    assert_eq!((asked[0].line("cookie"), asked[0].line("proxy-authorization")), ("", ""));
    // A page that comes through it redirects nobody to what is private. It is asked to connect for https, and may refuse.
    proxy.then([redirect("http://10.0.0.9/x"), Answer { status: 403, ..typed("text/plain", "no") }]);
    let urls = [urls[0].clone(), url("https://192.88.99.255/secret")];
    let found = results(&mut go(&with_proxy(&urls, "{:mode :yolo :fetch {:proxy true}}")));
    assert!(found[0].0.contains("redirects to http://10.0.0.9/x"), "{found:?}");
    assert!(found[1].1 && found[1].0.contains("cannot be fetched"), "{found:?}");
    let asked = proxy.all_asked();
    let asked: Vec<_> = asked.iter().map(|asked| (asked.method.as_str(), asked.path.as_str())).collect();
    assert_eq!(asked, [("GET", "http://192.88.99.255/a?b=c"), ("CONNECT", "192.88.99.255:443")]);
}

#[test]
fn login_of_a_proxy_is_sent_to_it_and_shown_nowhere() {
    let proxy = Server::new([Answer { status: 407, ..typed("text/plain", "who are you?") }]);
    let address = proxy.url().replace("http://", "http://ann:canary-12345@");
    let setup = fetches(&[url("http://192.88.99.255/")], "{:mode :yolo :fetch {:proxy true}}");
    let mut bridge = go(&setup.env("http_proxy", &address).env("HTTP_PROXY", "").env("ALL_PROXY", ""));
    let found = results(&mut bridge);
    assert!(found[0].1 && found[0].0.contains("answers 407"), "{found:?}");
    assert!(proxy.asked().line("proxy-authorization").starts_with("Basic "));
    assert!(!bridge.transcript.iter().any(|line| line.contains("canary")), "{:#?}", bridge.transcript);
}

#[test]
fn address_is_asked_about_with_a_rule_for_its_host() {
    let server = Server::new([typed("text/plain", "yes")]);
    let page = format!("{}/a?token=x{}", server.url(), "y".repeat(300));
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let config = "{:fetch {:private [\"127.0.0.1\"]}}";
    let setup =
        fetches(&[url(&page), url(&format!("{}/b", server.url())), url("https://u:p@docs.rs/")], config);
    let mut bridge = go(&setup);
    let question = bridge.event("interaction/requested");
    assert_eq!(server.all_asked().len(), 0, "nothing is asked before the answer");
    let shown = |key: &str| at(&question, &["data", "payload", key]).cloned().unwrap_or(Owned::Nil);
    // The whole of what the server would be told.
    assert_eq!(shown("call-summary").as_str(), Some(&*format!("fetch {page}")), "{question}");
    let rule = format!("{{:decision :allow :tool \"fetch\" :host \"127.0.0.1:{port}\"}}");
    assert_eq!(shown("suggested-rule").to_string(), rule);
    accept(&mut bridge, &question, ":value {:outcome \"approve\" :scope \"rule\"}");
    let found = results(&mut bridge);
    assert!(found[0].0.ends_with("\n\nyes") && found[1].0.ends_with("\n\nyes"), "{found:?}");
    assert!(found[2].1 && found[2].0.contains("a user or a password"), "{found:?}");
    assert!(std::fs::read_to_string(setup.state().join("rules.edn")).unwrap().contains(&rule));
    let audit = bridge.ask("a", "list_audit", "{}");
    assert!(audit.to_string().contains(&format!("127.0.0.1:{port}/a")), "{audit}");
}

#[test]
fn denied_host_is_refused_in_every_mode() {
    let server = Server::new([typed("text/plain", "no")]);
    let config = "{:mode :yolo :fetch {:private [\"127.0.0.1\"]}
                   :permissions {:rules [{:decision :deny :host \"127.0.0.1\"}]}}";
    let found = results(&mut go(&fetches(&[url(&server.url())], config)));
    assert!(found[0].1 && found[0].0.contains("A rule denies it"), "{found:?}");
    assert_eq!(server.all_asked().len(), 0);
}

#[test]
fn redirect_is_followed_where_a_call_might_go() {
    let other = Server::new([typed("text/plain", "other")]);
    let there = format!("{}/there", other.url());
    let server = Server::new([
        redirect("/b"),
        typed("text/plain", "same"),
        redirect(&there),
        redirect("http://localhost:1/x"),
        redirect("file:///etc/passwd"),
        redirect("/again"),
    ]);
    let port = |server: &Server| server.url().rsplit(':').next().unwrap().to_owned();
    let urls: Vec<String> = (0..4).map(|n| url(&format!("{}/{n}", server.url()))).collect();
    let allowed = |more: &str| {
        format!(
            "{{:fetch {{:private [\"127.0.0.1\"]}} :permissions {{:rules [{{:decision :allow :tool \"fetch\" :host \
             \"127.0.0.1:{}\"}} {more}]}}}}",
            port(&server)
        )
    };
    let found = results(&mut go(&fetches(&urls, &allowed(""))));
    assert!(
        found[0].0.starts_with(&format!("Address: {}/b\n", server.url())) && found[0].0.ends_with("same")
    );
    assert!(!found[1].1 && found[1].0.contains(&format!("redirects to {there}\n")), "{found:?}");
    assert_eq!(at(&found[1].2, &["data", "details", "redirect"]).and_then(Owned::as_str), Some(&*there));
    assert!(found[2].0.contains("redirects to http://localhost:1/x"), "{found:?}");
    assert!(found[3].1 && found[3].0.contains("file:///etc/passwd\", which cannot be fetched"), "{found:?}");
    assert_eq!(other.all_asked().len(), 0, "another host is not asked");
    // It leads on and on.
    let found = results(&mut go(&fetches(&urls[..1], &allowed(""))));
    assert!(found[0].1 && found[0].0.contains(&format!("more than {FETCH_REDIRECTS} times")), "{found:?}");
    // What a rule allows is fetched at once.
    let server = Server::new([redirect(&there)]);
    let more = format!("{{:decision :allow :host \"127.0.0.1:{}\"}}", port(&other));
    let config = allowed(&format!("{more} {{:decision :allow :host \"127.0.0.1:{}\"}}", port(&server)));
    let found = results(&mut go(&fetches(&[url(&server.url())], &config)));
    assert!(found[0].0.ends_with("\n\nother"), "{found:?}");
    // In the mode that asks nobody, a host that is denied stays denied.
    let config = format!(
        "{{:mode :yolo :fetch {{:private [\"127.0.0.1\"]}} :permissions {{:rules [{{:decision :deny :host \
         \"127.0.0.1:{}\"}}]}}}}",
        port(&other)
    );
    other.all_asked();
    let found = results(&mut go(&fetches(&[url(&server.url())], &config)));
    assert!(found[0].0.contains(&format!("redirects to {there}\n")), "{found:?}");
    assert_eq!(other.all_asked().len(), 0);
}

#[test]
fn long_page_is_kept_under_a_handle_and_read_on() {
    let lines: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    let server = Server::new([
        typed("text/plain", lines.clone()),
        typed("text/plain", lines),
        typed("text/plain", "x".repeat(FETCH_BYTES + 1)).cut(1024 * 1024),
    ]);
    let urls = [url(&server.url()), format!("{} :offset 19999", url(&server.url())), url(&server.url())];
    let mut bridge = go(&fetches(&urls, HERE));
    let found = results(&mut bridge);
    let handle =
        |n: usize| at(&found[n].2, &["data", "details", "handle"]).and_then(Owned::as_str).unwrap_or("");
    assert!(found[0].0.len() < TOOL_RESULT_BYTES + 1024 && !handle(0).is_empty(), "{}", found[0].0.len());
    let part =
        bridge.ask("o", "read_output", &format!("{{:handle {:?} :offset 100000 :limit 100}}", handle(0)));
    assert!(data(&part, "text").contains("\nline "), "{part}");
    assert!(found[1].0.ends_with("[from line 19999 of 20000]\nline 19999\nline 20000\n"), "{}", found[1].0);
    assert!(found[2].0.ends_with("the rest was not fetched.]") && !handle(2).is_empty());
}

#[test]
fn abort_ends_a_fetch_from_a_silent_server() {
    let server = Server::new([typed("text/plain", "some").end(End::Silent)]);
    let mut bridge = go(&fetches(&[url(&server.url())], HERE));
    server.asked();
    bridge.ask("x", "abort", "{}");
    let end = end_of_turn(&mut bridge);
    assert_eq!(data(&end, "stop-reason"), "aborted", "{end}");
    let setup = fetches(&[url(&server.url())], HERE);
    server.then([typed("text/plain", "cut").end(End::Dropped)]);
    let found = results(&mut go(&setup));
    assert!(found[0].1 && found[0].0.contains("cannot be fetched"), "{found:?}");
}

#[test]
fn private_hosts_of_a_project_count_once_it_is_trusted() {
    let server = Server::new([typed("text/plain", "yes")]);
    let setup = fetches(&[url(&server.url()), url(&server.url())], "{:mode :yolo}");
    let folder = setup.project().join(".edn-bridge");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.edn"), "{:fetch {:private [\"127.0.0.1\"]}}").unwrap();
    let mut bridge = setup.interactor();
    let preview = bridge.ask("t", "trust_preview", "{}");
    assert!(preview.to_string().contains("\"private host\""), "{preview}");
    bridge.ask("p", "prompt", "{:message \"go\"}");
    assert!(results(&mut bridge).iter().all(|(_, failed, _)| *failed));
    bridge.ask("y", "trust_project", "{:trusted true}");
    drop(bridge);
    let found = results(&mut go(&setup));
    assert!(found[0].0.ends_with("\n\nyes"), "{found:?}");
}
