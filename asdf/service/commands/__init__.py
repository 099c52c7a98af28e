"""The commands of the service: `serve`, and `audit-file`, which checks its record of verdicts."""
