"""Diagnostic codes of the relax dialect: normal form, dataflow blocks, text."""

from heddle.support.diagnostics import declare_code

R0303 = declare_code(
    "R0303", "not in normal form", "Arguments must be leaves: variables, constants, shapes, tuples of leaves."
)
R0304 = declare_code(
    "R0304", "dataflow block breaks its rules", "Dataflow blocks hold pure bindings without control flow."
)
R0401 = declare_code(
    "R0401",
    "missing or wrong annotation",
    "Parameters are annotated R.Tensor, R.Shape, R.Tuple, R.Any, R.Prim or R.Callable.",
)
R0402 = declare_code(
    "R0402",
    "not a statement of graph functions",
    "The script language of graph functions lacks this statement.",
)
R0403 = declare_code(
    "R0403",
    "constants of a text are missing or do not fit",
    "Large constants stand beside a text: in its statement `metadata = [...]` (`script(show_meta=True)`), in "
    "a weights file in its own folder (`heddle inspect -o`), or in the `constants` of `from_source`.",
)
