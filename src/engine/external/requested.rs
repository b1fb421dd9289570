//! What an agent asks a permission for, as an act: everything that its request names. Judges nothing and asks nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::approvals::{Permit, PermittedText};
use super::calls::AgentCall;
use crate::acp::CallKind;
use crate::agent::{CallPart, pairs};
use crate::diff;
use crate::glob::PathGlob;
use crate::http::Url;
use crate::limits::{AGENT_ACT_PARTS, RULE_STEPS};
use crate::meter::Meter;
use crate::sha256;
use crate::tool;
use crate::tool::path;
use crate::tool::permission::{Access, Act, Part, Run};
use crate::value::Value;

/// What a request comes to.
pub(super) struct Requested {
    /// All of it.
    pub(super) act: Act,
    /// What the agent may do through us once the person has allowed it.
    pub(super) permits: Vec<Permit>,
    /// Whether it names more than may be looked at.
    pub(super) is_too_much: bool,
}

/// What the value of a key of a request is. Keys are compared without case, `_` and `-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    /// A path that is read or changed, as the kind of the call says.
    Path,
    /// A path that is changed, whatever the kind says.
    Target,
    Address,
    Command,
    /// The words after a command.
    Words,
    Folder,
    Variables,
    /// Files, each a key with its change.
    Changes,
    /// A pattern, which may lead out of the folder that it is looked for in.
    Pattern,
    /// Requests of the same kind within it.
    Nested,
    /// What is only for the agent or for people.
    Note,
    /// What sort of change it is.
    Sort,
    /// A diff, whose first lines may name files.
    Diff,
    /// Data that names nothing. Beside a command, it may be what the command reads.
    Data,
}

/// The keys that are understood. A request with another one is always asked about.
const KEYS: &[(Key, &str)] = &[
    (
        Key::Path,
        "path paths file files filepath filepaths filename filenames absolutepath relativepath dir dirs directory \
         directories dirpath folder folders root source src from oldpath oldfile inputfile notebookpath fileuri \
         location locations",
    ),
    (
        Key::Target,
        "to destination destinationpath destinationfile dest dst target targetpath targetfile newpath newfile output \
         outputfile outputpath movepath",
    ),
    (Key::Address, "url urls uri uris href link links address"),
    (Key::Command, "command cmd commandline script shellcommand argv"),
    (Key::Words, "args arguments"),
    (Key::Folder, "cwd workdir workingdir workingdirectory currentdirectory"),
    (Key::Variables, "env environment envvars variables"),
    (Key::Changes, "changes filechanges"),
    (Key::Pattern, "glob globs include pattern patterns filepattern"),
    (Key::Nested, "edits replacements operations"),
    (
        Key::Note,
        "background callid description explanation id isbackground justification reason runinbackground timeout timeoutms \
         timeoutseconds title toolcallid turnid yieldtimems",
    ),
    (Key::Sort, "editmode kind type"),
    (Key::Diff, "filediff unifieddiff"),
    (
        Key::Data,
        "a b c n i allowmultiple casesensitive content contents context encoding endline expectedreplacements \
         filetext head headlimit ignorecase insertline insertmode limit line lines maxlength maxlines \
         maxresults multiline newcode newcontent newsource newstr newstring newtext offset oldcode oldcontent oldstr \
         oldstring oldtext outputmode prompt query recursive regex replaceall search startline tail text \
         viewrange",
    ),
];

/// The sorts of changes that remove and move nothing.
const CHANGES: &[&str] =
    &["add", "create", "edit", "insert", "modify", "overwrite", "replace", "text", "update", "write"];

/// What begins a line of a diff that names a file, or may do so.
const HEADS: &[&str] = &["+++", "---", "***", "copy ", "diff ", "Index:", "rename "];

/// What a key is; `None` for an unknown one.
fn key_of(name: &str) -> Option<Key> {
    let plain: String =
        name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect();
    KEYS.iter().find(|(_, names)| names.split_whitespace().any(|known| known == plain)).map(|(key, _)| *key)
}

/// Gathers the parts.
struct Gathering<'c> {
    kind: CallKind,
    /// The folders from which a relative path may be meant.
    folders: Vec<PathBuf>,
    cwd: &'c Path,
    parts: Vec<Part>,
    permits: Vec<Permit>,
    is_whole: bool,
    has_data: bool,
    is_too_much: bool,
    /// What the looks at the disk cost, which the folders multiply.
    meter: Meter,
}

/// Steps of looking a path up on the disk.
const LOOKUP: usize = 10_000;

/// Steps of making a matcher of a part of a pattern.
const MATCHER: usize = 1_000;

/// The folders from which a relative path may be meant. A client names one.
const FOLDERS: usize = 8;

/// The act of a request. Looks at links on the disk.
pub(super) fn of(call: &AgentCall, agent: &str) -> Requested {
    let cwd = call.folder.as_path();
    let known = matches!(
        call.kind,
        CallKind::Read | CallKind::Edit | CallKind::Search | CallKind::Execute | CallKind::Fetch
    );
    let mut gathering = Gathering {
        kind: call.kind,
        folders: vec![cwd.to_owned()],
        cwd,
        parts: Vec::new(),
        permits: Vec::new(),
        // What removes or moves is not understood as a change of a text.
        is_whole: known && !call.is_unread,
        has_data: false,
        is_too_much: false,
        meter: Meter::new(RULE_STEPS, 0),
    };
    let folders = folders(call.input.as_ref());
    gathering.is_whole &= folders.len() <= 1;
    gathering.is_too_much = folders.len() > FOLDERS;
    for folder in folders.iter().take(FOLDERS) {
        if let Some(folder) = gathering.resolved(folder) {
            gathering.folders.push(folder);
        }
    }
    for part in &call.content {
        if let CallPart::Diff { path, old, new } = part {
            let texts = (old.as_deref().unwrap_or_default(), new.as_str());
            gathering.change(&path.to_string_lossy(), Some(texts));
        }
    }
    for place in &call.places {
        gathering.path(&place.to_string_lossy());
    }
    match &call.input {
        Some(input @ Value::Map(_)) => gathering.map(input, true),
        None | Some(Value::Nil) => {}
        Some(_) => gathering.is_whole = false,
    }
    let Gathering { mut parts, permits, mut is_whole, has_data, is_too_much, .. } = gathering;
    let has = |is: fn(&Access) -> bool| parts.iter().any(|part| is(&part.access));
    is_whole &= !(has_data && has(|access| matches!(access, Access::Run(_))));
    is_whole &= match call.kind {
        CallKind::Execute => has(|access| matches!(access, Access::Run(_))),
        CallKind::Fetch => has(|access| matches!(access, Access::Fetch(_))),
        _ => !parts.is_empty(),
    };
    // What nothing says may be anything.
    let reads =
        matches!(call.kind, CallKind::Read | CallKind::Search) && !parts.is_empty() && !call.is_unread;
    if !is_whole && !reads {
        let access =
            Access::Call { server: agent.to_owned(), tool: call.call.summary.to_string(), read_only: false };
        parts.push(Part { tool: call.call.name.clone(), access });
    }
    Requested { act: Act { parts, is_whole }, permits, is_too_much }
}

/// The variables of a map, or of a list as a terminal has them, and their values. One that is no text has none.
fn variables_of<'v>(value: &'v Value<'_>) -> Vec<(&'v str, Option<&'v str>)> {
    let of_list = |item: &'v Value<'_>| {
        let of = |key: &str| pairs(item).find(|(name, _)| *name == key).and_then(|(_, value)| value.as_str());
        (of("name").unwrap_or_default(), of("value").filter(|_| pairs(item).count() == 2))
    };
    match value.as_slice() {
        Some(items) => items.iter().map(of_list).collect(),
        None => pairs(value).map(|(name, value)| (name, value.as_str())).collect(),
    }
}

/// The folders that a request names.
fn folders(input: Option<&Value<'_>>) -> Vec<String> {
    let named = input.into_iter().flat_map(pairs).filter(|(key, _)| key_of(key) == Some(Key::Folder));
    named.filter_map(|(_, value)| value.as_str()).map(str::to_owned).collect()
}

impl Gathering<'_> {
    fn add(&mut self, tool: &str, access: Access) {
        let part = Part { tool: tool.into(), access };
        if self.parts.contains(&part) {
            return;
        }
        match self.parts.len() < AGENT_ACT_PARTS {
            true => self.parts.push(part),
            false => self.is_too_much = true,
        }
    }

    fn resolved(&mut self, text: &str) -> Option<PathBuf> {
        if self.meter.spend(LOOKUP, 0).is_err() {
            self.is_too_much = true;
            return None;
        }
        let found = path::resolve(self.cwd, &self.local(text)).ok();
        self.is_whole &= found.is_some();
        found
    }

    /// The path that a text is. An address that names no file of this machine may be anything.
    fn local(&mut self, text: &str) -> String {
        file_of(text).unwrap_or_else(|| {
            // A tool that reads `$HOME/x` as a shell does leads elsewhere than its letters.
            let is_variable = text.starts_with("${") || text.starts_with("$HOME/") || text.starts_with('%');
            self.is_whole &= !text.contains("://") && !is_variable;
            text.to_owned()
        })
    }

    /// A path from each folder that it may be meant from.
    fn each(&mut self, text: &str) -> Vec<PathBuf> {
        let text = self.local(text);
        if self.meter.spend(self.folders.len().saturating_mul(LOOKUP), 0).is_err() {
            self.is_too_much = true;
            return Vec::new();
        }
        let found: Vec<_> = self.folders.iter().map(|folder| path::resolve(folder, &text)).collect();
        self.is_whole &= !text.is_empty() && found.iter().all(Result::is_ok);
        let mut found: Vec<PathBuf> = found.into_iter().flatten().collect();
        found.dedup();
        found
    }

    /// A path that is read or changed, as the kind says.
    fn path(&mut self, text: &str) {
        if self.parts.len() >= AGENT_ACT_PARTS {
            self.is_too_much = true;
            return;
        }
        match self.kind {
            // A command says itself what it does.
            CallKind::Read | CallKind::Execute | CallKind::Fetch => {
                self.each(text).into_iter().for_each(|path| self.add(tool::READ, Access::Read(path)));
            }
            CallKind::Search => {
                self.each(text).into_iter().for_each(|path| self.add(tool::SEARCH, Access::Read(path)));
            }
            CallKind::Edit | CallKind::Delete | CallKind::Move | CallKind::Other => self.change(text, None),
        }
    }

    /// A path that is changed, from a text to another one.
    fn change(&mut self, text: &str, texts: Option<(&str, &str)>) {
        if self.parts.len() >= AGENT_ACT_PARTS {
            self.is_too_much = true;
            return;
        }
        for path in self.each(text) {
            let size = texts.map_or(0, |(old, new)| old.len().saturating_add(new.len()));
            if self.meter.spend(size, 0).is_err() {
                self.is_too_much = true;
                return;
            }
            // As `write` makes the diff of the same change.
            let text = texts.map(|(old, new)| PermittedText {
                digest: sha256::hex(new),
                diff: diff::unified(old, new, &path::shown(&path, self.cwd)),
            });
            let access = Access::Write(path);
            if text.is_some() {
                self.permits.push(Permit { access: access.clone(), text });
            }
            self.add(tool::EDIT, access);
        }
    }

    /// All that a map names. Only the outer one has a command with its folder and variables.
    fn map(&mut self, map: &Value<'_>, is_outer: bool) {
        let (mut commands, mut words) = (Vec::new(), None);
        let mut variables = BTreeMap::new();
        for (name, value) in pairs(map) {
            if matches!(value, Value::Nil) {
                continue;
            }
            if self.is_too_much {
                return;
            }
            let key = key_of(name);
            match key {
                Some(Key::Path | Key::Target | Key::Address | Key::Pattern) => {
                    self.texts(value).into_iter().for_each(|text| self.named(key, text));
                }
                Some(Key::Command) => {
                    let all = self.texts(value);
                    // What does nothing is not what is asked for.
                    match all.iter().any(|text| !text.trim().is_empty()) {
                        true => commands.push(all.into_iter().map(str::to_owned).collect()),
                        false => self.is_whole = false,
                    }
                }
                Some(Key::Words) => {
                    self.is_whole &= value.as_slice().is_some();
                    words = Some(self.texts(value).into_iter().map(str::to_owned).collect::<Vec<_>>());
                }
                Some(Key::Folder) => {
                    self.is_whole &= is_outer && value.as_str().is_some();
                    self.nested(value);
                }
                Some(Key::Variables) => {
                    let mut are_texts = value.as_map().is_some() || value.as_slice().is_some();
                    for (name, value) in variables_of(value) {
                        let is_name = !(name.is_empty() || name.starts_with('-') || name.contains('='));
                        let text = value.unwrap_or_default().to_owned();
                        let is_first = variables.insert(name.to_owned(), text).is_none();
                        self.is_whole &= is_name && is_first;
                        are_texts &= value.is_some();
                    }
                    if !are_texts {
                        self.is_whole = false;
                        self.nested(value);
                    }
                }
                Some(Key::Changes) => match value.as_map() {
                    Some(_) => {
                        for (path, change) in pairs(value) {
                            self.change(path, None);
                            self.nested(change);
                        }
                    }
                    None => {
                        self.nested(value);
                        self.is_whole = false;
                    }
                },
                Some(Key::Nested) => {
                    let items = value.as_slice().unwrap_or(std::slice::from_ref(value));
                    self.is_whole &= items.iter().all(|item| item.as_map().is_some());
                    self.nested(value);
                }
                Some(Key::Note) => self.nested(value),
                Some(Key::Sort) => {
                    self.has_data = true;
                    // One that is not known may remove or move.
                    let reads = matches!(self.kind, CallKind::Read | CallKind::Search);
                    self.is_whole &= reads || value.as_str().is_some_and(|sort| CHANGES.contains(&sort));
                    self.nested(value);
                }
                Some(Key::Diff) => {
                    self.has_data = true;
                    let names = |line: &str| HEADS.iter().any(|head| line.trim_start().starts_with(head));
                    self.is_whole &= value.as_str().is_some_and(|diff| !diff.lines().any(names));
                    self.nested(value);
                }
                Some(Key::Data) => {
                    self.has_data = true;
                    self.nested(value);
                }
                None => {
                    self.nested(value);
                    self.is_whole = false;
                }
            }
        }
        self.commands(commands, words, variables, is_outer);
    }

    /// A text under a key that says what it is.
    fn named(&mut self, key: Option<Key>, text: &str) {
        let web = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if let Some(url) = web {
            self.add(tool::FETCH, Access::Fetch(url));
            if key == Some(Key::Address) {
                return;
            }
        }
        match key {
            Some(Key::Pattern) => {
                let parts = text.split('/').count();
                if self.meter.spend(parts.saturating_mul(MATCHER).saturating_add(text.len()), 0).is_err() {
                    self.is_too_much = true;
                    return;
                }
                let leads_out = text.starts_with(['/', '~'])
                    || ["{/", ",/", "{~", ",~"].iter().any(|start| text.contains(start))
                    || text.split(['/', '{', ',', '}']).any(|name| name == "..")
                    || text.split('/').any(may_be_parent);
                self.is_whole &= !leads_out;
                // The folder in which it finds something.
                let literal =
                    text.split(['*', '?', '[', '{', '(', '\\', '|', '+']).next().unwrap_or_default();
                if let Some((folder, _)) = literal.rsplit_once('/').filter(|(folder, _)| !folder.is_empty()) {
                    self.path(folder);
                }
            }
            Some(Key::Target) => self.change(text, None),
            Some(Key::Address) if file_of(text).is_none() => self.is_whole = false,
            _ => self.path(text),
        }
    }

    /// The texts of a value: itself, or those of a list. Anything else in it is looked at, and not understood.
    fn texts<'v>(&mut self, value: &'v Value<'_>) -> Vec<&'v str> {
        let items = value.as_slice().unwrap_or(std::slice::from_ref(value));
        let others = items.iter().filter(|item| item.as_str().is_none());
        for other in others {
            self.is_whole = false;
            self.nested(other);
        }
        items.iter().filter_map(Value::as_str).collect()
    }

    /// Whatever is within a value.
    fn nested(&mut self, value: &Value<'_>) {
        match value {
            Value::Map(_) => self.map(value, false),
            Value::Vector(items) | Value::List(items) => items.iter().for_each(|item| self.nested(item)),
            _ => {}
        }
    }

    /// The commands of a map, with the folder and the variables of the request.
    fn commands(
        &mut self,
        mut commands: Vec<Vec<String>>,
        words: Option<Vec<String>>,
        variables: BTreeMap<String, String>,
        is_outer: bool,
    ) {
        match (commands.as_mut_slice(), words) {
            (_, None) => {}
            ([command], Some(words)) => command.extend(words),
            (_, Some(_)) => self.is_whole = false,
        }
        self.is_whole &= is_outer || commands.is_empty();
        self.is_whole &= !commands.is_empty() || variables.is_empty();
        let mut folders = self.folders.clone();
        // The last one named; the first is the session's own.
        let folder = folders.pop().filter(|folder| folder != self.cwd);
        let size: usize = variables.iter().map(|(name, value)| name.len().saturating_add(value.len())).sum();
        for words in commands {
            // Each has the variables.
            if self.parts.len() >= AGENT_ACT_PARTS || self.meter.spend(size, 0).is_err() {
                self.is_too_much = true;
                return;
            }
            let run = match words.as_slice() {
                [line] => Run::line(line.clone()),
                words => Run::words(words),
            };
            let access = Access::Run(Run { folder: folder.clone(), variables: variables.clone(), ..run });
            self.permits.push(Permit { access: access.clone(), text: None });
            self.add(tool::BASH, access);
        }
    }
}

/// Whether a part of a pattern may stand for the folder above, as `{.,}.` and `[.].` do. No tool takes a `*` or a `?` at its
/// start for a dot, except before a group in parentheses.
fn may_be_parent(part: &str) -> bool {
    if part.strip_prefix(['*', '?']).is_some_and(|rest| !rest.starts_with('(')) {
        return false;
    }
    match PathGlob::new(part) {
        Ok(glob) if !part.contains('(') => glob.is_match(Path::new("..")),
        // A group that goes on in the next part, or in parentheses, which our globs do not have.
        _ => part.replace(|c: char| c != '.' && c.is_ascii_punctuation(), "").ends_with(".."),
    }
}

/// The path of an address of a file.
fn file_of(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| url.scheme() == "file")?;
    Some(url.to_file_path().ok()?.to_string_lossy().into_owned())
}
