// The error curves, a logarithmic scale from 10 down to 1e-32; `now` marks the current round.

const FLOOR = -32;
const REACHED = 1e-28;

// Index of the first state that is the exact average, to rounding; -1 where there is none.
function exactAt(errors) {
  return errors.findIndex((error) => error <= REACHED * errors[0]);
}

function drawErrors(host, curves, now, steps) {
  const [width, height, left, bottom] = [420, 310, 46, 44];
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
  root.append(svg("title", {}, "consensus error by round"));
  const x = (step) => left + ((width - left - 12) * step) / Math.max(1, steps);
  const y = (error) => {
    const log = Math.max(FLOOR, Math.min(1, Math.log10(Math.max(error, 1e-300))));
    return 10 + ((height - bottom - 10) * (1 - log)) / (1 - FLOOR);
  };
  for (let power = 0; power >= FLOOR; power -= 8) {
    const level = y(10 ** power);
    root.append(svg("path", { d: `M${left} ${level}H${width - 12}`, class: "grid" }));
    root.append(svg("text", { x: left - 6, y: level, class: "tick y" }, power ? `1e−${-power}` : "1"));
  }
  const stride = Math.ceil(steps / 8) || 1;
  for (let step = 0; step <= steps; step += stride) {
    root.append(svg("text", { x: x(step), y: height - bottom + 14, class: "tick" }, step));
  }
  root.append(svg("text", { x: (left + width) / 2, y: height - 10, class: "tick" }, "round"));
  root.append(svg("path", { d: `M${x(now)} 10V${height - bottom}`, class: "now" }));
  for (const { spec, errors } of curves) {
    const look = lookOf(spec);
    const reached = exactAt(errors);
    const end = reached < 0 ? errors.length - 1 : reached;
    const shown = errors.slice(0, end + 1).map((error, i) => (i === reached ? 0 : error));
    const path = shown.map((error, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(error).toFixed(1)}`);
    const style = curveStyle(look);
    root.append(svg("path", { d: path.join(""), class: "curve", style, "data-spec": spec }));
    if (reached >= 0) {
      const at = { cx: x(reached), cy: y(0), r: 4.5 };
      root.append(svg("circle", { ...at, class: "dot exact", style: inkStyle(look) }));
    }
    if (now <= end) {
      const at = { cx: x(now), cy: y(shown[now]), r: 3 };
      root.append(svg("circle", { ...at, class: "point curve", style: inkStyle(look) }));
    }
  }
  host.replaceChildren(root);
}
