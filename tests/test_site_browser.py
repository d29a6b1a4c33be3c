"""The site in a real browser: what is clicked and typed has its effect, anybody can use it, and nothing leaves the page."""

import dataclasses
import pathlib
import re
import shutil
import subprocess

import pytest
import site_records

from breakeven import registry
from breakeven.records import Store
from breakeven.site import build, history, picture

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH; Debian has one: apt-get install chromium"),
    pytest.mark.slow,
]
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
CONTEST = "contests/lp-strong_branching.html"
FRONT = ("index.html", "methods.html", "downloads.html")
NAMES = ("batched_pdhg", "simplex", "pdlp")


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


def built(folder: pathlib.Path, records) -> pathlib.Path:
    store = Store(folder / "results")
    store.newest = lambda: records  # thousands of lines take longer to be written safely than to be shown
    listings = [registry.Listing(registry.Entry("method", "lp", name, name, ""), title=name.upper()) for name in NAMES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "png", lambda svg: b"")  # no page shows one
        return build.build(store, folder / "site", listings=listings).parent


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Two methods, two numbers of threads, two machines, every ending, and a contest by a judged number."""
    other = {"machine": "other-machine-8c"}
    records = [
        *site_records.sweep(),
        *site_records.sweep("pdlp:fast", speed=3.0),
        *site_records.sweep("pdlp:fast", speed=2.0, threads=1),
        *site_records.sweep(speed=5.0, **other),
        *site_records.against_itself(),
        *site_records.many(problems=4, batches=5, methods=3),
    ]
    return built(tmp_path_factory.mktemp("site"), records)


@pytest.fixture
def visit(chromium, request):
    """Opens pages of a folder. At the end of the test: nothing was said on the console, and nothing asked elsewhere."""
    said, asked, folders, contexts = [], [], set(), []

    def open_page(folder: pathlib.Path, page: str, *, width: int = 1280, theme: str = "light", scripts: bool = True):
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, java_script_enabled=scripts
        )
        contexts.append(context)
        folders.add(folder.as_uri())
        tab = context.new_page()
        tab.set_default_timeout(20_000)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        tab.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda one: asked.append(one.url))
        tab.goto(f"{folder.as_uri()}/{page}")
        return tab

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
    assert [url for url in asked if not url.startswith((*folders, "data:"))] == []


def read(element) -> str:
    """The text of `element` once it is on the screen: of views and records that are not, a browser lays nothing out."""
    return element.evaluate(
        """async element => {
            element.scrollIntoView({ block: "nearest" });
            for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
            return element.innerText;
        }"""
    )


def answer(tab) -> str:
    return " ".join(tab.inner_text(".answer").split())


# -- the form ---------------------------------------------------------------------------------------------------------


def ask(tab, **fields) -> str:
    for name, value in fields.items():
        field = tab.locator(f"#ask-{name}")
        if field.evaluate("element => element.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    return answer(tab)


LP = {"contest": site_records.CONTEST, "machine": site_records.MACHINE, "setting": "cpu, 2 threads"}


def test_the_form_answers_with_the_method_its_time_and_the_doubt(site, visit):
    tab = visit(site, "index.html")
    said = ask(tab, **LP, problem="10teams", size="64")
    winner, expected = re.match(r"Use (\S+): expect ([\d.]+) (ms|s) \[[\d.]+ m?s, [\d.]+ m?s\] per call\.", said).group(
        1, 2
    )
    assert winner == "pdlp:fast"
    law = (1.2e-3 + 640 * (1.5e-5 + 12150 * (0.25 + 0.75 * 64) * 1.1e-10 * 8)) / 3
    assert float(expected) == pytest.approx(law * (1e3 if law < 1 else 1), rel=0.1)
    assert "simplex would take" in said
    assert "On 10teams, measured at that size; 95 % intervals." in said
    assert "Others: batched_pdhg" in said
    assert re.search(r"Differences under \d+ % are noise on that machine", said)


def test_the_form_interpolates_and_never_beyond_what_was_measured(site, visit):
    tab = visit(site, "index.html")
    at = {size: ask(tab, **LP, problem="10teams", size=size) for size in ("16", "32", "64")}
    times = {}
    for size, said in at.items():
        value, unit = re.search(r"expect ([\d.]+) (ms|s)", said).groups()
        times[size] = float(value) * {"ms": 1e-3, "s": 1}[unit]
    assert times["32"] == pytest.approx((times["16"] * times["64"]) ** 0.5, rel=0.02)
    assert "interpolated between 16 and 64" in at["32"]
    said = ask(tab, size="640")
    assert "Nobody knows: batch 640 was not measured. On 10teams, sizes go from batch 1 to 64" in said


def test_the_form_says_where_a_winner_changes_within_the_interval(site, visit):
    tab = visit(site, "index.html")
    tab.wait_for_selector(".ask:not([hidden])")
    even = tab.evaluate(
        """() => window.breakeven.contests.flatMap((c) => c.machines).flatMap((m) => m.views.map((v) => [m.name, v]))
        .filter(([name, v]) => v.setting === "cpu, 1 thread").flatMap(([name, v]) => v.problems.filter((p) => p.even)
        .map((p) => [name, p.name, p.even]))[0]"""
    )
    assert even is not None
    machine, problem, (size, low, high) = even
    said = ask(
        tab, contest=site_records.CONTEST, machine=machine, setting="cpu, 1 thread", problem=problem, size=str(size)
    )
    assert said.startswith(("Probably ", "Either: ", "Undecided: "))
    assert "your size lies in that interval" in said
    assert low < size < high


def test_the_form_holds_an_answer_against_the_limit(site, visit):
    tab = visit(site, "index.html")
    ask(tab, **LP, problem="10teams", size="64")
    assert "Within your limit." in ask(tab, limit="2 min")
    said = ask(tab, limit="2 ms")
    assert "Nobody measured here meets your limit at that size." in said
    assert "This needs a limit, such as 10 ms." in ask(tab, limit="soon")
    assert tab.get_attribute("#ask-limit", "aria-invalid") == "true"
    assert "This needs a size" in ask(tab, limit="", size="-3")
    assert "Use pdlp:fast" in ask(tab, size="64")


def test_the_form_tells_how_problems_near_a_size_disagree(site, visit):
    tab = visit(site, "index.html")
    said = ask(tab, **LP, problem="any", by="3000", size="16")
    assert re.search(r"It wins on \d of the \d problems measured within a factor of 4 of your nonzeros\.", said)
    near = [row.split("\t")[1] for row in tab.inner_text(".answer tbody").splitlines()]
    assert all(750 <= float(size.replace(",", "")) <= 12_000 for size in near)
    assert "Nobody knows" in ask(tab, by="1000M")


def test_the_form_asks_other_contests_in_their_own_words(site, visit):
    tab = visit(site, "index.html")
    said = ask(tab, contest="synthetic/many", problem="problem001", size="4")
    assert said.startswith("Use ")
    assert "per call" not in said
    assert "noise" not in said
    assert tab.inner_text("#ask-limit-label") == "error, at most"
    said = ask(tab, **LP, problem="mkc", size="16")
    assert "Nobody solved that here." in said
    assert "ran into the time limit" in said


def test_the_question_is_in_the_address(site, visit):
    tab = visit(site, "index.html")
    said = ask(tab, **LP, problem="qiu", size="9", limit="1 h")
    address = tab.url
    assert "problem=qiu" in address
    again = visit(site, "index.html#" + address.split("#")[1])
    assert answer(again) == said
    assert again.input_value("#ask-size") == "9"


# -- contests ---------------------------------------------------------------------------------------------------------


def test_sorting_sorts_and_the_address_brings_it_back(site, visit):
    tab = visit(site, CONTEST)
    column = (
        "[...document.querySelector('.ranking table').tBodies[0].rows].map((row) => Number(row.cells[1].dataset.value))"
    )
    button = tab.locator(".ranking table >> nth=0").locator("thead button").nth(1)
    button.click()
    rising = tab.evaluate(column)
    assert rising == sorted(rising)
    assert len(set(rising)) > 2
    button.click()
    assert tab.evaluate(column) == sorted(rising, reverse=True)
    assert tab.locator(".ranking th[aria-sort]").get_attribute("aria-sort") == "descending"
    again = visit(site, CONTEST + "#" + tab.url.split("#")[1])
    assert again.evaluate(column) == sorted(rising, reverse=True)


def test_filtering_filters_and_the_address_brings_it_back(site, visit):
    tab = visit(site, CONTEST)
    shown = ".ranking >> nth=0 >> tbody tr:visible"
    every = tab.locator(shown).count()
    tab.locator(".filter input").first.fill("PDLP")
    assert 0 < tab.locator(shown).count() < every
    assert all("pdlp" in text for text in tab.locator(shown).all_inner_texts())
    assert f"of {every} rows" in tab.locator(".filter").first.inner_text()
    again = visit(site, CONTEST + "#" + tab.url.split("#")[1])
    assert again.locator(shown).all_inner_texts() == tab.locator(shown).all_inner_texts()


def test_a_view_and_an_axis_are_picked_and_the_address_brings_them_back(site, visit):
    tab = visit(site, CONTEST)
    assert tab.locator(".view:visible").count() == 2  # one for each machine
    tab.locator(".picker a", has_text="pdlp:fast").filter(has_text="1 thread").click()
    shown = tab.locator(".view:visible").filter(has_text="against simplex, cpu, 1 thread")
    assert shown.count() == 1
    assert tab.locator(".picker [aria-current]").count() == 1  # the other machine has one view and no picker
    shown.locator(".axes a", has_text="nonzeros").click()
    assert shown.locator(".along:visible").count() == 1
    assert "Along nonzeros" in read(shown.locator(".along:visible"))
    for choice in ("method=pdlp%3Afast", "threads=1", "axis=nonzeros", f"machine={site_records.MACHINE}"):
        assert choice in tab.url
    again = visit(site, CONTEST + "#" + tab.url.split("#")[1])
    shown = again.locator(".view:visible").filter(has_text="against simplex, cpu, 1 thread")
    assert shown.count() == 1
    assert "Along nonzeros" in read(shown.locator(".along:visible"))


def test_a_cell_shows_its_figures_and_leads_to_its_record_and_command(site, visit):
    tab = visit(site, CONTEST)
    view = tab.locator(".view:visible").first
    row = view.locator("tbody tr", has_text="10teams").first
    row.locator(".cell").nth(0).focus()
    tab.keyboard.press("ArrowRight")
    reached = tab.evaluate("document.activeElement.getAttribute('aria-label')")
    assert reached == row.locator(".cell").nth(1).get_attribute("aria-label")
    card = view.locator(".card").inner_text()
    assert all(fact in card for fact in reached.split("; "))
    assert re.search(r"time ratio [\d.]+ \[", card)
    cells = view.locator(".cell")
    assert view.locator(".cell[tabindex='-1']").count() == cells.count() - 1  # one stop for the Tab key
    cells.nth(5).hover()
    where = cells.nth(5).get_attribute("aria-label").split("; ")[0]
    assert view.locator(".card .where").inner_text() == where
    cells.nth(5).click()
    tab.wait_for_url("**/records/**")
    record = tab.locator(".record:target")
    assert where in read(record.locator("h2"))
    assert read(record.locator(".command")).startswith("breakeven run lp/strong_branching --method")


def test_a_link_to_a_view_opens_it(site, visit):
    tab = visit(site, CONTEST)
    hidden = tab.evaluate("document.querySelector('.view[hidden]').id")
    again = visit(site, f"{CONTEST}#{hidden}")
    assert again.locator(f"#{hidden}").is_visible()
    again.goto(again.url.split("#")[0] + "#%zz")  # no address breaks the page
    assert again.locator(".view:visible").count() == 2


def test_everything_is_there_without_scripts(site, visit):
    front = visit(site, "index.html", scripts=False)
    assert front.locator(".contest-card .said:visible").count() == 2
    assert not front.locator(".ask").is_visible()
    tab = visit(site, CONTEST, scripts=False)
    assert tab.locator(".view:visible").count() == 4
    tab.locator(".cell:visible").nth(3).click()
    tab.wait_for_url("**/records/**")
    tab.locator(".record:target .command").wait_for()


def test_two_methods_are_compared_at_an_address_of_their_own(site, visit):
    tab = visit(site, CONTEST)
    row = tab.locator(".pairs tbody tr").first
    pair = row.locator("th a").inner_text()
    assert sorted(pair.split(" against ")) == ["batched_pdhg", "pdlp:fast"]
    won = [int(text) for text in row.locator("td.right").all_inner_texts()]
    row.locator("a").click()
    tab.wait_for_url("**/pairs/**")
    view = tab.locator(".view")
    assert tab.locator("h1").inner_text() == pair
    assert sum(won) == view.locator(".cell").count()
    assert [won[0], won[1]] == [view.locator(f".cell.{kind}").count() for kind in ("method", "baseline")]
    view.locator(".axes a", has_text="nonzeros").click()
    assert "axis=nonzeros" in tab.url
    assert "Along nonzeros" in read(view.locator(".along:visible"))
    view.locator(".cell").first.click()
    tab.wait_for_url("**/records/**")
    tab.locator(".record:target .command").wait_for()


def test_a_tolerance_is_in_the_address(tmp_path, visit):
    usual = site_records.sweep()
    loose = [dataclasses.replace(one, key=f"{one.key}-loose", given={"tolerance": 1e-2}) for one in usual]
    folder = built(tmp_path, [*usual, *loose, *site_records.sweep("pdlp", speed=2.0)])
    tab = visit(folder, CONTEST + "#method=batched_pdhg&given=tolerance+0.01")
    shown = tab.locator(".view:visible").last
    assert shown.get_attribute("data-given") == "tolerance 0.01"
    assert "cpu, 2 threads, tolerance 0.01" in shown.text_content()  # out of sight, it is not laid out yet


def test_the_history_opens_from_a_file(tmp_path, visit):
    """asv's own page: its overview, then the graph of one benchmark, and the way back."""
    repository = pathlib.Path(build.__file__).parents[2]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repository, capture_output=True, text=True)
    if head.returncode:
        pytest.skip("a history needs a git repository")
    folder = built(tmp_path, site_records.sweep())
    store = Store(tmp_path / "results")
    for one in site_records.sweep()[:4]:
        store.append(dataclasses.replace(one, commit=head.stdout.strip()[:12]))
    history.publish(store, folder, repository)
    tab = visit(folder, "history/index.html")
    tab.locator("#summarygrid-display .benchmark-plot, #summarygrid-display a").first.wait_for()
    assert "StrongBranching.track_ratio" in tab.locator("#summarygrid-display").inner_text()
    tab.goto(f"{folder.as_uri()}/{history.links(folder)[site_records.CONTEST]}")
    tab.reload()
    tab.locator("#main-graph canvas").first.wait_for()
    assert "batched_pdhg" in tab.locator("#graphdisplay-navigation").inner_text()
    tab.locator("a", has_text="Leaderboard").click()
    tab.wait_for_url("**/site/index.html")


# -- anybody, anywhere ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def axe() -> str:
    package = pytest.importorskip("axe_core_python", reason="axe-core finds what assistive technology stumbles over")
    return next(pathlib.Path(package.__path__[0]).rglob("axe.min.js")).read_text(encoding="utf-8")


def pages_of(folder: pathlib.Path) -> list[str]:
    """The contest that has everything, and one of each other kind of page; of the documents, one."""
    kinds = {"contests": CONTEST}
    for name in (folder / build.LIST).read_text().splitlines():
        if name.endswith(".html") and name not in ("bias.html", "extending.html"):
            kind = name.split("/")[0] if "/" in name or name in FRONT else "document"
            kinds.setdefault(kind, name)
    return list(kinds.values())


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 375)])
def test_axe_finds_no_serious_fault(site, visit, axe, theme, width):
    tab = visit(site, "index.html", theme=theme, width=width)
    for page in pages_of(site):
        tab.goto(f"{site.as_uri()}/{page}")
        tab.evaluate(axe)
        found = tab.evaluate("axe.run({ resultTypes: ['violations'] })")
        told = [
            (one["id"], one["impact"], one["nodes"][0]["html"][:200], len(one["nodes"])) for one in found["violations"]
        ]
        assert [one for one in told if one[1] in ("serious", "critical")] == [], page


def test_no_page_is_wider_than_its_window(site, visit):
    tab = visit(site, "index.html")
    for page in pages_of(site):
        tab.goto(f"{site.as_uri()}/{page}")
        for width in (375, 800, 1400):
            tab.set_viewport_size({"width": width, "height": 900})
            assert tab.evaluate("document.documentElement.scrollWidth") <= width, page


def test_hostile_names_change_nothing_but_text(tmp_path, visit):
    folder = built(tmp_path, site_records.hostile())
    tab = visit(folder, "index.html", width=375)
    own = ("contests", "methods", "records", "machines")
    for page in (folder / build.LIST).read_text().splitlines():
        if page.endswith(".html") and (page.split("/")[0] in own or page in FRONT):
            tab.goto(f"{folder.as_uri()}/{page}")
            assert tab.evaluate("document.documentElement.scrollWidth") <= 375, page
            foreign = "script:not([src]), img, iframe, object, [onload], [onerror], [onclick]"
            assert tab.locator(foreign).count() == 0
    tab.goto(f"{folder.as_uri()}/index.html")
    other = visit(folder, "index.html")
    for option in tab.locator("#ask-problem option").evaluate_all("all => all.map((one) => one.value)"):
        assert ask(tab, problem=option)
        other.goto(folder.as_uri() + "/index.html#" + tab.url.split("#")[1])
        other.reload()
        assert answer(other) == answer(tab)
    tab.goto(f"{folder.as_uri()}/{CONTEST}")
    for cell in tab.locator(".view:visible .cell").all():
        cell.focus()
        assert tab.locator(".card:visible .where").inner_text()
    assert tab.locator(".card script").count() == 0


# -- size -------------------------------------------------------------------------------------------------------------


def test_a_contest_of_20000_records_is_usable_at_once(tmp_path, visit, monkeypatch):
    """How long it takes is told by a benchmark beside the harness's; held here is what time depends on."""
    records = site_records.many()
    assert len(records) == 20_000
    monkeypatch.setattr(build, "_record_pages", lambda section: iter(()))  # they are many, and each is small
    folder = built(tmp_path, records)
    page = "contests/synthetic-many.html"
    assert (folder / page).stat().st_size < 3_000_000
    assert (folder / "index.html").stat().st_size < 300_000
    tab = visit(folder, page)
    site_records.use_many(tab)
    assert tab.evaluate("document.getElementsByTagName('*').length") < 40_000
    whole = visit(
        folder,
        tab.locator(".view:visible .links a", has_text="the whole map").get_attribute("href").removeprefix("../"),
    )
    assert whole.locator(".cell").count() == 2_000
    assert whole.evaluate("document.getElementsByTagName('*').length") < 10_000
    front = visit(folder, "index.html")
    assert ask(front, problem="problem100", size="20")
