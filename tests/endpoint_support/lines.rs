//! Lines for an endpoint from a string of bytes: mostly requests, many of them slightly wrong.
//!
//! The bytes are choices. A fuzzer that changes one changes one part of a line, and all bytes give an input,
//! so that no attempt is wasted.

use edn_bridge::catalogue::{FEATURES, OPS, Shape, TOPICS};

/// Choices, one byte each; zeros at the end.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn next(&mut self) -> usize {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                usize::from(*first)
            }
            None => 0,
        }
    }

    fn of<'t, T: ?Sized>(&mut self, from: &[&'t T]) -> &'t T {
        from[self.next() % from.len()]
    }

    /// True once in `times`.
    fn once_in(&mut self, times: usize) -> bool {
        self.next() % times == 1
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let count = self.next() % (most + 1);
        (0..count).map(|_| u8::try_from(self.next()).unwrap_or(0)).collect()
    }
}

/// A whole input: usually a handshake, then lines until the choices end.
pub fn input(choices: &[u8]) -> Vec<u8> {
    let mut choices = Choices(choices);
    let mut out = Vec::new();
    if !choices.once_in(8) {
        handshake(&mut choices, "h", &mut out);
        out.push(b'\n');
    }
    while !choices.0.is_empty() {
        line(&mut choices, &mut out);
    }
    if choices.next() == 0 && out.len() % 7 == 3 {
        // The input ends within a line.
        out.pop();
    }
    out
}

fn handshake(choices: &mut Choices<'_>, id: &str, out: &mut Vec<u8>) {
    let version = choices.of(&["1.0", "1.0", "1.0", "1.0", "1", "1.9", "2.0", "x", ""]);
    let names: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).filter(|_| choices.once_in(2)).collect();
    out.extend_from_slice(
        format!(
            "{{:id {id:?} :kind :request :op \"handshake\" :params {{:client-info {{:name \"f\" \
             :version \"1\" :protocol-version {version:?} :features {names:?}}}}}}}"
        )
        .replace("\", \"", "\" \"")
        .as_bytes(),
    );
}

fn line(choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    match choices.next() % 16 {
        // Bytes of any kind.
        0 => out.extend(choices.bytes(64)),
        1 => out.extend_from_slice(odd(choices).as_bytes()),
        2 => handshake(choices, "h2", out),
        _ => request(choices, out),
    }
    // A part is changed, doubled or removed.
    if choices.once_in(6) && out.len() > start {
        let at = start + choices.next() * 7 % (out.len() - start);
        match choices.next() % 4 {
            0 => out[at] = u8::try_from(choices.next()).unwrap_or(0),
            1 => out.insert(at, u8::try_from(choices.next()).unwrap_or(0)),
            2 => drop(out.remove(at)),
            _ => out.truncate(at),
        }
    }
    if choices.once_in(10) {
        out.push(b'\r');
    }
    out.push(b'\n');
}

fn request(choices: &mut Choices<'_>, out: &mut Vec<u8>) {
    // Few ids, so that some are still pending when they repeat.
    let id = match choices.next() % 24 {
        0 => odd(choices),
        1 => format!("{:?}", "i".repeat(choices.next() * 20)),
        n => format!("\"n{}\"", n % 12),
    };
    let spec = &OPS[choices.next() % OPS.len()];
    let op = match choices.next() % 24 {
        0 => odd(choices),
        1 => "\"no_such_op\"".to_owned(),
        _ => format!("{:?}", spec.name),
    };
    let mut params = String::new();
    for param in spec.params {
        if param.required || choices.once_in(3) {
            params.push_str(&format!(":{} {} ", param.key, value(choices, param.shape, param.key)));
        }
    }
    if choices.once_in(8) {
        params.push_str(&format!(":session-id {:?} ", choices.of(&["s", "other", ""])));
    }
    if choices.once_in(16) {
        params.push_str(&format!(":more {} ", odd(choices)));
    }
    let mut parts = vec![
        format!(":id {id}"),
        ":kind :request".to_owned(),
        format!(":op {op}"),
        format!(":params {{{params}}}"),
    ];
    match choices.next() % 24 {
        0 => drop(parts.remove(choices.next() % parts.len())),
        1 => parts.push(format!(":extra {}", odd(choices))),
        2 => parts[1] = format!(":kind {}", odd(choices)),
        3 => parts[3] = format!(":params {}", odd(choices)),
        4 => parts.reverse(),
        _ => {}
    }
    out.extend_from_slice(format!("{{{}}}", parts.join(" ")).as_bytes());
}

fn value(choices: &mut Choices<'_>, shape: Shape, key: &str) -> String {
    if choices.once_in(12) {
        return odd(choices);
    }
    let text = |choices: &mut Choices<'_>| {
        choices
            .of(&["hello", "/help", "a \\\"b\\\" \\n c", "é 日本 🦀", "[:psi.agent-session/phase]", "x"])
            .to_owned()
    };
    match shape {
        Shape::Text | Shape::Filled | Shape::Name | Shape::Any | Shape::DialogResult => {
            format!("\"{}\"", text(choices))
        }
        Shape::Count => choices.next().to_string(),
        Shape::Flag => choices.once_in(2).to_string(),
        Shape::Map if key == "client-info" => {
            "{:name \"f\" :version \"1\" :protocol-version \"1.0\"}".to_owned()
        }
        Shape::Map => "{:a 1}".to_owned(),
        Shape::Texts => {
            let count = choices.next() % 4;
            let names: Vec<String> =
                (0..count).map(|_| format!("{:?}", TOPICS[choices.next() % TOPICS.len()].name)).collect();
            format!("[{}]", names.join(" "))
        }
        Shape::Maps => "[{:mime-type \"image/png\" :data \"AA==\"}]".to_owned(),
        Shape::Level => choices.of(&["\"high\"", ":low", "3", "9"]).to_owned(),
        Shape::OneOf(names) => format!("{:?}", choices.of(names)),
    }
}

/// A form that is rarely valid.
fn odd(choices: &mut Choices<'_>) -> String {
    choices
        .of(&[
            "nil",
            "true",
            ":request",
            "\"\"",
            "[]",
            "{}",
            "#{}",
            "()",
            "-1",
            "99999999999999999999",
            "1.5",
            "\\a",
            "#inst \"2020-01-01T00:00:00Z\"",
            "##NaN",
            "{:a 1 :a 2}",
            "[[[[[[[[[[]]]]]]]]]]",
            "\"\\u0000\"",
            "; comment",
            "#_ 1",
            "{} {}",
            "\"open",
            "}",
        ])
        .to_owned()
}
