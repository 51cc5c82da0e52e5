"""The four networks of FedGraph's Algorithm 4 and their updates, Eq. 10-14; settings of the agent.

========== =====================================================================
μ(s)       actor: the action [action size] in a state [state size]
q(s, a)    critic: discounted sum of the rewards that follow
μ~, q~     target networks, slow copies of the two
========== =====================================================================
"""

import copy
import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from autofgl.search.searcher import SearchError, State

Floats: TypeAlias = npt.NDArray[np.float32]

#: Half-width of the weights of an output layer, as in DDPG (Lillicrap et al., ICLR 2016), so that
#: first actions are close to 1/2 and first values close to 0.
OUTPUT_WIDTH = 3e-3
_NETWORKS = ("actor", "critic", "target_actor", "target_critic")


@dataclass(frozen=True)
class DDPGSettings:
    """Settings of the agent of FedGraph's Algorithm 4.

    The hidden layers are the paper's; learning rates, discount, soft update, batch and weight decay
    those of the authors' public code; buffer and noise are ours.
    """

    hidden: tuple[int, ...] = (512, 256)  # units of the hidden layers of actor and critic
    discount: float = 0.99  # γ, weight of the next round's value
    soft_update: float = 0.005  # φ, how far the target networks move at each step (Eq. 13, 14)
    batch: int = 32  # K, transitions in a mini-batch
    actor_lr: float = 1e-4  # η_μ of Eq. 12
    critic_lr: float = 1e-3  # η_q of Eq. 11
    critic_weight_decay: float = 1e-2  # L2 penalty of the critic
    buffer: int = 10_000  # transitions that are kept; the oldest goes when one more comes
    noise: float = 0.3  # standard deviation of the exploration in the first episode
    noise_decay: float = 0.99  # the noise shrinks by this factor with every episode,
    noise_floor: float = 0.02  # but not below this

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", tuple(self.hidden))
        layers = bool(self.hidden) and all(map(_is_count, self.hidden))
        fits = _is_count(self.buffer) and self.buffer >= self.batch
        rules = {
            "hidden": (layers, "at least one layer, each of at least one unit"),
            "discount": (0 <= self.discount <= 1, "in [0, 1]"),
            "soft_update": (0 < self.soft_update <= 1, "in (0, 1]"),
            "batch": (_is_count(self.batch), "a whole number, at least 1"),
            "actor_lr": (0 < self.actor_lr < math.inf, "above 0"),
            "critic_lr": (0 < self.critic_lr < math.inf, "above 0"),
            "critic_weight_decay": (0 <= self.critic_weight_decay < math.inf, "at least 0"),
            "buffer": (fits, f"a whole number, at least the batch of {self.batch}"),
            "noise_floor": (0 <= self.noise_floor < math.inf, "at least 0"),
            "noise": (self.noise_floor <= self.noise < math.inf, "at least its floor"),
            "noise_decay": (0 < self.noise_decay <= 1, "in (0, 1]"),
        }
        for name, (holds, wanted) in rules.items():
            if not holds:
                value = getattr(self, name)
                raise SearchError(f"DDPG's '{name}' is {value}, it has to be {wanted}")


class Transitions(NamedTuple):
    """Rounds that were seen: in a state s an action a earned r and led to s'."""

    states: Floats  # [n, state size]
    actions: Floats  # [n, action size]
    rewards: Floats  # [n]
    next_states: Floats  # [n, state size]
    done: Floats  # [n], 1 where nothing follows s', else 0


def perceptron(sizes: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """Linear layers with ReLU between them, their weights uniform and from this generator alone."""
    layers: list[nn.Module] = []
    for depth, (inputs, outputs) in enumerate(itertools.pairwise(sizes), 2):
        layer = nn.Linear(inputs, outputs, device="meta").to_empty(device="cpu")
        width = inputs**-0.5 if depth < len(sizes) else OUTPUT_WIDTH
        for parameter in layer.parameters():
            nn.init.uniform_(parameter, -width, width, generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class ActorCritic:
    """Actor, critic, their targets and their optimizers.

    Eq. 11 and 12 are plain gradient steps; like the original DDPG we take them with Adam.
    ``layers`` are sizes from the state over the hidden layers, the critic's too, to the action.
    """

    def __init__(
        self, layers: Sequence[int], settings: DDPGSettings, generator: torch.Generator
    ) -> None:
        state_size, *hidden, action_size = layers
        self.settings = settings
        self.actor = perceptron(layers, generator).append(nn.Sigmoid())
        self.critic = perceptron([state_size + action_size, *hidden, 1], generator)
        self.target_actor = copy.deepcopy(self.actor).requires_grad_(False)
        self.target_critic = copy.deepcopy(self.critic).requires_grad_(False)
        adam = functools.partial(torch.optim.Adam, fused=True)
        self._actor_adam = adam(self.actor.parameters(), settings.actor_lr)
        self._critic_adam = adam(
            self.critic.parameters(), settings.critic_lr, weight_decay=settings.critic_weight_decay
        )

    @torch.no_grad()
    def act(self, state: Floats) -> npt.NDArray[np.float64]:
        """μ(s), in [0, 1]."""
        action: Tensor = self.actor(torch.from_numpy(state))
        return action.double().numpy()

    def critic_loss(self, batch: Transitions) -> Tensor:
        """Eq. 10: how far the critic is from r + γ q~(s', μ~(s')), or from r where all is done.

        The paper's rounds never end; without ``done`` anywhere this is its equation.
        """
        states, actions, rewards, next_states, done = map(torch.from_numpy, batch)
        with torch.no_grad():
            next_values = _q(self.target_critic, next_states, self.target_actor(next_states))
            targets = rewards + self.settings.discount * (1 - done) * next_values
        return torch.mean((targets - _q(self.critic, states, actions)) ** 2)

    def value(self, batch: Transitions) -> Tensor:
        """Mean of q(s, μ(s)): what the actor is to make large."""
        states = torch.from_numpy(batch.states)
        return torch.mean(_q(self.critic, states, self.actor(states)))

    def update(self, batch: Transitions, critic_only: bool = False) -> tuple[float, float]:
        """Lines 13 and 14 of Algorithm 4; gives the loss and the value, each before its step.

        Eq. 12 as printed *subtracts* the gradient of q, which would lead the actor to the action
        that the critic likes least. The actor here ascends, as in the original DDPG.
        """
        loss = self.critic_loss(batch)
        _descend(loss, self._critic_adam)  # Eq. 11
        value = self.value(batch)
        if not critic_only:
            _descend(-value, self._actor_adam)  # Eq. 12, with the sign put right
        _follow(self.target_actor, self.actor, self.settings.soft_update)  # Eq. 13
        _follow(self.target_critic, self.critic, self.settings.soft_update)  # Eq. 14
        return loss.item(), value.item()

    def state(self) -> State:
        """Weights of all networks, moments of the optimizers."""
        return {
            "networks": {name: _copied(getattr(self, name).state_dict()) for name in _NETWORKS},
            "moments": {"actor": _moments(self._actor_adam), "critic": _moments(self._critic_adam)},
        }

    def load_state(self, state: State) -> None:
        """Continue where :meth:`state` was taken."""
        for name in _NETWORKS:
            _load_weights(getattr(self, name), state["networks"][name])
        _load_moments(self._actor_adam, state["moments"]["actor"])
        _load_moments(self._critic_adam, state["moments"]["critic"])

    def load_actor(self, saved: State) -> None:
        """Copy an actor's weights; its target follows, its optimizer starts afresh."""
        _load_weights(self.actor, saved)
        _load_weights(self.target_actor, saved)
        _load_moments(self._actor_adam, {})


def _q(critic: nn.Module, states: Tensor, actions: Tensor) -> Tensor:
    """q(s, a) [n]."""
    values: Tensor = critic(torch.cat([states, actions], 1))
    return values[:, 0]


def _descend(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    """One step of the optimizer's network; the others get no gradient."""
    optimizer.zero_grad()
    loss.backward(inputs=optimizer.param_groups[0]["params"])  # type: ignore[no-untyped-call]
    optimizer.step()


@torch.no_grad()
def _follow(target: nn.Module, network: nn.Module, share: float) -> None:
    """θ~ ← φ θ + (1 - φ) θ~."""
    for slow, fast in zip(target.parameters(), network.parameters(), strict=True):
        slow.lerp_(fast, share)


def _copied(tensors: Mapping[str, Tensor]) -> State:
    return {name: value.numpy().copy() for name, value in tensors.items()}


def _load_weights(network: nn.Module, saved: State) -> None:
    """Copy saved weights, unless names or shapes are others."""
    own = network.state_dict()
    shapes = {name: np.shape(value) for name, value in saved.items()}
    if {name: value.shape for name, value in own.items()} != shapes:
        raise SearchError("the saved weights belong to a network of another shape")
    for name, value in own.items():
        value.copy_(torch.from_numpy(np.array(saved[name], np.float32)))


def _moments(optimizer: torch.optim.Optimizer) -> State:
    """Copies of Adam's counts and moments, by the number of their parameter."""
    return {str(at): _copied(entry) for at, entry in optimizer.state_dict()["state"].items()}


def _load_moments(optimizer: torch.optim.Optimizer, saved: State) -> None:
    """Copy what :func:`_moments` gave; the settings stay as they are."""
    moments = {
        int(index): {key: torch.from_numpy(np.array(value)) for key, value in entry.items()}
        for index, entry in saved.items()
    }
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})


def _is_count(value: object) -> bool:
    return isinstance(value, int) and value >= 1
