"""An MCP server over HTTP, of the older era, whose answers to calls cost much to read. Its tools say which. Prints its
port. Needs no packages."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WIDE = b'{"content":[],"structuredContent":{"a":[' + b"0," * 7900000 + b"0]}}"

# In the bounds of bytes, and far more than its bytes when it is read.
DENSE = b'{"content":[],"structuredContent":{"a":[' + b"0," * 1900000 + b"0]}}"
DEEP = b'{"content":[],"structuredContent":{"a":' + b"[" * 1000000 + b"]" * 1000000 + b"}}"
MAPS = b'{"content":[],"_meta":{"a":[' + b'{"":[]},' * 400000 + b"0]}}"


SESSION = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, data, kind="application/json", status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data)
        except OSError:
            self.close_connection = True

    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def nobody(self, status, text):
        error = {"jsonrpc": "2.0", "error": {"code": -32000, "message": text}, "id": None}
        return self.reply(json.dumps(error).encode(), status=status)

    def odd(self, message):
        """A server that forgets its session, and answers to nobody."""
        global SESSION
        method, params = message["method"], message.get("params", {})
        if method == "initialize":
            SESSION += 1
        elif self.headers.get("Mcp-Session-Id") != "s%d" % SESSION:
            return self.nobody(400, "Bad Request: No valid session ID provided")
        name = params.get("name") if method == "tools/call" else None
        if name == "forget":
            SESSION += 1
        if name == "nobody":
            return self.nobody(500, "it broke for nobody")
        if name == "refused":
            return self.nobody(400, "never mind the session")
        if name == "accepted":
            self.send_response(202)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "odd", "version": "1"}}
        elif method == "tools/list" and "cursor" in params:
            return self.reply(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                                          "error": {"code": -32602, "message": "no such page"}}).encode())
        elif method == "tools/list":
            names = ("plain", "forget", "nobody", "refused", "accepted", "blocks")
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            result = {"tools": tools + [{"name": "odd"}, None], "nextCursor": "2"}
        elif name == "blocks":
            result = {"content": [{"type": "text", "text": "before"}, {"type": "video"},
                                  {"type": "text", "text": "after"}], "isError": "false"}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "plain"}]}
        else:
            return self.nobody(400, "no such method")
        answer = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        noise = "event: keepalive\ndata: {}\n\ndata: {\"type\":\"heartbeat\"}\n\ndata: no JSON\n\n"
        data = (noise + "data: " + answer + "\n\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(data)))
        if method == "initialize":
            self.send_header("Mcp-Session-Id", "s%d" % SESSION)
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        if self.path == "/odd":
            return self.odd(message)
        head = b'{"jsonrpc":"2.0","id":%d,"result":' % message["id"]
        method = message["method"]
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "wicked", "version": "1"}}
        elif method == "tools/list":
            names = ("plain", "wide", "wide-stream", "dense", "deep", "maps", "dense-error")
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
        elif method == "tools/call" and message["params"]["name"] == "wide":
            return self.reply(head + WIDE + b"}")
        elif method == "tools/call" and message["params"]["name"] == "wide-stream":
            return self.reply(b"data: " + head + WIDE + b"}\n\n", "text/event-stream")
        elif method == "tools/call" and message["params"]["name"] in ("dense", "deep", "maps"):
            whole = {"dense": DENSE, "deep": DEEP, "maps": MAPS}[message["params"]["name"]]
            return self.reply(head + whole + b"}")
        elif method == "tools/call" and message["params"]["name"] == "dense-error":
            error = b'{"jsonrpc":"2.0","id":%d,"error":{"code":-1,"message":"costly","data":' % message["id"]
            return self.reply(error + DENSE + b"}}", status=400)
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "plain"}]}
        else:
            return self.reply(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                                          "error": {"code": -32601, "message": "no such method"}}).encode())
        self.reply(head + json.dumps(result).encode() + b"}")


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
sys.stdout.write("%d\n" % server.server_address[1])
sys.stdout.flush()
server.serve_forever()
