"""What can be said of an LP in the end."""

OPTIMAL, INFEASIBLE, UNBOUNDED, LIMIT = range(4)
STATUS_NAMES = ("optimal", "infeasible", "unbounded", "limit")
