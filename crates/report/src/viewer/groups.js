// How the timeline is stacked: each allocation belongs to one group, and each group has its bytes at every instant.

// What lasts is at the bottom, what comes and goes on top. Numbers are places in Role::ALL.
const ROLE_ORDER = [0, 1, 2, 6, 3, 5, 4, 11, 12, 7, 8, 9, 10];
const LINES = 10;

class Groups {
  constructor(recording, mode, finding) {
    this.recording = recording;
    this.of = new Uint8Array(recording.count);
    this.names = [];
    this.colors = [];
    this.hidden = new Set();
    if (mode === "finding") this.byFinding(finding);
    else if (mode === "line") this.byLine();
    else if (mode === "module") this.byModule();
    else this.byRole();
    this.addUp();
  }

  byRole() {
    const present = new Set(this.recording.role);
    const groupOf = new Uint8Array(this.recording.roles.length);
    for (const role of (this.recording.roleOrder ?? ROLE_ORDER).filter((role) => present.has(role))) {
      groupOf[role] = this.names.length;
      this.names.push(this.recording.roles[role]);
      this.colors.push(`--c${this.recording.roleOrder ? role + 1 : role}`);
    }
    for (let index = 0; index < this.of.length; index += 1) this.of[index] = groupOf[this.recording.role[index]];
  }

  byLine() {
    const { recording } = this;
    this.byOwner(recording.stackOwner, ["other lines", "no Python frame"], (owner) => recording.frameText(owner - 1));
  }

  byModule() {
    const { recording } = this;
    this.byOwner(recording.stackModule, ["other modules", "outside modules"], (module) => recording.strings[module - 1]);
  }

  // By a number that each stack has, 0 where it has none: those that hold most where most is held, and the others.
  byOwner(ownerOf, [others, nobody], nameOf) {
    const { recording } = this;
    const weights = new Map();
    for (const instant of [recording.peak + 1, recording.reservedPeak + 1, recording.events]) {
      for (const index of recording.liveAt(instant)) {
        const owner = ownerOf[recording.stack[index]];
        weights.set(owner, (weights.get(owner) ?? 0) + recording.size[index]);
      }
    }
    const ranked = [...weights].filter(([owner]) => owner > 0).sort((a, b) => b[1] - a[1]).slice(0, LINES);
    this.names = [others, nobody, ...ranked.map(([owner]) => nameOf(owner))];
    this.colors = ["--c0", "--c12", ...ranked.map((_, place) => `--c${1 + (place % 11)}`)];
    const groups = new Map([[0, 1], ...ranked.map(([owner], place) => [owner, place + 2])]);
    for (let index = 0; index < this.of.length; index += 1) {
      this.of[index] = groups.get(ownerOf[recording.stack[index]]) ?? 0;
    }
  }

  byFinding(finding) {
    this.names = ["everything else", `finding ${finding + 1}: ${this.recording.findings[finding].kind}`];
    this.colors = ["--c0", "--mark"];
    for (const index of this.recording.findingAllocations[finding]) this.of[index] = 1;
  }

  addUp() {
    const { recording } = this;
    const length = recording.events + 1;
    const changes = this.names.map(() => new Float64Array(length));
    for (let index = 0; index < recording.count; index += 1) {
      const column = changes[this.of[index]];
      column[recording.born[index]] += recording.size[index];
      if (recording.died[index] <= recording.events) column[recording.died[index]] -= recording.size[index];
    }
    this.series = changes.map((column) => {
      const levels = new Float32Array(length);
      let level = 0;
      for (let at = 0; at < length; at += 1) {
        level += column[at];
        levels[at] = level;
      }
      return levels;
    });
  }

  // Bytes of the groups below `group` at an instant.
  below(group, instant) {
    let sum = 0;
    for (let other = 0; other < group; other += 1) if (!this.hidden.has(other)) sum += this.series[other][instant];
    return sum;
  }

  // The block `bytes` above the bottom at an instant, or -1.
  blockAt(instant, bytes) {
    let bottom = 0;
    for (let group = 0; group < this.series.length; group += 1) {
      if (this.hidden.has(group)) continue;
      const height = this.series[group][instant];
      if (bytes < bottom + height) {
        for (const index of this.recording.liveAt(instant)) {
          if (this.of[index] !== group) continue;
          bottom += this.recording.size[index];
          if (bytes < bottom) return index;
        }
        return -1;
      }
      bottom += height;
    }
    return -1;
  }

  // The blocks of an instant from the bottom to the top.
  stackedAt(instant) {
    const live = this.recording.liveAt(instant).filter((index) => !this.hidden.has(this.of[index]));
    return live.sort((a, b) => this.of[a] - this.of[b] || a - b);
  }

  // The height of a block inside its group over its life: it starts on top, and sinks when older ones go.
  heightOf(index) {
    const { recording } = this;
    const older = recording.liveAt(recording.born[index]).filter((other) => other < index && this.of[other] === this.of[index]);
    older.sort((a, b) => recording.died[a] - recording.died[b]);
    const times = older.map((other) => recording.died[other]);
    const first = older.reduce((sum, other) => sum + recording.size[other], 0);
    let level = first;
    const levels = older.map((other) => (level -= recording.size[other]));
    return (instant) => {
      let low = 0;
      let high = times.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (times[middle] <= instant) low = middle + 1;
        else high = middle;
      }
      return low === 0 ? first : levels[low - 1];
    };
  }
}

function colorOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// `#rrggbb` as the number that an ImageData's 32-bit view holds.
function pixelOf(color) {
  const value = parseInt(color.slice(1), 16);
  return ((255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

function darker(pixel) {
  return ((pixel & 0xff000000) | ((pixel >> 1) & 0x7f7f7f) + ((pixel >> 3) & 0x1f1f1f)) >>> 0;
}
