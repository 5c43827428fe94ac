// From the page's text to typed arrays. See columns.rs for the format.
async function unpack(text) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the recording (no DecompressionStream); a newer one can");
  }
  const letters = atob(text.trim());
  const packed = new Uint8Array(letters.length);
  for (let index = 0; index < letters.length; index += 1) packed[index] = letters.charCodeAt(index);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const head = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const body = bytes.subarray(8 + length);
  const columns = {};
  for (const [name, [begin, count]] of Object.entries(head.columns)) {
    columns[name] = { begin, count };
  }
  return { head, read: (name, make) => readColumn(body, columns[name], make ?? Int32Array), readDifferences: (name, make) => readDifferences(body, columns[name], make ?? Int32Array) };
}

// Beyond 28 bits the sum goes on in floating point, which is exact up to 2^53.
function readColumn(bytes, { begin, count }, Make) {
  const values = new Make(count);
  let at = begin;
  for (let index = 0; index < count; index += 1) {
    let byte = bytes[at++];
    let value = byte & 0x7f;
    let factor = 128;
    while (byte & 0x80) {
      byte = bytes[at++];
      value += (byte & 0x7f) * factor;
      factor *= 128;
    }
    values[index] = value;
  }
  return values;
}

function readDifferences(bytes, place, Make) {
  const raw = readColumn(bytes, place, Float64Array);
  const values = new Make(raw.length);
  let last = 0;
  for (let index = 0; index < raw.length; index += 1) {
    const half = Math.floor(raw[index] / 2);
    last += raw[index] % 2 === 0 ? half : -half - 1;
    values[index] = last;
  }
  return values;
}
