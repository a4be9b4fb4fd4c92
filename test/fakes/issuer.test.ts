// Tests the fake issuer, which other tests rely on.
import { createLocalJWKSet, type JSONWebKeySet, jwtVerify } from 'jose'
import { expect, test } from 'vitest'
import { fetchFrom, makeIssuer, makeIssuerKey } from './issuer.ts'

const ISSUER = 'https://issuer.example.com/id/A'
const DISCOVERY = `${ISSUER}/.well-known/openid-configuration`
const now = Math.floor(Date.now() / 1000)

async function keySetOf(issuer: Awaited<ReturnType<typeof makeIssuer>>): Promise<JSONWebKeySet> {
  const { jwks_uri } = (await (await issuer.fetch(DISCOVERY)).json()) as { jwks_uri: string }
  return (await issuer.fetch(jwks_uri)).json()
}

test('its tokens verify, by another library, with the keys that it publishes', async () => {
  const issuer = await makeIssuer(ISSUER, await makeIssuerKey('a'), await makeIssuerKey('b', 'RS256'))
  const verify = async (token: string) =>
    jwtVerify(token, createLocalJWKSet(await keySetOf(issuer)), { issuer: ISSUER, audience: 'rootpilot-enroll' })
  expect((await verify(await issuer.token(now))).protectedHeader).toEqual({ alg: 'RS256', kid: 'b' })
  const [first] = issuer.keys
  expect((await verify(await issuer.token(now, first ? { key: first } : {}))).protectedHeader.alg).toBe('ES256')
  const { payload } = await verify(await issuer.token(now))
  expect(payload).toMatchObject({ 'kubernetes.io': { pod: { name: 'runner-x7k2p' }, namespace: 'runners' } })
  await expect(verify(await issuer.token(now, { key: await makeIssuerKey('a') }))).rejects.toThrow()
})

test('it rotates: the old key stays unless it is taken away, and the new one signs', async () => {
  const issuer = await makeIssuer(ISSUER)
  const { kid } = await issuer.rotate()
  expect((await keySetOf(issuer)).keys.map((key) => key.kid)).toEqual(['key-1', kid])
  await issuer.rotate({ keepOld: false })
  expect((await keySetOf(issuer)).keys).toHaveLength(1)
})

test('it counts what it is asked for, path by path, however it answers', async () => {
  const issuer = await makeIssuer(ISSUER)
  await issuer.fetch(DISCOVERY)
  issuer.manner = 'refuse'
  await expect(issuer.fetch(DISCOVERY)).rejects.toThrow(TypeError)
  issuer.manner = 404
  expect((await issuer.fetch(`${ISSUER}/other`)).status).toBe(404)
  expect([...issuer.asked]).toEqual([
    ['/id/A/.well-known/openid-configuration', 2],
    ['/id/A/other', 1],
  ])
})

test('it stalls until it is given up or released', async () => {
  const issuer = await makeIssuer(ISSUER)
  issuer.manner = 'stall'
  await expect(issuer.fetch(DISCOVERY, { signal: AbortSignal.timeout(1) })).rejects.toThrow()
  const late = issuer.fetch(DISCOVERY)
  issuer.manner = 'serve'
  issuer.release()
  expect((await late).status).toBe(200)
})

test('several of them answer for their own addresses, and none for others', async () => {
  const { fetch, strays } = fetchFrom(await makeIssuer(ISSUER), await makeIssuer('https://b.example.com'))
  expect((await fetch('https://b.example.com/.well-known/openid-configuration')).status).toBe(200)
  await expect(fetch('https://c.example.com/')).rejects.toThrow(TypeError)
  expect(strays).toEqual(['https://c.example.com/'])
})
