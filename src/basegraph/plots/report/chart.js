// A chart of lines: axes with round numbers, a cross-hair that tells the values under it.

const MARGIN = { left: 56, right: 14, top: 10, bottom: 40 };

// Round numbers that cover low..high, about as many as asked for.
function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  return ticks;
}

function powerTicks(low, high, count) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const stride = Math.max(1, Math.ceil((last - first) / count));
  const ticks = [];
  for (let power = first; power <= last; power += stride) ticks.push(10 ** power);
  return ticks;
}

// Where values are on an axis of so many pixels: { at, ticks }.
function scaleOf(values, start, stop, logarithmic, count) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  if (logarithmic) {
    const ticks = powerTicks(low, high, count);
    [low, high] = [Math.min(low, ticks[0]), Math.max(high, ticks[ticks.length - 1])];
    const span = Math.log10(high / low) || 1;
    return { at: (v) => start + ((stop - start) * Math.log10(v / low)) / span, ticks };
  }
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const at = (v) => start + ((stop - start) * (v - low)) / (high - low);
  return { at, ticks: linearTicks(low, high, count) };
}

function tickText(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-3) return value.toExponential(0).replace("e-", "e−");
  return size < 1e5 ? `${Number(value.toPrecision(6))}` : short(value);
}

// Draws `series` [{ name, look, points: [[x, y], ...] }] into the host. `log` scales y; `counts` are whole
// numbers, which change at once.
function drawChart(host, { series, xName, yName, log = false, counts = false, format }) {
  const shown = series.map((one) => ({
    ...one,
    points: one.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y) && !(log && y <= 0)),
  })).filter((one) => one.points.length);
  const [width, height] = [Math.max(240, host.clientWidth), 260];
  const root = svg("svg", { width, height, role: "img", tabindex: 0 });
  root.append(svg("title", {}, `${yName} by ${xName}`));
  host.replaceChildren(root);
  const middle = [(MARGIN.left + width - MARGIN.right) / 2, height / 2 - 15];
  if (!shown.length) {
    root.append(svg("text", { x: middle[0], y: middle[1], class: "tick" }, "nothing to show"));
    return;
  }
  const all = shown.flatMap((one) => one.points);
  const bottom = height - MARGIN.bottom;
  const dot = ([px, py], look, r) =>
    svg("circle", { cx: x.at(px), cy: y.at(py), r, class: "dot", style: inkStyle(look) });
  const x = scaleOf(all.map((p) => p[0]), MARGIN.left, width - MARGIN.right, false, width / 90);
  const y = scaleOf(all.map((p) => p[1]), bottom, MARGIN.top, log, 5);
  for (const tick of y.ticks.filter((value) => !counts || Number.isInteger(value))) {
    const d = `M${MARGIN.left} ${y.at(tick).toFixed(1)}H${width - MARGIN.right}`;
    root.append(svg("path", { d, class: "grid" }));
    root.append(svg("text", { x: MARGIN.left - 6, y: y.at(tick), class: "tick y" }, tickText(tick)));
  }
  for (const tick of x.ticks) {
    root.append(svg("text", { x: x.at(tick), y: bottom + 14, class: "tick" }, tickText(tick)));
  }
  root.append(svg("text", { x: middle[0], y: height - 8, class: "tick" }, xName));
  for (const { name, look, points } of shown) {
    const path = points.map(([px, py], i) => {
      const [to, level] = [x.at(px).toFixed(1), y.at(py).toFixed(1)];
      if (!i) return `M${to} ${level}`;
      return counts ? `H${to}V${level}` : `L${to} ${level}`;
    });
    const style = curveStyle(look);
    root.append(svg("path", { d: path.join(""), class: "curve", style, "data-run": name }));
    if (points.length === 1) root.append(dot(points[0], look, 3));
  }
  followPointer(host, root, shown, { x, dot, xName, format, bottom });
}

// The values nearest to the pointer, or to where the arrow keys have moved the cross-hair.
function followPointer(host, root, series, { x, dot, xName, format, bottom }) {
  const stops = [...new Set(series.flatMap((one) => one.points.map((p) => p[0])))].sort((a, b) => a - b);
  const line = svg("path", { class: "crosshair" });
  const dots = svg("g", {});
  const box = html("div", { class: "values", role: "status", hidden: "" });
  root.append(line, dots);
  host.append(box);
  const show = (at) => {
    const nearest = (points) =>
      points.reduce((a, b) => (Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a));
    const rows = series.map((one) => ({ ...one, point: nearest(one.points) }));
    rows.sort((a, b) => b.point[1] - a.point[1]);
    line.setAttribute("d", `M${x.at(at).toFixed(1)} ${MARGIN.top}V${bottom}`);
    dots.replaceChildren(...rows.map(({ look, point }) => dot(point, look, 4)));
    box.replaceChildren(
      html("b", {}, `${xName} ${tickText(Number(at.toPrecision(5)))}`),
      ...rows.slice(0, 12).map(({ name, look, point }) =>
        html("span", {}, lineSample(look), ` ${name} `, html("b", {}, format(point[1]))),
      ),
      ...(rows.length > 12 ? [html("span", {}, `and ${rows.length - 12} more`)] : []),
    );
    box.hidden = false;
    const right = x.at(at) > host.clientWidth / 2;
    box.style.left = right ? "auto" : `${x.at(at) + 12}px`;
    box.style.right = right ? `${host.clientWidth - x.at(at) + 12}px` : "auto";
    root.dataset.at = at;
  };
  const hide = () => {
    box.hidden = true;
    line.removeAttribute("d");
    dots.replaceChildren();
  };
  root.addEventListener("pointermove", (event) => {
    const place = event.clientX - root.getBoundingClientRect().left;
    show(stops.reduce((a, b) => (Math.abs(x.at(b) - place) < Math.abs(x.at(a) - place) ? b : a)));
  });
  root.addEventListener("pointerleave", hide);
  root.addEventListener("blur", hide);
  root.addEventListener("keydown", (event) => {
    const move = { ArrowRight: 1, ArrowLeft: -1, Home: -stops.length, End: stops.length }[event.key];
    if (event.key === "Escape") hide();
    if (!move) return;
    event.preventDefault();
    const now = stops.indexOf(Number(root.dataset.at ?? stops[0]));
    show(stops[Math.max(0, Math.min(stops.length - 1, now + (box.hidden ? 0 : move)))]);
  });
}
