"""A server by the official Python library, over its pipes or over HTTP: its arguments are the way and the port."""

import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("peer", instructions="Add with add.", version="1")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def broken() -> str:
    """Always fails."""
    raise ValueError("it is broken")


@server.tool()
async def steps(context: Context) -> str:
    """Tells its progress."""
    for n in range(3):
        await context.report_progress(n + 1, 3, "step")
    return "done"


@server.resource("note://{name}")
def note(name: str) -> str:
    """A note by its name."""
    return "the note " + name


@server.prompt()
def greet(who: str) -> str:
    """Greets somebody."""
    return "Hello " + who


if sys.argv[1] == "http":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
else:
    server.run("stdio")
