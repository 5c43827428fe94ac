// Asks the engine in this browser, for a page without a server: a WebAssembly module in Web Workers.
"use strict";

// Where the module is; `vramfit web --export` writes it into the page.
const ENGINE = document.querySelector('meta[name="vramfit-engine"]')?.content;
// As many files as a server keeps.
const KEPT_FILES = 8;

const engine = {
  // One worker for each kind of question: a search must not hold up a slider.
  workers: new Map(),
  // Uploads by their request, for workers that come later.
  files: new Map(),
  module: null,
};

async function compiled() {
  const response = await fetch(ENGINE);
  if (!response.ok) throw new Error(`${ENGINE}: ${response.status}`);
  // Not every server knows the type of such a file, which the quicker way needs.
  const isTyped = response.headers.get("Content-Type")?.startsWith("application/wasm");
  return isTyped ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

class EngineWorker {
  constructor(module) {
    this.waiting = new Map();
    this.next = 0;
    this.sent = new Set();
    this.worker = new Worker("worker.js");
    this.worker.onmessage = ({ data }) => {
      if (data.failed !== undefined) return this.fail(data.failed);
      this.waiting.get(data.id)(data);
      this.waiting.delete(data.id);
      return undefined;
    };
    this.worker.onerror = (event) => this.fail(event.message ?? "worker.js");
    this.worker.postMessage({ module });
  }

  // Everyone who waits is told; the next question makes another worker.
  fail(why) {
    console.error(why);
    this.worker.terminate();
    for (const [kind, worker] of engine.workers) if (worker === this) engine.workers.delete(kind);
    const text = JSON.stringify({ error: words("engine-failed") });
    for (const resolve of this.waiting.values()) resolve({ status: 500, text });
  }

  send(target, file) {
    const id = this.next++;
    const answer = new Promise((resolve) => this.waiting.set(id, resolve));
    this.worker.postMessage({ id, target, file });
    return answer;
  }

  async ask(target) {
    for (const [upload, file] of engine.files) {
      if (!this.sent.has(upload)) this.send(upload, file);
      this.sent.add(upload);
    }
    return this.send(target);
  }

  upload(target, file) {
    engine.files.delete(target);
    engine.files.set(target, file);
    for (const [oldest] of engine.files) if (engine.files.size > KEPT_FILES) engine.files.delete(oldest);
    this.sent.add(target);
    return this.send(target, file);
  }
}

// The same status and text that a server would send.
async function askEngine(path, { body } = {}) {
  engine.module ??= compiled();
  const module = await engine.module;
  const kind = path.endsWith("&draft=true") ? "draft" : path.startsWith("api/plan") ? "plan" : path.startsWith("api/max-batch") ? "max-batch" : "estimate";
  if (!engine.workers.has(kind)) engine.workers.set(kind, new EngineWorker(module));
  const worker = engine.workers.get(kind);
  return body ? worker.upload(`/${path}`, body) : worker.ask(`/${path}`);
}
