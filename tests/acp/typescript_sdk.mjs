// Whole turns with the official TypeScript library of the Agent Client Protocol.
//
// usage: node typescript_sdk.mjs PROGRAM FOLDER-OF-THE-LIBRARY
//
// Answered, a permission with its diff, a command, an edit, cancelled, listed, and loaded after a kill.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const [program, library] = process.argv.slice(2);
const acp = await import(pathToFileURL(join(library, "dist/v1/stable/acp.js")));

const script = String.raw`{:turns [{:steps [{:delta "Hello."}]}
 {:steps [{:delta "I edit."} {:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
 {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "cat a.txt"}}}]}
 {:steps [{:delta "Done."}]}
 {:steps [{:tool-call {:id "w" :name "bash" :arguments {:command "touch begun; while [ -d $PWD ]; do sleep 0.02; done"}}}]}]}`;

const folder = mkdtempSync(join(tmpdir(), "acp-"));
const project = join(folder, "project");
mkdirSync(project);
writeFileSync(join(folder, "script.edn"), script);
writeFileSync(join(project, "a.txt"), "one\n");

async function connected(work) {
  const state = ["--state-dir", join(folder, "state"), "--script", join(folder, "script.edn")];
  const environment = { ...process.env, XDG_CONFIG_HOME: join(folder, "config") };
  const child = spawn(program, [...state, "acp", "--no-daemon"], {
    cwd: folder, env: environment, stdio: ["pipe", "pipe", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (data) => { errors += data; });
  const editor = { updates: [], asked: [], child };
  editor.text = (kind = "agent_message_chunk") =>
    editor.updates.filter((u) => u.sessionUpdate === kind).map((u) => u.content.text).join("");
  const app = acp.client({ name: "test" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      editor.asked.push(params.toolCall);
      const chosen = params.options.find((option) => option.kind === "allow_once");
      return { outcome: { outcome: "selected", optionId: chosen.optionId } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => { editor.updates.push(params.update); });
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  await app.connectWith(stream, async (agent) => {
    const told = await agent.request(acp.methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {},
    });
    assert.equal(told.agentInfo.name, "edn-bridge");
    await work(agent, editor);
  });
  child.kill("SIGKILL");
  assert.equal(errors, "");
}

let session;
try {
  const { agent: methods } = acp.methods;
  await connected(async (agent, editor) => {
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
    for (let n = 0; n < 3000 && !existsSync(join(project, "begun")); n++) await setTimeout(10);
    await agent.notify(methods.session.cancel, { sessionId: session });
    assert.equal((await waiting).stopReason, "cancelled");
    const listed = await agent.request(methods.session.list, {});
    assert.deepEqual(listed.sessions.map((row) => row.sessionId), [session]);
  });
  await connected(async (agent, editor) => {
    await agent.request(methods.session.load, { cwd: project, sessionId: session, mcpServers: [] });
    assert.equal(editor.text("user_message_chunk"), "helloeditwait");
    assert.equal(editor.text(), "Hello.I edit.Done.");
  });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
console.log("the TypeScript library: all is well");
process.exit(0);
