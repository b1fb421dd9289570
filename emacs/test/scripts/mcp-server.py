"""An MCP server (MCP) for a test of the package: one tool, one prompt, one resource, and completion. Its argument is
the name by which it answers."""

import json
import sys

NAME = sys.argv[1] if len(sys.argv) > 1 else "probe"
TOOL = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}},
        "serverInfo": {"name": "probe", "version": "1"},
    },
    "ping": {},
    "tools/list": {"tools": [TOOL]},
    "prompts/list": {
        "prompts": [{"name": "ask", "description": "Asks.", "arguments": [{"name": "who", "required": True}]}]
    },
    "resources/list": {"resources": [{"uri": "file:///a", "name": "a"}]},
    "resources/templates/list": {"resourceTemplates": []},
    "tools/call": {"content": [{"type": "text", "text": f"{NAME} has looked"}]},
    "prompts/get": {"messages": [{"role": "user", "content": {"type": "text", "text": f"{NAME} wants to know."}}]},
    "resources/read": {"contents": [{"uri": "file:///a", "mimeType": "text/plain", "text": f"the note of {NAME}"}]},
    "completion/complete": {"completion": {"values": ["you", "yonder"]}},
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in ANSWERS:
        answer["result"] = ANSWERS[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "there is no such method"}
    print(json.dumps(answer), flush=True)
