// What a client checks before it draws: the samplers of a protocol keep the guarantee that it states.

const ONE = 1n << 64n;

/** The largest |ln(top / bottom)| of the probabilities of a report given two codes, for each kind of sampler. */
const LOSSES = {
  response({ k, word_bits, bound, threshold }) {
    if (word_bits > 53) return NaN;
    const [size, words, coin] = [BigInt(k), 1n << BigInt(word_bits), BigInt(threshold)];
    const lies = BigInt(bound) * size;
    const undecided = words - lies < size ? words - lies : size;
    const lie = lies * ONE + undecided * coin;
    return ratio(lie + (words - lies) * size * ONE - undecided * coin * size, lie);
  },
  bits: ({ p, q }) => ratio(BigInt(p) * (ONE - BigInt(q)), BigInt(q) * (ONE - BigInt(p))),
  subset: ({ k, size, lie }) => (size <= k ? excess(BigInt(k), BigInt(size) * BigInt(lie), BigInt(lie)) : NaN),
  hadamard: ({ k, n_blocks, block_size, lie }) =>
    Number.isInteger(Math.log2(block_size)) && n_blocks * (block_size - 1) >= k ? excess(2n * BigInt(n_blocks), BigInt(lie), BigInt(lie)) : NaN,
  hashing: ({ n_buckets, inner }) => (inner.k === n_buckets ? LOSSES.response(inner) : NaN),
  sketch: ({ n_buckets, inner }) => (inner.k === n_buckets ? LOSSES.hadamard(inner) : NaN),
};
const ratio = (top, bottom) => (top >= 0n && bottom > 0n ? Math.abs(Math.log(Number(top) / Number(bottom))) : NaN);
const excess = (factor, bottom, lie) => ratio(bottom + (ONE - lie) * factor, bottom);

/** Numbers are whole and exact, those of 64 bits decimal text of a probability. */
const isExact = (value) =>
  typeof value === "object" ? value !== null && Object.values(value).every(isExact)
  : typeof value === "string" ? Object.hasOwn(LOSSES, value) || (/^[0-9]{1,20}$/.test(value) && BigInt(value) <= ONE)
  : Number.isSafeInteger(value) && value >= 0;

export const demand = (holds, message) => {
  if (!holds) throw new Error(message);
};

/** Refuse a protocol that is none, or whose reports may tell more than it states; return what draws its reports. */
export function check({ format, version, guarantee, client }) {
  demand(format === "skdp-protocol" && version === 1, "this is no protocol of version 1");
  demand(client, "this client cannot make reports of this protocol");
  const { strategy, columns, samplers } = client;
  demand(["split", "joint", "sample"].includes(strategy), "unknown strategy");
  const sizes = columns.map(({ values }) => values.length);
  const cells = strategy === "joint" ? [sizes.reduce((all, size) => all * size, 1)] : sizes;
  demand(samplers.length === cells.length && samplers.every(({ k }, i) => k === cells[i]), "the samplers do not fit the columns");
  demand(samplers.every((one) => isExact(one) && Object.hasOwn(LOSSES, one.kind)), "a sampler is malformed");
  const losses = samplers.map((sampler) => LOSSES[sampler.kind](sampler));
  const loss = strategy === "sample" ? Math.max(...losses) : losses.reduce((all, one) => all + one, 0);
  demand(guarantee.trust === "local" && loss <= guarantee.epsilon + 1e-9, "the samplers do not keep the stated guarantee");
  return client;
}
