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
window.addEventListener("load", addTabStops);
window.addEventListener("resize", addTabStops);
