"""The server's side of the official conformance suite against `edn-bridge mcp serve`: python3 server_suite.py PROGRAM NODE
SUITE FOLDER. Runs what both revisions require, over the bridge in http_bridge.py, and leaves the results in the folder.

The suite is written for servers of its own: most of its scenarios call tools, prompts and resources that only its example
server has. Each check that fails is therefore listed here with why; one that fails and is not listed, or is listed and
passes, fails this script. Needs no packages.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

REVISIONS = ("2025-11-25", "2026-07-28")
EXAMPLE = "calls a tool, a prompt or a resource of the suite's example server"
OVER_HTTP = "is about HTTP, which this program does not serve: the bridge of the test does"
NONE_OFFERED = "is about what this program does not offer, and does not say that it offers"

# By reason: scenarios, or single checks of one after a slash.
REASONS = {
    EXAMPLE: """
        elicitation-sep1034-defaults elicitation-sep1330-enums json-schema-2020-12 prompts-get-embedded-resource
        prompts-get-simple prompts-get-with-args prompts-get-with-image resources-read-binary resources-read-text
        resources-templates-read tools-call-audio tools-call-elicitation tools-call-embedded-resource tools-call-error
        tools-call-image tools-call-mixed-content tools-call-sampling tools-call-simple-text tools-call-with-logging
        tools-call-with-progress input-required-result-basic-elicitation input-required-result-basic-list-roots
        input-required-result-basic-sampling input-required-result-capability-check input-required-result-multi-round
        input-required-result-multiple-input-requests input-required-result-non-tool-request
        input-required-result-request-state input-required-result-result-type input-required-result-tampered-state
        server-stateless/sep-2575-server-rejects-undeclared-capability
        server-stateless/sep-2575-missing-capability-http-400
        server-stateless/sep-2575-http-server-no-independent-requests-on-stream
        server-stateless/sep-2575-server-no-log-without-loglevel
        """,
    OVER_HTTP: """
        dns-rebinding-protection http-header-validation http-custom-header-server-validation
        server-stateless/sep-2575-http-server-header-mismatch-400
        """,
    NONE_OFFERED: """
        completion-complete logging-set-level prompts-list resources-subscribe resources-unsubscribe
        caching/sep-2549-prompts-list-caching-hints tasks-capability-negotiation tasks-dispatch-and-envelope
        tasks-lifecycle tasks-mrtr-composition tasks-mrtr-input tasks-request-headers tasks-request-state-removal
        tasks-required-task-error tasks-wire-fields
        """,
}
LISTED = {name: why for why, names in REASONS.items() for name in names.split()}


def run(program, node, suite, folder, scratch):
    state, project, script = (scratch / name for name in ("state", "project", "script.edn"))
    project.mkdir()
    script.write_text('{:turns [{:steps [{:delta "Hello."}]}] :then :repeat-last}')
    command = [program, "--state-dir", state, "--cwd", project, "--provider", "scripted", "--script", script]
    environment = {"PATH": os.environ["PATH"], "HOME": str(scratch), "EDN_BRIDGE_DAEMON": "never"}
    # A session, so that there is a resource.
    subprocess.run([*command, "prompt", "Hi"], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
    here = pathlib.Path(__file__).parent / "http_bridge.py"
    with subprocess.Popen(
        [sys.executable, here, *command, "mcp", "serve"], env=environment, stdout=subprocess.PIPE, text=True
    ) as bridge:
        try:
            address = bridge.stdout.readline().strip()
            for revision in REVISIONS:
                arguments = ["server", "--url", address, "--requirements", revision, "-o", folder / revision]
                subprocess.run([node, suite, *arguments], check=False, timeout=600)
        finally:
            bridge.terminate()


def judged(folder):
    """The scenarios that ran, the checks that passed, and what is wrong."""
    passed, scenarios, failed, wrong = 0, set(), set(), []
    for revision in REVISIONS:
        found = sorted((folder / revision).glob("server-*/checks.json"))
        if len(found) < 30:
            wrong.append(f"only {len(found)} scenarios of {revision} ran")
        for path in found:
            # server-NAME-TIME
            scenario = path.parent.name.removeprefix("server-").rsplit("-", 6)[0]
            scenarios.add(scenario)
            for check in json.loads(path.read_text()):
                passed += check["status"] == "SUCCESS"
                if check["status"] != "FAILURE":
                    continue
                single = f"{scenario}/{check['id']}"
                # Whatever a scenario is about, what is sent must be of the protocol.
                name = scenario if scenario in LISTED and check["id"] != "wire-schema-valid" else single
                failed.add(name)
                if name not in LISTED:
                    wrong.append(f"{revision} {single}: {check.get('errorMessage')}")
    wrong.extend(f"{name} does not fail any more: take it out of the list" for name in LISTED if name not in failed)
    return passed, scenarios, failed, wrong


def main(program, node, suite, folder):
    folder = pathlib.Path(folder)
    subprocess.run(["rm", "-rf", folder], check=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        run(os.path.abspath(program), node, suite, folder, pathlib.Path(scratch))
    passed, scenarios, failed, wrong = judged(folder)
    for why, names in REASONS.items():
        print(f"Left out, {len(names.split())}: {why}.")
    for what in wrong:
        print(f"WRONG: {what}")
    print(f"Ran {passed} tests that pass, in {len(scenarios)} scenarios; {len(failed)} are left out, {len(wrong)} wrong")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
