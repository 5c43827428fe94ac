// Puts the parts together: pointers, keys and links in, drawings out.
class Page {
  constructor(recording) {
    this.recording = recording;
    this.timeline = new Timeline(recording, byId("timeline"), byId("area"), byId("overlay"));
    this.segments = new SegmentMap(recording, byId("segments-box"), byId("segments"));
    this.instant = Math.max(recording.peak + 1, 0);
    this.isPinned = false;
    this.frameTimes = [];
    this.group("role");
    this.listen();
    this.select(this.largestOf(recording.liveAt(this.instant), this.instant), this.instant);
  }

  // The largest of some allocations that is held at an instant, or -1.
  largestOf(allocations, instant) {
    const { born, died, size } = this.recording;
    let best = -1;
    for (const index of allocations) {
      const isLive = born[index] <= instant && instant < died[index];
      if (isLive && (best < 0 || size[index] > size[best])) best = index;
    }
    return best;
  }

  group(mode, finding) {
    const keep = this.timeline.block;
    this.mode = mode;
    this.groups = new Groups(this.recording, mode, finding);
    this.timeline.setGroups(this.groups);
    this.timeline.setBlock(keep);
    this.fillLegend();
    for (const item of document.querySelectorAll(".finding")) item.classList.remove("chosen");
    this.changed();
  }

  fillLegend() {
    const items = this.groups.names.map((name, group) => {
      const button = element("button", { type: "button" }, element("i"), element("span", { textContent: name }), element("b"));
      button.setAttribute("aria-pressed", "false");
      button.querySelector("i").style.background = `var(${this.groups.colors[group]})`;
      button.addEventListener("click", () => this.toggle(group, button));
      return element("li", {}, button);
    });
    byId("legend").replaceChildren(...items);
  }

  toggle(group, button) {
    const { hidden } = this.groups;
    if (!hidden.delete(group)) hidden.add(group);
    button.setAttribute("aria-pressed", String(hidden.has(group)));
    this.changed();
  }

  // Asks for one drawing before the next frame, however much changes until then.
  changed(part = "all") {
    this.dirty = part === "all" ? "all" : this.dirty ?? part;
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const begun = performance.now();
      this.draw();
      this.frameTimes.push(performance.now() - begun);
      if (this.frameTimes.length > 600) this.frameTimes.shift();
    });
  }

  draw() {
    const { dirty } = this;
    this.dirty = undefined;
    if (dirty === "all") {
      this.timeline.findInstants();
      this.timeline.drawArea();
      this.drawOverview();
    }
    this.timeline.cursor = this.instant;
    this.timeline.drawOverlay();
    this.drawSegments();
  }

  drawSegments() {
    const state = `${this.instant}/${this.timeline.block}`;
    if (this.drawnSegments === state && this.drawnGroups === this.groups && !this.isStale) return;
    [this.drawnSegments, this.drawnGroups, this.isStale] = [state, this.groups, false];
    this.segments.block = this.timeline.block;
    this.segments.draw(this.instant, this.groups);
    const { allocated, reserved } = this.recording;
    byId("instant").textContent = `after event ${countText(Math.max(this.instant - 1, 0))}: ${bytesText(allocated[this.instant])} of ${bytesText(reserved[this.instant])}`;
    byId("legend").querySelectorAll("b").forEach((value, group) => {
      value.textContent = bytesText(this.groups.series[group][this.instant]);
    });
  }

  // The whole recording, with the part that the timeline shows.
  drawOverview() {
    const { recording, timeline } = this;
    const canvas = byId("overview");
    const box = byId("overview-box").getBoundingClientRect();
    const [width, height] = [Math.max(Math.round(box.width), 100), Math.round(box.height)];
    const context = canvas.getContext("2d");
    if (canvas.width !== width || canvas.height !== height || this.isStale || this.overviewAxis !== timeline.axis) {
      [canvas.width, canvas.height, this.overviewAxis] = [width, height, timeline.axis];
      const unit = timeline.span() / (width - LEFT);
      context.fillStyle = colorOf("--reserved");
      for (let x = 0; x < width - LEFT; x += 1) {
        const [first, next] = [timeline.instantAt(x * unit), timeline.instantAt((x + 1) * unit)];
        const share = recording.allocated[recording.highest.at(first, Math.max(next, first + 1))] / timeline.topOfScale();
        context.fillRect(LEFT + x, height - share * height, 1, share * height);
      }
      this.overviewImage = context.getImageData(0, 0, width, height);
    }
    context.putImageData(this.overviewImage, 0, 0);
    const scale = (width - LEFT) / timeline.span();
    const [from, to] = [LEFT + timeline.view.from * scale, LEFT + timeline.view.to * scale];
    context.fillStyle = colorOf("--shade");
    context.fillRect(from, 0, to - from, height);
    context.strokeStyle = colorOf("--accent");
    context.strokeRect(from + 0.5, 0.5, Math.max(to - from - 1, 2), height - 1);
  }

  select(block, instant) {
    this.instant = Math.min(Math.max(instant, 0), this.recording.events);
    if (block !== this.timeline.block) {
      this.timeline.setBlock(block);
      if (block >= 0) showDetails(byId("details"), this.recording, block);
      else byId("details").replaceChildren(element("p", { className: "help", textContent: "Point at the timeline or at a segment." }));
    }
    this.changed("overlay");
  }

  pin(isPinned) {
    this.isPinned = isPinned;
    byId("pinned").hidden = !isPinned;
  }

  // Shows the events from `first` to `last` with some room around them.
  showEvents(first, last) {
    const { timeline, recording } = this;
    const [from, to] = [timeline.unitOf(Math.max(first, 0)), timeline.unitOf(Math.min(last + 1, recording.events))];
    const room = Math.max((to - from) * 0.1, timeline.span() / 60, timeline.axis === "event" ? 40 : 0);
    timeline.setView(from - room, to + room);
    this.changed();
  }

  showFinding(number) {
    const { first, last } = this.recording.findings[number];
    const hasBlocks = this.recording.findingAllocations[number].length > 0;
    this.group(hasBlocks ? "finding" : "role", number);
    byId("grouping").value = this.mode;
    document.querySelector(`[data-finding="${number}"]`)?.closest(".finding")?.classList.add("chosen");
    this.pin(true);
    this.select(this.largestOf(this.recording.findingAllocations[number], last + 1), last + 1);
    this.showEvents(first, last);
    byId("timeline").scrollIntoView({ block: "nearest" });
  }

  listen() {
    const box = byId("timeline");
    box.addEventListener("pointerdown", (event) => this.press(event));
    box.addEventListener("pointermove", (event) => this.move(event));
    box.addEventListener("pointerup", (event) => this.release(event));
    box.addEventListener("pointercancel", () => this.endDrag());
    box.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    box.addEventListener("keydown", (event) => this.key(event));
    byId("overview-box").addEventListener("pointerdown", (event) => this.jump(event));
    byId("overview-box").addEventListener("pointermove", (event) => event.buttons && this.jump(event));
    byId("segments-box").addEventListener("pointermove", (event) => this.moveOverSegments(event, false));
    byId("segments-box").addEventListener("click", (event) => this.moveOverSegments(event, true));
    byId("grouping").addEventListener("change", (event) => this.group(event.target.value));
    byId("axis").addEventListener("change", (event) => this.setAxis(event.target.value));
    byId("zoom-in").addEventListener("click", () => this.zoom(0.5));
    byId("zoom-out").addEventListener("click", () => this.zoom(2));
    byId("show-all").addEventListener("click", () => this.showAll());
    byId("show-peak").addEventListener("click", () => this.showPeak());
    for (const link of document.querySelectorAll("a[data-finding]")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        this.showFinding(Number(link.dataset.finding));
      });
    }
    if (!this.recording.hasClock) byId("axis").disabled = true;
    new ResizeObserver(() => this.resize()).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
  }

  recolor() {
    this.timeline.readColors();
    this.isStale = true;
    this.changed();
  }

  resize() {
    this.timeline.resize();
    this.segments.resize();
    this.segments.instant = -1;
    this.isStale = true;
    this.changed();
  }

  setAxis(axis) {
    const { timeline } = this;
    const instants = [timeline.instantAt(timeline.view.from), timeline.instantAt(timeline.view.to)];
    timeline.axis = axis;
    timeline.setView(timeline.unitOf(instants[0]), timeline.unitOf(instants[1]));
    this.changed();
  }

  place(event) {
    const bounds = byId("timeline").getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  press(event) {
    if (event.button !== 0) return;
    this.drag = { x: event.clientX, moved: 0 };
    byId("timeline").setPointerCapture(event.pointerId);
  }

  move(event) {
    if (this.drag) {
      const step = event.clientX - this.drag.x;
      this.drag.moved += Math.abs(step);
      this.drag.x = event.clientX;
      if (this.drag.moved > 3) {
        byId("timeline").classList.add("dragging");
        this.timeline.pan(step);
        this.changed();
      }
      return;
    }
    if (!this.isPinned) this.pointAt(...this.place(event));
  }

  release(event) {
    const wasClick = this.drag && this.drag.moved <= 3;
    this.endDrag();
    if (!wasClick) return;
    this.pointAt(...this.place(event));
    this.pin(true);
  }

  endDrag() {
    this.drag = null;
    byId("timeline").classList.remove("dragging");
  }

  pointAt(x, y) {
    const instant = this.timeline.shownAt(x);
    this.select(this.groups.blockAt(instant, this.timeline.bytesAt(y)), instant);
  }

  wheel(event) {
    event.preventDefault();
    const [x] = this.place(event);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) this.timeline.pan(-(event.deltaX || event.deltaY));
    else this.timeline.zoom(Math.exp(Math.max(Math.min(event.deltaY, 240), -240) / 300), Math.max(x, LEFT));
    this.changed();
  }

  jump(event) {
    const bounds = byId("overview-box").getBoundingClientRect();
    const { timeline } = this;
    const unit = ((event.clientX - bounds.left - LEFT) / (bounds.width - LEFT)) * timeline.span();
    const half = (timeline.view.to - timeline.view.from) / 2;
    timeline.setView(unit - half, unit + half);
    this.changed();
  }

  moveOverSegments(event, isClick) {
    if (this.isPinned && !isClick) return;
    const bounds = byId("segments-box").getBoundingClientRect();
    const { block, segment } = this.segments.at(event.clientX - bounds.left, event.clientY - bounds.top);
    if (block >= 0) this.select(block, this.instant);
    else if (segment) showHole(byId("details"), this.recording, segment);
    if (isClick) this.pin(block >= 0);
  }

  zoom(factor) {
    const x = this.timeline.xOf(this.timeline.unitOf(this.instant));
    const isSeen = x >= LEFT && x <= this.timeline.width;
    this.timeline.zoom(factor, isSeen ? x : undefined);
    this.changed();
  }

  showAll() {
    this.timeline.setView(0, this.timeline.span());
    this.changed();
  }

  showPeak() {
    const event = Math.max(this.recording.peak, 0);
    this.pin(true);
    this.select(-1, event + 1);
    this.showEvents(event, event);
  }

  key(event) {
    const step = event.shiftKey ? 40 : 1;
    const columns = Math.max((this.timeline.view.to - this.timeline.view.from) / (this.timeline.width - LEFT), 1);
    const actions = {
      ArrowLeft: () => this.step(-Math.round(step * (this.timeline.axis === "event" ? columns : 1))),
      ArrowRight: () => this.step(Math.round(step * (this.timeline.axis === "event" ? columns : 1))),
      ArrowUp: () => this.climb(1),
      ArrowDown: () => this.climb(-1),
      "+": () => this.zoom(0.5),
      "=": () => this.zoom(0.5),
      "-": () => this.zoom(2),
      Home: () => this.showAll(),
      0: () => this.showAll(),
      p: () => this.showPeak(),
      P: () => this.showPeak(),
      Enter: () => this.pin(true),
      Escape: () => this.pin(false),
    };
    if (event.ctrlKey || event.metaKey || event.altKey || !actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  step(events) {
    const { timeline, recording } = this;
    const instant = Math.min(Math.max(this.instant + events, 0), recording.events);
    const block = timeline.block;
    const isAlive = block >= 0 && recording.born[block] <= instant && instant < recording.died[block];
    this.select(isAlive ? block : -1, instant);
    const unit = timeline.unitOf(instant);
    const length = timeline.view.to - timeline.view.from;
    if (unit < timeline.view.from) timeline.setView(unit - length * 0.1, unit + length * 0.9);
    if (unit > timeline.view.to) timeline.setView(unit - length * 0.9, unit + length * 0.1);
    this.changed();
  }

  climb(direction) {
    const blocks = this.groups.stackedAt(this.instant);
    if (blocks.length === 0) return;
    const at = blocks.indexOf(this.timeline.block);
    const next = at < 0 ? (direction > 0 ? 0 : blocks.length - 1) : Math.min(Math.max(at + direction, 0), blocks.length - 1);
    this.pin(true);
    this.select(blocks[next], this.instant);
  }
}

function showProblem(error) {
  byId("problem").hidden = false;
  byId("problem").textContent = `The timeline cannot be shown: ${error.message}`;
}

// For the tests of the page, which look at what it shows and how long it takes.
window.vramfit = { ready: false };
unpack(byId("data").textContent)
  .then((packed) => {
    window.vramfit.page = new Page(new Recording(packed));
    window.vramfit.ready = true;
  })
  .catch(showProblem);
