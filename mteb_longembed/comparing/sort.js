"use strict";
// Sort a table by the clicked column heading. Missing numbers stay last, equal rows keep their original order.
function sorted(rows, column, isText, isUp) {
  const cells = new Map(rows.map((row) => [row, row.cells[column]]));
  const known = rows.filter((row) => isText || cells.get(row).dataset.sort !== undefined);
  const compared = (a, b) =>
    isText ? a.textContent.localeCompare(b.textContent, "en", { numeric: true }) : a.dataset.sort - b.dataset.sort;
  known.sort((a, b) => (isUp ? 1 : -1) * compared(cells.get(a), cells.get(b)));
  return [...known, ...rows.filter((row) => !known.includes(row))];
}
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const isText = heading.classList.contains("words");
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const last = heading.getAttribute("aria-sort");
      // first click: texts from A, numbers from the largest
      const isUp = last ? last === "descending" : isText;
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      body.append(...sorted(rows, column, isText, isUp));
    });
  });
}
