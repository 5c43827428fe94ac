// Runs the engine in a Web Worker, for a page without a server.
"use strict";

let engine;

onmessage = ({ data }) => {
  try {
    if (data.module) {
      engine = new WebAssembly.Instance(data.module, imports(data.module)).exports;
      return;
    }
    postMessage({ id: data.id, ...answer(data) });
  } catch (error) {
    // After a trap the module's memory cannot be trusted: the page makes another worker.
    postMessage({ id: data.id, failed: String(error) });
  }
};

// The clock. A library that the engine uses for reading archives is linked with its source of random numbers, which nothing calls.
function imports(module) {
  const given = { page: { milliseconds: () => performance.now() } };
  for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    given[from] ??= {};
    given[from][name] ??= () => { throw new Error(`${from}.${name} is not here`); };
  }
  return given;
}

function answer({ target, file }) {
  const path = new TextEncoder().encode(target);
  const length = path.length + (file?.length ?? 0);
  const start = engine.room(length) >>> 0;
  const room = new Uint8Array(engine.memory.buffer, start, length);
  room.set(path);
  if (file) room.set(file, path.length);
  const status = file ? engine.upload(path.length) : engine.ask(path.length);
  // The engine's memory may have grown, which makes the old buffer useless.
  const bytes = new Uint8Array(engine.memory.buffer, engine.answer() >>> 0, engine.answer_length());
  return { status, text: new TextDecoder().decode(bytes) };
}
