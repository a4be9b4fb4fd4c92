// The Worker: composition only.

export default {
  fetch: () => new Response('muster'),
} satisfies ExportedHandler
