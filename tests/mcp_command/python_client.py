"""The official Python client against `edn-bridge mcp serve`, in both eras of the protocol: python3 python_client.py PROGRAM.

Needs the package `mcp` on PYTHONPATH.
"""

import asyncio
import os
import sys
import tempfile

from mcp import Client, MCPError, StdioServerParameters, stdio_client

SCRIPT = '{:turns [{:steps [{:delta "Hello from the agent."}]}] :then :cycle}'


def server(program, state, project, *more):
    script = os.path.join(state, "script.edn")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    return StdioServerParameters(
        command=program,
        args=["--state-dir", state, "--cwd", project, "--provider", "scripted", "--script", script,
              "mcp", "serve", *more],
        env={"PATH": os.environ["PATH"], "HOME": state, "EDN_BRIDGE_DAEMON": "never"},
    )


async def refused(call):
    try:
        await call
    except MCPError as error:
        return str(error)
    raise AssertionError("it was not refused")


async def look(program, mode, state, project):
    async with Client(stdio_client(server(program, state, project, "--prompt")), mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"query_eql", "list_sessions", "get_messages", "prompt"}, tools
        assert tools["get_messages"].annotations.read_only_hint is True
        assert tools["prompt"].annotations.read_only_hint is False
        said = await client.call_tool("prompt", {"message": "Hi"})
        assert not said.is_error, said
        session = said.structured_content["session"]
        assert said.structured_content["text"] == "Hello from the agent.", said
        again = await client.call_tool("prompt", {"message": "Once more", "session": session})
        assert again.structured_content["session"] == session, again
        messages = (await client.call_tool("get_messages", {"session": session})).structured_content["messages"]
        assert [message["role"] for message in messages] == ["user", "assistant"] * 2, messages
        assert messages[0]["text"] == "Hi", messages
        older = await client.call_tool("get_messages", {"session": session, "before": messages[2]["id"], "limit": 1})
        assert older.structured_content["messages"] == [messages[1]] and older.structured_content["more"], older
        listed = await client.call_tool("list_sessions", {"limit": 10})
        assert session in str(listed.structured_content["sessions"]), listed
        query = await client.call_tool("query_eql", {"query": "[:psi.agent-session/session-id]", "session": session})
        assert session in query.content[0].text, query
        wrong = await client.call_tool("query_eql", {"query": "[:psi"})
        assert wrong.is_error and wrong.content[0].text, wrong
        missing = await client.call_tool("get_messages", {"session": "../../etc/passwd"})
        assert missing.is_error and "There is no session" in missing.content[0].text, missing
        unfit = await client.call_tool("get_messages", {"session": session, "limit": 0})
        assert unfit.is_error and "limit must be" in unfit.content[0].text, unfit
        assert "no tool" in await refused(client.call_tool("rm", {}))
        resources = (await client.list_resources()).resources
        uri = f"edn-bridge://session/{session}"
        assert uri in [str(resource.uri) for resource in resources], resources
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["edn-bridge://session/{id}"]
        text = (await client.read_resource(uri)).contents[0]
        assert "Hello from the agent." in text.text and text.mime_type == "text/markdown", text
        assert "no resource" in await refused(client.read_resource("edn-bridge://session/s-none"))
        assert "no resource" in await refused(client.read_resource("file:///etc/passwd"))
    # Without the option, nothing is run.
    async with Client(stdio_client(server(program, state, project)), mode=mode) as client:
        assert "prompt" not in [tool.name for tool in (await client.list_tools()).tools]
        assert "no tool" in await refused(client.call_tool("prompt", {"message": "Hi"}))
        assert session in str((await client.call_tool("list_sessions", {})).structured_content)


def main():
    program = os.path.abspath(sys.argv[1])
    for mode in sys.argv[2:] or ["legacy", "2026-07-28"]:
        with tempfile.TemporaryDirectory() as state, tempfile.TemporaryDirectory() as project:
            asyncio.run(asyncio.wait_for(look(program, mode, state, project), 120))
            print(f"{mode}: as expected")


main()
