"""How soon a large contest's page can be used: ``tox -e kernels -- tests/test_site_benchmark.py``.

Aimed at are 2 s for 20,000 records, from opening the page to reading a cell's figures and sorting the ranking; the limit beside
it is the same browser's time for an empty page.
"""

import pathlib
import shutil
import statistics
import timeit

import pytest
import site_records

from breakeven.records import Store
from breakeven.site import build, picture

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on PATH; Debian has one: apt-get install chromium"
)


@pytest.fixture
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(tmp_path, monkeypatch) -> pathlib.Path:
    store, records = Store(tmp_path / "results"), site_records.many()
    assert len(records) == 20_000
    store.newest = lambda: records  # writing them safely takes longer than showing them
    monkeypatch.setattr(picture, "png", lambda svg: b"")
    monkeypatch.setattr(build, "_record_pages", lambda section: iter(()))  # they are many, and each is small
    return build.build(store, tmp_path / "site", listings=[]).parent / "contests" / "synthetic-many.html"


@pytest.mark.benchmark(group="site")
def test_a_contest_of_20000_records_is_usable(benchmark, browser, page):
    def use():
        tab = browser.new_page()
        tab.goto(page.as_uri())
        site_records.use_many(tab)
        tab.close()

    def open_nothing():
        tab = browser.new_page()
        tab.goto("about:blank")
        tab.close()

    benchmark.pedantic(use, rounds=5, warmup_rounds=1)
    benchmark.extra_info["limit_seconds"] = statistics.median(timeit.repeat(open_nothing, number=1, repeat=5))
