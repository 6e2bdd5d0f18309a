"""Diagnostic codes of the loop IR: nodes, text, verifier, schedules, lowering."""

from heddle.support.diagnostics import declare_code

T0101 = declare_code(
    "T0101", "wrong number of indices", "A buffer access has as many indices as the buffer has dimensions."
)
T0102 = declare_code(
    "T0102", "stored value has another dtype", "A store writes values of the buffer's dtype."
)
T0103 = declare_code(
    "T0103", "condition is not bool", "The condition of an if, while or assert must have dtype bool."
)
T0104 = declare_code("T0104", "malformed loop", "Loop bounds and variable must have one integer dtype.")
T0201 = declare_code(
    "T0201", "undefined variable", "A variable or buffer is used where no definition reaches it."
)
T0202 = declare_code(
    "T0202", "variable defined twice", "Each variable and buffer is defined once in a function."
)
T0204 = declare_code(
    "T0204", "block binding is wrong", "A block has as many iteration values as iteration variables."
)
T0205 = declare_code(
    "T0205", "block names repeat", "Block names are unique in a function, so that schedules can name them."
)
T0206 = declare_code(
    "T0206",
    "access outside the declared region",
    "A block reads or writes a buffer that it does not declare.",
)
T0207 = declare_code(
    "T0207",
    "block uses a loop around it",
    "Inside a block the loops around it are known by its axes only: bind an axis to the loop's variable.",
)
T0208 = declare_code(
    "T0208",
    "init uses a reduction axis",
    "The `init` of a block runs once before its reduction, where the reduction axes have no values.",
)
T0301 = declare_code(
    "T0301",
    "missing or wrong type in a loop function",
    "Parameters are annotated T.Buffer, T.handle or T.<dtype>.",
)
T0302 = declare_code(
    "T0302",
    "not a statement of loop functions",
    "The script language of loop functions lacks this statement.",
)
T0303 = declare_code(
    "T0303",
    "wrong number of names",
    "A loop or axis statement binds another number of names than it has loops.",
)
T0401 = declare_code(
    "T0401",
    "loop not found",
    "The loop was replaced by an earlier primitive; use the handles that it returned.",
)
T0402 = declare_code("T0402", "block not found", "No block of this name is in the function.")
T0403 = declare_code(
    "T0403", "loop cannot be split", "A split needs a loop from 0 and at most one factor left open."
)
T0404 = declare_code(
    "T0404",
    "loops are not nested directly",
    "The loops must lie directly inside each other, outermost first; where they change places, iterations of "
    "one of the two must not depend on each other.",
)
T0405 = declare_code(
    "T0405",
    "loop is not parallel",
    "A parallel or vectorised loop must run only over spatial axes of its blocks, and its iterations must be "
    "independent: none touches what another one stores.",
)
T0406 = declare_code(
    "T0406",
    "block cannot be inlined",
    "Inlining needs a block that stores one element per point of its axes.",
)
T0407 = declare_code(
    "T0407", "block cannot be moved", "Producers must stay before and consumers after the block."
)
T0408 = declare_code("T0408", "no such buffer access", "The block has no read or write of this index.")
T0409 = declare_code(
    "T0409", "block is no reduction", "The primitive needs a block with an init statement and reduction axes."
)
T0410 = declare_code(
    "T0410",
    "the block's padding is not known",
    "pad_einsum needs a block whose reads and writes index by single axes.",
)
T0411 = declare_code(
    "T0411",
    "padding is read",
    "clamp_padding needs a block made by pad_einsum whose padding only reaches results that nobody reads.",
)
T0412 = declare_code(
    "T0412",
    "reduction cannot be split",
    "rfactor needs a loop of a reduction block that reduces to one result by an associative and commutative "
    "operation, under no condition and alone in its loops.",
)
T0413 = declare_code(
    "T0413",
    "loop cannot be bound",
    "bind needs a thread axis (blockIdx.x, threadIdx.y, vthread, ...) that no loop around or inside has, and "
    "only threadIdx may run over a reduction axis.",
)
T0414 = declare_code(
    "T0414",
    "loops cannot become a block",
    "blockize needs one block alone in the loops, whose axes divide into a part from the outer and a part "
    "from the inner loops; or blocks that stand side by side.",
)
T0415 = declare_code(
    "T0415",
    "program differs from the intrinsic",
    "tensorize needs a block that does, loop by loop, what the intrinsic's description does.",
)
T0416 = declare_code(
    "T0416",
    "index map does not fit",
    "The map must take the dimensions or axes that are there, and give different indices to different "
    "points; for the axes of a block it must also reach every point.",
)
T0417 = declare_code(
    "T0417",
    "block is no padding",
    "decompose_padding needs a block, alone in the loop, that stores a value under a condition and a "
    "constant elsewhere.",
)
T0418 = declare_code(
    "T0418",
    "buffer does not roll",
    "rolling_buffer needs a block under a serial loop of its consumers whose windows overlap from one "
    "iteration to the next.",
)
T0419 = declare_code(
    "T0419",
    "nothing to sample",
    "A sampling primitive was given a decision that is no choice, or there is nothing to choose from.",
)
T0420 = declare_code(
    "T0420",
    "loops cannot be cut or joined",
    "loop_partition needs bounds that rise from 0 to the extent; merge needs loops of equal extents whose "
    "iterations touch the same part of what they share.",
)
T0421 = declare_code(
    "T0421",
    "trace cannot be saved or read",
    "A trace holds numbers, text, index maps, and handles that its own instructions made.",
)
T0422 = declare_code(
    "T0422",
    "no such hint",
    "A block or loop has no annotation of this name.",
)
T0423 = declare_code(
    "T0423",
    "no such intrinsic",
    "Tensor intrinsics are registered by name with TensorIntrin.register, once.",
)
T0424 = declare_code(
    "T0424",
    "access has no single index",
    "The primitive needs a block all of whose accesses of the buffer are at one index.",
)
T0425 = declare_code(
    "T0425",
    "result cannot hold the temporary",
    "A temporary lies in the memory of a result only if the block that writes the result reads the temporary "
    "at the same index, is the last one to touch it, and iterations of the loops around share no elements.",
)
T0426 = declare_code(
    "T0426",
    "rows cannot be tiled",
    "Rows are tiled in functions of perfect nests that store one element each, where every block reads, of "
    "what other blocks make, its own row only.",
)
T0501 = declare_code(
    "T0501",
    "dimension cannot be bound",
    "A symbolic dimension of a parameter is bound where it stands alone as a dimension or is a parameter "
    "itself. This "
    "one occurs only inside expressions.",
)
T0502 = declare_code(
    "T0502",
    "no kernel signature",
    "Kernels take tensors and scalars and give no value; results are written to tensors.",
)
T0601 = declare_code(
    "T0601",
    "access out of bounds",
    "A program read or wrote outside a buffer. The message names the buffer and the loops.",
)
T0602 = declare_code(
    "T0602",
    "argument does not fit",
    "A loop function was run with arguments of other shapes or dtypes than it declares.",
)
T0603 = declare_code(
    "T0603", "block declares otherwise", "A block touched memory outside the regions that it declares."
)
T0604 = declare_code(
    "T0604", "statement cannot be interpreted", "The loop interpreter has no meaning for a statement or call."
)
T0605 = declare_code("T0605", "assertion failed", "A check of the program failed while it was interpreted.")
T0701 = declare_code(
    "T0701",
    "work cannot be counted",
    "How often a loop runs depends on data: a while loop, or a bound that is loaded from a buffer. The "
    "attribute `estimated_flops` states a count.",
)
T0801 = declare_code(
    "T0801",
    "access cannot be checked",
    "Loop functions from outside run with bounds checks. An access of this form has none: a vector index "
    "other than a ramp, a predicate, a buffer beyond what a machine can hold, a view that is larger than "
    "what it views, or of memory whose size is not known.",
)
