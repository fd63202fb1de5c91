"""Advantage actor-critic on many cart-poles."""
import math
import random

import torch
from torch import nn
from torch.distributions import Categorical

ENVS, HORIZON, GAMMA = 32, 12, 0.99


class CartPole:
    def reset(self):
        self.state = [random.uniform(-0.05, 0.05) for _ in range(4)]
        self.t = 0
        return list(self.state)

    def step(self, action):
        x, xd, th, thd = self.state
        force = 10.0 if action else -10.0
        c, s = math.cos(th), math.sin(th)
        temp = (force + 0.05 * thd * thd * s) / 1.1
        tha = (9.8 * s - c * temp) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
        xa = temp - 0.05 * tha * c / 1.1
        self.state = [x + 0.02 * xd, xd + 0.02 * xa, th + 0.02 * thd, thd + 0.02 * tha]
        self.t += 1
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21 or self.t >= 500
        return (self.reset() if done else list(self.state)), 1.0, done


class ActorCritic(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.pi, self.v = nn.Linear(hidden, 2), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.body(x)
        return self.pi(h), self.v(h).squeeze(-1)


def select_actions(model, observations):
    actions = []
    with torch.no_grad():
        for obs in observations:
            logits, _ = model(torch.tensor(obs).unsqueeze(0))
            actions.append(Categorical(logits=logits).sample().squeeze(0))
    return torch.stack(actions)


def main():
    torch.manual_seed(0)
    random.seed(0)
    model = ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4)
    envs = [CartPole() for _ in range(ENVS)]
    observations = [env.reset() for env in envs]
    for update in range(1, 1_000_000):
        obs_buf, act_buf, rew_buf, done_buf = [], [], [], []
        for _ in range(HORIZON):
            actions = select_actions(model, observations)
            obs_buf.append(torch.tensor(observations))
            act_buf.append(actions)
            results = [env.step(a) for env, a in zip(envs, actions.tolist())]
            observations = [r[0] for r in results]
            rew_buf.append(torch.tensor([r[1] for r in results]))
            done_buf.append(torch.tensor([float(r[2]) for r in results]))
        logits, values = model(torch.stack(obs_buf))
        with torch.no_grad():
            future = model(torch.tensor(observations))[1]
        returns = []
        for reward, done in zip(reversed(rew_buf), reversed(done_buf)):
            future = reward + GAMMA * future * (1 - done)
            returns.insert(0, future)
        returns = torch.stack(returns)
        advantage = returns - values
        dist = Categorical(logits=logits)
        policy_loss = -(dist.log_prob(torch.stack(act_buf)) * advantage.detach()).mean()
        loss = policy_loss + 0.5 * advantage.pow(2).mean() - 0.01 * dist.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if update % 50 == 0:
            print(f"update {update} loss {loss.item():.3f} return {returns.mean().item():.1f}", flush=True)


if __name__ == "__main__":
    main()
