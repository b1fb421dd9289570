//! `edn-bridge rules` and `edn-bridge audit`: which rules calls are judged by, and what was decided. A client of the
//! project's running bridge or, if none runs, of an engine of its own.

use std::collections::BTreeSet;

use clap::Subcommand;
use edn_bridge::tool::permission::Rule;
use edn_bridge::value::{Map, Value};

use super::engine_client::EngineClient;
use super::failure::Exit;
use super::options::Options;
use super::style::Meaning;
use super::table::Table;
use super::{out, sessions};

#[derive(Subcommand)]
pub(super) enum RulesCommand {
    /// Lists the rules that calls in this folder are judged by, in their order.
    List {
        /// As JSON, whole.
        #[arg(long)]
        json: bool,
    },
    /// Takes back a rule that came from an answer. A rule of the configuration is changed there.
    Remove {
        /// Its id, or the beginning of it.
        rule: String,
    },
}

/// Without a command, and with or without the option before one, the rules are listed.
pub(super) fn rules(options: &Options, command: Option<RulesCommand>, as_json: bool) -> Exit {
    let command = match command {
        None => RulesCommand::List { json: as_json },
        Some(RulesCommand::List { json }) => RulesCommand::List { json: json || as_json },
        Some(RulesCommand::Remove { .. }) if as_json => {
            let message = "--json is for lists: `rules remove` has none".to_owned();
            return Err(super::failure::Failure::Status { code: super::failure::USAGE, message });
        }
        Some(remove) => remove,
    };
    let attached = EngineClient::new("edn-bridge rules", options.settings()?, options.durability(), None)?;
    let done = (|| {
        let listed = attached.client.ask("list_rules", Value::from(Map::new()))?;
        let rules = listed.get("rules").and_then(Value::as_slice).unwrap_or_default();
        match command {
            RulesCommand::List { json: true } => out::print(&json(&Value::vector(rules.iter().cloned()))),
            RulesCommand::List { json: false } => list(rules),
            RulesCommand::Remove { rule } => remove(&attached, rules, &rule),
        }
    })();
    attached.end();
    done
}

fn text<'v>(value: &'v Value<'_>, key: &str) -> &'v str {
    value.get(key).map_or("", |value| value.as_str().or_else(|| value.as_keyword()).unwrap_or_default())
}

fn json(value: &Value<'_>) -> String {
    let mut text = Vec::new();
    edn_bridge::json::write(value, &mut text);
    text.push(b'\n');
    String::from_utf8_lossy(&text).into_owned()
}

fn list(rules: &[Value<'_>]) -> Exit {
    if rules.is_empty() {
        return out::note("There are no rules: the mode alone decides. Answers with \"always\" make some.");
    }
    let mut table = Table::new(&["ID", "FROM", "RULE", "STATE"], 2, &[]).keeping(&[0], &[1]);
    for rule in rules {
        let state = if rule.get("in-force").and_then(Value::as_bool) == Some(false) {
            (format!("not used: {}", text(rule, "reason")), Some(Meaning::Note))
        } else {
            (String::new(), None)
        };
        table.row([
            (text(rule, "rule-id").to_owned(), Some(Meaning::Name)),
            (text(rule, "source").to_owned(), None),
            (shown(rule), None),
            state,
        ]);
    }
    out::show(&table.text())
}

/// A rule in the short form that `--allow` and `--deny` take, if it has one.
fn shown(listed: &Value<'_>) -> String {
    let rule = listed.get("rule").and_then(|rule| Rule::read(rule).ok());
    let short = rule.and_then(|rule| Some(format!("{} {}", rule.decision.as_str(), rule.short()?)));
    short.unwrap_or_else(|| text(listed, "text").to_owned())
}

fn remove(attached: &EngineClient, rules: &[Value<'_>], wanted: &str) -> Exit {
    let begins = |rule: &&Value<'_>| !wanted.is_empty() && text(rule, "rule-id").starts_with(wanted);
    let fitting: Vec<_> = rules.iter().filter(begins).collect();
    let id = match fitting.as_slice() {
        // The bridge says what is wrong.
        [] => wanted,
        [rule] => text(rule, "rule-id"),
        more => {
            return Err(super::failure::Failure::Failed(format!(
                "{} rules begin with {wanted:?}.",
                more.len()
            )));
        }
    };
    attached.client.ask("remove_rule", Value::from(Map::new().with("rule-id", id.to_owned())))?;
    let told = fitting.first().map_or(id, |rule| text(rule, "text"));
    out::print(&format!("Taken back: {told}\n"))
}

/// Lists what was decided, newest first.
pub(super) fn audit(options: &Options, limit: usize, as_json: bool) -> Exit {
    let attached = EngineClient::new("edn-bridge audit", options.settings()?, options.durability(), None)?;
    let mut records: Vec<Value<'static>> = Vec::new();
    let mut before: Option<i64> = None;
    let read = loop {
        let left = limit.saturating_sub(records.len());
        let mut params = Map::new().with("scope", "all");
        params.put("limit", i64::try_from(left).unwrap_or(i64::MAX));
        params.put_some("before", before);
        let page = match attached.client.ask("list_audit", Value::from(params)) {
            Ok(page) => page,
            Err(refused) => break Err(refused),
        };
        records.extend(page.get("records").and_then(Value::as_slice).unwrap_or_default().iter().cloned());
        before = page.get("next").and_then(Value::as_i64);
        if before.is_none() || records.len() >= limit {
            break Ok(());
        }
    };
    attached.end();
    read?;
    if as_json {
        return out::print(&json(&Value::vector(records)));
    }
    if records.is_empty() {
        return out::note("Nothing was asked yet.");
    }
    let mut table =
        Table::new(&["WHEN (UTC)", "SESSION", "OUTCOME", "BY", "ABOUT"], 4, &[]).keeping(&[1], &[3, 0]);
    let ids: BTreeSet<&str> = records.iter().map(|record| text(record, "session-id")).collect();
    let length = sessions::id_length(&ids.into_iter().collect::<Vec<_>>());
    for record in &records {
        let outcome = text(record, "outcome");
        let meaning = match outcome {
            "approve" | "accepted" => Meaning::Well,
            "deny" | "denied" => Meaning::Bad,
            _ => Meaning::Note,
        };
        let when = text(record, "requested-at").get(..16).unwrap_or_default().replace('T', " ");
        let about = ["tool", "kind"].map(|key| text(record, key));
        let about = about.into_iter().find(|about| !about.is_empty()).unwrap_or_default();
        let by = ["client", "ext-id"].map(|key| text(record, key));
        let by = by.into_iter().find(|by| !by.is_empty()).unwrap_or_default();
        let about = format!("{about} {}", text(record, "request"));
        table.row([
            (when, None),
            (text(record, "session-id").chars().take(length).collect(), Some(Meaning::Name)),
            (outcome.to_owned(), Some(meaning)),
            (by.to_owned(), None),
            (about.to_owned(), None),
        ]);
    }
    out::show(&table.text())
}
