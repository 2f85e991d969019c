// `ChatClient` of @tanstack/ai-client with `fetchServerSentEvents`, as its documentation shows it.
// With `persistence` it has its thread from the server, as a page does that was reloaded ("open" waits for what it
// finds there, unless it `stays`). "again" is its reload().

import { ChatClient, fetchServerSentEvents } from '@tanstack/ai-client'
import { toolDefinition } from '@tanstack/ai/client'
import { fetchOver, runner, serve } from './driver.mjs'

let client, options, ran, wire, heard, stopAt

function toolOf(tool) {
  const definition = toolDefinition({
    name: tool.name,
    description: tool.name,
    inputSchema: tool.parameters,
    ...(tool.approval ? { needsApproval: true } : {}),
  })
  return tool.approval ? definition.client() : definition.client(runner(tool, ran))
}

const pause = () => new Promise((resolve) => setTimeout(resolve, 20))

/** When the client neither streams nor hands anything in, twice in a row: tools and answers start runs by themselves. */
async function settled() {
  for (let quiet = 0; quiet < 3; ) {
    await pause()
    const busy = client.getIsLoading() || client.getInterruptState().resuming || wire.waiting > 0
    quiet = busy ? 0 : quiet + 1
  }
  return held()
}

function held() {
  const interrupts = client.getInterrupts().map((interrupt) => ({
    id: interrupt.id,
    toolCallId: interrupt.toolCallId ?? interrupt.metadata?.['tanstack:interruptBinding']?.toolCallId,
    kind: interrupt.kind,
    toolName: interrupt.toolName,
    input: interrupt.originalArgs,
    message: interrupt.message,
  }))
  const error = client.getError()
  return {
    messages: client.getMessages(),
    busy: client.getIsLoading(),
    status: client.getStatus(),
    error: error && { message: error.message },
    interruptErrors: client.getInterruptState().interruptErrors,
    interrupts,
    ran,
    requests: wire.requests,
    waiting: wire.waiting,
    older: client.getHasOlderMessages(),
  }
}

serve({
  async open(wanted) {
    options = { tools: [], ...wanted }
    ran = []
    wire = {}
    client = new ChatClient({
      connection: fetchServerSentEvents(`${options.url}/api/chat`, {
        headers: { Authorization: `Bearer ${options.key}` },
        fetchClient: fetchOver(wire),
      }),
      threadId: options.threadId,
      forwardedProps: { model: options.model },
      tools: options.tools.map(toolOf),
      ...(options.persistence ? { persistence: true, history: { pageSize: options.pageSize } } : {}),
      onChunk({ type }) {
        if (type === 'TEXT_MESSAGE_CONTENT' && ++heard === stopAt) client.stop()
      },
    })
    if (options.persistence) client.attach()
    return options.stays ? held() : settled()
  },
  async send(wanted) {
    heard = 0
    stopAt = wanted.stopAt
    wire.cutAt = wanted.cutAt
    await client.sendMessage(wanted.text)
    return settled()
  },
  async answer({ answers }) {
    const open = client.getInterrupts()
    for (const interrupt of open) {
      const { toolCallId } = held().interrupts.find(({ id }) => id === interrupt.id)
      const answer = answers[toolCallId]
      if (answer === 'cancel') interrupt.cancel()
      else if (interrupt.kind === 'tool-approval') {
        const { approved, ...more } = answer
        interrupt.resolveInterrupt(approved, more)
      } else interrupt.resolveInterrupt(answer)
    }
    return settled()
  },
  async all({ approved }) {
    client.resolveInterrupts(approved)
    return settled()
  },
  async stop() {
    client.stop()
    return settled()
  },
  async again() {
    await client.reload()
    return settled()
  },
  async older() {
    await client.loadOlderMessages()
    return held()
  },
  read: settled,
  peek: held,
})
