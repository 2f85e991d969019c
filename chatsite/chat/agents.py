"""Which models there are, and the agent that a run gets.

    OPENAI_*      an endpoint of OpenAI's dialect (OpenAI, Ollama, llama.cpp, vLLM, LM Studio, OpenRouter, ...)
    ANTHROPIC_*   an endpoint of Anthropic's
    rows          what administrators added (`chatsite.catalog`)
    demo          the built-in demo model: plays rules, is no language model; there unless it is withdrawn, and always
                  where there is no other

An endpoint without a `*_MODELS` list is asked for its models, now and then (`agent.providers.listing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.module_loading import import_string
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agent import AbortSignal, Agent, Provider, ToolRegistry, ToolSpec, with_client_tools
from agent.abort import Aborted
from agent.providers.demo import DemoProvider
from chatsite.catalog import entries
from chatsite.chat.choices import Choices
from chatsite.chat.conf import setting
from chatsite.chat.limits import allowance, budgets
from chatsite.chat.limits.allowance import EVERYTHING, Allowance
from chatsite.chat.problems import UnknownModel
from chatsite.chat.sources import Source, Sources, sources_from_settings
from chatsite.chat.tools import demo_tools, remote, server_tools, with_remote

DEMO = "demo"
NOT_OPEN = gettext_lazy("The model %(model)s is not open to you any more. Choose another, then go on.")
NONE_OPEN = gettext_lazy("No model is open to you here. Ask an administrator for one.")
NO_CHOICES = Choices()


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model a person may pick. `provider` is the endpoint's name.

    `context` in tokens, whether it takes `images` and `tools`: as MODEL_FACTS or its row says; None: nothing is known.
    """

    id: str
    label: str
    provider: str
    context: int | None = None
    images: bool | None = None
    tools: bool | None = None


@dataclass(frozen=True, slots=True)
class Catalog:
    """The models of the moment, and the one to begin with; and what kept an endpoint from telling its own.

    `closed`: those that are there, and not for whom this was asked. `default` is "" when none is open to them.
    """

    choices: tuple[ModelChoice, ...]
    default: str
    problems: tuple[str, ...] = ()
    closed: frozenset[str] = frozenset()

    def narrowed(self, opens: Callable[[str], bool]) -> Catalog:
        """Those that somebody may use. What is not theirs is as unknown to them as what is not there."""
        choices = tuple(choice for choice in self.choices if opens(choice.id))
        ids = [choice.id for choice in choices]
        if len(ids) == len(self.choices):
            return self
        default = self.default if self.default in ids else next(iter(ids), "")
        closed = frozenset(choice.id for choice in self.choices) - frozenset(ids)
        return Catalog(choices, default, self.problems, closed)

    def pick(self, asked: str = "", stored: str = "") -> str:
        """The model to use: the one asked for, else the thread's own while it is still there, else the default."""
        ids = {choice.id for choice in self.choices}
        if asked and asked not in ids:
            if not ids:
                raise UnknownModel(NONE_OPEN)
            words = _("There is no model %(model)s here. Choose one of: %(models)s.")
            raise UnknownModel(words % {"model": repr(asked[:100]), "models": ", ".join(sorted(ids))})
        return asked or (stored if stored in ids else self.default)

    def to_run(self, asked: str = "", stored: str = "", *, goes_on: bool = False) -> str:
        """The same for a run. `goes_on`: it takes another one up, and must not do so by another model unasked."""
        if goes_on and not asked and stored in self.closed:
            raise UnknownModel(NOT_OPEN % {"model": repr(stored[:100])})
        model = self.pick(asked, stored)
        if not model:
            raise UnknownModel(NONE_OPEN)
        return model


class Agents:
    """The configured endpoints, and agents on them."""

    def __init__(self, sources: list[Source], *, default: str = "", demo: Provider | None = None) -> None:
        self._sources = Sources(sources)
        self._default = default
        self._demo = demo or DemoProvider()
        self._for_show = demo_tools()
        self._tools = ToolRegistry([*server_tools(), *self._for_show])

    async def catalog(self) -> Catalog:
        found, facts = await self._sources.find(), entries.facts()
        labels, names = found.entries.labels, await found.names()
        choices = {
            model: ModelChoice(model, labels.get(model, model), endpoint, **facts.get(model, {}))
            for model, endpoint in names.items()
        }
        if not choices or DEMO not in found.entries.withdrawn:
            choices[DEMO] = ModelChoice(DEMO, _("Demo model"), self._demo.name)
        default = self._default if self._default in choices else next(iter(choices))
        return Catalog(tuple(choices.values()), default, found.problems())

    def tools_with(
        self,
        client_tools: Iterable[ToolSpec] = (),
        allowed: Allowance = EVERYTHING,
        model: str = DEMO,
    ) -> ToolRegistry:
        """The server's tools, and those that a client declared for itself. Raises InvalidRequest."""
        ours = with_remote(self._tools)
        if allowed.rules_tools or model != DEMO:
            ours = ToolRegistry(
                tool
                for tool in ours
                if not allowed.denies(tool.name) and (model == DEMO or tool.name not in self._for_show)
            )
        return with_client_tools(ours, client_tools)

    async def agent_for(
        self,
        model: str,
        client_tools: Iterable[ToolSpec] = (),
        choices: Choices = NO_CHOICES,
        allowed: Allowance = EVERYTHING,
        stop: AbortSignal | None = None,
    ) -> Agent:
        """The agent that answers with `model`. Raises UnknownModel when no endpoint has it any more, or it is not
        theirs who ask. Whoever is stopped meanwhile waits for no endpoint: that run asks none."""
        if not allowed.opens(model):
            raise UnknownModel(NOT_OPEN % {"model": repr(model[:100])})
        return Agent(
            provider=await self._provider_unless(stop or AbortSignal(), model),
            model=model,
            tools=choices.tools_of(self.tools_with(client_tools, allowed, model)),
            system=choices.system_behind(setting("CHAT_SYSTEM_PROMPT")),
            parameters=choices.as_parameters(),
            strategy=budgets.strategy(),
            middleware=tuple(map(import_string, setting("CHAT_MIDDLEWARE"))),
            cost=budgets.cost(),
            final_answer=True,
        )

    async def _provider_unless(self, stop: AbortSignal, model: str) -> Provider:
        try:
            with stop.interrupts():
                await remote.ready()  # the tools below are those that are known by then
                return await self._provider_of(model)
        except Aborted:
            return self._demo

    async def _provider_of(self, model: str) -> Provider:
        if model == DEMO:
            return self._demo
        provider = await (await self._sources.find()).provider_of(model)
        if provider is None:
            words = _("The model %(model)s is not there any more. Choose another and try again.")
            raise UnknownModel(words % {"model": repr(model[:100])})
        return provider


def agents_from_settings() -> Agents:
    return Agents(sources_from_settings(), default=setting("DEFAULT_MODEL"))


_agents: Agents | None = None


def agents() -> Agents:
    """This process's endpoints, made at the first use."""
    global _agents
    if _agents is None:
        _agents = agents_from_settings()
    return _agents


async def catalog_for(user: Any) -> Catalog:
    """The models that this user may use: whoever offers or takes one asks here, and here alone it is narrowed."""
    catalog, allowed = await agents().catalog(), await allowance.of(user)
    return catalog if allowed is EVERYTHING else catalog.narrowed(allowed.opens)


def use_agents(replacement: Agents | None) -> None:
    """Put others in their place (tests, an embedding project); None: those of the settings again."""
    global _agents
    _agents = replacement
