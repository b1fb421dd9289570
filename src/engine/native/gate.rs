//! The calls of a model at the gate of `tool/arguments`: before hooks and plans see them, and before they are written. What
//! is repaired is said in the call's result; what cannot be is refused when the call's turn comes.

use std::sync::Arc;

use crate::engine::native::proposal::proposed;
use crate::engine::native::turn::Turn;
use crate::event::ToolCall;
use crate::message::Arguments;
use crate::tool;
use crate::tool::arguments::{self, Fitted, MeantName};
use crate::tool::toolbox::Toolbox;

/// The name of the tool that is meant; the name that came if none is.
pub fn meant_name(tools: &Toolbox, came: &Arc<str>) -> Arc<str> {
    let specs = tools.specs();
    match arguments::meant(came, specs.iter().map(|spec| spec.name.as_str())) {
        MeantName::Known(name) if name != **came => name.into(),
        _ => came.clone(),
    }
}

/// A call of the model, as its tool's schema wants it.
pub fn gated(turn: &Turn, id: Arc<str>, came: Arc<str>, mut given: Arguments) -> ToolCall {
    let tools = turn.tools();
    let name = meant_name(&tools, &came);
    let mut repairs = Vec::new();
    if name != came {
        repairs.push(format!("The tool {came:?} was taken as {name}."));
    }
    if let Some((reread, why)) = given.unreadable().and_then(|unreadable| arguments::reread(&unreadable.text))
    {
        repairs.push(why.to_owned());
        given = reread.into();
    }
    let spec = tools.specs().into_iter().find(|spec| *spec.name == *name);
    if given.unreadable().is_none()
        && let Some(spec) = spec
        && let Ok(Fitted { arguments, repairs: of_arguments }) = arguments::fit(&spec.parameters, &given)
        && !of_arguments.is_empty()
    {
        repairs.extend(of_arguments);
        given = arguments.into();
    }
    if !repairs.is_empty() {
        turn.repaired(&id, repairs.join(" "));
    }
    proposed(&tools, id, name, given)
}

/// Why a call is refused before anybody is asked about it; `None` if its arguments fit its tool. A subagent's task is
/// refused with a code of its own.
pub fn refusal(turn: &Turn, call: &ToolCall) -> Option<String> {
    if &*call.name == tool::DELEGATE {
        return None;
    }
    let spec = turn.tools().specs().into_iter().find(|spec| *spec.name == *call.name)?;
    arguments::fit(&spec.parameters, &call.parsed).err()
}

/// The refusal of a call of a tool that does not exist.
pub fn unknown(turn: &Turn, name: &str) -> String {
    let names: Vec<String> = turn.tools().specs().into_iter().map(|spec| spec.name).collect();
    let near = match arguments::meant(name, names.iter().map(String::as_str)) {
        MeantName::Unknown(near) if !near.is_empty() => format!("did you mean {}? There", near.join(" or ")),
        _ => "there".to_owned(),
    };
    format!("There is no tool {name:?}; {near} are {}.", names.join(", "))
}
