//! The report of a run, for people, for programs and for build servers. Starts nothing.

use std::io::{self, Write};

use crate::obligations::Binding;
use edn_codec::value::Map;
use edn_codec::{self as edn, Value};

/// The format of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One EDN map.
    Edn,
    /// JUnit's XML.
    Junit,
}

/// A name that is no format.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0:?} is not a format; text, edn and junit are")]
pub struct UnknownFormat(String);

impl std::str::FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        match name {
            "text" => Ok(Self::Text),
            "edn" => Ok(Self::Edn),
            "junit" => Ok(Self::Junit),
            other => Err(UnknownFormat(other.to_owned())),
        }
    }
}

/// The result of a check or rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Status {
    /// It passes.
    Passed,
    /// It fails; contains the reason.
    Failed(String),
    /// It does not apply to this server; contains the reason.
    NotApplicable(String),
}

impl Status {
    /// The word in reports.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "failed",
            Self::NotApplicable(_) => "not-applicable",
        }
    }

    fn why(&self) -> Option<&str> {
        match self {
            Self::Passed => None,
            Self::Failed(why) | Self::NotApplicable(why) => Some(why),
        }
    }
}

/// The finding of one check or rule.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The check or rule.
    pub name: String,
    /// What it requires.
    pub about: String,
    /// Its result.
    pub status: Status,
    /// The frames that show the failure: `>` sent, `<` received.
    pub frames: Vec<String>,
    /// This server's behaviour where the contract leaves it open.
    pub notes: Vec<String>,
}

/// The findings of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// Checks, then rules.
    pub findings: Vec<Finding>,
    /// The number of received frames.
    pub frames: u64,
    /// This server's behaviour where the contract leaves it open.
    pub notes: Vec<String>,
}

impl Report {
    /// Whether all applicable checks pass.
    pub fn holds(&self) -> bool {
        !self.findings.iter().any(|finding| matches!(finding.status, Status::Failed(_)))
    }

    /// The finding of a check or rule.
    pub fn finding(&self, name: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.name == name)
    }

    /// The number of findings with a result like `like`.
    fn count(&self, like: &str) -> usize {
        self.findings.iter().filter(|finding| finding.status.word() == like).count()
    }

    /// The result of an obligation: that of its check, if it ran.
    fn status_of(&self, binding: &Binding) -> Option<&Status> {
        self.finding(&binding.check).map(|finding| &finding.status)
    }

    /// Writes the report.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, format: Format, bindings: &[Binding], out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Text => self.write_text(bindings, out),
            Format::Edn => self.write_edn(bindings, out),
            Format::Junit => self.write_junit(bindings, out),
        }
    }

    fn write_text(&self, bindings: &[Binding], out: &mut dyn Write) -> io::Result<()> {
        for finding in &self.findings {
            let mark = match finding.status {
                Status::Passed => "ok  ",
                Status::Failed(_) => "FAIL",
                Status::NotApplicable(_) => "n/a ",
            };
            writeln!(out, "{mark} {:<36} {}", finding.name, finding.about)?;
            if let Some(why) = finding.status.why() {
                writeln!(out, "       {why}")?;
            }
            for note in &finding.notes {
                writeln!(out, "       note: {note}")?;
            }
            for frame in &finding.frames {
                writeln!(out, "       {frame}")?;
            }
        }
        if !self.notes.is_empty() {
            writeln!(out, "\nLeft open by the contract:")?;
            for note in &self.notes {
                writeln!(out, "  {note}")?;
            }
        }
        let broken: Vec<&Binding> =
            bindings.iter().filter(|b| matches!(self.status_of(b), Some(Status::Failed(_)))).collect();
        if !broken.is_empty() {
            writeln!(out, "\nObligations that do not hold:")?;
            for binding in &broken {
                writeln!(out, "  {}  ({})", binding.obligation, binding.check)?;
            }
        }
        let seen =
            |word| bindings.iter().filter(|b| self.status_of(b).is_some_and(|s| s.word() == word)).count();
        writeln!(
            out,
            "\n{} checks and rules passed, {} failed, {} not applicable; {} frames looked at.\n\
             {} obligations hold, {} do not, {} are not applicable.",
            self.count("passed"),
            self.count("failed"),
            self.count("not-applicable"),
            self.frames,
            seen("passed"),
            seen("failed"),
            seen("not-applicable"),
        )
    }

    fn write_edn(&self, bindings: &[Binding], out: &mut dyn Write) -> io::Result<()> {
        let findings = self.findings.iter().map(|finding| {
            let mut map = Map::new();
            map.put("check", finding.name.clone());
            map.put("status", Value::keyword(finding.status.word()));
            if let Some(why) = finding.status.why() {
                map.put("why", why.to_owned());
            }
            if !finding.frames.is_empty() {
                map.put("frames", Value::vector(finding.frames.iter().cloned().map(Value::from)));
            }
            if !finding.notes.is_empty() {
                map.put("notes", Value::vector(finding.notes.iter().cloned().map(Value::from)));
            }
            Value::from(map)
        });
        let obligations = bindings.iter().filter_map(|binding| {
            let status = self.status_of(binding)?;
            let mut map = Map::new();
            map.put("obligation", binding.obligation.clone());
            map.put("check", binding.check.clone());
            map.put("status", Value::keyword(status.word()));
            Some(Value::from(map))
        });
        let mut report = Map::new();
        report.put("holds", self.holds());
        report.put("frames", i64::try_from(self.frames).unwrap_or(i64::MAX));
        report.put("checks", Value::vector(findings));
        report.put("obligations", Value::vector(obligations));
        report.put("notes", Value::vector(self.notes.iter().cloned().map(Value::from)));
        writeln!(out, "{}", edn::to_string(&Value::from(report)))
    }

    fn write_junit(&self, bindings: &[Binding], out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
        writeln!(
            out,
            "<testsuite name=\"edn-bridge contract\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            self.findings.len(),
            self.count("failed"),
            self.count("not-applicable")
        )?;
        for finding in &self.findings {
            write!(out, "  <testcase classname=\"contract\" name=\"{}\">", escaped(&finding.name))?;
            match &finding.status {
                Status::Passed => {}
                Status::NotApplicable(why) => write!(out, "<skipped message=\"{}\"/>", escaped(why))?,
                Status::Failed(why) => {
                    let bound = bindings.iter().filter(|binding| binding.check == finding.name);
                    let bound: Vec<&str> = bound.map(|binding| binding.obligation.as_str()).collect();
                    write!(
                        out,
                        "<failure message=\"{}\">{}\n{}</failure>",
                        escaped(why),
                        escaped(&bound.join(" ")),
                        escaped(&finding.frames.join("\n"))
                    )?;
                }
            }
            writeln!(out, "</testcase>")?;
        }
        writeln!(out, "</testsuite>")
    }
}

/// Text for XML: escapes the five special characters and removes control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let finding = |name: &str, status, frames: &[&str]| Finding {
            name: name.to_owned(),
            about: "About <it>.".to_owned(),
            status,
            frames: frames.iter().map(|frame| (*frame).to_owned()).collect(),
            notes: Vec::new(),
        };
        Report {
            findings: vec![
                finding("a.fine", Status::Passed, &[]),
                finding("a.wrong", Status::Failed("it is \"wrong\"".to_owned()), &["< {:a \"\\u0001\"}"]),
                finding("a.other", Status::NotApplicable("no such op".to_owned()), &[]),
            ],
            frames: 3,
            notes: vec!["Events carry no :ts.".to_owned()],
        }
    }

    fn bindings() -> Vec<Binding> {
        vec![Binding {
            obligation: "rpc-edn/rule-success.X".to_owned(),
            check: "a.wrong".to_owned(),
            waived: None,
        }]
    }

    fn written(format: Format) -> String {
        let mut out = Vec::new();
        report().write(format, &bindings(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_failure_decides() {
        assert!(!report().holds());
        let fine = Report {
            findings: report().findings.into_iter().filter(|f| f.name != "a.wrong").collect(),
            ..report()
        };
        assert!(fine.holds());
    }

    #[test]
    fn each_format_names_the_failure_its_frames_and_its_obligation() {
        for format in [Format::Text, Format::Edn, Format::Junit] {
            let text = written(format);
            for part in ["a.wrong", "rule-success.X", "it is"] {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
        let report = written(Format::Edn);
        let value = edn::read_one(report.as_bytes()).unwrap();
        assert_eq!(value.get("holds"), Some(&Value::Bool(false)));
        assert!(written(Format::Junit).contains("&lt; {:a"));
    }
}
