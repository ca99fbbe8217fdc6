// Checks before a draw: the protocol is well-formed, and its samplers satisfy the stated guarantee.

import { checkColumn, demand } from "./columns.mjs";

const ONE = 1n << 64n;

// Numbers must have the type that the samplers use: "0" === 0 is false, so a sampler with a bound of type text would not
// have the loss that is computed below.
const isCount = (value) => Number.isSafeInteger(value) && value >= 0;
const isSize = (value) => isCount(value) && value > 0;
const isWordLength = (value) => isCount(value) && value <= 53;
const isProbability = (value) => typeof value === "string" && /^[0-9]{1,20}$/.test(value) && BigInt(value) <= ONE;
const isSampler = (kind) => (value) => value?.kind === kind && isWellFormed(value);

/** The fields of each type of sampler, and the checks of their values. */
const FIELDS = {
  response: { k: isSize, word_bits: isWordLength, bound: isCount, threshold: isProbability },
  bits: { k: isSize, p: isProbability, q: isProbability },
  subset: { k: isSize, size: isSize, lie: isProbability },
  hashing: { k: isSize, n_buckets: isSize, prime: isSize, inner: isSampler("response") },
};

/** The conditions between the fields of a sampler, in exact integers. */
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

/** Raise an error for a sampler whose draws would differ from the specification. */
export function checkSampler(sampler) {
  demand(typeof sampler?.kind === "string" && Object.hasOwn(FIELDS, sampler.kind), "the type of a sampler is unknown");
  demand(isWellFormed(sampler), "a sampler has missing or invalid fields");
}

/** The privacy loss of each type of sampler: the largest ln(p / p') of the probabilities of a report given two codes. */
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

/** ln(1 + more / least), where least is the smaller probability, and more the difference from the larger one. */
const excess = (more, least) => (least > 0n ? Math.log1p(Number(more) / Number(least)) : Infinity);

/** The count of numbers in a report of each type of sampler. */
const N_NUMBERS = { response: () => 1, bits: ({ k }) => k, subset: ({ k }) => k, hashing: () => 2 };

function checkReportColumns({ strategy, columns, samplers, report_columns, reports_values }) {
  demand(Array.isArray(report_columns) && report_columns.every((name) => typeof name === "string"), "report_columns must be a list of names");
  let n = strategy === "sample" ? 1 : 0;
  if (reports_values) {
    demand(samplers.every(({ kind }) => kind === "response"), "reports_values requires samplers of the type response");
    n += columns.length;
  } else {
    for (const sampler of samplers) n += N_NUMBERS[sampler.kind](sampler);
  }
  demand(new Set(report_columns).size === n && report_columns.length === n, "report_columns must match the samplers, got other columns");
}

/** Raise an error for an invalid protocol, or a privacy loss above its guarantee; return the parameters of the client. */
export function check(protocol) {
  const { format, version, guarantee, permanent, client, no_client } = protocol ?? {};
  demand(format === "skdp-protocol" && version === 3, "the protocol must have the format skdp-protocol, version 3");
  demand(client, `this client cannot make reports of this protocol${typeof no_client === "string" ? `: ${no_client}` : ""}`);
  demand(permanent === undefined || permanent === false, "this client has no permanent reports");
  const { strategy, columns, samplers } = client;
  demand(["split", "joint", "sample"].includes(strategy), "strategy must be split, joint or sample");
  demand(Array.isArray(columns) && columns.length > 0, "columns must be a list with at least one column");
  columns.forEach(checkColumn);
  demand(new Set(columns.map(({ name }) => name)).size === columns.length, "columns must have different names");
  const sizes = columns.map(({ values }) => values.length);
  const cells = strategy === "joint" ? [sizes.reduce((all, size) => all * size, 1)] : sizes;
  demand(Array.isArray(samplers), "samplers must be a list");
  samplers.forEach(checkSampler);
  demand(samplers.length === cells.length && samplers.every(({ k }, i) => k === cells[i]), "the samplers must have the numbers of values of the columns");
  checkReportColumns(client);
  const losses = samplers.map((sampler) => LOSSES[sampler.kind](sampler));
  const loss = strategy === "sample" ? Math.max(...losses) : losses.reduce((all, one) => all + one, 0);
  const { trust, epsilon } = guarantee ?? {};
  const isKept = trust === "local" && typeof epsilon === "number" && Number.isFinite(loss) && loss <= epsilon * (1 + 1e-9);
  demand(isKept, "the privacy loss of the samplers exceeds the stated guarantee");
  return client;
}
