"""Sweeps on a SLURM cluster: submit and leave, collect what is finished, submit again what something outside ended.

A submitted sweep is a folder on the file system that all nodes share::

    <results>/.cluster/<sweep>/sweep.json                what was asked for
    <results>/.cluster/<sweep>/tasks/0003/task.json      its cells, by their numbers in sweep.json
    <results>/.cluster/<sweep>/tasks/0003/log.jsonl      what the task did: began, started, finished, ended
    <results>/.cluster/<sweep>/tasks/0003/<machine>/...  its records, as any results folder holds them
    <results>/.cluster/<sweep>/slurm/                    scripts and what the jobs printed

A cell is known here by what was asked, not by its key: the key holds the class of the machine that measures it, which
nobody knows before the task runs. So whether a cell is answered already is asked on the node, before each cell, and a cell
is finished where its task's log says so. Each file has one writer, and no record is ever deleted.
"""

from breakeven.cluster.collection import SweepReport, TaskReport, collect
from breakeven.cluster.submission import ATTEMPTS, submit
from breakeven.cluster.sweeps import Submitted

__all__ = ["ATTEMPTS", "Submitted", "SweepReport", "TaskReport", "collect", "submit"]
