//! The specs against the catalogue, and the obligations of the specs against the checks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

use std::collections::{BTreeMap, BTreeSet};

use edn_bridge::catalogue::{
    COMMANDS, Class, ERROR_CODES, FEATURES, OPS, PROTOCOL_VERSION_TEXT, SCOPE_KEYS, TOPICS,
};
use edn_bridge::limits;

#[path = "contract/spec.rs"]
mod spec;

use spec::Keys;

fn keys(required: &[&str], optional: &[&str]) -> Keys {
    let required = required.iter().map(|key| ((*key).to_owned(), true));
    required.chain(optional.iter().map(|key| ((*key).to_owned(), false))).collect()
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
    let data = |op: &edn_bridge::catalogue::OpSpec| -> Keys {
        let key = |key: &&str| match key.strip_suffix('?') {
            Some(key) => (key.to_owned(), false),
            None => ((*key).to_owned(), true),
        };
        op.data.iter().map(key).collect()
    };
    same("answer of", &spec.answers, &OPS.iter().map(|op| (op.name.to_owned(), data(op))).collect());
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
}

#[test]
fn error_codes_features_and_commands() {
    let spec = spec::read();
    same_names("error codes", &spec.enums["ErrorCode"], ERROR_CODES.iter().map(|error| error.name));
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
        ("rpc-edn.max_pending_requests", limits::MAX_PENDING.to_string()),
        ("rpc-edn.protocol_major", edn_bridge::catalogue::PROTOCOL_VERSION.0.to_string()),
        ("rpc-edn.protocol_version", PROTOCOL_VERSION_TEXT.to_owned()),
    ];
    for (name, value) in code {
        assert_eq!(config[name], value, "{name}");
    }
}
