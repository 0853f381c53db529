// Topologies whose rounds the library has computed and packed into the page: see packing.py.

let PACKS = { origins: [], rounds: {} };

// Fills PACKS; a browser that cannot inflate shows the page without what is packed.
async function unpack(text) {
  if (typeof DecompressionStream === "undefined") return;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  PACKS = await new Response(stream).json();
}

function packedTopology(spec, n) {
  const rounds = PACKS.rounds[spec]?.[n];
  if (!rounds) throw new Error(whyNotPacked(spec, n));
  return sequence(rounds.map(unpackRound));
}

function unpackRound(groups) {
  const arcs = [];
  for (const [a, b, origin, pairs] of groups) {
    for (let at = 0; at < pairs.length; at += 2) {
      const [i, j] = [pairs[at], pairs[at + 1]];
      arcs.push(arc(i, j, a, b, PACKS.origins[origin]), arc(j, i, a, b, PACKS.origins[origin]));
    }
  }
  return arcs;
}

function whyNotPacked(spec, n) {
  if (!PACKS.origins.length) return "this browser cannot read it (it has no DecompressionStream)";
  const { name } = parseSpec(spec);
  const known = Object.keys(PACKS.rounds).filter((other) => parseSpec(other).name === name);
  const has = PACKS.rounds[spec] ? "other numbers of nodes" : known.join(", ");
  return `this page has ${has}; basegraph explore --topology ${spec} -n ${n} makes one that has it`;
}
