//! Service tokens as operators make, list and revoke them.

use super::{
    file::{TokenFile, TokenFileError},
    hash_prefix::{HashMatch, HashPrefix},
    record::{ServiceName, ServiceTokenRecord, StoredToken, TokenList},
    redis::TokenStore,
    text::NewServiceToken,
};
use crate::{
    model::{access::GroupName, app::AppId},
    ops::redis::StoreError,
    session::cookie::{NoRandomness, RecordKey},
};

/// Where tokens are made and revoked.
#[derive(Debug)]
pub enum TokenRegistry {
    /// In a file.
    File(TokenFile),
    /// In Redis.
    Redis(TokenStore),
}

/// A token to be made. Times are seconds since 1970.
#[derive(Clone, Debug)]
pub struct ServiceTokenRequest {
    /// The name of the program.
    pub name: ServiceName,
    /// The apps that it is for.
    pub apps: Vec<AppId>,
    /// Its groups.
    pub groups: Vec<GroupName>,
    /// Now.
    pub created: i64,
    /// When it expires.
    pub expires: i64,
}

/// Why a token was not made, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenRegistryError {
    /// A live token has the name.
    #[error("there is a token with the name {0}; revoke it, or choose another name")]
    NameTaken(ServiceName),
    /// No token has the name.
    #[error("there is no token with the name {0}")]
    Unknown(ServiceName),
    /// No token has the hash.
    #[error("there is no token with the hash {0}")]
    UnknownHash(HashPrefix),
    /// The hashes of several tokens begin alike.
    #[error("the hashes of several tokens begin with {0}; write more digits of it")]
    Ambiguous(HashPrefix),
    /// The system has no random bytes.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// The file cannot be used.
    #[error(transparent)]
    File(#[from] TokenFileError),
    /// Redis cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl TokenRegistry {
    /// Makes a token. Its text is in the answer and nowhere else.
    ///
    /// # Errors
    /// See [`TokenRegistryError`].
    pub async fn create(
        &self,
        request: &ServiceTokenRequest,
    ) -> Result<NewServiceToken, TokenRegistryError> {
        let token = NewServiceToken::random()?;
        let stored = stored(&token, request);
        let now = request.created;
        let is_taken = |tokens: &[StoredToken]| {
            let name = request.name.as_str();
            let mut live = tokens.iter().filter(|token| token.record.expires > now);
            live.any(|token| token.record.name == name)
        };
        let was_taken = match self {
            TokenRegistry::File(file) => file.update(|tokens| {
                let was_taken = is_taken(tokens);
                if !was_taken {
                    tokens.retain(|token| token.record.expires > now);
                    tokens.push(stored);
                }
                was_taken
            })?,
            TokenRegistry::Redis(store) => {
                let was_taken = is_taken(&store.list().await?.tokens);
                if !was_taken {
                    store.insert(&stored, now).await?;
                }
                was_taken
            }
        };
        if was_taken {
            Err(TokenRegistryError::NameTaken(request.name.clone()))
        } else {
            Ok(token)
        }
    }

    /// All tokens, by name.
    ///
    /// # Errors
    /// See [`TokenRegistryError`].
    pub async fn list(&self) -> Result<TokenList, TokenRegistryError> {
        let mut list = match self {
            TokenRegistry::File(file) => TokenList {
                tokens: file.load()?,
                unreadable: Vec::new(),
            },
            TokenRegistry::Redis(store) => store.list().await?,
        };
        let by_name =
            |one: &StoredToken, other: &StoredToken| one.record.name.cmp(&other.record.name);
        list.tokens.sort_by(by_name);
        list.unreadable.sort_by_key(|key| key.0);
        Ok(list)
    }

    /// Revokes the token of this name.
    ///
    /// # Errors
    /// See [`TokenRegistryError`].
    pub async fn revoke(&self, name: &ServiceName) -> Result<(), TokenRegistryError> {
        let is_it = |token: &StoredToken| token.record.name == name.as_str();
        let is_known = match self {
            TokenRegistry::File(file) => file.update(|tokens| {
                let before = tokens.len();
                tokens.retain(|token| !is_it(token));
                tokens.len() < before
            })?,
            TokenRegistry::Redis(store) => {
                let tokens = store.list().await?.tokens;
                let revoked: Vec<StoredToken> = tokens.into_iter().filter(is_it).collect();
                for token in &revoked {
                    store.remove(token.key).await?;
                }
                !revoked.is_empty()
            }
        };
        if is_known {
            Ok(())
        } else {
            Err(TokenRegistryError::Unknown(name.clone()))
        }
    }

    /// Revokes the token with this hash, also if its record cannot be opened. A whole hash needs no
    /// entry in the index.
    ///
    /// # Errors
    /// See [`TokenRegistryError`].
    pub async fn revoke_by_hash(&self, hash: &HashPrefix) -> Result<(), TokenRegistryError> {
        match self {
            TokenRegistry::File(file) => {
                file.update(|tokens| -> Result<(), TokenRegistryError> {
                    let key = only_match(hash, tokens.iter().map(|token| token.key))?;
                    tokens.retain(|token| token.key != key);
                    Ok(())
                })?
            }
            TokenRegistry::Redis(store) => {
                let mut keys = store.keys().await?;
                if let Some(key) = hash.whole()
                    && store.has_record(key).await?
                {
                    keys.push(key);
                }
                let key = only_match(hash, keys)?;
                store.remove(key).await?;
                Ok(())
            }
        }
    }
}

fn only_match(
    hash: &HashPrefix,
    keys: impl IntoIterator<Item = RecordKey>,
) -> Result<RecordKey, TokenRegistryError> {
    match hash.find(keys) {
        HashMatch::One(key) => Ok(key),
        HashMatch::None => Err(TokenRegistryError::UnknownHash(hash.clone())),
        HashMatch::Several => Err(TokenRegistryError::Ambiguous(hash.clone())),
    }
}

fn stored(token: &NewServiceToken, request: &ServiceTokenRequest) -> StoredToken {
    let apps = request.apps.iter().map(|app| app.as_str().to_owned());
    let groups = request.groups.iter().map(GroupName::to_record);
    StoredToken {
        key: token.key(),
        record: ServiceTokenRecord {
            name: request.name.as_str().to_owned(),
            apps: apps.collect(),
            groups: groups.collect(),
            created: request.created,
            expires: request.expires,
            last_characters: token.last_characters().to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_tokens::record::ServiceToken;

    fn request(name: &str, created: i64) -> ServiceTokenRequest {
        ServiceTokenRequest {
            name: ServiceName::new(name).expect("a name"),
            apps: AppId::new("mlflow").into_iter().collect(),
            groups: GroupName::new("phusers").into_iter().collect(),
            created,
            expires: created + 10,
        }
    }

    #[tokio::test]
    async fn a_name_has_one_live_token_until_it_is_revoked_or_expires() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tokens.json");
        let registry = TokenRegistry::File(TokenFile::new(path.clone()));
        let first = registry.create(&request("one", 1)).await.expect("made");
        let again = registry.create(&request("one", 10)).await;
        assert!(matches!(again, Err(TokenRegistryError::NameTaken(_))));
        let text = std::fs::read_to_string(&path).expect("readable");
        assert!(!text.contains(first.as_str()), "only its hash is stored");
        assert!(text.contains(&first.key().hex()));
        let later = registry.create(&request("one", 11)).await.expect("made");
        let listed = registry.list().await.expect("listed");
        let keys: Vec<_> = listed.tokens.iter().map(|token| token.key).collect();
        assert_eq!(keys, [later.key()], "the first had expired");
        let one = ServiceName::new("one").expect("a name");
        registry.revoke(&one).await.expect("revoked");
        let again = registry.revoke(&one).await;
        assert!(matches!(again, Err(TokenRegistryError::Unknown(_))));
        let last = registry.create(&request("one", 12)).await.expect("made");
        let hash = HashPrefix::shown(last.key());
        registry.revoke_by_hash(&hash).await.expect("revoked");
        let again = registry.revoke_by_hash(&hash).await;
        assert!(matches!(again, Err(TokenRegistryError::UnknownHash(_))));
        assert_eq!(registry.list().await.expect("listed"), TokenList::default());
    }

    #[tokio::test]
    async fn a_token_is_in_the_groups_that_it_was_made_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let registry = TokenRegistry::File(TokenFile::new(folder.path().join("tokens.json")));
        let names = ["a", "/b", "//c", "d/e"].map(GroupName::new);
        let wanted = ServiceTokenRequest {
            groups: names.into_iter().flatten().collect(),
            ..request("one", 1)
        };
        registry.create(&wanted).await.expect("made");
        let listed = registry.list().await.expect("listed");
        let record = listed.tokens[0].record.clone();
        let token = ServiceToken::new(record).expect("a token");
        let sorted = ["//c", "a", "b", "d/e"].map(GroupName::new);
        let sorted: Vec<_> = sorted.into_iter().flatten().collect();
        assert_eq!(token.principal().groups(), sorted);
    }
}
