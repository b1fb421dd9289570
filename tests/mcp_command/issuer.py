"""An MCP server over HTTP that wants a login, with the issuer of that login (RFC 9728, 8414, 7591, 7636, 8707), for
tests. It listens on 127.0.0.1, prints its port, and writes a line of JSON for each request to standard output. It
checks what the protocol asks of a client: a wrong verifier, redirect, client, resource or token is refused.

Its first argument is how many seconds an access token lasts. Needs no packages."""

import base64
import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

LASTS = int(sys.argv[1])
clients, codes, refreshes, valid = {}, {}, {}, set()
count = 0


def new(kind):
    global count
    count += 1
    return "%s-canary-%d" % (kind, count)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def tell(self, **what):
        line = {"method": self.command, "path": self.path, **what}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def reply(self, status, body=None, **headers):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if body is not None:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    @property
    def base(self):
        return "http://127.0.0.1:%d" % self.server.server_address[1]

    def do_GET(self):
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.tell()
        if path == "/.well-known/oauth-protected-resource/mcp":
            return self.reply(200, {"resource": self.base + "/mcp", "authorization_servers": [self.base],
                                    "scopes_supported": ["tools"]})
        if path == "/.well-known/oauth-authorization-server":
            return self.reply(200, {
                "issuer": self.base, "authorization_endpoint": self.base + "/authorize",
                "token_endpoint": self.base + "/token", "registration_endpoint": self.base + "/register",
                "response_types_supported": ["code"], "grant_types_supported": ["authorization_code", "refresh_token"],
                "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
                "authorization_response_iss_parameter_supported": True, "scopes_supported": ["tools"]})
        if path == "/authorize":
            asked = {key: values[0] for key, values in query.items()}
            redirect = asked.get("redirect_uri")
            wrong = [name for name, is_right in [
                ("client_id", asked.get("client_id") in clients),
                ("redirect_uri", redirect in clients.get(asked.get("client_id"), [])),
                ("response_type", asked.get("response_type") == "code"),
                ("code_challenge_method", asked.get("code_challenge_method") == "S256"),
                ("resource", asked.get("resource") == self.base + "/mcp"),
                ("scope", "tools" in asked.get("scope", "").split()),
                ("state", bool(asked.get("state"))),
            ] if not is_right]
            if wrong:
                return self.reply(400, {"wrong": wrong})
            code = new("code")
            codes[code] = asked
            answer = urlencode({"code": code, "state": asked["state"], "iss": self.base})
            return self.reply(302, Location=redirect + "?" + answer)
        self.reply(404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        path = urlsplit(self.path).path
        if path == "/register":
            asked = json.loads(body)
            client = new("client")
            clients[client] = asked["redirect_uris"]
            self.tell(asked=asked)
            return self.reply(201, dict(asked, client_id=client))
        if path == "/token":
            return self.token({key: values[0] for key, values in parse_qs(body.decode()).items()})
        if path == "/mcp":
            return self.mcp(json.loads(body))
        self.reply(404)

    def token(self, asked):
        self.tell(grant=asked.get("grant_type"), resource=asked.get("resource"))
        if asked.get("grant_type") == "authorization_code":
            known = codes.pop(asked.get("code"), None)
            proof = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
            proof = base64.urlsafe_b64encode(proof).rstrip(b"=").decode()
            if not known or any([known["code_challenge"] != proof, known["redirect_uri"] != asked.get("redirect_uri"),
                                 known["client_id"] != asked.get("client_id"), known["resource"] != asked.get("resource")]):
                return self.reply(400, {"error": "invalid_grant"})
            client = known["client_id"]
        else:
            # Each refresh token is good for one use.
            client = refreshes.pop(asked.get("refresh_token"), None)
            if client is None or client != asked.get("client_id"):
                return self.reply(400, {"error": "invalid_grant"})
            # What came before is no longer taken.
            valid.clear()
        access, refresh = new("access"), new("refresh")
        valid.add(access)
        refreshes[refresh] = client
        lasts = LASTS if asked.get("grant_type") == "authorization_code" else 3600
        self.reply(200, {"access_token": access, "token_type": "Bearer", "expires_in": lasts,
                         "refresh_token": refresh, "scope": "tools"})

    def mcp(self, message):
        held = self.headers.get("Authorization", "")
        is_in = held.startswith("Bearer ") and held[7:] in valid
        self.tell(asked=message.get("method"), is_in=is_in)
        if not is_in:
            where = 'Bearer resource_metadata="%s/.well-known/oauth-protected-resource/mcp", scope="tools"' % self.base
            return self.reply(401, WWW_Authenticate=where)
        if "id" not in message:
            return self.reply(202)
        method = message["method"]
        if method == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "guarded", "version": "1"}}
        elif method == "tools/list":
            result = {"tools": [{"name": "secret", "description": "d", "inputSchema": {"type": "object"}}]}
        elif method == "tools/call":
            result = {"content": [{"type": "text", "text": "your token is " + held[7:]}]}
        elif method == "ping":
            result = {}
        else:
            return self.reply(200, {"jsonrpc": "2.0", "id": message["id"],
                                    "error": {"code": -32601, "message": "no such method"}})
        self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": result})


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
sys.stdout.write("%d\n" % server.server_address[1])
sys.stdout.flush()
server.serve_forever()
