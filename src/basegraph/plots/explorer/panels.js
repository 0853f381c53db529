// What stands beside the drawings: the status, the table of topologies, whom a node hears.

function statusText() {
  const { t, curves } = current;
  const { states, errors } = curves[0];
  const error = errors[state.step];
  const phase = t.period ? `${state.step % t.period} (of 0 to ${t.period - 1})` : `${state.step}`;
  const rounds = state.step === 1 ? "1 round" : `${state.step} rounds`;
  const exact = error <= REACHED * errors[0] ? ", exact average" : "";
  const two = t.second ? " (two vectors per node; shown: x)" : "";
  const held = state.selected === null ? null : states[state.step][state.selected];
  const own = held === null ? "" : ` Node ${state.selected} holds ${held.toPrecision(4)}.`;
  const reached = `consensus error ${error.toExponential(1)}${exact}${two}`;
  return `After ${rounds}: ${reached}. Drawn: round ${phase}, which comes next.${own}`;
}

// What the drawn round has, and what it and those before it cost.
function roundText(drawn) {
  const { t } = current;
  const { size, ...net } = network();
  let seconds = 0;
  const sent = new Array(t.n).fill(0);
  for (let step = 0; step < state.step; step++) {
    const busy = busiest(t.n, t.round(step));
    busy.sentBy.forEach((count, i) => (sent[i] += count));
    seconds += roundSeconds(net, size * busy.sent, size * busy.heard);
  }
  const bytes = size * Math.max(...sent);
  const left = drawn.left ? ` ${drawn.edges.length} of them drawn, evenly chosen.` : "";
  const edges = edgesOf(t, t.round(state.step));
  const sofar = ` So far the busiest node has sent ${short(bytes)}B in ${secondsText(seconds)}.`;
  const spent = state.step ? sofar : "";
  const phase = t.period ? state.step % t.period : state.step;
  return `Round ${phase}: ${weightsText(edges)}.${left}${spent}`;
}

const COLUMNS = ["topology", "neighbors", "rounds", "per round", "to the average"];

// The legend, with what each topology costs on the network of the fields below it.
function legend() {
  const { size, ...net } = network();
  const spent = (bytes, seconds) =>
    bytes === null ? "never exact" : `${short(bytes)}B, ${secondsText(seconds)}`;
  const rows = current.curves.map(({ spec, missing, t, errors }) => {
    if (missing) return [spec, html("td", { colspan: 4, class: "missing" }, "not defined for this n")];
    const exact = t.period !== null && exactAt(errors) >= 0 && exactAt(errors) <= t.period;
    const cost = costOf(t, exact, size, net);
    const vectors = t.second ? ", two vectors" : "";
    const rounds = t.period === null ? "random" : `${t.period}`;
    return [
      ...[spec, `${maxDegree(t)}${vectors}`, rounds],
      spent(cost.bytesPerStep, cost.secondsPerStep),
      spent(cost.bytesToAverage, cost.secondsToAverage),
    ];
  });
  for (const name of state.n > 1 ? ALL_REDUCES : []) {
    const cost = allReduceCost(name, state.n, size, net);
    rows.push([name, "", `${cost.rounds}`, "", spent(cost.bytesToAverage, cost.secondsToAverage)]);
  }
  find("legend").replaceChildren(
    html("thead", {}, html("tr", {}, ...COLUMNS.map((name) => html("th", {}, name)))),
    html("tbody", {}, ...rows.map(([spec, ...cells]) => {
      const name = html("td", {}, lineSample(lookOf(spec)), ` ${spec}`);
      const others = cells.map((cell) => (cell instanceof Node ? cell : html("td", {}, cell)));
      return html("tr", { "data-spec": spec }, name, ...others);
    })),
  );
}

function maxDegree(t) {
  let largest = 0;
  for (let step = 0; step < (t.period || 1); step++) {
    const { sent, heard } = busiest(t.n, t.round(step));
    largest = Math.max(largest, sent, heard);
  }
  return largest;
}

function origins(arcs) {
  const seen = [...new Set(arcs.map((a) => a[4]))].filter(Boolean).sort();
  find("origins").replaceChildren(
    ...seen.map((origin) => {
      const mark = html("i", { style: `background:${ORIGIN_COLORS[origin]}` });
      return html("li", {}, mark, origin);
    }),
  );
}

// Whom the selected node hears, round by round, with exact weights.
function rounds(t) {
  const table = find("rounds");
  if (document.activeElement !== find("node")) find("node").value = state.selected ?? "";
  if (state.selected === null) {
    table.replaceChildren();
    return;
  }
  const shown = t.period || current.steps + 1;
  const rows = Array.from({ length: shown }, (_, step) => {
    const heard = t.round(step).filter(([i]) => i === state.selected);
    const said = ([, j, a, b]) => `${heardFrom(t, step, j)} (${a}/${b}${inSecond(t, step)})`;
    const weights = heard.map(said).join(", ");
    const now = step === state.step % shown ? { class: "now" } : {};
    return html("tr", now, html("td", {}, step), html("td", {}, weights || "nobody"));
  });
  const heads = ["round", `node ${state.selected} hears (weight)`].map((text) => html("th", {}, text));
  table.replaceChildren(html("tr", {}, ...heads), ...rows);
}

// With two vectors per node: which of the sender's is heard, and its weight in the second vector.
function heardFrom(t, step, j) {
  return t.second ? `${t.second(step).sent} of ${j}` : `${j}`;
}

function inSecond(t, step) {
  return t.second ? ` in x, ${t.second(step).weight.join("/")} in y` : "";
}

// A problem in a line, with numbers of nodes that would do as buttons.
function complain(message, nodes = []) {
  const buttons = nodes.map((n) => {
    const button = html("button", { type: "button", class: "try" }, `n = ${n}`);
    button.addEventListener("click", () => {
      find("n").value = n;
      choose();
    });
    return button;
  });
  find("problem").replaceChildren(message, ...(buttons.length ? [" Try ", ...buttons] : []));
}
