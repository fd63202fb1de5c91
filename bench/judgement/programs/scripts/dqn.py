"""DQN with a replay buffer."""

import collections
import random

import torch
from torch import nn

Transition = collections.namedtuple("Transition", "state action reward next_state done")


class ReplayBuffer:
    def __init__(self, capacity):
        self.memory = collections.deque(maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        batch = random.sample(self.memory, batch_size)
        states = torch.tensor([t.state for t in batch])
        actions = torch.tensor([t.action for t in batch])
        rewards = torch.tensor([t.reward for t in batch])
        next_states = torch.tensor([t.next_state for t in batch])
        dones = torch.tensor([t.done for t in batch], dtype=torch.float32)
        return states, actions, rewards, next_states, dones


class QNet(nn.Module):
    def __init__(self, obs=128, actions=8, hidden=512):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(obs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, actions)
        )

    def forward(self, x):
        return self.net(x)


class Agent:
    def __init__(self):
        self.q, self.target = QNet(), QNet()
        self.target.load_state_dict(self.q.state_dict())
        self.opt = torch.optim.Adam(self.q.parameters(), lr=1e-4)
        self.buffer = ReplayBuffer(20000)
        self.steps = 0

    @torch.no_grad()
    def act(self, state):
        if random.random() < 0.1:
            return random.randrange(8)
        return int(self.q(torch.tensor(state)).argmax())

    def learn(self, batch_size=256):
        states, actions, rewards, next_states, dones = self.buffer.sample(batch_size)
        q = self.q(states).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            target = rewards + 0.99 * (1 - dones) * self.target(next_states).max(1).values
        loss = nn.functional.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.steps += 1
        if self.steps % 200 == 0:
            self.target.load_state_dict(self.q.state_dict())
        return loss


def env_step(state, action):
    nxt = [0.9 * s + random.gauss(0, 0.1) for s in state]
    return nxt, float(-abs(nxt[action])), random.random() < 0.01


def main():
    random.seed(0)
    torch.manual_seed(0)
    agent = Agent()
    state = [random.gauss(0, 1) for _ in range(128)]
    for t in range(10**7):
        action = agent.act(state)
        nxt, reward, done = env_step(state, action)
        agent.buffer.push(state, action, reward, nxt, done)
        state = nxt
        if t > 1000 and t % 4 == 0:
            loss = agent.learn()
            if agent.steps % 100 == 0:
                print(agent.steps, float(loss), flush=True)


if __name__ == "__main__":
    main()
