//! `:psi.telemetry/*`: the work that the process has measured, and what becomes of its export. Measures nothing.

use crate::message::count;
use crate::query::graph::Resolver;
use crate::query::table::{join, out, table, text};
use crate::telemetry::{self, ModelFigures, OperationFigures};

table! {
    OPERATION of OperationFigures {
        "psi.telemetry.operation/name" "The kind of work: invoke_agent (a turn), chat (a model call), execute_tool, hook or question." => |work| work.operation.as_str();
        "psi.telemetry.operation/running" "How much of it goes on." => |work| count(work.running);
        "psi.telemetry.operation/ended" "How much of it has ended since the process started." => |work| count(work.ended);
        "psi.telemetry.operation/failed" "How much of that has failed or was cancelled." => |work| count(work.failed);
        "psi.telemetry.operation/micros" "The time of all that has ended, in microseconds." => |work| count(work.micros);
        "psi.telemetry.operation/slowest-micros" "The time of the slowest, in microseconds." => |work| count(work.slowest_micros);
    }
}

table! {
    MODEL of ModelFigures {
        "psi.telemetry.model/provider" "The provider's name." => |model| text(&model.provider);
        "psi.telemetry.model/id" "The model's id at the provider; others for those beyond the first hundred." => |model| text(&model.model);
        "psi.telemetry.model/calls" "Its calls that have ended since the process started." => |model| count(model.calls);
        "psi.telemetry.model/failed" "Those of them that have failed or were cancelled." => |model| count(model.failed);
        "psi.telemetry.model/usage" "The tokens and cost of all of them." => |model| model.usage.to_value();
        "psi.telemetry.model/micros" "Their time, in microseconds." => |model| count(model.micros);
    }
}

pub(super) const PART: &[Resolver] = &[
    Resolver::one(
        "psi.telemetry/operations",
        &[],
        &[join("psi.telemetry/operations", "What the process did, by kind of work.", OPERATION.outputs)],
        |_, _| OPERATION.list("psi.telemetry/operations", &telemetry::operations()),
    ),
    Resolver::one(
        "psi.telemetry/models",
        &[],
        &[join("psi.telemetry/models", "The models that the process has called, by name.", MODEL.outputs)],
        |_, _| MODEL.list("psi.telemetry/models", &telemetry::models()),
    ),
    Resolver::one(
        "psi.telemetry/export",
        &[],
        &[
            out("psi.telemetry/endpoint", "Where spans and metrics are sent, or nil if they are not."),
            out("psi.telemetry/has-texts", "Whether texts of conversations are sent with them."),
            out("psi.telemetry/sent", "Spans that the receiver took."),
            out(
                "psi.telemetry/dropped",
                "Spans that were dropped: too many were waiting, or the receiver did not take them.",
            ),
            out("psi.telemetry/failure", "Why the last export failed, or nil."),
        ],
        |_, _| {
            let export = telemetry::export();
            Ok(vec![
                ("psi.telemetry/endpoint", export.endpoint.as_deref().map(text).into()),
                ("psi.telemetry/has-texts", export.has_texts.into()),
                ("psi.telemetry/sent", count(export.sent).into()),
                ("psi.telemetry/dropped", count(export.dropped).into()),
                ("psi.telemetry/failure", export.failure.as_deref().map(text).into()),
            ])
        },
    ),
];
