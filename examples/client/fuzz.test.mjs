// Random protocols, with numbers that are too large, too small or of another type. If `check` accepts a protocol, its
// reports must have the stated epsilon, and `clientReport` must draw as the specification states, in exact integers.
import assert from "node:assert/strict";
import { test } from "node:test";
import { check, checkSampler } from "./check.mjs";
import { Draws, clientReport } from "./skdp.mjs";

const ONE = 2n ** 64n;

/** Random numbers from a seed, so that a failure can be repeated (mulberry32). */
class Random {
  constructor(seed) {
    this.state = seed;
  }

  next() {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  whole(low, high) {
    return low + Math.floor(this.next() * (high - low + 1));
  }

  of(items) {
    return items[this.whole(0, items.length - 1)];
  }

  threshold() {
    return String(this.of([0n, 1n, ONE, ONE - 1n, ONE / 2n, BigInt(Math.floor(this.next() * 2 ** 53)) << 11n]));
  }

  bytes(n) {
    return Uint8Array.from({ length: n }, () => this.whole(0, 255));
  }
}


/** A sampler of few outcomes, as Python might write it. */
function small(kind, random, k = random.whole(1, 5)) {
  const [p, q] = [random.threshold(), random.threshold()];
  const nBuckets = random.whole(1, 3);
  if (kind === "response") {
    const word_bits = random.whole(3, 5);
    return { kind, k, word_bits, bound: random.whole(0, Math.floor(2 ** word_bits / k)), threshold: p };
  }
  if (kind === "bits") return { kind, k, p, q };
  if (kind === "subset") return { kind, k, size: random.whole(1, k), lie: p };
  return { kind, k, n_buckets: nBuckets, prime: random.whole(1, 3), inner: small("response", random, nBuckets) };
}

const LARGE = [31, 32, 33, 49, 52, 53].flatMap((power) => [2 ** power - 1, 2 ** power, 2 ** power + 1]);
const ODD = [...LARGE, 1e300, Infinity, NaN, -1, 0, -0, 0.5, 1, 2, 3, 7, 16, "", "0", "8", "subset", true, null, undefined, [], [8], ["0"], {}, 8n, String(ONE), String(ONE + 1n)];

/** Put an odd value into a field of a sampler, or of the one inside of it. */
function damage(sampler, random) {
  const part = sampler.inner && random.next() < 0.5 ? sampler.inner : sampler;
  part[random.of(Object.keys(part))] = random.of(ODD);
  return sampler;
}

/** The draws of a report as a list of outcomes; `made` holds the number of chances of each outcome of each draw. */
class Listed extends Draws {
  constructor(outcomes) {
    super();
    this.outcomes = outcomes;
    this.made = [];
  }

  next(chances) {
    this.made.push(chances);
    return this.outcomes[this.made.length - 1] ?? chances.findIndex((chance) => chance > 0n);
  }

  coin(threshold) {
    return Boolean(this.next([ONE - BigInt(threshold), BigInt(threshold)]));
  }

  uniform(high) {
    return this.next(Array(high).fill(1n));
  }
}

/** All reports of a code, and the chances of each among those of all outcomes of every draw. */
function distribution(sampler, code) {
  const chances = new Map();
  const waiting = [{ outcomes: [], chance: 1n }];
  while (waiting.length) {
    const { outcomes, chance } = waiting.pop();
    const draws = new Listed(outcomes);
    const report = clientReport(sampler, code, draws).join();
    if (draws.made.length === outcomes.length) {
      chances.set(report, (chances.get(report) ?? 0n) + chance);
      continue;
    }
    draws.made[outcomes.length].forEach((share, outcome) => {
      if (share > 0n) waiting.push({ outcomes: [...outcomes, outcome], chance: chance * share });
    });
  }
  return chances;
}

/** The largest ln of the ratio of the chances of a report given two codes. */
function exactLoss(sampler) {
  const all = Array.from({ length: sampler.k }, (_, code) => distribution(sampler, code));
  let loss = 0;
  for (const one of all)
    for (const other of all)
      for (const [report, most] of one) {
        const least = other.get(report) ?? 0n;
        const ratio = least ? Number(most - least) / Number(least) : Infinity;
        loss = Math.max(loss, Math.log1p(ratio));
      }
  return loss;
}

/** The number of outcomes of all draws of a report. */
function nOutcomes({ kind, k, word_bits, size, prime, inner }) {
  if (kind === "response") return 2 ** word_bits * 2 * k;
  if (kind === "bits") return 2 ** k;
  if (kind === "subset") return 2 * k ** size;
  return prime ** 2 * nOutcomes(inner);
}

/** A protocol of one column with a sampler that may be damaged: all else fits it as far as it can. */
function protocolOf(sampler, epsilon) {
  const k = Number.isSafeInteger(sampler.k) && sampler.k < 100 ? sampler.k : 4;
  const width = { response: 1, bits: k, subset: k, hashing: 2 }[sampler.kind] ?? 1;
  const columns = [{ name: "a", values: Array.from({ length: k }, (_, i) => i) }];
  const report_columns = Array.from({ length: width }, (_, i) => `report ${i}`);
  const client = { strategy: "split", columns, samplers: [sampler], report_columns };
  return { format: "skdp-protocol", version: 3, guarantee: { trust: "local", epsilon }, client };
}

const isAccepted = (protocol) => {
  try {
    check(protocol);
    return true;
  } catch (error) {
    assert.equal(error.constructor, Error);
    return false;
  }
};

const KINDS = ["response", "bits", "subset", "hashing"];

for (const kind of KINDS)
  test(`the loss of ${kind} is that of all its draws`, () => {
    const random = new Random(17);
    let nFinite = 0;
    for (let i = 0; i < 150; i++) {
      const sampler = small(kind, random);
      if (sampler.k < 2 || (sampler.n_buckets ?? 2) < 2) continue; // the check takes two values for granted
      const loss = kind === "hashing" ? exactLoss(sampler.inner) : exactLoss(sampler);
      if (loss === 0) continue;
      const least = Number.isFinite(loss) ? loss : 1e300;
      nFinite += Number.isFinite(loss);
      assert.equal(isAccepted(protocolOf(sampler, least * (1 - 1e-6))), false, JSON.stringify(sampler));
      if (Number.isFinite(loss)) assert.equal(isAccepted(protocolOf(sampler, loss * (1 + 1e-6))), true, JSON.stringify(sampler));
    }
    assert.ok(nFinite > 10);
  });

test("what is damaged and passes keeps the epsilon that is stated", () => {
  const random = new Random(42);
  let nAccepted = 0;
  for (let i = 0; i < 10000; i++) {
    const sampler = damage(small(random.of(KINDS), random), random);
    const epsilon = random.of([1e-12, 0.1, 1, 30, 1e300]);
    if (!isAccepted(protocolOf(sampler, epsilon)) || nOutcomes(sampler) > 2000) continue;
    nAccepted += 1;
    assert.ok(exactLoss(sampler) <= epsilon * (1 + 1e-6), JSON.stringify(sampler));
  }
  assert.ok(nAccepted > 150, `${nAccepted} accepted`);
});

/** The specification in integers of any size: the draws of docs/guide/clients.md, in their order. */
const SPECIFICATION = {
  response({ k, word_bits, bound, threshold }, code, draws) {
    const word = draws.uniform(2n ** BigInt(word_bits));
    const isUndecided = draws.coin(threshold);
    const lie = draws.uniform(BigInt(k));
    if (word / BigInt(k) === BigInt(bound)) return [isUndecided ? lie : code];
    return [word / BigInt(k) < BigInt(bound) ? word % BigInt(k) : code];
  },
  hashing({ n_buckets, prime, inner }, code, draws) {
    const [a, b] = [draws.uniform(BigInt(prime)), draws.uniform(BigInt(prime))];
    const bucket = ((a * code + b) % BigInt(prime)) % BigInt(n_buckets);
    const bits = BigInt(BigInt(prime).toString(2).length);
    return [(a << bits) + b, ...SPECIFICATION.response(inner, bucket, draws)];
  },
};

/** Draws of the specification, from the same bytes as those of the client. */
class ExactDraws {
  constructor(source) {
    this.source = source;
  }

  number(nBytes) {
    const digits = Array.from(this.source.bytes(nBytes), (byte) => byte.toString(16).padStart(2, "0"));
    return nBytes ? BigInt(`0x${digits.join("")}`) : 0n;
  }

  coin(threshold) {
    return this.number(8) < BigInt(threshold);
  }

  uniform(high) {
    let nBits = 0;
    while (2n ** BigInt(nBits) < high) nBits += 1;
    const nBytes = Math.ceil(nBits / 8);
    for (;;) {
      const drawn = this.number(nBytes) / 2n ** BigInt(8 * nBytes - nBits);
      if (drawn < high) return drawn;
    }
  }
}

/** A sampler of many values, up to the limits of the check. */
function large(kind, random) {
  const k = Math.floor(2 ** (1 + 29 * random.next())) + random.whole(0, 2);
  if (kind === "response") {
    const word_bits = random.whole(Math.ceil(Math.log2(k)) + 1, 53);
    return { kind, k, word_bits, bound: Math.floor((random.next() * 2 ** word_bits) / k), threshold: random.threshold() };
  }
  const inner = large("response", random);
  return { kind, k, n_buckets: inner.k, inner, prime: random.of([2 ** 31 - 1, 2 ** 53 - 111, random.whole(1, 1e9)]) };
}

test("large samplers draw as the specification says, or are refused", () => {
  const random = new Random(7);
  let nDrawn = 0;
  let nRefused = 0;
  for (let i = 0; i < 4000; i++) {
    const sampler = large(random.of(Object.keys(SPECIFICATION)), random);
    if (i % 2) damage(sampler, random);
    try {
      checkSampler(sampler);
    } catch {
      nRefused += 1;
      assert.throws(() => clientReport(sampler, 0, new Draws(random)), Error);
      continue;
    }
    for (const code of [0, sampler.k - 1, random.whole(0, sampler.k - 1)]) {
      const seed = random.whole(0, 2 ** 31);
      const expected = SPECIFICATION[sampler.kind](sampler, BigInt(code), new ExactDraws(new Random(seed)));
      const report = clientReport(sampler, code, new Draws(new Random(seed)));
      assert.deepEqual(report.map(String), expected.map(String), JSON.stringify(sampler));
      nDrawn += 1;
    }
  }
  assert.ok(nDrawn > 6000 && nRefused > 1000, `${nDrawn} drawn, ${nRefused} refused`);
});
