/* Boxes that scroll, such as wide figures and formulas, can be reached with the keyboard. The theme does this for code and tables. */
"use strict";

const BOXES = "math[display=block], figure, .skdp-scroll, .cell_output, .text_html > div";

const addTabStops = () => {
  for (const box of document.querySelectorAll(BOXES)) {
    const scrolls = box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX === "auto";
    if (scrolls) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }
};
// A table or an output that is wider than the screen fades at its right side until its end is reached.
const TABLES = ".pst-scrollable-table-container, .cell_output, .text_html > div, .highlight-text pre, .highlight-none pre";
const markTable = (box) => {
  const rest = box.scrollWidth - box.clientWidth - box.scrollLeft;
  box.classList.toggle("skdp-continues", rest > 1 && getComputedStyle(box).overflowX === "auto");
};
const markTables = () => {
  for (const box of document.querySelectorAll(TABLES)) {
    markTable(box);
    box.onscroll = () => markTable(box);
  }
};
for (const update of [addTabStops, markTables]) {
  window.addEventListener("load", update);
  window.addEventListener("resize", update);
}
