//! The parts of the system prompt, each with its source. Does not know models.

use std::path::PathBuf;

use crate::context::Project;
use crate::context::delimiters::marked;
use crate::context::instructions::Instructions;
use crate::facts::SessionFacts;
use crate::limits::{PROMPT_INSTRUCTIONS_BYTES, PROMPT_SKILLS_BYTES};
use crate::query::world::PromptPart;

/// The first words for a model. The first paragraph is for every model, the rest for one with tools.
const PROMPT: &str = include_str!("prompt/system.md");

fn part(kind: &'static str, text: impl Into<String>) -> PromptPart {
    PromptPart { kind, source: "edn-bridge".to_owned(), text: text.into(), cut: false }
}

/// The prompt from its parts.
pub fn text(parts: &[PromptPart]) -> String {
    let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    texts.join("\n\n")
}

/// The parts of the system prompt. Short for a model without tools, which gets no `project`: a small window
/// is mostly for the conversation.
pub fn parts(
    facts: &SessionFacts,
    roots: &[PathBuf],
    project: Option<&Project>,
    notes: Option<String>,
) -> Vec<PromptPart> {
    let (base, tools) = PROMPT.split_once("\n\n").unwrap_or((PROMPT, ""));
    let mut parts =
        vec![part("base", format!("{} The user works in the folder {}.", base.trim_end(), facts.cwd))];
    if let (false, Some(base)) = (roots.is_empty(), parts.first_mut()) {
        let folders: Vec<_> = roots.iter().map(|root| root.to_string_lossy()).collect();
        base.text.push_str(&format!(
            " Files in these folders belong to the work too; name them by their whole path: {}.",
            folders.join(", ")
        ));
    }
    if let Some(project) = project {
        parts.push(part("tools", tools.trim_end()));
        parts.extend(instructions(facts, &project.instructions));
        parts.extend(skills(project));
    }
    parts.extend(notes.map(|notes| part("memory", notes)));
    parts
}

/// The instructions that fit; the nearest files have priority.
pub fn instructions(facts: &SessionFacts, all: &[Instructions]) -> Vec<PromptPart> {
    // A token is about four bytes, so as many bytes as the window has tokens are a quarter of it.
    let window = usize::try_from(facts.context_window).unwrap_or(usize::MAX);
    let mut left = PROMPT_INSTRUCTIONS_BYTES.min(window);
    let mut parts = Vec::new();
    for one in all.iter().rev() {
        let most = one.text.len().min(left);
        let end = (0..=most).rev().find(|end| one.text.is_char_boundary(*end)).unwrap_or(0);
        let kept = one.text.get(..end).unwrap_or_default();
        left = left.saturating_sub(end);
        let cut = one.cut || end < one.text.len();
        let note = if cut { "\n[… cut here; the file goes on …]" } else { "" };
        let (source, scope) = (one.path.to_string_lossy().into_owned(), one.scope.as_str());
        let attributes = [("from", scope), ("file", source.as_str())];
        let text = marked("instructions", &attributes, &format!("{}{note}", kept.trim_end()));
        parts.push(PromptPart { kind: "instructions", source, text, cut });
    }
    parts.reverse();
    parts
}

fn skills(project: &Project) -> Option<PromptPart> {
    let mut text =
        "Skills are instructions for particular tasks. When a task fits one of these, read its file \
        before you begin; paths in it are relative to its folder."
            .to_owned();
    let heading = text.len();
    let mut left_out = 0usize;
    for skill in project.skills.values().filter(|skill| skill.for_model) {
        let line = format!("\n- {}: {} ({})", skill.name, skill.description, skill.path.display());
        if text.len().saturating_add(line.len()) > PROMPT_SKILLS_BYTES {
            left_out = left_out.saturating_add(1);
        } else {
            text.push_str(&line);
        }
    }
    (text.len() > heading).then(|| PromptPart { cut: left_out > 0, ..part("skills", text) })
}
