"use strict";
{
  const body = document.querySelector("tbody");
  const heads = [...document.querySelectorAll("thead th")];
  const value = (row, k) => row.cells[k].dataset.value;
  const sort = (head, k) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const numbers = [...body.rows].every((row) => !Number.isNaN(Number(value(row, k))));
    const compare = numbers ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en");
    const given = (row) => value(row, k) !== "";
    const rows = [...body.rows].sort((a, b) =>
      given(a) && given(b)
        ? compare(value(a, k), value(b, k)) * (down ? -1 : 1)
        : given(b) - given(a));  // rows without a value are last
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    body.append(...rows);
  };
  heads.forEach((head, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head, k));
    head.append(button);
  });
  document.documentElement.dataset.ready = body.rows.length;
}
