// Asks the server, or the engine in this browser where there is none. Of many changes in a row only the last is asked about: one question is on its way at a time.
"use strict";

// For tests and measurements: whether something is shown, the last question that was answered, the last of which a draft was shown, and when
// the first answer was.
const page = { ready: false, asked: null, drafted: null, first: null };
window.vramfit = page;

class Refused extends Error {
  constructor(status, answer) {
    super(answer.error ?? String(status));
    this.status = status;
    this.hint = answer.hint;
    this.title = answer.title;
  }
}

// Several questions are on their way at a time: the first that is refused takes the token from the others.
let hadToken = false;

async function askServer(path, options) {
  const token = sessionStorage.getItem("vramfit-token");
  hadToken ||= Boolean(token);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) {
    sessionStorage.removeItem("vramfit-token");
    element("login").hidden = false;
    element("token").focus();
    throw new Refused(401, { title: words(hadToken ? "wrong-token" : "token"), error: "" });
  }
  return { status: answer.status, text: await answer.text() };
}

async function ask(path, options = {}) {
  const { status, text } = await (ENGINE ? askEngine : askServer)(path, options);
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    value = { error: text.trim() };
  }
  if (status !== 200) throw new Refused(status, value);
  return value;
}

// Runs `work` for the newest state, `wait()` milliseconds after the last call; calls in between are merged into one more.
function latest(work, wait = () => 0) {
  let running = false;
  let again = false;
  let timer;
  const run = async () => {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      await work();
    } finally {
      running = false;
    }
    if (again) {
      again = false;
      run();
    }
  };
  return () => {
    clearTimeout(timer);
    const delay = wait();
    if (!delay) return run();
    timer = setTimeout(run, delay);
    return undefined;
  };
}

function complain(error) {
  element("problem").hidden = !error;
  element("problem").textContent = error ? words(ENGINE ? "no-engine" : "no-server", { why: error.message }) : "";
}

// Uploads a file and makes it the model.
async function openFile(name, bytes, linked) {
  const model = await ask(`api/models?${new URLSearchParams({ name })}`, { method: "POST", body: bytes });
  const isText = /\.(json|toml)$/.test(name) && bytes.length <= LARGEST_LINKED_FILE;
  state.file = { name, bytes, model, linked: linked ?? (isText ? toBase64(bytes) : null) };
  set("model", model.name);
  return model;
}
