"""Hooks in LiteLLM's form, written as its users write them: only the import is ours."""

from chatsite.gateway.hooks import AgenticLoopPlan, AgenticLoopRequestPatch, CustomLogger

TOOL = "my_tool"


class Documented(CustomLogger):
    """As LiteLLM's documentation shows it: two methods, blocks read by attribute, results as Anthropic's blocks."""

    def __init__(self):
        super().__init__()
        self.ran = []

    async def async_should_run_agentic_loop(
        self, response, model, messages, tools, stream, custom_llm_provider, kwargs
    ):
        blocks = getattr(response, "content", None) or []
        uses = [each for each in blocks if isinstance(each, dict) and each.get("type") == "tool_use"]
        wanted = [each for each in uses if each.get("name") == TOOL]
        return (True, {"tool_calls": wanted}) if wanted else (False, {})

    async def async_build_agentic_loop_plan(
        self,
        tools,
        model,
        messages,
        response,
        anthropic_messages_provider_config,
        anthropic_messages_optional_request_params,
        logging_obj,
        stream,
        kwargs,
    ):
        wanted = tools["tool_calls"]
        self.ran += [each["input"] for each in wanted]
        asked = [{key: each[key] for key in ("type", "id", "name", "input")} for each in wanted]
        told = [
            {"type": "tool_result", "tool_use_id": each["id"], "content": f"result for {each['input']}"}
            for each in wanted
        ]
        follow_up = [
            *messages,
            {"role": "assistant", "content": asked},
            {"role": "user", "content": told},
        ]
        return AgenticLoopPlan(
            run_agentic_loop=True, request_patch=AgenticLoopRequestPatch(messages=follow_up)
        )


class Declared(Documented):
    """The same, with its tool declared: a streaming caller gets one message."""

    server_fulfilled_tool_names = frozenset({TOOL})


class InChat(CustomLogger):
    """A hook for chat alone, with both of its own methods, in OpenAI's shapes."""

    async def async_should_run_chat_completion_agentic_loop(
        self, response, model, messages, tools, stream, custom_llm_provider, kwargs
    ):
        calls = response.choices[0].message.tool_calls or []
        wanted = [call for call in calls if call.function.name == TOOL]
        return bool(wanted), {"tool_calls": wanted}

    async def async_build_chat_completion_agentic_loop_plan(
        self, tools, model, messages, response, optional_params, logging_obj, stream, kwargs
    ):
        message = response.choices[0].message.model_dump()
        results = [
            {"role": "tool", "tool_call_id": call.id, "content": f"result for {call.function.arguments}"}
            for call in tools["tool_calls"]
        ]
        patch = AgenticLoopRequestPatch(
            model="bigger",
            max_tokens=50,
            messages=[*messages, message, *results],
            optional_params={**optional_params, "temperature": 0},
        )
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch)


class Decides(CustomLogger):
    """Gives the plan it was made with, whatever the answer; on both protocols."""

    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        self.seen = []

    async def async_should_run_agentic_loop(self, response, kwargs, **rest):
        return True, {"tool_calls": [block for block in response.content if block.type == "tool_use"]}

    async def async_build_agentic_loop_plan(self, tools, **rest):
        self.seen.append(rest["kwargs"])
        return self.plan

    async def async_post_agentic_loop_response_hook(self, response, plan, kwargs):
        return {**response, "shaped_by": plan.metadata.get("by")}

    async def async_agentic_loop_cleanup_hook(self, plan, kwargs):
        self.seen.append("cleaned up")


class Everything(Documented):
    """Each method that is called, with all its arguments noted. It fulfils its tool, by the patch that it is given."""

    server_fulfilled_tool_names = frozenset({TOOL})

    def __init__(self, **patch):
        super().__init__()
        self.patch = patch
        self.given = []

    def note(self, method, given):
        self.given.append((method, {name: value for name, value in given.items() if name != "self"}))

    async def async_should_run_agentic_loop(
        self, response, model, messages, tools, stream, custom_llm_provider, kwargs
    ):
        self.note("async_should_run_agentic_loop", locals())
        uses = [each for each in response["content"] if each["type"] == "tool_use"]
        return bool(uses), {"tool_calls": uses}

    async def async_should_run_chat_completion_agentic_loop(
        self, response, model, messages, tools, stream, custom_llm_provider, kwargs
    ):
        self.note("async_should_run_chat_completion_agentic_loop", locals())
        calls = response["choices"][0]["message"].tool_calls or []
        return bool(calls), {"tool_calls": calls}

    async def async_build_agentic_loop_plan(
        self,
        tools,
        model,
        messages,
        response,
        anthropic_messages_provider_config,
        anthropic_messages_optional_request_params,
        logging_obj,
        stream,
        kwargs,
    ):
        self.note("async_build_agentic_loop_plan", locals())
        [use] = tools["tool_calls"]
        told = {"type": "tool_result", "tool_use_id": use["id"], "content": "found"}
        return self.plan(
            [*messages, {"role": "assistant", "content": [use]}, {"role": "user", "content": [told]}]
        )

    async def async_build_chat_completion_agentic_loop_plan(
        self, tools, model, messages, response, optional_params, logging_obj, stream, kwargs
    ):
        self.note("async_build_chat_completion_agentic_loop_plan", locals())
        [call] = tools["tool_calls"]
        told = {"role": "tool", "tool_call_id": call.id, "content": "found"}
        return self.plan([*messages, response.choices[0].message.model_dump(), told])

    def plan(self, messages):
        patch = AgenticLoopRequestPatch(messages=messages, **self.patch)
        return AgenticLoopPlan(run_agentic_loop=True, request_patch=patch, metadata={"mine": 1})

    async def async_post_agentic_loop_response_hook(self, response, plan, kwargs):
        self.note("async_post_agentic_loop_response_hook", locals())
        return response

    async def async_agentic_loop_cleanup_hook(self, plan, kwargs):
        self.note("async_agentic_loop_cleanup_hook", locals())


class Older(CustomLogger):
    """The older form, on both protocols: what it returns is the answer."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer
        self.given = []

    async def async_should_run_agentic_loop(
        self, response, model, messages, tools, stream, custom_llm_provider, kwargs
    ):
        return True, {"tool_calls": [block for block in response.content if block.type == "tool_use"]}

    async def async_run_agentic_loop(
        self,
        tools,
        model,
        messages,
        response,
        anthropic_messages_provider_config,
        anthropic_messages_optional_request_params,
        logging_obj,
        stream,
        kwargs,
    ):
        self.given.append("async_run_agentic_loop")
        return self.answer

    async def async_run_chat_completion_agentic_loop(
        self, tools, model, messages, response, optional_params, logging_obj, stream, kwargs
    ):
        self.given.append("async_run_chat_completion_agentic_loop")
        return self.answer
