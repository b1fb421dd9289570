// Whole turns in version 2, with the official TypeScript library of the Agent Client Protocol.
//
// usage: node typescript_sdk_v2.mjs PROGRAM FOLDER-OF-THE-LIBRARY
//
// Answered, a permission with its patch, a command, an edit, cancelled, listed, and resumed with its history after a
// kill. The library holds what it receives against the types of the draft.

import assert from "node:assert/strict";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { onStage } from "./typescript_stage.mjs";

await onStage("v2", async ({ acp, project, connected, begun }) => {
  async function editing(work) {
    const editor = { updates: [], asked: [], idle: [], waiting: [] };
    const of = (kind) => editor.updates.filter((update) => update.sessionUpdate === kind);
    editor.text = (kind = "agent_message_chunk") => of(kind).map((update) => update.content.text).join("");
    editor.states = () => of("state_update").map((update) => update.state);
    // The next time that the session does nothing.
    editor.ended = () => new Promise((done) => {
      const end = editor.idle.shift();
      if (end) done(end); else editor.waiting.push(done);
    });
    const client = acp.client({ name: "test" })
      .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
        editor.asked.push(params);
        const chosen = params.options.find((option) => option.kind === "allow_once");
        return { outcome: { outcome: "selected", optionId: chosen.optionId } };
      })
      .onNotification(acp.methods.client.session.update, ({ params: { update } }) => {
        editor.updates.push(update);
        if (update.sessionUpdate !== "state_update" || update.state !== "idle" || !update.stopReason) return;
        const waiting = editor.waiting.shift();
        if (waiting) waiting(update); else editor.idle.push(update);
      });
    await connected(client, async (agent) => {
      const told = await agent.request(acp.methods.agent.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION, info: { name: "test", version: "1" }, capabilities: {},
      });
      assert.equal(told.protocolVersion, 2);
      assert.equal(told.info.name, "edn-bridge");
      assert.ok(told.capabilities.session.additionalDirectories);
      await work(agent, editor);
    });
  }

  let session;
  const { agent: methods } = acp.methods;
  await editing(async (agent, editor) => {
    session = (await agent.request(methods.session.new, { cwd: project, mcpServers: [] })).sessionId;
    const say = (text) =>
      agent.request(methods.session.prompt, { sessionId: session, prompt: [{ type: "text", text }] });
    const { messageId } = await say("hello");
    assert.equal((await editor.ended()).stopReason, "end_turn");
    assert.equal(editor.text(), "Hello.");
    assert.deepEqual(editor.states(), ["running", "idle"]);
    const echo = editor.updates.find((update) => update.sessionUpdate === "user_message_chunk");
    assert.deepEqual([echo.messageId, echo.content.text], [messageId, "hello"]);
    editor.updates.length = 0;
    await say("edit");
    assert.equal((await editor.ended()).stopReason, "end_turn");
    assert.equal(editor.text(), "I edit.Done.");
    assert.deepEqual(editor.states().slice(0, 3), ["running", "requires_action", "running"]);
    const [edit, command] = editor.asked.map(({ subject }) => subject.toolCall);
    assert.equal(edit.content[0].changes[0].path, join(project, "a.txt"));
    assert.match(edit.content[0].patch.text, /\n-one\n\+two\n$/);
    assert.equal(command.kind, "execute");
    const output = editor.updates.filter((update) => update.toolCallId === "b").at(-1);
    assert.deepEqual([output.status, output.content[0].content.text], ["completed", "two\n"]);
    await say("wait");
    await begun();
    await agent.notify(methods.session.cancel, { sessionId: session });
    assert.equal((await editor.ended()).stopReason, "cancelled");
    const listed = await agent.request(methods.session.list, {});
    assert.deepEqual(listed.sessions.map((row) => row.sessionId), [session]);
  });
  await editing(async (agent, editor) => {
    const replayFrom = { type: "start" };
    await agent.request(methods.session.resume, { cwd: project, sessionId: session, mcpServers: [], replayFrom });
    // The library may show the answer before the last updates, of which the state is the last.
    for (let n = 0; n < 3000 && editor.states().length === 0; n++) await setTimeout(10);
    assert.equal(editor.text("user_message_chunk"), "helloeditwait");
    assert.equal(editor.text(), "Hello.I edit.Done.");
    assert.deepEqual(editor.states(), ["idle"]);
  });
});
