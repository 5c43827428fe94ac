// What all pages share: tables that sort, code that can be copied, pictures whose pieces tell what they are.
window.vramfit = { ready: true };

function byId(id) {
  return document.getElementById(id);
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// A click on a column's name sorts by it, a second one the other way round, a third one puts back the order of the page.
class SortableTable {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.heads = [...table.tHead.rows[0].cells];
    this.heads.forEach((head, column) => {
      if (!head.dataset.sort) return;
      const button = element("button", { type: "button" }, ...head.childNodes);
      button.addEventListener("click", () => this.turn(head, column));
      head.append(button);
    });
  }

  turn(head, column) {
    const ways = head.dataset.sort === "number" ? ["descending", "ascending"] : ["ascending", "descending"];
    const way = ways[ways.indexOf(head.getAttribute("aria-sort")) + 1];
    for (const other of this.heads) other.removeAttribute("aria-sort");
    this.table.classList.toggle("sorted", way !== undefined);
    if (way) head.setAttribute("aria-sort", way);
    this.body.append(...(way ? this.sorted(head, column, way === "ascending" ? 1 : -1) : this.rows));
  }

  sorted(head, column, sign) {
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const compare = head.dataset.sort === "number" ? (a, b) => Number(value(a)) - Number(value(b)) : (a, b) => value(a).localeCompare(value(b), "en", { numeric: true });
    return [...this.rows].sort((a, b) => sign * compare(a, b));
  }
}

// A picture of many pieces is one stop of the Tab key; arrows go from piece to piece, and a tip tells what is there.
class Pieces {
  constructor(box, tip) {
    Object.assign(this, { tip, pieces: [...box.querySelectorAll("[data-piece]")] });
    for (const piece of this.pieces) {
      const title = piece.querySelector(":scope > title");
      piece.setAttribute("aria-label", title?.textContent ?? piece.getAttribute("title"));
      title?.remove();
      piece.removeAttribute("title");
      piece.setAttribute("tabindex", "-1");
      for (const event of ["focus", "pointerenter"]) piece.addEventListener(event, () => tip.show(piece));
      for (const event of ["blur", "pointerleave"]) piece.addEventListener(event, () => tip.hide());
    }
    this.pieces[0]?.setAttribute("tabindex", "0");
    box.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const at = this.pieces.indexOf(document.activeElement);
    const places = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: this.pieces.length - 1 };
    if (event.key === "Escape") this.tip.hide();
    if (at < 0 || places[event.key] === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = this.pieces[Math.min(Math.max(places[event.key], 0), this.pieces.length - 1)];
    for (const piece of this.pieces) piece.setAttribute("tabindex", piece === next ? "0" : "-1");
    next.focus();
  }
}

// What a piece is, beside it; it stays there when the page is scrolled.
class Tip {
  constructor() {
    this.box = element("div", { className: "tip", hidden: true });
    this.box.setAttribute("aria-hidden", "true");
    document.body.append(this.box);
    addEventListener("scroll", () => this.place(), { passive: true, capture: true });
  }

  show(piece) {
    this.piece = piece;
    this.box.textContent = piece.getAttribute("aria-label");
    this.box.hidden = false;
    this.place();
  }

  place() {
    if (this.box.hidden) return;
    this.box.style.left = "0";
    const [bounds, own] = [this.piece.getBoundingClientRect(), this.box.getBoundingClientRect()];
    const room = document.documentElement.clientWidth;
    this.box.style.left = `${Math.max(Math.min(bounds.left + bounds.width / 2 - own.width / 2, room - own.width - 6), 6)}px`;
    this.box.style.top = `${bounds.top - own.height - 6 > 0 ? bounds.top - own.height - 6 : bounds.bottom + 6}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}

function addCopyButton(box) {
  const button = element("button", { type: "button", textContent: "Copy" });
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    const isDone = await copy(box.querySelector("pre"));
    button.textContent = isDone ? "Copied" : "Select and copy";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  box.append(button);
}

// A page that was opened from a file may be refused the clipboard; what is selected can still be copied.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(text);
    return document.execCommand("copy");
  }
}

// Paper cannot be clicked.
function openForPrinting() {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => {
    for (const part of opened) part.open = false;
  });
}

for (const table of document.querySelectorAll("table.sortable")) new SortableTable(table);
for (const box of document.querySelectorAll(".code")) addCopyButton(box);
const tip = new Tip();
for (const box of document.querySelectorAll("[data-pieces]")) new Pieces(box, tip);
openForPrinting();
