"""The leaderboard says everything that the records say, obeys nothing that they contain, and asks no server but its own."""

import collections
import dataclasses
import html.parser
import io
import json
import pathlib
import re
import xml.etree.ElementTree

import matplotlib.image
import numpy
import pandas
import pytest
import site_records

from breakeven import devices, registry, report, winmap
from breakeven.benchmarks.lp import FLOOR
from breakeven.contract import PEAK_BYTES, BadInput, Metric
from breakeven.records import Block, Store, current
from breakeven.site import build, contests, documents, front, machines, methods, picture, plots, scales
from breakeven.site.names import Names


def listing(name: str, file: str = "", **facts) -> registry.Listing:
    return registry.Listing(registry.Entry("method", "lp", name, f"made_up.{name}", file), **facts)


LISTINGS = [
    listing(
        "batched_pdhg", title="Batched PDHG", paper="arXiv:2601.21990", derived="its step sizes, from the abstract"
    ),
    listing(
        "simplex",
        title="Dual simplex",
        paper="a book <of> old",
        functions={
            "LPBatch": {
                "variants": {"primal": {"way": "primal"}},
                "options": {"way": "dual", "<b>": 1},
                "faults": "wrong where a <bound> is infinite",
            }
        },
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


class Site:
    """All pages of a site by their files."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.pages = {
            file.relative_to(folder).as_posix(): Page(file.read_text(encoding="utf-8"))
            for file in sorted(folder.rglob("*.html"))
        }
        self.front = self.pages["index.html"]
        # The project's own documents are not made from records.
        prose = {document.page for document in documents.documents()}
        self.made = {name: page for name, page in self.pages.items() if name not in prose}
        self.text = " ".join(page.text for page in self.made.values())

    @property
    def data(self) -> dict:
        """What the form looks up; strict, as NaN is no JSON."""
        text = (self.folder / "data.js").read_text(encoding="utf-8")
        return json.loads(text.removeprefix("window.breakeven = ").removesuffix(";\n"), parse_constant=pytest.fail)

    def contest(self, name: str = "lp-strong_branching") -> Page:
        return self.pages[f"contests/{name}.html"]


def made(folder: pathlib.Path, records, listings=LISTINGS, *, drawn: bool = False, **options) -> Site:
    """A site of its own; without ``drawn`` its PNG are empty, since drawing them is most of the work of a build."""
    store = Store(folder / "results")
    for record in records:
        store.append(record)
    with pytest.MonkeyPatch.context() as patch:
        if not drawn:
            patch.setattr(picture, "png", lambda svg: b"")
        build.build(store, folder / "site", listings=listings, **options)
    return Site(folder / "site")


@pytest.fixture(scope="module")
def records():
    return [
        *site_records.sweep(),
        *site_records.sweep("pdlp:fast", speed=3.0, threads=1),
        *site_records.against_itself(),
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory, records):
    return made(tmp_path_factory.mktemp("site"), records, drawn=True)


# -- what stands on it ------------------------------------------------------------------------------------------------


def test_nothing_is_asked_of_another_server(site):
    for name, page in site.pages.items():
        loads = [
            value
            for tag, attribute, value in page.attributes
            if attribute in ("src", "srcset", "poster", "data")
            or (tag in ("link", "use", "image") and attribute == "href")
        ]
        assert loads
        assert all(value.startswith("data:") or re.fullmatch(r"[a-z./_]+(\?[0-9a-f]+)?", value) for value in loads), (
            name
        )
        (policy,) = [value for value in page.values("content") if "default-src" in value]
        assert "default-src 'none'" in policy
        assert "http" not in policy
    for asset in build.ASSETS:
        assert not re.search(
            r"https?:|@import|url\(|fetch\(|XMLHttpRequest|import\(|eval\(|innerHTML", (build.HERE / asset).read_text()
        )


def test_links_lead_somewhere(site):
    ids = {name: page.values("id") for name, page in site.pages.items()}
    for name, page in site.pages.items():
        assert len(ids[name]) == len(set(ids[name])), name
        for tag, attribute, value in page.attributes:
            if attribute not in ("href", "src") or value.startswith(("https:", "data:")):
                continue
            path, _, anchor = value.partition("#")
            target = (site.folder / name).parent.joinpath(path.split("?")[0]).resolve() if path else site.folder / name
            assert target.is_file(), (name, tag, value)
            if anchor:
                assert anchor in ids[target.relative_to(site.folder.resolve() if path else site.folder).as_posix()], (
                    name,
                    value,
                )
    assert "https://arxiv.org/abs/2601.21990" in site.pages["methods/lp-batched_pdhg.html"].values("href")


def test_every_record_has_its_place_and_its_command(site, records, tmp_path):
    shown = [value for name, page in site.pages.items() if name.startswith("records/") for value in page.values("id")]
    assert len([value for value in shown if re.fullmatch(r"r-[a-z0-9_-]+", value) and not value.endswith("-t")]) == len(
        records
    )
    for record in records:
        assert record.command in site.text
    made(tmp_path, records[:1])
    assert records[0].key in (tmp_path / "site" / "records.csv").read_text()


def test_records_of_a_large_view_stand_on_several_pages(tmp_path, monkeypatch):
    monkeypatch.setattr(contests, "PER_PAGE", 10)
    some = site_records.sweep()[:25]
    site = made(tmp_path, some)
    pages = [page for name, page in site.pages.items() if name.startswith("records/")]
    assert sorted(page.tags.count("article") for page in pages) == [5, 10, 10]
    cells = [
        value
        for tag, name, value in site.contest().attributes
        if name == "href" and "records/" in value and "#r-" in value
    ]
    assert len(set(cells)) == 25


def test_the_front_page_has_every_verdict_without_a_script(site, records):
    text = (site.folder / "index.html").read_bytes()
    assert len(text) < 300_000
    answer = report.contest_report(contests.known()[site_records.CONTEST], records)
    (section,) = contests.sections(records, {"records": Names(), "plots": Names()}, {})
    (card,) = front.cards([section])
    assert card.view is section.views[0]
    assert card.verdict in site.front.text
    for other, said in card.others:
        assert said in site.front.text
        assert other.method != card.view.method
    assert answer.contest.question in site.front.text
    assert site.front.tags.count("svg") == 2  # the brand's and the map


def test_a_method_that_was_hardly_measured_does_not_speak_for_the_contest(tmp_path):
    whole = site_records.sweep()
    quicker = [dataclasses.replace(one, key=f"q{one.key}") for one in site_records.sweep("pdlp", speed=9.0)]
    site = made(tmp_path / "few", [*whole, *quicker[:2]])
    assert site.front.text.index("batched_pdhg overtakes") < site.front.text.index("pdlp: ")
    site = made(tmp_path / "all", [*whole, *quicker])
    assert "pdlp: " not in site.front.text  # it leads now


def test_a_verdict_tells_the_break_even_with_its_interval(tmp_path):
    def line(times):
        return [site_records.record(m, b, batch=batch, instance="10teams") for batch, (m, b) in times.items()]

    crossing = line({1: (0.02, 0.01), 4: (0.025, 0.02), 16: (0.03, 0.06), 64: (0.05, 0.2)})
    site = made(tmp_path, crossing)
    said = re.search(
        r"batched_pdhg overtakes simplex at batch ([\d.]+) \[([\d.]+), ([\d.]+)\] on 10teams\.", site.front.text
    )
    size, low, high = (float(text) for text in said.groups())
    assert 4 < low < size < high < 16
    winner = made(tmp_path / "other", line({1: (0.02, 0.01), 4: (0.04, 0.02)}))
    assert "simplex is faster at batch 1 to 4." in winner.front.text
    ties = made(tmp_path / "ties", line({1: (0.01, 0.01), 4: (0.02, 0.02)}))
    assert "A tie at batch 1 to 4." in ties.front.text
    assert "Nobody wins in 2 cells: ties in 2." in ties.contest().text


def test_the_verdicts_are_those_of_the_report(site, records):
    contest = contests.known()[site_records.CONTEST]
    answer = report.contest_report(contest, records)
    told = [one for one in answer.lines if one.break_even.kind in ("crosses", "wins", "loses", "tie", "several")]
    assert told
    page = site.contest()
    for one in told:
        said = one.sentence.removeprefix(f"{one.place}: ")
        assert said in page.text
    noise = report.noise_sentence(answer.noise_floor, answer.false_alarms).removeprefix("machine: ")
    assert noise[1:] in page.text
    for record, verdict in zip(answer.records, answer.verdicts, strict=True):
        assert report.effect_text(verdict) in site.text, record.key
    assert re.search(r"batched_pdhg is faster in \d+ of \d+ cells, simplex in \d+\.", page.text)


def test_what_did_not_end_well_is_shown_with_its_reason(site):
    for words in (
        "relative_kkt is 0.0123, limit 0.0001",
        "one call took longer than 30 s",
        "no fractional variable at the root",
        "the worker died: signal 11",
        "Segmentation fault",
        "limit 30 s",
    ):
        assert words in site.contest().text
    for ending in ("wrong", "time-out", "unsupported", "crash"):
        assert ending in site.contest().text


def test_a_method_page_tells_what_was_derived_its_options_and_where_it_wins(site):
    page = site.pages["methods/lp-batched_pdhg.html"]
    assert "Derived here: its step sizes, from the abstract" in page.text
    assert "overtakes simplex" in page.text
    baseline = site.pages["methods/lp-simplex.html"].text
    assert "a book <of> old" in baseline
    assert "Known fault: wrong where a <bound> is infinite" in baseline
    assert "It is the baseline of lp/strong_branching" in baseline
    assert "<b>11" in baseline  # its default, and what the variant leaves
    assert "simplex:primal" in baseline
    assert "This version does not know it any more" in site.pages["methods/lp-pdlp.html"].text


def test_a_method_page_has_the_paper_s_claim_beside_what_was_measured(tmp_path):
    file = pathlib.Path(registry.__file__).parents[1] / "methods" / "lp" / "batched_pdhg.py"
    entry = listing("batched_pdhg", str(file))
    told = methods.claims(file.with_name(methods.CLAIMS))["batched_pdhg"]
    names = ("amd-epyc-2c-24g-aaaaaa", "amd-epyc-4c-24g-bbbbbb")
    site = made(tmp_path, [site_records.record(0.1, 0.2, machine=name) for name in names], [entry])
    page = site.pages["methods/lp-batched_pdhg.html"]
    claim = page.text.index(told.claim)
    assert told.source in page.text
    assert page.text.index("batched_pdhg is faster at", claim) < page.text.index("Where it wins")
    claimed = page.text[claim : page.text.index("Where it wins")]
    assert claimed.count("batched_pdhg is faster at") == 1  # the same on both machines, told once
    assert "2 threads, 2-core amd epyc, 24 GiB; cpu, 2 threads, 4-core amd epyc, 24 GiB." in claimed
    bare = made(tmp_path / "bare", [site_records.record(0.1, 0.2, name="other")], [entry])
    assert "lp/strong_branching: not measured yet" in bare.pages["methods/lp-batched_pdhg.html"].text


def test_every_claim_has_a_method_a_source_and_contests_that_exist():
    known = {entry.path: entry for entry in registry.entries() if entry.role == "method"}
    found = {}
    for file in pathlib.Path(registry.__file__).parents[1].glob(f"methods/*/{methods.CLAIMS}"):
        for name, claim in methods.claims(file).items():
            found[f"{file.parent.name}/{name}"] = claim
            assert set(claim.contests) <= set(contests.known())
            year_or_number = re.search(r"\d{4}(\.\d{5})?", claim.source)[0]
            assert year_or_number in pathlib.Path(known[f"{file.parent.name}/{name}"].file).read_text()
    papers = {"lp/batched_pdhg", "bayesopt/turbo_enn", "quantization/yaqa", "quantization/osaq"}
    assert papers | {"gromov_wasserstein/lifted_gw", "gromov_wasserstein/srgw"} <= set(found)


@pytest.mark.parametrize("text", ["[a]\nclaim = 'x'", "[a]\nclame = 'x'", "a = 1", "["])
def test_a_claim_without_a_source_is_refused(tmp_path, text):
    (tmp_path / methods.CLAIMS).write_text(text)
    with pytest.raises(BadInput, match="each method has `claim` and `source`"):
        methods.claims(tmp_path / methods.CLAIMS)
    assert methods.claims(tmp_path / "none.toml") == {}


def test_a_method_page_shows_the_source_and_links_to_it(tmp_path):
    file = pathlib.Path(registry.__file__).parents[1] / "methods" / "lp" / "batched_pdhg.py"
    site = made(
        tmp_path,
        [site_records.record(0.1, 0.2)],
        [listing("batched_pdhg", str(file))],
        source_url="https://example.org/tree/",
    )
    page = site.pages["methods/lp-batched_pdhg.html"]
    assert "https://example.org/tree/methods/lp/batched_pdhg.py" in page.values("href")
    assert "def solve(" in page.text
    assert "What it is" in page.text


def test_a_machine_page_tells_its_noise_and_its_false_alarms(site, records, tmp_path):
    (name,) = [name for name in site.pages if name.startswith("machines/")]
    page = site.pages[name]
    floor = winmap.noise_floor(records)
    assert f"differences under {floor:.0%} are noise here" in page.text
    assert "0 of 6 times that the baseline stood against itself" in page.text
    assert "the true rate is below 39% with 95 % confidence" in page.text  # 1 - 0.05 ** (1 / 6)
    assert "doctor --save" in page.text
    folder = tmp_path / "results" / site_records.MACHINE
    folder.mkdir(parents=True)
    said = {
        "machine": site_records.MACHINE,
        "title": "Two <cores>",
        "cpu": "made up",
        "gpus": [],
        "limits": {"cpu": {"copy_gb_per_s": 12.345}, "gpu": 3},
        "timer_seconds": "soon",
        "findings": [{"about": "steal", "level": "good", "text": "none <b>at</b> all"}, "odd", {"about": "half"}],
    }
    (folder / machines.DOCTOR).write_text(json.dumps(said))
    told = made(tmp_path, records[:3])
    assert re.search(r"Copying memory, GB/s\s*12.3", told.pages[name].text)
    assert "steal good none <b>at</b> all" in told.pages[name].text
    assert "Two <cores>" in told.front.text


def test_the_machine_s_limit_is_drawn_where_it_is_near_and_told_where_it_is_not(tmp_path):
    folder = tmp_path / "results" / site_records.MACHINE
    folder.mkdir(parents=True)
    for rate, drawn in ((1e-4, True), (1.0, False)):
        limits = {"cpu": {"read_gb_per_s": {"65536": rate}}}
        (folder / machines.DOCTOR).write_text(json.dumps({"machine": site_records.MACHINE, "limits": limits}))
        cells = [
            site_records.record(time, 4 * time, batch=batch, problem=problem)
            for batch, time in ((1, 0.0048), (4, 0.0096))
            for problem in [{"name": "10teams", "nonzeros": 10, "children": batch, "columns": 10 / batch}]
        ]
        site = made(tmp_path, cells)
        (page,) = [page for name, page in site.pages.items() if name.startswith("contests/")]
        assert (("polyline", "class", "floor") in page.attributes) == drawn
        (told,) = re.findall(r"The faster side takes ([\d,.]+) to ([\d,.]+) times the machine's limit", page.text)
        least = 200e-9 / rate  # 120 bytes of the matrix and 80 of solutions
        assert [float(one.replace(",", "")) for one in told] == pytest.approx([0.0048 / least, 0.0096 / least], rel=0.1)
        assert f"the time in which {FLOOR.about}, at the rates" in page.text
        (record,) = [page for name, page in site.pages.items() if name.startswith("records/")]
        assert "machine's limit" in record.text


def test_rows_that_differ_in_a_number_stand_in_its_order():
    names = ["f 2, d 10", "f 2, d 9", "f", "f 10, d 0.1", "f 10, d 0.05", "2 f", "", "f ²"]
    assert sorted(names, key=contests.natural) == [
        "", "2 f", "f", "f 2, d 9", "f 2, d 10", "f 10, d 0.05", "f 10, d 0.1", "f ²",
    ]  # fmt: skip


def test_machines_have_their_own_names_in_the_navigation_even_where_their_titles_are_alike(tmp_path):
    names = ("amd-epyc-2c-24g-aaaaaa", "amd-epyc-2c-24g-bbbbbb", "amd-epyc-4c-24g-cccccc")
    site = made(tmp_path, [site_records.record(0.01, 0.02, machine=name) for name in names])
    told = site.front.text.partition(" Methods ")[2].partition(" Downloads ")[0]
    alike = "2-core amd epyc, 24 GiB"
    assert told.split(" 4-core ") == [f"{alike} ({names[0]}) {alike} ({names[1]})", "amd epyc, 24 GiB"]


def test_a_map_has_a_column_of_the_rows_sizes_unless_their_names_tell_them(site, tmp_path):
    assert "by" in " ".join(site.contest().values("class")).split()
    cells = [
        dataclasses.replace(one, sizes={"nonzeros": one.problem["nonzeros"], "batch": one.sizes["batch"]})
        for one in site_records.sweep()
    ]
    page = made(tmp_path, cells).contest()
    assert "nonzeros 2053" in page.text
    assert "Rows grow in nonzeros" in page.text
    assert "by" not in " ".join(page.values("class")).split()


def test_equals_of_each_number_of_threads_have_their_pages(tmp_path):
    """A machine that was measured with one thread, and later with all: what stood against itself is shown of both."""
    cells = [
        one
        for threads in (1, 2)
        for one in (*site_records.sweep(threads=threads), *site_records.against_itself(2 + threads, threads=threads))
    ]
    cells = [dataclasses.replace(one, key=f"{place}") for place, one in enumerate(cells)]
    site = made(tmp_path, cells)
    (machine,) = [name for name in site.pages if name.startswith("machines/")]
    assert "3 + 4" in site.pages[machine].text
    equals = {name: page.text for name, page in site.pages.items() if "simplex against itself" in page.text}
    assert sorted(text.count("breakeven run") for text in equals.values()) == [3, 4]
    assert any("1 thread," in text for text in equals.values())


@pytest.mark.parametrize("text", ["{", "[]", '{"machine": "another"}'])
def test_what_a_machine_is_said_to_be_is_not_believed_of_another(tmp_path, text):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / machines.DOCTOR).write_text(text)
    assert machines._doctor(tmp_path, "m") == {}


def test_machines_have_names_for_people():
    assert machines.title("amd-epyc-7b13-8c-32g-0123ab") == "8-core amd epyc 7b13, 32 GiB"
    assert machines.title("intel-xeon-16c-128g-nvidia-h200-0123ab") == "16-core intel xeon, 128 GiB + nvidia h200"
    assert machines.title("anything else") == "anything else"
    assert machines.title(devices.this_machine().name) == devices.this_machine().title


def test_all_records_can_be_taken_away(site, records):
    csv = pandas.read_csv(site.folder / "records.csv")
    parquet = pandas.read_parquet(site.folder / "records.parquet")
    assert len(csv) == len(parquet) == len(records)
    assert list(csv.columns) == list(parquet.columns)
    assert set(parquet["key"]) == {record.key for record in records}
    assert parquet["ratio"].to_numpy() == pytest.approx(csv["ratio"].to_numpy(), nan_ok=True)


def test_columns_of_numbers_and_words_can_be_written():
    table = pandas.DataFrame(
        {"size_bits": [2, "mixed", None], "size_rows": [1, 2.5, None], "ratio": [0.5, numpy.nan, 2.0]}, dtype=object
    )
    read = pandas.read_parquet(io.BytesIO(report.TABLE_FORMATS[".parquet"](table)))
    assert read["size_bits"].tolist()[:2] == ["2", "mixed"]
    assert read["size_rows"].tolist()[:2] == [1.0, 2.5]


def test_every_plot_is_a_picture_by_itself(site):
    pictures = sorted((site.folder / "plots").glob("*.svg"))
    on = [page for name, page in site.pages.items() if name.split("/")[0] in ("contests", "pairs")]
    drawn = sum(page.values("class").count("plot") for page in on)
    views = sum(page.values("class").count("view") for page in on)
    assert len(pictures) == drawn + views
    for file in pictures:
        raster = matplotlib.image.imread(file.with_suffix(".png"))
        assert numpy.unique(raster[..., 0]).size > 10  # something is drawn
        root = xml.etree.ElementTree.fromstring(file.read_bytes())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.find("{http://www.w3.org/2000/svg}title").text
        width, height = (round(float(root.get(side))) for side in ("width", "height"))
        assert raster.shape[:2] == (height, width)
        assert "var(" not in file.read_text()  # drawing programs know no variables
    for ending in (".svg", ".png"):
        offered = {value for value in site.pages["downloads.html"].values("href") if value.endswith(ending)}
        assert offered == {f"plots/{file.stem}{ending}" for file in pictures}


def test_rows_that_differ_have_names_that_differ():
    def layer(columns, seed=0, **sizes):
        one = site_records.record(0.1, 0.2, seed=seed)
        return dataclasses.replace(
            one,
            key=f"{sizes}{columns}",
            sizes={"columns": columns, **sizes},
            dataset="made_up",
            problem={"name": "same"},
        )

    wanted = [
        {"spectrum": "flat", "output": "flat"},
        {"spectrum": "flat", "output": "steep"},
        {"spectrum": "steep", "output": "flat"},
        {"spectrum": "steep"},
        {"spectrum": "steep", "rate": 0.5},
        {"rate": 0.5},
    ]
    records = [layer(columns, **sizes) for sizes in wanted for columns in (8, 16)]
    (section,) = contests.sections(records, collections.defaultdict(Names), {})
    (view,) = section.views
    names = [row.name for row in view.rows]
    assert len(set(names)) == len(wanted)
    assert "output flat, spectrum steep" in names
    assert "steep, rate 0.5" in names


def test_lines_of_two_data_sets_are_told_apart_where_they_are_called_alike():
    def line(dataset, instance):
        sizes = [{"instance": instance, "batch": batch} for batch in (1, 4)]
        one = site_records.record(0.1, 0.2)
        return [dataclasses.replace(one, key=f"{dataset}{instance}{s}", dataset=dataset, sizes=s) for s in sizes]

    answer = report.contest_report(
        contests.known()[site_records.CONTEST],
        [*line("blobs", "flat"), *line("spirals", "flat"), *line("blobs", "steep")],
    )
    places = [one.place.removeprefix("batched_pdhg on ") for one in answer.lines]
    assert sorted(places) == ["blobs flat", "spirals flat", "steep"]
    assert all(one.sentence.startswith(f"{one.place}: ") for one in answer.lines)


def test_a_size_that_was_not_asked_for_stands_in_the_column_that_the_problem_has():
    asked = site_records.record(0.1, 0.2, batch=16)
    read = dataclasses.replace(asked, key="read", sizes={"instance": "other"}, problem={"name": "other", "batch": 16})
    (section,) = contests.sections([asked, read], collections.defaultdict(Names), {})
    assert section.views[0].columns == ("16",)


def test_records_with_another_tolerance_are_a_section_of_their_own(tmp_path, records):
    loose = [dataclasses.replace(one, key=f"{one.key}-loose", given={"tolerance": 1e-2}) for one in records[:8]]
    both = contests.sections([*records, *loose], collections.defaultdict(Names), {})
    assert [section.given for section in both] == ["", "tolerance 0.01"]
    assert [len(section.records) for section in both] == [len(records), len(loose)]
    site = made(tmp_path, [*records, *loose])
    assert ", with tolerance 0.01" in site.contest().text
    assert "tolerance 0.01" in site.contest().values("data-given")
    (machine,) = site.data["contests"][0]["machines"]
    assert "cpu, 2 threads, tolerance 0.01" in {view["setting"] for view in machine["views"]}


def test_two_methods_are_compared_over_all_sizes_on_a_page_of_their_own(tmp_path):
    fast = site_records.sweep("pdlp:fast", speed=3.0)
    site = made(tmp_path, [*site_records.sweep(), *fast])
    (name,) = [name for name in site.pages if name.startswith("pairs/")]
    page = site.pages[name]
    assert "pdlp:fast against batched_pdhg" in page.text
    assert f"../{name}" in site.contest().values("href")
    (section,) = contests.sections([*site_records.sweep(), *fast], collections.defaultdict(Names), {})
    (pair,) = section.pairs
    assert (pair.view.method, pair.view.baseline) == ("pdlp:fast", "batched_pdhg")
    compared = [detail for detail in pair.view.details if detail.verdict.ratio]
    assert len(compared) > 10
    for detail in compared:
        assert report.effect_text(detail.verdict).split(" ")[0] in page.text.replace("×", "")
        assert f"../{detail.address}" in page.values("href")


def test_tables_can_be_sorted_and_views_picked(site):
    page = site.contest()
    assert page.values("data-name") == ["rank"]
    assert page.text.count("against simplex, cpu, 2 threads") == 1
    assert page.text.count("against simplex, cpu, 1 thread") == 1


def test_the_data_of_the_form_are_those_of_the_records(site, records):
    (contest,) = site.data["contests"]
    assert (contest["axis"], contest["by"], contest["metric"]["unit"]) == ("batch", "nonzeros", "s")
    (machine,) = contest["machines"]
    (view,) = [view for view in machine["views"] if view["method"] == "batched_pdhg"]
    (problem,) = [one for one in view["problems"] if one["name"] == "10teams"]
    own = {
        r.sizes["batch"]: r for r in records if r.sizes.get("instance") == "10teams" and r.method.name == "batched_pdhg"
    }
    assert problem["size"] == 12150
    assert [point[0] for point in problem["points"]] == sorted(own)
    for x, kind, method, baseline, effect, *statuses in problem["points"]:
        verdict = winmap.verdict(own[x])
        assert {"method": -1, "baseline": 1}.get(kind, 0) == verdict.sign
        assert method[0] == pytest.approx(verdict.method_seconds, rel=1e-3)
        assert method[1] <= method[0] <= method[2]
        assert baseline[0] == pytest.approx(verdict.baseline_seconds, rel=1e-3)
        assert effect == pytest.approx([verdict.ratio, verdict.low, verdict.high], rel=1e-3)
        assert statuses == ["ok", "ok"]
    (lost,) = [one for one in view["problems"] if one["name"] == "mkc"]
    assert {point[5] for point in lost["points"]} == {"timeout", "crash", "ok"}
    assert all(point[2] is None for point in lost["points"] if point[5] != "ok")


# -- what it withstands -----------------------------------------------------------------------------------------------


def test_names_change_nothing_but_text(tmp_path, site):
    hostile = made(tmp_path, site_records.hostile())
    for text in site_records.HOSTILE:
        plain = re.sub(r"\s+", " ", text.encode("utf-8", "replace").decode())
        assert plain in hostile.text
    known = {tag for page in site.pages.values() for tag in page.tags}
    for name, page in hostile.pages.items():
        assert page.tags.count("script") == (3 if name == "index.html" else 1), name
        assert not [attribute for _, attribute, _ in page.attributes if attribute.startswith("on")]
        assert set(page.tags) <= known
        assert all(re.fullmatch(r"[a-z0-9_-]+", value) for value in page.values("id"))
        assert re.fullmatch(r"[a-z0-9_./-]+", name)
    assert "49" not in [word.strip("{} ") for word in hostile.text.split() if "7" in word]
    assert "<" not in (hostile.folder / "data.js").read_text()
    for file in (hostile.folder / "plots").glob("*.svg"):
        tags = {element.tag.split("}")[1] for element in xml.etree.ElementTree.fromstring(file.read_bytes()).iter()}
        assert tags <= {"svg", "title", "style", "rect", "text", "path", "g", "circle", "polyline"}


def test_every_contest_has_its_pages_whatever_its_axes_and_its_metric(tmp_path):
    sweeps = registry.sweeps()
    records = [one for sweep in sweeps for one in site_records.of_contest(sweep)]
    site = made(tmp_path, records, listings=[])
    for sweep in sweeps:
        contest = sweep.contest
        page = site.contest(contest.path.replace("/", "-"))
        assert contest.question in page.text
        assert contest.question in site.front.text
        assert "cell" in " ".join(page.values("class"))
        assert ("faster" in page.text) == contest.rank_by.is_time, contest.path
        assert ("wall-clock" in page.text) == contest.rank_by.is_time
    assert len(site.data["contests"]) == len(sweeps)
    assert all(one["by"] != one["axis"] for one in site.data["contests"])


def test_a_map_has_two_axes_where_the_columns_are_not_the_contest_s_last(records):
    """Tokens are read off the problem, so bits make the columns: they cannot be what rows grow in as well."""
    (sweep,) = (one for one in registry.sweeps() if one.contest.path == "quantization/model_kl")
    cells = site_records.of_contest(sweep)
    assert report.map_axes(sweep.contest, cells) == ("tokens", "bits")
    (usual,) = (one for one in registry.sweeps() if one.contest.path == site_records.CONTEST)
    assert report.map_axes(usual.contest, records) == ("nonzeros", "batch")
    one_axis = dataclasses.replace(usual.contest, axes=("batch",))
    assert report.map_axes(one_axis, records) == ("", "batch")


def test_two_names_that_look_alike_have_files_of_their_own():
    names = Names()
    made_up = [
        names.make(text) for text in ("a b", "a/b", "a-b", "A B", "a-b-2", "\u05e9", "\u05dc", "x" * 300, "x" * 400)
    ]
    assert len(set(made_up)) == len(made_up)
    assert all(re.fullmatch(r"[a-z0-9_-]{1,104}", name) for name in made_up)


def test_an_empty_store_says_how_to_measure(tmp_path):
    empty = made(tmp_path, [], listings=None)
    assert "Nothing has been measured yet" in empty.front.text
    assert "breakeven run lp/strong_branching" in empty.front.text
    assert not (tmp_path / "site" / "records.csv").exists()


def test_contests_and_methods_that_are_not_known_any_more_are_shown(tmp_path):
    old = dataclasses.replace(site_records.record(0.1, 0.2), contest="gone/by", key="old")
    no_sizes = dataclasses.replace(old, contest="gone/sizeless", key="older", sizes={}, problem={})
    shown = made(tmp_path, [old, no_sizes], listings=[])
    assert "gone/by" in shown.front.text
    assert "gone/sizeless" in shown.front.text
    assert {"contests/gone-by.html", "contests/gone-sizeless.html"} <= set(shown.pages)


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
    records = [odd, dataclasses.replace(odd, key="infinite", seed=1, problem={"nonzeros": float("inf")})]
    for seed, iterations in enumerate((3.0, 10.0, 40.0), 2):
        side = dataclasses.replace(odd.method, claims={"iterations_median": iterations})
        base = dataclasses.replace(side, name="simplex")
        records.append(dataclasses.replace(odd, key=f"{seed}", seed=seed, method=side, baseline=base))
    shown = made(tmp_path, records)
    (machine,) = [page for name, page in shown.pages.items() if name.startswith("machines/")]
    assert "100% of 5 blocks" in machine.text
    assert "relative_kkt undefined (limit" in shown.text
    assert "What decides: the work needed" in shown.contest().text
    assert shown.data["contests"]


def test_no_work_is_plotted_without_claims_or_where_a_side_always_needs_the_same(tmp_path):
    assert "What decides: the work" not in made(tmp_path, [site_records.record(0.1, 0.2)]).text
    told = []
    for seed in range(6):
        one = site_records.record(0.1, 0.2)
        sides = [
            dataclasses.replace(side, claims={"iterations_median": float(count)})
            for side, count in ((one.method, seed), (one.baseline, 3))
        ]
        told.append(dataclasses.replace(one, key=f"{seed}", seed=seed, method=sides[0], baseline=sides[1]))
    assert "What decides: the work" not in made(tmp_path, told).text


def test_a_record_of_older_code_is_superseded(tmp_path):
    new = dataclasses.replace(site_records.record(0.1, 0.2), key="new", started_at="2026-02-01T00:00:00+00:00")
    old = dataclasses.replace(site_records.record(0.4, 0.2), key="old")
    assert current([old, new]) == current([new, old]) == [new]
    shown = made(tmp_path, [new, old])
    assert "All 2 records, one row each; 1 of them" in shown.pages["downloads.html"].text
    assert (tmp_path / "site" / "records.csv").read_text().count("batched_pdhg,simplex") == 2


def test_the_same_records_give_the_same_bytes_and_what_stands_beside_them_stays(tmp_path, records):
    history = tmp_path / "site" / "history"
    history.mkdir(parents=True)
    (history / "index.html").write_text("asv's own")
    made(tmp_path, records[:30])

    def contents():
        return {file: file.read_bytes() for file in (tmp_path / "site").rglob("*") if file.is_file()}

    first = contents()
    store = Store(tmp_path / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(picture, "png", lambda svg: b"")
        build.build(store, tmp_path / "site", listings=LISTINGS)
    assert contents() == first
    assert first[history / "index.html"] == b"asv's own"
    assert b'href="history/index.html"' in first[tmp_path / "site" / "index.html"]
    assert {path.name for path in tmp_path.iterdir()} == {"results", "site"}


def test_pages_that_have_no_records_any_more_go_and_those_of_others_stay(tmp_path):
    first = site_records.record(0.1, 0.2)
    made(tmp_path, [first])
    own = tmp_path / "site" / "methods" / "mine.html"
    own.write_text("not ours")
    for file in (tmp_path / "results").rglob("*.jsonl"):
        file.unlink()
    later = made(
        tmp_path, [dataclasses.replace(first, method=dataclasses.replace(first.method, name="other"))], listings=[]
    )
    assert own.read_text() == "not ours"
    assert "methods/lp-other.html" in later.pages
    assert "methods/lp-batched_pdhg.html" not in later.pages
    (tmp_path / "site" / build.LIST).write_text("../results\n../outside.txt\n")
    (tmp_path / "outside.txt").write_text("kept")
    made(tmp_path, [])
    assert (tmp_path / "outside.txt").read_text() == "kept"


def test_documents_are_pages_with_their_pictures_and_links(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "a.svg").write_text("<svg/>")
    (tmp_path / "ONE.md").write_text(
        "# One `thing`\n\nSee [two](TWO.md#far), ![a picture](assets/a.svg) and <script>x</script>.\n\n|a|b|\n|-|-|\n|1|2|\n"
    )
    (tmp_path / "TWO.md").write_text("# Two\n")
    one, two = documents.documents(tmp_path)
    assert (one.title, one.page, two.page) == ("One thing", "one.html", "two.html")
    assert one.pictures == ("assets/a.svg",)
    assert 'href="two.html#far"' in one.body
    assert "<script>" not in one.body
    assert 'class="scroll"' in one.body


# -- small parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_readme_picture_is_drawn_and_repeats(tmp_path, records, ending):
    hostile = site_records.hostile()
    contest = contests.known()[site_records.CONTEST]
    first = picture.winmap(report.contest_report(contest, records), tmp_path / f"a.{ending}")
    again = picture.winmap(report.contest_report(contest, records), tmp_path / f"b.{ending}", method="batched_pdhg")
    assert first.read_bytes() == again.read_bytes()
    picture.winmap(report.contest_report(contest, hostile), tmp_path / f"c.{ending}")
    if ending == "svg":
        text = first.read_text()
        assert "break-even along batch" in text
        assert "0.33×" in text
    with pytest.raises(ValueError, match="no cell to draw"):
        picture.winmap(report.contest_report(contest, []), tmp_path / f"d.{ending}")


SHARE = Metric("accuracy", lower_is_better=False, scale="difference", margin=0.01, best=1.0)
ERROR = Metric("error", scale="difference", margin=0.01, best=0.0)


@pytest.mark.parametrize(
    ("metric", "values", "low", "high"),
    [
        # Two seeds far apart: the interval of their mean reaches far beyond what a share can be.
        (SHARE, [(0.9, 0.88, 0.92, "point"), (0.1, -1.2, 1.4, "point")], -0.1, 1.1),
        (ERROR, [(0.1, -3.0, 3.2, "point"), (0.3, 0.28, 0.32, "point")], -0.1, 0.6),
        (PEAK_BYTES, [(1e6, 1e2, 1e12, "point"), (4e6, 4e6, 4e6, "point")], 1e5, 1e8),
    ],
)
def test_no_interval_stretches_an_axis_beyond_what_can_be_told_apart(metric, values, low, high):
    scale = plots._value_scale(values, metric)
    assert all(scale.holds(y) for y, *_ in values)
    assert not scale.holds(low)
    assert not scale.holds(high)


def test_a_narrow_interval_is_shown_whole():
    values = [(0.5, 0.4, 0.6, "point"), (0.7, 0.65, 0.75, "point")]
    scale = plots._value_scale(values, SHARE)
    assert all(scale.holds(end) for _, low, high, _ in values for end in (low, high))


def test_bytes_are_counted_in_powers_of_two():
    scale = scales.Scale([3e6, 2e8], 180, 10, pad=0.05)
    assert [tick.text for tick in scales.byte_ticks(scale, 24)] == [
        "4 MiB",
        "8 MiB",
        "16 MiB",
        "32 MiB",
        "64 MiB",
        "128 MiB",
    ]
    assert [tick.text for tick in scales.byte_ticks(scale, 40)] == ["4 MiB", "16 MiB", "64 MiB"]
    close = scales.Scale([1.5e6, 7e6], 180, 10, pad=0.05)
    assert [tick.text for tick in scales.byte_ticks(close, 24)] == ["2 MiB", "4 MiB"]
    far = scales.Scale([100, 1e13], 180, 10, pad=0.05)
    texts = [tick.text for tick in scales.byte_ticks(far, 24)]
    assert texts == ["1 KiB", "1 MiB", "1 GiB", "1 TiB"]


def test_a_row_with_a_tie_is_not_said_to_be_won_throughout(records):
    contest = contests.known()[site_records.CONTEST]
    won = next(one for one in report.contest_report(contest, records).lines if one.break_even.kind == "loses")
    assert plots.break_even_text(won).endswith("wins throughout")
    assert plots.break_even_text(won, {"baseline", "unsupported"}).endswith("wins throughout")
    assert plots.break_even_text(won, {"baseline", "tie"}).endswith("wins or ties")
    assert plots.break_even_text(won, {"baseline", "undecided"}).endswith("wins where anything is certain")


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.1, "0.10×"), (7.94, "7.9×"), (0.0123, "0.012×"), (12.3, "12×"), (1234.0, "1,234×"), (1.0, "1.0×")],
)
def test_ratios_in_cells_have_two_digits(value, text):
    assert scales.two_digits(value) + "×" == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.234, "1.23 s"), (0.0456, "45.6 ms"), (7.89e-6, "7.89 µs"), (5e-9, "5.00 ns"), (None, "–")]
)
def test_durations_have_units(seconds, text):
    assert report.duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(1, "1"), (64, "64"), (1024, "1024"), (3200, "3.2k"), (52121, "52k"), (2e6, "2M")]
)
def test_sizes_fit_under_ticks(size, text):
    assert scales.compact(size) == text


def test_the_example_of_the_guide_runs_on_what_can_be_downloaded(site, monkeypatch, capsys):
    guide = (documents.FOLDER / "READING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    monkeypatch.chdir(site.folder)
    exec(compile(code, "READING.md", "exec"), {})
    assert "batched_pdhg" in capsys.readouterr().out
    for kind, (symbol, _) in contests.KINDS.items():
        assert f"| {symbol} |" in guide, kind
