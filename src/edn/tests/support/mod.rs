//! What the tests of the codec share: random sentences of the grammar, mutations of them, and a way to say
//! what a value is without EDN.

#![allow(
    dead_code,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "each test binary uses a part, and its numbers are small"
)]

pub mod grammar;

use edn_codec::value::Value;

/// Random numbers that are the same in every run (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Pieces that change a text in ways that a reader cares about.
pub const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "#{",
    "#_",
    "#",
    "##",
    "#:",
    "^",
    "#^",
    "\"",
    "\\",
    ";",
    "\n",
    " ",
    ",",
    ":",
    "::",
    "/",
    "//",
    ":/",
    "'",
    "@",
    "`",
    "~",
    "%",
    "&",
    "+",
    "-",
    ".",
    "0",
    "1",
    "9",
    "00",
    "0x",
    "r",
    "N",
    "M",
    "e",
    "E",
    "u0041",
    "\\u0041",
    "\\ud83d",
    "\\ude00",
    "\\377",
    "\\400",
    "o101",
    "newline",
    "nil",
    "true",
    "a",
    "_",
    "Inf",
    "##Inf",
    "##NaN",
    "#inst \"2020-02-29\"",
    "#uuid \"1-1-1-1-1\"",
    "#:a{",
    "#foo",
    "\u{e9}",
    "\u{660}",
    "\u{85}",
    "\u{a0}",
    "\u{2003}",
    "\u{2028}",
    "\u{feff}",
    "\u{1f600}",
    "\u{ff11}",
    "\u{7f}",
    "\0",
    "\u{1c}",
    "\r",
];

/// `text` with one to three small changes.
pub fn mutate(random: &mut Random, text: &str) -> String {
    let mut chars: Vec<String> = text.chars().map(String::from).collect();
    for _ in 0..1 + random.below(3) {
        let at = random.below(chars.len() + 1);
        match random.below(4) {
            0 if at < chars.len() => {
                chars.remove(at);
            }
            1 if at < chars.len() => chars[at] = random.pick(PIECES).to_owned(),
            2 if at + 1 < chars.len() => chars.swap(at, at + 1),
            _ => chars.insert(at, random.pick(PIECES).to_owned()),
        }
    }
    chars.concat()
}

/// `value` in a notation that the oracle writes as well: the entries of maps and sets sorted, texts as the
/// digits of their UTF-16, integers beyond 64 bits or with `N` apart from the others.
pub fn dump(value: &Value<'_>) -> String {
    let hex = |text: &str| text.encode_utf16().map(|unit| format!("{unit:04x}")).collect::<String>();
    let all = |items: &[Value<'_>]| items.iter().map(dump).collect::<Vec<_>>().join(" ");
    match value {
        Value::Nil => "nil".into(),
        Value::Bool(truth) => truth.to_string(),
        Value::Int(number) => format!("i{number}"),
        Value::BigInt(number) => format!("n{number}"),
        Value::Float(number) if number.is_nan() => "fNaN".into(),
        Value::Float(number) => format!("f{:x}", number.to_bits()),
        Value::Decimal(number) => {
            let (digits, scale) = number.as_bigint_and_exponent();
            let digits = digits.to_string();
            let significant = digits.trim_end_matches('0');
            if significant.is_empty() || significant == "-" {
                return "d0e0".into();
            }
            format!("d{significant}e{}", (digits.len() - significant.len()) as i64 - scale)
        }
        Value::Ratio(ratio) => format!("r{}/{}", ratio.numerator(), ratio.denominator()),
        Value::Char(c) => format!("c{}", hex(&c.to_string())),
        Value::Str(text) => format!("s{}", hex(text)),
        Value::Keyword(name) => format!("k{}", hex(name)),
        Value::Symbol(name) => format!("y{}", hex(name)),
        Value::List(items) => format!("({})", all(items)),
        Value::Vector(items) => format!("[{}]", all(items)),
        Value::Map(map) => {
            let mut entries: Vec<String> =
                map.iter().map(|(k, v)| format!("{} {}", dump(k), dump(v))).collect();
            entries.sort();
            format!("{{{}}}", entries.join(" "))
        }
        Value::Set(set) => {
            let mut items: Vec<String> = set.iter().map(dump).collect();
            items.sort();
            format!("#{{{}}}", items.join(" "))
        }
        Value::Inst(inst) => format!("t{}", inst.millis()),
        Value::Uuid(uuid) => format!("u{uuid}"),
        Value::Tagged(tagged) => format!("#{} {}", hex(&tagged.tag), dump(&tagged.value)),
    }
}
