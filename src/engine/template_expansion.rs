//! Expands the prompt template or the skill that a line names. Does not know sessions.

use crate::catalogue::{COMMANDS, ErrorCode};
use crate::context::Project;
use crate::session::ApiError;
use crate::similar;
use crate::value::Value;

/// The text of the template or skill of that name.
///
/// # Errors
/// If there is none, or the template does not take these arguments.
pub fn expand(project: &Project, name: &str, arguments: &str) -> Result<String, ApiError> {
    match (project.templates.get(name), project.skills.get(name)) {
        (Some(template), _) => {
            template.expand(arguments).map_err(|error| ApiError::failed(error.to_string()))
        }
        (None, Some(skill)) => Ok(skill.expand(arguments)),
        (None, None) => Err(unknown_command(name, project)),
    }
}

/// `request/unknown-command`, with the most similar names.
fn unknown_command(name: &str, project: &Project) -> ApiError {
    let own = project.templates.keys().chain(project.skills.keys()).map(String::as_str);
    let nearest = similar::names(name, COMMANDS.iter().map(|spec| spec.name).chain(own));
    let hint = match nearest.first() {
        Some(name) => format!(" Did you mean /{name}?"),
        None => " /help lists them.".to_owned(),
    };
    let names = Value::vector(nearest.iter().map(|name| Value::from((*name).to_owned())));
    let message = format!("There is no command /{name}.{hint}");
    ApiError::new(ErrorCode::UnknownCommand, message).with("nearest", names)
}
