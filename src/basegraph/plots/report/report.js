// The report: which runs are shown, by what, and the charts that follow from it.

const AXES = {
  epoch: ["epoch", 1],
  bytes_per_node: ["MB sent per node", 1e6],
  seconds: ["seconds", 1],
  tokens: ["million tokens", 1e6],
};
const hidden = new Set();
const percent = REPORT.measure === "accuracy";

function chosenAxis() {
  const key = find("axis").value;
  return [key, ...AXES[key]];
}

// Points of a metric, for the runs that are switched on.
function seriesOf(metric, scale = 1) {
  const [axis, , unit] = chosenAxis();
  return RUNS.filter((run) => !hidden.has(run.name)).map(({ name, look, columns }) => ({
    name,
    look,
    points: (columns[metric] || []).map((value, i) => [
      columns[axis] && columns[axis][i] !== null ? columns[axis][i] / unit : NaN,
      value === null ? NaN : value * scale,
    ]),
  }));
}

// How many nodes there were, by epoch.
function nodesSeries() {
  const shown = RUNS.filter((run) => !hidden.has(run.name));
  return shown.map(({ name, look, nodes }) => ({ name, look, points: nodes }));
}

function draw() {
  const [, xName] = chosenAxis();
  const whose = find("whose").value;
  const score = (v) => (percent ? `${v.toFixed(1)} %` : v.toPrecision(4));
  for (const part of ["test", "validation"]) {
    const host = find(part);
    if (!host) continue;
    const series = seriesOf(`${part}_${REPORT.measure}${whose}`, percent ? 100 : 1);
    drawChart(host, { series, xName, yName: `${part} ${REPORT.unit}`, format: score });
  }
  const plain = (v) => `${Number(v.toPrecision(4))}`;
  drawChart(find("train_loss"), {
    series: seriesOf("train_loss"),
    xName,
    yName: "training loss",
    format: plain,
  });
  drawChart(find("consensus_distance"), {
    series: seriesOf("consensus_distance"),
    xName,
    yName: "consensus distance",
    log: true,
    format: (v) => v.toExponential(2),
  });
  drawChart(find("bytes_per_node"), {
    series: seriesOf("bytes_per_node"),
    xName,
    yName: "bytes sent per node",
    format: (v) => `${short(v)}B`,
  });
  if (find("nodes")) {
    const axes = { xName: "epoch", yName: "nodes", counts: true };
    drawChart(find("nodes"), { series: nodesSeries(), ...axes, format: plain });
  }
}

function legend() {
  find("legend").replaceChildren(
    ...RUNS.map((run) => {
      const pressed = hidden.has(run.name) ? "false" : "true";
      const button = html("button", { type: "button", "aria-pressed": pressed, title: run.title });
      button.append(lineSample(run.look), ` ${run.name}`);
      button.addEventListener("click", () => {
        if (!hidden.delete(run.name)) hidden.add(run.name);
        button.setAttribute("aria-pressed", hidden.has(run.name) ? "false" : "true");
        draw();
      });
      button.addEventListener("dblclick", () => showOnly(run.name));
      for (const [event, on] of [["pointerenter", true], ["pointerleave", false]]) {
        button.addEventListener(event, () => highlight(on ? run.name : null));
      }
      return button;
    }),
  );
}

// A double click leaves one run alone, or brings all of them back.
function showOnly(name) {
  const alone = RUNS.every((run) => hidden.has(run.name) === (run.name !== name));
  hidden.clear();
  if (!alone) for (const run of RUNS) if (run.name !== name) hidden.add(run.name);
  legend();
  draw();
}

function highlight(name) {
  for (const path of document.querySelectorAll("[data-run]")) {
    path.classList.toggle("faded", name !== null && path.dataset.run !== name);
  }
}

function start() {
  const known = Object.keys(AXES).filter((axis) => RUNS.some((run) => run.columns[axis]));
  for (const axis of known) find("axis").append(new Option(AXES[axis][0], axis));
  find("axis").value = known.includes("tokens") ? "tokens" : "epoch";
  for (const id of ["axis", "whose"]) find(id).addEventListener("change", draw);
  legend();
  draw();
  let width = document.body.clientWidth;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    draw();
  }).observe(document.body);
}

start();
