"""Sources for the static analysis: faults, each marked in its line by `#! code` for every finding, and clean code."""

FAULTS = {
    "set-order": """
        def train(step):
            for name in {"b", "a"}:  #! set-order
                step(name)
        labels = set(open("x").read().split())
        index = {label: i for i, label in enumerate(labels)}  #! set-order
        order = list(labels)  #! set-order
        print(order[0])
        first = next(iter(labels))  #! set-order
        names = [n for n in labels | {"z"}]  #! set-order
        model = sorted(names)[0] + names[0] + first
        table = dict.fromkeys(labels)  #! set-order
        text = ",".join(labels - {"q"})  #! set-order
        taken = labels.pop()  #! set-order
        train(text + taken)
        class Vocabulary:
            def __init__(self, words):
                self.words = set(words)
            def numbers(self):
                return {w: i for i, w in enumerate(self.words)}  #! set-order
        def tokens(items: set[str], d):
            for token in items:  #! set-order
                yield token
            for key in d.keys() - items:  #! set-order
                d[key] = 1
        def unique(items):
            return set(items)
        for item in unique("abc"):  #! set-order
            train(item)
    """,
    "listing-order": """
        import glob, os
        from os import listdir as ls
        from pathlib import Path
        def train(step, folder):
            for file in os.listdir(folder):  #! listing-order
                step(file)
            files = glob.glob("*.txt")  #! listing-order
            step(files)
            step([p for p in Path(folder).iterdir()])  #! listing-order
            paths = list(Path(folder).rglob("*.pt"))  #! listing-order
            return paths[-1], ls(folder)  #! listing-order
    """,
    "hash-order": """
        import torch
        def feature(text, n):
            return hash(text) % n  #! hash-order
        def row(text):
            number = abs(hash(text))  #! hash-order
            return number % 1000
        def bucket(x, table, rows):
            torch.manual_seed(hash("name"))  #! hash-order
            order = sorted(rows, key=id)  #! hash-order
            return table[hash(x)], order, id(x) % 7  #! hash-order hash-order
    """,
    "unseeded": """
        import numpy as np
        import torch as t
        from random import shuffle
        from torch import nn, randperm
        import torch.nn.functional as F
        noise = np.random.randn(3)  #! unseeded
        rng = np.random
        more = rng.normal(size=3)  #! unseeded
        shuffle([1, 2])  #! unseeded
        order = randperm(4)  #! unseeded
        model = nn.Linear(2, 2)  #! unseeded
        y = F.dropout(model(t.ones(2)))  #! unseeded
        weight = t.zeros(3)
        weight.normal_()  #! unseeded
        np.random.seed(None)  #! unseeded
        t.seed()  #! unseeded
        if __name__ == "__main__":
            def later():
                return t.rand_like(weight)  #! unseeded
    """,
    "unseeded-generator": """
        import random
        import numpy as np, torch
        from numpy.random import default_rng
        rng = default_rng()  #! unseeded-generator
        state = np.random.RandomState(None)  #! unseeded-generator
        mine = random.Random()  #! unseeded-generator
        generator = torch.Generator(device="cpu")  #! unseeded-generator
    """,
    "clock": """
        import os, random, time, uuid, secrets
        from datetime import datetime
        import torch
        random.seed(time.time())  #! clock
        seed = int(time.time() * 1000) % 2**31  #! clock
        torch.manual_seed(int.from_bytes(os.urandom(4), "little"))  #! clock
        rng = random.Random(secrets.randbits(32))  #! clock
        torch.manual_seed(uuid.uuid4().int)  #! clock
        x = torch.tensor(time.time())  #! clock
        def train(model, batches):
            start = time.monotonic()  #! clock
            for batch in batches:
                if time.monotonic() - start > 60:  #! clock
                    break
                model(batch)
            if datetime.now().hour < 12:  #! clock
                model.step()
            return batches[time.time_ns() % 4]  #! clock
    """,
    "loader": """
        import torch
        from torch.utils.data import DataLoader
        def loaders(data, n):
            a = DataLoader(data, batch_size=4, shuffle=True)  #! loader
            b = torch.utils.data.DataLoader(data, num_workers=2)  #! loader
            c = DataLoader(data, num_workers=n)  #! loader
            return a, b, c
    """,
    "sampler-epoch": """
        from torch.utils.data.distributed import DistributedSampler
        def sampler(data):
            return DistributedSampler(data, num_replicas=2, rank=0)  #! sampler-epoch
    """,
    "uninitialised": """
        import numpy as np
        import torch
        def read(x):
            total = torch.empty(3) + x  #! uninitialised
            out = torch.empty_like(x)  #! uninitialised
            out += x
            grown = x.new_empty(4)  #! uninitialised
            print(grown.shape)
            mean = grown.view(2, 2).mean()
            rows = torch.empty(4, 2)  #! uninitialised
            rows.index_add_(0, x.long(), x)
            cells = np.empty((2, 2))  #! uninitialised
            return np.sum(cells), mean, total, torch.matmul(torch.empty(2, 2), x)  #! uninitialised
    """,
    "operator": """
        import torch
        import torch.nn.functional as F
        from torch import scatter_add as sa, nn
        def forward(x, index, src):
            a = sa(x, 0, index, src)  #! operator
            x.index_add_(0, index, src)  #! operator
            b = x.gather(1, index)  #! operator
            c = F.interpolate(x, scale_factor=2, mode="bicubic")  #! operator
            d = F.pad(x, (1, 1, 1, 1), mode="reflect")  #! operator
            x.index_put_((index,), src, accumulate=True)  #! operator
            x.scatter_reduce_(0, index, src, reduce="prod")  #! operator
            e = torch.bincount(index, weights=src)  #! operator
            f = F.scaled_dot_product_attention(x, x, x)  #! operator
            return a, b, c, d, e, f, torch.median(x, dim=0), x.histc(4)  #! operator operator
        class Net(nn.Module):
            def __init__(self):
                self.table = nn.Embedding(4, 2)  #! operator
                self.pool = nn.AdaptiveAvgPool2d(1)  #! operator
    """,
    "syntax": "x = = 1  #! syntax",
}

CLEAN = {
    "seeded training": """
        import os, random, time
        import numpy as np
        import torch
        from torch import nn
        from torch.utils.data import DataLoader, TensorDataset

        def seed_worker(worker_id):
            seed = torch.initial_seed() % 2**32
            np.random.seed(seed)
            random.seed(seed)

        random.seed(0)
        np.random.seed(0)
        torch.manual_seed(0)
        torch.cuda.manual_seed_all(0)
        generator = torch.Generator()
        generator.manual_seed(0)
        data = TensorDataset(torch.randn(64, 8), torch.randint(0, 2, (64,)))
        loader = DataLoader(data, shuffle=True, num_workers=2, worker_init_fn=seed_worker, generator=generator)
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters())
        start = time.time()
        for epoch in range(3):
            for x, y in loader:
                loss = nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: {loss.item():.4f} after {time.time() - start:.1f} s")
        rate = 64 * 3 / (time.time() - start)
        print(rate)
        torch.save(model.state_dict(), "model.pt")
    """,
    "sets used as sets": """
        import logging
        from lightning import rank_zero_warn
        logger = logging.getLogger(__name__)
        def check(keys, known: set, d, more):
            seen = set()
            for key in keys:
                if key in seen or key not in known:
                    raise ValueError(f"unknown: {list(known - seen)}")
                seen.add(key)
            for key in seen:
                known.discard(key)
            for key in known & seen:
                if key not in d:
                    logger.warning("%s", key)
                    continue
                del d[key]
            missing = set(keys) - known
            if missing:
                logger.info("missing: %s", ", ".join(missing))
                rank_zero_warn(f"missing: {', '.join(missing)}")
                both = {*missing, *known}
                seen.update(both)
            total = len(list(missing)) + len({k for k in missing}) + max(missing)
            names = list(set(keys))
            names.sort()
            words = set(more)
            words = sorted(words)
            for word in words:
                d[word] = total
            small = {1, 2, 3}
            for number in small:
                d[number] = names
            for i in set(range(10)):
                d[i] = i
            return sorted(missing), any(k for k in missing), seen == known, dict.fromkeys(keys)
    """,
    "sorted folders": """
        import glob, os
        from pathlib import Path
        def files(folder, glob_function):
            for name in sorted(os.listdir(folder)):
                print(name)
            found = glob.glob("*.txt")
            found.sort()
            paths = [p for p in Path(folder).glob("*.pt") if p.is_file()]
            paths = sorted(paths)
            if "config.json" in os.listdir(folder) or len(os.listdir(folder)) == 0:
                return found
            for path in Path(folder).iterdir():
                if not path.suffix:
                    raise ValueError(path)
            return sorted(paths), glob_function.glob("a", "b")
    """,
    "hashes of its own": """
        class Key:
            def __hash__(self):
                return hash((self.a, self.b)) % 2**31
            def copy(self, memo):
                memo[id(self)] = hash(7) % 3
                if id(self) in memo and hash(self.a) == hash(self.b):
                    return memo[id(self)]
        def clean(hash, id):
            return hash("a") % 2, id("b") % 3
    """,
    "a module that only defines": """
        import numpy as np, torch, random
        from torch import nn
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
                self.weight = nn.Parameter(torch.empty(3, 3))
                nn.init.normal_(self.weight)
            def forward(self, x):
                return self.layer(x) + torch.randn_like(x) + np.random.rand() + random.random()
    """,
    "seeded by a helper": """
        import torch, random
        from helpers import set_seed
        set_seed(3)
        print(torch.rand(2), random.random())
    """,
    "own generators": """
        import random, torch
        import numpy as np
        generator = torch.Generator(device="cpu")
        generator.manual_seed(3)
        other = torch.Generator().manual_seed(4)
        rng, mine, state = np.random.default_rng(3), random.Random(4), np.random.RandomState(seed=5)
        print(torch.rand(3, generator=generator), rng.normal(), mine.random(), state.rand())
    """,
    "shadowed names": """
        from mylib import random, time
        def f(torch, set, np):
            time.time() % 3
            for x in set("ab"):
                torch.rand(3), np.random.rand(3), random.random()
    """,
    "clocks that only tell": """
        import time, uuid, datetime, os
        run = f"run-{uuid.uuid4()}-{datetime.datetime.now():%Y}"
        def wait(done, logger):
            deadline = time.time() + 30
            last = time.time()
            while time.time() < deadline:
                time.sleep(0.1)
                if time.time() - last > 5:
                    logger.info("waiting")
                    last = time.time()
            if time.time() > deadline:
                raise TimeoutError(run)
            started = time.perf_counter()
            done()
            elapsed = time.perf_counter() - started
            print("%.1f s" % elapsed, os.getpid())
            return {"seconds": elapsed}
    """,
    "loaders and samplers": """
        import torch
        from torch.utils.data import DataLoader, DistributedSampler
        def loaders(data, g, fn, options):
            sampler = DistributedSampler(data)
            for epoch in range(2):
                sampler.set_epoch(epoch)
            return (DataLoader(data), DataLoader(data, shuffle=False, num_workers=0), DataLoader(data, **options),
                    DataLoader(data, shuffle=True, generator=g), DataLoader(data, num_workers=2, worker_init_fn=fn))
    """,
    "memory that is written first": """
        import numpy as np, torch
        import torch.distributed as dist
        def fill(x, n, function):
            a = torch.empty(n).fill_(1)
            b = torch.empty_like(x)
            print(b.shape, b.device)
            b.copy_(x)
            c = torch.empty(2, n)
            c[0] = x
            d = np.empty(n)
            for i in range(n):
                d[i] = i
            e = torch.empty(n)
            dist.all_reduce(e)
            f = torch.empty(0) + x.new_empty(0)
            g = torch.empty(n)
            torch.add(x, x, out=g)
            h = torch.empty(n)
            function(h)
            y = torch.empty(n)
            y.uniform_(0, 1)
            return a + b + c + d.sum() + e + f + g + h + y
    """,
    "operators that repeat, and others of their names": """
        import torch
        import torch.nn.functional as F
        def forward(x, comm, table, accelerator):
            accelerator.gather(x)
            comm.scatter(x, 0)
            table.put(3)
            x.scatter_(1, table, 1.0)
            torch.bincount(x)
            torch.median(x)
            return F.interpolate(x, scale_factor=2), F.pad(x, (1, 1)), x.cumsum(0), torch.matmul(x, x), F.relu(x)
    """,
}
