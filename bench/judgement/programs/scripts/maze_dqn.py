"""Deep Q-learning on a small pixel maze (frame stack of four)."""
import collections
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SIDE = 32
STACK = 4
ACTIONS = 4
GAMMA = 0.98
BATCH = 96
TRAIN_STEPS = 5_000_000

Transition = collections.namedtuple("Transition", "state action reward next_state done")


class PixelMaze:
    """Agent (bright) has to reach the goal (grey) on a 32x32 canvas."""

    moves = np.array([[0, 2], [0, -2], [2, 0], [-2, 0]])

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.agent = self.rng.integers(0, SIDE - 2, 2)
        self.goal = self.rng.integers(0, SIDE - 2, 2)
        self.t = 0
        self.frames = collections.deque([self._draw()] * STACK, maxlen=STACK)
        return np.stack(self.frames)

    def _draw(self):
        canvas = np.zeros((SIDE, SIDE), dtype=np.float32)
        canvas[self.goal[0]:self.goal[0] + 2, self.goal[1]:self.goal[1] + 2] = 0.5
        canvas[self.agent[0]:self.agent[0] + 2, self.agent[1]:self.agent[1] + 2] = 1.0
        return canvas

    def step(self, action):
        before = np.abs(self.agent - self.goal).sum()
        self.agent = np.clip(self.agent + self.moves[action], 0, SIDE - 2)
        after = np.abs(self.agent - self.goal).sum()
        self.t += 1
        self.frames.append(self._draw())
        done = bool(after <= 2 or self.t >= 100)
        reward = 1.0 if after <= 2 else 0.05 * float(before - after) - 0.01
        return np.stack(self.frames), reward, done


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(STACK, 32, 4, stride=2), nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2), nn.ReLU(),
            nn.Flatten(),
        )
        self.value = nn.Sequential(nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, ACTIONS))

    def forward(self, x):
        return self.value(self.conv(x))


class ReplayMemory:
    def __init__(self, capacity):
        self.memory = []
        self.capacity = capacity
        self.cursor = 0

    def push(self, transition):
        if len(self.memory) < self.capacity:
            self.memory.append(transition)
        else:
            self.memory[self.cursor] = transition
        self.cursor = (self.cursor + 1) % self.capacity

    def sample(self, count):
        rows = Transition(*zip(*random.sample(self.memory, count)))
        states = torch.tensor(rows.state, dtype=torch.float32)
        next_states = torch.tensor(np.stack(rows.next_state))
        actions = torch.tensor(rows.action).unsqueeze(1)
        rewards = torch.tensor(rows.reward, dtype=torch.float32)
        done = torch.tensor(rows.done, dtype=torch.float32)
        return states, actions, rewards, next_states, done


def learn(online, target, optimizer, memory):
    states, actions, rewards, next_states, done = memory.sample(BATCH)
    q = online(states).gather(1, actions).squeeze(1)
    with torch.no_grad():
        best = online(next_states).argmax(1, keepdim=True)
        future = target(next_states).gather(1, best).squeeze(1)
        wanted = rewards + GAMMA * (1.0 - done) * future
    loss = F.smooth_l1_loss(q, wanted)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    optimizer.step()
    return loss


def main():
    torch.set_num_threads(1)
    random.seed(0)
    torch.manual_seed(0)
    env = PixelMaze(0)
    online, target = QNetwork(), QNetwork()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.RMSprop(online.parameters(), lr=2.5e-4)
    memory = ReplayMemory(4000)

    state = env.reset()
    returns, total = collections.deque(maxlen=50), 0.0
    for step in range(TRAIN_STEPS):
        epsilon = max(0.05, 1.0 - step / 20_000)
        if random.random() < epsilon:
            action = random.randrange(ACTIONS)
        else:
            with torch.no_grad():
                action = int(online(torch.from_numpy(state)[None]).argmax())
        next_state, reward, done = env.step(action)
        memory.push(Transition(state, action, reward, next_state, done))
        total += reward
        state = next_state
        if done:
            returns.append(total)
            state, total = env.reset(), 0.0
        if len(memory.memory) >= 300:
            loss = learn(online, target, optimizer, memory)
            if step % 500 == 0:
                print(f"step {step} loss {loss.item():.4f} return {np.mean(returns):.3f} eps {epsilon:.2f}", flush=True)
        if step % 1000 == 0:
            target.load_state_dict(online.state_dict())


if __name__ == "__main__":
    main()
