"use strict";
// Everything is on the page without this script: it picks one view of several, shows a cell's figures, sorts and filters.
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // -- the state is in the address, so that a link leads to what its writer saw ---------------------------------------
  // "#a-place" is a place on the page; "#method=...&threads=..." are choices: machine, the compared pair (method,
  // baseline), device, threads, what was given (a tolerance), axis, and for each table by its name the column that it is sorted by ("2d": the third, descending) and what it shows.
  const choices = ["machine", "method", "baseline", "device", "threads", "given"];
  const hash = () => { try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; } };
  const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const write = () => history.replaceState(null, "", "#" + state);

  // -- one view at a time ---------------------------------------------------------------------------------------------
  const show = (view) => {
    for (const other of view.parentElement.children) other.hidden = other !== view;
    for (const link of all(".picker a", view.closest(".contest"))) {
      if (link.hash === "#" + view.id) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  };
  const choose = (view) => {
    for (const choice of choices) {
      if (view.dataset[choice]) state.set(choice, view.dataset[choice]);
      else state.delete(choice);
    }
    show(view);
    write();
  };
  const showAxis = (axis) => {
    for (const view of all(".view")) {
      const blocks = all(".along", view);
      const shown = blocks.find((block) => block.dataset.axis === axis) || blocks[0];
      for (const block of blocks) block.hidden = block !== shown;
      for (const link of all(".axes a", view)) {
        if (shown && link.dataset.axis === shown.dataset.axis) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      }
    }
  };
  for (const views of all(".views")) if (views.firstElementChild) show(views.firstElementChild);
  const follow = () => {
    if (location.hash.includes("=")) {
      for (const key of [...state.keys()]) state.delete(key);
      for (const [key, value] of new URLSearchParams(location.hash.slice(1))) state.set(key, value);
      const asked = choices.filter((choice) => state.has(choice));
      const fits = (view) => asked.every((choice) => view.dataset[choice] === state.get(choice));
      const view = asked.length && all(".view").find(fits);
      if (view) show(view);
      showAxis(state.get("axis"));
      return;
    }
    showAxis(state.get("axis"));
    const target = document.getElementById(hash());
    if (!target) return;
    const view = target.closest(".view");
    if (view) show(view);
    if (target.matches(".along")) showAxis(target.dataset.axis);
    for (let box = target.parentElement.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    target.scrollIntoView();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".picker a, .axes a");
    if (!link) return;
    event.preventDefault();  // the view changes in place: a jump would lose the reader
    if (link.matches(".axes a")) {
      state.set("axis", link.dataset.axis);
      showAxis(link.dataset.axis);
      write();
    } else {
      choose(document.getElementById(link.hash.slice(1)));
    }
  });

  // -- the figures of a cell, below its map ---------------------------------------------------------------------------
  const fill = (cell) => {
    const map = cell.closest(".map");
    const [where, ...facts] = cell.getAttribute("aria-label").split("; ");
    const title = document.createElement("p");
    title.className = "where";
    title.append(document.createElement("bdi"));
    title.firstChild.textContent = where;
    const list = document.createElement("ul");
    for (const fact of facts) {
      const item = document.createElement("li");
      item.append(document.createElement("bdi"));
      item.firstChild.textContent = fact;
      list.append(item);
    }
    const link = document.createElement("a");
    link.href = cell.getAttribute("href");
    link.textContent = "its record, and the command that measures it again";
    map.querySelector(".card").replaceChildren(title, list, link);
    for (const other of all(".cell.chosen", map)) other.classList.remove("chosen");
    cell.classList.add("chosen");
  };
  for (const map of all(".map")) {
    const cells = [...map.getElementsByClassName("cell")];
    if (!cells.length) continue;
    map.querySelector(".card").hidden = false;
    map.querySelector(".hint").hidden = false;
    fill(map.querySelector(".cell.method, .cell.baseline, .cell.tie, .cell.undecided") || cells[0]);
    for (const kind of ["pointerover", "focusin"]) {
      map.addEventListener(kind, (event) => {
        const cell = event.target.closest(".cell");
        if (cell) fill(cell);
      });
    }
    // A map is one stop for the Tab key; the arrow keys walk inside.
    cells.forEach((cell, place) => { if (place) cell.tabIndex = -1; });
    let stop = cells[0];
    map.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const from = event.target.closest(".cell");
      if (!step || !from) return;
      event.preventDefault();
      const rows = all(".winmap tbody tr", map);
      let row = rows.indexOf(from.closest("tr"));
      let column = from.closest("td").cellIndex;
      for (;;) {
        row += step[0];
        column += step[1];
        const place = rows[row] && rows[row].cells[column];
        if (!place) return;
        const to = place.querySelector(".cell");
        if (to && to.getClientRects().length) {
          stop.tabIndex = -1;
          stop = to;
          to.tabIndex = 0;
          to.focus();
          return;
        }
      }
    });
  }

  // -- tables sort by a click on a heading, and show the rows that hold some words ------------------------------------
  const key = (row, place) => {
    const cell = row.cells[place];
    const text = "value" in cell.dataset ? cell.dataset.value : cell.textContent.trim();
    const number = text === "" ? NaN : Number(text.replaceAll(",", ""));
    return { row, text, number, empty: text === "" || text === "–" };
  };
  const sort = (table, place, rising) => {
    const heads = all("thead th", table);
    if (!heads[place]) return;
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[place].setAttribute("aria-sort", rising ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => key(row, place));
    rows.sort((a, b) => {
      if (a.empty || b.empty) return a.empty - b.empty;  // what is missing stands last in either direction
      const order = isNaN(a.number) || isNaN(b.number) ? a.text.localeCompare(b.text, "en") : a.number - b.number;
      return rising ? order : -order;
    });
    body.append(...rows.map((one) => one.row));
  };
  const filter = (table, words) => {
    const wanted = words.trim().toLowerCase();
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      shown += !row.hidden;
    }
    const rows = table.tBodies[0].rows.length;
    table.filterNote.textContent = wanted ? `${shown} of ${rows} rows` : "";
  };
  for (const table of all("table[data-sortable]")) {
    const name = table.dataset.name || "table";
    all("thead th", table).forEach((head, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const rising = head.getAttribute("aria-sort") !== "ascending";
        sort(table, place, rising);
        state.set(name, place + (rising ? "a" : "d"));
        write();
      });
    });
    if (table.dataset.filter) {
      const box = document.createElement("label");
      const input = document.createElement("input");
      table.filterNote = document.createElement("span");
      table.filterNote.setAttribute("role", "status");
      box.className = "filter";
      box.append(table.dataset.filter, input, table.filterNote);
      table.closest(".scroll").before(box);
      input.addEventListener("input", () => {
        filter(table, input.value);
        if (input.value) state.set(name + "-with", input.value);
        else state.delete(name + "-with");
        write();
      });
      table.filterInput = input;
    }
  }
  const restore = () => {
    for (const table of all("table[data-sortable]")) {
      const name = table.dataset.name || "table";
      const [, place, way] = /^(\d+)([ad])$/.exec(state.get(name) || "") || [];
      if (place) sort(table, Number(place), way === "a");
      if (table.filterInput) {
        table.filterInput.value = state.get(name + "-with") || "";
        filter(table, table.filterInput.value);
      }
    }
  };
  addEventListener("hashchange", () => { follow(); restore(); });
  follow();
  restore();

  // -- on paper there is nothing to unfold ----------------------------------------------------------------------------
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = all(".sentences details:not([open]), .failures details:not([open])");
    for (const box of folded) box.open = true;
  });
  addEventListener("afterprint", () => { for (const box of folded) box.open = false; });
})();
