"""Two example tools with fixed data. They show the loop; they know nothing of the weather."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from agent import ToolError, tool

WARM_FROM = 65


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


EXAMPLES = (get_weather, get_clothing_advice, send_email)
