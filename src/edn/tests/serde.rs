//! Text into types straight and by way of a value: the same data, or the same error.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    dead_code,
    reason = "tests"
)]

use std::collections::BTreeMap;
use std::fmt::Debug;

use edn_codec as edn;
use edn_codec::value::{Owned, Value};
use serde::Deserialize;
use serde::de::IgnoredAny;

mod support;
use support::{Random, mutate};

#[derive(Debug, PartialEq, Deserialize)]
struct Envelope<'a> {
    kind: Kind,
    #[serde(default)]
    session_id: Option<&'a str>,
    seq: u64,
    #[serde(borrow, default)]
    data: Vec<Part<'a>>,
    #[serde(borrow, deserialize_with = "edn::borrowed", default = "nil")]
    any: Value<'a>,
    #[serde(default)]
    bytes: Option<Bytes>,
    #[serde(default)]
    ignored: Unread,
}

fn nil<'a>() -> Value<'a> {
    Value::Nil
}

#[derive(Debug, PartialEq, Deserialize)]
enum Kind {
    Event,
    Limit(u8),
    Rule { tool_name: String },
    Pair(i8, f64),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Part<'a> {
    Text(&'a str),
    Number(f64),
    Map(BTreeMap<String, Option<char>>),
    Deep(Box<Part<'a>>, Box<Part<'a>>),
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename = "#app/bytes")]
struct Bytes(Vec<u8>);

/// Takes whatever there is without looking at it.
#[derive(Debug, Default, PartialEq)]
struct Unread;

impl<'de> Deserialize<'de> for Unread {
    fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Ok(Unread)
    }
}

/// Makes do with a default where what stands there does not fit.
#[derive(Debug, PartialEq)]
struct Lenient(Vec<u8>);

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Lenient(Vec::deserialize(from).unwrap_or_default()))
    }
}

fn same<'a, T: Deserialize<'a> + Debug>(text: &'a str) -> usize {
    let straight = edn::from_slice::<T>(text.as_bytes());
    let by_value = edn::read_one(text.as_bytes()).map_err(Into::into).and_then(edn::from_value::<T>);
    assert_eq!(format!("{straight:?}"), format!("{by_value:?}"), "{text}");
    usize::from(straight.is_ok())
}

fn all_the_same(text: &str) -> usize {
    same::<Envelope<'_>>(text)
        + same::<Vec<Envelope<'_>>>(text)
        + same::<Owned>(text)
        + same::<Option<Kind>>(text)
        + same::<Vec<Part<'_>>>(text)
        + same::<BTreeMap<String, Lenient>>(text)
        + same::<(u8, Unread, Option<Unread>)>(text)
        + same::<BTreeMap<(u8, u8), IgnoredAny>>(text)
        + same::<IgnoredAny>(text)
        + same::<Unread>(text)
}

const TEXTS: &[&str] = &[
    r#"{:kind :event :session-id "s" :seq 7 :data ["a" 1.5 {:b \c "d" nil} ["x" "y"]] :any #{:k (1 2)}}"#,
    r#"{:kind {:rule {:tool-name "te\nxt"}} :seq 7N :bytes #app/bytes [0 255] :other [[1 {:a #b c}]]}"#,
    r#"{:kind {:pair [1 2.5M]} "seq" 18446744073709551615 :session_id nil :ignored {:a [1]}}"#,
    r#"[{:kind :event, :seq 1 :ignored nil} {:seq 2 #_ :seq #_ 3 :kind {:limit 255} :any ^:m [1]}]"#,
    "; before\n{:kind :event :seq 1 :any #:a{:b 1} :ignored :x} ; after",
    "{:a [1 2] :b [1 300] :c nil :d {:e 1}}",
    "{:kind :event :seq 1 :seq 2}",
    "{:kind :event :seq 1 :unknown 1 :unknown 2}",
    "{[1 2] 3 [1 2] 4}",
    "[1 {:a 1 :a 2} nil]",
    "#{1 2 3}",
    "(1 2 #_ 3)",
    "[#_ #_ 1 2]",
    "{:a}",
    "{:a 1 :b #_ 2}",
    "[nil :none nothing]",
    "",
    "1 2",
];

#[test]
fn a_text_and_its_value_give_the_same_data() {
    let mut random = Random::new(5);
    let mut taken = 0;
    for text in TEXTS {
        taken += all_the_same(text);
        for _ in 0..if cfg!(debug_assertions) { 400 } else { 4000 } {
            taken += all_the_same(&mutate(&mut random, text));
        }
    }
    assert!(taken > 5_000, "only {taken} were taken");
}

#[test]
fn keys_repeat_in_maps_of_every_size() {
    for size in [1, 2, 8, 31, 32, 33, 34, 100] {
        let keys: Vec<String> = (0..size).map(|at| format!(":key-{at} {at}")).collect();
        let text = format!("{{{}}}", keys.join(" "));
        let map: BTreeMap<String, usize> = edn::from_slice(text.as_bytes()).unwrap();
        assert_eq!(map.len(), size);
        for again in [0, size / 2, size - 1] {
            let text = format!("{{{} :key-{again} 1}}", keys.join(" "));
            let error = edn::from_slice::<BTreeMap<String, usize>>(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains("duplicate-key"), "{error}");
        }
    }
}

#[test]
fn nesting_is_bounded_as_it_is_for_values() {
    #[derive(Debug, Deserialize)]
    #[serde(transparent)]
    struct Nest(Vec<Nest>);
    for depth in [254, 255, 256, 257, 258] {
        let vectors = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(same::<Nest>(&vectors), usize::from(depth <= 256));
        same::<Vec<IgnoredAny>>(&vectors);
        same::<Vec<Vec<Owned>>>(&vectors);
        let discards = format!("[{} {} 1]", "#_ ".repeat(depth - 1), "a ".repeat(depth - 1));
        assert_eq!(same::<Vec<u8>>(&discards), usize::from(depth <= 256), "{depth}");
    }
}
