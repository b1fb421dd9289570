// Whole turns with the official TypeScript library of the Agent Client Protocol.
//
// usage: node typescript_sdk.mjs PROGRAM FOLDER-OF-THE-LIBRARY
//
// Answered, a permission with its diff, a command, an edit, cancelled, listed, and loaded after a kill.

import assert from "node:assert/strict";

import { onStage } from "./typescript_stage.mjs";

await onStage("v1", async ({ acp, project, connected, begun }) => {
  async function editing(work) {
    const editor = { updates: [], asked: [] };
    editor.text = (kind = "agent_message_chunk") =>
      editor.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join("");
    const client = acp.client({ name: "test" })
      .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
        editor.asked.push(params.toolCall);
        const chosen = params.options.find((option) => option.kind === "allow_once");
        return { outcome: { outcome: "selected", optionId: chosen.optionId } };
      })
      .onNotification(acp.methods.client.session.update, ({ params }) => { editor.updates.push(params.update); });
    await connected(client, async (agent) => {
      const told = await agent.request(acp.methods.agent.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {},
      });
      assert.equal(told.agentInfo.name, "edn-bridge");
      await work(agent, editor);
    });
  }

  let session;
  const { agent: methods } = acp.methods;
  await editing(async (agent, editor) => {
    session = (await agent.request(methods.session.new, { cwd: project, mcpServers: [] })).sessionId;
    const say = (text) =>
      agent.request(methods.session.prompt, { sessionId: session, prompt: [{ type: "text", text }] });
    assert.equal((await say("hello")).stopReason, "end_turn");
    assert.equal(editor.text(), "Hello.");
    editor.updates.length = 0;
    assert.equal((await say("edit")).stopReason, "end_turn");
    assert.equal(editor.text(), "I edit.Done.");
    const diff = editor.asked[0].content[0];
    assert.deepEqual([diff.type, diff.oldText, diff.newText], ["diff", "one\n", "two\n"]);
    assert.equal(editor.asked[1].kind, "execute");
    const output = editor.updates.filter((u) => u.toolCallId === "b").at(-1);
    assert.deepEqual([output.status, output.content[0].content.text], ["completed", "two\n"]);
    const waiting = say("wait");
    await begun();
    await agent.notify(methods.session.cancel, { sessionId: session });
    assert.equal((await waiting).stopReason, "cancelled");
    const listed = await agent.request(methods.session.list, {});
    assert.deepEqual(listed.sessions.map((row) => row.sessionId), [session]);
  });
  await editing(async (agent, editor) => {
    await agent.request(methods.session.load, { cwd: project, sessionId: session, mcpServers: [] });
    assert.equal(editor.text("user_message_chunk"), "helloeditwait");
    assert.equal(editor.text(), "Hello.I edit.Done.");
  });
});
