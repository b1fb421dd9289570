//! The reader against `edn-rs`, on what both know: what that crate reads and what it writes, this one reads as the
//! same value.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    missing_docs,
    reason = "tests"
)]

use edn_codec::{Value, read_one};
use edn_rs::Edn;

mod support;
use support::Random;

/// Scalars that both spell alike. Left out is what `edn-rs` has no place for (decimals, integers beyond 64 bits) or
/// reads in its own way (symbolic floats, escapes other than these, metadata, namespaced maps), and floats that are
/// whole, which it writes as integers.
const SCALARS: &[&str] = &[
    "nil",
    "true",
    "false",
    "0",
    "-7",
    "42",
    "18446744073709551615",
    "2.5",
    "-0.125",
    "\"\"",
    "\"a b\"",
    "\"\\n\\t\\\\\\\"\"",
    "\"é\"",
    "\\a",
    "\\newline",
    "\\space",
    ":k",
    ":ns/k",
    ":a.b/c-d",
    "sym",
    "ns/sym",
    "1/2",
    "#uuid \"f81d4fae-7dec-11d0-a765-00a0c91e6bf6\"",
    "#inst \"2020-01-31T12:30:00.000Z\"",
    "#foo/bar 1",
];

/// Keys that both can hold, all different.
const KEYS: &[&str] = &[":a", ":b/c", "d", "1", "true", "nil"];

fn sentence(random: &mut Random, depth: usize) -> String {
    let kind = if depth == 0 { 0 } else { random.below(6) };
    let length = random.below(5);
    let items =
        |random: &mut Random| -> Vec<String> { (0..length).map(|_| sentence(random, depth - 1)).collect() };
    match kind {
        1 => format!("[{}]", items(random).join(" ")),
        2 => format!("({})", items(random).join(", ")),
        3 => {
            let entries: Vec<_> =
                KEYS.iter().zip(items(random)).map(|(key, item)| format!("{key} {item}")).collect();
            format!("{{{}}}", entries.join(", "))
        }
        4 => {
            format!("#{{{}}}", (0..length).map(|at| format!("{at} [:k {at}]")).collect::<Vec<_>>().join(" "))
        }
        5 => format!("#my/tag [{}]", items(random).join(" ")),
        _ => random.pick(SCALARS).to_owned(),
    }
}

#[test]
fn edn_rs_and_this_reader_read_the_same_value() {
    let mut random = Random::new(11);
    for _ in 0..5_000 {
        let text = sentence(&mut random, 4);
        let ours = read_one(text.as_bytes()).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let theirs: Edn = text.parse().unwrap_or_else(|error| panic!("{text}\n{error:?}"));
        let converted = Value::try_from(theirs).unwrap_or_else(|error| panic!("{text}\n{error}"));
        assert_eq!(converted, ours, "{text}");
    }
}

#[test]
fn edn_rs_text_of_a_converted_value_reads_equal() {
    let mut random = Random::new(12);
    for _ in 0..5_000 {
        let text = sentence(&mut random, 4);
        let value = read_one(text.as_bytes()).unwrap();
        let written = Edn::try_from(&value).unwrap_or_else(|error| panic!("{text}\n{error}")).to_string();
        let again = read_one(written.as_bytes()).unwrap_or_else(|error| panic!("{text}\n{written}\n{error}"));
        assert_eq!(again, value, "{written}");
    }
}
