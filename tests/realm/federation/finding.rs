//! A search of all sessions finds those of other hosts, and says where it cannot.

use edn_bridge::value::{Owned, Value};
use serde_json::json;

use super::{ask, end_of_turn, host, host_of, listed, shared, switch};
use crate::engines::Engine as _;
use crate::fixture::{Daemon, END, signal};
use crate::server::Server;
use crate::support::{Bridge, at, data, wait_until};

/// The sessions that a search finds, as host, name and excerpt, and what it says of those that are missing.
fn found(bridge: &mut Bridge, params: &str) -> (Vec<[String; 3]>, Option<String>) {
    let answer = ask(bridge, "list_sessions", &format!("{{{params}}}"));
    let rows = at(&answer, &["data", "sessions"]).and_then(Value::as_slice).unwrap();
    let text = |row: &Owned, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let shown = |row: &Owned| [host_of(row).to_owned(), text(row, "name"), text(row, "excerpt")];
    let missing = at(&answer, &["data", "missing"]).and_then(Value::as_str).map(str::to_owned);
    (rows.iter().map(shown).collect(), missing)
}

fn say(bridge: &mut Bridge, text: &str) {
    ask(bridge, "prompt", &format!("{{:message {text:?}}}"));
    assert_eq!(data(&end_of_turn(bridge), "outcome"), "completed");
}

#[test]
fn search_of_all_sessions_finds_those_of_other_hosts() {
    let Some(mut server) = Server::start() else { return };
    let (alpha, beta) = (host(&server, "alpha", ":all", END), host(&server, "beta", ":ask", END));
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let session = shared(&mut a);
    say(&mut a, "A quokka sleeps\nin the barn");
    say(&mut b, "A quokka is here");
    listed(&mut b, &session, |_| true);

    let row = |host: &str, name: &str, excerpt: &str| [host, name, excerpt].map(str::to_owned);
    let here = row("", "", "A quokka is here");
    let there = row("alpha", "shared", "A quokka sleeps");
    let all = |bridge: &mut Bridge, text: &str| found(bridge, &format!(":text {text:?} :scope \"all\""));
    assert_eq!(
        all(&mut b, "Quokka"),
        (vec![here.clone(), there.clone()], None),
        "those of this machine first"
    );
    assert_eq!(all(&mut b, "quokka sleep"), (vec![there.clone()], None));
    assert_eq!(all(&mut b, "shared").0.len(), 1, "a name");
    assert_eq!(all(&mut b, "wombat"), (Vec::new(), None));
    let (rows, missing) = found(&mut b, ":text \"quokka\" :scope \"all\" :limit 1");
    assert_eq!(rows, std::slice::from_ref(&here));
    assert!(missing.expect("it says that some are missing").contains("other hosts were not asked"));
    assert_eq!(
        found(&mut b, ":text \"quokka\""),
        (vec![here.clone()], None),
        "another host's is another folder"
    );
    // What this host owns is in its files.
    assert_eq!(all(&mut a, "sleeps").0.len(), 1);

    // A copy is found once.
    switch(&mut b, &session);
    let rows = all(&mut b, "quokka sleep").0;
    assert!(rows.len() == 1 && rows[0][..2] == there[..2], "{rows:?}");

    server.stop();
    let (mut rows, missing) = all(&mut b, "quokka");
    rows.retain(|row| row[0].is_empty());
    assert_eq!(rows, [here]);
    let missing = missing.expect("it says that some are missing");
    assert!(missing.contains("realm"), "{missing}");
    assert_eq!(found(&mut b, ":text \"quokka\"").1, None, "the folder's are all here");

    server.begin();
    let cell = std::cell::RefCell::new(&mut b);
    wait_until("they are found again", || all(&mut cell.borrow_mut(), "quokka").1.is_none());
}

/// What the command prints, and its status.
fn listed_by(host: &Daemon, words: &[&str]) -> (Option<i32>, String, String) {
    let output = host.setup.command().args(["sessions", "list", "--realm"]).args(words).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn command_finds_sessions_of_all_hosts() {
    let Some(mut server) = Server::start() else { return };
    let [alpha, beta] = ["alpha", "beta"].map(|name| host(&server, name, ":all", END));
    let (mut a, mut b) = (alpha.setup.interactor(), beta.setup.interactor());
    let theirs = shared(&mut a);
    say(&mut a, "A quokka sleeps\nin the barn");
    let ours = shared(&mut b);
    say(&mut b, "A quokka is here");

    let list = |words: &[&str]| {
        let (status, out, err) = listed_by(&beta, words);
        assert_eq!(status, Some(0), "{words:?}: {err}");
        out
    };
    let folder = |of: &Daemon| of.setup.project().canonicalize().unwrap().display().to_string();
    let line = |id: &str, host: &str, folder: &str| format!("{id}  {host}  {folder}  shared\n");
    let rows = [line(&ours, "beta", &folder(&beta)), line(&theirs, "alpha", &folder(&alpha))];
    let hits = ["    A quokka is here\n", "    A quokka sleeps\n"];
    assert_eq!(list(&[]), rows.concat(), "the last changed first");
    let both = list(&["quokka"]);
    let has = |row: usize| both.contains(&format!("{}{}", rows[row], hits[row]));
    assert!(has(0) && has(1) && both.lines().count() == 4, "{both}");
    assert_eq!(list(&["Quokka", "sleep"]), format!("{}{}", rows[1], hits[1]), "all words, of any host");
    assert_eq!(list(&["quokka", "--limit", "1"]).lines().count(), 2);
    let json: serde_json::Value = serde_json::from_str(&list(&["barn", "--json"])).unwrap();
    assert_eq!(
        [&json["id"], &json["host"], &json["owner_lost"], &json["excerpt"]],
        [&json!(theirs), &json!("alpha"), &json!(false), &json!("in the barn")],
        "{json}"
    );
    let (status, out, err) = listed_by(&beta, &["wombat"]);
    assert!(status == Some(1) && out.is_empty() && err.contains("\"wombat\""), "{status:?} {out} {err}");

    // A host that is gone is no reason to find less.
    signal(alpha.pid(), "-KILL");
    wait_until("the host is lost", || list(&["barn"]).contains("  alpha (lost)  "));
    server.stop();
    let (status, out, err) = listed_by(&beta, &["quokka"]);
    assert!(status == Some(1) && out.is_empty() && !err.is_empty(), "{status:?} {out} {err}");
}
