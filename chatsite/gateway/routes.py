"""Public name -> the models that may answer, in the order in which they are tried.

A name of GATEWAY_MODELS wins, then one that an administrator routes (`chatsite.catalog`). Else it is a model that an
endpoint has under that name, the first endpoint first; an endpoint whose models nobody wrote down is asked for them,
and takes their names without the date too. `demo` is always there. What an administrator has withdrawn is not.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from agent.providers.base import Provider
from agent.providers.demo import MODEL as DEMO
from agent.providers.demo import DemoProvider
from agent.providers.listing import ModelList
from chatsite.catalog import entries
from chatsite.gateway.added import config_with
from chatsite.gateway.cooling import Cooling
from chatsite.gateway.endpoints import Config, Endpoint, Target
from chatsite.gateway.errors import Refused

DATED = re.compile(r"[-@](?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True)
class PublicModel:
    name: str
    owner: str


class Routes:
    def __init__(
        self, config: Config, *, demo: Provider | None = None, cooling: Cooling | None = None
    ) -> None:
        self.cooling = cooling or Cooling()
        self.config = config
        demo = demo or DemoProvider()
        self._named = config.named
        self._demo = config.named.get(DEMO) or (Target(Endpoint(demo.name, demo), DEMO),)
        self._lists = {
            endpoint: ModelList(endpoint.provider, endpoint.listed)
            for endpoint in config.endpoints
            if endpoint.listed is not None
        }
        self._known: dict[str, tuple[Target, ...]] = {}
        self._undated: dict[str, tuple[Target, ...]] = {}
        self._learn()

    async def targets(self, model: str) -> tuple[Target, ...]:
        """Never empty. Raises Refused when nobody has that model."""
        if entries.is_outdated() and self is _routes and not _replaced:
            await entries.fresh()  # else the first request would find what is withdrawn
            return await routes().targets(model)
        found = self._known.get(model)
        if found is None:
            await self._ask()
            found = self._known.get(model) or self._undated.get(model)
        if found is None:
            if await entries.fresh() is not self.config.entries and self is _routes:
                return await routes().targets(model)  # it was added a moment ago
            raise self._unknown(model)
        return self.cooling.order(found)

    def knows(self, model: str) -> bool:
        """Without asking anybody."""
        return model in self._known or model in self._undated

    def names_of(self, model: str) -> tuple[str, ...]:
        """Those under which its price may be found. Without asking anybody."""
        targets = self._known.get(model) or self._undated.get(model) or ()
        return (*(target.model for target in targets), model)

    async def models(self) -> list[PublicModel]:
        await self._ask()
        return [PublicModel(name, targets[0].endpoint.name) for name, targets in self._known.items()]

    async def _ask(self) -> None:
        await asyncio.gather(*(models.models() for models in self._lists.values()))
        self._learn()

    def _learn(self) -> None:
        known: dict[str, tuple[Target, ...]] = {}
        undated: dict[str, tuple[Target, ...]] = {}
        for endpoint, models in self._lists.items():
            for model in models.found:
                known[model] = (*known.get(model, ()), Target(endpoint, model))
                if not endpoint.listed and (plain := DATED.sub("", model)) != model:
                    undated.setdefault(plain, (Target(endpoint, plain),))
        # The public names twice: first in the list, and not to be replaced.
        everything = {**self._named, **known, **self._named, DEMO: self._demo}
        withdrawn = self.config.entries.withdrawn
        self._known = {name: targets for name, targets in everything.items() if name not in withdrawn}
        self._undated = {name: targets for name, targets in undated.items() if name not in withdrawn}

    def _unknown(self, model: str) -> Refused:
        problems = [models.problem for models in self._lists.values() if models.problem]
        return unknown_model(model, f" ({' '.join(problems)})" if problems else "")


def unknown_model(model: str, why: str = "") -> Refused:
    message = f"The model {model[:100]!r} does not exist, or you have no access to it.{why}"
    return Refused(404, "model_not_found", message, param="model")


_routes: Routes | None = None
_replaced = False


def routes() -> Routes:
    """This process's, made at the first use, and anew when an administrator has changed a row."""
    global _routes
    now = entries.current()
    if _routes is None:
        _routes = Routes(config_with(now))
    elif _routes.config.entries is not now and not _replaced:
        _routes = Routes(config_with(now), cooling=_routes.cooling)
    return _routes


def use_routes(replacement: Routes | None) -> None:
    """Put others in their place (tests, an embedding project); None: those of the settings again."""
    global _routes, _replaced
    _routes, _replaced = replacement, replacement is not None
