// What all pages share: elements of SVG and HTML, the look of a topology, numbers as text.

const SVG = "http://www.w3.org/2000/svg";
const find = (id) => document.getElementById(id);

function svg(name, attributes = {}, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  return element;
}

function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// The two colors of a look {light, dark, dashes}: theme.css takes the one that suits the scheme, for
// the stroke of a `.curve` and the fill of a `.dot`.
function inkStyle({ light, dark }) {
  return `--light:${light};--dark:${dark}`;
}

function curveStyle(look, width = 2) {
  const dashes = look.dashes.map((length) => length * width).join(" ") || "none";
  return `${inkStyle(look)};stroke-dasharray:${dashes}`;
}

// The sample of a line in a legend.
function lineSample(look) {
  const root = svg("svg", { width: 28, height: 8, "aria-hidden": "true" });
  root.append(svg("path", { d: "M1 4H27", class: "curve", style: curveStyle(look) }));
  return root;
}

// 1234567 -> "1.23 M"; what is below 1000 has three digits.
function short(value, units = ["", "k", "M", "G", "T"]) {
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${Number(value.toPrecision(3))} ${units[unit]}`.trim();
}
