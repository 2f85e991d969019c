// `HttpAgent` of @ag-ui/client, as an application uses it: it keeps the messages, the application runs its own tools.
// "again" asks for its last run once more, which is told from its start: so what came of it before is dropped first.

import { randomUUID } from 'node:crypto'
import { HttpAgent, buildResumeArray } from '@ag-ui/client'
import { fetchOver, runner, serve } from './driver.mjs'

let agent, options, last, error, ran, wire

async function run(parameters = {}, stopAt) {
  const runId = parameters.runId ?? randomUUID()
  last = { runId, outcome: undefined, pending: [] }
  error = undefined
  let heard = 0
  try {
    await agent.runAgent(
      {
        tools: options.tools.map(({ name, parameters }) => ({ name, description: '', parameters })),
        forwardedProps: { model: options.model },
        ...parameters,
        runId,
      },
      {
        onTextMessageContentEvent() {
          if (++heard === stopAt) agent.abortRun()
        },
        onRunFinishedEvent({ outcome, pendingToolCallIds }) {
          last.outcome = outcome
          last.pending = pendingToolCallIds ?? []
        },
        onRunErrorEvent({ event }) {
          error = { message: event.message, code: event.code }
        },
      },
    )
  } catch (thrown) {
    error ??= { message: thrown.message, status: thrown.status, payload: thrown.payload }
  }
  await runTools()
  if (last.outcome === 'success' && last.pending.length > 0) await run()
}

/** Runs the calls of the page's own tools that have no result yet. */
async function runTools() {
  const answered = new Set(agent.messages.map((message) => message.toolCallId))
  const open = agent.messages.flatMap((message) => message.toolCalls ?? []).filter(({ id }) => !answered.has(id))
  for (const { id, function: call } of open) {
    const tool = options.tools.find(({ name }) => name === call.name)
    // A tool that its server must ask about first is not the page's to run; what was stopped is not run at all.
    if (!tool || tool.approval || last.outcome === undefined || error) continue
    const result = { id: randomUUID(), role: 'tool', toolCallId: id }
    try {
      const output = await runner(tool, ran)(JSON.parse(call.arguments))
      agent.addMessage({ ...result, content: JSON.stringify(output) })
    } catch (thrown) {
      agent.addMessage({ ...result, content: '', error: thrown.message })
    }
  }
}

function held() {
  const interrupts = agent.pendingInterrupts.map(({ id, toolCallId, metadata, message }) => ({
    id,
    toolCallId,
    kind: metadata.kind,
    toolName: metadata.toolName,
    input: metadata.input,
    message,
  }))
  const { messages, threadId, isRunning } = agent
  return { messages, threadId, busy: isRunning, error, interrupts, ran, runId: last?.runId, outcome: last?.outcome }
}

serve({
  open(wanted) {
    options = { tools: [], ...wanted }
    ran = []
    wire = {}
    agent = new HttpAgent({
      url: `${options.url}/api/chat`,
      headers: { Authorization: `Bearer ${options.key}` },
      threadId: options.threadId,
      fetch: fetchOver(wire),
    })
    return held()
  },
  async send({ text, stopAt, cutAt }) {
    agent.addMessage({ id: randomUUID(), role: 'user', content: text })
    wire.cutAt = cutAt
    await run({}, stopAt)
    return held()
  },
  async answer({ answers }) {
    const responses = agent.pendingInterrupts.map(({ id, toolCallId }) => {
      const answer = answers[toolCallId]
      return [id, answer === 'cancel' ? { status: 'cancelled' } : { status: 'resolved', payload: answer }]
    })
    await run({ resume: buildResumeArray(agent.pendingInterrupts, Object.fromEntries(responses)) })
    return held()
  },
  async again() {
    const asked = agent.messages.findLastIndex(({ role }) => role === 'user')
    agent.setMessages(agent.messages.slice(0, asked + 1))
    await run({ runId: last.runId })
    return held()
  },
  read: held,
})
