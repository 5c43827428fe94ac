// What is known of one block, in words. Only text ever enters the page: nothing of a recording becomes markup.
function showDetails(panel, recording, index) {
  const born = recording.born[index];
  const died = recording.died[index];
  const isHeld = died > recording.events;
  const size = recording.size[index];
  const rows = [
    ["asked for", recording.tail[index] > 0 ? `${bytesText(size - recording.tail[index])} (${countText(size - recording.tail[index])} B)` : "all of it"],
    ["for", recording.roles[recording.role[index]]],
    ["made", born === 0 ? "before the recording" : momentText(recording, born)],
    ["freed", isHeld ? (recording.isSimulated ? "not in these steps" : "not in the recording") : momentText(recording, died)],
    ["lived", lifeText(recording, born, isHeld ? recording.events : died)],
    ["address", addressText(recording, recording.address[index])],
  ];
  const module = recording.stackModule?.[recording.stack[index]] ?? 0;
  if (module > 0) rows.push(["module", recording.strings[module - 1]]);
  if (recording.stream[index] !== 0) rows.push(["stream", String(recording.stream[index])]);
  const list = element("dl", { className: "facts" });
  for (const [name, value] of rows) list.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  const frames = element("ol", { className: "stack" });
  for (const frame of recording.stackOf(index)) {
    frames.append(element("li", { textContent: recording.frameText(frame), className: recording.frameIsUser[frame] ? "user" : "" }));
  }
  if (frames.childElementCount === 0) {
    const reason = recording.isSimulated ? "the model did not ask for it itself" : born === 0 ? "it is older than the recording" : recording.hasFrames ? "a thread of autograd made it" : "the recording has none";
    frames.append(element("li", { textContent: `${recording.isSimulated ? "No line" : "No Python frame"}: ${reason}.` }));
  }
  panel.replaceChildren(element("h4", { textContent: `${bytesText(size)}` }), list, frames);
}

function showHole(panel, recording, segment) {
  const rows = [["size", `${bytesText(segment.size)}`], ["address", addressText(recording, segment.address)]];
  const list = element("dl", { className: "facts" });
  for (const [name, value] of rows) list.append(element("dt", { textContent: name }), element("dd", { textContent: value }));
  panel.replaceChildren(element("h4", { textContent: "Free memory of a segment" }), list);
}

function addressText(recording, offset) {
  return `0x${(BigInt(recording.lowestAddress) + BigInt(offset)).toString(16)}`;
}

function momentText(recording, instant) {
  const parts = [`event ${countText(instant - 1)}`];
  if (recording.hasClock) parts.push(`after ${timeText(recording.timeAt(instant))}`);
  const step = recording.stepAt(instant);
  if (step !== null) parts.push(`step ${step}`);
  const phase = recording.phaseAt(instant);
  if (phase !== null) parts.push(phase);
  return parts.join(", ");
}

function lifeText(recording, born, died) {
  const parts = [died - born === 1 ? "1 event" : `${countText(died - born)} events`];
  if (recording.hasClock) parts.push(timeText(recording.timeAt(died) - recording.timeAt(born)));
  return parts.join(", ");
}
