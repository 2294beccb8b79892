"""Further rotations of queries and keys that already have their usual rotary positions."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mteb_longembed.encoders.features import to_device

#: Cosines and sines `[n, r/2]`.
CosSin = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Rotation:
    """How a model rotates: frequencies, and which dimensions form a pair.

    Args:
        inv_freq: `[r/2]` float32 inverse frequencies. The first r of d dimensions are rotated.
        interleaved: whether pairs are neighbours, (0, 1), (2, 3) ..., or halves, (0, r/2), (1, r/2 + 1) ...
    """

    inv_freq: Tensor
    interleaved: bool = False

    def angles(self, to: Tensor, device: torch.device) -> CosSin:
        """Cosines and sines that rotate token i from its position i to `to[i]`. `to` is `[n]`, on the host.

        The model computed its angle `i * inv_freq` in float32. Its rounding error is 1e-3 rad at 32k tokens. The
        difference to it is computed in float64, and this removes the error.
        """
        # Apple's devices have no float64, and on CUDA devices it is faster than on the host
        work = torch.device("cpu")
        if device.type == "cuda":
            work = device
        inv_freq = to_device(self.inv_freq, work)
        to = to_device(to, work)
        now = torch.arange(len(to), device=work).float()[:, None] * inv_freq.float()
        angle = to.double()[:, None] * inv_freq.double() - now.double()
        return to_device(angle.cos().float(), device), to_device(angle.sin().float(), device)

    def rotate(self, x: Tensor, angles: CosSin) -> Tensor:
        """`x` `[b, h, n, d]`, rotated further by these angles."""
        work = torch.promote_types(x.dtype, torch.float32)
        cos = angles[0].to(work)
        sin = angles[1].to(work)
        pairs = cos.shape[-1]
        rotated = x[..., : 2 * pairs]
        rest = x[..., 2 * pairs :]
        if self.interleaved:
            a = rotated[..., 0::2].to(work)
            b = rotated[..., 1::2].to(work)
            out = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
        else:
            a = rotated[..., :pairs].to(work)
            b = rotated[..., pairs:].to(work)
            out = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
        out = out.to(x.dtype)
        if rest.shape[-1] == 0:
            return out
        return torch.cat([out, rest], dim=-1)
