//! Any value goes through serde's data model and comes back as it was; any type rejects without a panic, and takes
//! from a text what it takes from the value that the text is read into.
#![no_main]

use std::collections::BTreeMap;
use std::fmt::Debug;

use edn_bridge::edn;
use edn_bridge::value::Owned;
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

#[derive(Debug, PartialEq, Deserialize)]
struct Entry<'a> {
    a: Option<&'a str>,
    #[serde(default)]
    b: Kind,
    k: Option<Box<Entry<'a>>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
enum Kind {
    #[default]
    True,
    Named(String),
    Pair(i64, f64),
    Entry { a: Vec<Owned> },
}

fn same<'a, T: Deserialize<'a> + Debug + PartialEq>(input: &'a [u8]) {
    let text = edn::from_slice::<T>(input);
    let value = edn::read_one(input).map_err(Into::into).and_then(edn::from_value::<T>);
    // What is not a number is a value that equals itself; as a float it does not.
    assert_eq!(format!("{text:?}"), format!("{value:?}"));
}

fuzz_target!(|input: &[u8]| {
    same::<BTreeMap<String, Option<Vec<(i8, f64)>>>>(input);
    same::<Entry<'_>>(input);
    same::<Vec<Kind>>(input);
    same::<(u64, char, Result<String, bool>)>(input);
    same::<Owned>(input);
    same::<Vec<BTreeMap<i64, Owned>>>(input);
    let Ok(value) = edn::read_one(input) else { return };
    let written = edn::to_value(&value).expect("a value is data");
    assert_eq!(written, value);
    let read: Owned = edn::from_value(value.clone()).expect("a value is any value");
    assert_eq!(read, value);
    assert_eq!(edn::to_string(&read), edn::to_string(&value));
});
