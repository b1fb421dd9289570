#!/usr/bin/env bash
# Tests with servers of tools from the package registries, and the official conformance suite for clients of them.
. tests/make/common.sh

mcp_peers
[ -n "${EDN_BRIDGE_MCP_PEERS:-}" ] || exit 0
step 'servers of tools from the registries' cargo nextest run --locked $INNER -E 'binary(mcp_peers)' --no-capture
sed -n 's/^.*LEFT OUT: /-- LEFT OUT: /p' "$LOGS"/servers-of-tools-from-the-registries.log >&2
suite=$EDN_BRIDGE_MCP_PEERS/node_modules/@modelcontextprotocol/conformance/dist/index.js
node=$EDN_BRIDGE_MCP_PEERS/node_modules/.bin/node
if ! [ -e "$suite" ] || ! "$node" --version >/dev/null 2>&1; then
  say '-- LEFT OUT: the conformance suite of MCP, because it or a node of version 22 cannot be had'
  exit 0
fi
step 'build the client of the conformance suite' cargo build --locked $INNER --example mcp_client
# A required scenario that fails fails the suite; extensions of logins that are not offered are reported alone.
for revision in 2025-11-25 2026-07-28; do
  step "MCP conformance of $revision" \
    "$node" "$suite" client --command "$CARGO_TARGET_DIR/debug/examples/mcp_client" --requirements "$revision"
done
