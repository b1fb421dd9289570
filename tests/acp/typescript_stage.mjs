// What the editors of both versions share: a project, the words of a model, and a bridge for each connection.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const script = String.raw`{:turns [{:steps [{:delta "Hello."}]}
 {:steps [{:delta "I edit."} {:tool-call {:id "e" :name "edit" :arguments {:path "a.txt" :edits [{:old "one" :new "two"}]}}}]}
 {:steps [{:tool-call {:id "b" :name "bash" :arguments {:command "cat a.txt"}}}]}
 {:steps [{:delta "Done."}]}
 {:steps [{:tool-call {:id "w" :name "bash" :arguments {:command "touch begun; while [ -d $PWD ]; do sleep 0.02; done"}}}]}]}`;

// Calls `play` with the library in a version (`v1`, `v2`), the project's folder, `connected` and `begun`.
export async function onStage(version, play) {
  const [program, library] = process.argv.slice(2);
  const acp = await import(pathToFileURL(join(library, `dist/${version}/stable/acp.js`)));
  const folder = mkdtempSync(join(tmpdir(), "acp-"));
  const project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(folder, "script.edn"), script);
  writeFileSync(join(project, "a.txt"), "one\n");

  // Calls `work` with a bridge that the client is connected to, and kills the bridge.
  async function connected(client, work) {
    const state = ["--state-dir", join(folder, "state"), "--script", join(folder, "script.edn")];
    const environment = { ...process.env, XDG_CONFIG_HOME: join(folder, "config") };
    const child = spawn(program, [...state, "acp", "--no-daemon"], {
      cwd: folder, env: environment, stdio: ["pipe", "pipe", "pipe"],
    });
    let errors = "";
    child.stderr.on("data", (data) => { errors += data; });
    const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    await client.connectWith(stream, work);
    child.kill("SIGKILL");
    assert.equal(errors, "");
  }

  // Waits for the command of the last prompt.
  async function begun() {
    for (let n = 0; n < 3000 && !existsSync(join(project, "begun")); n++) await setTimeout(10);
  }

  try {
    await play({ acp, project, connected, begun });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  console.log(`the TypeScript library, ${version}: all is well`);
  process.exit(0);
}
