//! The token endpoint: authorization code with PKCE, refresh with rotation, device codes, and the
//! claims of tokens.

use aws_lc_rs::digest;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::{Value, json};

use super::state::{DemoProvider, Grant, Refresh};

pub use super::state::LIFE;
/// Codes live this long, in seconds.
const CODE_LIFE: i64 = 60;

/// An error of RFC 6749 section 5.2.
pub type Refused = (u16, &'static str);

impl DemoProvider {
    /// Answers a token request; `form` looks up its parameters.
    ///
    /// # Errors
    /// The OAuth error code, with its status.
    pub fn token(
        &self,
        form: &dyn Fn(&str) -> Option<String>,
        authorization: Option<&str>,
    ) -> Result<Value, Refused> {
        self.authenticate(form, authorization)?;
        match form("grant_type").as_deref() {
            Some("authorization_code") => {
                self.count("token");
                self.by_code(form)
            }
            Some("refresh_token") => {
                self.count("refresh");
                self.by_refresh(form)
            }
            Some("urn:ietf:params:oauth:grant-type:device_code") => {
                self.count("device_token");
                self.by_device_code(form)
            }
            Some(_) | None => Err((400, "unsupported_grant_type")),
        }
    }

    pub(super) fn authenticate(
        &self,
        form: &dyn Fn(&str) -> Option<String>,
        authorization: Option<&str>,
    ) -> Result<(), Refused> {
        let client = self.client();
        let basic = authorization
            .and_then(|value| value.strip_prefix("Basic "))
            .and_then(|value| STANDARD.decode(value).ok())
            .and_then(|bytes| String::from_utf8(bytes).ok());
        let given = match basic {
            Some(pair) => {
                let (id, secret) = pair.split_once(':').unwrap_or((&pair, ""));
                let decode = |text: &str| {
                    percent_encoding::percent_decode_str(text)
                        .decode_utf8_lossy()
                        .into_owned()
                };
                (decode(id), decode(secret))
            }
            None => (
                form("client_id").unwrap_or_default(),
                form("client_secret").unwrap_or_default(),
            ),
        };
        if given == (client.id.clone(), client.secret.clone()) {
            Ok(())
        } else {
            Err((401, "invalid_client"))
        }
    }

    fn by_code(&self, form: &dyn Fn(&str) -> Option<String>) -> Result<Value, Refused> {
        let refused = Err((400, "invalid_grant"));
        let code = form("code").unwrap_or_default();
        // Removed in any case: a code works once.
        let Some(grant) = self.state().codes.remove(&code) else {
            return refused;
        };
        let verifier = form("code_verifier").unwrap_or_default();
        let challenge =
            URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
        let fits = challenge == grant.challenge
            && form("redirect_uri").as_deref() == Some(&grant.redirect_uri)
            && self.now() <= grant.issued + CODE_LIFE;
        if fits { self.grant(&grant) } else { refused }
    }

    /// Rotation: each refresh token works once; reuse revokes all tokens of the session.
    fn by_refresh(&self, form: &dyn Fn(&str) -> Option<String>) -> Result<Value, Refused> {
        let token = form("refresh_token").unwrap_or_default();
        let found = {
            let mut state = self.state();
            let Some(refresh) = state.refresh.get_mut(&token) else {
                return Err((400, "invalid_grant"));
            };
            let found = refresh.clone();
            refresh.used = true;
            if found.used && !found.is_offline {
                let session = &found.session;
                state.refresh.retain(|_, other| other.session != *session);
                return Err((400, "invalid_grant"));
            }
            found
        };
        let Refresh {
            person,
            session,
            auth_time,
            is_offline,
            ..
        } = found;
        let mut response = self.grant(&Grant {
            person,
            nonce: None,
            challenge: String::new(),
            redirect_uri: String::new(),
            session,
            issued: self.now(),
            auth_time,
            is_offline,
        })?;
        if is_offline {
            response["refresh_token"] = token.into();
        }
        #[cfg(feature = "testing")]
        let response = self.shortened(response);
        Ok(response)
    }

    pub(super) fn grant(&self, grant: &Grant) -> Result<Value, Refused> {
        let access_token = self.access_token(grant.person);
        let now = self.now();
        let mut claims = self.claims_of(grant.person);
        let hash = digest::digest(&digest::SHA256, access_token.as_bytes());
        claims.insert("iss".into(), self.issuer().into());
        claims.insert("aud".into(), self.client().id.as_str().into());
        claims.insert("iat".into(), now.into());
        claims.insert("exp".into(), (now + LIFE).into());
        claims.insert("sid".into(), grant.session.as_str().into());
        claims.entry("auth_time").or_insert(grant.auth_time.into());
        claims.insert(
            "at_hash".into(),
            URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]).into(),
        );
        if let Some(nonce) = &grant.nonce {
            claims.insert("nonce".into(), nonce.as_str().into());
        }
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": self.key_id()});
        let claims = Value::Object(claims);
        #[cfg(feature = "testing")]
        let (header, claims) = self.spoiled(header, claims);
        let id_token = self.sign(&header, &claims);
        let refresh_token = self.new_refresh(grant).ok_or((500, "server_error"))?;
        Ok(json!({
            "access_token": access_token,
            "token_type": "Bearer",
            "expires_in": LIFE,
            "id_token": id_token,
            "refresh_token": refresh_token,
        }))
    }

    /// Revokes a refresh token and all others of the same sign-in (RFC 7009). An unknown token is
    /// no error.
    ///
    /// # Errors
    /// When the client's credentials are not valid.
    pub fn revoke(
        &self,
        form: &dyn Fn(&str) -> Option<String>,
        authorization: Option<&str>,
    ) -> Result<(), Refused> {
        self.authenticate(form, authorization)?;
        self.count("revoke");
        let mut state = self.state();
        if let Some(revoked) = state.refresh.remove(&form("token").unwrap_or_default()) {
            state
                .refresh
                .retain(|_, other| other.session != revoked.session);
        }
        Ok(())
    }

    /// Whether a token is active, and whose it is (RFC 7662).
    ///
    /// # Errors
    /// When the client's credentials are not valid.
    pub(super) fn introspect(
        &self,
        form: &dyn Fn(&str) -> Option<String>,
        authorization: Option<&str>,
    ) -> Result<Value, Refused> {
        self.authenticate(form, authorization)?;
        self.count("introspection");
        let token = form("token").unwrap_or_default();
        #[cfg(feature = "testing")]
        if let Some(answer) = self.opaque_answer(&token) {
            return Ok(answer);
        }
        let Some(person) = self.whose(&token) else {
            return Ok(json!({ "active": false }));
        };
        let mut claims = self.claims_of(&person);
        claims.insert("active".into(), true.into());
        claims.insert("iss".into(), self.issuer().into());
        claims.insert("aud".into(), self.client().id.as_str().into());
        Ok(Value::Object(claims))
    }

    /// The subject of a valid access token.
    pub fn whose(&self, access_token: &str) -> Option<String> {
        let mut parts = access_token.split('.');
        let (header, payload) = (parts.next()?, parts.next()?);
        let decode =
            |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
        let claims = decode(payload)?;
        // Any of our keys may verify it; the header only has to be valid JSON.
        let _ = decode(header)?;
        let valid = self
            .state()
            .keys
            .iter()
            .any(|key| key.verifies(access_token));
        let fresh = claims.get("exp")?.as_i64()? > self.now();
        (valid && fresh)
            .then(|| claims.get("sub")?.as_str().map(str::to_owned))
            .flatten()
    }
}
