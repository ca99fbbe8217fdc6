// Sorts tables of the class "sortable", and all tables of the benchmark pages, by a column: click or press its heading.
document.addEventListener("DOMContentLoaded", () => {
  const benchmarks = document.querySelector('meta[name="skdp-sortable"]') !== null;
  const tables = document.querySelectorAll(benchmarks ? "article table" : "table.sortable");
  for (const table of tables) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2 || !table.tHead) continue;
    [...table.tHead.rows[0].cells].forEach((heading, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, heading, index));
    });
  }

  function sort(table, heading, index) {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => {
      const text = row.cells[index].textContent.trim();
      const number = Number.parseFloat(text.replaceAll(",", "").replace("−", "-").replace(/^[≤≥<>]\s*/, ""));
      return Number.isNaN(number) ? text : number;
    };
    const compare = (one, two) => {
      const [a, b] = [key(one), key(two)];
      if (typeof a === "number" && typeof b === "number") return a - b;
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      return a.localeCompare(b);
    };
    const body = table.tBodies[0];
    const rows = [...body.rows].sort((one, two) => (up ? compare(one, two) : compare(two, one)));
    body.append(...rows);
  }
});
