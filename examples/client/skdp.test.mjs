// node --test examples/client
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Draws, clientReport, report } from "./skdp.mjs";

const folder = new URL("../../skdp/oracles/", import.meta.url);
const vectors = JSON.parse(readFileSync(new URL("client_vectors.json", folder), "utf8"));

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

test("a record that is not declared is refused, without its value", () => {
  const sampler = { kind: "bits", k: 2, p: "0", q: "0" };
  const protocol = { strategy: "split", columns: [{ name: "sex", values: ["f", "m"] }], samplers: [sampler], report_columns: ["sex_f", "sex_m"] };
  assert.throws(() => report(protocol, { sex: "secret" }), (error) => !error.message.includes("secret"));
  assert.deepEqual(report(protocol, { sex: "f" }), { sex_f: 0, sex_m: 0 });
  assert.throws(() => clientReport(sampler, 2), /out of range/);
});
