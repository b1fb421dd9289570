//! Hooks: the user's commands at the boundaries of a turn. Guards may block, transforms rewrite, observers
//! watch.
//!
//! Knows the kinds of hooks, where one may stand, and how to run its command ([`command`]). Does not know
//! turns: the engine runs hooks and applies their outcomes.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::files::Seal;
use crate::limits::{HOOK_MAX_MS, HOOK_MS, HOOKS};
use crate::value::Value;

pub mod command;

pub use crate::event::stage::{Point, Stage};
pub use command::{HookFailure, call};

/// The kind of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookKind {
    /// Votes before a stage; the first deny blocks it.
    Guard,
    /// Rewrites the input or output of a stage.
    Transform,
    /// Watches.
    Observer,
}

impl HookKind {
    /// The name in configuration and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Guard => "guard",
            Self::Transform => "transform",
            Self::Observer => "observer",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Guard, Self::Transform, Self::Observer].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// One configured hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name in events; derived from its position if the configuration has none.
    pub id: Arc<str>,
    /// Its stage.
    pub stage: Stage,
    /// Its point.
    pub point: Point,
    /// Its kind.
    pub kind: HookKind,
    /// The program and its arguments. A program of a project is named by its whole path.
    pub command: Vec<String>,
    /// The files that its command names, as they must be when it runs.
    pub seal: Seal,
    /// Its time-out.
    pub timeout: Duration,
    /// At `tool-call`: the tools for whose calls it runs; `None` for all.
    pub tools: Option<Vec<String>>,
}

/// A hook as a configuration writes it, and whose it is.
#[derive(Debug, Clone)]
pub struct Source<'s> {
    /// What is written.
    pub value: &'s Value<'s>,
    /// The folder of the project that it belongs to; `None` for one of the user's.
    pub root: Option<&'s Path>,
    /// Files that its command names, as they must be when it runs.
    pub seal: Seal,
}

impl<'s> Source<'s> {
    /// One of the user's.
    pub fn users(value: &'s Value<'s>) -> Self {
        Self { value, root: None, seal: Seal::default() }
    }
}

/// Why hooks cannot be used, for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    /// There are too many.
    #[error("there are {0} hooks; at most {HOOKS} are taken")]
    TooMany(usize),
    /// One of them cannot be used.
    #[error("hook {number}: {error}")]
    At {
        /// Its place, from 1.
        number: usize,
        /// The error in it.
        error: Box<Self>,
    },
    /// An earlier hook has the same id.
    #[error("there are two hooks {0:?}")]
    Twice(Arc<str>),
    /// A hook is no map, but this.
    #[error("a hook is a map, not a {0}")]
    NoMap(&'static str),
    /// It has an unknown key.
    #[error("a hook has no {0}; it may have {known}", known = KEYS.map(|key| format!(":{key}")).join(" "))]
    UnknownKey(String),
    /// A key is missing or has the wrong shape.
    #[error("a hook's :{key} must be {expected}")]
    Shape {
        /// The key.
        key: &'static str,
        /// The right shape.
        expected: String,
    },
    /// A guard at `post`.
    #[error("a guard stands at :pre; at :post there is nothing left to block")]
    NothingToBlock,
    /// A transform at a boundary without a rewritable payload.
    #[error("a transform has nothing to rewrite at {} {}", .0.as_str(), .1.as_str())]
    NothingToRewrite(Stage, Point),
    /// A relative path to a program in the user's own configuration.
    #[error(
        "the program {0:?} of a hook of yours must be an absolute path, or a name without a slash that is found on \
         the PATH: a session's folder may be anybody's"
    )]
    RelativeProgram(String),
    /// Tools at another stage than `tool-call`.
    #[error("only a hook at tool-call has :tools")]
    ToolsElsewhere,
}

/// The keys of a hook.
const KEYS: [&str; 8] = ["id", "stage", "point", "kind", "command", "timeout-ms", "tools", "watch"];

impl Hook {
    /// Reads `{:stage :tool-call :point :pre :kind :guard :command ["./check"] :timeout-ms 5000 :id "check"
    /// :tools ["bash"]}`; the last three keys are optional.
    ///
    /// # Errors
    /// See [`HookError`]. A hook with any error is refused, because a skipped guard guards nothing.
    pub fn from_value(source: Source<'_>, place: usize) -> Result<Self, HookError> {
        let value = source.value;
        let map = value.as_map().ok_or_else(|| HookError::NoMap(value.kind_name()))?;
        for (key, _) in map.iter() {
            if !key.as_keyword().is_some_and(|key| KEYS.contains(&key)) {
                return Err(HookError::UnknownKey(key.to_string()));
            }
        }
        let shape = |key, expected: &str| HookError::Shape { key, expected: expected.to_owned() };
        let name = |key: &str| {
            let value = map.get_keyword(key);
            value.and_then(|value| value.as_keyword().or_else(|| value.as_str()))
        };
        let words = |key: &str| {
            let words = map.get_keyword(key)?.as_slice()?;
            words.iter().map(|word| word.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
        };
        let stage = name("stage")
            .and_then(Stage::parse)
            .ok_or_else(|| shape("stage", &format!("one of {}", Stage::ALL.map(Stage::as_str).join(", "))))?;
        let point = name("point").and_then(Point::parse).ok_or_else(|| shape("point", "pre or post"))?;
        let kind = name("kind")
            .and_then(HookKind::parse)
            .ok_or_else(|| shape("kind", "guard, transform or observer"))?;
        if kind == HookKind::Guard && point == Point::Post {
            return Err(HookError::NothingToBlock);
        }
        if kind == HookKind::Transform && stage.rewritable(point).is_empty() {
            return Err(HookError::NothingToRewrite(stage, point));
        }
        let mut command = words("command")
            .filter(|words| words.first().is_some_and(|program| !program.is_empty()))
            .filter(|words| words.iter().all(|word| !word.contains('\0')))
            .ok_or_else(|| shape("command", "a vector of strings, the program first"))?;
        if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
            // A relative program is the project's own. The user's file stands in no project, and what a session's
            // folder has below that name may be anybody's.
            *program = match source.root {
                Some(root) => root.join(&*program).to_string_lossy().into_owned(),
                None if program.starts_with('/') => program.clone(),
                None => return Err(HookError::RelativeProgram(program.clone())),
            };
        }
        let timeout = match map.get_keyword("timeout-ms") {
            None => HOOK_MS,
            Some(value) => value
                .as_i64()
                .and_then(|millis| u64::try_from(millis).ok())
                .filter(|millis| (1..=HOOK_MAX_MS).contains(millis))
                .ok_or_else(|| shape("timeout-ms", &format!("an integer from 1 to {HOOK_MAX_MS}")))?,
        };
        let tools = match map.get_keyword("tools") {
            None => None,
            Some(_) if stage != Stage::ToolCall => return Err(HookError::ToolsElsewhere),
            Some(_) => Some(words("tools").ok_or_else(|| shape("tools", "a vector of strings"))?),
        };
        let id = match map.get_keyword("id") {
            None => {
                format!("{}-{}-{}-{}", stage.as_str(), point.as_str(), kind.as_str(), place.saturating_add(1))
            }
            Some(_) => {
                name("id").filter(|id| !id.is_empty()).ok_or_else(|| shape("id", "a name"))?.to_owned()
            }
        };
        Ok(Self {
            id: id.into(),
            stage,
            point,
            kind,
            command,
            seal: source.seal,
            timeout: Duration::from_millis(timeout),
            tools,
        })
    }
}

/// The hooks of a configuration, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hooks(Vec<Arc<Hook>>);

impl Hooks {
    /// Reads all hooks.
    ///
    /// # Errors
    /// The first [`HookError`].
    pub fn read<'s>(sources: impl ExactSizeIterator<Item = Source<'s>>) -> Result<Self, HookError> {
        if sources.len() > HOOKS {
            return Err(HookError::TooMany(sources.len()));
        }
        let mut hooks = Vec::with_capacity(sources.len());
        let mut names = HashSet::new();
        for (place, source) in sources.enumerate() {
            let at = |error| HookError::At { number: place.saturating_add(1), error: Box::new(error) };
            let hook = Hook::from_value(source, place).map_err(at)?;
            if !names.insert(hook.id.clone()) {
                return Err(at(HookError::Twice(hook.id)));
            }
            hooks.push(Arc::new(hook));
        }
        Ok(Self(hooks))
    }

    /// The hooks of a kind at a boundary, in order; at `tool-call` those for that tool.
    pub fn at(&self, stage: Stage, point: Point, kind: HookKind, tool: Option<&str>) -> Vec<Arc<Hook>> {
        let here = |hook: &&Arc<Hook>| hook.stage == stage && hook.point == point && hook.kind == kind;
        let for_tool = |hook: &&Arc<Hook>| match (&hook.tools, tool) {
            (Some(tools), Some(tool)) => tools.iter().any(|name| name == tool),
            _ => true,
        };
        self.0.iter().filter(here).filter(for_tool).cloned().collect()
    }

    /// Whether there is a hook at a boundary.
    pub fn any_at(&self, stage: Stage, point: Point) -> bool {
        self.0.iter().any(|hook| hook.stage == stage && hook.point == point)
    }

    /// All hooks, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Hook> {
        self.0.iter().map(AsRef::as_ref)
    }

    /// The number of hooks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no hooks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Hooks, HookError> {
        Hooks::read(crate::edn::read_all(text.as_bytes()).unwrap().iter().map(Source::users))
    }

    #[test]
    fn hooks_are_found_where_they_stand_in_their_order() {
        let hooks = read(
            r#"{:id "a" :stage :tool-call :point :pre :kind :guard :command ["x"] :tools ["bash"]}
               {:id "b" :stage "tool-call" :point "pre" :kind "guard" :command ["y" "z"] :timeout-ms 5}
               {:stage :render :point :post :kind :observer :command ["w"]}"#,
        )
        .unwrap();
        let names = |tool| {
            let found = hooks.at(Stage::ToolCall, Point::Pre, HookKind::Guard, Some(tool));
            found.iter().map(|hook| hook.id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("bash"), ["a", "b"]);
        assert_eq!(names("read"), ["b"]);
        assert!(hooks.any_at(Stage::Render, Point::Post) && !hooks.any_at(Stage::Render, Point::Pre));
        assert_eq!(hooks.iter().last().unwrap().id.as_ref(), "render-post-observer-3");
    }

    #[test]
    fn a_relative_program_belongs_to_a_project_alone() {
        let text = "{:stage :render :point :pre :kind :guard :command [\"PROGRAM\"]}";
        for (program, root, expected) in [
            ("./check", None, None),
            ("scripts/check", None, None),
            ("check", None, Some("check")),
            ("/bin/check", None, Some("/bin/check")),
            ("./check", Some("/p"), Some("/p/./check")),
            ("/bin/check", Some("/p"), Some("/bin/check")),
        ] {
            let text = text.replace("PROGRAM", program);
            let value = crate::edn::read_one(text.as_bytes()).unwrap();
            let source = Source { root: root.map(Path::new), ..Source::users(&value) };
            match (Hook::from_value(source, 0), expected) {
                (Ok(hook), Some(expected)) => assert_eq!(hook.command[0], expected),
                (Err(wrong), None) => {
                    assert!(wrong.to_string().contains("must be an absolute path"), "{wrong}")
                }
                (found, _) => panic!("{program}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_hook_that_is_not_understood_is_refused() {
        for (text, expected) in [
            ("[]", "is a map"),
            ("{}", ":stage must be"),
            ("{:stage :think :point :pre :kind :guard :command [\"x\"]}", ":stage must be"),
            ("{:stage :render :point :mid :kind :guard :command [\"x\"]}", ":point must be"),
            ("{:stage :render :point :pre :kind :spy :command [\"x\"]}", ":kind must be"),
            ("{:stage :render :point :post :kind :guard :command [\"x\"]}", "stands at :pre"),
            ("{:stage :render :point :post :kind :transform :command [\"x\"]}", "nothing to rewrite"),
            ("{:stage :render :point :pre :kind :guard :command \"x\"}", ":command must be"),
            ("{:stage :render :point :pre :kind :guard :command []}", ":command must be"),
            ("{:stage :render :point :pre :kind :guard :command [\"x\"] :timeout-ms 0}", ":timeout-ms must"),
            ("{:stage :render :point :pre :kind :guard :command [\"x\"] :tools [\"b\"]}", "only a hook at"),
            ("{:stage :render :point :pre :kind :guard :command [\"x\"] :tool \"b\"}", "has no :tool"),
            (
                "{:id \"a\" :stage :render :point :pre :kind :guard :command [\"x\"]}
                 {:id \"a\" :stage :render :point :pre :kind :guard :command [\"x\"]}",
                "hook 2: there are two",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many = "{:stage :render :point :pre :kind :guard :command [\"x\"]}".repeat(HOOKS + 1);
        assert!(read(&many).unwrap_err().to_string().contains("at most"));
    }
}
