// What lived when. Instants count the events that have happened: 0 is before the first, `events` is the end.
class Recording {
  constructor({ head, read, readDifferences }) {
    Object.assign(this, head);
    this.phases ??= [];
    this.born = readDifferences("born");
    this.count = this.born.length;
    const lived = read("lived");
    const pending = read("pending", Float64Array);
    this.died = new Int32Array(this.count);
    this.reusable = new Int32Array(this.count);
    for (let index = 0; index < this.count; index += 1) {
      const isHeld = lived[index] === 0;
      this.died[index] = isHeld ? this.events + 1 : this.born[index] + lived[index];
      this.reusable[index] = isHeld ? this.events + 1 : Math.min(this.died[index] + pending[index], this.events + 1);
    }
    this.address = readDifferences("address", Float64Array);
    this.size = read("size", Float64Array);
    this.tail = read("tail", Float64Array);
    this.stream = read("stream", Float64Array);
    this.stack = read("stack");
    this.role = read("role", Uint8Array);
    this.time = readDifferences("time", Float64Array);
    this.segmentAt = readDifferences("segmentAt");
    this.segmentKind = read("segmentKind", Uint8Array);
    this.segmentAddress = readDifferences("segmentAddress", Float64Array);
    this.segmentSize = read("segmentSize", Float64Array);
    this.frameFile = read("frameFile");
    this.frameLine = read("frameLine");
    this.frameFunction = read("frameFunction");
    this.frameIsUser = read("frameIsUser", Uint8Array);
    this.stackOwner = read("stackOwner");
    // Only simulated runs know the module of a line.
    this.stackModule = head.columns.stackModule ? read("stackModule") : null;
    this.stackFrames = read("stackFrames");
    this.stackEnds = read("stackLength");
    for (let index = 1; index < this.stackEnds.length; index += 1) this.stackEnds[index] += this.stackEnds[index - 1];
    this.findingAllocations = this.findings.map((_, index) => readDifferences(`finding${index}`));
    this.hasClock = this.time.length > 1 && this.time.every((time, index) => index === 0 || time >= this.time[index - 1]) && this.time[this.time.length - 1] > 0;
    this.sortDeaths();
    this.addUp();
    this.keepFrames();
  }

  // The allocations by death, so that those of an instant are found at once.
  sortDeaths() {
    const starts = new Int32Array(this.events + 3);
    for (let index = 0; index < this.count; index += 1) starts[this.died[index] + 1] += 1;
    for (let at = 1; at < starts.length; at += 1) starts[at] += starts[at - 1];
    this.deathStarts = starts.slice();
    this.deaths = new Int32Array(this.count);
    for (let index = 0; index < this.count; index += 1) this.deaths[starts[this.died[index]]++] = index;
    this.birthStarts = new Int32Array(this.events + 2);
    for (let index = 0; index < this.count; index += 1) this.birthStarts[this.born[index] + 1] += 1;
    for (let at = 1; at < this.birthStarts.length; at += 1) this.birthStarts[at] += this.birthStarts[at - 1];
  }

  addUp() {
    this.allocated = new Float64Array(this.events + 1);
    this.reserved = new Float64Array(this.events + 1);
    for (let index = 0; index < this.count; index += 1) {
      this.allocated[this.born[index]] += this.size[index];
      if (this.died[index] <= this.events) this.allocated[this.died[index]] -= this.size[index];
    }
    for (let index = 0; index < this.segmentAt.length; index += 1) {
      this.reserved[this.segmentAt[index]] += (this.segmentKind[index] % 2 === 0 ? 1 : -1) * this.segmentSize[index];
    }
    for (let at = 1; at <= this.events; at += 1) {
      this.allocated[at] += this.allocated[at - 1];
      this.reserved[at] += this.reserved[at - 1];
    }
    this.highest = new Highest(this.allocated);
    this.mostReserved = this.reserved.reduce((most, level) => Math.max(most, level), 0);
    this.mostAllocated = this.allocated.reduce((most, level) => Math.max(most, level), 0);
  }

  // What the program was doing when it came to an instant, where that is known.
  phaseAt(instant) {
    const phase = this.phases[firstWhere(this.phases.length, (index) => this.phases[index][1] >= instant)];
    return phase && phase[0] < instant ? phase[2] : null;
  }

  // Key frames: who is alive, now and then, so that any instant is a few events away from one.
  keepFrames() {
    this.frames = [{ at: 0, live: this.bornAt(0) }];
    let live = new Set(this.frames[0].live);
    let since = 0;
    for (let at = 1; at <= this.events; at += 1) {
      this.advance(live, at);
      since += 1;
      if (since >= 1024 && since >= live.size / 2) {
        this.frames.push({ at, live: Int32Array.from(live) });
        since = 0;
      }
    }
  }

  bornAt(instant) {
    const list = [];
    for (let index = this.birthStarts[instant]; index < this.birthStarts[instant + 1]; index += 1) list.push(index);
    return Int32Array.from(list);
  }

  advance(live, instant) {
    for (let at = this.deathStarts[instant]; at < this.deathStarts[instant + 1]; at += 1) live.delete(this.deaths[at]);
    for (let index = this.birthStarts[instant]; index < this.birthStarts[instant + 1]; index += 1) live.add(index);
  }

  // The allocations held at an instant, oldest first.
  liveAt(instant) {
    let low = 0;
    let high = this.frames.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.frames[middle].at <= instant) low = middle;
      else high = middle - 1;
    }
    const frame = this.frames[low];
    const live = [];
    for (const index of frame.live) if (this.died[index] > instant) live.push(index);
    for (let index = this.birthStarts[frame.at + 1] ?? this.count; index < this.birthStarts[instant + 1]; index += 1) {
      if (this.died[index] > instant) live.push(index);
    }
    return live;
  }

  // Freed by the program, but other streams still use them.
  pendingAt(instant) {
    this.waiting ??= Array.from(this.died.keys()).filter((index) => this.reusable[index] > this.died[index] && this.died[index] <= this.events);
    return this.waiting.filter((index) => this.died[index] <= instant && this.reusable[index] > instant);
  }

  // The segments at an instant: [address, size], by address; pages of expandable segments joined.
  segmentsAt(instant) {
    const whole = new Map();
    let pages = [];
    for (let index = 0; index < this.segmentAt.length && this.segmentAt[index] <= instant; index += 1) {
      const [kind, address, size] = [this.segmentKind[index], this.segmentAddress[index], this.segmentSize[index]];
      if (kind === 0) whole.set(address, size);
      else if (kind === 1) whole.delete(address);
      else if (kind === 2) pages = joinPages(pages, address, address + size);
      else pages = cutPages(pages, address, address + size);
    }
    const all = [...whole].map(([address, size]) => ({ address, size })).concat(pages.map(([begin, end]) => ({ address: begin, size: end - begin })));
    return all.sort((a, b) => a.address - b.address);
  }

  timeAt(instant) {
    return instant === 0 ? 0 : this.time[Math.min(instant, this.events) - 1] ?? 0;
  }

  // How many events have happened at a time.
  instantAt(time) {
    let low = 0;
    let high = this.events;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.time[middle] <= time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  stepAt(instant) {
    const event = instant - 1;
    let low = 0;
    let high = this.steps.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.steps[middle][0] <= event) low = middle + 1;
      else high = middle;
    }
    return low > 0 && event < this.steps[low - 1][1] ? low : null;
  }

  frameText(frame) {
    return `${this.strings[this.frameFile[frame]]}:${this.frameLine[frame]} in ${this.strings[this.frameFunction[frame]]}`;
  }

  stackOf(index) {
    const stack = this.stack[index];
    return this.stackFrames.subarray(stack === 0 ? 0 : this.stackEnds[stack - 1], this.stackEnds[stack]);
  }

  ownerText(index) {
    const owner = this.stackOwner[this.stack[index]];
    return owner > 0 ? this.frameText(owner - 1) : null;
  }
}

function joinPages(pages, begin, end) {
  const apart = [];
  for (const [from, to] of pages) {
    if (to < begin || from > end) apart.push([from, to]);
    else [begin, end] = [Math.min(begin, from), Math.max(end, to)];
  }
  apart.push([begin, end]);
  return apart;
}

function cutPages(pages, begin, end) {
  return pages.flatMap(([from, to]) => {
    if (to <= begin || from >= end) return [[from, to]];
    return [[from, begin], [end, to]].filter(([left, right]) => left < right);
  });
}

// Where the highest value of a range is, found in a number of steps that grows with the logarithm of its length.
class Highest {
  constructor(values) {
    this.values = values;
    this.leaves = values.length;
    this.tree = new Int32Array(2 * this.leaves);
    for (let index = 0; index < this.leaves; index += 1) this.tree[this.leaves + index] = index;
    for (let node = this.leaves - 1; node > 0; node -= 1) this.tree[node] = this.higher(this.tree[2 * node], this.tree[2 * node + 1]);
  }

  higher(a, b) {
    return this.values[a] > this.values[b] || (this.values[a] === this.values[b] && a < b) ? a : b;
  }

  // Of the values from `first` up to, not including, `end`.
  at(first, end) {
    let best = first;
    let low = first + this.leaves;
    let high = end + this.leaves;
    while (low < high) {
      if (low & 1) best = this.higher(best, this.tree[low++]);
      if (high & 1) best = this.higher(best, this.tree[--high]);
      low >>= 1;
      high >>= 1;
    }
    return best;
  }
}
