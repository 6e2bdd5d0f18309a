"""Programs that try to break the machine: hostile files, long runs, many threads. See `docs/trust.md`."""
