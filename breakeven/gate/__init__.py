"""The regression gate: what a change did to time, memory and quality, decided cell by cell between two commits.

`builds` turns each commit into an environment of its own, `session` runs there and measures, `sides` starts and ends those
processes, and `schedule` plays them in the order A B B A until `decision` has an answer. `measurement` asks them for answers,
memory and times; `comparison` brings all of it together in `verdicts`, and `report` writes them down.
"""
