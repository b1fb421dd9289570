//! The Clojure example, run by Clojure if it is installed.
use crate::support;

use std::process::Command;

#[test]
fn the_clojure_example_asks_and_prompts() {
    if Command::new("clojure").arg("-e").arg("nil").output().is_err() {
        eprintln!("clojure is not installed: not run");
        return;
    }
    let setup = support::Setup::new()
        .script("{:turns [{:steps [{:delta \"Hello from \"} {:delta \"the bridge.\"}]}]}");
    let bridge = setup.command();
    let mut clojure = Command::new("clojure");
    clojure.arg("tests/clojure/bridge.clj").arg(bridge.get_program()).args(bridge.get_args()).arg("serve");
    let output = clojure.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let mut lines = said.lines();
    let answer = edn_bridge::edn::read_one(lines.next().unwrap().as_bytes()).unwrap().into_owned();
    assert_eq!(answer.get("psi.agent-session/phase").unwrap().to_string(), ":idle");
    assert!(answer.to_string().contains("Answers at once."), "{answer}");
    assert_eq!(lines.next(), Some("\"Hello from the bridge.\""));
}
