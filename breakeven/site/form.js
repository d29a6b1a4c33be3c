"use strict";
// "What should I use?": looks a size up in data.js. It interpolates between the sizes that were measured, and never beyond.
(() => {
  const data = window.breakeven;
  const box = document.querySelector(".ask");
  if (!data || !data.contests.length || !box) return;
  const field = (name) => document.getElementById("ask-" + name);
  const answer = box.querySelector(".answer");
  const ANY = "any";
  const NEAR = 5;  // problems that are asked where only a size is known
  const REACH = 4;  // the factor in size up to which a problem counts as near

  // -- numbers and words ----------------------------------------------------------------------------------------------
  const digits = (value) => {
    if (!value) return "0";
    const whole = Math.abs(value) >= 100;
    return whole ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  };
  const at = (axis, sizes) => (axis.endsWith("s") ? `${sizes} ${axis}` : `${axis} ${sizes}`);  // 598 points, rate 0.1
  const UNITS = {
    s: [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]],
    B: [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["B", 1]],
  };
  const READ = {
    s: { h: 3600, min: 60, m: 60, s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, "μs": 1e-6, ns: 1e-9 },
    B: { tib: 2 ** 40, gib: 2 ** 30, mib: 2 ** 20, kib: 2 ** 10, tb: 1e12, gb: 1e9, mb: 1e6, kb: 1e3, b: 1 },
  };
  const amount = (value, metric) => {
    const units = UNITS[metric.unit];
    if (!units) {
      const fine = metric.scale === "difference" ? Math.max(0, 1 - Math.floor(Math.log10(metric.margin))) : null;
      return (fine === null ? digits(value) : value.toFixed(fine)) + (metric.unit ? " " + metric.unit : "");
    }
    const [unit, size] = units.find(([, least]) => Math.abs(value) >= least) || units[units.length - 1];
    return digits(value / size) + " " + unit;
  };
  const between = (low, high, metric) => (low === high ? "" : ` [${amount(low, metric)}, ${amount(high, metric)}]`);
  const plain = (text) => {
    const match = /^\s*([\d.,\s]*\d\.?)\s*([kM])?\s*$/.exec(text);
    if (!match) return null;
    const value = Number(match[1].replace(/[,\s]/g, "")) * ({ k: 1e3, M: 1e6 }[match[2]] || 1);
    return value > 0 && isFinite(value) ? value : null;
  };
  const limited = (text, metric) => {
    const match = /^\s*([\d.,]+(?:e[-+]?\d+)?)\s*([a-zµμ]*)\s*$/i.exec(text);
    if (!match) return null;
    const units = READ[metric.unit] || {};
    const unit = match[2] === "" ? 1 : units[match[2].toLowerCase()];
    const value = Number(match[1].replaceAll(",", "")) * unit;
    return isFinite(value) ? value : null;
  };

  // -- looking up -----------------------------------------------------------------------------------------------------
  // A point is [size, who won, method's values, baseline's values, effect, their endings]; values are [estimate, low, high].
  const mix = (a, b, share, logs) => a.map((left, place) => {
    const right = b[place];
    if (logs && left > 0 && right > 0) return Math.exp((1 - share) * Math.log(left) + share * Math.log(right));
    return (1 - share) * left + share * right;
  });
  const look = (problem, x, metric) => {
    const points = problem.points;
    if (points.length === 1 && !points[0][0]) return { point: points[0], basis: "as measured" };
    const sized = points.filter((point) => point[0] > 0);
    if (!sized.length) return null;
    const first = sized[0], last = sized[sized.length - 1];
    const exact = sized.find((point) => Math.abs(point[0] / x - 1) < 1e-6);
    if (exact) return { point: exact, basis: "measured at that size" };
    if (x < first[0] || x > last[0]) return { beyond: true, first: first[0], last: last[0] };
    const right = sized.findIndex((point) => point[0] > x);
    const a = sized[right - 1], b = sized[right];
    const share = Math.log(x / a[0]) / Math.log(b[0] / a[0]);
    const logs = metric.scale === "ratio";
    const blend = (place) => (a[place] && b[place] ? mix(a[place], b[place], share, logs) : null);
    const point = [x, a[1] === b[1] ? a[1] : "between", blend(2), blend(3), blend(4), ...[5, 6].map((at) => (a[at] === "ok" ? b[at] : a[at]))];
    return { point, basis: `interpolated between ${digits(a[0])} and ${digits(b[0])}` };
  };
  // Whether the method is better (-1), the baseline is (1), or nobody is (0), as far as the numbers tell; and how sure that is.
  const decide = (found, problem, x, metric) => {
    const [, kind, , , effect] = found.point;
    const even = problem.even;
    const inBand = even && x >= (even[1] ?? even[0]) && x <= (even[2] ?? even[0]);
    if (kind === "method" || kind === "baseline") return { sign: kind === "method" ? -1 : 1, sure: !inBand, band: inBand && even };
    if (kind !== "between") return { sign: 0, sure: kind === "tie", kind };
    const centre = metric.scale === "ratio" ? 1 : 0;
    if (!effect) return { sign: 0, sure: false, kind: "undecided" };
    const turn = metric.lower_is_better ? 1 : -1;
    const sign = Math.sign((effect[0] - centre) * turn);
    const sure = !inBand && (effect[1] - centre) * (effect[2] - centre) > 0;
    return { sign, sure, band: inBand && even };
  };

  // -- what can be chosen ---------------------------------------------------------------------------------------------
  const options = (select, pairs, keep) => {
    select.replaceChildren(...pairs.map(([value, text]) => new Option(text, value)));
    if (pairs.some(([value]) => value === keep)) select.value = keep;
  };
  const contest = () => data.contests.find((one) => one.path === field("contest").value) || data.contests[0];
  const machine = () => contest().machines.find((one) => one.name === field("machine").value) || contest().machines[0];
  const views = () => machine().views.filter((view) => view.setting === field("setting").value);
  const problems = () => {
    const found = new Map();
    for (const view of views()) {
      for (const problem of view.problems) {
        const sized = problem.points.some((point) => point[0] > 0);
        if (!found.has(problem.name)) found.set(problem.name, { name: problem.name, size: problem.size, sized });
      }
    }
    return [...found.values()].sort((a, b) => (a.size ?? Infinity) - (b.size ?? Infinity));
  };
  const offer = (wanted) => {
    options(field("contest"), data.contests.map((one) => [one.path, one.question]), wanted.get("contest"));
    const here = contest();
    options(field("machine"), here.machines.map((one) => [one.name, one.title]), wanted.get("machine"));
    const cells = new Map();
    for (const view of machine().views) {
      cells.set(view.setting, (cells.get(view.setting) || 0) + view.problems.reduce((sum, one) => sum + one.points.length, 0));
    }
    const settings = [...cells].sort((a, b) => b[1] - a[1]).map(([setting]) => setting);
    options(field("setting"), settings.map((setting) => [setting, setting]), wanted.get("setting"));
    const some = problems();
    const bySize = here.by && here.by !== here.axis && some.some((one) => one.size !== null) && some.length > 1;
    const listed = some.map((one) => [one.name, bySize && one.size !== null ? `${one.name} (${digits(one.size)} ${here.by})` : one.name]);
    options(field("problem"), [...(bySize ? [[ANY, `none of these: only its ${here.by} is known`]] : []), ...listed], wanted.get("problem"));
    if (!wanted.has("problem") && bySize) field("problem").value = ANY;
    const sizes = [...new Set(views().flatMap((view) => view.problems.flatMap((one) => one.points.map((point) => point[0]))))];
    const known = sizes.filter((size) => size > 0).sort((a, b) => a - b);
    const byOpen = field("problem").value === ANY;
    field("by").closest("p").hidden = !byOpen;
    field("by-label").textContent = `its ${here.by}`;
    const middles = some.map((one) => one.size).filter((size) => size !== null).sort((a, b) => a - b);
    field("by").value = wanted.get("by") ?? String(middles[Math.floor(middles.length / 2)] ?? "");
    field("size").closest("p").hidden = !known.length;
    field("size-label").textContent = `my ${here.axis}`;
    field("size").value = wanted.get("size") ?? String(known[Math.floor(known.length / 2)] ?? "");
    const metric = here.metric;
    const what = metric.name === "seconds" ? "time per call" : metric.name;
    field("limit-label").textContent = `${what}, at ${metric.lower_is_better ? "most" : "least"}`;
    field("limit").placeholder = { s: "10 ms", B: "2 GiB" }[metric.unit] || "none";
    field("limit").value = wanted.get("limit") ?? "";
  };

  // -- the answer -----------------------------------------------------------------------------------------------------
  const element = (tag, className, ...parts) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...parts);
    return made;
  };
  const named = (text) => element("bdi", "name", text);
  const say = (...parts) => element("p", "", ...parts);
  const doubtful = (...parts) => element("p", "doubt", ...parts);
  const ENDED = { timeout: "ran into the time limit", wrong: "was judged wrong", crash: "crashed", out_of_memory: "ran out of memory", unsupported: "does not take it", skipped: "was not run" };

  // All methods at one problem and size, the best first; the baseline stands in the duel of each.
  const entrants = (name, x, metric) => {
    const found = [];
    let beyond = null;
    for (const view of views()) {
      const problem = view.problems.find((one) => one.name === name);
      const told = problem && look(problem, x, metric);
      if (!told) continue;
      if (told.beyond) beyond = told;
      else found.push({ view, problem, ...told, ...decide(told, problem, x, metric) });
    }
    const centre = metric.scale === "ratio" ? 1 : 0;
    const rank = (one) => {
      const effect = one.point[4];
      if (!effect) return one.sign * Infinity;
      return (metric.scale === "ratio" ? Math.log(effect[0]) : effect[0] - centre) * (metric.lower_is_better ? 1 : -1);
    };
    found.sort((a, b) => (rank(a) === rank(b) ? 0 : rank(a) - rank(b)));
    return { found, beyond };
  };
  const meets = (value, limit, metric) => (metric.lower_is_better ? value <= limit : value >= limit);

  const reachOf = (one, side, limit, metric) => {
    const sized = one.problem.points.filter((point) => point[0] > 0 && point[side]);
    if (sized.length < 2) return null;
    const [first, last] = [sized[0][0], sized[sized.length - 1][0]];
    let within = null;
    for (let step = 0; step <= 200; step++) {
      const x = first * (last / first) ** (step / 200);
      const told = look(one.problem, x, metric);
      const values = told && told.point && told.point[side];
      if (values && meets(values[0], limit, metric)) within = x;
    }
    return within;
  };
  const link = (here, view, text) => {
    const made = element("a", "", text);
    made.href = here.page + "#" + view.anchor;
    return made;
  };
  const single = (name, x, limit) => {
    const here = contest(), metric = here.metric;
    const { found, beyond } = entrants(name, x, metric);
    const what = metric.name === "seconds" ? "time" : metric.name;
    if (!found.length && beyond) {
      return [
        element("p", "best", `Nobody knows: ${here.axis} ${digits(x)} was not measured.`),
        doubtful(`On `, named(name), `, sizes go from ${at(here.axis, `${digits(beyond.first)} to ${digits(beyond.last)}`)}, and nothing is said beyond them.`),
      ];
    }
    if (!found.length) return [element("p", "best", "Nothing was measured there.")];
    const top = found[0];
    const [, kind, method, baseline, effect, methodEnding, baselineEnding] = top.point;
    if (kind === "unsolved" || kind === "unsupported" || kind === "skipped") {
      return [
        element("p", "best", "Nobody solved that here."),
        doubtful(named(top.view.method), ` ${ENDED[methodEnding] || "solved it"}; `, named(top.view.baseline), ` ${ENDED[baselineEnding] || "solved it"}.`),
      ];
    }
    const baselineWins = top.sign > 0;
    const winner = baselineWins ? top.view.baseline : top.view.method;
    const loser = baselineWins ? top.view.method : top.view.baseline;
    const side = baselineWins ? 3 : 2;
    const mine = top.point[side], theirs = top.point[5 - side];
    const out = [];
    if (!top.sign) {
      out.push(element("p", "best", kind === "tie" ? "Either: " : "Undecided: ", named(top.view.method), " or ", named(top.view.baseline), "."));
    } else {
      out.push(element("p", "best", top.sure ? "Use " : "Probably ", named(winner), mine ? `: expect ${amount(mine[0], metric)}` + between(mine[1], mine[2], metric) : "", metric.name === "seconds" && mine ? " per call." : "."));
    }
    const compared = say();
    if (theirs && top.sign) compared.append(named(loser), ` would ${metric.name === "seconds" ? "take" : "reach"} ${amount(theirs[0], metric)}${between(theirs[1], theirs[2], metric)}. `);
    else if (!theirs && top.sign) compared.append(named(loser), ` ${ENDED[baselineWins ? methodEnding : baselineEnding] || "has no value"} there. `);
    else if (mine && theirs) compared.append(named(top.view.method), ` ${amount(mine[0], metric)}, `, named(top.view.baseline), ` ${amount(theirs[0], metric)}. `);
    if (effect) {
      compared.append(`${what[0].toUpperCase() + what.slice(1)} ${metric.scale} of `, named(top.view.method), ` to `, named(top.view.baseline), `: ${digits(effect[0])}`);
      compared.append(effect[1] === effect[2] ? ". " : ` [${digits(effect[1])}, ${digits(effect[2])}]. `);
    }
    if (compared.childNodes.length) out.push(compared);
    if (limit !== null) {
      const value = top.sign ? mine : [mine, theirs].filter(Boolean).sort((a, b) => (a[0] - b[0]) * (metric.lower_is_better ? 1 : -1))[0];
      const line = say();
      if (value && meets(value[0], limit, metric)) {
        const worst = metric.lower_is_better ? value[2] : value[1];
        line.append(meets(worst, limit, metric) ? "Within your limit. " : "Within your limit, but not with all of its interval. ");
      } else if (value) {
        line.append("Nobody measured here meets your limit at that size. ");
        const within = top.sign ? reachOf(top, side, limit, metric) : null;
        if (within) line.append(named(winner), ` does up to about ${at(here.axis, digits(within))}.`);
      }
      if (line.childNodes.length) out.push(line);
    }
    const doubts = doubtful(`On `, named(name), `, ${top.basis}; 95 % intervals. `);
    if (top.band) doubts.append(`The winner changes at ${at(here.axis, `${digits(top.band[0])} [${digits(top.band[1] ?? top.band[0])}, ${digits(top.band[2] ?? top.band[0])}]`)}, and your size lies in that interval. `);
    else if (top.sign && !top.sure) doubts.append("The intervals do not settle who wins. ");
    else if (kind === "undecided") doubts.append("The time that was given did not settle who wins. ");
    if (found.length > 1) {
      doubts.append("Others: ");
      found.slice(1, 4).forEach((one, place) => {
        const value = one.point[2];
        doubts.append(place ? "; " : "", named(one.view.method), value ? ` ${amount(value[0], metric)}` : ` ${ENDED[one.point[5]] || "has no value"}`);
      });
      doubts.append(". ");
    }
    if (machine().noise !== null && metric.name === "seconds") doubts.append(`Differences under ${Math.round(machine().noise * 100)} % are noise on that machine. `);
    doubts.append(link(here, top.view, "See the win map"));
    out.push(doubts);
    return out;
  };
  const nearest = (size, x, limit) => {
    const here = contest(), metric = here.metric;
    const far = (one) => Math.abs(Math.log(one.size / size));
    const near = problems().filter((one) => one.size > 0 && far(one) <= Math.log(REACH)).sort((a, b) => far(a) - far(b));
    const rows = [], won = new Map();
    for (const one of near) {
      if (rows.length === NEAR) break;
      const { found } = entrants(one.name, x, metric);
      const top = found[0];
      if (!top || ["unsolved", "unsupported", "skipped"].includes(top.point[1])) continue;
      const winner = top.sign > 0 ? top.view.baseline : top.sign < 0 ? top.view.method : null;
      const value = top.sign > 0 ? top.point[3] : top.point[2];
      rows.push({ one, top, winner, value });
      if (winner) won.set(winner, (won.get(winner) || 0) + 1);
    }
    if (!rows.length) {
      return [
        element("p", "best", "Nobody knows: nothing near that was measured."),
        doubtful(`No problem within a factor of ${REACH} in ${here.by} was measured at ${at(here.axis, digits(x))}.`),
      ];
    }
    const [best, times] = [...won].sort((a, b) => b[1] - a[1])[0] || [null, 0];
    const out = [];
    if (!best) out.push(element("p", "best", "Undecided on every problem near that size."));
    else {
      const values = rows.filter((row) => row.winner === best && row.value).map((row) => row.value[0]).sort((a, b) => a - b);
      const expected = !values.length ? "" : values.length === 1 ? `: expect ${amount(values[0], metric)}` : `: expect ${amount(values[0], metric)} to ${amount(values[values.length - 1], metric)}`;
      const sure = times === rows.length && rows.every((row) => row.top.sure);
      out.push(element("p", "best", sure ? "Use " : times * 2 > rows.length ? "Probably " : "It depends; most often ", named(best), expected, "."));
    }
    const doubts = doubtful(`It wins on ${times} of the ${rows.length} problems measured within a factor of ${REACH} of your ${here.by}. `);
    if (times < rows.length) doubts.append("Size alone does not tell: choose the problem that yours is like. ");
    if (limit !== null) {
      const within = rows.filter((row) => row.value && meets(row.value[0], limit, metric)).length;
      doubts.append(`Your limit is met on ${within} of them. `);
    }
    out.push(best ? doubts : doubtful("The records do not settle who wins there."));
    const table = element("table", "");
    const row = (tag, ...cells) => element("tr", "", ...cells.map((cell) => element(tag, "", cell)));
    table.append(element("thead", "", row("th", "problem", here.by, "winner", metric.name === "seconds" ? "its time" : metric.name)));
    const body = element("tbody", "");
    for (const { one, top, winner, value } of rows) {
      body.append(row("td", named(one.name), digits(one.size), winner ? named(winner) : top.point[1], value ? amount(value[0], metric) + between(value[1], value[2], metric) : "–"));
    }
    table.append(body);
    const scroll = element("div", "scroll", table);
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Problems near that size");
    out.push(scroll, doubtful(link(here, rows[0].top.view, "See the win map")));
    return out;
  };
  const reply = () => {
    const here = contest();
    const sized = !field("size").closest("p").hidden;
    const x = sized ? plain(field("size").value) : 1;
    const limit = field("limit").value.trim() ? limited(field("limit").value, here.metric) : null;
    const wrong = [];
    const check = (name, bad) => {
      field(name).setAttribute("aria-invalid", String(bad));
      if (bad) wrong.push(name);
    };
    check("size", sized && x === null);
    check("limit", field("limit").value.trim() !== "" && limit === null);
    const any = field("problem").value === ANY;
    const size = any ? plain(field("by").value) : null;
    check("by", any && size === null);
    if (wrong.length) {
      const example = { size: "a size, such as 64 or 10k", by: "a size, such as 64 or 10k", limit: `a limit, such as ${field("limit").placeholder === "none" ? "0.9" : field("limit").placeholder}` };
      answer.replaceChildren(say(`This needs ${example[wrong[0]]}.`));
      return;
    }
    answer.replaceChildren(...(any ? nearest(size, x, limit) : single(field("problem").value, x, limit)));
  };

  // -- the question is in the address ---------------------------------------------------------------------------------
  const FIELDS = ["contest", "machine", "setting", "problem", "by", "size", "limit"];
  const asked = () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
  const remember = () => {
    const state = new URLSearchParams();
    for (const name of FIELDS) {
      if (!field(name).closest("p").hidden && field(name).value) state.set(name, field(name).value);
    }
    history.replaceState(null, "", "#" + state);
  };
  box.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
  box.querySelector("form").addEventListener("input", (event) => {
    const place = FIELDS.indexOf(event.target.id.replace("ask-", ""));
    if (event.target.matches("select")) {
      // What stands before the choice is kept; what comes after it depends on it.
      const kept = new URLSearchParams(FIELDS.slice(0, place + 1).map((name) => [name, field(name).value]));
      if (place > 0) for (const name of ["size", "by", "limit"]) kept.set(name, field(name).value);
      offer(kept);
    }
    reply();
    remember();
  });
  addEventListener("hashchange", () => { if (asked().has("contest")) { offer(asked()); reply(); } });
  offer(asked());
  reply();
  box.hidden = false;
})();
