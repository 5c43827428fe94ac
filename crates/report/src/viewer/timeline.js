// The stacked timeline. A column of pixels shows the highest instant of its range, so that no peak is ever lost.
const LEFT = 66;
const BOTTOM = 22;
// Room above the plot for the steps, and for their phases where they are known.
const STEP_ROW = 20;
const PHASE_ROW = 16;
const EDGE_WORK = 1_500_000;

class Timeline {
  constructor(recording, box, area, overlay) {
    Object.assign(this, { recording, box, area, overlay });
    this.axis = "event";
    this.top = STEP_ROW + (recording.phases.length > 0 ? PHASE_ROW : 0);
    this.view = { from: 0, to: this.span() };
    this.block = -1;
    this.cursor = null;
    this.resize();
  }

  span() {
    return this.axis === "time" ? Math.max(this.recording.timeAt(this.recording.events), 1) : this.recording.events + 1;
  }

  setGroups(groups) {
    this.groups = groups;
    this.block = this.block >= 0 ? this.block : -1;
    this.shape = null;
    this.readColors();
  }

  readColors() {
    this.colors = this.groups.colors.map(colorOf);
    this.pixels = this.colors.map(pixelOf);
    this.edges = this.pixels.map(darker);
    this.ink = Object.fromEntries(["text", "quiet", "grid", "cursor", "panel", "reserved", "mark"].map((name) => [name, colorOf(`--${name}`)]));
    this.panelPixel = pixelOf(this.ink.panel);
    this.stripePixel = pixelOf(colorOf("--stripe"));
  }

  resize() {
    const bounds = this.box.getBoundingClientRect();
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = Math.max(Math.round(bounds.width), 120);
    this.height = Math.max(Math.round(bounds.height), 80);
    for (const canvas of [this.area, this.overlay]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(this.height * this.ratio);
    }
    this.plotWidth = this.area.width - Math.round(LEFT * this.ratio);
    this.plotHeight = this.area.height - Math.round((BOTTOM + this.top) * this.ratio);
    this.image = this.area.getContext("2d").createImageData(this.plotWidth, this.plotHeight);
    this.words = new Uint32Array(this.image.data.buffer);
    this.instants = new Int32Array(this.plotWidth);
  }

  // The instant at a place of the axis.
  instantAt(unit) {
    const instant = this.axis === "time" ? this.recording.instantAt(unit) : Math.floor(unit);
    return Math.min(Math.max(instant, 0), this.recording.events);
  }

  unitOf(instant) {
    return this.axis === "time" ? this.recording.timeAt(instant) : instant;
  }

  // CSS pixels from the left of the box to a place of the axis.
  unitAt(x) {
    const share = (x - LEFT) / (this.width - LEFT);
    return this.view.from + share * (this.view.to - this.view.from);
  }

  xOf(unit) {
    return LEFT + ((unit - this.view.from) / (this.view.to - this.view.from)) * (this.width - LEFT);
  }

  setView(from, to) {
    const span = this.span();
    const least = this.axis === "time" ? Math.min(span, 20) : Math.min(span, 8);
    const length = Math.min(Math.max(to - from, least), span);
    const begin = Math.min(Math.max(from + (to - from - length) / 2, 0), span - length);
    this.view = { from: begin, to: begin + length };
  }

  zoom(factor, x) {
    const center = this.unitAt(x ?? LEFT + (this.width - LEFT) / 2);
    const { from, to } = this.view;
    this.setView(center - (center - from) * factor, center + (to - center) * factor);
  }

  pan(pixels) {
    const unit = (this.view.to - this.view.from) / (this.width - LEFT);
    this.setView(this.view.from - pixels * unit, this.view.to - pixels * unit);
  }

  // The highest instant of every column of pixels.
  findInstants() {
    const { recording, instants, plotWidth } = this;
    const unit = (this.view.to - this.view.from) / plotWidth;
    let first = this.instantAt(this.view.from);
    for (let x = 0; x < plotWidth; x += 1) {
      const next = this.instantAt(this.view.from + (x + 1) * unit);
      instants[x] = recording.highest.at(first, Math.max(next, first + 1));
      first = next;
    }
  }

  topOfScale() {
    return Math.max(this.recording.mostReserved, this.recording.mostAllocated, 1) * 1.03;
  }

  draw() {
    this.findInstants();
    this.drawArea();
    this.drawOverlay();
  }

  drawArea() {
    const { words, instants, plotWidth, plotHeight, groups, pixels } = this;
    words.fill(this.panelPixel);
    const hasStripes = this.stepWidth() >= 3;
    const scale = plotHeight / this.topOfScale();
    const shown = groups.series.map((_, group) => group).filter((group) => !groups.hidden.has(group));
    for (let x = 0; x < plotWidth; x += 1) {
      const instant = instants[x];
      let sum = 0;
      let from = plotHeight;
      for (const group of shown) {
        sum += groups.series[group][instant];
        const to = Math.max(Math.round(plotHeight - sum * scale), 0);
        const pixel = pixels[group];
        for (let at = (from - 1) * plotWidth + x; from > to; from -= 1, at -= plotWidth) words[at] = pixel;
      }
      const step = hasStripes ? this.recording.stepAt(instant) : null;
      if (step === null || step % 2 === 1) continue;
      for (let at = (from - 1) * plotWidth + x; at >= 0; at -= plotWidth) words[at] = this.stripePixel;
    }
    this.drawEdges(scale);
    const context = this.area.getContext("2d");
    context.fillStyle = this.ink.panel;
    context.fillRect(0, 0, this.area.width, this.area.height);
    context.putImageData(this.image, Math.round(LEFT * this.ratio), Math.round(this.top * this.ratio));
  }

  // Close up, each block shows its upper edge.
  drawEdges(scale) {
    const { recording, groups, words, instants, plotWidth, plotHeight, edges } = this;
    const events = instants[plotWidth - 1] - instants[0];
    if (events > plotWidth) return;
    let blocks = groups.stackedAt(instants[0]);
    if (blocks.length * (events + 1) > EDGE_WORK) return;
    let instant = instants[0];
    for (let x = 0; x < plotWidth; x += 1) {
      if (instants[x] !== instant) {
        blocks = this.follow(blocks, instant, instants[x]);
        instant = instants[x];
      }
      let sum = 0;
      let last = plotHeight;
      for (const index of blocks) {
        sum += recording.size[index];
        const y = Math.round(plotHeight - sum * scale);
        if (last - y >= 3 && y >= 0) words[y * plotWidth + x] = edges[groups.of[index]];
        last = y;
      }
      const isNew = x > 0 && instants[x - 1] !== instants[x];
      if (isNew && plotWidth / (events + 1) > 6) this.drawBirths(x, instants[x - 1], instants[x], scale);
    }
  }

  // The blocks of an instant from those of an earlier one, in stacking order.
  follow(blocks, from, to) {
    const { recording, groups } = this;
    const kept = blocks.filter((index) => recording.died[index] > to);
    const added = [];
    for (let index = recording.birthStarts[from + 1]; index < recording.birthStarts[to + 1]; index += 1) {
      if (recording.died[index] > to && !groups.hidden.has(groups.of[index])) added.push(index);
    }
    if (added.length === 0) return kept;
    return kept.concat(added).sort((a, b) => groups.of[a] - groups.of[b] || a - b);
  }

  drawBirths(x, from, to, scale) {
    const { recording, groups, words, plotWidth, plotHeight } = this;
    for (let index = recording.birthStarts[from + 1]; index < recording.birthStarts[to + 1]; index += 1) {
      if (recording.died[index] <= to || groups.hidden.has(groups.of[index])) continue;
      const bottom = groups.below(groups.of[index], to) + groups.heightOf(index)(to);
      const low = Math.round(plotHeight - bottom * scale);
      const high = Math.max(Math.round(plotHeight - (bottom + recording.size[index]) * scale), 0);
      for (let y = high; y < low; y += 1) words[y * plotWidth + x] = this.edges[groups.of[index]];
    }
  }

  drawOverlay() {
    const context = this.overlay.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11.5px system-ui, sans-serif";
    this.drawSteps(context);
    this.drawPhases(context);
    this.drawScale(context);
    this.drawReserved(context);
    this.drawMarks(context);
    if (this.block >= 0) this.drawBlock(context);
    if (this.cursor !== null) this.drawCursor(context);
  }

  yOf(bytes) {
    const height = this.height - this.top - BOTTOM;
    return this.top + height - (bytes / this.topOfScale()) * height;
  }

  bytesAt(y) {
    const height = this.height - this.top - BOTTOM;
    return ((this.top + height - y) / height) * this.topOfScale();
  }

  drawScale(context) {
    const top = this.topOfScale();
    const step = niceStep(top, (this.height - this.top - BOTTOM) / 60, true);
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let bytes = 0; bytes <= top; bytes += step) {
      const y = Math.round(this.yOf(bytes)) + 0.5;
      context.strokeStyle = this.ink.grid;
      context.globalAlpha = 0.55;
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(this.width, y);
      context.stroke();
      context.globalAlpha = 1;
      context.fillStyle = this.ink.quiet;
      context.fillText(bytesText(bytes), LEFT - 6, Math.max(y, 8));
    }
    this.drawAxis(context);
  }

  drawAxis(context) {
    const { from, to } = this.view;
    const step = Math.max(niceStep(to - from, (this.width - LEFT) / 110, false), 1);
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    context.fillStyle = this.ink.quiet;
    for (let unit = Math.ceil(from / step) * step; unit <= to; unit += step) {
      const x = this.xOf(unit);
      const text = this.axis === "time" ? timeText(unit) : countText(unit);
      const half = context.measureText(text).width / 2;
      if (x - half < LEFT || x + half > this.width) continue;
      context.fillRect(x, this.height - BOTTOM, 1, 4);
      context.fillText(text, x, this.height - 6);
    }
  }

  // How many pixels a step takes, as it is zoomed now. Every other one is shaded; close enough, each has its number.
  stepWidth() {
    const all = (this.width - LEFT) / Math.max(this.recording.steps.length, 1);
    return all / ((this.view.to - this.view.from) / this.span());
  }

  drawSteps(context) {
    const { steps } = this.recording;
    if (this.stepWidth() < 20) return;
    context.textAlign = "left";
    context.textBaseline = "top";
    context.fillStyle = this.ink.quiet;
    let number = firstWhere(steps.length, (index) => this.unitOf(steps[index][1]) >= this.view.from);
    for (; number < steps.length; number += 1) {
      const begin = Math.max(this.xOf(this.unitOf(steps[number][0])), LEFT);
      const end = Math.min(this.xOf(this.unitOf(steps[number][1])), this.width);
      if (begin > this.width) break;
      if (end - begin > 46) context.fillText(`step ${number + 1}`, begin + 4, 4);
    }
  }

  // Under the steps: each phase with its name, or its first letter, and a line where it begins.
  drawPhases(context) {
    const { phases } = this.recording;
    context.textAlign = "center";
    context.textBaseline = "top";
    let number = firstWhere(phases.length, (index) => this.unitOf(phases[index][1]) >= this.view.from);
    for (; number < phases.length; number += 1) {
      const [first, last, name] = phases[number];
      const begin = Math.max(this.xOf(this.unitOf(first)), LEFT);
      const end = Math.min(this.xOf(this.unitOf(last)), this.width);
      if (begin > this.width) break;
      if (end - begin < 11) continue;
      context.globalAlpha = 0.5;
      context.fillStyle = this.ink.reserved;
      context.fillRect(Math.round(begin), STEP_ROW, 1, this.height - STEP_ROW - BOTTOM);
      context.globalAlpha = 1;
      context.fillStyle = this.ink.quiet;
      const text = context.measureText(name).width + 6 < end - begin ? name : name[0];
      context.fillText(text, (begin + end) / 2, STEP_ROW + 1);
    }
  }

  drawReserved(context) {
    const { recording, instants, plotWidth, ratio } = this;
    context.strokeStyle = this.ink.reserved;
    context.lineWidth = 1.25;
    context.beginPath();
    let last = null;
    for (let x = 0; x < plotWidth; x += 1) {
      const y = this.yOf(recording.reserved[instants[x]]);
      if (last !== null && last !== y) context.lineTo(LEFT + x / ratio, last);
      if (last !== y) context.lineTo(LEFT + x / ratio, y);
      last = y;
    }
    context.lineTo(this.width, last);
    context.stroke();
    context.lineWidth = 1;
  }

  drawMarks(context) {
    const { recording } = this;
    const marks = [[recording.peak + 1, "peak", this.ink.text], ...recording.ooms.map(([event]) => [event + 1, "out of memory", this.ink.mark])];
    context.textBaseline = "top";
    for (const [instant, text, color] of marks.slice(0, 50)) {
      const x = this.xOf(this.unitOf(instant));
      if (x < LEFT || x > this.width) continue;
      context.fillStyle = color;
      context.fillRect(Math.round(x), this.top, 1, this.height - this.top - BOTTOM);
      const isRight = x + 90 > this.width;
      context.textAlign = isRight ? "right" : "left";
      const y = this.top + 4;
      const width = context.measureText(text).width;
      context.globalAlpha = 0.85;
      context.fillStyle = this.ink.panel;
      context.fillRect(isRight ? x - width - 6 : x + 3, y - 2, width + 4, 15);
      context.globalAlpha = 1;
      context.fillStyle = color;
      context.fillText(text, isRight ? x - 4 : x + 5, y);
    }
  }

  drawBlock(context) {
    const { recording, groups, block, instants, plotWidth, ratio } = this;
    const group = groups.of[block];
    if (groups.hidden.has(group)) return;
    this.shape ??= groups.heightOf(block);
    context.fillStyle = this.ink.cursor;
    context.strokeStyle = this.ink.cursor;
    for (let x = 0; x < plotWidth; x += 1) {
      const instant = instants[x];
      if (instant < recording.born[block] || instant >= recording.died[block]) continue;
      const bottom = groups.below(group, instant) + this.shape(instant);
      const [low, high] = [this.yOf(bottom), this.yOf(bottom + recording.size[block])];
      context.globalAlpha = 0.45;
      context.fillRect(LEFT + x / ratio, high, 1 / ratio, Math.max(low - high, 1));
      context.globalAlpha = 1;
      context.fillRect(LEFT + x / ratio, high, 1 / ratio, 1);
      context.fillRect(LEFT + x / ratio, low - 1, 1 / ratio, 1);
    }
  }

  drawCursor(context) {
    const x = this.xOf(this.unitOf(this.cursor) + (this.axis === "event" ? 0.5 : 0));
    if (x < LEFT || x > this.width) return;
    context.fillStyle = this.ink.cursor;
    context.fillRect(Math.round(x), this.top, 1, this.height - this.top - BOTTOM);
  }

  // The instant shown at a place of the box.
  shownAt(x) {
    const column = Math.floor((x - LEFT) * this.ratio);
    return this.instants[Math.min(Math.max(column, 0), this.plotWidth - 1)];
  }

  setBlock(index) {
    if (index === this.block) return;
    this.block = index;
    this.shape = null;
  }
}

function firstWhere(length, isTrue) {
  let low = 0;
  let high = length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isTrue(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
