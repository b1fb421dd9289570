//! What holds for every value and every input: round trips, splits at every point, bounds, linear work.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    missing_docs,
    reason = "tests"
)]

use std::collections::HashSet;

use edn_codec::{self as edn, Stream};
#[path = "support/hostile.rs"]
mod hostile;
use edn_codec::value::{Inst, Map, Owned, Set, Value};
use proptest::prelude::*;

fn name() -> impl Strategy<Value = String> {
    "[a-z*!?<>=$%&_|é中][a-z0-9*!?'#.é-]{0,9}(/[a-z*!?][a-z0-9.-]{0,6})?"
}

fn scalar() -> impl Strategy<Value = Owned> {
    prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i128>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,40}".prop_map(Value::from),
        "[ -~\\n\\t\"\\\\]{0,40}".prop_map(Value::from),
        name().prop_map(Value::keyword),
        name()
            .prop_filter("a constant", |it| !["nil", "true", "false"].contains(&it.as_str()))
            .prop_map(Value::symbol),
        any::<char>().prop_filter("one unit", |c| c.len_utf16() == 1).prop_map(Value::from),
        (-62_167_219_200_i64..=253_402_300_799, 0..1_000_000_000_u32)
            .prop_map(|(s, n)| Value::from(Inst::new(s, n))),
        any::<u128>().prop_map(|it| Value::from(uuid::Uuid::from_u128(it))),
        (any::<i64>(), -400..400_i64)
            .prop_map(|(digits, scale)| Value::from(bigdecimal::BigDecimal::new(digits.into(), scale))),
        (any::<i64>(), 1..i64::MAX).prop_map(|(above, below)| {
            match edn_codec::value::Ratio::reduce(above.into(), below.into()).unwrap() {
                Ok(ratio) => Value::from(ratio),
                Err(int) => Value::from(int),
            }
        }),
    ]
}

fn value() -> impl Strategy<Value = Owned> {
    scalar().prop_recursive(5, 60, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::vec(inner.clone(), 0..8).prop_map(|it| Value::List(it.into_boxed_slice())),
            prop::collection::vec(inner.clone(), 0..24)
                .prop_map(|it| Value::Set(it.into_iter().collect::<Set<'_>>())),
            prop::collection::vec((inner.clone(), inner.clone()), 0..24)
                .prop_map(|it| Value::Map(it.into_iter().collect::<Map<'_>>())),
            (
                name().prop_filter("letter first", |it| it.starts_with(|c: char| c.is_ascii_alphabetic())),
                inner
            )
                .prop_filter("known tags", |(tag, _)| !["inst", "uuid", "nil", "true", "false"]
                    .contains(&tag.as_str()))
                .prop_map(|(tag, it)| Value::tagged(tag, it)),
        ]
    })
}

/// The forms of `text`, and those of its pieces when it is cut at `cut`.
fn whole_and_cut(text: &str, cut: usize) -> [Vec<Result<Owned, edn::Error>>; 2] {
    let whole = edn::Reader::new(text.as_bytes()).map(|form| form.map(Value::into_owned)).collect();
    let mut stream = Stream::new();
    let mut forms = Vec::new();
    'pieces: for piece in [Some(&text.as_bytes()[..cut]), Some(&text.as_bytes()[cut..]), None] {
        stream.push(piece.unwrap_or_default());
        loop {
            match if piece.is_some() { stream.next_form() } else { stream.finish() } {
                Ok(Some(form)) => forms.push(Ok(form)),
                Ok(None) => break,
                Err(error) => {
                    forms.push(Err(error));
                    break 'pieces;
                }
            }
        }
    }
    [whole, forms]
}

#[test]
fn non_ascii_form_ends_are_same_in_pieces_and_whole() {
    for text in [
        "a\u{2003}#{1}",
        "\u{2003}#{1}\u{3000}#_ a\u{1680}b",
        "\u{2003};c\n #inst\u{2003}\"2020-01-31\"",
        "#_\u{2003} a b #a/b\u{2003} 1 ##\u{2003}Inf",
        "\u{2002}#:a{#:a",
        "\u{660}#{1} +\u{661}#_ a 2 é#{1}",
        "\\\u{2003}#{1} \\\u{2003}\u{2003}#{1}",
        "[a\u{2003}#{1}\u{660}#{2}]",
        "#\u{2003}a",
        "#é\u{2003}a",
    ] {
        for cut in 0..=text.len() {
            let [whole, cut] = whole_and_cut(text, cut);
            assert_eq!(cut, whole, "{text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_reads_back_equal(value in value()) {
        let writers: [fn(&Value<'_>, &mut Vec<u8>); 4] = [
            edn::write_compact,
            edn::write_canonical,
            |value, out| edn::write_pretty(value, 60, out),
            |value, out| edn::write_pretty(value, 0, out),
        ];
        for write in writers {
            let mut out = Vec::new();
            write(&value, &mut out);
            let text = String::from_utf8(out).unwrap();
            let again = edn::read_one(text.as_bytes()).map_err(|error| TestCaseError::fail(format!("{text}: {error}")))?;
            prop_assert_eq!(&again, &value);
        }
        let text = edn::to_string(&value);
        prop_assert_eq!(&edn::to_string(&edn::read_one(text.as_bytes()).unwrap()), &text, "kinds and order are kept");
    }

    #[test]
    fn pieces_cut_at_every_point_give_the_same(values in prop::collection::vec(value(), 1..4)) {
        let text: Vec<String> = values.iter().map(edn::to_string).collect();
        let text = text.join(" ;c\n");
        let text = text.get(..text.len().min(120)).map_or(text.as_str(), |it| it);
        for cut in 0..=text.len() {
            let [whole, forms] = whole_and_cut(text, cut);
            prop_assert_eq!(&forms, &whole, "cut at {}", cut);
        }
    }

    #[test]
    fn any_bytes_are_read_or_rejected_at_a_place(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        for form in edn::Reader::new(&bytes) {
            if let Err(error) = form {
                prop_assert!(error.offset() <= bytes.len());
            }
        }
    }

    #[test]
    fn equality_and_hashing_agree(one in value(), other in value()) {
        let set: HashSet<&Value<'_>> = [&one, &other].into();
        prop_assert_eq!(set.len(), 2 - usize::from(one == other));
        let spell = |value: &Value<'_>| {
            let mut out = Vec::new();
            edn::write_canonical(value, &mut out);
            out
        };
        prop_assert_eq!(one == other, spell(&one) == spell(&other));
    }

    #[test]
    fn map_with_equal_key_keeps_its_place(keys in prop::collection::vec(value(), 0..40), room in 0..40_usize) {
        let mut map = Map::with_capacity(room);
        let mut entries: Vec<(Owned, i64)> = Vec::new();
        for (place, key) in (0..).zip(keys.iter().chain(&keys)) {
            let earlier = entries.iter_mut().find(|(known, _)| known == key);
            let replaced = earlier.map(|(_, value)| std::mem::replace(value, place));
            prop_assert_eq!(map.insert(key.clone(), place), replaced.map(Value::from));
            if replaced.is_none() {
                entries.push((key.clone(), place));
            }
            prop_assert_eq!(map.get(key), Some(&Value::from(place)));
        }
        let entries = entries.into_iter().map(|(key, value)| (key, Value::from(value)));
        prop_assert!(map.into_iter().eq(entries));
    }

    #[test]
    fn serde_takes_every_value_through(value in value()) {
        let written = edn::to_value(&value).unwrap();
        prop_assert_eq!(edn::to_string(&written), edn::to_string(&value));
        let read: Owned = edn::from_value(written).unwrap();
        prop_assert_eq!(edn::to_string(&read), edn::to_string(&value));
    }
}

#[test]
fn numbers_at_the_bound_are_read_again_as_they_are_written() {
    const MOST: usize = edn_codec::limits::MAX_DIGITS;
    let digits = |count| "7".repeat(count);
    let longest = [
        digits(MOST),
        format!("-{}N", digits(MOST)),
        format!("0x{}", "7".repeat(MOST * 4 / 5)),
        format!("36r{}", "7".repeat(MOST * 3 / 5)),
        format!("{}.{}M", digits(MOST / 2), digits(MOST / 2)),
        format!("-0.000000{}M", digits(MOST)),
        format!("{}e-2147480000M", digits(10)),
        format!("-{}/{}1", digits(MOST / 2), digits(MOST / 2 - 1)),
    ];
    for text in &longest {
        let value = edn::read_one(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text:.20}"));
        let written = edn::to_string(&value);
        let again = edn::read_one(written.as_bytes());
        assert!(again.is_ok_and(|again| again == value), "{text:.20} became {written:.20}");
        let mut canonical = Vec::new();
        edn::write_canonical(&value, &mut canonical);
        assert!(edn::read_one(&canonical).is_ok(), "{text:.20}");
        assert_eq!(edn::from_value::<Owned>(value.clone()).unwrap(), value);
        assert_eq!(edn::to_value(&value).unwrap(), value);
    }
    let beyond = [
        digits(MOST + 1),
        format!("0x{}", "7".repeat(MOST)),
        format!("36r{}", "z".repeat(MOST * 2 / 3)),
        format!("{}.{}M", digits(MOST / 2), digits(MOST / 2 + 1)),
        format!("{}/{}", digits(MOST / 2), digits(MOST / 2 + 1)),
        format!("{}1", "0".repeat(2 * MOST)),
    ];
    for text in &beyond {
        let error = edn::read_one(text.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), edn::ErrorKind::TooLarge, "{text:.20}");
    }
}

#[test]
fn hostile_inputs_are_read_or_rejected_within_the_bounds() {
    for (name, input) in hostile::inputs(40_000) {
        let forms = edn::Reader::new(input.as_bytes()).collect::<Result<Vec<_>, _>>();
        match (name, forms) {
            ("brackets that stay open" | "discards" | "discards without an end", Err(error)) => {
                assert_eq!(error.code(), "too-deep")
            }
            ("one number too long", Err(error)) => assert_eq!(error.code(), "too-large"),
            ("a string that stays open" | "short strings that stay open", Err(error)) => {
                assert_eq!(error.code(), "unexpected-end");
            }
            ("a keyword of colons", Err(error)) => assert_eq!(error.code(), "invalid-token"),
            (_, forms) => assert!(forms.is_ok() || name == "a symbol of strokes", "{name}: {forms:?}"),
        }
    }
}
