//! Bad lines, each with the answer that it has to get.
//!
//! What a line's answer is follows from how the line is made, except for bytes that are changed at random: of
//! those the codec and the catalogue are asked in this process, so that what is held against them is the bridge
//! around them. The codec itself is held against Clojure's own reader elsewhere (`src/edn/tests/oracle.rs`).

use edn_bridge::catalogue::{OPS, Op, Shape};
use edn_bridge::edn::limits::MAX_DIGITS;
use edn_bridge::limits::{MAX_DEPTH, MAX_FRAME_VALUES, MAX_LINE_BYTES};
use edn_bridge::value::Value;
use edn_bridge::wire::edn::decode::{self, Rejection};

use crate::support::Dice;

/// What a line is bad by. The words are those of the figure's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Mutated,
    WrongParams,
    AnyBytes,
    HugeNumber,
    Deep,
    InvalidUtf8,
    Nul,
    Half,
    HungUp,
    Flood,
    LongId,
    OverBound,
    AtBound,
    Endless,
    SmallValues,
}

impl Kind {
    /// Every kind, how it is called, and how many lines of it are sent at least, whatever the number of lines.
    pub const ALL: [(Kind, &'static str, usize); 15] = [
        (Kind::Mutated, "frames with changed, lost and added bytes", 100),
        (Kind::WrongParams, "params of another shape, for each op", 100),
        (Kind::AnyBytes, "bytes of any kind", 100),
        (Kind::HugeNumber, "huge numbers, of up to 16 MiB", 100),
        (Kind::Deep, "deep nesting, of up to 16 Mi brackets", 100),
        (Kind::InvalidUtf8, "invalid UTF-8", 100),
        (Kind::Nul, "NULs", 100),
        (Kind::Half, "half frames", 100),
        (Kind::HungUp, "half a frame and then the end of the connection", 20),
        (Kind::Flood, "requests in floods of 2,000", 20_000),
        (Kind::LongId, "ids and ops of a megabyte", 10),
        (Kind::OverBound, "lines over the bound of 16 MiB", 5),
        (Kind::AtBound, "lines of exactly 16 MiB", 5),
        (Kind::Endless, "100 MB without a line feed", 2),
        (Kind::SmallValues, "16 MiB full of small values", 30),
    ];
}

/// What has to come back for one line.
#[derive(Clone, Debug)]
pub enum Expected {
    /// The response to the request with that id.
    Response(String),
    /// That, or the refusal because too many are pending.
    ResponseOrFull(String),
    Refusal(Refusal),
}

/// An error frame. What is none here has to be missing there, but for the last three.
#[derive(Clone, Debug, Default)]
pub struct Refusal {
    pub code: String,
    pub id: Option<String>,
    pub op: Option<String>,
    /// `:data :reason`, where it is known
    pub reason: Option<String>,
    /// `:data :offset`, where it is known
    pub offset: Option<usize>,
    /// What the message, or `:data :key`, says of this line and no other
    pub says: Option<String>,
}

/// The bytes of a line, or of several, with their line feeds.
#[derive(Clone, Debug)]
pub enum Bytes {
    Plain(Vec<u8>),
    /// `head`, then `fill` over and over for so many bytes, then `tail`.
    Filled {
        head: Vec<u8>,
        fill: &'static [u8],
        length: usize,
        tail: Vec<u8>,
    },
}

impl Bytes {
    pub fn len(&self) -> usize {
        match self {
            Bytes::Plain(bytes) => bytes.len(),
            Bytes::Filled { head, length, tail, .. } => head.len() + length + tail.len(),
        }
    }
}

/// What is sent together, and its answers: in the order of the lines, unless it is a flood.
#[derive(Clone, Debug)]
pub struct Step {
    pub kind: Kind,
    pub bytes: Bytes,
    pub expected: Vec<Expected>,
}

/// Everything that is sent, in its order: about `wanted` lines, and among them what is large.
pub fn plan(dice: &mut Dice, wanted: usize) -> Vec<Step> {
    let mut large = large();
    for at in (1..large.len()).rev() {
        large.swap(at, dice.below(at + 1));
    }
    let small = wanted.saturating_sub(large.iter().map(|step| step.expected.len()).sum()).max(2_000);
    let apart = small / large.len();
    let mut steps = Vec::new();
    for call in 0..small {
        steps.push(small_line(dice, call));
        if call % apart == apart - 1 {
            steps.extend(large.pop());
        }
    }
    steps.extend(large);
    steps
}

/// The steps in so many parts, each with about as many of the steps.
pub fn parts(steps: &[Step], count: usize) -> impl Iterator<Item = &[Step]> {
    steps.chunks(steps.len().div_ceil(count))
}

/// The same number of well-formed requests, as long as the lines of `steps` as far as a request can be.
pub fn well_formed(steps: &[Step]) -> Vec<Step> {
    let mut count = 0;
    let mut step = |length: usize| {
        count += 1;
        let head = format!("{{:id \"w{count}\" :kind :request :op \"ping\"").into_bytes();
        let length = length.min(MAX_LINE_BYTES + 1).saturating_sub(head.len() + 2);
        Step {
            kind: Kind::AtBound,
            bytes: Bytes::Filled { head, fill: b" ", length, tail: b"}\n".to_vec() },
            expected: vec![Expected::Response(format!("w{count}"))],
        }
    };
    steps
        .iter()
        .filter(|step| step.kind != Kind::HungUp)
        .flat_map(|step| {
            let (lines, length) = (step.expected.len(), step.bytes.len());
            let lines = lines.max(length / MAX_LINE_BYTES);
            std::iter::repeat_n(length / lines, lines)
        })
        .map(&mut step)
        .collect()
}

/// A line that is not long; `call` is how many there were before it.
fn small_line(dice: &mut Dice, call: usize) -> Step {
    let id = format!("n{call}");
    match call % 8 {
        0 => wrong_params(&id, call / 8),
        1 => any_bytes(dice),
        2 => huge_number(dice, &id),
        3 => deep(dice, &id),
        4 => invalid_utf8(dice),
        5 => nuls(dice, &id),
        6 => half(dice, &id),
        _ => mutated(dice, &id),
    }
}

fn line(kind: Kind, mut bytes: Vec<u8>, expected: Expected) -> Step {
    bytes.push(b'\n');
    Step { kind, bytes: Bytes::Plain(bytes), expected: vec![expected] }
}

fn ping(id: &str, params: &str) -> String {
    format!("{{:id {id:?} :kind :request :op \"ping\" :params {params}}}")
}

fn invalid_frame(reason: &str, offset: usize) -> Expected {
    Expected::Refusal(Refusal {
        code: "transport/invalid-frame".to_owned(),
        reason: Some(reason.to_owned()),
        offset: Some(offset),
        ..Refusal::default()
    })
}

fn invalid_params(id: &str, op: &str, key: &str) -> Expected {
    Expected::Refusal(Refusal {
        code: "request/invalid-params".to_owned(),
        id: Some(id.to_owned()),
        op: Some(op.to_owned()),
        says: Some(key.to_owned()),
        ..Refusal::default()
    })
}

/// The first param of an op has a shape that none takes.
fn wrong_params(id: &str, call: usize) -> Step {
    let fitting = |param: &&edn_bridge::catalogue::Param| !matches!(param.shape, Shape::Any);
    let ops: Vec<_> = OPS.iter().filter(|spec| spec.params.first().as_ref().is_some_and(fitting)).collect();
    let spec = ops[call % ops.len()];
    let key = spec.params[0].key;
    let text = format!("{{:id {id:?} :kind :request :op {:?} :params {{:{key} #{{:wrong}}}}}}", spec.name);
    line(Kind::WrongParams, text.into_bytes(), invalid_params(id, spec.name, key))
}

fn any_bytes(dice: &mut Dice) -> Step {
    let bytes: Vec<u8> = dice.bytes(200).into_iter().filter(|byte| *byte != b'\n').collect();
    let expected = foretold(&bytes).expect("chance writes no request");
    line(Kind::AnyBytes, bytes, expected)
}

/// Digits that the codec takes and the op does not, and more than the codec takes.
fn huge_number(dice: &mut Dice, id: &str) -> Step {
    let digits = [20, 400, MAX_DIGITS, MAX_DIGITS + 1, 20_000][dice.below(5)];
    let head = format!("{{:id {id:?} :kind :request :op \"get_messages\" :params {{:limit ");
    let expected = match digits > MAX_DIGITS {
        true => invalid_frame("too-large", head.len()),
        false => invalid_params(id, "get_messages", "limit"),
    };
    line(Kind::HugeNumber, format!("{head}{}}}}}", "9".repeat(digits)).into_bytes(), expected)
}

fn deep(dice: &mut Dice, id: &str) -> Step {
    let levels = MAX_DEPTH - 3 + dice.below(5);
    if dice.below(2) == 0 {
        let text = "[".repeat(levels);
        let expected = match levels > MAX_DEPTH {
            true => invalid_frame("too-deep", MAX_DEPTH),
            false => invalid_frame("unexpected-end", levels),
        };
        return line(Kind::Deep, text.into_bytes(), expected);
    }
    // Two maps are around them.
    let inner = levels - 2;
    let text = ping(id, &format!("{{:x {}{}}}", "[".repeat(inner), "]".repeat(inner)));
    let first = text.find('[').expect("it is there");
    let expected = match levels > MAX_DEPTH {
        true => invalid_frame("too-deep", first + MAX_DEPTH - 2),
        false => Expected::Response(id.to_owned()),
    };
    line(Kind::Deep, text.into_bytes(), expected)
}

fn invalid_utf8(dice: &mut Dice) -> Step {
    const WRONG: [&[u8]; 5] = [b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\x80"];
    let mut bytes = ping("é".repeat(dice.below(20)).as_str(), "{:text \"λ\"}").into_bytes();
    // Inside the op, where it is a string's and the frame is whole up to it.
    let at = memchr::memmem::find(&bytes, b"ping").expect("it is there") + dice.below(5);
    bytes.splice(at..at, WRONG[dice.below(WRONG.len())].iter().copied());
    line(Kind::InvalidUtf8, bytes, invalid_frame("invalid-utf8", at))
}

/// A NUL is a character like others to EDN: alone it is a symbol, in a string a part of it.
fn nuls(dice: &mut Dice, id: &str) -> Step {
    let nuls = "\0".repeat(dice.below(90) + 1);
    match dice.below(3) {
        0 => {
            let code = "protocol/invalid-envelope".to_owned();
            let says = Some("not symbol".to_owned());
            let expected = Expected::Refusal(Refusal { code, says, ..Refusal::default() });
            line(Kind::Nul, nuls.into_bytes(), expected)
        }
        1 => {
            let id = format!("{id}{nuls}");
            let text = format!("{{:id \"{id}\" :kind :request :op \"ping\"}}");
            line(Kind::Nul, text.into_bytes(), Expected::Response(id))
        }
        _ => {
            let text = ping(id, "{}");
            let expected = invalid_frame("extra-form", text.len());
            line(Kind::Nul, format!("{text}{nuls}").into_bytes(), expected)
        }
    }
}

/// A frame that is cut inside a string, where only what is missing is wrong.
fn half(dice: &mut Dice, id: &str) -> Step {
    let text = ping(id, "{:text \"some words\"}");
    let at = [":op \"", ":text \""][dice.below(2)];
    let end = text.find(at).expect("it is there") + at.len() + dice.below(5);
    let expected = invalid_frame("unexpected-end", end);
    line(Kind::Half, text.as_bytes()[..end].to_vec(), expected)
}

/// A good frame with up to three bytes changed, lost, added or cut off.
fn mutated(dice: &mut Dice, id: &str) -> Step {
    const TELLING: &[u8] = b"\"\\{}[]()#_;:,^ @0Nr/.-+\0\x80\xff";
    loop {
        let text = match dice.below(3) {
            0 => format!("{{:id {id:?} :kind :request :op \"get_state\"}}"),
            1 => ping(id, "{}"),
            _ => {
                ping(id, "{:text \"é \\\"quoted\\\" \\u0041\" :n [1 2.5 3N 4M #{:a nil} (true \\c)] :s x/y}")
            }
        };
        let mut bytes = text.into_bytes();
        for _ in 0..dice.below(3) + 1 {
            let at = dice.below(bytes.len().max(1));
            let byte = match dice.below(2) {
                0 => TELLING[dice.below(TELLING.len())],
                _ => dice.roll() as u8,
            };
            match dice.below(8) {
                3..5 => bytes.insert(at, byte),
                _ if bytes.is_empty() => {}
                0..3 => bytes[at] = byte,
                5..7 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        if bytes.contains(&b'\n') {
            continue;
        }
        if let Some(expected) = foretold(&bytes) {
            return line(Kind::Mutated, bytes, expected);
        }
    }
}

/// What the line of another connection, which ends within it, is answered with.
pub fn unterminated(length: usize) -> Expected {
    invalid_frame("unterminated-line", length)
}

/// What the codec and the catalogue say of a line; none where it asks for something that the bridge would do.
fn foretold(line: &[u8]) -> Option<Expected> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let refused = |rejection: Rejection| {
        let data = |key| rejection.data.as_ref().and_then(|data| data.get_keyword(key).cloned());
        Some(Expected::Refusal(Refusal {
            code: rejection.code.as_str().to_owned(),
            reason: data("reason").as_ref().and_then(Value::as_str).map(str::to_owned),
            offset: data("offset").as_ref().and_then(Value::as_i64).and_then(|at| at.try_into().ok()),
            id: rejection.id.clone(),
            op: rejection.op.clone(),
            says: Some(rejection.message.clone()),
        }))
    };
    let form = match decode::read(line, |_| false) {
        Ok(form) => form,
        Err(rejection) => return refused(rejection),
    };
    let request = match decode::request(&form, |_| false) {
        Ok(request) => request,
        Err(rejection) => return refused(rejection),
    };
    let id = request.id.to_string();
    match Op::parse(request.op) {
        None => Some(Expected::Refusal(Refusal {
            code: "request/op-not-supported".to_owned(),
            id: Some(id),
            op: Some(request.op.to_owned()),
            ..Refusal::default()
        })),
        Some(op @ (Op::Ping | Op::GetState)) => match op.spec().check(&request.params) {
            Err(invalid) => Some(invalid_params(&id, op.spec().name, &invalid.key)),
            Ok(()) => Some(Expected::Response(id)),
        },
        Some(_) => None,
    }
}

/// What is long, or many: rare among the lines, and most of the bytes.
fn large() -> Vec<Step> {
    let mut steps = Vec::new();
    for n in 0..5 {
        steps.extend([over_bound(n, MAX_LINE_BYTES + 1 + n, Kind::OverBound), at_bound(n)]);
        steps.extend([long_id(n), long_op(n), at_most_values(n)]);
        steps.extend([brackets(n), digits(n)]);
        steps.extend([flood(n, "ping", ""), flood(n, "set_session_name", ":name \"flooded\"")]);
    }
    for n in 0..2 {
        steps.push(over_bound(n, 100_000_000 + n, Kind::Endless));
        steps.extend(SMALL_VALUES.iter().enumerate().map(|(at, fill)| small_values(n * 100 + at, fill)));
    }
    steps.extend((0..20).map(|n| {
        let text = format!("{{:id \"gone{n}\" :kind :request :op \"pi");
        let expected = vec![unterminated(text.len())];
        Step { kind: Kind::HungUp, bytes: Bytes::Plain(text.into_bytes()), expected }
    }));
    steps
}

fn filled(
    kind: Kind,
    head: String,
    fill: &'static str,
    length: usize,
    tail: &str,
    expected: Expected,
) -> Step {
    let (head, fill, tail) = (head.into_bytes(), fill.as_bytes(), format!("{tail}\n").into_bytes());
    Step { kind, bytes: Bytes::Filled { head, fill, length, tail }, expected: vec![expected] }
}

fn over_bound(_: usize, length: usize, kind: Kind) -> Step {
    let mut expected = invalid_frame("line-too-long", MAX_LINE_BYTES);
    if let Expected::Refusal(refusal) = &mut expected {
        refusal.says = Some(format!(" {length} bytes"));
    }
    filled(kind, String::new(), "x", length, "", expected)
}

fn at_bound(n: usize) -> Step {
    let id = format!("whole{n}");
    let (head, tail) = (format!("{{:id {id:?} :kind :request :op \"ping\" :params {{:text \""), "\"}}");
    let length = MAX_LINE_BYTES - head.len() - tail.len();
    filled(Kind::AtBound, head, "word ", length, tail, Expected::Response(id))
}

fn long_id(n: usize) -> Step {
    let length = (1 << 20) + n;
    let expected = Expected::Refusal(Refusal {
        code: "request/invalid-id".to_owned(),
        op: Some("ping".to_owned()),
        says: Some(format!(" {length} bytes")),
        ..Refusal::default()
    });
    filled(Kind::LongId, "{:id \"".to_owned(), "i", length, "\" :kind :request :op \"ping\"}", expected)
}

fn long_op(n: usize) -> Step {
    let id = format!("op{n}");
    let head = format!("{{:id {id:?} :kind :request :op \"");
    let (code, op) = ("request/op-not-supported".to_owned(), Some("o".repeat((1 << 20) + n)));
    let expected = Expected::Refusal(Refusal { code, id: Some(id), op, ..Refusal::default() });
    filled(Kind::LongId, head, "o", (1 << 20) + n, "\"}", expected)
}

fn brackets(n: usize) -> Step {
    let length = [1 << 20, MAX_LINE_BYTES][n % 2];
    filled(Kind::Deep, String::new(), "[", length, "", invalid_frame("too-deep", MAX_DEPTH))
}

fn digits(n: usize) -> Step {
    let length = [1 << 20, MAX_LINE_BYTES][n % 2];
    filled(Kind::HugeNumber, String::new(), "7", length, "", invalid_frame("too-large", 0))
}

/// What takes the most memory and work for its bytes.
const SMALL_VALUES: [&str; 15] = [
    "1N ", "1.5M ", "{1 1}", "[1]", "[] ", "{} ", "#{1}", "\"\" ", ":a ", "1 ", "1/2 ", "#a 1 ", "#_1 ",
    "^a[]", "\"\\n\"",
];

fn small_values(n: usize, fill: &'static str) -> Step {
    let id = format!("values{n}");
    let (head, tail) = (format!("{{:id {id:?} :kind :request :op \"ping\" :params {{:x ["), "]}}");
    let length = (MAX_LINE_BYTES - head.len() - tail.len()) / fill.len() * fill.len();
    let expected = Expected::Refusal(Refusal {
        code: "transport/invalid-frame".to_owned(),
        id: Some(id),
        op: Some("ping".to_owned()),
        reason: Some("too-many-values".to_owned()),
        ..Refusal::default()
    });
    filled(Kind::SmallValues, head, fill, length, tail, expected)
}

/// As many values as are taken: those that say that it is a request, and numbers.
fn at_most_values(n: usize) -> Step {
    let id = format!("most{n}");
    let head = format!("{{:id {id:?} :kind :request :op \"ping\" :params {{:x [");
    let length = (MAX_FRAME_VALUES - 10) * 3;
    filled(Kind::AtBound, head, "1N ", length, "]}}", Expected::Response(id))
}

fn flood(n: usize, op: &str, params: &str) -> Step {
    const REQUESTS: usize = 2_000;
    let ids = (0..REQUESTS).map(|at| format!("flood-{op}-{n}-{at}"));
    let (mut bytes, mut expected) = (Vec::new(), Vec::new());
    for id in ids {
        bytes.extend_from_slice(
            format!("{{:id {id:?} :kind :request :op {op:?} :params {{{params}}}}}\n").as_bytes(),
        );
        expected.push(match op {
            // Answered before the next line is looked at, so that it never waits.
            "ping" => Expected::Response(id),
            _ => Expected::ResponseOrFull(id),
        });
    }
    Step { kind: Kind::Flood, bytes: Bytes::Plain(bytes), expected }
}
