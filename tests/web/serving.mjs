// The calculator behind the program's server, and an exported one behind a plain file server.
import { spawn } from "node:child_process";
import { createReadStream } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

// Starts `vramfit web` and waits for its address, which may come in pieces.
export async function serveProgram(program, options = {}) {
  const server = spawn(program, ["web"], { stdio: ["ignore", "ignore", "pipe"], ...options });
  const base = await new Promise((resolve, reject) => {
    let said = "";
    server.once("exit", () => reject(new Error(said)));
    server.stderr.on("data", (piece) => {
      said += piece;
      const address = said.match(/(http:\S+)\s/);
      if (address) resolve(address[1]);
    });
  });
  return { base, close: () => server.kill() };
}

// Serves the folder as any web host does, below a path of its own as project pages are: no API, and no type for `.wasm` if `typed` is false.
export async function serveFolder(folder, { typed = true } = {}) {
  const server = createServer((request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    if (!path.startsWith("/calculator/")) return response.writeHead(404).end();
    const name = normalize(path.slice("/calculator/".length) || "index.html");
    const file = createReadStream(join(folder, name));
    file.on("error", () => response.writeHead(404).end());
    file.on("open", () => {
      const type = typed || extname(name) !== ".wasm" ? TYPES[extname(name)] : undefined;
      response.writeHead(200, { "Content-Type": type ?? "application/octet-stream" });
      file.pipe(response);
    });
    return undefined;
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { base: `http://127.0.0.1:${server.address().port}/calculator/`, close: () => server.close() };
}
