"""Settings of FL-Gradient, the DARTS baseline."""

from pydantic import Field

from autofgl.methods.search_settings import SpaceSettings


class DartsSettings(SpaceSettings):
    """First-order DARTS over the SuperNet, then the final training."""

    generations: int = Field(default=250, ge=1, description="architecture steps")
    weight_steps: int = Field(
        default=1, ge=1, description="SuperNet steps before each architecture step"
    )
    search_weight_decay: float = Field(
        default=0,
        ge=0,
        description="L2 penalty on the SuperNet's weights in the search",
    )
    search_lr: float = Field(
        default=0, ge=0, description="learning rate of the SuperNet; 0: that of the training"
    )
    arch_lr: float = Field(
        default=0.01,
        gt=0,
        description="learning rate of the architecture parameters; DARTS has 3e-4 for many more "
        "steps, which a few hundred would hardly move",
    )
    arch_weight_decay: float = Field(
        default=1e-3, ge=0, description="L2 penalty on the architecture parameters"
    )
