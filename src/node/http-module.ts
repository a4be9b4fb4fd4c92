// `node:http` for whatever the runner loads. An import of it evaluates every getter, `http.WebSocket` too, which loads undici:
// 4 MB in each runner.

export const http = process.getBuiltinModule('node:http')
