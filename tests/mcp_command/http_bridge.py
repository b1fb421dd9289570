"""A throwaway bridge for the conformance suite, which asks servers over HTTP: passes each message on to a server over its
standard input and output, and its answer back. A session of the older era has a process of its own; all requests without
a session share one. Prints its address. Its arguments are the server's command. Needs no packages."""

import itertools
import json
import subprocess
import sys
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue

COMMAND = sys.argv[1:]
SECONDS = 20


class Server:
    """A server's process. Requests of many clients get numbers of their own."""

    def __init__(self):
        self.process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.numbers, self.waiting, self.lock = itertools.count(1), {}, threading.Lock()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            params = message.get("params") or {}
            meta = params.get("_meta") or {}
            named = meta.get("io.modelcontextprotocol/subscriptionId", params.get("requestId"))
            number = message.get("id") if "method" not in message else named
            with self.lock:
                waiting = self.waiting.get(number)
            if waiting:
                waiting[1].put(message)

    def write(self, message):
        with self.lock:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def begin(self, message):
        number, answers = next(self.numbers), Queue()
        with self.lock:
            self.waiting[number] = (message["id"], answers)
        self.write({**message, "id": number})
        return number, answers

    def end(self, number):
        with self.lock:
            self.waiting.pop(number, None)


shared = Server()
sessions = {}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, message=None, session=None):
        body = b"" if message is None else json.dumps(message).encode()
        self.send_response(status)
        if message is not None:
            self.send_header("Content-Type", "application/json")
        if session:
            self.send_header("Mcp-Session-Id", session)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        server = sessions.pop(self.headers.get("Mcp-Session-Id"), None)
        if server:
            server.process.stdin.close()
        self.reply(200 if server else 404)

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        try:
            message = json.loads(self.rfile.read(length))
        except ValueError:
            return self.reply(400, {"jsonrpc": "2.0", "error": {"code": -32700, "message": "no JSON"}})
        session, name = None, self.headers.get("Mcp-Session-Id")
        server = sessions.get(name) if name else shared
        if message.get("method") == "initialize":
            server, session = Server(), str(uuid.uuid4())
            sessions[session] = server
        if server is None:
            return self.reply(404)
        if "id" not in message or "method" not in message:
            server.write(message)
            return self.reply(202)
        number, answers = server.begin(message)
        try:
            if message["method"] == "subscriptions/listen":
                return self.stream(message["id"], number, answers)
            answer = answers.get(timeout=SECONDS)
            self.reply(status_of(answer), {**answer, "id": message["id"]}, session)
        finally:
            server.end(number)

    def stream(self, own, number, answers):
        first = answers.get(timeout=SECONDS)
        if "method" not in first and "error" in first:
            return self.reply(status_of(first), {**first, "id": own})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        answer = first
        while True:
            text = json.dumps({**answer, "id": own} if "method" not in answer else renamed(answer, number, own))
            try:
                self.wfile.write(f"data: {text}\n\n".encode())
                self.wfile.flush()
            except OSError:
                return
            if "method" not in answer:
                return
            answer = answers.get()


def renamed(message, number, own):
    """A message of a subscription with the client's number for it."""
    meta = message.get("params", {}).get("_meta", {})
    if meta.get("io.modelcontextprotocol/subscriptionId") == number:
        meta["io.modelcontextprotocol/subscriptionId"] = own
    return message


def status_of(answer):
    """The status that the newer era wants with an error."""
    code = (answer.get("error") or {}).get("code")
    return {-32601: 404, -32602: 400, -32022: 400, -32021: 400, -32020: 400, -32600: 400}.get(code, 200)


listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
sys.stdout.write("http://127.0.0.1:%d/mcp\n" % listener.server_address[1])
sys.stdout.flush()
listener.serve_forever()
