// What a client checks before it draws: a protocol is well-formed, and its samplers keep the guarantee that it states.

import { checkColumn, demand } from "./columns.mjs";

const ONE = 1n << 64n;

// Each number has the one type that the samplers compute with: "0" === 0 is false, and a sampler with such a bound would
// draw otherwise than the loss below says.
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isSize = (value) => isCount(value) && value > 0;
const isWordLength = (value) => isCount(value) && value <= 53;
const isProbability = (value) => typeof value === "string" && /^[0-9]{1,20}$/.test(value) && BigInt(value) <= ONE;
const isSampler = (kind) => (value) => value?.kind === kind && isWellFormed(value);

/** The fields of a sampler of each kind, and what they may be. */
const FIELDS = {
  response: { k: isSize, word_bits: isWordLength, bound: isCount, threshold: isProbability },
  bits: { k: isSize, p: isProbability, q: isProbability },
  subset: { k: isSize, size: isSize, lie: isProbability },
  hashing: { k: isSize, n_buckets: isSize, prime: isSize, inner: isSampler("response") },
};

/** How the fields of a sampler belong together, in exact integers. */
const FITS = {
  response: ({ k, word_bits, bound }) => BigInt(bound) * BigInt(k) <= 1n << BigInt(word_bits),
  bits: () => true,
  subset: ({ k, size }) => size <= k,
  hashing: ({ n_buckets, inner }) => inner.k === n_buckets,
};

function isWellFormed(sampler) {
  const fields = FIELDS[sampler.kind];
  const areFields = Object.entries(fields).every(([name, isField]) => Object.hasOwn(sampler, name) && isField(sampler[name]));
  return areFields && FITS[sampler.kind](sampler);
}

/** Refuse numbers with which a report would not be drawn as the specification says. */
export function checkSampler(sampler) {
  demand(typeof sampler?.kind === "string" && Object.hasOwn(FIELDS, sampler.kind), "unknown kind of sampler");
  demand(isWellFormed(sampler), "a sampler is malformed");
}

/** The largest ln(p / p') of the probabilities of a report given two codes, for each kind of sampler. */
const LOSSES = {
  response({ k, word_bits, bound, threshold }) {
    const [size, words, coin] = [BigInt(k), 1n << BigInt(word_bits), BigInt(threshold)];
    const lies = BigInt(bound) * size;
    const undecided = words - lies < size ? words - lies : size;
    return excess(((words - lies) * ONE - undecided * coin) * size, lies * ONE + undecided * coin);
  },
  bits({ p, q }) {
    const [most, least] = BigInt(p) > BigInt(q) ? [BigInt(p), BigInt(q)] : [BigInt(q), BigInt(p)];
    return excess((most - least) * ONE, least * (ONE - most));
  },
  subset: ({ k, size, lie }) => excess((ONE - BigInt(lie)) * BigInt(k), BigInt(size) * BigInt(lie)),
  hashing: ({ inner }) => LOSSES.response(inner),
};

/** ln(1 + more / least), of the most likely report over the least likely one. */
const excess = (more, least) => (least > 0n ? Math.log1p(Number(more) / Number(least)) : Infinity);

/** The numbers of a report, for each kind of sampler. */
const N_NUMBERS = { response: () => 1, bits: ({ k }) => k, subset: ({ k }) => k, hashing: () => 2 };

function checkReportColumns({ strategy, columns, samplers, report_columns, reports_values }) {
  demand(Array.isArray(report_columns) && report_columns.every((name) => typeof name === "string"), "the report has no columns");
  let n = strategy === "sample" ? 1 : 0;
  if (reports_values) {
    demand(samplers.every(({ kind }) => kind === "response"), "only randomized response reports values");
    n += columns.length;
  } else {
    for (const sampler of samplers) n += N_NUMBERS[sampler.kind](sampler);
  }
  demand(new Set(report_columns).size === n && report_columns.length === n, "the report has other columns");
}

/** Refuse a protocol that is none, or whose reports may tell more than it states; return what draws its reports. */
export function check(protocol) {
  const { format, version, guarantee, permanent, client, no_client } = protocol ?? {};
  demand(format === "skdp-protocol" && version === 2, "this is no protocol of version 2");
  demand(client, `this client cannot make reports of this protocol${typeof no_client === "string" ? `: ${no_client}` : ""}`);
  demand(permanent === undefined || permanent === false, "this client draws a fresh report each time: it cannot make permanent ones");
  const { strategy, columns, samplers } = client;
  demand(["split", "joint", "sample"].includes(strategy), "unknown strategy");
  demand(Array.isArray(columns) && columns.length > 0, "the protocol has no columns");
  columns.forEach(checkColumn);
  demand(new Set(columns.map(({ name }) => name)).size === columns.length, "two columns have one name");
  const sizes = columns.map(({ values }) => values.length);
  const cells = strategy === "joint" ? [sizes.reduce((all, size) => all * size, 1)] : sizes;
  demand(Array.isArray(samplers), "the protocol has no samplers");
  samplers.forEach(checkSampler);
  demand(samplers.length === cells.length && samplers.every(({ k }, i) => k === cells[i]), "the samplers do not fit the columns");
  checkReportColumns(client);
  const losses = samplers.map((sampler) => LOSSES[sampler.kind](sampler));
  const loss = strategy === "sample" ? Math.max(...losses) : losses.reduce((all, one) => all + one, 0);
  const { trust, epsilon } = guarantee ?? {};
  const isKept = trust === "local" && typeof epsilon === "number" && Number.isFinite(loss) && loss <= epsilon * (1 + 1e-9);
  demand(isKept, "the samplers do not keep the stated guarantee");
  return client;
}
