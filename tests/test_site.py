"""The leaderboard says everything that the records say, obeys nothing that they contain, and asks the network for nothing."""

import dataclasses
import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import site_records

from breakeven import registry, report
from breakeven.records import Block, Store
from breakeven.site import build, plots


def listing(name: str, **facts) -> registry.Listing:
    return registry.Listing(registry.Entry("method", "lp", name, f"made_up.{name}", ""), **facts)


LISTINGS = [
    listing(
        "batched_pdhg", title="Batched PDHG", paper="arXiv:2601.21990", derived="its step sizes, from the abstract"
    ),
    listing(
        "simplex",
        title="Dual simplex",
        paper="a book <of> old",
        functions={"LPBatch": {"variants": {}, "options": {}, "faults": "wrong where a <bound> is infinite"}},
    ),
]


class Page(html.parser.HTMLParser):
    """A page's text, elements and attributes, as a browser reads them."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.attributes, self.words, self._inside = [], [], [], []
        self.feed(text)
        self.text = re.sub(r"\s+", " ", "".join(self.words))

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attributes]
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.words.append(data)

    def values(self, name: str) -> list[str]:
        return [value for _, attribute, value in self.attributes if attribute == name]


def made(folder: pathlib.Path, records, listings=LISTINGS) -> Page:
    store = Store(folder / "results")
    for record in records:
        store.append(record)
    return Page(build.build(store, folder / "site", listings=listings).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def records():
    return [
        *site_records.sweep(),
        *site_records.sweep("pdlp:fast", speed=3.0, threads=1),
        *site_records.against_itself(),
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory, records):
    return made(tmp_path_factory.mktemp("site"), records)


def test_nothing_is_asked_of_the_network(page):
    loads = [(tag, name, value) for tag, name, value in page.attributes
             if name in ("src", "srcset", "poster", "data") or (tag in ("link", "use", "image") and "href" in name)]  # fmt: skip
    assert all(value.startswith(("data:", "#")) for _, _, value in loads), loads
    (policy,) = [value for value in page.values("content") if "default-src" in value]
    assert "default-src 'none'" in policy
    assert "http" not in policy
    style = (build.HERE / "style.css").read_text() + (build.HERE / "page.js").read_text()
    assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttpRequest|import\(", style)


def test_links_lead_somewhere(page, tmp_path):
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    links = [value for tag, name, value in page.attributes if tag == "a" and name == "href"]
    assert {link[1:] for link in links if link.startswith("#")} <= set(ids)
    assert {link for link in links if not link.startswith(("#", "https:"))} == {
        "records.csv", "methodology.html", "bias.html"
    }  # fmt: skip
    assert "https://arxiv.org/abs/2601.21990" in links


def test_every_record_is_on_the_page(page, records, tmp_path):
    shown = [value for value in page.values("id") if value.startswith("r-")]
    assert len(shown) == len(records)
    for record in records:
        assert record.command in page.text
    one = made(tmp_path, records[:1])
    assert records[0].key in (tmp_path / "site" / "records.csv").read_text()
    assert "1 record on this page" in one.text


def test_the_verdicts_are_those_of_the_report(page, records):
    contest = build._contests()[site_records.CONTEST]
    answer = report.contest_report(contest, records)
    told = [one for one in answer.lines if one.break_even.kind in ("crosses", "wins", "loses", "tie", "several")]
    assert told
    for one in told:
        said = one.sentence.removeprefix(f"{report.place(one.line)}: ")
        assert said in page.text
    assert report.noise_sentence(answer.noise_floor, answer.false_alarms).removeprefix("machine: ") in page.text
    for record, verdict in zip(answer.records, answer.verdicts, strict=True):
        assert report.effect_text(verdict) in page.text, record.key
    assert re.search(r"batched_pdhg is faster in \d+ of \d+ cells, simplex in \d+\.", page.text)


def test_what_did_not_end_well_is_shown_with_its_reason(page):
    for words in (
        "relative_kkt is 0.0123, limit 0.0001",
        "one call took longer than 30 s",
        "no fractional variable at the root",
        "the worker died: signal 11",
        "Segmentation fault",
    ):
        assert words in page.text
    for ending in ("wrong", "time-out", "unsupported", "crash"):
        assert ending in page.text


def test_what_was_derived_is_said(page):
    assert "Derived here: its step sizes, from the abstract" in page.text
    assert "a book <of> old" in page.text


def test_known_faults_are_said(page):
    assert "Known fault: wrong where a <bound> is infinite" in page.text


def test_tables_can_be_sorted_and_views_picked(page):
    assert page.tags.count("script") == 1
    assert len([1 for tag, name, _ in page.attributes if tag == "table" and name == "data-sortable"]) == 4
    assert page.text.count("against simplex, cpu, 2 threads") == 1
    assert page.text.count("against simplex, cpu, 1 thread") == 1


def test_names_change_nothing_but_text(tmp_path, page):
    hostile = made(tmp_path, site_records.hostile())
    for text in site_records.HOSTILE:
        plain = re.sub(r"\s+", " ", text.encode("utf-8", "replace").decode())
        assert plain in hostile.text
    assert hostile.tags.count("script") == page.tags.count("script") == 1
    assert not [name for _, name, _ in hostile.attributes if name.startswith("on")]
    assert set(hostile.tags) <= {*page.tags, "nav"}
    assert "49" not in [word.strip("{} ") for word in hostile.text.split() if "7" in word]
    assert all(re.fullmatch(r"[a-z0-9-]+", value) for value in hostile.values("id"))


def test_an_empty_store_says_how_to_measure(tmp_path):
    empty = made(tmp_path, [], listings=None)
    assert "Nothing has been measured yet" in empty.text
    assert "breakeven run lp/strong_branching" in empty.text
    assert not (tmp_path / "site" / "records.csv").exists()


def test_contests_and_methods_that_are_not_known_any_more_are_shown(tmp_path):
    old = dataclasses.replace(site_records.record(0.1, 0.2), contest="gone/by", key="old")
    no_sizes = dataclasses.replace(old, contest="gone/sizeless", key="older", sizes={}, problem={})
    shown = made(tmp_path, [old, no_sizes], listings=[])
    assert "gone/by" in shown.text
    assert "gone/sizeless" in shown.text
    assert len([value for value in shown.values("id") if value.startswith("r-")]) == 2


def test_odd_numbers_do_not_break_the_page(tmp_path):
    odd = site_records.record(0.1, 0.2)
    side = dataclasses.replace(
        odd.method, judged={"relative_kkt": float("nan"), "other": float("inf")}, claims={"iterations_median": 0.0}
    )
    odd = dataclasses.replace(
        odd,
        method=side,
        baseline=dataclasses.replace(side, name="simplex"),
        problem={"nonzeros": float("nan")},
        started_at="",
        blocks=(Block((0.1, 0.1), (0.2, 0.2), (), contended=True),),
    )
    shown = made(tmp_path, [odd, dataclasses.replace(odd, key="infinite", seed=1, problem={"nonzeros": float("inf")})])
    assert "100% of 2 blocks" in shown.text
    assert "What decides: work per child" in shown.text


def test_no_work_is_plotted_without_claims(tmp_path):
    assert "What decides" not in made(tmp_path, [site_records.record(0.1, 0.2)]).text


def test_a_record_of_older_code_is_superseded(tmp_path):
    new = dataclasses.replace(site_records.record(0.1, 0.2), key="new", started_at="2026-02-01T00:00:00+00:00")
    old = dataclasses.replace(site_records.record(0.4, 0.2), key="old")
    assert build.current([old, new]) == build.current([new, old]) == [new]
    shown = made(tmp_path, [new, old])
    assert "1 record on this page; 1 more" in shown.text
    assert (tmp_path / "site" / "records.csv").read_text().count("batched_pdhg,simplex") == 2


def test_the_same_records_give_the_same_bytes_and_what_stands_beside_them_stays(tmp_path, records):
    store = Store(tmp_path / "results")
    for record in records[:30]:
        store.append(record)
    history = tmp_path / "site" / "history"
    history.mkdir(parents=True)
    (history / "index.html").write_text("asv's own")
    first = build.build(store, tmp_path / "site", listings=LISTINGS).read_bytes()
    assert build.build(store, tmp_path / "site", listings=LISTINGS).read_bytes() == first
    assert (history / "index.html").read_text() == "asv's own"
    assert b'href="history/index.html"' in first
    assert {path.name for path in (tmp_path / "site").iterdir()} == {
        "index.html", "records.csv", "methodology.html", "bias.html", "history",
    }  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"results", "site"}


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_readme_picture_is_drawn_and_repeats(tmp_path, records, ending):
    hostile = site_records.hostile()
    contest = build._contests()[site_records.CONTEST]
    first = plots.winmap_picture(report.contest_report(contest, records), tmp_path / f"a.{ending}")
    again = plots.winmap_picture(
        report.contest_report(contest, records), tmp_path / f"b.{ending}", method="batched_pdhg"
    )
    assert first.read_bytes() == again.read_bytes()
    plots.winmap_picture(report.contest_report(contest, hostile), tmp_path / f"c.{ending}")
    if ending == "svg":
        text = first.read_text()
        assert "break-even along batch" in text
        assert "0.33×" in text
    with pytest.raises(ValueError, match="no cell to draw"):
        plots.winmap_picture(report.contest_report(contest, []), tmp_path / f"d.{ending}")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.10×"), (7.94, "7.9×"), (0.0123, "0.012×"), (12.3, "12×"), (1234.0, "1,234×"), (1.0, "1.0×")],
)
def test_ratios_in_cells_have_two_digits(value, text):
    assert plots._two_digits(value) + "×" == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.234, "1.23 s"), (0.0456, "45.6 ms"), (7.89e-6, "7.89 µs"), (5e-9, "5.00 ns"), (None, "–")]
)
def test_durations_have_units(seconds, text):
    assert report.duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(1, "1"), (64, "64"), (1024, "1024"), (3200, "3.2k"), (52121, "52k"), (2e6, "2M")]
)
def test_sizes_fit_under_ticks(size, text):
    assert plots.compact(size) == text


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Opens a page in a real browser and returns its document after the script ran, and what the console said."""
    if CHROMIUM is None:
        pytest.skip("no Chromium on PATH; Debian has one: apt-get install chromium")
    profile = tmp_path_factory.mktemp("profile")

    def open_page(address: str) -> tuple[str, list[str]]:
        quiet = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-dev-shm-usage",
        ]
        command = [CHROMIUM, *quiet, f"--user-data-dir={profile}", "--enable-logging=stderr", "--dump-dom", address]
        environment = {**os.environ, "HOME": str(profile)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return open_page


@pytest.mark.slow
def test_a_browser_has_nothing_to_complain_about(tmp_path, records, browser):
    made(tmp_path, [*records, *site_records.hostile()])
    address = (tmp_path / "site" / "index.html").as_uri()
    document, said = browser(address)
    assert said == []
    assert re.search(r"<th[^>]*><button type=\"button\">entrant</button></th>", document)
    views = re.findall(r'<article class="view" id="([^"]+)"[^>]*?( hidden="")?>', document)
    assert sum(not hidden for _, hidden in views) == 2  # one for each machine

    hidden = next(name for name, is_hidden in views if is_hidden)
    document, said = browser(f"{address}#{hidden}")
    assert said == []
    assert re.search(rf'<article class="view" id="{hidden}"[^>]*"\s*>', document)

    row = re.search(r'<tr id="(r-pdlp-[^"]+)"', document)[1]
    document, said = browser(f"{address}#{row}")
    assert said == []
    assert re.search(r'<details class="all" open="">', document)

    for other in ("methodology.html", "bias.html"):
        assert browser((tmp_path / "site" / other).as_uri())[1] == []


@pytest.mark.slow
def test_a_browser_sorts_tables_and_shows_the_figures_of_a_cell(tmp_path, records, browser):
    """Clicks and keys, by a script of the test's own in a copy of the page that lets it run."""
    made(tmp_path, records)
    text = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    acts = """<script>
      const table = document.querySelector(".ranking table");
      const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.value));
      const button = table.querySelectorAll("thead button")[2];
      button.click();
      const rising = column(), said = button.parentElement.ariaSort;
      button.click();
      const falling = column();
      const cells = [...document.querySelectorAll(".view:not([hidden]) .cell")];
      cells[0].focus();
      const key = (name) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
      key("ArrowRight");
      const reached = cells.indexOf(document.activeElement);
      const card = document.querySelector(".view:not([hidden]) .card").textContent;
      const stops = cells.filter((cell) => cell.tabIndex === 0).length;
      const current = document.querySelectorAll(".picker [aria-current]").length;
      document.body.innerHTML = "<pre></pre>";
      document.querySelector("pre").textContent = JSON.stringify({ rising, falling, said, reached, card, stops, current });
    </script></body>"""
    (tmp_path / "site" / "acts.html").write_text(text.replace("</body>", acts), encoding="utf-8")
    document, said = browser((tmp_path / "site" / "acts.html").as_uri())
    assert said == []
    did = json.loads(html.unescape(re.search(r"<pre>(.*)</pre>", document, re.DOTALL)[1]))
    assert did["rising"] == sorted(did["rising"])
    assert did["falling"] == sorted(did["rising"], reverse=True)
    assert did["said"] == "ascending"
    assert did["reached"] == 1
    assert "breakeven run" in did["card"]
    assert did["stops"] == did["current"] == 1
