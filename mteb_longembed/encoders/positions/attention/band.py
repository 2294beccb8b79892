"""Attention in a band: each token sees its neighbours on both sides, or on one. No matrix of size n x n is made."""

from functools import lru_cache

import torch
from torch import Tensor

from mteb_longembed.encoders.features import to_device

from .kernels import attend


def attend_band(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float, left: int, right: int
) -> tuple[Tensor, Tensor]:
    """Row i over keys i-left..i+right, and the log-sum-exp of each row's scores, as `attend` returns them.

    Rows run in blocks. The blocks that see no end of the document have one mask, so they run in one call. `q`, `k` and
    `v` are as there.
    """
    n = q.shape[2]
    left = min(left, n - 1)
    right = min(right, n - 1)
    # small blocks score fewer unneeded keys, large blocks have less overhead
    size = min(max(64, (left + right) // 8), 512)
    mask = _mask(size, left, right, q.device)
    # where the blocks start that see no end of the document
    inner = range(-(-left // size) * size, (n - right) // size * size, size)
    parts = []
    for start in range(0, n, size):
        if start not in inner:
            stop = min(start + size, n)
            low = max(start - left, 0)
            high = min(stop + right, n)
            shift = left - (start - low)
            seen = mask[: stop - start, shift : shift + high - low]
            keys = k[:, :, low:high]
            parts.append(attend(q[:, :, start:stop], keys, v[:, :, low:high], scale=scale, mask=seen))
        elif start == inner.start:
            rows = slice(inner.start, inner.stop)
            cols = slice(inner.start - left, inner.stop + right)
            parts.append(_attend_inner(q[:, :, rows], k[:, :, cols], v[:, :, cols], mask, scale))
    out, lse = zip(*parts, strict=True)
    return torch.cat(out, dim=2), torch.cat(lse, dim=2)


def _attend_inner(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """Rows of whole blocks, and all keys around them: each block sees its part of the keys through the same mask."""
    size, width = mask.shape
    outs = []
    lses = []
    for one in range(len(q)):
        # [h, n, d] -> [blocks, h, size, d]: views, which are possible because there is only one document
        blocks = q[one].unflatten(1, (-1, size)).transpose(0, 1)
        keys = k[one].unfold(1, width, size).permute(1, 0, 3, 2)
        values = v[one].unfold(1, width, size).permute(1, 0, 3, 2)
        out, lse = attend(blocks, keys, values, scale=scale, mask=mask)
        outs.append(out.transpose(0, 1).flatten(1, 2))
        lses.append(lse.transpose(0, 1).flatten(1, 2))
    return torch.stack(outs), torch.stack(lses)


@lru_cache(maxsize=16)
@torch.inference_mode(False)
def _mask(size: int, left: int, right: int, device: torch.device) -> Tensor:
    """Mask of `size` rows over the `left + size + right` columns around them: 0 where a row sees a column, or -inf."""
    distance = torch.arange(size)[:, None] + left - torch.arange(left + size + right)
    mask = torch.zeros(distance.shape).masked_fill((distance > left) | (distance < -right), -torch.inf)
    return to_device(mask, device)
