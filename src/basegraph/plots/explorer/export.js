// What can be taken away: the round as SVG, a period as GIF, and the Python line.

const STYLED = [
  ...["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "paint-order"],
  ...["font-size", "font-family", "text-anchor", "dominant-baseline"],
];
const GIF_SIZE = 480;

// A drawing as a file of its own: the page's styles become attributes, a caption goes below.
function standalone(root, caption) {
  const copy = root.cloneNode(true);
  const originals = root.querySelectorAll("*");
  copy.querySelectorAll("*").forEach((element, i) => {
    const style = getComputedStyle(originals[i]);
    element.removeAttribute("style");
    element.removeAttribute("class");
    if (element.tagName === "g" || element.tagName === "title") return;
    for (const property of STYLED) element.setAttribute(property, style.getPropertyValue(property));
  });
  const { color } = getComputedStyle(document.body);
  const paper = getComputedStyle(root.closest("section") || document.body).backgroundColor;
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("viewBox", "-124 -124 248 264");
  copy.setAttribute("width", "744");
  copy.setAttribute("height", "792");
  copy.prepend(svg("rect", { x: -124, y: -124, width: 248, height: 264, fill: paper }));
  const font = { "font-size": 8, "font-family": "sans-serif", "text-anchor": "middle" };
  copy.append(svg("text", { x: 0, y: 133, fill: color, ...font }, caption));
  return new XMLSerializer().serializeToString(copy);
}

function captionOf(step) {
  return `${state.spec}, n = ${state.n}, round ${step}`;
}

function roundAsSvg() {
  return standalone(find("graph").querySelector("svg"), captionOf(state.step));
}

// The pixels of an SVG text.
async function pixelsOf(text, width, height) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = html("canvas", { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0, width, height);
  return context.getImageData(0, 0, width, height).data;
}

// One period, from the start values to the average, as the bytes of a GIF.
async function periodAsGif(progress = () => {}) {
  const { t, scale, curves } = current;
  const last = Math.min(current.steps, t.period > 1 ? t.period : 12);
  const height = Math.round((GIF_SIZE * 264) / 248);
  const host = html("div", { class: "offscreen still" });
  find("graph").after(host);
  const frames = [];
  try {
    for (let step = 0; step <= last; step++) {
      drawRound(host, t, step, curves[0].states[step], scale, state.selected);
      const text = standalone(host.querySelector("svg"), captionOf(step));
      const delay = Math.round((step === last ? 2 : 1) * (state.interval / 10));
      frames.push({ rgba: await pixelsOf(text, GIF_SIZE, height), delay });
      progress(step + 1, last + 1);
    }
  } finally {
    host.remove();
  }
  return encodeGif(GIF_SIZE, height, frames);
}

function pythonLine() {
  const made = `bg.topology("${state.spec}", n=${state.n})`;
  const drawable = state.n <= 128;
  return `import basegraph as bg; t = ${made}${drawable ? `; t.draw("${fileName("svg")}")` : ""}`;
}

function fileName(suffix) {
  return `${state.spec.replace(/[^a-z0-9.]+/g, "-")}-n${state.n}.${suffix}`;
}

function download(content, kind, name) {
  const url = URL.createObjectURL(new Blob([content], { type: kind }));
  html("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function saveGif() {
  if (!current) return;
  stop();
  const button = find("save-gif");
  button.disabled = true;
  try {
    const bytes = await periodAsGif((done, all) => (button.textContent = `GIF ${done}/${all}`));
    download(bytes, "image/gif", fileName("gif"));
  } finally {
    button.textContent = "GIF";
    button.disabled = false;
  }
}

async function copyPython() {
  const field = find("python");
  field.select();
  try {
    await navigator.clipboard.writeText(field.value);
    find("copy").textContent = "Copied";
  } catch {
    document.execCommand("copy"); // pages from disk may not have the clipboard
  }
}
