#!/usr/bin/env bash
# Real external agents, an editor of the Rust library of the Agent Client Protocol, the tests with MCP servers from the
# package registries, and the official conformance suite of MCP for clients and for this program as a server. Each step says
# what ran.
. tests/make/common.sh

bash tests/make/agents.sh
# A package of its own with some hundred dependencies, which take a minute or two; `make test` has the libraries that
# need no build.
step 'build the program' cargo build --locked $INNER
step 'an editor of the Rust library' \
  cargo run --quiet --locked --manifest-path tests/acp/rust-client/Cargo.toml \
  --target-dir "$CARGO_TARGET_DIR/acp-rust-client" -- "$DEBUG"

mcp_servers
step 'MCP servers from the registries' cargo nextest run --locked $INNER --test engine -E 'test(/^mcp_peers::/)' --no-capture
sed -n 's/^.*LEFT OUT: /-- LEFT OUT: /p' "$LOGS"/servers-of-tools-from-the-registries.log >&2
if ! mcp_conformance; then
  say '-- LEFT OUT: the conformance suite of MCP, because it or a node of version 22 cannot be had'
  exit 0
fi
step 'build the client of the conformance suite' cargo build --locked $INNER --example mcp_client
# A required scenario that fails fails the suite; extensions of logins that are not offered are reported alone.
for revision in 2025-11-25 2026-07-28; do
  step "MCP conformance of $revision" "$MCP_SUITE_NODE" "$MCP_SUITE" client \
    --command "$CARGO_TARGET_DIR/debug/examples/mcp_client" --requirements "$revision"
  grep -E '^(Total:|Not scored)' "$LOGS/mcp-conformance-of-$revision.log" | sed 's/^/   /' >&2
done
if has python3; then
  step 'MCP conformance of this program as a server' python3 tests/mcp_command/server_suite.py \
    "$DEBUG" "$MCP_SUITE_NODE" "$MCP_SUITE" "$CARGO_TARGET_DIR/mcp-conformance/server"
  grep '^Left out' "$LOGS"/mcp-conformance-of-this-program-as-a-server.log | sed 's/^/   /' >&2
else say '-- LEFT OUT: MCP conformance as a server, because python3 is missing'; fi
