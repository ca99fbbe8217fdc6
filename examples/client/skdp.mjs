// Client of skdp's local protocols: draws exact reports from the secure random bytes of the browser.
// The specification is docs/guide/clients.md; `node --test` checks this file against the package's test vectors.

import { check, checkSampler } from "./check.mjs";
import { codeOf, demand } from "./columns.mjs";

/** Random bytes of Web Crypto. A source is an object with `bytes(n)`, which returns a Uint8Array. */
export const secureSource = {
  bytes: (n) => crypto.getRandomValues(new Uint8Array(n)),
};

/** Exact draws from a source of bytes, the most significant byte first. */
export class Draws {
  constructor(source = secureSource) {
    this.source = source;
  }

  number(nBytes) {
    let value = 0n;
    for (const byte of this.source.bytes(nBytes)) value = (value << 8n) | BigInt(byte);
    return value;
  }

  /** True with probability threshold / 2^64; the threshold is a decimal string. */
  coin(threshold) {
    return this.number(8) < BigInt(threshold);
  }

  /** A uniform integer from 0 to high - 1, for high up to 2^53. */
  uniform(high) {
    demand(high >= 1, "high must be at least 1");
    demand(Number.isSafeInteger(high - 1), "high must have at most 53 bits");
    const bits = BigInt(high - 1).toString(2).length * (high > 1);
    const nBytes = Math.ceil(bits / 8);
    for (;;) {
      const drawn = Number(this.number(nBytes) >> BigInt(8 * nBytes - bits));
      if (drawn < high) return drawn;
    }
  }
}

function response({ k, word_bits, bound, threshold }, code, draws) {
  const word = draws.uniform(2 ** word_bits);
  const quotient = Math.floor(word / k);
  const undecided = draws.coin(threshold);
  const lie = draws.uniform(k);
  if (quotient === bound) return [undecided ? lie : code];
  return [quotient < bound ? word % k : code];
}

function bits({ k, p, q }, code, draws) {
  return Array.from({ length: k }, (_, value) => Number(draws.coin(value === code ? p : q)));
}

function subset({ k, size, lie }, code, draws) {
  const uniform = draws.coin(lie);
  const order = Array.from({ length: k }, (_, value) => value);
  for (let place = 0; place < size; place++) {
    const drawn = place + draws.uniform(k - place);
    const other = place === 0 && !uniform ? code : drawn;
    [order[place], order[other]] = [order[other], order[place]];
  }
  const chosen = new Set(order.slice(0, size));
  return Array.from({ length: k }, (_, value) => Number(chosen.has(value)));
}

function hashing({ n_buckets, prime, inner }, code, draws) {
  const factor = BigInt(draws.uniform(prime));
  const summand = BigInt(draws.uniform(prime));
  const bucket = Number(((factor * BigInt(code) + summand) % BigInt(prime)) % BigInt(n_buckets));
  const seed = (factor << BigInt(prime.toString(2).length)) | summand;
  return [seed.toString(), ...response(inner, bucket, draws)];
}

const KINDS = { response, bits, subset, hashing };

/** Randomize a code. The seed of a hash function is text, because it may have more than 53 bits. */
export function clientReport(sampler, code, draws = new Draws()) {
  checkSampler(sampler);
  demand(Number.isInteger(code) && code >= 0 && code < sampler.k, "the code is out of range");
  return KINDS[sampler.kind](sampler, code, draws);
}

/** Report a record {column: value} as {report column: value}. The protocol is the parsed output of `to_json`. */
export function report(protocol, record, draws = new Draws()) {
  const client = check(protocol);
  const { strategy, columns, samplers } = client;
  demand(Object.keys(record).every((key) => columns.some(({ name }) => name === key)), "the record has an unknown column");
  const codes = columns.map((column) => codeOf(column, Object.hasOwn(record, column.name) ? record[column.name] : null));
  const attributes = strategy === "joint" ? [codes.reduce((cell, code, i) => cell * columns[i].values.length + code, 0)] : codes;
  const chosen = strategy === "sample" ? draws.uniform(attributes.length) : null;
  const row = attributes.flatMap((code, i) => {
    const numbers = clientReport(samplers[i], code, draws);
    return chosen === null || chosen === i ? write(client, i, numbers) : numbers.map(() => (client.reports_values ? null : 0));
  });
  if (chosen !== null) row.push(chosen);
  return Object.fromEntries(client.report_columns.map((name, i) => [name, row[i]]));
}

/** Convert the numbers of a report to values for randomized response; a joint report has a value for each column. */
function write(protocol, attribute, numbers) {
  if (!protocol.reports_values) return numbers;
  if (protocol.strategy !== "joint") return [protocol.columns[attribute].values[numbers[0]]];
  const values = [];
  let cell = numbers[0];
  for (const column of [...protocol.columns].reverse()) {
    values.unshift(column.values[cell % column.values.length]);
    cell = Math.floor(cell / column.values.length);
  }
  return values;
}
