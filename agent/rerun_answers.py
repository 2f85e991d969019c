"""What a hook that serves tools gives back: a turn's calls with their results, and the plan that goes on with them."""

from __future__ import annotations

from collections.abc import Mapping

from agent.rerun import Json, Patch, Plan, RelayContext, Turn, copied


def answered(turn: Turn, results: Mapping[str, str], *, failed: frozenset[str] = frozenset()) -> list[Json]:
    """The two messages that carry these calls of a turn and their results (text by call id), as Anthropic's blocks.

    Calls without a result are left out, with nothing that would point at them. `failed`: ids of results that are
    errors.
    """
    kept = [block for block in turn.content if _goes_back(block, results)]
    back = [_result_block(id, text, failed=id in failed) for id, text in results.items()]
    return [{"role": "assistant", "content": copied(kept)}, {"role": "user", "content": back}]


def rerun_with(turn: Turn, results: Mapping[str, str], call: RelayContext) -> Plan:
    """The plan to run the model again with these results (text by call id): what a hook that serves a tool gives."""
    return Plan(
        run_agentic_loop=True, request_patch=Patch(messages=[*call.messages, *answered(turn, results)])
    )


def _goes_back(block: Json, results: Mapping[str, str]) -> bool:
    match block.get("type"):
        case "tool_use":
            return block.get("id") in results
        case "thinking":
            return bool(block.get("signature"))
        case "text":
            return bool(block.get("text"))
    return True


def _result_block(id: str, text: str, *, failed: bool) -> Json:
    block: Json = {"type": "tool_result", "tool_use_id": id, "content": text}
    return block | {"is_error": True} if failed else block
