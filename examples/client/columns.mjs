// Columns of a protocol, and the codes of their values.

export const demand = (holds, message) => {
  if (!holds) throw new Error(message);
};

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isListed = (value) => value === null || ["string", "boolean"].includes(typeof value) || Number.isSafeInteger(value);
const isMissing = (value) => value === undefined || value === null || Number.isNaN(value);

/** Raise an error for a column whose values are not exact in JavaScript, or whose bins are invalid. */
export function checkColumn(column) {
  demand(typeof column?.name === "string" && Array.isArray(column.values) && column.values.length > 0, "a column must have a name and a list of values");
  const { name, values, edges } = column;
  if (edges === undefined) {
    demand(values.every(isListed), `column ${name}: declared values must be null, text, Booleans or integers below 2^53`);
    return;
  }
  demand(Array.isArray(edges) && edges.length > 1 && edges.every(isNumber), `column ${name}: edges must be a list of at least two numbers`);
  demand(edges.every((edge, i) => i === 0 || edges[i - 1] < edge), `column ${name}: edges must increase`);
  const nBins = edges.length - 1;
  const isWhole = values.length === nBins || (values.length === nBins + 1 && values[nBins] === null);
  demand(isWhole, `column ${name}: values must have one number for each bin`);
  const areOwn = values.slice(0, nBins).every((value, bin) => isNumber(value) && binOf(edges, value) === bin);
  demand(areOwn, `column ${name}: the value of each bin must be in the bin`);
}

/** The bin of a number; -1 outside all bins. Bins are half-open, and the last bin is closed. */
function binOf(edges, number) {
  let low = 0;
  let high = edges.length - 1;
  if (!(edges[low] <= number && number <= edges[high])) return -1;
  // Binary search: edges[low] <= number, and number < edges[high] or high is the last edge.
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (edges[middle] <= number) low = middle;
    else high = middle;
  }
  return low;
}

/** The whole number that differs by a rounding error only; NaN for a fraction. */
function roundWhole(number) {
  const error = Math.max(1e-6, Math.abs(number) * Number.EPSILON);
  return Math.abs(Math.round(number) - number) > error ? NaN : Math.round(number);
}

/** The code of a value: its index among the declared values, or its bin. */
export function codeOf({ name, values, edges, whole }, value) {
  let code = -1;
  if (isMissing(value)) code = values.indexOf(null);
  else if (edges === undefined) code = values.indexOf(value);
  else if (typeof value === "number") code = binOf(edges, whole ? roundWhole(value) : value);
  demand(code >= 0, `column ${name}: the value is not declared`);
  return code;
}
