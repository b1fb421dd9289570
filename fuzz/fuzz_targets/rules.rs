//! Random rules, calls and modes: no panic, deny beats allow, a read-only session changes nothing, and without a rule
//! that allows nobody runs a command unasked. The steps are linear in the call times the rules.
#![no_main]

use std::path::Path;

use edn_bridge::message::Mode;
use edn_bridge::meter::Meter;
use edn_bridge::tool::permission::{Access, Act, Decision, Ground, Rule, Run, Verdict, judge_within};
use edn_bridge::tool::walk::DeniedPaths;
use libfuzzer_sys::fuzz_target;

const MODES: [Mode; 4] = [Mode::Ask, Mode::AcceptEdits, Mode::ReadOnly, Mode::Yolo];
const TOOLS: [&str; 4] = ["bash", "read", "write", "search"];

fn of(mode: Mode, rules: &[Rule], tool: &str, access: &Access) -> Verdict {
    let mut meter = Meter::new(usize::MAX, usize::MAX);
    let act = Act::of(tool, access.clone());
    let verdict = judge_within(&mut meter, mode, rules, &Ground::from(Path::new("/w")), &act);
    let subject = match access {
        Access::Run(run) => run.line.len(),
        Access::Read(path) | Access::Write(path) => path.as_os_str().len(),
        _ => 0,
    };
    let texts = |rule: &Rule| [&rule.path, &rule.command].into_iter().flatten().map(String::len).sum::<usize>() + 1;
    let about = rules.iter().map(texts).sum::<usize>() + 1;
    // A look at a word costs some hundred steps, and one at the disk a thousand.
    assert!(meter.steps() <= 4_000 * (subject + 1) * about, "{} {subject} {about}", meter.steps());
    verdict
}

/// A rule from a line such as `dp**/x`: its decision, what it is about, and the glob or the command's words.
fn rule(line: &str) -> Option<Rule> {
    let mut chars = line.chars();
    let decision = match chars.next()? {
        'd' => Decision::Deny,
        'a' => Decision::Allow,
        _ => Decision::Ask,
    };
    let about = chars.next()?;
    let text = Some(chars.as_str().to_owned()).filter(|text| !text.is_empty());
    let (path, command) = if about == 'p' { (text, None) } else { (None, text) };
    let rule = Rule { decision, tool: None, path, command, host: None, exact: about == 'e' };
    // As configuration would make it.
    Rule::read(&rule.to_value()).ok()
}

fuzz_target!(|input: &[u8]| {
    let Some(([mode, tool], rest)) = input.split_first_chunk::<2>() else { return };
    let text = String::from_utf8_lossy(rest);
    let mut lines = text.lines();
    let Some(subject) = lines.next() else { return };
    let rules: Vec<Rule> = lines.take(16).filter_map(rule).collect();
    let (mode, tool) = (MODES[usize::from(*mode) % 4], TOOLS[usize::from(*tool) % 4]);
    let path = Path::new("/w").join(subject);
    let access = match tool {
        "bash" => Access::Run(Run::line(subject)),
        "write" => Access::Write(path.clone()),
        _ => Access::Read(path.clone()),
    };
    let verdict = of(mode, &rules, tool, &access);
    let denied = rules.iter().any(|rule| {
        rule.decision == Decision::Deny
            && matches!(of(mode, std::slice::from_ref(rule), tool, &access), Verdict::Deny(_))
    });
    if denied {
        assert!(matches!(verdict, Verdict::Deny(_)), "{rules:?} {access:?}");
    }
    if mode == Mode::ReadOnly && !matches!(access, Access::Read(_)) {
        assert_ne!(verdict, Verdict::Allow);
    }
    let none_allows = rules.iter().all(|rule| rule.decision != Decision::Allow);
    if none_allows && mode != Mode::Yolo && matches!(access, Access::Run(_)) {
        assert_ne!(verdict, Verdict::Allow, "{rules:?} {access:?}");
    }
    // What a rule denies to a tool by its path, a walk does not see.
    let paths: Vec<Rule> = rules.into_iter().filter(|rule| rule.path.is_some()).collect();
    if matches!(of(Mode::Yolo, &paths, "search", &Access::Read(path.clone())), Verdict::Deny(_)) {
        assert!(DeniedPaths::new(&paths, &Ground::from(Path::new("/w")), "search").bars(&path));
    }
});
