"""Whole turns with the official Python library of the Agent Client Protocol.

usage: python_sdk.py PROGRAM

Answered, a permission with its diff, a command, an edit, cancelled, listed, and loaded after a kill.
"""

import asyncio
import os
import sys
import tempfile

import acp
from acp import schema

SCRIPT = r"""{:turns [{:steps [{:delta "Hello."}]}
 {:steps [{:delta "I edit."} {:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
 {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "cat a.txt"}}}]}
 {:steps [{:delta "Done."}]}
 {:steps [{:tool-call {:id "w" :name "bash" :arguments {:command "touch begun; while [ -d $PWD ]; do sleep 0.02; done"}}}]}]}"""


class Editor:
    def __init__(self):
        self.updates, self.asked = [], []

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append(tool_call)
        chosen = next(option for option in options if option.kind == "allow_once")
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, agent):
        pass

    def text(self, kind="agent_message_chunk"):
        chunks = [update for update in self.updates if update.session_update == kind]
        return "".join(chunk.content.text for chunk in chunks)


async def until(fits):
    async with asyncio.timeout(30):
        while not fits():
            await asyncio.sleep(0.01)


def start(editor, program, folder):
    arguments = ["--state-dir", f"{folder}/state", "--script", f"{folder}/script.edn", "acp", "--no-daemon"]
    environment = {**os.environ, "XDG_CONFIG_HOME": f"{folder}/config"}
    return acp.spawn_agent_process(editor, program, *arguments, env=environment, cwd=folder)


async def main(program):
    with tempfile.TemporaryDirectory() as folder:
        project = f"{folder}/project"
        os.mkdir(project)
        with open(f"{folder}/script.edn", "w") as script:
            script.write(SCRIPT)
        with open(f"{project}/a.txt", "w") as file:
            file.write("one\n")
        editor = Editor()
        async with start(editor, program, folder) as (agent, process):
            told = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            assert told.agent_info.name == "edn-bridge", told
            session = (await agent.new_session(cwd=project, mcp_servers=[])).session_id

            async def say(text):
                return await agent.prompt(session_id=session, prompt=[acp.text_block(text)])

            assert (await say("hello")).stop_reason == "end_turn"
            assert editor.text() == "Hello.", editor.updates
            editor.updates.clear()
            assert (await say("edit")).stop_reason == "end_turn"
            assert editor.text() == "I edit.Done.", editor.updates
            diff = editor.asked[0].content[0]
            assert (diff.type, diff.old_text, diff.new_text) == ("diff", "one\n", "two\n"), diff
            assert editor.asked[1].kind == "execute", editor.asked
            output = [update for update in editor.updates if getattr(update, "tool_call_id", "") == "b"][-1]
            assert (output.status, output.content[0].content.text) == ("completed", "two\n"), output
            waiting = asyncio.ensure_future(say("wait"))
            await until(lambda: os.path.exists(f"{project}/begun"))
            await agent.cancel(session_id=session)
            assert (await waiting).stop_reason == "cancelled"
            listed = await agent.list_sessions()
            assert [row.session_id for row in listed.sessions] == [session], listed
            process.kill()
        editor = Editor()
        async with start(editor, program, folder) as (agent, _):
            await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
            await agent.load_session(cwd=project, session_id=session, mcp_servers=[])
            assert editor.text("user_message_chunk") == "helloeditwait", editor.updates
            assert editor.text() == "Hello.I edit.Done.", editor.updates


asyncio.run(main(sys.argv[1]))
print("the Python library: all is well")
