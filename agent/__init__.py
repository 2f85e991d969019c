"""The agent loop, in plain Python: no Django, no Channels, nothing of the site around it.

    from agent import Agent, RunContext, Transcript, run_agent, tool, user_message

    @tool
    def get_weather(city: str) -> dict: ...

    agent = Agent(provider, "some-model", tools=[get_weather], system="Be brief.")
    ctx = RunContext(thread_id="t1", run_id="r1")
    async for event in run_agent(agent, Transcript(), ctx, input=[user_message("u1", "How is Oslo?")]):
        ...

The rooms:

    values        messages (parts, transcript)   events (AG-UI's vocabulary)   errors (one tree, a code each)
                  rope       a text that grows           text       text that everybody can hold
    pure          reducer    apply(transcript, event) -> transcript: the one fold (fold_calls, fold_thoughts, live)
                  folding    one turn, folded by itself
                  underway   what goes on in open calls, which the transcript leaves out: progress, subagents
                  steps      next_step(transcript, tools, answers) -> step: every decision of the loop
                  approvals  what a person is asked, and what their answer does
                  closing    results for calls that get none otherwise
                  receipts   what a run that was stopped had done
                  strategies one more turn?          tally      what a run has used         prices  what tokens cost
                  turns      one model turn in good form        call_ids   an id of its own for each call
                  results    what a tool gave back, as the model reads it       result_events  as the event that says so
                  compression  long requests made shorter       cutting    what it cuts with
    gateway, pure rerun      what its hooks get and give        rerun_tools  the tools of a request
                  rerun_guard  when it ends          rerun_body  the next request, rerun_answers what goes into it
    tools         tools      @tool, Tool, ToolRegistry   signatures, schemas  what arguments must be
                  guard      what middlewares may make of a run's events
    what waits    agents     who answers                 context    what a run is given      abort  how it is stopped
                  loop       run_agent                   model_turns  one turn               leave  to take another
                  tool_calls the calls of one turn       tool_slots  one of them, tool_attempts, tool_threads
                  threads    for work that blocks
                  verdicts   may a call run? asks the policy
                  subagents  a tool that is another run  nesting    what the outer one lends it
                  output     a run that ends with a value            endings    its terminal event
    gateway       relay      its loop                    asking     the hooks, one behind the other
                  claims     whose calls these are       hook_calls  one hook, with distrust
                  decisions  what comes of asking them
    hooks         middleware Middleware, its decisions   stack       several of them, composed
    middlewares/  ready ones, one file each
    providers/    something that streams a turn: base (the contract), http (endpoint), scripted (plays what it is told)
    mcp/          tools of other servers, in the Model Context Protocol; loaded by whoever uses it
    wire/         codecs: protocol <-> our values, no I/O
"""

from agent.abort import AbortSignal
from agent.agents import Agent
from agent.approvals import Resolution, check_resolutions, resolution_of
from agent.closing import close_old_calls
from agent.context import Policy, RunContext, Verdict
from agent.errors import (
    AgentError,
    InvalidRequest,
    ProviderError,
    ToolError,
)
from agent.loop import AgentRun, run_agent
from agent.messages import Message, Transcript, user_message
from agent.middleware import (
    Abort,
    Middleware,
    MiddlewareContext,
    Skip,
    ToolCall,
    Transform,
    TurnConfig,
    TurnUsage,
)
from agent.prices import Price, price_table
from agent.providers.base import Provider, ToolSpec, TurnRequest
from agent.reducer import apply
from agent.steps import next_step
from agent.strategies import (
    DEFAULT_STRATEGY,
    LoopState,
    Strategy,
    combine_strategies,
    max_cost,
    max_iterations,
    max_seconds,
    max_tokens,
    max_tool_calls,
    no_repeated_calls,
    until_finish_reason,
)
from agent.subagents import subagent_tool
from agent.tools import Tool, ToolContext, ToolRegistry, tool, with_client_tools

__all__ = [
    "DEFAULT_STRATEGY",
    "Abort",
    "AbortSignal",
    "Agent",
    "AgentError",
    "AgentRun",
    "InvalidRequest",
    "LoopState",
    "Message",
    "Middleware",
    "MiddlewareContext",
    "Policy",
    "Price",
    "Provider",
    "ProviderError",
    "Resolution",
    "RunContext",
    "Skip",
    "Strategy",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolError",
    "ToolRegistry",
    "ToolSpec",
    "Transcript",
    "Transform",
    "TurnConfig",
    "TurnRequest",
    "TurnUsage",
    "Verdict",
    "apply",
    "check_resolutions",
    "close_old_calls",
    "combine_strategies",
    "max_cost",
    "max_iterations",
    "max_seconds",
    "max_tokens",
    "max_tool_calls",
    "next_step",
    "no_repeated_calls",
    "price_table",
    "resolution_of",
    "run_agent",
    "subagent_tool",
    "tool",
    "until_finish_reason",
    "user_message",
    "with_client_tools",
]
