// Random integers as a pure function of (seed, step, stream): Philox 4x64-10, as the library draws.

const MASK = (1n << 64n) - 1n;

function philoxBlock(counter, key) {
  let [c0, c1, c2, c3] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < 10; round++) {
    const p0 = c0 * 0xd2e7470ee14c6c93n;
    const p1 = c2 * 0xca5a826395121157n;
    [c0, c1, c2, c3] = [(p1 >> 64n) ^ c1 ^ k0, p1 & MASK, (p0 >> 64n) ^ c3 ^ k1, p0 & MASK];
    k0 = (k0 + 0x9e3779b97f4a7c15n) & MASK;
    k1 = (k1 + 0xbb67ae8584caa73bn) & MASK;
  }
  return [c0, c1, c2, c3];
}

function drawIntegers(low, high, count, seed, step, stream = 0) {
  const span = BigInt(high - low);
  const fair = (1n << 64n) - ((1n << 64n) % span);
  const drawn = [];
  for (let block = 1n; drawn.length < count; block++) {
    for (const raw of philoxBlock([block, 0n, 0n, BigInt(stream)], [BigInt(seed), BigInt(step)])) {
      if (raw < fair && drawn.length < count) drawn.push(low + Number(raw % span));
    }
  }
  return drawn;
}
