// GIF: frames of pixels as a looping animation. Every frame has up to 256 colors of its own.

// { palette: [r, g, b, ...] of 256 colors, pixels: index of each }: the most frequent colors, all
// others as the nearest of them.
function quantize(rgba) {
  const counts = new Map();
  const keyAt = (at) => ((rgba[at] & 0xf8) << 7) | ((rgba[at + 1] & 0xf8) << 2) | (rgba[at + 2] >> 3);
  for (let at = 0; at < rgba.length; at += 4) {
    const key = keyAt(at);
    const sum = counts.get(key) || [0, 0, 0, 0];
    for (let c = 0; c < 3; c++) sum[c] += rgba[at + c];
    sum[3]++;
    counts.set(key, sum);
  }
  const ranked = [...counts].sort((a, b) => b[1][3] - a[1][3]);
  const meanOf = ([, [r, g, b, count]]) => [r, g, b].map((sum) => Math.round(sum / count));
  const colors = ranked.slice(0, 256).map(meanOf);
  const index = new Map(ranked.slice(0, 256).map(([key], i) => [key, i]));
  for (const [key, [r, g, b, count]] of ranked.slice(256)) {
    const distance = (color) =>
      (color[0] - r / count) ** 2 + (color[1] - g / count) ** 2 + (color[2] - b / count) ** 2;
    let best = 0;
    for (let i = 1; i < colors.length; i++) if (distance(colors[i]) < distance(colors[best])) best = i;
    index.set(key, best);
  }
  const pixels = new Uint8Array(rgba.length / 4);
  for (let at = 0; at < rgba.length; at += 4) pixels[at / 4] = index.get(keyAt(at));
  const palette = new Array(768).fill(0);
  colors.flat().forEach((value, i) => (palette[i] = value));
  return { palette, pixels };
}

// The pixels by LZW with codes of 9 to 12 bits, as bytes.
function compressPixels(pixels) {
  const bytes = [];
  let [bits, held] = [0, 0];
  let [width, next, codes] = [9, 258, new Map()];
  const emit = (code) => {
    bits |= code << held;
    for (held += width; held >= 8; held -= 8) {
      bytes.push(bits & 255);
      bits >>>= 8;
    }
  };
  emit(256);
  let prefix = pixels[0];
  for (let at = 1; at < pixels.length; at++) {
    const key = (prefix << 8) | pixels[at];
    if (codes.has(key)) {
      prefix = codes.get(key);
      continue;
    }
    emit(prefix);
    if (next === 4096) {
      emit(256);
      [width, next, codes] = [9, 258, new Map()];
    } else {
      if (next === 1 << width) width++;
      codes.set(key, next++);
    }
    prefix = pixels[at];
  }
  emit(prefix);
  emit(257);
  if (held) bytes.push(bits & 255);
  return bytes;
}

// frames: [{ rgba, delay }], delays in hundredths of a second; all of width × height pixels.
function encodeGif(width, height, frames) {
  const word = (value) => [value & 255, value >> 8];
  const out = [...new TextEncoder().encode("GIF89a"), ...word(width), ...word(height), 0x70, 0, 0];
  out.push(0x21, 0xff, 11, ...new TextEncoder().encode("NETSCAPE2.0"), 3, 1, 0, 0, 0);
  for (const { rgba, delay } of frames) {
    const { palette, pixels } = quantize(rgba);
    out.push(0x21, 0xf9, 4, 4, ...word(delay), 0, 0);
    out.push(0x2c, 0, 0, 0, 0, ...word(width), ...word(height), 0x87);
    for (const value of palette) out.push(value);
    out.push(8);
    const data = compressPixels(pixels);
    for (let at = 0; at < data.length; at += 255) {
      const block = data.slice(at, at + 255);
      out.push(block.length, ...block);
    }
    out.push(0);
  }
  out.push(0x3b);
  return new Uint8Array(out);
}
