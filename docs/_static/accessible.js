// Names for what the theme and the gallery leave without one, for screen readers.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("nav li.has-children > details > summary")) {
    const link = summary.closest("li").querySelector("a");
    summary.setAttribute("aria-label", `Pages under ${link ? link.textContent.trim() : "this"}`);
  }
  for (const card of document.querySelectorAll(".sphx-glr-thumbcontainer")) {
    const title = card.querySelector(".sphx-glr-thumbnail-title");
    if (title) card.querySelector("a.reference")?.setAttribute("aria-label", title.textContent.trim());
  }
  for (const table of document.querySelectorAll("article div > table.dataframe")) table.parentElement.tabIndex = 0; // to scroll by keys
  for (const entry of document.querySelectorAll("[role=doc-biblioentry], .citation-list")) entry.removeAttribute("role");
});
