// What both drivers share: one JSON command a line on stdin, one JSON answer a line on stdout.
//
//   {"do": "open", url, key, threadId, model, tools}     tools: [{name, parameters, returns? | throws?, approval?}]
//   {"do": "send", text, stopAt?, cutAt?}                stop by the client, or cut the wire, behind that many events
//   {"do": "answer", answers: {toolCallId: {approved, editedArgs?} | "cancel"}}
//   {"do": "again"}                                      client by client: see there
//   {"do": "read"}                                       nothing but the answer
//   {"do": "peek"}                                       the answer at once, whatever is under way (TanStack's alone)
//
// The answer is what the client holds when everything it began has settled, and what it said to the console.

import { createInterface } from 'node:readline'

const BROKEN = 'terminated' // as fetch says it
const said = []
for (const level of ['warn', 'error', 'info', 'log', 'debug']) {
  console[level] = (...words) => said.push([level, ...words.map(String)].join(' '))
}
process.on('unhandledRejection', (error) => {
  // @ag-ui/client leaves this one of a broken connection lying about, after it has told its application.
  if (error?.message !== BROKEN) said.push(`unhandled ${error?.stack ?? error}`)
})

export async function serve(commands) {
  for await (const line of createInterface({ input: process.stdin })) {
    const { do: name, ...options } = JSON.parse(line)
    let answer
    try {
      answer = await commands[name](options)
    } catch (error) {
      answer = { failed: String(error?.stack ?? error) }
    }
    process.stdout.write(`${JSON.stringify({ ...answer, console: said.splice(0) })}\n`)
  }
  process.exit(0)
}

/** A tool of the page, as its code: what it gives or throws is said by the test. `ran` keeps what it was called with. */
export function runner(tool, ran) {
  return async (input) => {
    ran.push({ name: tool.name, input })
    if (tool.throws !== undefined) throw new Error(tool.throws)
    return tool.returns
  }
}

/**
 * `fetch`, with a connection that breaks behind `wire.cutAt` events of the next answer. `wire.requests` counts, and
 * `wire.waiting` are those that have no head yet, or, where no stream follows it, not the whole answer.
 */
export function fetchOver(wire) {
  Object.assign(wire, { requests: 0, waiting: 0, cutAt: undefined })
  return async (url, init) => {
    const { cutAt } = wire
    wire.cutAt = undefined
    wire.requests += 1
    wire.waiting += 1
    try {
      return cutAt === undefined ? await whole(await fetch(url, init)) : await fetchAndBreak(url, init, cutAt)
    } finally {
      wire.waiting -= 1
    }
  }
}

async function whole(response) {
  const { status, statusText, headers } = response
  if (response.body === null || headers.get('content-type')?.startsWith('text/event-stream')) return response
  return new Response(await response.arrayBuffer(), { status, statusText, headers })
}

async function fetchAndBreak(url, init, cutAt) {
  const connection = new AbortController()
  const signals = init?.signal ? [init.signal, connection.signal] : [connection.signal]
  const response = await fetch(url, { ...init, signal: AbortSignal.any(signals) })
  const pieces = response.body.getReader()
  let left = cutAt
  const counted = new ReadableStream({
    async pull(controller) {
      const { done, value } = await pieces.read()
      if (done) return controller.close()
      controller.enqueue(value)
      left -= new TextDecoder().decode(value).split('\ndata: ').length
      if (left > 0) return
      connection.abort()
      controller.error(new TypeError(BROKEN))
    },
  })
  const { status, statusText, headers } = response
  return new Response(counted, { status, statusText, headers })
}
