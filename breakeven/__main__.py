"""``python -m breakeven`` is ``breakeven``, for an environment that is not on PATH."""

from breakeven.cli import main

main(prog_name="breakeven")
