//! Compares the answers with the expected ones.

use std::collections::HashSet;

use edn_bridge::edn;
use edn_bridge::value::Value;

use crate::lines::{Expected, Kind, Refusal, Step};

/// Checks that every line has its expected answer, in order. Answers to a flood are matched by id in any
/// order, because requests run concurrently.
///
/// # Errors
/// The first wrong answer.
pub fn judge<'a>(
    steps: impl Iterator<Item = &'a Step>,
    mut answers: impl Iterator<Item = &'a [u8]>,
) -> Result<usize, String> {
    let mut count = 0;
    for step in steps {
        let mut waiting: HashSet<&str> = HashSet::new();
        for expected in &step.expected {
            if let Expected::ResponseOrFull(id) = expected {
                waiting.insert(id);
                continue;
            }
            let answer = answers.next().ok_or_else(|| format!("no answer for {expected:?}"))?;
            holds(step.kind, expected, answer)?;
            count += 1;
        }
        while !waiting.is_empty() {
            let answer =
                answers.next().ok_or_else(|| format!("no answer for {} of a flood", waiting.len()))?;
            let frame = read(answer)?;
            let id = text(&frame, "id");
            if !waiting.remove(id) {
                return Err(format!("in a flood: {}", shown(answer)));
            }
            let full = Refusal {
                code: "transport/max-pending-exceeded".to_owned(),
                id: Some(id.to_owned()),
                op: Some("set_session_name".to_owned()),
                ..Refusal::default()
            };
            let response = Expected::Response(id.to_owned());
            holds(step.kind, &response, answer)
                .or_else(|_| holds(step.kind, &Expected::Refusal(full), answer))?;
            count += 1;
        }
    }
    match answers.next() {
        Some(answer) => Err(format!("one answer too many: {}", shown(answer))),
        None => Ok(count),
    }
}

/// Checks one answer.
pub fn holds(kind: Kind, expected: &Expected, answer: &[u8]) -> Result<(), String> {
    let frame = read(answer)?;
    let same = match expected {
        Expected::Response(id) | Expected::ResponseOrFull(id) => {
            keyword(&frame, "kind") == "response" && text(&frame, "id") == id
        }
        Expected::Refusal(refusal) => {
            let data = |key| frame.get("data").and_then(|data| data.get(key));
            let echoed = |key| frame.get(key).and_then(Value::as_str);
            let offset = refusal.offset.and_then(|at| i64::try_from(at).ok());
            keyword(&frame, "kind") == "error"
                && text(&frame, "error-code") == refusal.code
                && echoed("id") == refusal.id.as_deref()
                && echoed("op") == refusal.op.as_deref()
                && refusal
                    .reason
                    .as_deref()
                    .is_none_or(|it| data("reason").and_then(Value::as_str) == Some(it))
                && offset.is_none_or(|it| data("offset").and_then(Value::as_i64) == Some(it))
                && refusal.says.as_deref().is_none_or(|it| {
                    text(&frame, "error-message").contains(it)
                        || data("key").and_then(Value::as_str) == Some(it)
                })
        }
    };
    if same { Ok(()) } else { Err(format!("{kind:?}: expected {expected:?}, got {}", shown(answer))) }
}

/// Checks that this judge notices a missing answer, a duplicate, and one in the place of another. Modifies
/// answers that it found correct.
///
/// # Errors
/// What it did not notice.
pub fn bites(
    steps: &[&Step],
    answers: &[&[u8]],
    places: impl Iterator<Item = usize>,
) -> Result<usize, String> {
    // Any order is correct in a flood.
    let mut ordered = Vec::new();
    for step in steps {
        let any = matches!(step.expected.first(), Some(Expected::ResponseOrFull(_)));
        ordered.extend(std::iter::repeat_n(!any, step.expected.len()));
    }
    let mut tried = 0;
    for place in places {
        if !(ordered[place] && ordered[place + 1]) || answers[place] == answers[place + 1] {
            continue;
        }
        let without =
            |gone: usize| answers.iter().enumerate().filter(move |(at, _)| *at != gone).map(|(_, it)| *it);
        let swapped = |at: usize| match at {
            _ if at == place => answers[place + 1],
            _ if at == place + 1 => answers[place],
            _ => answers[at],
        };
        let doubled = |at: usize| if at == place + 1 { answers[place] } else { answers[at] };
        let all = || steps.iter().copied();
        let noticed = [
            ("lost", judge(all(), without(place)).is_err()),
            ("swapped with the next", judge(all(), (0..answers.len()).map(swapped)).is_err()),
            ("given for the next too", judge(all(), (0..answers.len()).map(doubled)).is_err()),
        ];
        if let Some((how, _)) = noticed.iter().find(|(_, noticed)| !noticed) {
            return Err(format!("an answer that is {how} goes unnoticed: {}", shown(answers[place])));
        }
        tried += noticed.len();
    }
    Ok(tried)
}

fn read(answer: &[u8]) -> Result<Value<'_>, String> {
    edn::read_one(answer).map_err(|error| format!("{error}: {}", shown(answer)))
}

fn text<'v>(frame: &'v Value<'_>, key: &str) -> &'v str {
    frame.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn keyword<'v>(frame: &'v Value<'_>, key: &str) -> &'v str {
    frame.get(key).and_then(Value::as_keyword).unwrap_or_default()
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).into_owned()
}
