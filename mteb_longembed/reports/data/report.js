"use strict";
// Sorting: numbers first as numbers, cells without one always last, words by the alphabet.
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const th = button.closest("th");
    const table = th.closest("table");
    const column = th.cellIndex;
    const up = th.getAttribute("aria-sort") === "descending";
    const value = (row) => row.cells[column].dataset.value;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === undefined || y === undefined) {
        if (x !== y) return x === undefined ? 1 : -1;
        const order = a.cells[column].textContent.localeCompare(b.cells[column].textContent);
        return up ? -order : order;
      }
      return up ? x - y : y - x;
    });
    for (const other of th.parentElement.cells) other.removeAttribute("aria-sort");
    th.setAttribute("aria-sort", up ? "ascending" : "descending");
    table.tBodies[0].append(...rows);
  });
}
// Searching: every word must stand somewhere in the row.
for (const field of document.querySelectorAll(".search input")) {
  const section = field.closest("section");
  const rows = [...section.querySelectorAll("tbody tr")];
  const texts = rows.map((row) => [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase());
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let n = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      n += row.hidden ? 0 : 1;
    });
    section.querySelector(".search output").textContent = `${n} of ${rows.length} rows`;
  });
}
// Values under the mouse, and under the keyboard's focus.
const tip = document.getElementById("tip");
function show(target, x, y) {
  tip.textContent = target.dataset.tip;
  tip.hidden = false;
  tip.style.left = Math.min(x + 12, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(y + 14, innerHeight - tip.offsetHeight - 8) + "px";
}
document.addEventListener("mousemove", (event) => {
  const target = event.target.closest("[data-tip]");
  if (target) show(target, event.clientX, event.clientY);
  else tip.hidden = true;
});
document.addEventListener("focusin", (event) => {
  const target = event.target.closest("[data-tip]");
  if (!target) return;
  const box = target.getBoundingClientRect();
  show(target, box.right, box.bottom);
});
document.addEventListener("focusout", () => { tip.hidden = true; });
