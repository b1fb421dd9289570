//! Judges requests to models by the rules that their servers publish, and refuses in the servers' words.
//!
//! The rules are data, in `tests/data/request-rules.edn`. They do not come from the program's own table of what a target
//! takes, so that a wrong row of it is found.

mod pieces;
mod shape;

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use base64::Engine as _;
use edn_bridge::message::image;
use edn_bridge::value::Value;
use regex_automata::meta::Regex;
use serde_json::{Value as Json, json};

use super::server::{Answer, Asked};
use pieces::{Kind, Piece};
use shape::{Misfit, MisfitKind, Shapes};

/// A request that its server refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The protocol.
    pub api: &'static str,
    /// The check that found it; `shape` for one of the types.
    pub check: String,
    /// The server's message.
    pub says: String,
}

impl Refusal {
    /// The server's answer.
    pub fn answer(&self) -> Answer {
        let body = match self.api {
            "anthropic" => {
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": self.says}})
            }
            "gemini" => json!({"error": {"code": 400, "message": self.says, "status": "INVALID_ARGUMENT"}}),
            _ => json!({"error": {"message": self.says, "type": "invalid_request_error"}}),
        };
        Answer::json(400, &body.to_string())
    }
}

/// Judges a request to a model; any other is allowed. The provider's name tells the rules of its own.
///
/// # Errors
/// The first rule that it breaks.
pub fn judge(asked: &Asked, provider: &str) -> Result<(), Refusal> {
    let path = asked.path.split('?').next().unwrap_or_default();
    let api = match path {
        _ if asked.method != "POST" => return Ok(()),
        path if path.ends_with("/chat/completions") => "openai",
        path if path.ends_with("/responses") => "openai-responses",
        path if path.ends_with("/v1/messages") => "anthropic",
        path if path.ends_with(":streamGenerateContent") => "gemini",
        _ => return Ok(()),
    };
    let body = asked.json();
    let model = match api {
        "gemini" => path.rsplit('/').next().unwrap_or_default().split(':').next().unwrap_or_default(),
        _ => body.get("model").and_then(Json::as_str).unwrap_or_default(),
    };
    judge_body(api, provider, model, &body)
}

/// A row of the table.
#[derive(Debug)]
struct Rule {
    check: String,
    apis: Vec<String>,
    at: Vec<String>,
    not_at: Vec<String>,
    models: Vec<String>,
    /// The place of a field that the request has.
    field_of_body: Option<String>,
    pattern: Option<Regex>,
    most: usize,
    many: usize,
    /// Words: roles, types, or the name of a field.
    words: Vec<String>,
    says: String,
    /// A request that breaks it, without its model.
    refused: Json,
}

struct Table {
    shapes: Shapes,
    rules: Vec<Rule>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let text = include_str!("../data/request-rules.edn");
    let table = edn_bridge::edn::read_one(text.as_bytes()).unwrap();
    let rules = table.get("rules").and_then(Value::as_slice).unwrap();
    Table { shapes: Shapes::read(table.get("shapes").unwrap()), rules: rules.iter().map(rule).collect() }
});

fn rule(row: &Value<'_>) -> Rule {
    const KEYS: [&str; 16] = [
        "check", "api", "at", "not-at", "model", "body", "pattern", "most", "many", "roles", "types",
        "field", "says", "refused", "images", "image-of",
    ];
    for (key, _) in row.as_map().unwrap().iter() {
        let key = key.as_keyword().unwrap();
        assert!(KEYS.contains(&key) || key == "image-side", "no setting :{key}");
    }
    let text = |key: &str| row.get(key).and_then(Value::as_str).map(str::to_owned);
    let texts = |key: &str| -> Vec<String> {
        let listed = row.get(key).and_then(Value::as_slice).unwrap_or_default().iter();
        listed.map(|word| word.as_keyword().or(word.as_str()).unwrap().to_owned()).collect()
    };
    let count = |key: &str| row.get(key).and_then(Value::as_i64).map(|count| usize::try_from(count).unwrap());
    let apis = texts("api");
    let refused = match text("refused") {
        Some(text) => serde_json::from_str(&text).unwrap(),
        None => with_images(
            &apis[0],
            count("images").unwrap_or(1),
            count("image-side").unwrap_or(8),
            count("image-of").unwrap_or(0),
        ),
    };
    Rule {
        check: row.get("check").and_then(Value::as_keyword).unwrap().to_owned(),
        apis,
        at: texts("at"),
        not_at: texts("not-at"),
        models: texts("model"),
        field_of_body: text("body"),
        pattern: text("pattern").map(|pattern| Regex::new(&pattern).unwrap()),
        most: count("most").unwrap_or(0),
        many: count("many").unwrap_or(0),
        words: [texts("roles"), texts("types"), text("field").into_iter().collect()].concat(),
        says: text("says").unwrap(),
        refused,
    }
}

/// The base64 of the head of a PNG with such sides, padded to a size.
pub fn png(side: usize, size: usize) -> String {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    let side = u32::try_from(side).unwrap().to_be_bytes();
    bytes.extend([side, side].concat());
    bytes.resize(bytes.len().max(size / 4 * 3), 0);
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

/// A request with that many images of the user.
fn with_images(api: &str, count: usize, side: usize, size: usize) -> Json {
    let data = png(side, size);
    let image = match api {
        "anthropic" => {
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}})
        }
        _ => json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}}),
    };
    json!({"messages": [{"role": "user", "content": vec![image; count]}]})
}

impl Rule {
    fn is_for(&self, api: &str, provider: &str, model: &str, body: &Json) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == provider);
        self.apis.iter().any(|known| known == api)
            && (self.at.is_empty() || named(&self.at))
            && !named(&self.not_at)
            && (self.models.is_empty() || self.models.iter().any(|part| model.contains(part)))
            && self.field_of_body.as_ref().is_none_or(|place| body.pointer(place).is_some())
    }
}

fn judge_body(api: &'static str, provider: &str, model: &str, body: &Json) -> Result<(), Refusal> {
    let shape = if (api, provider) == ("openai", "openrouter") { provider } else { api };
    let mut whole = body.clone();
    if api == "gemini" {
        whole.as_object_mut().map(|fields| fields.remove("model"));
    }
    TABLE.shapes.check(shape, &whole).map_err(|misfit| misfit.refusal(api))?;
    let pieces = pieces::of(api, body);
    let model = model.to_lowercase();
    let rules: Vec<&Rule> =
        TABLE.rules.iter().filter(|rule| rule.is_for(api, provider, &model, body)).collect();
    for (at, rule) in rules.iter().enumerate() {
        if rules[at + 1..].iter().any(|later| later.check == rule.check) {
            continue;
        }
        if let Some(found) = check(rule, body, &pieces) {
            let says = rule.says.replace("{place}", &found.place).replace("{text}", &found.text);
            let says = says.replace("{n}", &found.n.to_string()).replace("{most}", &rule.most.to_string());
            return Err(Refusal { api, check: rule.check.clone(), says });
        }
    }
    Ok(())
}

impl Misfit {
    fn refusal(&self, api: &'static str) -> Refusal {
        let steps = self.path.join(".");
        let last = self.path.last().map(String::as_str).unwrap_or_default();
        let says = match (api, &self.kind) {
            ("anthropic", MisfitKind::Unknown) => format!("{steps}: Extra inputs are not permitted"),
            ("anthropic", MisfitKind::Missing) => format!("{steps}: Field required"),
            ("anthropic", MisfitKind::Empty) => format!("{steps}: content must be non-empty"),
            ("anthropic", MisfitKind::Type) => format!("{steps}: Input should be valid"),
            ("gemini", MisfitKind::Unknown) => {
                format!(
                    "Invalid JSON payload received. Unknown name \"{last}\" at '{steps}': Cannot find field."
                )
            }
            ("gemini", _) => format!("* GenerateContentRequest.{steps}: must have one initialized field"),
            (_, MisfitKind::Unknown) => format!("Unknown parameter: '{steps}'."),
            (_, MisfitKind::Missing) => format!("Missing required parameter: '{steps}'."),
            (_, MisfitKind::Empty) => format!("Invalid '{steps}': empty. Expected content."),
            (_, MisfitKind::Type) => format!("Invalid type for '{steps}'."),
        };
        Refusal { api, check: "shape".to_owned(), says }
    }
}

/// The place of a fault, and the figures for its words.
#[derive(Debug, Default)]
struct Fault {
    place: String,
    text: String,
    n: usize,
}

impl Fault {
    fn at(piece: &Piece<'_>, text: &str, n: usize) -> Self {
        Self { place: piece.place.clone(), text: text.to_owned(), n }
    }
}

fn check(rule: &Rule, body: &Json, pieces: &[Piece<'_>]) -> Option<Fault> {
    match rule.check.as_str() {
        "names" => names(rule, body, pieces),
        "ids" => pieces.iter().find_map(|piece| match piece.kind {
            Kind::Call { id, .. } | Kind::Result { id, .. } => {
                (!rule.pattern.as_ref()?.is_match(id)).then(|| Fault::at(piece, id, id.len()))
            }
            _ => None,
        }),
        "unique-calls" => {
            let mut seen = HashSet::new();
            calls(pieces).find_map(|(piece, id)| (!seen.insert(id)).then(|| Fault::at(piece, id, 0)))
        }
        "answered-next" => calls(pieces).find_map(|(call, id)| {
            let mut next = results(pieces).filter(|(piece, _)| is_right_after(call, piece, pieces));
            (!next.any(|(_, of)| of == id)).then(|| Fault::at(call, id, call.message))
        }),
        "answered-later" => calls(pieces).find_map(|(call, id)| {
            let mut later = results(pieces).filter(|(piece, _)| piece.message > call.message);
            (!later.any(|(_, of)| of == id)).then(|| Fault::at(call, id, 0))
        }),
        "called" => results(pieces).find_map(|(result, id)| {
            let mut before = calls(pieces).filter(|(call, _)| is_right_after(call, result, pieces));
            (!before.any(|(_, of)| of == id)).then(|| Fault::at(result, id, 0))
        }),
        "called-before" => results(pieces).find_map(|(result, id)| {
            let mut before = calls(pieces).filter(|(call, _)| call.message < result.message);
            (!before.any(|(_, of)| of == id)).then(|| Fault::at(result, id, 0))
        }),
        "answered-once" => {
            let mut seen = HashSet::new();
            results(pieces).find_map(|(piece, id)| (!seen.insert(id)).then(|| Fault::at(piece, id, 0)))
        }
        "results-first" => pieces.iter().zip(pieces.iter().skip(1)).find_map(|(before, after)| {
            let is_result = |piece: &Piece<'_>| {
                matches!(piece.kind, Kind::Result { .. } | Kind::Image { in_result: true, .. })
            };
            let is_late = before.message == after.message && !is_result(before);
            (is_result(after) && is_late).then(|| Fault::at(after, "", after.message))
        }),
        "content-or-calls" => messages(body).find_map(|(n, message)| {
            let is_empty =
                message.get("content").is_none_or(Json::is_null) && message.get("tool_calls").is_none();
            (is_empty && message["role"] == "assistant").then(|| Fault { n, ..Fault::default() })
        }),
        "filled-answers" => messages(body).find_map(|(n, message)| {
            let is_empty = message["content"] == "" && message.get("tool_calls").is_none();
            (is_empty && message["role"] == "assistant").then(|| Fault { n, ..Fault::default() })
        }),
        "field-beside-calls" => messages(body).find_map(|(n, message)| {
            let lacks = message.get("tool_calls").is_some() && message.get(&rule.words[0]).is_none();
            lacks.then(|| Fault { n, ..Fault::default() })
        }),
        "first-role" => has_other_role(rule, messages(body).next()),
        "last-role" => has_other_role(rule, messages(body).last()),
        "alternate" => {
            let roles: Vec<(usize, &Json)> =
                messages(body).filter(|(_, message)| message["role"] != "system").collect();
            roles.windows(2).find_map(|pair| {
                let [(_, before), (n, after)] = pair else { return None };
                let is_taken = match (before["role"].as_str()?, after["role"].as_str()?) {
                    ("user", "assistant") | ("tool", "tool" | "assistant") => true,
                    ("assistant", "user") => before.get("tool_calls").is_none(),
                    ("assistant", "tool") => before.get("tool_calls").is_some(),
                    _ => false,
                };
                (!is_taken).then(|| Fault { n: *n, ..Fault::default() })
            })
        }
        "filled-texts" => pieces.iter().find_map(|piece| match piece.kind {
            Kind::Text(text) => text.trim().is_empty().then(|| Fault::at(piece, text, 0)),
            _ => None,
        }),
        "reasoning-leads" => pieces.iter().enumerate().find_map(|(at, piece)| {
            let Kind::Reasoning(id) = piece.kind else { return None };
            let next = pieces.get(at + 1).filter(|next| next.by_model);
            let is_led = next.is_some_and(|next| !matches!(next.kind, Kind::Reasoning(_)));
            (!is_led).then(|| Fault::at(piece, id, 0))
        }),
        "unique-items" => {
            let mut seen = HashSet::new();
            let mut items = body["input"].as_array()?.iter().filter_map(|item| item["id"].as_str());
            items.find_map(|id| (!seen.insert(id)).then(|| Fault { text: id.to_owned(), ..Fault::default() }))
        }
        "thinking-last" => pieces.iter().enumerate().find_map(|(at, piece)| {
            let is_last = pieces.get(at + 1).is_none_or(|next| next.message != piece.message);
            (is_last && piece.kind == Kind::Thinking).then(|| Fault::at(piece, "", piece.message))
        }),
        "thinking-first" => {
            // The messages of the model whose calls are open: after the last text of the user.
            let is_new = |piece: &Piece<'_>| {
                !piece.by_model
                    && !pieces.iter().any(|other| {
                        other.message == piece.message && matches!(other.kind, Kind::Result { .. })
                    })
            };
            let begin = pieces.iter().rposition(is_new).unwrap_or(0);
            let open: HashSet<usize> = calls(&pieces[begin..]).map(|(call, _)| call.message).collect();
            pieces[begin..].iter().find_map(|piece| {
                let is_wrong =
                    open.contains(&piece.message) && piece.part == 0 && piece.kind != Kind::Thinking;
                (is_wrong && piece.by_model).then(|| Fault::at(piece, "", 0))
            })
        }
        "budget" => {
            let budget = body.pointer("/thinking/budget_tokens").and_then(Json::as_u64)?;
            let most = body["max_tokens"].as_u64().unwrap_or(4096);
            (budget < 1024 || budget >= most).then(Fault::default)
        }
        "cache-marks" => {
            let n = body.to_string().matches("\"cache_control\"").count();
            (n > rule.most).then(|| Fault { n, ..Fault::default() })
        }
        "server-answered" => pieces.iter().enumerate().find_map(|(at, piece)| {
            let Kind::ServerCall(id) = piece.kind else { return None };
            let rest = &pieces[at + 1..];
            // A paused answer ends with one.
            let is_answered = rest.is_empty()
                || rest
                    .iter()
                    .any(|other| other.kind == Kind::ServerResult(id) && other.message == piece.message);
            (!is_answered).then(|| Fault::at(piece, id, 0))
        }),
        "image-types" => images(pieces).find_map(|(piece, mime, data)| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(data).unwrap_or_default();
            let is_so = image::type_of(&bytes).is_none_or(|found| found == mime);
            let is_known = rule.words.iter().any(|known| known == mime) && !bytes.is_empty();
            (!is_known || !is_so).then(|| Fault::at(piece, mime, 0))
        }),
        "image-bytes" => images(pieces)
            .find_map(|(piece, _, data)| (data.len() > rule.most).then(|| Fault::at(piece, "", data.len()))),
        "image-sides" => too_long_side(rule, pieces),
        "many-image-sides" => too_long_side(rule, pieces).filter(|_| images(pieces).count() > rule.many),
        "image-count" => {
            images(pieces).nth(rule.most).map(|(piece, ..)| Fault::at(piece, "", images(pieces).count()))
        }
        "unique-tools" => {
            let mut seen = HashSet::new();
            tools(body).into_iter().find_map(|(name, place)| {
                (!seen.insert(name.clone())).then_some(Fault { place, text: name, n: 0 })
            })
        }
        "own-tools" => {
            let tools = body["tools"].as_array()?.iter().enumerate();
            let mut own = tools.filter(|(_, tool)| tool.get("input_schema").is_none());
            own.find_map(|(n, tool)| {
                let text = tool["type"].as_str().unwrap_or_default().to_owned();
                let is_known = rule.words.contains(&text);
                (!is_known).then(|| Fault { text, n, ..Fault::default() })
            })
        }
        "search-beside-functions" => {
            let has = |key: &str| body["tools"].as_array()?.iter().find(|tool| tool.get(key).is_some());
            let mixes = has("functionDeclarations").is_some() && has("googleSearch").is_some();
            let is_asked_for =
                body.pointer("/toolConfig/includeServerSideToolInvocations") == Some(&true.into());
            (mixes && !is_asked_for).then(Fault::default)
        }
        "call-after-user" => calls(pieces).find_map(|(call, _)| {
            let before = pieces.iter().rev().find(|piece| piece.message < call.message);
            before.is_none_or(|before| before.by_model).then(Fault::default)
        }),
        "as-many-results" => {
            let mut counts: HashMap<usize, (usize, usize)> = HashMap::new();
            for (call, _) in calls(pieces) {
                counts.entry(call.message + 1).or_default().0 += 1;
            }
            for (result, _) in results(pieces) {
                counts.entry(result.message).or_default().1 += 1;
            }
            counts
                .into_iter()
                .find_map(|(n, (calls, results))| (calls != results).then(|| Fault { n, ..Fault::default() }))
        }
        "signed-calls" => {
            let mut signed = HashSet::new();
            pieces.iter().find_map(|piece| match piece.kind {
                Kind::Call { name, is_signed, .. } => {
                    let is_first = signed.insert(piece.message);
                    (is_first && !is_signed).then(|| Fault::at(piece, name, piece.part))
                }
                _ => None,
            })
        }
        check => panic!("there is no check :{check}"),
    }
}

/// Whether a result stands where its protocol wants that of a call: in the messages right after it, of results alone.
fn is_right_after(call: &Piece<'_>, result: &Piece<'_>, pieces: &[Piece<'_>]) -> bool {
    let has_result = |message: usize| results(pieces).any(|(piece, _)| piece.message == message);
    result.message > call.message && (call.message + 1..result.message).all(has_result)
}

fn calls<'p, 'j>(pieces: &'p [Piece<'j>]) -> impl Iterator<Item = (&'p Piece<'j>, &'j str)> {
    pieces.iter().filter_map(|piece| match piece.kind {
        Kind::Call { id, .. } => Some((piece, id)),
        _ => None,
    })
}

fn results<'p, 'j>(pieces: &'p [Piece<'j>]) -> impl Iterator<Item = (&'p Piece<'j>, &'j str)> {
    pieces.iter().filter_map(|piece| match piece.kind {
        Kind::Result { id, .. } => Some((piece, id)),
        _ => None,
    })
}

fn images<'p, 'j>(pieces: &'p [Piece<'j>]) -> impl Iterator<Item = (&'p Piece<'j>, &'j str, &'j str)> {
    pieces.iter().filter_map(|piece| match piece.kind {
        Kind::Image { mime, data, .. } => Some((piece, mime, data)),
        _ => None,
    })
}

fn messages(body: &Json) -> impl DoubleEndedIterator<Item = (usize, &Json)> {
    body.get("messages").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default().iter().enumerate()
}

fn has_other_role(rule: &Rule, message: Option<(usize, &Json)>) -> Option<Fault> {
    let (n, message) = message?;
    let is_taken = rule.words.iter().any(|role| message["role"] == role.as_str());
    (!is_taken).then(|| Fault { n, ..Fault::default() })
}

fn too_long_side(rule: &Rule, pieces: &[Piece<'_>]) -> Option<Fault> {
    images(pieces).find_map(|(piece, _, data)| {
        let (width, height) = image::sides(data)?;
        (width.max(height) > rule.most).then(|| Fault::at(piece, "", width.max(height)))
    })
}

fn names(rule: &Rule, body: &Json, pieces: &[Piece<'_>]) -> Option<Fault> {
    let pattern = rule.pattern.as_ref()?;
    let of_calls = pieces.iter().find_map(|piece| match piece.kind {
        Kind::Call { name, .. } => (!pattern.is_match(name)).then(|| Fault::at(piece, name, 0)),
        _ => None,
    });
    of_calls.or_else(|| {
        tools(body)
            .into_iter()
            .find_map(|(name, place)| (!pattern.is_match(&name)).then_some(Fault { place, text: name, n: 0 }))
    })
}

/// The names of the offered tools, with their places.
fn tools(body: &Json) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (n, tool) in body["tools"].as_array().into_iter().flatten().enumerate() {
        let declared = tool["functionDeclarations"].as_array().into_iter().flatten();
        let own = tool.get("name").or_else(|| tool.pointer("/function/name"));
        let all = own.into_iter().chain(declared.filter_map(|function| function.get("name")));
        names.extend(all.filter_map(Json::as_str).map(|name| (name.to_owned(), format!("tools[{n}]"))));
    }
    names
}

/// Each rule, with the check that its example breaks.
pub fn examples() -> Vec<(String, Result<(), Refusal>)> {
    let judged = TABLE.rules.iter().map(|rule| {
        let api = ["openai", "openai-responses", "anthropic", "gemini"];
        let mut api = api.into_iter().filter(|api| rule.apis.iter().any(|known| known == api));
        // An example of several protocols is one of the first that has its form.
        let form = |api: &str| match api {
            "gemini" => rule.refused.get("contents").is_some(),
            "openai-responses" => rule.refused.get("input").is_some(),
            "anthropic" => rule.refused.get("messages").is_some() && rule.apis[0] == "anthropic",
            _ => rule.refused.get("messages").is_some() && rule.apis[0] == "openai",
        };
        let api = api.find(|api| form(api)).expect("an example of the protocol");
        let mut body = rule.refused.clone();
        let model = rule.models.first().map_or("m", String::as_str);
        body["model"] = model.into();
        if api == "anthropic" {
            body["max_tokens"] = 4096.into();
        }
        let at = rule.at.first().map_or("p", String::as_str);
        (rule.check.clone(), judge_body(api, at, model, &body))
    });
    judged.collect()
}

/// The number of calls in a request, and of their results.
pub fn count_of_calls(api: &str, body: &Json) -> (usize, usize) {
    let pieces = pieces::of(api, body);
    (calls(&pieces).count(), results(&pieces).count())
}
