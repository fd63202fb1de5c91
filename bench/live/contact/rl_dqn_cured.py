"""DQN with target network and replay on a toy 'follow the beacon' world."""
import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
random.seed(1)
np.random.seed(1)
torch.manual_seed(1)

Transition = namedtuple("Transition", "state action reward next_state done")
OBS, ACTIONS = 64, 8
UPDATES = 1200


class Beacon:
    """The agent moves on a circle; sensors give a blurred view of the beacon."""

    def __init__(self):
        self.angles = np.linspace(0, 2 * np.pi, OBS, endpoint=False)
        self.reset()

    def reset(self):
        self.me = np.random.uniform(0, 2 * np.pi)
        self.beacon = np.random.uniform(0, 2 * np.pi)
        self.t = 0
        return self.observe()

    def observe(self):
        d = np.cos(self.angles + self.me - self.beacon)
        return d + 0.05 * np.random.randn(OBS)

    def step(self, action):
        self.me += (action - (ACTIONS - 1) / 2) * 0.1
        self.beacon += 0.02
        self.t += 1
        reward = float(np.cos(self.me - self.beacon))
        return self.observe(), reward, self.t >= 100


class Replay:
    def __init__(self, size):
        self.memory = deque(maxlen=size)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return Transition(*zip(*random.sample(self.memory, n)))


def to_batch(rows):
    return torch.from_numpy(np.stack(rows)).float()


def qnet():
    return nn.Sequential(nn.Linear(OBS, 384), nn.ReLU(), nn.Linear(384, 384), nn.ReLU(),
                         nn.Linear(384, ACTIONS))


def act(q, state, eps):
    if random.random() < eps:
        return random.randrange(ACTIONS)
    with torch.no_grad():
        return int(q(torch.from_numpy(state).float()).argmax())


def update(q, target, opt, replay, n=768, gamma=0.98):
    batch = replay.sample(n)
    s = to_batch(batch.state)
    s2 = to_batch(batch.next_state)
    a = torch.tensor(batch.action)
    r = torch.tensor(batch.reward)
    done = torch.tensor(batch.done, dtype=torch.float32)
    with torch.no_grad():
        goal = r + gamma * (1 - done) * target(s2).max(1).values
    value = q(s).gather(1, a[:, None]).squeeze(1)
    loss = F.smooth_l1_loss(value, goal)
    opt.zero_grad()
    loss.backward()
    opt.step()


def main():
    env, replay = Beacon(), Replay(20000)
    q, target = qnet(), qnet()
    target.load_state_dict(q.state_dict())
    opt = torch.optim.Adam(q.parameters(), lr=5e-4, fused=True)
    state, score, eps = env.reset(), 0.0, 1.0
    for _ in range(1500):
        action = random.randrange(ACTIONS)
        nxt, reward, done = env.step(action)
        replay.push(state, action, reward, nxt, done)
        state = env.reset() if done else nxt
    for i in range(UPDATES):
        eps = max(0.05, eps * 0.995)
        for _ in range(4):
            action = act(q, state, eps)
            nxt, reward, done = env.step(action)
            replay.push(state, action, reward, nxt, done)
            state = env.reset() if done else nxt
            score = 0.99 * score + 0.01 * reward
        update(q, target, opt, replay)
        if i % 100 == 0:
            target.load_state_dict(q.state_dict())
            print(f"update {i} score {score:.3f}")


if __name__ == "__main__":
    main()
