//! The data to read and write: generated, identical in every run, and the files of `EDN_DATA`.

use std::fmt::Write as _;

use crate::Row;

const WORDS: [&str; 24] = [
    "the", "reader", "takes", "every", "form", "and", "gives", "back", "a", "value", "that", "keeps", "what",
    "was", "written", "while", "nothing", "waits", "for", "long", "in", "between", "two", "frames",
];

/// Numbers that are identical in every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
    fn words(&mut self, count: u64) -> String {
        let words: Vec<&str> = (0..count).map(|_| WORDS[(self.next() % 24) as usize]).collect();
        words.join(" ")
    }
    fn id(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-7{:03x}-a{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xFFFF,
            high & 0xFFF,
            low >> 52,
            low & 0xFFFF_FFFF_FFFF
        )
    }
}

pub fn rows() -> Vec<Row> {
    let mut rows = vec![frames(), rehydration(), nested()];
    if let Ok(folder) = std::env::var("EDN_DATA") {
        let mut files: Vec<_> =
            std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
        files.sort();
        for path in files.into_iter().filter(|path| path.extension().is_some_and(|it| it == "edn")) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = name.rsplit("__").next().unwrap_or_default().chars().take(20).collect();
            // A file of many forms is read form by form, because not all readers support several.
            let (mut edn, mut texts, mut start) = (Vec::new(), Vec::new(), 0);
            let mut reader = edn_bridge::edn::Reader::with(
                text.as_bytes(),
                edn_bridge::edn::Options { max_bytes: usize::MAX, ..Default::default() },
            );
            while let Some(Ok(value)) = reader.next() {
                edn.push(text[start..reader.offset()].to_owned());
                texts.push(json(&value));
                start = reader.offset();
            }
            rows.push(Row { name, edn, json: texts });
        }
    }
    rows
}

/// 20,000 event frames of about 190 bytes.
fn frames() -> Row {
    let mut random = Random(7);
    let (mut edn, mut json) = (Vec::new(), Vec::new());
    let session = random.id();
    for seq in 1..=20_000 {
        let count = 2 + random.below(3);
        let text = random.words(count);
        let ts = format!("2026-01-31T12:{:02}:{:02}.{:03}Z", seq / 1000 % 60, seq / 17 % 60, seq % 1000);
        edn.push(format!(
            r#"{{:kind :event :event "assistant/delta" :data {{:session-id "{session}" :offset {} :text " {text}"}} :id "req-{}" :seq {seq} :ts "{ts}"}}"#,
            seq * 3, seq / 500,
        ));
        json.push(format!(
            r#"{{"kind":"event","event":"assistant/delta","data":{{"session-id":"{session}","offset":{},"text":" {text}"}},"id":"req-{}","seq":{seq},"ts":"{ts}"}}"#,
            seq * 3, seq / 500,
        ));
    }
    Row { name: "frames".into(), edn, json }
}

/// 20,000 lines of requests.
pub fn requests() -> Vec<String> {
    let mut random = Random(17);
    let session = random.id();
    let line = |at: u64| {
        let count = 4 + random.below(20);
        let text = random.words(count);
        format!(
            r#"{{:id "req-{at}" :kind :request :op "prompt" :params {{:session-id "{session}" :message "{text}"}}}}"#
        )
    };
    (0..20_000).map(line).collect()
}

/// One frame of 1 MB for a resumed session: messages, tool calls and their output.
fn rehydration() -> Row {
    let mut random = Random(11);
    let (mut edn, mut json) = (String::new(), String::new());
    let text = |random: &mut Random| {
        let lines = 1 + random.below(8);
        (0..lines)
            .map(|_| {
                let n = 4 + random.below(12);
                random.words(n)
            })
            .collect::<Vec<_>>()
            .join(r"\n")
    };
    let session = random.id();
    let _ = write!(
        edn,
        r#"{{:kind :event :event "session/rehydrated" :data {{:session-id "{session}" :messages ["#
    );
    let _ = write!(
        json,
        r#"{{"kind":"event","event":"session/rehydrated","data":{{"session-id":"{session}","messages":["#
    );
    let mut parent = random.id();
    let mut turn = 0;
    while edn.len() < 1_000_000 {
        let id = random.id();
        let (role, body) = match turn % 3 {
            0 => ("user", text(&mut random)),
            1 => ("assistant", text(&mut random)),
            _ => ("tool", text(&mut random)),
        };
        let comma = if turn > 0 { "," } else { "" };
        let _ = write!(
            edn,
            r#"{{:id "{id}" :parent-id "{parent}" :role "{role}" :content [{{:type :text :text "{body}"}} {{:type :tool-call :id "call-{turn}" :name "read" :arguments {{:path "src/{turn}.rs" :limit {}}}}}] :timestamp "2026-01-31T12:00:00Z" :usage {{:input {} :output {}}} :is-error false}} "#,
            random.below(2000),
            random.below(100_000),
            random.below(4000),
        );
        let _ = write!(
            json,
            r#"{comma}{{"id":"{id}","parent-id":"{parent}","role":"{role}","content":[{{"type":"text","text":"{body}"}},{{"type":"tool-call","id":"call-{turn}","name":"read","arguments":{{"path":"src/{turn}.rs","limit":{}}}}}],"timestamp":"2026-01-31T12:00:00Z","usage":{{"input":{},"output":{}}},"is-error":false}}"#,
            random.below(2000),
            random.below(100_000),
            random.below(4000),
        );
        parent = id;
        turn += 1;
    }
    edn.push_str("] :tool-calls {} :tool-order []} :seq 1}");
    json.push_str(r#"],"tool-calls":{},"tool-order":[]},"seq":1}"#);
    Row { name: "rehydration".into(), edn: vec![edn], json: vec![json] }
}

/// 2 MB of nested small collections, including sets.
fn nested() -> Row {
    let mut random = Random(13);
    let (mut edn, mut json) = ("[".to_owned(), "[".to_owned());
    while edn.len() < 2_000_000 {
        if json.len() > 1 {
            json.push(',');
        }
        tree(&mut random, 5, &mut edn, &mut json);
        edn.push('\n');
    }
    edn.push(']');
    json.push(']');
    Row { name: "nested".into(), edn: vec![edn], json: vec![json] }
}

fn tree(random: &mut Random, depth: u64, edn: &mut String, json: &mut String) {
    let count = 2 + random.below(4);
    let shape = if depth == 0 { 3 + random.below(5) } else { random.below(3) };
    match shape {
        0 => {
            edn.push('{');
            json.push('{');
            for at in 0..count {
                let word = WORDS[random.below(24) as usize];
                let _ = write!(edn, "{}:{word}-{at} ", if at > 0 { ", " } else { "" });
                let _ = write!(json, "{}\"{word}-{at}\":", if at > 0 { "," } else { "" });
                tree(random, depth - 1, edn, json);
            }
            edn.push('}');
            json.push('}');
        }
        1 => {
            edn.push('[');
            json.push('[');
            for at in 0..count {
                if at > 0 {
                    edn.push(' ');
                    json.push(',');
                }
                tree(random, depth - 1, edn, json);
            }
            edn.push(']');
            json.push(']');
        }
        2 => {
            edn.push_str("#{");
            json.push('[');
            for at in 0..count {
                if at > 0 {
                    edn.push(' ');
                    json.push(',');
                }
                let number = at * 1000 + random.below(1000);
                let _ = write!(edn, "{number}");
                let _ = write!(json, "{number}");
            }
            edn.push('}');
            json.push(']');
        }
        3 => {
            let word = random.words(2);
            let _ = write!(edn, "\"{word}\"");
            let _ = write!(json, "\"{word}\"");
        }
        4 => {
            let number = random.below(1_000_000);
            let _ = write!(edn, "{number}");
            let _ = write!(json, "{number}");
        }
        5 => {
            let number = random.below(1_000_000) as f64 / 64.0;
            let _ = write!(edn, "{number:?}");
            let _ = write!(json, "{number:?}");
        }
        6 => {
            let word = WORDS[random.below(24) as usize];
            let _ = write!(edn, ":{word}");
            let _ = write!(json, "\"{word}\"");
        }
        _ => {
            edn.push_str("nil");
            json.push_str("null");
        }
    }
}

/// A value as JSON. Keys, and values that JSON lacks, become strings.
fn json(value: &edn_bridge::value::Value<'_>) -> String {
    use edn_bridge::value::Value;
    let quoted = |text: &str| serde_json::to_string(text).unwrap_or_default();
    let all = |items: &mut dyn Iterator<Item = &Value<'_>>| items.map(json).collect::<Vec<_>>().join(",");
    match value {
        Value::Nil => "null".into(),
        Value::Bool(_) | Value::Int(_) => value.to_string(),
        Value::Float(number) if number.is_finite() => value.to_string(),
        Value::Str(text) | Value::Keyword(text) => quoted(text),
        Value::List(items) | Value::Vector(items) => format!("[{}]", all(&mut items.iter())),
        Value::Set(set) => format!("[{}]", all(&mut set.iter())),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| {
                let key = key.as_str().or(key.as_keyword()).map_or_else(|| key.to_string(), str::to_owned);
                format!("{}:{}", quoted(&key), json(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
        }
        other => quoted(&other.to_string()),
    }
}
