// node --test examples/client
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { checkColumn, codeOf } from "./columns.mjs";
import { Draws, clientReport, report } from "./skdp.mjs";

const read = (name) => JSON.parse(readFileSync(new URL(name, import.meta.url), "utf8"));
const vectors = read("client_vectors.json");
const binVectors = read("../../skdp/domain/bin_vectors.json");

class Listed {
  constructor(hex) {
    this.left = Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
  }

  bytes(n) {
    const given = this.left.slice(0, n);
    this.left = this.left.slice(n);
    assert.equal(given.length, n, "more bytes are read than listed");
    return given;
  }
}

for (const [place, { sampler, code, bytes, report: expected }] of vectors.entries()) {
  test(`vector ${place}: ${sampler.kind}, k = ${sampler.k}`, () => {
    const source = new Listed(bytes);
    assert.deepEqual(clientReport(sampler, code, new Draws(source)).map(String), expected);
    assert.equal(source.left.length, 0, "bytes are left");
  });
}

for (const { edges, whole, values, numbers, codes } of binVectors)
  test(`bins of ${edges.length} edges from ${edges[0]}`, () => {
    const column = { name: "a", values, edges, whole };
    checkColumn(column);
    numbers.forEach((number, i) => {
      if (codes[i] === null) assert.throws(() => codeOf(column, number), /column a: the value is not declared/);
      else assert.equal(codeOf(column, number), codes[i], `${number}`);
    });
    for (const missing of [null, undefined, NaN]) {
      if (values.at(-1) === null) assert.equal(codeOf(column, missing), edges.length - 1);
      else assert.throws(() => codeOf(column, missing), /not declared/);
    }
    for (const other of ["1", true, Infinity, 1n, [1], {}]) assert.throws(() => codeOf(column, other), /not declared/);
  });

const HALF = String(2n ** 63n);
const bits = { kind: "bits", k: 2, p: HALF, q: String(2n ** 61n) }; // (1/2 * 7/8) / (1/8 * 1/2) = 7
const protocolOf = (client, epsilon = Math.log(7)) => ({
  format: "skdp-protocol",
  version: 3,
  guarantee: { trust: "local", epsilon },
  client: { strategy: "split", columns: [{ name: "sex", values: ["f", "m"] }], samplers: [bits], report_columns: ["sex_f", "sex_m"], ...client },
});

test("a record that is not declared is refused, without its value", () => {
  assert.throws(() => report(protocolOf({}), { sex: "secret" }), (error) => !error.message.includes("secret"));
  assert.deepEqual(Object.keys(report(protocolOf({}), { sex: "f" })), ["sex_f", "sex_m"]);
  assert.throws(() => clientReport(bits, 2), /out of range/);
});

test("a column with another name is not a missing value", () => {
  const protocol = protocolOf({ columns: [{ name: "sex", values: ["f", null] }] });
  assert.equal(Object.keys(report(protocol, {})).length, 2);
  assert.throws(() => report(protocol, { Sex: "f" }), /unknown column/);
  assert.throws(() => report(protocolOf({ columns: [{ name: "toString", values: ["f", "m"] }] }), {}), /not declared/);
});

/** The largest ratio of the probabilities of a report, from all draws of a small sampler. */
function worstRatio(sampler) {
  const counts = [];
  const words = 2 ** sampler.word_bits;
  for (let code = 0; code < sampler.k; code++) {
    const made = Array(sampler.k).fill(0);
    for (let word = 0; word < words; word++)
      for (const coin of [0n, 2n ** 64n - 1n])
        for (let lie = 0; lie < sampler.k; lie++) {
          const given = [BigInt(word), coin, BigInt(lie)];
          const draws = Object.assign(new Draws(), { uniform: () => Number(given.shift()), coin: (bound) => given.shift() < BigInt(bound) });
          made[clientReport(sampler, code, draws)[0]] += 1;
        }
    counts.push(made);
  }
  return Math.max(...counts[0].flatMap((_, y) => counts.flatMap((one) => counts.map((other) => one[y] / other[y]))));
}

test("the loss of a sampler is that of its draws", () => {
  for (const [k, bound] of [[2, 1], [3, 1], [3, 2], [5, 0], [5, 3], [4, 2]]) {
    const sampler = { kind: "response", k, word_bits: 4, bound, threshold: HALF };
    const values = Array.from({ length: k }, (_, i) => i);
    const protocol = (slack) =>
      protocolOf({ columns: [{ name: "a", values }], samplers: [sampler], reports_values: true, report_columns: ["a"] }, Math.log(worstRatio(sampler)) + slack);
    assert.equal(Object.keys(report(protocol(0), { a: 0 })).length, 1);
    assert.throws(() => report(protocol(-1e-6), { a: 0 }), /guarantee/);
  }
});

const response = { kind: "response", k: 2, word_bits: 8, bound: 32, threshold: "0" };
const subset = { kind: "subset", k: 4, size: 2, lie: HALF };
const four = [{ name: "a", values: [0, 1, 2, 3] }];
const certain = { ...response, word_bits: 1, bound: 0, threshold: String(2n ** 64n) }; // a coin decides, or as text nothing
const binned = (edges, values) => protocolOf({ columns: [{ name: "a", values, edges }] });
const REFUSED = {
  "another format": { ...protocolOf({}), format: "skdp" },
  "a later version": { ...protocolOf({}), version: 4 },
  "no client": { ...protocolOf({}), client: null },
  "a curator's": { ...protocolOf({}), guarantee: { trust: "central", epsilon: 9 } },
  "no epsilon": { ...protocolOf({}), guarantee: { trust: "local", epsilon: null } },
  "too small an epsilon": protocolOf({}, 1.9),
  "an unknown strategy": protocolOf({ strategy: "sampel" }),
  "two samplers for one column": protocolOf({ samplers: [bits, bits] }),
  "too few values": protocolOf({ columns: [{ name: "sex", values: ["f"] }] }),
  "always the truth": protocolOf({ samplers: [{ ...response, bound: 0 }] }, 99),
  "too long a word": protocolOf({ samplers: [{ ...response, word_bits: 64 }] }, 99),
  "a probability that is no text": protocolOf({ samplers: [{ ...bits, p: 0.5 }] }, 99),
  "a probability above 1": protocolOf({ samplers: [{ ...bits, p: String(2n ** 64n + 1n) }] }, 99),
  "an unknown kind": protocolOf({ samplers: [{ kind: "truth", k: 2 }] }, 99),
  "a kind of all objects": protocolOf({ samplers: [{ kind: "constructor", k: 2 }] }, 99),
  "too large a set": protocolOf({ columns: four, samplers: [{ ...subset, size: 5 }] }, 99),
  "a set that tells more": protocolOf({ columns: four, samplers: [subset] }, 1),
  "a bound of text, below which nothing is": protocolOf({ samplers: [{ ...certain, bound: "0" }], report_columns: ["a"] }),
  "a bound in a list": protocolOf({ samplers: [{ ...certain, bound: [0] }], report_columns: ["a"] }),
  "an inner bound of text": protocolOf({ samplers: [{ kind: "hashing", k: 2, n_buckets: 2, prime: 5, inner: { ...certain, bound: "0" } }], report_columns: ["a", "b"] }),
  "no inner sampler": protocolOf({ samplers: [{ kind: "hashing", k: 2, n_buckets: 2, prime: 5 }], report_columns: ["a", "b"] }),
  "an epsilon of text": protocolOf({}, "99"),
  "an epsilon in a list": protocolOf({}, [99]),
  "an infinite loss": protocolOf({ samplers: [{ ...bits, p: String(2n ** 64n) }] }, Number.MAX_VALUE),
  "no guarantee": { ...protocolOf({}), guarantee: undefined },
  "permanent reports": { ...protocolOf({}), permanent: true },
  "permanent reports, said by a number": { ...protocolOf({}), permanent: 1 },
  "permanent reports, said by text": { ...protocolOf({}), permanent: "true" },
  "no columns": protocolOf({ columns: [], samplers: [], report_columns: [] }),
  "two columns of one name": protocolOf({ columns: [{ name: "sex", values: ["f", "m"] }, { name: "sex", values: ["f", "m"] }], samplers: [bits, bits], report_columns: ["a", "b", "c", "d"] }, 99),
  "a number that is rounded": protocolOf({ columns: [{ name: "id", values: [2 ** 53, 0] }] }),
  "a value that is a list": protocolOf({ columns: [{ name: "id", values: [[1], 0] }] }),
  "values that are text": protocolOf({ columns: [{ name: "sex", values: "fm" }] }),
  "values of bits": protocolOf({ reports_values: true, report_columns: ["sex"] }),
  "more bits than memory": protocolOf({ strategy: "joint", columns: ["a", "b"].map((name) => ({ name, values: Array.from({ length: 2 ** 16 }, (_, i) => i) })), samplers: [{ ...bits, k: 2 ** 32 }] }),
  "edges that do not increase": binned([0, 1, 1], [0.5, 1]),
  "edges of text": binned(["0", "1", "2"], [0.5, 1.5]),
  "fewer values than bins": binned([0, 1, 2], [0.5]),
  "a value of another bin": binned([0, 1, 2], [1.5, 0.5]),
  "missing in the middle": binned([0, 1, 2], [null, 1.5]),
  "an inner sampler of another size": protocolOf({ samplers: [{ kind: "hashing", k: 2, n_buckets: 3, prime: 5, inner: response }] }, 99),
};

for (const [name, protocol] of Object.entries(REFUSED))
  test(`refused before a draw: ${name}`, () => {
    const source = { bytes: () => assert.fail("a draw") };
    const record = Object.fromEntries((protocol.client?.columns ?? []).map(({ name: column, values }) => [column, values[0]]));
    assert.throws(() => report(protocol, record, new Draws(source)), (error) => error.constructor === Error);
  });

test("the reason of a protocol without client is said", () => {
  const protocol = { ...protocolOf({}), client: null, no_client: "column 'day' has bins of dates" };
  assert.throws(() => report(protocol, {}), /cannot make reports of this protocol: column 'day' has bins of dates/);
});

test("what cannot be drawn ends", () => {
  assert.throws(() => new Draws().uniform(0), /at least 1/);
  assert.throws(() => new Draws().uniform(NaN), /at least 1/);
  assert.throws(() => new Draws().uniform(2 ** 54), /53 bits/);
  assert.throws(() => new Draws().uniform(2.5), /53 bits/);
});

test("a report has its own columns", () => {
  for (const report_columns of [["sex_f"], ["sex_f", "sex_f"], ["sex_f", "sex_m", "sex"]])
    assert.throws(() => report(protocolOf({ report_columns }), { sex: "f" }), /other columns/);
});
