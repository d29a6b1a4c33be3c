"""What the doctor reads off a system's files, measures, and says; on texts as Linux writes them, and once on this machine."""

import dataclasses
import itertools
import json
import math
import random

import click.testing
import pytest
import simulation

from breakeven import cli, doctor, system
from breakeven.doctor import Timer, Watch
from breakeven.sampling import LOOKS
from breakeven.system import Cores, CpuTimes, Frequency, System

# A virtual machine of two processors, some hours old.
STAT = """\
cpu  1496263 499822 126089 427810 992 0 1312 3074 0 0
cpu0 728224 230233 54262 262131 619 0 745 1520 0 0
cpu1 768039 269589 71827 165678 373 0 566 1553 0 0
intr 21341234 0 9 0
ctxt 43497975
procs_running 2
"""
STAT_OF_2_4 = "cpu  10 20 30 40\ncpu0 10 20 30 40\n"
CGROUP_V1 = """\
9:name=systemd:/
4:memory:/process_api/c95d05e6
3:cpuset:/
2:cpu,cpuacct:/docker/0123abcd
0::/
"""
CGROUP_V2 = "0::/system.slice/runner.service/job\n"
CPUINFO = """\
processor\t: 0
model name\t: Intel(R) Xeon(R) Processor
cpu MHz\t\t: 2100.000
flags\t\t: fpu vme de pse tsc msr {flag}lahf_lm
"""


def tree(tmp_path, texts: dict[str, str]) -> System:
    """A system of which only these files are there."""
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return System(tmp_path)


# -- files ------------------------------------------------------------------------------------------------------------


def test_processor_times_tell_stolen_from_busy():
    times = system.cpu_times(STAT)
    assert times == CpuTimes(busy=1496263 + 499822 + 126089 + 1312, idle=427810 + 992, steal=3074)
    assert system.cpu_times(STAT_OF_2_4) == CpuTimes(60, 40, 0)  # kernels before there was stealing
    assert system.cpu_times("") is None
    later = system.cpu_times(STAT.replace("3074 0 0", "3174 0 0", 1).replace("427810", "427710", 1))
    assert later.since(times) == CpuTimes(0, 0, 100)  # idle time went back, as it may: no negative share


def test_guests_time_is_not_counted_twice():
    host = "cpu  100 0 0 0 0 0 0 0 70 0\n"
    assert system.cpu_times(host).total == 100


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("max 100000", None),
        ("200000 100000", 2.0),
        ("50000 100000", 0.5),
        ("", None),
        ("nonsense", None),
        ("1 0", None),
    ],
)
def test_a_quota_is_in_cores(text, cores):
    assert system.quota(text) == cores


def test_a_quota_of_the_first_version():
    assert system.quota_v1("150000", "100000") == 1.5
    assert system.quota_v1("-1", "100000") is None
    assert system.quota_v1("", "") is None


def test_control_groups_are_a_processes_own_and_its_parents():
    assert system.control_groups(CGROUP_V2)[:4] == [
        "system.slice/runner.service/job", "system.slice/runner.service", "system.slice", "",
    ]  # fmt: skip
    first = system.control_groups(CGROUP_V1)
    assert {"cpu,cpuacct/docker/0123abcd", "cpu/docker/0123abcd", "cpu,cpuacct", "cpu"} <= set(first)
    assert not any("memory" in folder or "cpuset" in folder for folder in first)
    assert system.control_groups("") == []


def test_small_texts():
    assert system.load_average("0.51 0.71 1.00 2/91 2495") == 0.51
    assert system.load_average("") is None
    assert system.pressure("some avg10=12.50 avg60=0.58 avg300=2.11 total=7017849628\nfull avg10=0.00") == 0.125
    assert system.pressure("") is None
    assert system.cpu_list("0-2,8") == {0, 1, 2, 8}
    assert system.cpu_list("") == frozenset()
    assert system.throttled_periods("nr_periods 40\nnr_throttled 12\nthrottled_usec 3") == 12
    assert system.throttled_periods("usage_usec 3") is None


def test_the_tightest_quota_of_all_parents_counts(tmp_path):
    group = "sys/fs/cgroup/system.slice"
    made = tree(
        tmp_path,
        {
            "proc/self/cgroup": CGROUP_V2,
            f"{group}/cpu.max": "150000 100000",
            f"{group}/cpu.stat": "nr_throttled 3",
            f"{group}/runner.service/cpu.max": "max 100000",
            f"{group}/runner.service/job/cpu.max": "400000 100000",
            f"{group}/runner.service/job/cpu.stat": "nr_throttled 4",
        },
    )
    assert made.cores(range(4)) == Cores(4, None, 1.5)
    assert made.cores(range(4)).usable == 1.5
    assert made.throttled_periods() == 7


def test_the_quota_of_a_container_of_the_first_version(tmp_path):
    """Its own file names the host's path; in here there is only the root."""
    group = "sys/fs/cgroup/cpu,cpuacct"
    made = tree(
        tmp_path,
        {"proc/self/cgroup": CGROUP_V1, f"{group}/cpu.cfs_quota_us": "50000", f"{group}/cpu.cfs_period_us": "100000"},
    )
    assert made.cores([0, 1]).quota == 0.5


def test_threads_of_one_core_are_one_core(tmp_path):
    pairs = {0: "0,4", 4: "0,4", 1: "1,5", 5: "1,5"}
    made = tree(tmp_path, {f"sys/devices/system/cpu/cpu{n}/topology/thread_siblings_list": t for n, t in pairs.items()})
    assert made.cores([0, 4]).physical == 1
    assert made.cores([0, 1]).physical == 2
    assert made.cores([0, 1, 2]).physical is None  # the third is not told of


def test_frequencies_and_heat(tmp_path):
    cpu = "sys/devices/system/cpu"
    made = tree(
        tmp_path,
        {
            f"{cpu}/cpu0/cpufreq/scaling_cur_freq": "1800000",
            f"{cpu}/cpu0/cpufreq/cpuinfo_max_freq": "3600000",
            f"{cpu}/cpu0/cpufreq/scaling_governor": "powersave",
            f"{cpu}/cpu0/thermal_throttle/core_throttle_count": "5",
            f"{cpu}/cpu0/thermal_throttle/package_throttle_count": "2",
            f"{cpu}/intel_pstate/no_turbo": "0",
        },
    )
    assert made.frequency([0, 1]) == Frequency((1800.0,), 3600.0, ("powersave",), True)
    assert made.thermal_events() == 7


def test_a_virtual_machine_hides_its_frequency(tmp_path):
    made = tree(tmp_path, {"proc/cpuinfo": CPUINFO.format(flag="hypervisor ")})
    assert made.is_virtual()
    assert made.frequency([0]) == Frequency((2100.0,), None, (), None)
    assert not tree(tmp_path, {"proc/cpuinfo": CPUINFO.format(flag="")}).is_virtual()


def test_a_system_without_any_of_these_files(tmp_path):
    bare = System(tmp_path)
    assert (bare.cpu_times(), bare.load_average(), bare.pressure(), bare.throttled_periods()) == (None,) * 4
    assert bare.thermal_events() is None
    assert not bare.is_virtual()
    assert bare.cores(range(3)) == Cores(3)
    assert bare.frequency(range(3)) == Frequency()
    seen = doctor.watch(bare, bare.cores([0]), seconds=0.3)
    assert (seen.steal, seen.others, seen.throttled, seen.hot) == (None,) * 4
    said = examined(seen=seen, cores=Cores(1), frequency=Frequency(), load=None, pressure=None)
    assert {one.about for one in said.values() if one.level == "unknown"} >= {"steal", "others", "frequency"}


# -- words ------------------------------------------------------------------------------------------------------------

CALM = Watch(
    seconds=4.0, blocks=200, noise=0.01, drift=1.02, interrupted=0.001, steal=0.0, others=0.01, throttled=0, hot=0,
    together=1.95, threads=2,
)  # fmt: skip


def examined(seen: Watch = CALM, **facts) -> dict[str, doctor.Finding]:
    """The findings on a calm machine of two cores, but for what is said; of several about one thing, the worst."""
    usual = {
        "clock": Timer(6e-8, 1e-8), "cores": Cores(2, 2), "frequency": Frequency((3000.0,), 3000.0, ("performance",), False),
        "load": 0.2, "pressure": 0.0, "virtual": False, "floor": 0.04, "a_a": (0, 40),
    }  # fmt: skip
    found = doctor.findings(seen=seen, **(usual | facts))
    return {one.about: one for one in sorted(found, key=lambda one: one.level == "warning")}


def test_a_calm_machine_has_no_warning():
    said = examined()
    assert {one.level for one in said.values()} == {"good"}
    assert said["resolution"].text.startswith(
        "differences under 4% are noise here, by 40 A/A cells with 0 false alarms"
    )
    assert "2 threads at once do 1.9 times" in said["threads"].text


def test_without_records_the_noise_between_processes_is_unknown():
    one = examined(floor=None, a_a=(0, 2))["resolution"]
    assert one.level == "unknown"
    assert "it takes three A/A cells" in one.text
    assert "noise after 40 blocks" in one.text


@pytest.mark.parametrize(
    ("changes", "facts", "about", "words"),
    [
        ({}, {"floor": 0.25}, "resolution", "differences under 25% are noise"),
        ({"drift": 1.3}, {}, "drift", "moved by 30 %"),
        ({"interrupted": 0.05}, {}, "drift", "5 % of its samples were interrupted"),
        ({"steal": 0.08}, {}, "steal", "the host gave 8 %"),
        ({"others": 0.4}, {"load": 3.0}, "others", "took 40 % of the cores; load average 3.0 on 2"),
        ({"throttled": 9}, {}, "frequency", "9 times for its quota"),
        ({"hot": 2}, {}, "frequency", "2 times for heat"),
        ({"together": 1.1}, {}, "threads", "2 threads at once do 1.1 times"),
        ({}, {"cores": Cores(2, 2, 1.5)}, "threads", "use --threads 1"),
        ({}, {"cores": Cores(2, 1)}, "threads", "are threads of no more than 1 cores"),
        ({}, {"frequency": Frequency((1200.0,), 3600.0, ("powersave",), True)}, "frequency", "1200 of 3600 MHz"),
        ({}, {"clock": Timer(1e-3, 1e-3)}, "timer", "too coarse"),
    ],
)
def test_what_stands_in_the_way_is_a_warning(changes, facts, about, words, monkeypatch):
    monkeypatch.setattr(doctor.devices, "available_cores", lambda: 2)
    one = examined(dataclasses.replace(CALM, **changes), **facts)[about]
    assert one.level == "warning"
    assert words in one.text


# -- measuring --------------------------------------------------------------------------------------------------------


def test_the_noise_of_a_block_foretells_what_equals_show():
    """What is called noise holds 95 % of the ratios that duels of equals show; what is called claimed mostly is."""
    noise = simulation.NOISY
    blocks = [simulation.duel(0.01, 0.01, noise, f"one {n}", budget_seconds=0)[0][0] for n in range(400)]
    seen = dataclasses.replace(CALM, noise=doctor.block_noise(blocks))
    inside = claimed = 0
    for trial in range(200):
        machine = simulation.Machine(noise, f"two {trial}")
        method, baseline = machine.timer(0.01), machine.timer(0.01)
        duel = []
        for _ in range(LOOKS[-1]):
            first, second, third, fourth = method(), baseline(), baseline(), method()
            duel.append(doctor.Block((first, fourth), (second, third), ()))
        ratio = doctor.sampling.summarise(duel)
        inside += abs(ratio.log_estimate) < math.log1p(seen.reach(LOOKS[-1]))
        lead = math.log1p(seen.claimed_from(LOOKS[-1]))
        claimed += doctor.sampling.claim(dataclasses.replace(ratio, value=ratio.value + lead)) == "baseline"
    assert 0.90 <= inside / 200 <= 0.99
    assert 0.35 <= claimed / 200 <= 0.65  # at the very edge, every second time


def test_a_clock_is_measured_by_reading_it():
    readings = itertools.count()
    assert doctor.timer(lambda: next(readings) * 1e-6).cost == pytest.approx(1e-6)
    coarse = doctor.timer(lambda: next(readings) // 10 * 1e-3)
    assert (coarse.cost, coarse.step) == (0.0, pytest.approx(1e-3))


def test_drift_is_that_of_windows_not_of_samples():
    draw = random.Random(0)
    steady = [(0.005 * n, 0.005 * math.exp(draw.gauss(0, 0.05))) for n in range(800)]
    rising = [(moment, taken * (1 + moment / 8)) for moment, taken in steady]
    spread = {
        name: max(w) / min(w) for name, w in (("steady", doctor._windows(steady)), ("rising", doctor._windows(rising)))
    }
    assert spread["steady"] < 1.05 < 1.4 < spread["rising"] < 1.6


def test_shares_of_time_between_two_readings():
    before, after = CpuTimes(1000, 5000, 10), CpuTimes(1150, 5040, 20)
    steal, others = doctor._shares(before, after, own_seconds=1.0)
    assert steal == pytest.approx(10 / 200)
    assert others == pytest.approx(50 / 200)
    assert doctor._shares(before, before, 0.0) == (0.0, 0.0)


def test_the_command_tells_this_machine_in_words_and_in_json(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "SECONDS", 0.5)
    monkeypatch.setattr(doctor.devices, "measured_limits", lambda: {
        "copy_gb_per_s": 10.0, "matmul_float64_gflop_per_s": 50.0, "matmul_float32_gflop_per_s": 100.0,
        "read_gb_per_s": {"65536": 80.0, "268435456": 12.5},
    })  # fmt: skip
    run = click.testing.CliRunner().invoke
    answer = run(cli.main, ["doctor", "--json", "--results", str(tmp_path)])
    told = json.loads(answer.stdout)
    assert {one["about"] for one in told["findings"]} >= {"resolution", "timer", "drift", "threads", "steal", "others"}
    assert told["noise_floor"] is None
    assert told["measured"]["seen"]["blocks"] >= 5
    assert 0 < told["resolves"]["noise_within_a_process"] < told["resolves"]["noise_of_few_blocks"]
