//! Which rules fit an effect of a call. The effect is looked at once, and all rules are matched against it together:
//! globs as one set, words in one pass. Each look is paid for. Decides nothing.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::act::{Access, Run};
use super::programs;
use super::protected_files::Ground;
use crate::facts::rule::{Decision, Rule};
use crate::glob::{self, PathGlobs};
use crate::http::Url;
use crate::http::host::HostPattern;
use crate::limits::SHELL_BYTES;
use crate::meter::{Exhausted, Meter};
use crate::tool::path;
use crate::tool::shell::{self, Analysis, Mentions};

/// The fitting rules, by their places.
pub(super) struct Fitting {
    fits: Vec<bool>,
    /// Whether the effect is a command of which rules that allow cover each part.
    pub(super) pieces: bool,
}

impl Fitting {
    pub(super) fn has(&self, place: usize) -> bool {
        self.fits.get(place).copied().unwrap_or_default()
    }

    /// Matches all rules. A rule that allows must cover the whole effect; a rule that denies or asks fits any part of it.
    pub(super) fn new(
        rules: &[Rule],
        ground: &Ground,
        tool: &str,
        access: &Access,
        meter: &mut Meter,
    ) -> Result<Self, Exhausted> {
        meter.spend(rules.len(), 0)?;
        let named: Vec<(usize, &Rule)> =
            rules.iter().enumerate().filter(|(_, rule)| rule.names(tool)).collect();
        let mut fits = vec![false; rules.len()];
        let mut found = Found { fits: &mut fits };
        let mut pieces = false;
        // A rule about something else than the effect has does not fit it.
        // What is more than a line in the session's folder needs a yes of its own.
        let is_plain = !matches!(access, Access::Run(run) if !run.is_plain());
        let plain = named.iter().filter(|(_, rule)| {
            let is_about_all = rule.path.is_none() && rule.command.is_none() && rule.host.is_none();
            is_about_all && (is_plain || rule.decision != Decision::Allow)
        });
        plain.for_each(|(place, _)| found.add(*place));
        match access {
            Access::Read(path) | Access::Write(path) => {
                let about: Vec<_> = named
                    .into_iter()
                    .filter(|(_, rule)| rule.command.is_none() && rule.host.is_none())
                    .collect();
                allowing(&about, path, ground, meter, &mut found)?;
                let bars = about.iter().filter(|(_, rule)| rule.decision != Decision::Allow);
                let globs = bars.filter_map(|(place, rule)| Some((*place, rule.path.as_deref()?)));
                let (places, texts): (Vec<usize>, Vec<&str>) = globs.unzip();
                let bars = Bars::new(&texts, ground, meter)?;
                let barred = bars.matches(path, ground, meter)?;
                barred.iter().filter_map(|at| places.get(*at)).for_each(|place| found.add(*place));
            }
            Access::Run(run) => {
                let about: Vec<_> = named
                    .into_iter()
                    .filter(|(_, rule)| rule.path.is_none() && rule.host.is_none())
                    .collect();
                pieces = by_command(&about, run, ground, meter, &mut found)?;
            }
            Access::Fetch(url) => {
                let about = named.iter().filter(|(_, rule)| rule.path.is_none() && rule.command.is_none());
                for (place, rule) in about {
                    let Some(pattern) = &rule.host else { continue };
                    meter.spend(pattern.len(), 0)?;
                    if is_host(pattern, rule.decision, url) {
                        found.add(*place);
                    }
                }
            }
            Access::Nothing | Access::AtClient { .. } | Access::Call { .. } => {}
        }
        Ok(Self { fits, pieces })
    }
}

struct Found<'f> {
    fits: &'f mut Vec<bool>,
}

impl Found<'_> {
    fn add(&mut self, place: usize) {
        self.fits.get_mut(place).into_iter().for_each(|fits| *fits = true);
    }
}

fn is_host(pattern: &str, decision: Decision, url: &Url) -> bool {
    HostPattern::read(pattern).is_ok_and(|pattern| match decision {
        Decision::Allow => pattern.covers(url),
        Decision::Ask | Decision::Deny => pattern.names(url),
    })
}

/// The rules that allow a path: the whole path, or for a relative glob the part below the workspace.
fn allowing(
    rules: &[(usize, &Rule)],
    path: &Path,
    ground: &Ground,
    meter: &mut Meter,
    found: &mut Found<'_>,
) -> Result<(), Exhausted> {
    let globs = |absolute: bool| {
        let allow = rules.iter().filter(|(_, rule)| rule.decision == Decision::Allow);
        let globs = allow.filter_map(|(place, rule)| Some((*place, rule.path.clone()?)));
        globs.filter(move |(_, glob)| glob.starts_with('/') == absolute).unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let inside = path.strip_prefix(&ground.workspace).ok();
    for (absolute, path) in [(true, Some(path)), (false, inside)] {
        let Some(path) = path else { continue };
        let (places, texts) = globs(absolute);
        let all = PathGlobs::compiled(texts);
        // What cannot be used allows nothing.
        let matching = all.usable(path, meter)?;
        matching.iter().filter_map(|at| places.get(*at)).for_each(|place| found.add(*place));
    }
    Ok(())
}

/// The rules by their commands. Says whether each simple command of a plain one begins with the words of a rule that
/// allows.
fn by_command(
    rules: &[(usize, &Rule)],
    run: &Run,
    ground: &Ground,
    meter: &mut Meter,
    found: &mut Found<'_>,
) -> Result<bool, Exhausted> {
    let shown = run.shown();
    let mut barring = Vec::new();
    let mut allowing: HashMap<Vec<String>, Vec<usize>> = HashMap::new();
    for (place, rule) in rules {
        let Some(words) = &rule.command else { continue };
        meter.spend(words.len(), 0)?;
        if rule.exact {
            // What is more than a line in the session's folder needs a yes of its own.
            let may = rule.decision != Decision::Allow || run.is_plain();
            if may && (*words == run.line || **words == *shown) {
                found.add(*place);
            }
        } else if rule.decision == Decision::Allow {
            allowing.entry(shell::words(words)).or_default().push(*place);
        } else {
            barring.push((*place, shell::words(words)));
        }
    }
    // The words of a rule that asks may be in the part that is not looked through. A rule that denies makes the whole
    // command veiled.
    if shown.len() > SHELL_BYTES {
        let asking = rules
            .iter()
            .filter(|(_, rule)| rule.decision == Decision::Ask && rule.command.is_some() && !rule.exact);
        asking.for_each(|(place, _)| found.add(*place));
    }
    Mentions::new(barring).found(&shown, meter)?.into_iter().for_each(|place| found.add(place));
    if allowing.is_empty() || !run.is_plain() {
        return Ok(false);
    }
    meter.spend(run.line.len(), 0)?;
    let Analysis::Plain(commands) = shell::analyse(&run.line) else { return Ok(false) };
    let mut covered = vec![false; commands.len()];
    for (prefix, places) in &allowing {
        let mut all = true;
        for (command, covered) in commands.iter().zip(&mut covered) {
            meter.spend(prefix.len(), 0)?;
            let mut stays = shell::begins_with(command, prefix);
            if stays {
                // Each further word may be looked up on the disk.
                meter.spend(command.len().saturating_mul(LOOKUP), 0)?;
                stays = programs::stays(command, prefix.len(), &ground.workspace);
            }
            *covered |= stays;
            all &= stays;
        }
        if all {
            places.iter().for_each(|place| found.add(*place));
        }
    }
    Ok(!covered.is_empty() && covered.into_iter().all(|covered| covered))
}

/// Steps of looking a word up on the disk.
const LOOKUP: usize = 1_000;

/// The globs of rules that deny or ask, resolved against the workspace: their own, which hold everywhere, also below
/// further folders, and those behind the links of the folders that they name without a pattern. Judged paths have no
/// links, so that `link/**` alone would match none.
#[derive(Debug, Default)]
pub struct Bars {
    own: Arc<PathGlobs>,
    behind: Arc<PathGlobs>,
    /// The place of the rule of each glob behind links.
    rules: Vec<usize>,
}

impl Bars {
    /// Compiles globs, unless they are compiled, and looks at the links in them.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn new(globs: &[&str], ground: &Ground, meter: &mut Meter) -> Result<Self, Exhausted> {
        let whole = |glob: &&str| match glob.strip_suffix('/') {
            Some(folder) if !folder.is_empty() => format!("{folder}/**"),
            _ => (*glob).to_owned(),
        };
        let own: Vec<String> = globs.iter().map(whole).collect();
        let (mut behind, mut rules) = (Vec::new(), Vec::new());
        let mut seen: HashMap<String, Vec<String>> = HashMap::new();
        for (rule, glob) in own.iter().enumerate() {
            let literal: Vec<&str> =
                glob.split('/').take_while(|name| !name.contains(['*', '?', '[', '{', '\\'])).collect();
            let literal = literal.join("/");
            if literal.is_empty() {
                continue;
            }
            let rest = glob.get(literal.len()..).unwrap_or_default();
            if !seen.contains_key(&literal) {
                let mut elsewhere = Vec::new();
                for folder in ground.folders() {
                    meter.spend(literal.split('/').count().saturating_mul(LOOKUP), 0)?;
                    let Ok(resolved) = path::resolve(folder, &literal) else { continue };
                    let as_written = folder.join(&literal);
                    // The glob itself matches what is where it says.
                    if resolved.as_os_str() != as_written.as_os_str() {
                        elsewhere.push(glob::escape(&resolved.to_string_lossy()));
                    }
                }
                seen.insert(literal.clone(), elsewhere);
            }
            for place in seen.get(&literal).into_iter().flatten() {
                behind.push(format!("{place}{rest}"));
                rules.push(rule);
            }
        }
        Ok(Self { own: PathGlobs::compiled(own), behind: PathGlobs::compiled(behind), rules })
    }

    /// Whether one of them matches a path.
    ///
    /// # Errors
    /// If the budget is exhausted.
    pub fn is_match(&self, path: &Path, ground: &Ground, meter: &mut Meter) -> Result<bool, Exhausted> {
        if self.own.is_match(path, meter)? || self.behind.is_match(path, meter)? {
            return Ok(true);
        }
        for folder in ground.folders() {
            if let Ok(inside) = path.strip_prefix(folder)
                && (self.own.is_match(inside, meter)? || self.behind.is_match(inside, meter)?)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The places of those that match a path.
    fn matches(&self, path: &Path, ground: &Ground, meter: &mut Meter) -> Result<Vec<usize>, Exhausted> {
        let inside = ground.folders().filter_map(|folder| path.strip_prefix(folder).ok());
        let mut found = Vec::new();
        for path in [path].into_iter().chain(inside) {
            found.extend(self.own.matches(path, meter)?);
            let behind = self.behind.matches(path, meter)?;
            found.extend(behind.into_iter().filter_map(|at| self.rules.get(at).copied()));
        }
        Ok(found)
    }
}
