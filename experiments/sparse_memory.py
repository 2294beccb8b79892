"""Peak memory of a learned sparse model: stock at 512 tokens, and `pcw` at 32,768 tokens. Each runs in its own process.

`python -m experiments.sparse_memory FOLDER`, with the folder of a SparseEncoder. The peak is in MB, less the memory
of the process before it encodes.
"""

import resource
import subprocess
import sys

WORDS = "the database writes each change to its log before it answers the client and cleans old rows later "


def peak(folder: str, kind: str) -> float:
    """The memory in MB that one long document takes, in this process."""
    from sentence_transformers import SparseEncoder

    import mteb_longembed

    text = WORDS * 2_500
    if kind == "stock":
        model = SparseEncoder(folder, device="cpu")
    else:
        model = mteb_longembed.load(f"{folder}+pcw@32k", device="cpu")  # type: ignore[assignment]
    model.encode_document(["a short text"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.encode_document([text])
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    """Print both peaks and their ratio."""
    folder, *rest = sys.argv[1:]
    if rest:
        print(peak(folder, rest[0]))
        return
    peaks = []
    for kind in ("stock", "pcw"):
        command = [sys.executable, "-W", "ignore", "-m", "experiments.sparse_memory", folder, kind]
        done = subprocess.run(command, text=True, check=True, stdout=subprocess.PIPE)
        peaks.append(float(done.stdout.split()[-1]))
    stock, ours = peaks
    print(f"stock at 512 tokens {stock:.0f} MB, pcw at 32,768 tokens {ours:.0f} MB: {ours / stock:.2f} times")


if __name__ == "__main__":
    main()
