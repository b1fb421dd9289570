//! Agents that break: the turn ends with words, nothing is left, and the next prompt goes on.

use super::*;
use support::wait_until;

/// Whether a process is there.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z")
}

#[test]
fn crash_ends_the_turn_and_the_next_prompt_goes_on() {
    let setup = with_agent("resumes", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "say kept; call c execute; run c; crash");
    let result = bridge.event("tool/result").to_string();
    assert!(result.contains("ended before the call did"), "{result}");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "error");
    assert!(data(&last, "error-message").contains("its program has ended"), "{last}");
    assert!(history(&mut bridge).contains("kept"));
    bridge.ask("ping", "ping", "{}");
    assert_eq!(turn(&mut bridge, "say again"), "again");
    assert!(sent(&setup).iter().any(|sent| sent["method"] == "session/resume"));
}

#[test]
fn prompt_that_a_dying_process_took_is_sent_again() {
    let setup = with_agent("resumes", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "say first; die-next; error -32603 broken");
    let last = ended(&mut bridge);
    assert!(data(&last, "error-message").contains("broken"), "{last}");
    assert_eq!(turn(&mut bridge, "say second"), "second");
    assert_eq!(starts(&setup).len(), 2);
    // Once something was said of it, it may be half done.
    say(&mut bridge, "say begun; crash");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "error", "{last}");
    let prompts: Vec<_> =
        sent(&setup).into_iter().filter(|sent| sent["method"] == "session/prompt").collect();
    assert_eq!(prompts.len(), 4, "{prompts:?}");
}

#[test]
fn fourth_start_within_a_minute_is_refused() {
    let setup = with_agent("resumes", "");
    let mut bridge = setup.interactor();
    for _ in 0..3 {
        say(&mut bridge, "crash");
        ended(&mut bridge);
    }
    say(&mut bridge, "say x");
    let last = ended(&mut bridge);
    assert!(data(&last, "error-message").contains("3 times within a minute"), "{last}");
    assert_eq!(starts(&setup).len(), 3);
}

#[test]
fn garbage_without_end_and_a_line_without_end_end_the_process() {
    for words in ["garbage 2000; wait", "long-line 20000000; wait"] {
        let setup = with_agent("", "");
        let mut bridge = setup.interactor();
        say(&mut bridge, words);
        let last = ended(&mut bridge);
        assert_eq!(data(&last, "stop-reason"), "error", "{words}: {last}");
        bridge.ask("ping", "ping", "{}");
        let pid = starts(&setup)[0];
        wait_until("the process has ended", || !runs(pid));
    }
}

#[test]
fn abort_cancels_and_answers_what_was_asked() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "say kept; ask c execute once,no command=make; wait");
    bridge.event("interaction/requested");
    bridge.ask("a", "abort", "{}");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "aborted", "{last}");
    let sent = sent(&setup);
    let cancelled = sent.iter().position(|sent| sent["method"] == "session/cancel").unwrap();
    let answered = sent.iter().position(|sent| json(sent, "/result/outcome/outcome") == "cancelled").unwrap();
    assert!(answered < cancelled, "questions are answered first");
    assert_eq!(turn(&mut bridge, "say well"), "well");
    assert_eq!(starts(&setup).len(), 1, "the process goes on");
}

#[test]
fn agent_that_hangs_is_ended_by_an_abort() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "say x; hang");
    bridge.event("assistant/delta");
    bridge.ask("a", "abort", "{}");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "stop-reason"), "aborted", "{last}");
    let pid = starts(&setup)[0];
    wait_until("the process has ended", || !runs(pid));
    assert_eq!(turn(&mut bridge, "say well"), "well");
}

#[test]
fn interrupt_ends_the_turn_after_its_tools() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "say x; wait");
    bridge.event("assistant/delta");
    bridge.ask("i", "interrupt", "{}");
    assert_eq!(data(&ended(&mut bridge), "stop-reason"), "interrupted");
}

#[test]
fn nothing_of_an_agent_outlives_the_bridge() {
    for killed in [true, false] {
        let setup = with_agent("", "");
        let mut bridge = setup.interactor();
        turn(&mut bridge, "say x");
        say(&mut bridge, "say y; hang");
        bridge.event("assistant/delta");
        let pid = starts(&setup)[0];
        assert!(runs(pid));
        match killed {
            true => bridge.kill(),
            false => drop(bridge.finish()),
        }
        wait_until("the process has ended", || !runs(pid));
        // Its child, which hears nothing either.
        wait_until("all that it started has ended", || {
            let folders = std::fs::read_dir("/proc").unwrap().flatten();
            let lines = folders.filter_map(|entry| std::fs::read(entry.path().join("environ")).ok());
            let mark = setup.project().join("started").to_string_lossy().into_owned();
            lines.into_iter().all(|all| !String::from_utf8_lossy(&all).contains(&mark))
        });
    }
}

#[test]
fn refusal_of_the_agent_is_told_without_its_data() {
    let setup = with_agent("", "");
    let mut bridge = setup.interactor();
    say(&mut bridge, "error -32603 The model is overloaded");
    let last = ended(&mut bridge);
    assert_eq!(data(&last, "error-message"), "The agent a: The model is overloaded.", "{last}");
    say(&mut bridge, "error -32000 Log in");
    let last = ended(&mut bridge);
    assert!(
        data(&last, "error-message").contains("log in with its own program (Log in on a page)"),
        "{last}"
    );
    let all = history(&mut bridge);
    assert!(!all.contains("secret-of-the-agent"), "{all}");
}
