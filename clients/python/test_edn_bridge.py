"""Tests of the client with the real program: EDN_BRIDGE_PROGRAM=/path/to/edn-bridge python3 -m unittest -v

Nothing sleeps: each test waits for what the bridge sends, with a deadline.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import edn_bridge
from edn_bridge import EdnError, Keyword, Set, Symbol, dumps, loads

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ.get("EDN_BRIDGE_PROGRAM", str(ROOT / "target/debug/edn-bridge"))
#: The deadline of every wait. Generous, because a loaded machine is slow, not wrong.
PATIENCE = 60

HELLO = '{:turns [{:steps [{:delta "Hello "} {:delta "from the bridge."}] :usage {:input 7 :output 5}}]}'
WRITES = """{:turns [{:steps [{:delta "I write."}
  {:tool-call {:id "c" :name "write" :arguments {:path "a.txt" :content "one\\n"}}}]}
 {:steps [{:delta "Done."}]}]}"""
HANGS = '{:turns [{:steps [{:delta "Wait"} {:sleep-ms 3600000}]}]}'
FAILS = '{:turns [{:steps [{:error {:kind :fatal :message "out of order"}}]}]}'


def canonical(lines):
    """What the program makes of each line: its canonical form, or None if the line is not one form."""
    # A mark behind each line tells apart an empty line and one of two forms.
    marked = "".join(f"{line}\n:mark\n" for line in lines).encode()
    whole = subprocess.run([PROGRAM, "edn"], input=marked, capture_output=True)
    forms = whole.stdout.decode().split("\n")[:-1]
    if whole.returncode == 0 and len(forms) == 2 * len(lines) and set(forms[1::2]) == {":mark"}:
        return forms[::2]
    if len(lines) == 1:
        return [None]
    half = len(lines) // 2
    return canonical(lines[:half]) + canonical(lines[half:])


class Edn(unittest.TestCase):
    def test_transcripts_read_and_written_agree(self):
        files = sorted((ROOT / "tests/transcripts").glob("*.edn"))
        self.assertTrue(files)
        for file in files:
            # Only the line end ends a line: a text may have other separators.
            lines = [line for line in file.read_text("utf-8").split("\n") if line[:2] in ("> ", "< ")]
            self.assertTrue(lines, file)
            written, read = [], []
            for line, expected in zip(lines, canonical([line[2:] for line in lines])):
                with self.subTest(file.name, line=line[:200]):
                    if expected is None:
                        self.assertTrue(line.startswith("> "), "the bridge sent what is not EDN")
                        self.assertRaises(EdnError, loads, line[2:])
                        continue
                    written.append(dumps(loads(line[2:])))
                    read.append(expected)
                    if line.startswith("< "):
                        self.assertEqual(written[-1], line[2:])
            self.assertEqual(canonical(written), read, file)

    def test_values_read_become_python(self):
        for text, value in [
            ("nil", None),
            ("[true false]", [True, False]),
            (" ; a comment\n[1,-2 +3 123456789012345678901234567890]", [1, -2, 3, 123456789012345678901234567890]),
            ("[1.0 0.5 -1e-7 1E+300]", [1.0, 0.5, -1e-7, 1e300]),
            (r'"a\t\n\r\\\"\u00e9\ud83d\ude00 é"', 'a\t\n\r\\"é😀 é'),
            ("{:a/b 1 :c [:d]}", {"a/b": 1, "c": ["d"]}),
            ("(a b/c + ->x)", (Symbol("a"), Symbol("b/c"), Symbol("+"), Symbol("->x"))),
            ("#{1 {:a 2}}", Set([1, {"a": 2}])),
            ("{[:op/name \"ping\"] 1}", {("op/name", "ping"): 1}),
            ("[1 #_ [2 #_3] 4 #_#_ 5 6]", [1, 4]),
        ]:
            with self.subTest(text):
                self.assertEqual(loads(text), value)
                self.assertIs(type(loads(text)), type(value))

    def test_keyword_and_string_stay_apart(self):
        self.assertEqual(dumps(loads('{:type "text" :kind :text}')), '{:type "text" :kind :text}')
        self.assertEqual(dumps(edn_bridge.keys({"a": [{"b": "c"}]})), '{:a [{:b "c"}]}')
        self.assertEqual(dumps({"a.txt": 1}), '{"a.txt" 1}')

    def test_text_that_is_no_form_is_refused_at_its_place(self):
        for text, offset in [
            ("", 0), ("1 2", 3), ("[1", 0), ("[1)", 2), ("{:a}", 0), ('"a', 0), (r'"\x"', 1), ('"\\ud83d"', 0),
            ("#inst \"2020-01-01\"", 0), ("1/2", 0), ("\\a", 0), ("08", 0), (":", 0), ("a/", 0), ("[#_]", 3),
            ("{:a 1 :a 2}", 0), ("#_1", 3), ("[" * 300, 256),
        ]:
            with self.subTest(text[:20]):
                with self.assertRaises(EdnError) as raised:
                    loads(text)
                self.assertEqual(raised.exception.offset, offset)

    def test_value_without_form_is_refused(self):
        endless = []
        endless.append(endless)
        for value in [float("nan"), object(), Keyword("a b"), Keyword(""), Symbol("nil"), "\ud800", endless]:
            self.assertRaises(EdnError, dumps, value)


class Live(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.project = self.folder / "project"
        self.project.mkdir()

    def command(self, script):
        (self.folder / "script.edn").write_text(script)
        return [PROGRAM, "serve", "--no-daemon", "--provider", "scripted", "--script", str(self.folder / "script.edn"),
                "--state-dir", str(self.folder / "state")]

    def start(self, script=HELLO, wrapper=(), **options):
        environment = {**os.environ, "XDG_CONFIG_HOME": str(self.folder / "config")}
        bridge = edn_bridge.start([*wrapper, *self.command(script)], cwd=str(self.project), env=environment, **options)
        self.addCleanup(bridge.close)
        return bridge

    def attached(self):
        """Another client of the bridge, whose socket may come a little after the first answer."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return edn_bridge.attach(cwd=str(self.project), state_dir=str(self.folder / "state"))
            except edn_bridge.BridgeClosed:
                if time.monotonic() > deadline:
                    raise

    def test_prompt_streams_and_returns_answer(self):
        pieces = []
        answer = self.start().prompt("Hi.", on_delta=pieces.append, timeout=PATIENCE)
        self.assertEqual(answer.text, "Hello from the bridge.")
        self.assertEqual("".join(pieces), answer.text)
        self.assertEqual((answer.outcome, answer.usage["output"], len(answer.messages)), ("completed", 5, 1))

    def test_command_as_prompt_begins_no_turn(self):
        self.assertEqual(self.start().prompt("/status", timeout=PATIENCE).outcome, "command")

    def test_failed_turn_raises_with_its_reason(self):
        bridge = self.start(FAILS)
        with self.assertRaisesRegex(edn_bridge.TurnEnded, "out of order") as raised:
            bridge.prompt("Hi.", timeout=PATIENCE)
        self.assertEqual(raised.exception.answer.outcome, "failed")
        self.assertEqual(bridge.prompt("Again.", timeout=PATIENCE, check=False).outcome, "failed")

    def test_question_approved_lets_the_call_run(self):
        asked = []

        def approve(question):
            asked.append(question)
            return question.approve()

        answer = self.start(WRITES, on_question=approve).prompt("Write.", timeout=PATIENCE)
        self.assertEqual(answer.text, "Done.")
        self.assertEqual([(q.kind, q.payload["tool"]) for q in asked], [("approve", "write")])
        self.assertIn("+one", asked[0].payload["diff"])
        self.assertEqual((self.project / "a.txt").read_text(), "one\n")

    def test_question_denied_tells_the_model_why(self):
        bridge = self.start(WRITES, on_question=lambda question: question.deny("not that file"))
        with bridge.events("tool/result", timeout=PATIENCE) as results:
            bridge.prompt("Write.", timeout=PATIENCE)
            self.assertIn("not that file", next(results).data["result-text"])
        self.assertFalse((self.project / "a.txt").exists())

    def test_turn_fails_where_nobody_can_be_asked(self):
        with self.assertRaisesRegex(edn_bridge.TurnEnded, "permission-required"):
            self.start(WRITES).prompt("Write.", timeout=PATIENCE)
        self.assertFalse((self.project / "a.txt").exists())

    def test_question_approved_by_rule_is_asked_once(self):
        asked = []

        def approve(question):
            asked.append(question)
            return question.approve("rule")

        bridge = self.start(WRITES[:-1] + " :then :cycle}", on_question=approve)
        bridge.prompt("Write.", timeout=PATIENCE)
        bridge.prompt("Write again.", timeout=PATIENCE)
        self.assertEqual(len(asked), 1)

    def test_callback_that_raises_cancels_and_prompt_raises(self):
        def broken(question):
            raise RuntimeError("no idea")

        bridge = self.start(WRITES, on_question=broken)
        with self.assertRaisesRegex(RuntimeError, "no idea"):
            bridge.prompt("Write.", timeout=PATIENCE)
        self.assertFalse((self.project / "a.txt").exists())

    def test_callback_that_raises_late_spoils_no_later_prompt(self):
        asked, late = threading.Event(), threading.Event()

        def broken_once(question):
            if asked.is_set():
                return question.approve()
            asked.set()
            late.wait(PATIENCE)
            raise RuntimeError("no idea")

        bridge = self.start(WRITES[:-1] + " :then :cycle}", on_question=broken_once)
        with self.assertRaises(edn_bridge.BridgeTimeout):
            bridge.prompt("Write.", timeout=0)
        self.assertTrue(asked.wait(PATIENCE))
        with bridge.events("turn/ended", timeout=PATIENCE) as ends, self.assertLogs("edn_bridge", "WARNING") as logs:
            late.set()
            next(ends)
        self.assertIn("no idea", logs.output[0])
        self.assertEqual(bridge.prompt("Write again.", timeout=PATIENCE).outcome, "completed")

    def test_answer_of_wrong_shape_raises_in_prompt(self):
        bridge = self.start(WRITES, on_question=lambda question: question.accept(outcome="perhaps"))
        with self.assertRaises(edn_bridge.InvalidParams):
            bridge.prompt("Write.", timeout=PATIENCE)

    def test_each_error_code_has_its_class(self):
        reference = (ROOT / "spec/reference.md").read_text().split("## Error codes")[1].split("\n## ")[0]
        codes = set(re.findall(r"^\| `([^`]+)`", reference, re.MULTILINE))
        self.assertEqual(codes, set(edn_bridge.WireError._classes))

    def test_errors_of_the_bridge_have_their_class(self):
        bridge = self.start(HANGS)
        for error, op, params in [
            (edn_bridge.OpNotSupported, "no_such_op", {}),
            (edn_bridge.InvalidParams, "set_mode", {"mode": "reckless"}),
            (edn_bridge.NotFound, "switch_session", {"session_id": "nobody"}),
            (edn_bridge.InvalidQuery, "query_eql", {"query": "[:a"}),
            (edn_bridge.UnknownCommand, "command", {"text": "/statsu"}),
            (edn_bridge.NothingToRetry, "retry", {}),
        ]:
            with self.subTest(op), self.assertRaises(error) as raised:
                bridge.request(op, **params)
            self.assertEqual((raised.exception.op, raised.exception.code), (op, error.code))
        with self.assertRaises(edn_bridge.UnknownCommand) as raised:
            bridge.request("command", text="/statsu")
        self.assertIn("status", raised.exception.data["nearest"])

    def test_turn_beyond_its_time_goes_on_until_aborted(self):
        bridge = self.start(HANGS)
        with self.assertRaises(edn_bridge.BridgeTimeout):
            bridge.prompt("Hi.", timeout=0.05)
        with self.assertRaises(edn_bridge.SessionNotIdle) as raised:
            bridge.prompt("Again.", timeout=PATIENCE)
        self.assertTrue(raised.exception.retryable)
        with bridge.events("turn/ended", timeout=PATIENCE) as ends:
            self.assertTrue(bridge.abort())
            self.assertEqual(next(ends).data["outcome"], "aborted")

    def test_stream_without_events_raises_timeout(self):
        with self.start().events("turn/ended", timeout=0.01) as events:
            self.assertRaises(edn_bridge.BridgeTimeout, next, events)

    def test_unknown_topic_is_an_error(self):
        with self.assertRaisesRegex(ValueError, "no/topic"):
            self.start().events("no/topic")

    def test_lost_events_are_counted_at_their_place(self):
        # The real bridge, behind a line that drops the second and third event.
        dropping = (
            "import subprocess, sys\n"
            "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
            "for line in child.stdout:\n"
            "    if b' :seq 2 ' not in line and b' :seq 3 ' not in line:\n"
            "        sys.stdout.buffer.write(line); sys.stdout.flush()\n"
        )
        bridge = self.start(wrapper=[sys.executable, "-c", dropping])
        with bridge.events("session/updated", "turn/stage", timeout=PATIENCE) as events:
            bridge.prompt("Hi.", timeout=PATIENCE)
            got = [next(events) for _ in range(3)]
        self.assertEqual([(event.seq, event.missed) for event in got[:2]], [(1, 0), (4, 2)])
        self.assertEqual((got[2].missed, bridge.missed), (0, 2))

    def test_reader_that_is_behind_is_told_what_it_lost(self):
        bridge = self.start('{:turns [{:steps [{:deltas 30 :of "x"}]}]}')
        limit, edn_bridge.MAX_EVENTS = edn_bridge.MAX_EVENTS, 3
        self.addCleanup(setattr, edn_bridge, "MAX_EVENTS", limit)
        with bridge.events("turn/stage", "turn/ended", timeout=PATIENCE) as behind:
            bridge.prompt("Hi.", timeout=PATIENCE)
            got = [next(behind) for _ in range(3)]
        self.assertEqual(got[-1].topic, "turn/ended")
        self.assertGreater(got[0].missed, 0)
        self.assertEqual([event.missed for event in got[1:]], [0, 0])

    def test_attached_client_shares_the_session(self):
        first = self.start()
        answer = first.prompt("Hi.", timeout=PATIENCE)
        with self.attached() as second:
            second.request("switch_session", session_id=first.server_info["session-id"])
            messages = second.request("get_messages")["messages"]
            self.assertEqual(messages[-1]["content"][0]["text"], answer.text)
            with first.events("user/message", timeout=PATIENCE) as seen:
                second.prompt("From the other one.", timeout=PATIENCE)
                self.assertEqual(next(seen).data["text"], "From the other one.")
        self.assertTrue(first.request("ping")["pong"])

    def test_attach_without_a_bridge_says_so(self):
        with self.assertRaisesRegex(edn_bridge.BridgeClosed, str(self.project)):
            edn_bridge.attach(cwd=str(self.project), state_dir=str(self.folder / "state"))

    def test_query_returns_the_result(self):
        bridge = self.start()
        result = bridge.query_eql('[:psi.agent-session/phase {[:psi.op/name "ping"] [:psi.op/doc]}]')
        self.assertEqual(result["psi.agent-session/phase"], "idle")
        self.assertEqual(result[("psi.op/name", "ping")]["psi.op/doc"], "Answers at once.")
        self.assertRaises(edn_bridge.QueryFailed, bridge.query_eql, "[:no/attribute]")
        self.assertEqual(bridge.query_eql("[:no/attribute]", strict=False), {})

    def test_killed_bridge_ends_requests_and_streams(self):
        bridge = self.start(HANGS)
        with bridge.events("assistant/delta", timeout=PATIENCE) as events:
            bridge.request("prompt", message="Hi.")
            next(events)
            bridge.process.kill()
            self.assertEqual(list(events), [])
        with self.assertRaisesRegex(edn_bridge.BridgeClosed, "exit status -9"):
            bridge.request("ping")

    def test_program_without_handshake_is_ended(self):
        with self.assertRaises(edn_bridge.BridgeClosed):
            edn_bridge.start(["true"])


if __name__ == "__main__":
    unittest.main()
