"use strict";
// Everything is on the page without this script: it picks one view of several, shows a cell's figures, and sorts tables.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // -- one view at a time; which one is in the address, so that a link leads to it -----------------------------------
  const show = (view) => {
    for (const other of view.parentElement.children) other.hidden = other !== view;
    const section = view.closest(".contest");
    for (const link of all(".picker a", section)) {
      if (link.hash === "#" + view.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    const view = target.closest(".view");
    if (view) show(view);
    for (let box = target.parentElement.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView({ block: target.matches("tr") ? "center" : "start" });
  };
  for (const views of all(".views")) if (views.firstElementChild) show(views.firstElementChild);
  for (const link of all(".picker a")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();  // the view changes in place: a jump would lose the reader
      history.replaceState(null, "", link.hash);
      show(document.getElementById(link.hash.slice(1)));
    });
  }
  addEventListener("hashchange", follow);
  follow();

  // -- the figures of a cell, from its row in the table below the map -------------------------------------------------
  const fill = (cell) => {
    const card = cell.closest(".map").querySelector(".card");
    const row = document.getElementById(cell.hash.slice(1));
    const names = all("thead th", row.closest("table"));
    const list = document.createElement("dl");
    [...row.cells].forEach((value, place) => {
      const pair = document.createElement("div");
      const term = document.createElement("dt");
      term.textContent = names[place].textContent;
      const detail = document.createElement("dd");
      detail.append(...[...value.childNodes].map((node) => node.cloneNode(true)));
      pair.className = value.className;
      pair.append(term, detail);
      list.append(pair);
    });
    card.replaceChildren(list);
    for (const other of all(".cell.chosen", cell.closest(".map"))) other.classList.remove("chosen");
    cell.classList.add("chosen");
  };
  for (const map of all(".map")) {
    const cells = all(".cell", map);
    const card = map.querySelector(".card");
    if (!cells.length) continue;
    card.hidden = false;
    map.querySelector(".hint").hidden = false;
    fill(cells.find((cell) => cell.querySelector(".ratio")) || cells[0]);
    for (const kind of ["pointerover", "focusin"]) {
      map.addEventListener(kind, (event) => {
        const cell = event.target.closest(".cell");
        if (cell) fill(cell);
      });
    }
    // A map is one stop for the Tab key; the arrow keys walk inside.
    cells.forEach((cell, place) => { cell.tabIndex = place ? -1 : 0; });
    map.querySelector(".winmap").addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const from = event.target.closest(".cell");
      if (!step || !from) return;
      event.preventDefault();
      const rows = all("tbody tr", map.querySelector(".winmap"));
      let row = rows.indexOf(from.closest("tr"));
      let column = from.closest("td").cellIndex;
      for (;;) {
        row += step[0];
        column += step[1];
        const place = rows[row] && rows[row].cells[column];
        if (!place) return;
        const to = place.querySelector(".cell");
        if (to) {
          for (const cell of cells) cell.tabIndex = -1;
          to.tabIndex = 0;
          to.focus();
          return;
        }
      }
    });
  }

  // -- tables sort by a click on a heading ----------------------------------------------------------------------------
  const key = (row, place) => {
    const cell = row.cells[place];
    const text = "value" in cell.dataset ? cell.dataset.value : cell.textContent.trim();
    const number = text === "" ? NaN : Number(text.replaceAll(",", ""));
    return { text, number, empty: text === "" || text === "–" };
  };
  const sort = (table, place, rising) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, ...key(row, place) }));
    rows.sort((a, b) => {
      if (a.empty || b.empty) return a.empty - b.empty;  // what is missing stands last in either direction
      const order = isNaN(a.number) || isNaN(b.number) ? a.text.localeCompare(b.text, "en") : a.number - b.number;
      return rising ? order : -order;
    });
    body.append(...rows.map((one) => one.row));
  };
  for (const table of all("table[data-sortable]")) {
    const heads = all("thead th", table);
    heads.forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", rising ? "ascending" : "descending");
        sort(table, place, rising);
      });
    });
  }

  // -- on paper there is nothing to unfold ----------------------------------------------------------------------------
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all(".sentences details:not([open]), .failures details:not([open])");
    for (const box of folded) box.open = true;
  });
  addEventListener("afterprint", () => { for (const box of folded) box.open = false; });
})();
