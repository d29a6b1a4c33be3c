"""Records survive: round trips, torn lines, two writers at once, writers that are killed."""

import dataclasses
import pathlib
import signal
import subprocess
import sys
import time
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.records import Block, Record, Side, Store, key_of


def example(key: str = "k", **changes) -> Record:
    record = Record(
        key=key,
        contest="lp/strong_branching",
        dataset="set_cover",
        sizes={"rows": 100, "batch": 4},
        seed=0,
        device="cpu",
        threads=2,
        given={"tolerance": 1e-4},
        method=Side("batched_pdhg", judged={"relative_kkt": 5e-5}),
        baseline=Side("simplex"),
        blocks=(Block((0.1, 0.2), (0.3, 0.4), (0.001,)),),
        stopped="certain",
        machine="here",
    )
    return dataclasses.replace(record, **changes)


@given(value=st.floats(), text=st.text())
def test_any_float_and_text_come_back(tmp_path_factory, value, text):
    store = Store(tmp_path_factory.mktemp("results"))
    store.append(example(method=Side("m", reason=text, judged={"kl": value})))
    (back,) = store.load()
    assert back.method.reason == text
    assert repr(back.method.judged["kl"]) == repr(value)


def test_a_record_comes_back_equal(tmp_path):
    record = example()
    Store(tmp_path).append(record)
    assert Store(tmp_path).load() == [record]


def test_the_newest_of_a_key_counts_and_order_is_that_of_first_measurement(tmp_path):
    store = Store(tmp_path)
    for record in (example("a"), example("b"), example("a", stopped="budget")):
        store.append(record)
    assert [(r.key, r.stopped) for r in store.newest()] == [("a", "budget"), ("b", "certain")]


def test_a_record_of_older_code_is_superseded_whatever_its_key(tmp_path):
    store = Store(tmp_path)
    old = example("old", started_at="2026-01-01T00:00:00+00:00")
    new = example("new", started_at="2026-02-01T00:00:00+00:00")
    other = example("other", sizes={"n": 2, "of": "another size"})
    for record in (new, old, other):
        store.append(record)
    assert store.current(machine=new.machine) == [new, other]
    assert len(store.newest(machine=new.machine)) == 3


def test_a_torn_line_is_skipped_with_a_warning_and_later_records_are_whole(tmp_path):
    store = Store(tmp_path)
    store.append(example("a"))
    path = store.path("here", "lp/strong_branching")
    path.write_bytes(path.read_bytes() + b'{"key": "torn", "bas')
    store.append(example("b"))
    with pytest.warns(UserWarning, match=r"strong_branching\.jsonl:2: not a whole record"):
        assert [record.key for record in store.load()] == ["a", "b"]


def test_a_record_of_another_schema_is_not_misread(tmp_path):
    store = Store(tmp_path)
    store.append(example(schema=99))
    with pytest.warns(UserWarning, match="schema 99"):
        assert store.load() == []


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from test_records import example, Side, Store
for number in range(int(sys.argv[4])):
    Store(sys.argv[2]).append(example(f"{sys.argv[3]}{number}", method=Side("m", stderr="x" * 5000)))
"""


def writer(folder: pathlib.Path, name: str, count: int) -> subprocess.Popen:
    """Another process that appends ``count`` records whose keys begin with ``name``."""
    here = str(pathlib.Path(__file__).parent)
    return subprocess.Popen([sys.executable, "-c", WRITER, here, str(folder), name, str(count)])


def test_two_writers_at_once_lose_nothing(tmp_path):
    writers = [writer(tmp_path, name, 40) for name in "ab"]
    assert [process.wait(timeout=60) for process in writers] == [0, 0]
    assert len(Store(tmp_path).load()) == 80


def test_a_writer_killed_at_any_moment_corrupts_nothing(tmp_path):
    process = writer(tmp_path, "k", 100_000)
    path = Store(tmp_path).path("here", "lp/strong_branching")
    while process.poll() is None and (not path.exists() or path.stat().st_size < 200_000):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    whole = path.read_bytes().count(b"\n")
    Store(tmp_path).append(example("after"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the fragment, if there is one
        keys = [record.key for record in Store(tmp_path).load()]
    assert keys == [f"k{number}" for number in range(whole)] + ["after"]


def test_keys_tell_apart_what_differs_and_ignore_the_order_of_parts():
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
