"""The page's doors to what a person chooses: how a thread answers, and the presets that they keep. Plain forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from agent.text import storable
from chatsite.chat import choices, commands, db
from chatsite.chat.actions import choosing
from chatsite.chat.agents import agents, catalog_for
from chatsite.chat.choices import Choices, Parameters
from chatsite.chat.commands.acting import carry_out
from chatsite.chat.commands.values import Configure
from chatsite.chat.counting import spending
from chatsite.chat.limits import allowance
from chatsite.chat.limits.allowance import Allowance
from chatsite.chat.models import Thread
from chatsite.chat.problems import Missing, NoPreset, Problem
from chatsite.chat.render import words
from chatsite.chat.render.picker import models_in
from chatsite.chat.views.door import door

Written = Mapping[str, str]
"""The parameters by name, as they stand in the form."""


@require_http_methods(["GET", "HEAD", "POST"])
@door
async def settings(request: HttpRequest, thread_id: str) -> HttpResponse:
    person = request.person
    thread = await commands.thread_for(person, thread_id)
    if request.method != "POST":
        return await _settings(request, thread)
    try:
        if request.POST.get("do") == "apply":
            command = Configure(preset=request.POST.get("preset", ""))
            await commands.perform(person, thread_id, command, door="page")
        else:
            await _save(request, thread)
    except NoPreset as problem:
        return await _settings(request, thread, notice=str(problem), status=problem.status)
    except Missing:
        raise
    except Problem as problem:
        return await _settings(request, thread, notice=str(problem), status=problem.status, form=request.POST)
    return _to(reverse("chat:settings", args=[thread_id]) + "?saved")


async def _save(request: HttpRequest, thread: Thread) -> None:
    person = request.person
    chosen = _chosen(request.POST, choices.kept(thread.choices))
    model = request.POST.get("model") or None
    command = Configure(
        model=model, system=chosen.system, tools_off=chosen.tools_off, parameters=chosen.parameters
    )
    await commands.perform(person, thread.public_id, command, door="page")
    if request.POST.get("do") == "preset":
        name = request.POST.get("name", "")
        await carry_out(
            choosing.save_preset, owner=person, name=name, model=model or thread.model, chosen=chosen
        )


async def _settings(
    request: HttpRequest,
    thread: Thread,
    *,
    notice: str = "",
    form: QueryDict | None = None,
    status: int = 200,
) -> HttpResponse:
    person = request.person
    catalog, allowed = await catalog_for(person), await allowance.of(person)
    chosen = choices.kept(thread.choices)
    model = catalog.pick(stored=form["model"] if form and "model" in form else thread.model)
    context = {
        "thread": thread,
        "notice": notice,
        "saved": "saved" in request.GET,
        "models": models_in(catalog),
        "model": model,
        "system": form.get("system", "") if form else chosen.system,
        "longest_system": choices.LONGEST_SYSTEM,
        "tools": _tools(_off_in(form, chosen) if form else chosen.tools_off, allowed, model),
        "parameters": _fields(form or _written(chosen.parameters)),
        "stop": form.get("stop", "") if form else "\n".join(chosen.parameters.stop or ()),
        "name": form.get("name", "") if form else "",
        "open": bool(form or chosen.as_parameters()),
    }
    context |= await db.read(_known, person, thread)
    return await db.read(render, request, "chat/settings.html", context, status=status)


def _known(person: Any, thread: Thread) -> dict[str, Any]:
    spent = spending.by_model(thread)
    rows = [(each, words.money(each.cost or 0)) for each in spent]
    return {
        "presets": choosing.presets_of(person),
        "spent": rows,
        "cost": words.money(spending.in_all(spent) or 0),
    }


# -- presets -------------------------------------------------------------------------------------------------


@require_http_methods(["GET", "HEAD", "POST"])
@door
async def presets(request: HttpRequest) -> HttpResponse:
    notice, status = "", 200
    if request.method == "POST":
        try:
            await _change_preset(request)
            return _to(reverse("chat:presets"))
        except Problem as problem:
            notice, status = str(problem), problem.status
    listed = await db.read(choosing.presets_of, request.person)
    context = {"presets": [(each, _summary(each.choices)) for each in listed], "notice": notice}
    return await db.read(render, request, "chat/presets.html", context, status=status)


async def _change_preset(request: HttpRequest) -> None:
    mine = {"owner": request.person, "name": request.POST.get("preset", "")}
    match request.POST.get("do"):
        case "rename":
            await carry_out(choosing.rename_preset, **mine, new=request.POST.get("name", ""))
        case "delete":
            await carry_out(choosing.delete_preset, **mine)
        case "default":
            await carry_out(choosing.make_default, **mine)
        case "no_default":
            await carry_out(choosing.make_default, **(mine | {"name": None}))


def _summary(kept: Any) -> dict[str, Any]:
    """What a list shows of a preset's choices."""
    chosen = choices.kept(kept)
    figures = [f"{choices.WORDS[name]} {value}" for name, value in _written(chosen.parameters).items()]
    return {"system": chosen.system.strip()[:200], "off": chosen.tools_off, "parameters": figures}


# -- the form ------------------------------------------------------------------------------------------------


def _chosen(form: QueryDict, earlier: Choices) -> Choices:
    """The choices in the form. Raises Invalid in words."""
    figures: dict[str, Any] = {
        name: form.get(name, "").strip().replace(",", ".") for name in _FIGURES if form.get(name, "").strip()
    }
    stop = [line for line in form.get("stop", "").replace("\r\n", "\n").split("\n") if line.strip()]
    return choices.read(
        {
            "system": storable(form.get("system", "").replace("\r\n", "\n")).strip(),
            "tools_off": _off_in(form, earlier),
            "parameters": figures | ({"stop": stop} if stop else {}),
        }
    )


def _off_in(form: QueryDict, earlier: Choices) -> list[str]:
    """The tools that are not ticked; one that is not here just now stays as it was."""
    shown, ticked = form.getlist("tool"), set(form.getlist("on"))
    away = [name for name in earlier.tools_off if name not in shown]
    return [*away, *(name for name in shown if name not in ticked)]


def _tools(off: list[str], allowed: Allowance, model: str) -> list[dict[str, Any]]:
    return [
        {
            "name": tool.name,
            "description": tool.description,
            "on": tool.name not in off,
            "asks": allowed.asks_for(tool),
        }
        for tool in agents().tools_with(allowed=allowed, model=model)
    ]


_FIGURES = tuple(name for name in Parameters.model_fields if name != "stop")


def _written(parameters: Parameters) -> dict[str, str]:
    """As text: a number field takes no other language's comma."""
    return {
        name: f"{value:g}" if isinstance(value, float) else str(value)
        for name, value in parameters.model_dump(exclude_none=True).items()
        if name != "stop"
    }


def _fields(written: Written) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "label": choices.WORDS[name],
            "hint": choices.HINTS[name],
            "value": written.get(name, ""),
        }
        | dict(zip(("least", "most"), map(str, choices.bounds_of(name)), strict=True))
        | {"step": "any" if Parameters.model_fields[name].annotation == choices.Figure | None else "1"}
        for name in _FIGURES
    ]


def _to(url: str) -> HttpResponse:
    return HttpResponseRedirect(url, status=303)
