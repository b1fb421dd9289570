//! Generates the reference page and the constants of the Emacs package from the table.
//!
//! `make generate` writes both files. A test compares them with this module's output, so that neither can drift
//! from the table. Knows no other room.

use std::fmt::Write as _;

use super::tools::{Shown, TOOLS};
use crate::catalogue::{
    COMMANDS, ERROR_CODES, FEATURES, OPS, PROTOCOL_VERSION_TEXT, REALM_COMMANDS, SCOPE_KEYS, Shape, TOPICS,
};
use crate::limits;
use crate::message::{Mode, ThinkingLevel};

/// `spec/reference.md`: every op, topic, error code, feature and command.
pub fn reference_page() -> String {
    let mut page = String::new();
    let _ = write_reference(&mut page);
    page
}

/// `emacs/edn-bridge-constants.el`: the names on which the Emacs package relies.
pub fn emacs_constants() -> String {
    let mut file = String::new();
    let _ = write_constants(&mut file);
    file
}

/// `src/contract/catalogue.edn`: the tables for the contract runner, which does not know the program.
pub fn contract_tables() -> String {
    let mut file = String::new();
    let _ = write_tables(&mut file);
    file
}

fn write_tables(file: &mut String) -> std::fmt::Result {
    writeln!(
        file,
        ";; The protocol's tables, generated from the catalogue by `make generate`. A key of `:data` that ends in `?` is optional."
    )?;
    writeln!(file, "{{:tables\n {{:version {PROTOCOL_VERSION_TEXT:?}")?;
    writeln!(
        file,
        "  :limits {{:line-bytes {} :depth {} :frame-values {} :pending {} :window-events {}}}",
        limits::MAX_LINE_BYTES,
        limits::MAX_DEPTH,
        limits::MAX_FRAME_VALUES,
        limits::MAX_PENDING,
        limits::FLOW_WINDOW_EVENTS
    )?;
    writeln!(file, "  :scope-keys [{}]", keywords(SCOPE_KEYS))?;
    let features: Vec<&str> = FEATURES.iter().map(|(name, _)| *name).collect();
    writeln!(file, "  :features {features:?}")?;
    let commands: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
    writeln!(file, "  :commands {commands:?}")?;
    let listed: Vec<&str> =
        commands.into_iter().filter(|command| !REALM_COMMANDS.contains(command)).collect();
    writeln!(file, "  :listed-commands {listed:?}")?;
    let codes: Vec<&str> = ERROR_CODES.iter().map(|spec| spec.name).collect();
    writeln!(file, "  :error-codes {codes:?}")?;
    let with_data = ERROR_CODES.iter().filter(|spec| !spec.data.is_empty());
    let data: Vec<String> =
        with_data.map(|spec| format!("{:?} [{}]", spec.name, keywords(spec.data))).collect();
    writeln!(file, "  :error-data {{{}}}", data.join(" "))?;
    writeln!(file, "  :ops\n  [")?;
    for op in OPS {
        let params = op.params.iter().map(|param| {
            format!("{{:key :{} :required {} :shape {}}}", param.key, param.required, shape(param.shape))
        });
        let params: Vec<String> = params.collect();
        let errors: Vec<&str> = op.errors.iter().map(|error| error.as_str()).collect();
        writeln!(
            file,
            "   {{:name {:?} :session {} :params [{}] :data [{}] :errors {errors:?}}}",
            op.name,
            op.session,
            params.join(" "),
            keywords(op.data)
        )?;
    }
    writeln!(file, "  ]\n  :topics\n  [")?;
    for topic in TOPICS {
        writeln!(
            file,
            "   {{:name {:?} :anywhere {} :required [{}] :also [{}]}}",
            topic.name,
            topic.anywhere,
            keywords(topic.required),
            keywords(topic.also)
        )?;
    }
    writeln!(file, "  ]}}}}")
}

fn keywords(keys: &[&str]) -> String {
    keys.iter().map(|key| format!(":{key}")).collect::<Vec<_>>().join(" ")
}

fn shape(shape: Shape) -> String {
    let name = match shape {
        Shape::Text => "text",
        Shape::Filled => "filled",
        Shape::Count => "count",
        Shape::Flag => "flag",
        Shape::Map => "map",
        Shape::Any => "any",
        Shape::DialogResult => "dialog-result",
        Shape::Texts => "texts",
        Shape::Maps => "maps",
        Shape::Name => "name",
        Shape::Level => "level",
        Shape::OneOf(names) => return format!("[:one-of {names:?}]"),
    };
    format!(":{name}")
}

fn write_reference(page: &mut String) -> std::fmt::Result {
    writeln!(page, "# Reference of the protocol\n")?;
    writeln!(
        page,
        "Generated from the catalogue in `src/catalogue` by `make generate`. Version {PROTOCOL_VERSION_TEXT}.\n"
    )?;
    writeln!(page, "## Ops\n")?;
    writeln!(
        page,
        "A key in brackets is optional. Ops marked with * also take an optional `:session-id`.\n"
    )?;
    writeln!(page, "| op | params | `:data` | specific errors | what it does |\n|---|---|---|---|---|")?;
    for op in OPS {
        let params: Vec<String> = op
            .params
            .iter()
            .map(|param| {
                let text = format!("`:{}` {}", param.key, param.shape);
                if param.required { text } else { format!("\\[{text}\\]") }
            })
            .collect();
        let data: Vec<String> = op
            .data
            .iter()
            .map(|key| match key.strip_suffix('?') {
                Some(key) => format!("\\[`:{key}`\\]"),
                None => format!("`:{key}`"),
            })
            .collect();
        let errors: Vec<String> = op.errors.iter().map(|code| format!("`{code}`")).collect();
        writeln!(
            page,
            "| `{}`{} | {} | {} | {} | {} |",
            op.name,
            if op.session { " \\*" } else { "" },
            params.join("; "),
            data.join(" "),
            errors.join(" "),
            op.doc
        )?;
    }
    writeln!(page, "\n## Topics\n")?;
    writeln!(
        page,
        "Session payloads also have `:session-id` and `:offset`, and `:turn-id` and `:entry-id` if they apply. \
         A connection receives topics marked with * for every session, and the others only for its focus.\n"
    )?;
    writeln!(page, "| topic | delivery | required | also | when |\n|---|---|---|---|---|")?;
    for topic in TOPICS {
        let keys = |keys: &[&str]| keys.iter().map(|key| format!("`:{key}`")).collect::<Vec<_>>().join(" ");
        writeln!(
            page,
            "| `{}`{} | {} | {} | {} | {} |",
            topic.name,
            if topic.anywhere { " \\*" } else { "" },
            topic.class.as_str(),
            keys(topic.required),
            keys(topic.also),
            topic.doc
        )?;
    }
    writeln!(page, "\n## Error codes\n\n| code | retryable | `:data` | when |\n|---|---|---|---|")?;
    for error in ERROR_CODES {
        let data: Vec<String> = error.data.iter().map(|key| format!("`:{key}`")).collect();
        writeln!(
            page,
            "| `{}` | {} | {} | {} |",
            error.name,
            if error.retryable { "yes" } else { "no" },
            data.join(" "),
            error.doc
        )?;
    }
    writeln!(page, "\n## Features\n\n| feature | what it changes |\n|---|---|")?;
    for (name, doc) in FEATURES {
        writeln!(page, "| `{name}` | {doc} |")?;
    }
    writeln!(page, "\n## Slash commands\n\n| command | what it does |\n|---|---|")?;
    for command in COMMANDS {
        writeln!(page, "| `{}` | {} |", command.usage, command.doc)?;
    }
    Ok(())
}

fn write_constants(file: &mut String) -> std::fmt::Result {
    writeln!(
        file,
        ";;; edn-bridge-constants.el --- Names of the protocol  -*- lexical-binding: t; -*-\n\n\
         ;; SPDX-License-Identifier: MIT OR Apache-2.0\n\n\
         ;;; Commentary:\n\n\
         ;; Generated from the catalogue of the bridge by `make generate'; do not edit.\n\n\
         ;;; Code:\n"
    )?;
    writeln!(file, "(defconst edn-bridge-constants-protocol-version {PROTOCOL_VERSION_TEXT:?}")?;
    writeln!(file, "  \"Version of the protocol that this package speaks.\")\n")?;
    list(file, "ops", "Ops that the bridge serves.", OPS.iter().map(|op| op.name))?;
    list(file, "topics", "Topics of events.", TOPICS.iter().map(|topic| topic.name))?;
    list(file, "error-codes", "Codes of errors.", ERROR_CODES.iter().map(|error| error.name))?;
    list(file, "features", "Features that a handshake may ask for.", FEATURES.iter().map(|(name, _)| *name))?;
    list(file, "slash-commands", "Slash commands, without the slash.", COMMANDS.iter().map(|c| c.name))?;
    list(
        file,
        "thinking-levels",
        "Thinking levels, least first.",
        ThinkingLevel::ALL.iter().map(|l| l.as_str()),
    )?;
    list(
        file,
        "modes",
        "Names of the permission modes: what tools may do without asking.",
        Mode::NAMES.into_iter(),
    )?;
    let diffs = TOOLS.iter().filter(|row| row.shown == Shown::Diff);
    list(file, "diff-tools", "Tools whose result is shown as a diff.", diffs.map(|row| row.name))?;
    writeln!(file, "(provide 'edn-bridge-constants)\n\n;;; edn-bridge-constants.el ends here")
}

fn list<'a>(
    file: &mut String,
    name: &str,
    doc: &str,
    items: impl Iterator<Item = &'a str>,
) -> std::fmt::Result {
    let items: Vec<String> = items.map(|item| format!("{item:?}")).collect();
    writeln!(file, "(defconst edn-bridge-constants-{name}\n  '({})\n  {doc:?})\n", items.join("\n    "))
}
