"""Stands for `gymnasium`: an environment with random observations whose episodes last 50 steps."""

import numpy

EPISODE = 50


class Space:
    def __init__(self, shape=(4,), n=None, dtype=numpy.float32):
        self.shape, self.dtype = shape, dtype
        if n is not None:
            self.n = n
        self.low, self.high = numpy.full(shape, -1.0, dtype), numpy.full(shape, 1.0, dtype)
        self._random = numpy.random.RandomState(3)

    def seed(self, seed=None):
        return [seed]

    def sample(self):
        if hasattr(self, "n"):
            return int(self._random.randint(self.n))
        return self._random.uniform(-1, 1, self.shape).astype(self.dtype)


class Box(Space):
    def __init__(self, low=-1.0, high=1.0, shape=(4,), dtype=numpy.float32):
        super().__init__(shape, None, dtype)


class Discrete(Space):
    def __init__(self, n=2):
        super().__init__((), n, numpy.int64)


class Env:
    metadata = {}
    spec = None

    def __init__(self, *_, **__):
        self.observation_space, self.action_space = Box(), Discrete()
        self.single_observation_space, self.single_action_space = self.observation_space, self.action_space
        self._random, self._steps = numpy.random.RandomState(5), 0

    @property
    def unwrapped(self):
        return self

    def _observe(self):
        return self._random.uniform(-1, 1, self.observation_space.shape).astype(numpy.float32)

    def reset(self, *, seed=None, options=None):
        self._steps = 0
        return self._observe(), {}

    def step(self, action):
        self._steps += 1
        return self._observe(), 1.0, self._steps >= EPISODE, False, {}

    def seed(self, seed=None):
        return [seed]

    def render(self):
        pass

    def close(self):
        pass


class Wrapper(Env):
    def __init__(self, env, *_, **__):
        self.__dict__.update(env.__dict__)


class Vector:
    """Several environments at once, as `gymnasium.vector.SyncVectorEnv`."""

    def __init__(self, makers, *_, **__):
        self.envs = [make() for make in makers]
        self.num_envs = len(self.envs)
        first = self.envs[0]
        self.single_observation_space, self.single_action_space = first.observation_space, first.action_space
        self.observation_space, self.action_space = first.observation_space, first.action_space

    def reset(self, **_):
        return numpy.stack([env.reset()[0] for env in self.envs]), {}

    def step(self, actions):
        rows = []
        for env, action in zip(self.envs, actions):
            observation, reward, ended, cut, _ = env.step(action)
            rows.append((env.reset()[0] if ended else observation, reward, ended, cut))
        observations, rewards, ended, cut = zip(*rows)
        infos = {"final_observation": numpy.stack(observations)} if any(ended) else {}
        return numpy.stack(observations), numpy.array(rewards), numpy.array(ended), numpy.array(cut), infos

    def close(self):
        pass


def module(gymnasium):
    import sys
    import types

    gymnasium.make = lambda *_, **__: Env()
    gymnasium.Env, gymnasium.Wrapper, gymnasium.__version__ = Env, Wrapper, "1.0"
    parts = {
        "spaces": {"Box": Box, "Discrete": Discrete, "Space": Space},
        "wrappers": {name: Wrapper for name in ("RecordEpisodeStatistics", "RecordVideo", "FlattenObservation", "ClipAction", "NormalizeObservation", "TransformObservation", "NormalizeReward", "TransformReward", "TimeLimit")},
        "vector": {"SyncVectorEnv": Vector, "VectorEnv": Vector},
    }
    for name, contents in parts.items():
        part = types.ModuleType(f"{gymnasium.__name__}.{name}")
        part.__dict__.update(contents)
        setattr(gymnasium, name, part)
        sys.modules[part.__name__] = part
    gymnasium.Space = Space
