// The columns that a protocol asks for, and the code of a value in each.

export const demand = (holds, message) => {
  if (!holds) throw new Error(message);
};

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const isListed = (value) => value === null || ["string", "boolean"].includes(typeof value) || Number.isSafeInteger(value);
const isMissing = (value) => value === undefined || value === null || Number.isNaN(value);

/** Refuse a column whose values are not exact in JavaScript, or whose bins are none. */
export function checkColumn(column) {
  demand(typeof column?.name === "string" && Array.isArray(column.values) && column.values.length > 0, "a column is malformed");
  const { name, values, edges } = column;
  if (edges === undefined) {
    demand(values.every(isListed), `column ${name}: a declared value is not exact in JavaScript`);
    return;
  }
  demand(Array.isArray(edges) && edges.length > 1 && edges.every(isNumber), `column ${name}: the edges are no numbers`);
  demand(edges.every((edge, i) => i === 0 || edges[i - 1] < edge), `column ${name}: the edges do not increase`);
  const nBins = edges.length - 1;
  const isWhole = values.length === nBins || (values.length === nBins + 1 && values[nBins] === null);
  demand(isWhole, `column ${name}: there is not one value for each bin`);
  const areOwn = values.slice(0, nBins).every((value, bin) => isNumber(value) && binOf(edges, value) === bin);
  demand(areOwn, `column ${name}: a value is outside of its bin`);
}

/** The bin of a number: half-open, the last one closed; -1 outside of all. */
function binOf(edges, number) {
  let low = 0;
  let high = edges.length - 1;
  if (!(edges[low] <= number && number <= edges[high])) return -1;
  // By halves: edges[low] <= number, and number < edges[high] or high is the last edge.
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (edges[middle] <= number) low = middle;
    else high = middle;
  }
  return low;
}

/** The code of a value: its place among the declared values, or its bin. */
export function codeOf({ name, values, edges }, value) {
  let code = -1;
  if (isMissing(value)) code = values.indexOf(null);
  else if (edges === undefined) code = values.indexOf(value);
  else if (typeof value === "number") code = binOf(edges, value);
  demand(code >= 0, `column ${name}: the value is not declared`);
  return code;
}
