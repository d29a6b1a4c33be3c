"""The regression gate: what a change did to time, memory and quality, decided cell by cell between two commits.

`builds` turns each commit into an environment of its own, `session` runs there and measures, `sides` starts and ends those
processes, `schedule` plays them in the order A B B A until `decision` has an answer, `comparison` brings all of it together,
and `report` writes it down.
"""
