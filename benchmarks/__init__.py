"""Heddle and its peers on the same models, in turn: `python -m benchmarks --help`.

| room | what it does |
|---|---|
| `workloads/` | models and the inputs of each call |
| `engines/` | Heddle and the peers behind one interface |
| `remote`, `serve` | an engine that lives in another interpreter |
| `measure` | one workload: checks outputs, then times in turn |
| `child` | the workloads of one mode and thread count, in a process of their own |
| `report`, `page` | tables, the history file, a page with plots |
"""
