"""Two SLURMs for tests: commands that only pretend, under the test's control, and a real one of a single node."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import psutil
import pytest

COMMANDS = """
import json, os, pathlib, re, sys

name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
folder = pathlib.Path(sys.argv[0]).parent
file = folder / "jobs.json"
jobs = json.loads(file.read_text())


def keep():
    file.write_text(json.dumps(jobs))


def fail(message):
    sys.stderr.write(message + "\\n")
    sys.exit(1)


if (folder / "down").exists():
    fail(f"{name}: error: Unable to contact slurm controller (connect failure)")
if name == "sbatch":
    if (folder / "refuses").exists():
        fail("sbatch: error: invalid partition specified: nowhere\\nsbatch: error: Batch job submission failed")
    array = re.search(r"#SBATCH --array=0-(\\d+)", pathlib.Path(words[-1]).read_text())
    number = 1 + max([int(job.split("_")[0]) for job in jobs], default=0)
    for job in [f"{number}_{index}" for index in range(int(array[1]) + 1)] if array else [str(number)]:
        jobs[job] = {"state": "PENDING", "restarts": 0, "script": words[-1]}
    keep()
    print(f"Submitted batch job {number}")
elif name == "srun":
    while words[0].startswith("--"):
        words = words[2 if words[0] in ("--output", "--error") else 1:]
    os.execvp(words[0], words)
elif name in ("squeue", "sacct"):
    asked = next(word for word in words if word.startswith("--jobs=")).partition("=")[2].split(",")
    mine = {job: facts for job, facts in jobs.items() if job.split("_")[0] in asked}
    if name == "squeue":
        mine = {job: facts for job, facts in mine.items() if not facts.get("forgotten")}
        if not mine:
            fail("slurm_load_jobs error: Invalid job id specified")
        print(*(f"{job}|{facts['state']}|Resources" for job, facts in mine.items()), sep="\\n")
    elif not (folder / "accounting").exists():
        fail("Slurm accounting storage is disabled")
    else:
        print(*(f"{job}|{facts['state']} by 1000" for job, facts in mine.items()), sep="\\n")
elif name == "scontrol" and words[0] == "requeue":
    jobs[words[1]]["state"] = "PENDING"
    jobs[words[1]]["restarts"] += 1
    keep()
"""


class Pretended:
    """A queue that runs nothing by itself: the test runs each job, in this process or in one of its own, and ends it."""

    def __init__(self, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch):
        self.folder, self._monkeypatch = folder, monkeypatch
        folder.mkdir()
        (folder / "jobs.json").write_text("{}")
        for name in ("sbatch", "srun", "squeue", "sacct", "scontrol"):
            (folder / name).write_text(f"#!{sys.executable} -SE\n{COMMANDS}")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def jobs(self) -> dict[str, dict]:
        return json.loads((self.folder / "jobs.json").read_text())

    def pending(self) -> list[str]:
        return [job for job, facts in self.jobs().items() if facts["state"] == "PENDING"]

    def set(self, job: str, **facts) -> None:
        jobs = self.jobs()
        jobs[job] |= facts
        (self.folder / "jobs.json").write_text(json.dumps(jobs))

    def script(self, job: str) -> str:
        return pathlib.Path(self.jobs()[job]["script"]).read_text()

    def run(self, job: str) -> BaseException | None:
        """Run a job in this process, as submitit does on a node; what it ended with is returned, None for nothing."""
        from submitit.core.submission import process_job

        self.set(job, state="RUNNING")
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2, signal.SIGCONT)}
        with self._monkeypatch.context() as here:
            for name, value in self.environment(job).items():
                here.setenv(name, value)
            try:
                process_job(pathlib.Path(self.jobs()[job]["script"]).resolve().parent)
            except BaseException as error:  # a job that is killed ends with one, too
                if self.jobs()[job]["state"] == "RUNNING":
                    self.set(job, state="FAILED")
                return error
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        self.set(job, state="COMPLETED")
        return None

    def environment(self, job: str) -> dict[str, str]:
        number, _, index = job.partition("_")
        array = {"SLURM_ARRAY_JOB_ID": number, "SLURM_ARRAY_TASK_ID": index} if index else {}
        restarts = str(self.jobs()[job]["restarts"])
        return {
            "SUBMITIT_EXECUTOR": "slurm", "SLURM_JOB_ID": number, "SLURM_RESTART_COUNT": restarts, "SLURM_NTASKS": "1", **array,
        }  # fmt: skip


class Real:
    """A SLURM of one node, which is this machine."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.node = socket.gethostname().split(".")[0]
        self._processes: list[subprocess.Popen] = []

    def start(self) -> None:
        """Raises `RuntimeError` with what the daemons said."""
        folder = self.folder
        for name in ("munge", "state", "spool"):
            (folder / name).mkdir(mode=0o700)
        (folder / "munge" / "key").write_bytes(os.urandom(128))
        (folder / "munge" / "key").chmod(0o600)
        (folder / "slurm.conf").write_text(
            textwrap.dedent(f"""
                ClusterName=tests
                SlurmctldHost={self.node}(127.0.0.1)
                SlurmUser=root
                SlurmdUser=root
                AuthType=auth/munge
                AuthInfo=socket={folder}/munge/socket,cred_expire=5
                CredType=cred/munge
                SlurmctldPort={_free_port()}
                SlurmdPort={_free_port()}
                StateSaveLocation={folder}/state
                SlurmdSpoolDir={folder}/spool
                SlurmctldPidFile={folder}/slurmctld.pid
                SlurmdPidFile={folder}/slurmd.pid
                ProctrackType=proctrack/linuxproc
                TaskPlugin=task/none
                MpiDefault=none
                SelectType=select/cons_tres
                SelectTypeParameters=CR_Core
                SchedulerParameters=sched_min_interval=0,bf_interval=1
                AccountingStorageType=accounting_storage/none
                JobCompType=jobcomp/none
                ReturnToService=0
                KillWait=5
                NodeName={self.node} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
                PartitionName=tests Nodes={self.node} Default=YES State=UP
            """)
        )
        munge = folder / "munge"
        self._start(
            "munged", "--foreground", "--force", f"--socket={munge}/socket", f"--key-file={munge}/key",
            f"--log-file={munge}/log", f"--pid-file={munge}/pid", f"--seed-file={munge}/seed",
        )  # fmt: skip
        _wait(lambda: (munge / "socket").exists(), 10, self.said)
        self._start("slurmctld", "-D")
        self._start("slurmd", "-D")
        _wait(lambda: "idle" in self.ask("sinfo", "--noheader", "--format=%T", check=False), 20, self.said)

    def _start(self, name: str, *words: str) -> None:
        with open(self.folder / f"{name}.said", "wb") as said:
            started = subprocess.Popen(
                [_daemon(name), *words], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=self.environment
            )
        self._processes.append(started)

    def stop(self) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            self.ask("scancel", "--user=root", check=False)
            _wait(lambda: not self.ask("squeue", "--noheader", check=False), 10, lambda: "")
        for process in reversed(self._processes):
            process.terminate()
        for process in reversed(self._processes):
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # What held a job's step outlives the daemon that began it.
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("SLURM_CONF") == self.environment["SLURM_CONF"]:
                    process.kill()

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def ask(self, *words: str, check: bool = True) -> str:
        return subprocess.run(
            words, env=self.environment, capture_output=True, text=True, timeout=30, check=check
        ).stdout.strip()

    def said(self) -> str:
        """The last lines of each daemon."""
        return "\n".join("\n".join(file.read_text().splitlines()[-3:]) for file in self.folder.glob("*.said"))


def start_real(folder: pathlib.Path) -> Iterator[Real]:
    """A running SLURM; the test is skipped, with the reason, where it cannot be had."""
    if os.getuid() != 0:
        pytest.skip("a SLURM of one's own needs root")
    for name in ("munged", "slurmctld", "slurmd"):
        if not pathlib.Path(_daemon(name)).exists():
            pytest.skip(f"{name} is not installed; on Debian: apt-get install slurm-wlm munge")
    slurm = Real(folder)
    try:
        try:
            slurm.start()
        except TimeoutError as error:
            pytest.skip(f"SLURM does not start here: {error}")
        yield slurm
    finally:
        slurm.stop()


def _daemon(name: str) -> str:
    return shutil.which(name) or f"/usr/sbin/{name}"


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _wait(until, seconds: float, said) -> None:
    end = time.monotonic() + seconds
    while not until():
        if time.monotonic() > end:
            raise TimeoutError(said())
        time.sleep(0.1)
