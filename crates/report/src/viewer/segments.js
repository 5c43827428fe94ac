// The memory at an instant: all segments one after the other, wrapped like lines of text.
const GAP = 3;
const ROW_GAP = 4;

class SegmentMap {
  constructor(recording, box, canvas) {
    Object.assign(this, { recording, box, canvas });
    this.instant = -1;
    this.block = -1;
    this.resize();
  }

  resize() {
    const bounds = this.box.getBoundingClientRect();
    this.ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.width = Math.max(Math.round(bounds.width), 80);
    this.height = Math.max(Math.round(bounds.height), 60);
    this.canvas.width = Math.round(this.width * this.ratio);
    this.canvas.height = Math.round(this.height * this.ratio);
    this.layOutRows();
  }

  // Rows and scale are chosen once, for the most that is ever reserved, so that growth shows as growth.
  layOutRows() {
    const rowHeights = [26, 20, 16, 12, 9, 7];
    this.rowHeight = rowHeights.find((height) => this.recording.mostReserved / Math.floor(this.height / (height + ROW_GAP)) <= this.width * (48 << 20) / 64) ?? 7;
    this.rows = Math.max(Math.floor(this.height / (this.rowHeight + ROW_GAP)), 1);
    const gaps = Math.min(this.recording.segmentAt.length * GAP, (this.rows * this.width) / 4);
    this.scale = Math.max(this.rows * this.width - gaps, 1) / Math.max(this.recording.mostReserved, 1);
  }

  // Where everything is: pieces of [block or -1, first pixel, end pixel, state].
  layOut(instant) {
    const { recording } = this;
    const segments = recording.segmentsAt(instant);
    const held = recording.liveAt(instant).map((index) => ({ index, state: "held" }));
    const waiting = recording.pendingAt(instant).map((index) => ({ index, state: "pending" }));
    const blocks = held.concat(waiting).sort((a, b) => recording.address[a.index] - recording.address[b.index]);
    this.pieces = [];
    this.bars = [];
    let at = 0;
    let next = 0;
    for (const segment of segments) {
      const begin = at;
      const end = segment.address + segment.size;
      while (next < blocks.length && recording.address[blocks[next].index] < segment.address) next += 1;
      for (; next < blocks.length && recording.address[blocks[next].index] < end; next += 1) {
        const { index, state } = blocks[next];
        const from = begin + (recording.address[index] - segment.address) * this.scale;
        this.pieces.push({ index, state, from, to: from + recording.size[index] * this.scale });
      }
      at = begin + Math.max(segment.size * this.scale, 2);
      this.bars.push({ from: begin, to: at, segment });
      at += GAP;
    }
  }

  draw(instant, groups) {
    if (instant !== this.instant || this.groups !== groups) {
      this.layOut(instant);
      [this.instant, this.groups] = [instant, groups];
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const colors = groups.colors.map(colorOf);
    const [hole, rule, cursor, edge, reserved] = ["--hole", "--rule", "--cursor", "--edge", "--reserved"].map(colorOf);
    for (const bar of this.bars) this.fill(context, bar.from, bar.to, hole, rule);
    for (const piece of this.pieces) {
      const color = piece.state === "pending" ? reserved : colors[groups.of[piece.index]];
      this.fill(context, piece.from, piece.to, color, piece.to - piece.from > 4 ? edge : null);
      if (piece.state === "pending") this.stripe(context, piece, hole);
    }
    const chosen = this.pieces.find((piece) => piece.index === this.block);
    if (chosen) this.outline(context, chosen, cursor);
  }

  // The parts of a stretch of the tape, row by row.
  *parts(from, to) {
    for (let row = Math.floor(from / this.width); row <= Math.floor(to / this.width) && row < this.rows + 1; row += 1) {
      const left = Math.max(from - row * this.width, 0);
      const right = Math.min(to - row * this.width, this.width);
      if (right > left) yield [left, row * (this.rowHeight + ROW_GAP), right - left, this.rowHeight];
    }
  }

  fill(context, from, to, color, edge) {
    for (const [x, y, width, height] of this.parts(from, to)) {
      context.fillStyle = color;
      context.fillRect(x, y, Math.max(width, 0.5), height);
      if (edge) {
        context.fillStyle = edge;
        context.fillRect(x + width - 1, y, 1, height);
      }
    }
  }

  stripe(context, piece, color) {
    context.fillStyle = color;
    for (const [x, y, width, height] of this.parts(piece.from, piece.to)) {
      for (let at = 0; at < width; at += 4) context.fillRect(x + at, y, Math.min(2, width - at), height);
    }
  }

  outline(context, piece, color) {
    context.strokeStyle = color;
    context.lineWidth = 2;
    for (const [x, y, width, height] of this.parts(piece.from, piece.to)) {
      context.strokeRect(x + 1, y + 1, Math.max(width - 2, 1), height - 2);
    }
  }

  // The block at a place of the canvas, or -1; and the segment there.
  at(x, y) {
    const row = Math.floor(y / (this.rowHeight + ROW_GAP));
    if (y - row * (this.rowHeight + ROW_GAP) > this.rowHeight) return { block: -1, segment: null };
    const place = row * this.width + x;
    const piece = this.pieces?.find((piece) => piece.from <= place && place < Math.max(piece.to, piece.from + 1));
    const bar = this.bars?.find((bar) => bar.from <= place && place < bar.to);
    return { block: piece?.index ?? -1, segment: bar?.segment ?? null };
  }
}
