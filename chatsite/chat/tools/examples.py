"""Example tools with fixed data. They show the loop; they know nothing of the weather."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from agent import Agent, ToolContext, ToolError, subagent_tool, tool
from agent.providers.demo import MODEL, DemoProvider

WARM_FROM = 65
PER_HOUR = 0.3
"""Seconds that it takes to look at an hour of the sky."""


@tool(idempotent=True)
def get_weather(city: Annotated[str, Field(description="The city's name")]) -> dict[str, Any]:
    """Example with fixed data: the current weather in a city, temperature in degrees Fahrenheit."""
    if city.strip().lower() == "nowhere":
        raise ToolError(f"There is no weather in {city}: no such city.")
    return {"city": city, "temperature": 62, "conditions": "cloudy"}


@tool(idempotent=True)
def get_clothing_advice(
    temperature: Annotated[float, Field(description="Degrees Fahrenheit")],
    conditions: Annotated[str, Field(description="The weather in a word or two, such as cloudy")],
) -> dict[str, str]:
    """Example with fixed data: what to wear in some weather."""
    advice = "Wear a light jacket" if temperature < WARM_FROM else "Light clothing is fine"
    return {"recommendation": advice}


@tool(needs_approval=True)
def send_email(to: str, subject: str, body: str) -> dict[str, str]:
    """Example that sends nothing: send an email. A person approves it first."""
    return {"status": "sent", "to": to, "id": uuid4().hex}


@tool(idempotent=True)
async def watch_sky(
    hours: Annotated[int, Field(ge=1, le=24, description="How many hours to look at")], ctx: ToolContext
) -> dict[str, Any]:
    """Example with fixed data: look at the sky hour by hour. Takes a while and tells how far it is."""
    for done in range(hours):
        ctx.emit("watch_sky", {"done": done, "total": hours, "message": f"looking at {done}:00"})
        await asyncio.sleep(PER_HOUR)
    return {"hours": hours, "sky": "cloudy, then clear"}


ask_colleague = subagent_tool(
    Agent(DemoProvider(), MODEL, [get_weather, get_clothing_advice, send_email]),
    name="ask_colleague",
    description="Example: hand a task to another agent, which plays rules, has the weather and email tools, and "
    "answers in words.",
)

EXAMPLES = (get_weather, get_clothing_advice, send_email)

FOR_SHOW = (watch_sky, ask_colleague)
"""They show what a page can show of a tool: for the demo model alone, since no other has a use for them."""
