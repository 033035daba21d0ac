//! What an assertion says, how long it is sent, and how its keys rotate.

use std::{fs, path::Path};

use aws_lc_rs::{
    encoding::AsDer,
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING,
        EcdsaKeyPair, UnparsedPublicKey,
    },
};
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::json;

use super::{
    published::{LEAD, RETENTION},
    *,
};
use crate::model::{
    access::GroupName,
    app::AppId,
    clock::{ManualClock, Moment},
    principal::{PersonClaims, Principal},
};

/// A new key in a PEM file.
fn pem() -> String {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
    in_pem("PRIVATE KEY", key.expect("a key").as_ref())
}

fn in_pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
}

fn write(folder: &Path, name: &str, content: &str) -> std::path::PathBuf {
    let file = folder.join(name);
    fs::write(&file, content).expect("written");
    file
}

fn person(claims: PersonClaims) -> Principal {
    Principal::new(claims, &[])
}

fn alice() -> Principal {
    person(PersonClaims {
        subject: "alice".to_owned(),
        name: Some("Alice".to_owned()),
        email: Some("alice@example.com".to_owned()),
        preferred_username: Some("al".to_owned()),
        groups: ["b", "/a,c"]
            .iter()
            .filter_map(|name| GroupName::new(name))
            .collect(),
        ..PersonClaims::default()
    })
}

fn app(id: &str) -> AppId {
    AppId::new(id).expect("an id")
}

/// A signer with one key, and its clock.
struct Site {
    signer: AssertionSigner,
    clock: ManualClock,
    _folder: tempfile::TempDir,
}

impl Site {
    fn new() -> Site {
        let folder = tempfile::tempdir().expect("a folder");
        let file = write(folder.path(), "key.pem", &pem());
        let keys = AssertionKeys::from_files(vec![file]).expect("a key");
        let (clock, manual_clock) = Clock::manual();
        let origin = WebOrigin::new(true, "gw.test", 443);
        Site {
            signer: AssertionSigner::new(Arc::new(keys), &origin, clock),
            clock: manual_clock,
            _folder: folder,
        }
    }

    fn token(&self, person: &Principal, audience: &AppId) -> String {
        let identity = AssertedIdentity {
            audience,
            person,
            admitting_group: None,
        };
        let signed = self.signer.assertion(&identity).expect("signed");
        assert!(signed.sent().contains(&self.signer.now()) && signed.value().is_sensitive());
        signed.value().to_str().expect("text").to_owned()
    }

    /// The claims of a token, after its signature was verified with the published key.
    fn claims(&self, token: &str) -> Value {
        verified(token, &self.signer.key_set())
    }
}

fn part(text: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).expect("base64")).expect("JSON")
}

fn verified(token: &str, key_set: &Value) -> Value {
    let (message, signature) = token.rsplit_once('.').expect("a signature");
    let (header, payload) = message.split_once('.').expect("two parts");
    let header = part(header);
    assert_eq!(
        (&header["alg"], &header["typ"]),
        (&json!("ES256"), &json!("JWT"))
    );
    let keys = key_set["keys"].as_array().expect("keys");
    let key = keys
        .iter()
        .find(|key| key["kid"] == header["kid"])
        .expect("its key");
    let coordinate = |name: &str| {
        let text = key[name].as_str().expect("a text");
        URL_SAFE_NO_PAD.decode(text).expect("base64")
    };
    let point = [vec![4], coordinate("x"), coordinate("y")].concat();
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64");
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify(message.as_bytes(), &signature)
        .expect("a valid signature");
    part(payload)
}

fn key_ids(keys: &AssertionKeys) -> Vec<String> {
    let set = keys.key_set();
    let keys = set["keys"].as_array().expect("keys").iter();
    keys.map(|key| key["kid"].as_str().expect("an id").to_owned())
        .collect()
}

/// The id of the key that signs at this time.
fn signing(keys: &AssertionKeys, now: Moment) -> String {
    let token = keys.sign(b"{}", now).expect("signed");
    let header = part(token.split('.').next().expect("a header"));
    header["kid"].as_str().expect("an id").to_owned()
}

#[test]
fn an_assertion_says_who_asks_which_app_and_for_how_long() {
    let site = Site::new();
    let mut claims = site.claims(&site.token(&alice(), &app("mlflow")));
    let now = site.signer.now();
    let id = claims
        .as_object_mut()
        .expect("claims")
        .remove("jti")
        .expect("an id");
    assert_eq!(id.as_str().expect("a text").len(), 22);
    assert_eq!(
        claims,
        json!({
            "iss": "https://gw.test", "aud": "mlflow", "sub": "alice", "preferred_username": "al",
            "email": "alice@example.com", "groups": ["a,c", "b"], "iat": now, "exp": now + 300,
        })
    );
}

#[test]
fn an_absent_claim_is_left_out() {
    let site = Site::new();
    let bob = person(PersonClaims {
        subject: "bob".to_owned(),
        email: Some(String::new()),
        ..PersonClaims::default()
    });
    let claims = site.claims(&site.token(&bob, &app("a")));
    let names: Vec<&String> = claims.as_object().expect("claims").keys().collect();
    let mut expected = ["aud", "exp", "iat", "iss", "jti", "sub"];
    expected.sort_unstable();
    let mut names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, expected);
    let unproved = alice().without_groups();
    assert_eq!(
        site.claims(&site.token(&unproved, &app("a")))["groups"],
        Value::Null
    );
}

#[test]
fn of_too_many_groups_only_the_one_that_admits_is_named() {
    let site = Site::new();
    let names = (0..500).map(|n| format!("a-rather-long-group-name-{n:04}"));
    let many = person(PersonClaims {
        subject: "carol".to_owned(),
        groups: names.filter_map(|name| GroupName::new(&name)).collect(),
        ..PersonClaims::default()
    });
    let (audience, group) = (app("a"), GroupName::new("staff").expect("a group"));
    for (admitting_group, groups) in [(Some(&group), json!(["staff"])), (None, Value::Null)] {
        let identity = AssertedIdentity {
            audience: &audience,
            person: &many,
            admitting_group,
        };
        let signed = site.signer.assertion(&identity).expect("signed");
        let claims = site.claims(signed.value().to_str().expect("text"));
        assert_eq!(
            (&claims["groups"], &claims["groups_truncated"]),
            (&groups, &json!(true))
        );
    }
}

#[test]
fn a_token_is_sent_until_half_of_its_lifetime_has_passed() {
    let site = Site::new();
    let first = site.token(&alice(), &app("a"));
    site.clock.advance(Duration::from_secs(149));
    // Another record of the same person says the same.
    assert_eq!(site.token(&alice(), &app("a")), first);
    site.clock.advance(Duration::from_secs(1));
    let second = site.token(&alice(), &app("a"));
    let [old, new] = [&first, &second].map(|token| site.claims(token));
    assert!(old["jti"] != new["jti"] && old["exp"].as_i64() < new["exp"].as_i64());
    // A clock that is set back makes the token one of the future.
    site.clock.jump_wall(-3600);
    assert_ne!(site.token(&alice(), &app("a")), second);
}

proptest! {
    #[test]
    fn a_token_names_the_person_and_the_app_it_was_asked_for(
        asked in prop::collection::vec((0..3_usize, 0..3_usize, any::<bool>()), 1..12),
    ) {
        let site = Site::new();
        for (person_index, app_index, has_group) in asked {
            let subject = ["alice", "bob", "a\"b"][person_index].to_owned();
            let id = ["one", "two", "three"][app_index];
            let groups: Vec<GroupName> = GroupName::new("g").into_iter().filter(|_| has_group).collect();
            let claims = PersonClaims { subject: subject.clone(), groups, ..PersonClaims::default() };
            let said = site.claims(&site.token(&person(claims), &app(id)));
            prop_assert_eq!(&said["sub"], &json!(subject));
            prop_assert_eq!(&said["aud"], &json!(id));
            prop_assert_eq!(said["groups"].is_array(), has_group);
        }
    }
}

#[test]
fn a_new_key_is_published_before_it_signs_and_an_old_one_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (pem(), pem());
    let file = write(folder.path(), "keys.pem", &old);
    let keys = AssertionKeys::from_files(vec![file.clone()]).expect("a key");
    let start = Moment(1_000_000);
    let old_id = signing(&keys, start);
    assert!(matches!(keys.renew(start), Ok(false)), "as it was");
    fs::write(&file, &new).expect("written");
    assert!(matches!(keys.renew(start), Ok(true)));
    let ids = key_ids(&keys);
    assert_eq!((ids.len(), &ids[1]), (2, &old_id));
    let new_id = ids[0].clone();
    for (after, signer, published) in [
        (Duration::ZERO, &old_id, 2),
        (LEAD - Duration::from_secs(1), &old_id, 2),
        (LEAD, &new_id, 2),
        (RETENTION - Duration::from_secs(1), &new_id, 2),
        (RETENTION, &new_id, 1),
    ] {
        let now = start.after(after);
        assert!(matches!(keys.renew(now), Ok(false)));
        assert_eq!(&signing(&keys, now), signer, "{after:?}");
        assert_eq!(key_ids(&keys).len(), published, "{after:?}");
    }
    // In a replica that starts then, the key signs at once, and has the same id.
    let replica = AssertionKeys::from_files(vec![file]).expect("a key");
    assert_eq!(
        (signing(&replica, start), key_ids(&replica)),
        (new_id.clone(), vec![new_id])
    );
}

#[test]
fn the_first_key_of_the_files_signs_and_all_are_published() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (pem(), pem());
    let both = write(folder.path(), "both.pem", &format!("{first}{second}"));
    let again = write(folder.path(), "again.pem", &second);
    let keys = AssertionKeys::from_files(vec![both.clone(), again]).expect("keys");
    let ids = key_ids(&keys);
    assert_eq!((ids.len(), signing(&keys, Moment(0))), (2, ids[0].clone()));
    // A known key that becomes the first signs at once.
    fs::write(&both, format!("{second}{first}")).expect("written");
    assert!(matches!(keys.renew(Moment(0)), Ok(true)));
    assert_eq!(signing(&keys, Moment(0)), ids[1]);
}

#[test]
fn a_key_may_have_the_older_form_after_its_parameters() {
    let folder = tempfile::tempdir().expect("a folder");
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
    let der = pair.private_key().as_der().expect("DER");
    let text = in_pem("EC PARAMETERS", b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07")
        + &in_pem("EC PRIVATE KEY", der.as_ref());
    let file = write(folder.path(), "key.pem", &text);
    let keys = AssertionKeys::from_files(vec![file]).expect("a key");
    assert_eq!(key_ids(&keys).len(), 1);
}

#[test]
fn files_that_cannot_be_used_are_refused_and_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let other = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).expect("a key");
    let other = in_pem("PRIVATE KEY", other.to_pkcs8v1().expect("DER").as_ref());
    let good = pem();
    let half = &good[..good.len() / 2];
    let file = write(folder.path(), "key.pem", &good);
    let keys = AssertionKeys::from_files(vec![file.clone()]).expect("a key");
    let ids = key_ids(&keys);
    for (content, what) in [
        ("", "no unencrypted PEM private key"),
        (half, "no unencrypted PEM private key"),
        (
            &*in_pem("PUBLIC KEY", b"x"),
            "no unencrypted PEM private key",
        ),
        (&*in_pem("PRIVATE KEY", b"x"), "not of the curve P-256"),
        (&*other, "not of the curve P-256"),
    ] {
        fs::write(&file, content).expect("written");
        let refused = AssertionKeys::from_files(vec![file.clone()]).expect_err(what);
        assert!(refused.to_string().contains(what), "{refused}");
        let error = keys.renew(Moment(0)).expect_err(what).to_string();
        assert!(error.contains(what) && error.contains("key.pem"), "{error}");
        assert!(matches!(keys.renew(Moment(0)), Ok(false)), "reported once");
        assert_eq!(key_ids(&keys), ids);
    }
    fs::remove_file(&file).expect("removed");
    let error = keys.renew(Moment(0)).expect_err("no file").to_string();
    assert!(error.contains("cannot be read"), "{error}");
    // The way back is not taken for a rotation.
    fs::write(&file, &good).expect("written");
    assert!(matches!(keys.renew(Moment(0)), Ok(true)));
    assert_eq!(key_ids(&keys), ids);
}

#[test]
fn nothing_shows_a_private_key() {
    let site = Site::new();
    let text = format!("{:?} {}", site.signer, site.signer.key_set());
    assert!(
        !text.contains("\"d\"") && text.contains("AssertionKey("),
        "{text}"
    );
}
