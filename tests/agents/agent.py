"""An agent for tests. It does what the prompt says, a step after the other, and misbehaves where that says so.

A prompt is steps between semicolons, such as `say hello; call c1 execute; done c1 ok`. What it receives is written to the
file that AGENT_LOG names, and each start to the one that STARTED names. AGENT_MODE is how it starts and what it can.
"""

import json
import os
import sys
import time

MODE = os.environ.get("AGENT_MODE", "")
LOG = os.environ.get("AGENT_LOG")
NEXT = [0]
SESSIONS = {}
# A file with the steps of each turn on a line of its own: what is said to the agent is natural then.
PLAY = open(os.environ["AGENT_PLAY"]).read().splitlines() if "AGENT_PLAY" in os.environ else None
CANCELLED = set()
DIES = []
# The MCP servers that each session was given, and the first words of its prompts.
SERVERS = {}
HISTORY = {}
OPTIONS = {"model": "m-small", "brave": False}


def send(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def note(line):
    if LOG:
        with open(LOG, "a") as log:
            log.write(json.dumps(line) + "\n")


def receive():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    if LOG:
        with open(LOG, "a") as log:
            log.write(line)
    message = json.loads(line)
    if message.get("method") == "session/cancel":
        CANCELLED.add(message["params"]["sessionId"])
    return message


def update(session, what, **fields):
    fields["sessionUpdate"] = what
    send({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": fields}})


def ask(method, params):
    """Asks the client, and waits for its answer; prompts that come meanwhile are not expected."""
    NEXT[0] += 1
    name = "q%d" % NEXT[0]
    note({"asked": name, "method": method})
    send({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
    while True:
        message = receive()
        if message.get("id") == name and "method" not in message:
            return message


def text(words):
    return {"type": "text", "text": words}


VALUES = [{"value": "m-small", "name": "Small"}, {"value": "m-large", "name": "Large"}]


def options():
    return [
        {"id": "model", "name": "Model", "category": "model", "type": "select",
         "currentValue": OPTIONS["model"], "options": VALUES},
        {"id": "brave", "name": "Brave", "type": "boolean", "currentValue": OPTIONS["brave"]},
    ]


KINDS = {"once": "allow_once", "always": "allow_always", "no": "reject_once", "never": "reject_always"}


def permission(session, words):
    """`ask ID KIND SHAPE key=value …`: a shape is words of KINDS between commas."""
    call, kind, shape = words[0], words[1], words[2]
    fields = {"toolCallId": call, "kind": kind, "title": "Do %s" % call, "status": "pending"}
    for pair in words[3:]:
        key, value = pair.split("=", 1)
        value = value.replace("_", " ")
        if key == "title":
            fields["title"] = value
        elif key == "command":
            fields["rawInput"] = {"command": value}
        elif key == "diff":
            path, new = value.split("@", 1)
            path = os.path.join(SESSIONS[session], path)
            old = open(path).read() if os.path.exists(path) else None
            fields["content"] = [{"type": "diff", "path": path, "oldText": old, "newText": new.replace("|", "\n")}]
        elif key == "title":
            fields["title"] = value
        elif key == "path":
            fields["locations"] = [{"path": os.path.join(SESSIONS[session], value)}]
    return offer(session, fields, shape)


def offer(session, fields, shape):
    offered = [{"optionId": "%s-%d" % (word, at), "name": "Say %s %d" % (word, at), "kind": KINDS[word]}
               for at, word in enumerate(shape.split(","))]
    answer = ask("session/request_permission", {"sessionId": session, "toolCall": fields, "options": offered})
    outcome = answer.get("result", {}).get("outcome", {})
    return outcome.get("optionId", outcome.get("outcome", "error"))


def step(session, line):
    word, _, rest = line.strip().partition(" ")
    words = rest.split()
    if word == "say":
        update(session, "agent_message_chunk", content=text(rest))
    elif word == "message":
        update(session, "agent_message_chunk", messageId=words[0], content=text(" ".join(words[1:])))
    elif word == "think":
        update(session, "agent_thought_chunk", content=text(rest))
    elif word == "call":
        update(session, "tool_call", toolCallId=words[0], kind=words[1], title="Call %s" % words[0],
               status="pending", rawInput={})
    elif word == "input":
        update(session, "tool_call_update", toolCallId=words[0], rawInput={"command": " ".join(words[1:])})
    elif word == "run":
        update(session, "tool_call_update", toolCallId=words[0], status="in_progress")
    elif word == "output":
        update(session, "tool_call_update", toolCallId=words[0],
               content=[{"type": "content", "content": text(" ".join(words[1:]))}])
    elif word in ("done", "fail"):
        fields = {"toolCallId": words[0], "status": "completed" if word == "done" else "failed"}
        if words[1:]:
            fields["content"] = [{"type": "content", "content": text(" ".join(words[1:]))}]
        update(session, "tool_call_update", **fields)
    elif word == "diff":
        update(session, "tool_call_update", toolCallId=words[0], status="completed", content=[
            {"type": "diff", "path": os.path.join(SESSIONS[session], words[1]), "oldText": "old\n", "newText": "new\n"}])
    elif word == "own-terminal":
        update(session, "tool_call_update", toolCallId=words[0], content=[{"type": "terminal", "terminalId": "mine"}])
        update(session, "tool_call_update", toolCallId=words[0],
               _meta={"terminal_output_delta": {"terminal_id": "mine", "data": " ".join(words[1:])}})
    elif word == "ask":
        update(session, "agent_message_chunk", content=text("chose %s. " % permission(session, words)))
    elif word == "request":
        # `request JSON`: a call as it stands; `WS/` is the session's folder, and `shape` what is offered.
        fields = {"toolCallId": "r%d" % NEXT[0], "title": "Do it", "status": "pending"}
        fields.update(json.loads(rest.replace("WS/", SESSIONS[session] + "/")))
        said = offer(session, fields, fields.pop("shape", "always,once,no"))
        update(session, "agent_message_chunk", content=text("chose %s. " % said))
    elif word == "create":
        # `create JSON`: a command as it stands.
        fields = {"sessionId": session}
        fields.update(json.loads(rest.replace("WS/", SESSIONS[session] + "/")))
        answer = ask("terminal/create", fields)
        if "error" in answer:
            update(session, "agent_message_chunk", content=text("no terminal. "))
            return
        name = {"sessionId": session, "terminalId": answer["result"]["terminalId"]}
        ask("terminal/wait_for_exit", name)
        update(session, "agent_message_chunk", content=text("output %s. " % ask("terminal/output", name)["result"]["output"]))
        ask("terminal/release", name)
    elif word == "write":
        path = words[0] if words[0].startswith("/") else os.path.join(SESSIONS[session], words[0])
        answer = ask("fs/write_text_file", {"sessionId": session, "path": path,
                                            "content": " ".join(words[1:]).replace("_", " ")})
        said = "wrote. " if "result" in answer else "not written: %s. " % answer["error"]["message"]
        update(session, "agent_message_chunk", content=text(said))
    elif word == "relative":
        answer = ask("fs/read_text_file", {"sessionId": session, "path": words[0]})
        update(session, "agent_message_chunk", content=text("code %s. " % answer["error"]["code"]))
    elif word == "read":
        params = {"sessionId": session, "path": os.path.join(SESSIONS[session], words[0])}
        if words[1:]:
            params["line"], params["limit"] = int(words[1]), int(words[2])
        answer = ask("fs/read_text_file", params)
        said = answer["result"]["content"] if "result" in answer else "code %s" % answer["error"]["code"]
        update(session, "agent_message_chunk", content=text("read %s. " % said))
    elif word == "terminal":
        answer = ask("terminal/create", {"sessionId": session, "command": words[0], "args": words[1:],
                                         "outputByteLimit": 1000})
        if "error" in answer:
            update(session, "agent_message_chunk", content=text("no terminal. "))
            return
        name = {"sessionId": session, "terminalId": answer["result"]["terminalId"]}
        ended = ask("terminal/wait_for_exit", name)["result"]
        output = ask("terminal/output", name)["result"]
        ask("terminal/release", name)
        gone = ask("terminal/output", name)
        update(session, "agent_message_chunk", content=text(
            "exit %s, cut %s, output %s, then %s. " % (ended.get("exitCode"), output["truncated"],
                                                       output["output"], gone["error"]["code"])))
    elif word == "form":
        schema = {"type": "object", "properties": {"name": {"type": "string", "title": "Your name"}},
                  "required": ["name"]}
        answer = ask("elicitation/create", {"sessionId": session, "mode": "form", "message": "Who are you?",
                                            "requestedSchema": schema})
        update(session, "agent_message_chunk", content=text(json.dumps(answer["result"], sort_keys=True)))
    elif word == "unknown-method":
        answer = ask("vendor/nothing", {"sessionId": session})
        update(session, "agent_message_chunk", content=text("code %s. " % answer["error"]["code"]))
    elif word == "withdraw":
        NEXT[0] += 1
        name = "q%d" % NEXT[0]
        note({"asked": name, "method": "session/request_permission"})
        send({"jsonrpc": "2.0", "id": name, "method": "session/request_permission", "params": {
            "sessionId": session, "toolCall": {"toolCallId": "w", "kind": "execute", "title": "Never mind",
                                               "rawInput": {"command": "true"}},
            "options": [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]}})
        # The client's first question is on its way by the time that this is read.
        send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": name}})
        while receive().get("id") != name:
            pass
        update(session, "agent_message_chunk", content=text("withdrawn. "))
    elif word == "commands":
        update(session, "available_commands_update", availableCommands=[
            {"name": "review", "description": "Reviews.", "input": {"hint": "what"}},
            {"name": "Odd Name", "description": "Cannot be typed."}])
    elif word == "plan":
        # Such as `plan completed First|in_progress Second`.
        steps = [step.split(" ", 1) for step in (rest or "completed First|in_progress Second").split("|")]
        update(session, "plan", entries=[
            {"content": text, "priority": "medium", "status": status} for status, text in steps])
    elif word == "title-of":
        update(session, "tool_call_update", toolCallId=words[0], title=" ".join(words[1:]))
    elif word == "usage":
        update(session, "usage_update", used=int(words[0]), size=int(words[1]),
               cost={"amount": float(words[2]), "currency": "USD"})
    elif word == "title":
        update(session, "session_info_update", title=rest)
    elif word == "notice":
        update(session, "notice", severity="warning", title=rest)
    elif word == "unknown-updates":
        update("no-such-session", "agent_message_chunk", content=text("lost"))
        update(session, "tool_call_update", toolCallId="never-told", status="in_progress")
        update(session, "tomorrow_update", content=7)
        send({"jsonrpc": "2.0", "id": "nobody-asked", "result": {}})
        send({"jsonrpc": "2.0", "method": "vendor/notice", "params": []})
    elif word == "garbage":
        for _ in range(int(words[0])):
            sys.stdout.write("this is { no json\n")
        sys.stdout.flush()
    elif word == "flood":
        for at in range(int(words[0])):
            update(session, "agent_message_chunk", content=text("%d " % at))
    elif word == "big":
        update(session, "agent_message_chunk", content=text("x" * int(words[0])))
    elif word == "long-line":
        sys.stdout.write("y" * int(words[0]))
        sys.stdout.flush()
    elif word == "crash":
        sys.stderr.write("it fell over\n")
        sys.stderr.flush()
        os._exit(3)
    elif word == "die-next":
        DIES.append(session)
    elif word == "hang":
        # Neither a cancellation nor the end of its input is heard.
        child = os.fork()
        if child == 0:
            time.sleep(3600)
        time.sleep(3600)
    elif word == "wait":
        while session not in CANCELLED:
            receive()
    elif word == "env":
        names = sorted(name for name in os.environ if not name.startswith(("LC_", "XDG_")))
        update(session, "agent_message_chunk", content=text(" ".join(names)))
    elif word == "content":
        contents = {
            "image": {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
            "link": {"type": "resource_link", "name": "notes", "uri": "file:///n.md"},
            "file": {"type": "resource", "resource": {"uri": "file:///n.md", "text": "in the file"}},
            "audio": {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"},
        }
        update(session, "agent_message_chunk", content=contents[words[0]])
    elif word == "long":
        lines = "".join("line %d\n" % at for at in range(int(words[1])))
        update(session, "tool_call_update", toolCallId=words[0], status="completed",
               content=[{"type": "content", "content": text(lines)}])
    elif word == "compaction":
        update(session, "compaction_update", compactionId="k", status="in_progress")
        update(session, "compaction_update", compactionId="k", status="completed")
    elif word == "mode-is":
        update(session, "current_mode_update", currentModeId=words[0])
    elif word == "form-all":
        schema = {"type": "object", "properties": {
            "level": {"type": "string", "title": "Level", "enum": ["low", "high"]},
            "sure": {"type": "boolean", "title": "Sure"},
            "count": {"type": "integer", "title": "Count", "minimum": 1, "maximum": 9}}}
        answer = ask("elicitation/create", {"sessionId": session, "mode": "form", "message": "Say.",
                                            "requestedSchema": schema})
        update(session, "agent_message_chunk", content=text(json.dumps(answer["result"], sort_keys=True)))
    elif word == "page":
        answer = ask("elicitation/create", {"sessionId": session, "mode": "url", "message": "Log in.",
                                            "elicitationId": "e1", "url": words[0]})
        update(session, "agent_message_chunk", content=text(json.dumps(answer["result"], sort_keys=True)))
    elif word == "terminals":
        made = []
        for _ in range(int(words[0])):
            answer = ask("terminal/create", {"sessionId": session, "command": "sleep", "args": ["60"]})
            made.append("error" if "error" in answer else "made")
        update(session, "agent_message_chunk", content=text("%d made, then %s. " % (made.count("made"), made[-1])))
    elif word == "complete":
        update(session, "agent_message_chunk", content=text("Done.\n```complete-stage\n%s\n```\n" % rest))
    elif word == "option":
        # The agent changes its own option.
        OPTIONS[words[0]] = words[1]
        update(session, "config_option_update", configOptions=options())
    elif word == "forget-option":
        VALUES[:] = [value for value in VALUES if value["value"] != words[0]]
    elif word == "servers":
        update(session, "agent_message_chunk", content=text(json.dumps(SERVERS.get(session), sort_keys=True)))
    elif word == "history":
        update(session, "agent_message_chunk", content=text(" ".join(HISTORY.get(session, []))))
    elif word == "touch":
        try:
            with open(rest, "w") as file:
                file.write("x")
            said = "touched"
        except OSError:
            said = "forbidden"
        update(session, "agent_message_chunk", content=text(said))
    elif word == "stop":
        return rest
    elif word == "error":
        raise Refusal(int(words[0]), " ".join(words[1:]))
    else:
        update(session, "agent_message_chunk", content=text("did not understand %r" % line))
    return None


class Refusal(Exception):
    pass


def prompt(session, parts):
    CANCELLED.discard(session)
    HISTORY.setdefault(session, []).append(parts[0].get("text", "").split(" ")[0] if parts else "")
    reason = "end_turn"
    whole = " ".join(part.get("text", "[image]") for part in parts)
    if PLAY:
        whole = PLAY.pop(0)
    if "STEPS:" in whole:
        # What stands around the task of a subagent or a stage is not for it.
        whole = whole.split("STEPS:", 1)[1].split("\n")[0]
    for line in whole.split(";"):
        if line.strip():
            reason = step(session, line) or reason
        if session in CANCELLED:
            reason = "cancelled"
            break
    if MODE == "titles":
        return {"stopReason": reason, "_meta": {"quota": {"token_count": {"input_tokens": 10, "output_tokens": 5}}}}
    return {"stopReason": reason, "usage": {"totalTokens": 15, "inputTokens": 10, "outputTokens": 5}}


def serve(method, params):
    if method == "initialize":
        if MODE == "mute":
            time.sleep(3600)
        if MODE == "version":
            return {"protocolVersion": 2}
        can = {"loadSession": MODE != "forgets", "promptCapabilities": {"image": MODE == "images"},
               "sessionCapabilities": {}}
        if MODE == "resumes":
            can["sessionCapabilities"] = {"resume": {}, "close": {}}
        if MODE == "forks":
            can["sessionCapabilities"] = {"resume": {}, "close": {}, "fork": {}}
        if MODE == "http":
            can["mcpCapabilities"] = {"http": True}
        return {"protocolVersion": 1, "agentCapabilities": can,
                "agentInfo": {"name": "gemini-cli" if MODE == "titles" else "scripted", "version": "1.0"},
                "authMethods": [{"id": "page", "name": "Log in on a page"}]}
    if MODE == "login":
        raise Refusal(-32000, "Authentication required")
    if method in ("session/new", "session/fork"):
        name = "as-%d-%d" % (os.getpid(), len(SESSIONS) + 1)
        SESSIONS[name] = params["cwd"]
        SERVERS[name] = params["mcpServers"]
        HISTORY[name] = list(HISTORY.get(params.get("sessionId"), []))
        if MODE == "modes":
            return {"sessionId": name, "modes": {"currentModeId": "ask", "availableModes": [
                {"id": "ask", "name": "Ask"}, {"id": "plan", "name": "Plan"}]}}
        return {"sessionId": name, "configOptions": options()}
    if method in ("session/load", "session/resume"):
        name = params["sessionId"]
        SESSIONS[name] = params["cwd"]
        SERVERS[name] = params["mcpServers"]
        if method == "session/load":
            update(name, "user_message_chunk", content=text("replayed"))
            update(name, "agent_message_chunk", content=text("replayed"))
        return {"configOptions": options()}
    if method == "session/prompt":
        if DIES:
            os._exit(3)
        return prompt(params["sessionId"], params["prompt"])
    if method == "session/set_config_option":
        OPTIONS[params["configId"]] = params["value"]
        return {"configOptions": options()}
    if method == "session/set_mode":
        return {}
    if method == "session/close":
        return {}
    raise Refusal(-32601, "no such method")


def main():
    with open(os.environ["STARTED"], "a") as started:
        started.write("%d\n" % os.getpid())
    if MODE == "exits":
        sys.stderr.write("no such model %s\n" % os.environ.get("API_KEY", ""))
        sys.exit(1)
    while True:
        message = receive()
        if "id" not in message or "method" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            answer["result"] = serve(message["method"], message.get("params"))
        except Refusal as refusal:
            answer["error"] = {"code": refusal.args[0], "message": refusal.args[1], "data": "secret-of-the-agent"}
        send(answer)


main()
