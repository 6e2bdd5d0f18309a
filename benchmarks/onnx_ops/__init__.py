"""Each operator of ONNX's default domain against ONNX Runtime: `python -m benchmarks.onnx_ops --help`.

| room | what it does |
|---|---|
| `case` | what a row is, and its model with free and with fixed dimensions |
| `pointwise` to `text` | the rows, a family in each module |
| `catalogue` | all rows, and the operators that have none, with the reason |
| `child` | rows in a process of their own: a JSON line each |
"""
