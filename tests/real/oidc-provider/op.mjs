// A small but real OpenID provider for Ludgate's integration tests: `node op.mjs`.
//
// It listens on 127.0.0.1, keeps all data in memory, and generates new keys at each start. When
// ready, it prints one line to stdout: {"issuer":"http://127.0.0.1:PORT"}. Logs go to stderr.
//
//   PORT                      default 0, any free port
//   CLIENT_ID, CLIENT_SECRET  default ludgate, a-secret-for-tests-only-0123456789 (basic auth)
//   REDIRECT_URI              required; a comma-separated list is allowed
//   POST_LOGOUT_REDIRECT_URI  optional; a comma-separated list is allowed
//   BACKCHANNEL_LOGOUT_URI    optional; with it, ID tokens carry a `sid`
//   ACCESS_TOKEN_TTL          seconds, default 600
//   ACCESS_TOKEN_FORMAT       jwt (default), or opaque (needed for introspection)
//   ID_TOKEN_ALG              RS256 (default) or ES256; JWT access tokens are always RS256
//
// To sign in without a browser, follow the redirects with a cookie jar, and add ?login=alice to
// the address of the interaction page. POST /test/rotate-keys generates new signing keys; the old
// ones stay published, except with ?drop.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';

import Provider from 'oidc-provider';
// A store that outlives a Provider. Not part of the library's public API, so the version is pinned.
import { createMemoryAdapter } from 'oidc-provider/lib/adapters/memory_adapter.js';

console.info = console.error; // the library's notices go to stderr; stdout has only the ready line

const fail = (message) => { console.error(`op.mjs: ${message}`); process.exit(2); };
const env = (name, fallback, allowed = /^/) => {
  const value = process.env[name] || fallback;
  return allowed.test(value) ? value : fail(`${name} is missing or wrong`);
};
const list = (value) => value.split(',').map((item) => item.trim()).filter(Boolean);

const port = Number(env('PORT', '0', /^\d+$/));
const clientId = env('CLIENT_ID', 'ludgate');
const clientSecret = env('CLIENT_SECRET', 'a-secret-for-tests-only-0123456789');
const redirectUris = list(env('REDIRECT_URI', '', /./));
const postLogoutRedirectUris = list(env('POST_LOGOUT_REDIRECT_URI', ''));
const backchannelLogoutUri = env('BACKCHANNEL_LOGOUT_URI', '');
const accessTokenTTL = Number(env('ACCESS_TOKEN_TTL', '600', /^[1-9]\d*$/));
const accessTokenFormat = env('ACCESS_TOKEN_FORMAT', 'jwt', /^(jwt|opaque)$/);
const idTokenAlg = env('ID_TOKEN_ALG', 'RS256', /^(RS|ES)256$/);

const GROUPS = { alice: ['phusers', 'friends'], bob: ['friends'], carol: ['guests'] };
const person = (name) => ({
  sub: name, name, preferred_username: name,
  email: `${name}@example.test`, email_verified: true, groups: GROUPS[name],
});

// The only resource (RFC 8707) of JWT access tokens. The library identifies it by this URI; the
// tokens' audience is clientId.
const RESOURCE = 'urn:ludgate:test';
const RESOURCE_SCOPE = 'openid profile email groups offline_access';

const makeKeys = () => [
  ['RS256', 'rsa', { modulusLength: 2048 }],
  ['ES256', 'ec', { namedCurve: 'P-256' }],
].map(([alg, type, options]) => ({
  ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig',
}));

// Grants all requested scopes and claims, so that the library shows no consent page.
async function loadExistingGrant({ oidc }) {
  const { Grant } = oidc.provider;
  const id = oidc.session.grantIdFor(oidc.client.clientId);
  const grant = (id && await Grant.find(id))
    || new Grant({ accountId: oidc.account.accountId, clientId: oidc.client.clientId });
  grant.addOIDCScope(oidc.requestParamOIDCScopes);
  grant.addOIDCClaims(oidc.requestParamClaims);
  grant.addResourceScope(RESOURCE, RESOURCE_SCOPE);
  await grant.save();
  return grant;
}

const adapter = createMemoryAdapter();
const cookieKeys = [randomBytes(32).toString('hex')];

function makeProvider(issuer, keys) {
  const provider = new Provider(issuer, {
    adapter,
    jwks: { keys },
    cookies: { keys: cookieKeys },
    responseTypes: ['code'],
    clientAuthMethods: ['client_secret_basic'],
    clients: [{
      client_id: clientId,
      client_secret: clientSecret,
      token_endpoint_auth_method: 'client_secret_basic',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: redirectUris,
      post_logout_redirect_uris: postLogoutRedirectUris,
      id_token_signed_response_alg: idTokenAlg,
      ...(backchannelLogoutUri && {
        backchannel_logout_uri: backchannelLogoutUri, backchannel_logout_session_required: true,
      }),
    }],
    claims: {
      openid: ['sub'],
      profile: ['name', 'preferred_username', 'groups'],
      email: ['email', 'email_verified'],
      groups: ['groups'],
    },
    conformIdTokenClaims: false, // the ID token contains the claims of the scopes too
    findAccount: (_ctx, sub) => (
      Object.hasOwn(GROUPS, sub) ? { accountId: sub, claims: () => person(sub) } : undefined),
    extraTokenClaims: (_ctx, token) => ({ groups: GROUPS[token.accountId] }),
    loadExistingGrant,
    pkce: { required: () => true }, // the library supports only S256
    issueRefreshToken: () => true, // the library ignores offline_access without prompt=consent
    rotateRefreshToken: true,
    ttl: {
      AccessToken: accessTokenTTL, AuthorizationCode: 60, IdToken: 3600, Interaction: 3600,
      Grant: 86400, RefreshToken: 86400, Session: 86400,
    },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true, allowedPolicy: () => true },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: (ctx, form) => {
          ctx.body = `${form}<button form="op.logoutForm" name="logout" value="yes">Sign out</button>`;
        },
      },
      resourceIndicators: {
        enabled: accessTokenFormat === 'jwt',
        defaultResource: () => RESOURCE,
        useGrantedResource: () => true,
        getResourceServerInfo: () => ({
          scope: RESOURCE_SCOPE, audience: clientId, accessTokenTTL, accessTokenFormat,
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
    // The library's own dispatcher rejects loopback addresses; back-channel logout needs them.
    fetch: (url, { dispatcher, ...options }) => fetch(url, options),
    renderError: (ctx, out) => { ctx.body = `${out.error}: ${out.error_description}\n`; },
  });

  // The library does not store JWT access tokens, so it would reject them at userinfo. Most
  // providers accept them there. So store a copy by the token itself, without the audience.
  const { save } = provider.AccessToken.prototype;
  provider.AccessToken.prototype.save = async function saveWithCopy() {
    const value = await save.call(this);
    if (accessTokenFormat === 'jwt') {
      const { iat, exp } = JSON.parse(Buffer.from(value.split('.')[1], 'base64url'));
      const { aud, format, ...copy } = this;
      await this.adapter.upsert(value, { ...copy, iat, exp }, exp - iat);
    }
    return value;
  };

  for (const event of ['server_error', 'authorization.error', 'grant.error', 'userinfo.error',
    'introspection.error', 'revocation.error', 'end_session.error', 'end_session_confirm.error',
    'backchannel.error']) {
    provider.on(event, (_ctx, err) => console.error(
      event, err.error ? `${err.error}: ${err.error_detail ?? err.error_description}` : err));
  }
  return provider;
}

// The interaction page: ?login=NAME signs that user in; without it, the page links to all names.
async function interact(provider, req, res, url) {
  const { prompt } = await provider.interactionDetails(req, res);
  const login = url.searchParams.get('login');
  if (prompt.name === 'consent') { // only with prompt=consent; already granted
    await provider.interactionFinished(req, res, { consent: {} });
  } else if (Object.hasOwn(GROUPS, login)) {
    await provider.interactionFinished(req, res, { login: { accountId: login } });
  } else {
    const links = Object.keys(GROUPS).map((name) => `<a href="${url.pathname}?login=${name}">${name}</a>`);
    res.writeHead(login === null ? 200 : 400, { 'content-type': 'text/html' }).end(links.join('\n'));
  }
}

// The issuer names the port, so the port is bound before the Provider is made.
const server = createServer();
server.on('error', (err) => fail(err.message));
server.listen(port, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  let keys = makeKeys();
  let provider = makeProvider(issuer, keys);

  server.on('request', async (req, res) => {
    try {
      const url = new URL(req.url, issuer);
      if (url.pathname.startsWith('/interaction/')) {
        await interact(provider, req, res, url);
      } else if (req.method === 'POST' && url.pathname === '/test/rotate-keys') {
        keys = [...makeKeys(), ...(url.searchParams.has('drop') ? [] : keys)]; // the first one signs
        provider = makeProvider(issuer, keys);
        res.writeHead(204).end();
      } else {
        await provider.callback()(req, res);
      }
    } catch (err) {
      console.error(err);
      if (!res.headersSent) res.writeHead(err.statusCode ?? 500, { 'content-type': 'text/plain' });
      res.end(`${err.message}: ${err.error_description ?? ''}\n`);
    }
  });
  process.stdout.write(`${JSON.stringify({ issuer })}\n`);
});

process.on('SIGTERM', () => process.exit(0));
