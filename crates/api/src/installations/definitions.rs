//! Calls about definitions. Everyone who is signed in may read them, and administrators write them.

use ludgate_cluster::crd::definition::ApplicationDefinition;
use ludgate_installs::{
    resource_json::{definition, error::ResourceError},
    validation::deletion,
};
use ludgate_model::principal::Principal;
use serde_json::{Value, json};

use super::{
    answer::{Answer, from_cluster, not_found},
    call::{Change, DefinitionCall},
    home_cluster::HomeCluster,
    objects::{self, DEFINITIONS},
    preparation::{self, NewForm},
    request_body::RequestBody,
};

/// Attempts to change an object that others change at the same time.
const MAX_ATTEMPTS: usize = 5;

/// Answers a call.
///
/// # Errors
/// See [`ResourceError`].
pub(super) async fn answer(
    home: &HomeCluster,
    person: &Principal,
    call: DefinitionCall,
    body: RequestBody<'_>,
) -> Result<Answer, ResourceError> {
    match call {
        DefinitionCall::List => {
            let definitions = objects::definitions(&home.client).await?;
            let shown: Vec<Value> = definitions.iter().map(definition::list_entry).collect();
            Ok(Answer::ok(Value::Array(shown)))
        }
        DefinitionCall::Get(name) => {
            let found = get(home, &name).await?;
            Ok(Answer::ok(definition::detail(&found)))
        }
        DefinitionCall::Create => {
            require_admin(person)?;
            let new = preparation::new_definition(&body.json()?)?;
            let created = objects::create(&home.writer, &new).await;
            let created = created.map_err(from_cluster)?;
            log(person, &created, "create");
            Ok(Answer::created(raw(&created)))
        }
        DefinitionCall::Change(name, Change::Delete) => {
            require_admin(person)?;
            let stored = get(home, &name).await?;
            deletion::check_definition(&stored)
                .map_err(|refusal| ResourceError::new(403, refusal))?;
            let deleted = objects::delete(&home.writer, &stored).await;
            deleted.map_err(from_cluster)?;
            log(person, &stored, "delete");
            Ok(Answer::ok(json!({})))
        }
        DefinitionCall::Change(name, Change::Replace) => {
            require_admin(person)?;
            let whole = body.json()?;
            change(home, person, &name, NewForm::Whole(&whole)).await
        }
        DefinitionCall::Change(name, Change::Patch) => {
            require_admin(person)?;
            change(home, person, &name, NewForm::Patch(body.text()?)).await
        }
    }
}

/// Another change at the same time is read, and this one is made again on top of it.
async fn change(
    home: &HomeCluster,
    person: &Principal,
    name: &str,
    form: NewForm<'_>,
) -> Result<Answer, ResourceError> {
    let mut attempt = 1;
    loop {
        let stored = get(home, name).await?;
        let changed = preparation::changed_definition(&stored, form)?;
        let written = objects::change(&home.writer, &stored, &changed).await;
        match written.map_err(from_cluster) {
            Ok(written) => {
                log(person, &written, "update");
                return Ok(Answer::ok(definition::detail(&written)));
            }
            Err(error) if error.code == 409 && attempt < MAX_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

async fn get(home: &HomeCluster, name: &str) -> Result<ApplicationDefinition, ResourceError> {
    let found = objects::definition(&home.client, name).await?;
    found.ok_or_else(|| not_found(DEFINITIONS, name))
}

fn require_admin(person: &Principal) -> Result<(), ResourceError> {
    if person.is_admin {
        return Ok(());
    }
    let names = [
        person.email.as_deref(),
        person.preferred_username.as_deref(),
    ];
    let name = names.into_iter().flatten().next();
    Err(ResourceError::not_admin(name.unwrap_or(&person.subject)))
}

/// The object as Kubernetes has it, but for the owners of its fields.
fn raw(created: &ApplicationDefinition) -> Value {
    let mut object = created.clone();
    object.metadata.managed_fields = None;
    json!(object)
}

fn log(person: &Principal, definition: &ApplicationDefinition, operation: &'static str) {
    let name = definition.metadata.name.as_deref();
    tracing::info!(
        target: "audit",
        event = "definition_change",
        subject = &*person.subject,
        name,
        operation
    );
}

#[cfg(test)]
mod tests {
    use ludgate_model::{access::GroupName, principal::PersonClaims};

    use super::*;

    #[test]
    fn only_members_of_an_admin_group_write_definitions() {
        let admins = GroupName::new("admins").expect("a group");
        let person = |email: Option<&str>, groups: &[&GroupName]| {
            let claims = PersonClaims {
                subject: "7".to_owned(),
                email: email.map(str::to_owned),
                groups: groups.iter().copied().cloned().collect(),
                ..PersonClaims::default()
            };
            Principal::new(claims, std::slice::from_ref(&admins))
        };
        assert_eq!(require_admin(&person(None, &[&admins])), Ok(()));
        for (email, name) in [(Some("a@b"), "a@b"), (None, "7")] {
            let error = require_admin(&person(email, &[])).expect_err("refused");
            assert_eq!(error, ResourceError::not_admin(name));
        }
    }
}
