// Tests which proxy the environment names for a connection.

import { describe, expect, test } from 'vitest'
import { isLoopback, proxyFor, proxyRules } from '../../src/node/proxy-rules.ts'

/** `host:port` of the proxy for a URL, `direct`, or what is wrong. */
function asked(url: string, env: NodeJS.ProcessEnv): string {
  const rules = proxyRules(env)
  if (!rules.ok) return rules.error
  const { hostname, port } = new URL(url)
  const proxy = proxyFor(hostname, Number(port) || 443, rules.value)
  return proxy === null ? 'direct' : `${proxy.scheme}://${proxy.host}:${proxy.port}`
}

const FAR = 'https://far.test'

describe('the variable', () => {
  test.each<[string, NodeJS.ProcessEnv, string]>([
    ['none', {}, 'direct'],
    ['HTTPS_PROXY', { HTTPS_PROXY: 'http://a:1' }, 'http://a:1'],
    ['https_proxy before HTTPS_PROXY', { HTTPS_PROXY: 'http://a:1', https_proxy: 'http://b:2' }, 'http://b:2'],
    ['HTTPS_PROXY before all_proxy', { HTTPS_PROXY: 'http://a:1', all_proxy: 'http://b:2' }, 'http://a:1'],
    ['all_proxy before ALL_PROXY', { ALL_PROXY: 'http://a:1', all_proxy: 'http://b:2' }, 'http://b:2'],
    ['ALL_PROXY', { ALL_PROXY: 'http://a:1' }, 'http://a:1'],
    ['a blank one is unset', { https_proxy: ' ', HTTPS_PROXY: '', ALL_PROXY: 'http://a:1' }, 'http://a:1'],
    ['HTTP_PROXY is for plain http', { HTTP_PROXY: 'http://a:1', http_proxy: 'http://a:1' }, 'direct'],
  ])('%s', (_name, env, proxy) => {
    expect(asked(FAR, env)).toBe(proxy)
  })
})

describe('the URL of the proxy', () => {
  test.each([
    ['proxy.test:3128', 'http://proxy.test:3128'],
    ['user:pass@proxy.test:3128', 'http://proxy.test:3128'],
    ['http://proxy.test', 'http://proxy.test:80'],
    ['http://proxy.test:3128/', 'http://proxy.test:3128'],
    ['HTTPS://Proxy.Test.', 'https://proxy.test:443'],
    ['https://proxy.test:80', 'https://proxy.test:80'],
    ['http://[FD00::1]:3128', 'http://fd00::1:3128'],
  ])('%s', (text, proxy) => {
    expect(asked(FAR, { HTTPS_PROXY: text })).toBe(proxy)
  })

  test.each([
    'socks5://user:hush@proxy.test:1080',
    'socks5h://proxy.test',
    'ftp://proxy.test',
    'http://',
    'http://user:hush@',
    'http://proxy.test:port',
    'http://proxy.test:65536',
    'http://proxy.test:0',
    'http://pro xy.test',
    'http://proxy.test\\hush',
    '"http://proxy.test:3128"',
    'http://user:hush/hush@proxy.test:3128',
    'http://user:1#hush@proxy.test:3128',
    'http://user:1?hush@proxy.test:3128',
  ])('%j is a mistake that names the variable and quotes nothing', (text) => {
    for (const name of ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY']) {
      expect(asked(FAR, { [name]: text })).toBe(
        `${name} is not the URL of an HTTP proxy, such as http://proxy.example:3128`,
      )
    }
  })

  test('is not parsed when no connection uses a proxy', () => {
    expect(asked(FAR, { ALL_PROXY: 'socks5://proxy.test', NO_PROXY: '*' })).toBe('direct')
  })
})

describe('user name and password are sent as curl sends them', () => {
  test.each([
    ['u:p@', 'u:p'],
    ['u:p%40ss@', 'u:p@ss'],
    ['u:p@ss@', 'u:p@ss'],
    ['u:p%zz@', 'u:p%zz'],
    ['u:100%@', 'u:100%'],
    ['u:a:b%3Ac@', 'u:a:b:c'],
    ['u%3Av:p@', 'u:v:p'],
    ['DOMAIN\\u:p\\q@', 'DOMAIN\\u:p\\q'],
    ['u:sch%C3%B6n@', 'u:schön'],
    ['u:schön@', 'u:schön'],
    ['u@', 'u:'],
    ['u:@', 'u:'],
    [':p@', ':p'],
    ['u:%22 +&="@', 'u:" +&="'],
  ])('%s', (credentials, sent) => {
    const rules = proxyRules({ HTTPS_PROXY: `http://${credentials}proxy.test:3128` })
    const proxy = rules.ok ? rules.value.proxy : null
    expect(proxy?.host).toBe('proxy.test')
    expect(Buffer.from(proxy?.authorization?.replace('Basic ', '') ?? '', 'base64').toString()).toBe(sent)
  })

  test('with a byte that is no UTF-8', () => {
    const rules = proxyRules({ HTTPS_PROXY: 'http://u:%E9@proxy.test' })
    expect(rules.ok && rules.value.proxy?.authorization).toBe('Basic dTrp')
  })

  test('and none without', () => {
    const rules = proxyRules({ HTTPS_PROXY: 'http://proxy.test' })
    expect(rules.ok && rules.value.proxy?.authorization).toBeNull()
  })
})

describe('NO_PROXY', () => {
  test.each<[string, string, boolean]>([
    ['example.com', 'https://example.com', true],
    ['example.com', 'https://a.example.com', true],
    ['.example.com', 'https://a.example.com', true],
    ['.example.com', 'https://example.com', true],
    ['*.example.com', 'https://a.example.com', true],
    ['example.com', 'https://notexample.com', false],
    ['ample.com', 'https://example.com', false],
    ['example.com', 'https://example.com.evil.test', false],
    ['example.com:8443', 'https://example.com:8443', true],
    ['example.com:8443', 'https://example.com', false],
    ['example.com:443', 'wss://example.com', true],
    ['example.com', 'https://example.com.', true],
    ['example.com.', 'https://example.com', true],
    ['10.0.0.1', 'https://10.0.0.1', true],
    ['10.0.0.1:8443', 'https://10.0.0.1', false],
    ['0.0.1', 'https://10.0.0.1', false],
    ['10.0.0.0/8', 'https://10.1.2.3', true],
    ['10.0.0.0/8', 'https://11.1.2.3', false],
    ['10.1.2.3/8', 'https://10.9.9.9', true],
    ['10.0.0.0/33', 'https://10.0.0.0', false],
    ['10.0.0.0/-1', 'https://10.0.0.0', false],
    ['10.0.0.0/8.5', 'https://10.0.0.0', false],
    ['10.0.0.0/x', 'https://10.0.0.0', false],
    ['10.0.0.0/', 'https://10.0.0.0', true],
    ['10.0.0.0/8', 'https://10.example', false],
    ['10.0.0.0/8:8443', 'https://10.1.2.3:8443', true],
    ['0.0.0.0/0', 'https://203.0.113.7', true],
    ['[fd00::1]:443', 'https://[fd00::1]', true],
    ['[fd00::1]:8443', 'https://[fd00::1]', false],
    ['[fd00::1]', 'https://[fd00::1]', true],
    ['fd00::1', 'https://[fd00::1]', true],
    ['FD00:0:0::1', 'https://[fd00::1]', true],
    ['fd00::/8', 'https://[fd12::1]', true],
    ['[fd00::]/8', 'https://[fd12::1]', true],
    ['fd00::/8', 'https://[fe00::1]', false],
    ['10.0.0.0/8', 'https://[::ffff:10.1.2.3]', true],
    ['*', 'https://anything.test', true],
    ['a.test,*', 'https://anything.test', true],
    ['', 'https://anything.test', false],
    ['.', 'https://anything.test', false],
    [',, ,', 'https://anything.test', false],
    ['a.test, b.test', 'https://B.TEST', true],
    ['a.test b.test', 'https://b.test', true],
  ])('%j and %s: direct is %j', (except, url, direct) => {
    expect(asked(url, { HTTPS_PROXY: 'proxy.test:3128', NO_PROXY: except }) === 'direct').toBe(direct)
  })

  test.each<[NodeJS.ProcessEnv, string]>([
    [{ no_proxy: '', NO_PROXY: 'far.test' }, 'direct'],
    [{ no_proxy: ' ', NO_PROXY: 'far.test' }, 'direct'],
    [{ no_proxy: 'other.test', NO_PROXY: 'far.test' }, 'http://proxy.test:80'],
    [{ no_proxy: 'far.test', NO_PROXY: 'other.test' }, 'direct'],
  ])('%j: no_proxy wins unless it is blank', (env, proxy) => {
    expect(asked(FAR, { HTTPS_PROXY: 'proxy.test', ...env })).toBe(proxy)
  })
})

test.each<[string, boolean]>([
  ['localhost', true],
  ['localhost.', true],
  ['LOCALHOST', true],
  ['a.localhost', true],
  ['127.0.0.1', true],
  ['127.9.9.9', true],
  ['[::1]', true],
  ['[::ffff:127.0.0.1]', true],
  ['128.0.0.1', false],
  ['[::2]', false],
  ['localhost.evil.test', false],
  ['notlocalhost', false],
  ['127.0.0.1.evil.test', false],
])('%s is this machine: %j', (hostname, loopback) => {
  expect(isLoopback(hostname)).toBe(loopback)
  const url = `https://${hostname}`
  expect(asked(url, { HTTPS_PROXY: 'http://proxy.test', ALL_PROXY: 'http://proxy.test' }) === 'direct').toBe(loopback)
})
