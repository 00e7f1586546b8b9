# mypy: ignore-errors
"""The kernel of `paged_kernel`, in Triton's language, which no type checker reads; it is imported where it is used.

Tests run it in Triton's interpreter, and compile it for a GPU.
"""

import triton
import triton.language as tl


@triton.jit
def attend_part(
    q, keys, values, table, begins, out, tops, totals, q_row, block, columns, flat_rows, part,
    WIDTH: tl.constexpr, GROUP: tl.constexpr, KV: tl.constexpr, DIM: tl.constexpr, G: tl.constexpr,
    WINDOW: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, DIMS: tl.constexpr, DOUBLE: tl.constexpr,
):  # fmt: skip
    """Write, of one request's rows that share one head's keys, what they see of one part of its positions.

    That is their values times exp(score - top), the tops, and the sums of those factors. A program's rows are a
    request's window for a group of heads; `q_row` and `block` are strides in numbers, `part` is in positions.
    """
    row, kv, cut = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    sums = tl.float64 if DOUBLE else tl.float32
    root = tl.sqrt(tl.full([], DIM, sums))  # a number that is passed has single precision
    begin = tl.load(begins + row)
    m, n, d = tl.arange(0, QUERIES), tl.arange(0, KEYS), tl.arange(0, DIMS)
    step, head = m % WIDTH, kv * GROUP + m // WIDTH
    live, inside = m < GROUP * WIDTH, d < DIM
    high = begin + step
    there = (row * WIDTH + step) * q_row + head * DIM
    queries = tl.load(q + there[:, None] + d[None, :], mask=live[:, None] & inside[None, :], other=0.0)
    first = tl.maximum(tl.maximum(begin - WINDOW + 1, 0), cut * part)
    last = tl.minimum(begin + WIDTH, (cut + 1) * part)
    top = tl.full([QUERIES], float("-inf"), sums)
    total = tl.zeros([QUERIES], sums)
    acc = tl.zeros([QUERIES, DIMS], sums)
    for start in range(first, last, KEYS):
        at = start + n
        page = tl.load(table + row * columns + at // G, mask=at < last, other=0)
        place = page * block + (at % G) * (KV * DIM) + kv * DIM
        loaded = (at < last)[:, None] & inside[None, :]
        k = tl.load(keys + place[:, None] + d[None, :], mask=loaded, other=0.0)
        v = tl.load(values + place[:, None] + d[None, :], mask=loaded, other=0.0)
        scores = tl.dot(queries, tl.trans(k), input_precision="ieee", out_dtype=sums) / root
        seen = (at < last)[None, :] & (at[None, :] <= high[:, None]) & (at[None, :] > high[:, None] - WINDOW)
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        factors, decay = tl.exp(scores - base[:, None]), tl.exp(top - base)
        total = total * decay + tl.sum(factors, 1)
        acc = acc * decay[:, None] + tl.dot(factors.to(v.dtype), v, input_precision="ieee", out_dtype=sums)
        top = higher
    flat = (cut * flat_rows + row * WIDTH + step) * (KV * GROUP) + head
    tl.store(out + flat[:, None] * DIM + d[None, :], acc, mask=live[:, None] & inside[None, :])
    tl.store(tops + flat, top, mask=live)
    tl.store(totals + flat, total, mask=live)
