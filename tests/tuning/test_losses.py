import torch
from torch import nn
from torch.nn import functional

from mteb_longembed.tuning.trainer import DistilledRankingLoss

TEMPERATURE = 0.1


def columns():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(6, 5, generator=generator, requires_grad=True) for _ in range(4)]


def by_hand(reps, teacher):
    q, *documents = (functional.normalize(r, dim=-1) for r in reps)
    everything = q @ torch.cat(documents).T / TEMPERATURE
    contrastive = functional.cross_entropy(everything, torch.arange(len(q)))
    scores = torch.stack([(q * d).sum(-1) for d in documents], 1) / TEMPERATURE
    p = teacher.softmax(1)
    kl = (p * (p.log() - scores.log_softmax(1))).sum(1).mean()
    return kl + 0.2 * contrastive


def test_distillation_is_kl_plus_a_fifth_of_infonce():
    reps, teacher = columns(), torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    loss = DistilledRankingLoss(nn.Sequential(nn.Identity()), scale=1 / TEMPERATURE, mini_batch_size=4)
    value = loss.calculate_loss([[r[:4], r[4:]] for r in reps], teacher)
    assert torch.allclose(value, by_hand(reps, teacher), atol=1e-5)


def test_its_cached_gradients_are_those_of_the_whole():
    teacher = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    full, parts = columns(), columns()
    by_hand(full, teacher).backward()
    loss = DistilledRankingLoss(nn.Sequential(nn.Identity()), scale=1 / TEMPERATURE, mini_batch_size=2)
    returned = loss.calculate_loss([[r] for r in parts], teacher, with_backward=True)
    assert not returned.requires_grad
    for one, other in zip(full, parts, strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-5)
