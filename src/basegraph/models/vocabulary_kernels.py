"""Triton kernels for the product with a large vocabulary and the exponentials of its logits.

A softmax needs the sum of a row before its first number, so a plain product writes all logits, and
another kernel reads them and writes their gradient over them. But exp(logit - c) serves as well,
whatever c is, as long as nothing overflows: what it is multiplied by later can be divided by the
sum instead. Here c is the logit of the target, one number of a row that is cheap to compute alone,
and a constant. So the exponentials leave the product, once, in bf16.

Of 16,384 rows and a vocabulary of 32,000 (width 320, on an H200) the product with its exponentials
takes 0.74 ms; the product alone takes 0.59 ms, and the softmax afterwards another 0.65.

The exponents of float32 and bf16 leave room for words that are 131 nats more likely than the target
(larger ones are taken for 131: such a loss is too low, and still above 131), and for words that are
31 nats less likely; those below count as impossible.

Triton comes with torch for GPUs; without it `AVAILABLE` is false.

Shape legend: n nodes, r rows (tokens of a node), w width, v vocabulary, tiles of the vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from basegraph.models import kernels

try:
    import triton
    import triton.language as tl
    from triton.tools.tensor_descriptor import TensorDescriptor
except ImportError:
    AVAILABLE = False
else:
    AVAILABLE = kernels.AVAILABLE

ROWS, COLUMNS, DEPTH = 128, 256, 64
"""Of a tile of the product: tokens, words, and numbers of the width at a time."""
STAGES = 4
"""Steps of the width that are in flight, of the next tile too while this one is written."""
SHARED_MEMORY = 230_000
"""Bytes that a program must have for that, as on Hopper GPUs."""
SOME_ROWS = 8
"""Rows of a program of the small kernels."""


def fits(hidden_nrw: Tensor) -> bool:
    """Whether a GPU can do it, and the rows begin where its copies of tiles can begin."""
    if not (AVAILABLE and hidden_nrw.is_cuda and hidden_nrw.dtype == torch.bfloat16):
        return False
    device = torch.cuda.get_device_properties(hidden_nrw.device)
    shared = getattr(device, "shared_memory_per_block_optin", 0)
    return shared >= SHARED_MEMORY and hidden_nrw.shape[2] % 8 == 0


if AVAILABLE:
    _LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)
    _LN_2: tl.constexpr = tl.constexpr(0.6931471805599453)
    _MOST: tl.constexpr = tl.constexpr(110.0)  # of exponents: sums of 2^110 do not overflow
    _SHIFT: tl.constexpr = tl.constexpr(80.0)  # the target's own entry is 2^-80
    _UNIT: tl.constexpr = tl.constexpr(2.0**-80)

    @triton.jit
    def _levels_kernel(
        hidden, matrix, targets, levels, rows, vocabulary,
        WIDTH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    ):  # fmt: skip
        """What is taken off the exponents: the targets' logits and a constant; of some rows."""
        node = tl.program_id(1).to(tl.int64)
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        column = tl.arange(0, BLOCK)[None, :]
        inside = (row < rows)[:, None] & (column < WIDTH)
        target = tl.load(targets + node * rows + row, mask=row < rows, other=0)
        h = tl.load(hidden + (node * rows + row)[:, None] * WIDTH + column, mask=inside, other=0.0)
        word = (node * vocabulary + target)[:, None] * WIDTH
        m = tl.load(matrix + word + column, mask=inside, other=0.0)
        level = tl.sum(h.to(tl.float32) * m.to(tl.float32), axis=1) * _LOG2_E + _SHIFT
        tl.store(levels + node * rows + row, level, mask=row < rows)

    @triton.jit
    def _exponentials_kernel(
        hidden, matrix, into, levels, sums, rows, vocabulary, row_tiles, word_tiles, tiles,
        WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
        PROGRAMS: tl.constexpr, WHOLE: tl.constexpr,
    ):  # fmt: skip
        """into = exp(hidden matrixᵀ - level), and its sums by row and tile; a tile at a time.

        All rows meet some words before the next: they stay in the cache. WHOLE: the vocabulary is a
        multiple of a tile, so that nothing is masked.
        """
        for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=True):
            node = tile // (row_tiles * word_tiles)
            row_tile = tile % row_tiles
            word_tile = tile // row_tiles % word_tiles
            row = row_tile * ROWS + tl.arange(0, ROWS)
            level = tl.load(levels + node * rows + row, mask=row < rows, other=0.0)
            total = tl.zeros((ROWS, COLUMNS), tl.float32)
            for k in range(0, WIDTH, DEPTH):
                h = hidden.load([node, row_tile * ROWS, k]).reshape(ROWS, DEPTH)
                m = matrix.load([node, word_tile * COLUMNS, k]).reshape(COLUMNS, DEPTH)
                total = tl.dot(h, m.T, total, input_precision="ieee")
            power = total * _LOG2_E - level[:, None]
            power = tl.minimum(power, _MOST, propagate_nan=tl.PropagateNan.ALL)
            value = tl.exp2(power)
            if not WHOLE:
                word = word_tile * COLUMNS + tl.arange(0, COLUMNS)
                value = tl.where(word[None, :] < vocabulary, value, 0.0)
            at = sums + (node * word_tiles + word_tile) * rows + row
            tl.store(at, tl.sum(value, axis=1), mask=row < rows)
            half: tl.constexpr = COLUMNS // 2  # at a time: leaves shared memory for a stage more
            halves = value.to(into.dtype).reshape(ROWS, 2, half).permute(0, 2, 1)
            left, right = tl.split(halves)
            column = word_tile * COLUMNS
            into.store([node, row_tile * ROWS, column], left.reshape(1, ROWS, half))
            into.store([node, row_tile * ROWS, column + half], right.reshape(1, ROWS, half))

    @triton.jit
    def _totals_kernel(
        sums, targets, levels, into, losses, totals, rows, by_node, by_row, losses_by_node, tiles,
        ROWS: tl.constexpr, TILES: tl.constexpr,
    ):  # fmt: skip
        """Sums of whole rows, their losses, and the targets' entries, some rows of one node."""
        node = tl.program_id(1).to(tl.int64)
        row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        tile = tl.arange(0, TILES)[:, None]
        inside = (tile < tiles) & (row < rows)[None, :]
        part = tl.load(sums + (node * tiles + tile) * rows + row[None, :], mask=inside, other=0.0)
        total = tl.sum(part, axis=0)
        total = tl.maximum(total, _UNIT, propagate_nan=tl.PropagateNan.ALL)
        level = tl.load(levels + node * rows + row, mask=row < rows, other=0.0)
        total += level - level  # a logit that is not finite makes the loss NaN
        target = tl.load(targets + node * rows + row, mask=row < rows, other=0)
        at = into + node * by_node + row.to(tl.int64) * by_row + target
        tl.store(at, (-(total - _UNIT)).to(into.dtype.element_ty), mask=row < rows)
        small = total < 1.0  # its logarithm would lose digits
        loss = tl.log(tl.where(small, total, _UNIT) / _UNIT)
        loss += tl.where(small, 0.0, tl.log(total) + _SHIFT * _LN_2)
        tl.store(losses + node * losses_by_node + row, loss, mask=row < rows)
        tl.store(totals + node * rows + row, total, mask=row < rows)


def exponentials(
    hidden_nrw: Tensor,
    matrix_nvw: Tensor,
    targets_nr: Tensor,
    into_nrv: Tensor,
    losses_nr: Tensor,
) -> Tensor:
    """Totals (n, r): `into`, once divided by them, is the gradient of the losses in the logits.

    So a row of it has exp(logits - c), c being a constant above the target's logit; but for the
    target's own entry, which is minus the sum of the others.

    Args:
        hidden_nrw: What is multiplied by the matrix, in bf16.
        matrix_nvw: One word for each row, in the same type.
        targets_nr: The right word of every row, int64.
        into_nrv: What is written, in the same type. Its rows begin at multiples of 16 bytes, and
            up to the next multiple after a row is written, too.
        losses_nr: Where the losses go, float32.

    """
    hidden, matrix, targets = (x.contiguous() for x in (hidden_nrw, matrix_nvw, targets_nr))
    (n, r, w), v = hidden.shape, matrix.shape[1]
    levels, totals = (hidden.new_empty(n, r, dtype=torch.float32) for _ in range(2))
    row_tiles, word_tiles = triton.cdiv(r, ROWS), triton.cdiv(v, COLUMNS)
    sums = levels.new_empty(n, word_tiles, r)
    some = (triton.cdiv(r, SOME_ROWS), n)
    _levels_kernel[some](
        hidden, matrix, targets, levels, r, v,
        WIDTH=w, ROWS=SOME_ROWS, BLOCK=triton.next_power_of_2(w),
    )  # fmt: skip
    tiles = n * row_tiles * word_tiles
    programs = min(tiles, _multiprocessors(hidden.device))
    _exponentials_kernel[(programs,)](
        TensorDescriptor.from_tensor(hidden, [1, ROWS, DEPTH]),
        TensorDescriptor.from_tensor(matrix, [1, COLUMNS, DEPTH]),
        TensorDescriptor.from_tensor(into_nrv, [1, ROWS, COLUMNS // 2]),
        levels, sums, r, v, row_tiles, word_tiles, tiles,
        WIDTH=w, ROWS=ROWS, COLUMNS=COLUMNS, DEPTH=DEPTH, PROGRAMS=programs,
        WHOLE=v % COLUMNS == 0, num_stages=STAGES, num_warps=8,
    )  # fmt: skip
    _totals_kernel[some](
        sums, targets, levels, into_nrv, losses_nr, totals, r,
        into_nrv.stride(0), into_nrv.stride(1), losses_nr.stride(0), word_tiles,
        ROWS=SOME_ROWS, TILES=triton.next_power_of_2(word_tiles),
    )  # fmt: skip
    return totals


def _multiprocessors(device: torch.device) -> int:
    """How many tiles are computed at a time."""
    if device.type != "cuda":
        return 3  # interpreted
    return torch.cuda.get_device_properties(device).multi_processor_count
