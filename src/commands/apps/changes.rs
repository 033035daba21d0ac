//! The API's input for `create` and `update`, from the arguments and the template's defaults.

use anyhow::bail;

use crate::{
    cli::apps::{AppScope, CreateAppArgs, UpdateAppArgs},
    client::{
        connection::SiteConnection,
        hosted_app::{AppVariable, HostedAppChange, NewHostedApp, OfferedTemplate},
    },
};

/// A new app. A person who is in one group need not name it.
pub(super) async fn new_app(
    site: &SiteConnection,
    args: &CreateAppArgs,
) -> anyhow::Result<NewHostedApp> {
    let templates = site.templates().await?;
    let Some(template) = templates.iter().find(|it| it.id == args.template) else {
        let names: Vec<&str> = templates.iter().map(|it| it.id.as_str()).collect();
        bail!(
            "no template is called {:?}; there are: {}",
            args.template,
            names.join(", ")
        );
    };
    let group = match &args.group {
        Some(group) => group.clone(),
        None => only_group(site).await?,
    };
    Ok(NewHostedApp {
        id: args.id.clone(),
        template_id: template.id.clone(),
        group_name: group,
        instance_type: args.instance_type.clone(),
        display_name: args.name.clone().unwrap_or_else(|| args.id.clone()),
        scope: args.scope.as_str().to_owned(),
        env: with_defaults(template, &args.env)?,
    })
}

/// A change of an app. Other variables stay as they are.
pub(super) async fn change(
    site: &SiteConnection,
    args: &UpdateAppArgs,
) -> anyhow::Result<HostedAppChange> {
    let changes_env = !args.env.is_empty() || !args.unset_env.is_empty();
    let env = match changes_env {
        true => {
            let mut env = site.app(&args.id).await?.env;
            env.retain(|variable| !args.unset_env.contains(&variable.name));
            for (name, value) in &args.env {
                set(&mut env, name, value);
            }
            Some(env)
        }
        false => None,
    };
    let change = HostedAppChange {
        instance_type: args.instance_type.clone(),
        display_name: args.name.clone(),
        scope: args.scope.map(AppScope::as_str).map(str::to_owned),
        env,
    };
    let is_empty = change.instance_type.is_none()
        && change.display_name.is_none()
        && change.scope.is_none()
        && change.env.is_none();
    match is_empty {
        true => bail!("nothing to change; see ludgate apps update --help"),
        false => Ok(change),
    }
}

async fn only_group(site: &SiteConnection) -> anyhow::Result<String> {
    let mut groups = site.groups().await?;
    match (groups.pop(), groups.is_empty()) {
        (Some(group), true) => Ok(group.name),
        (None, _) => bail!("you are in no group of the platform"),
        (Some(last), false) => {
            let names: Vec<&str> = groups.iter().map(|group| group.name.as_str()).collect();
            bail!(
                "choose one of your groups with --group: {}, {}",
                names.join(", "),
                last.name
            )
        }
    }
}

/// The variables of the template, with given values or defaults, then the other given ones.
fn with_defaults(
    template: &OfferedTemplate,
    given: &[(String, String)],
) -> anyhow::Result<Vec<AppVariable>> {
    let mut env = Vec::new();
    for offered in &template.default_envs {
        let Some(wanted) = &offered.name else {
            continue;
        };
        let is_given = given.iter().any(|(name, _)| name == wanted);
        match &offered.default_value {
            Some(value) => set(&mut env, wanted, value),
            None if is_given || offered.optional == Some(true) => {}
            None => bail!("the template needs --env {wanted}=…"),
        }
    }
    for (name, value) in given {
        set(&mut env, name, value);
    }
    Ok(env)
}

fn set(env: &mut Vec<AppVariable>, name: &str, value: &str) {
    match env.iter_mut().find(|variable| variable.name == name) {
        Some(variable) => value.clone_into(&mut variable.value),
        None => env.push(AppVariable {
            name: name.to_owned(),
            value: value.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_given_value_or_the_default_of_the_template() {
        let template = serde_json::json!({ "id": "web", "name": null, "version": null, "description": null,
        "defaultEnvs": [
            { "name": "A", "defaultValue": "1", "optional": false, "description": null },
            { "name": "B", "defaultValue": null, "optional": true, "description": null },
            { "name": "C", "defaultValue": null, "optional": false, "description": null },
        ] });
        let template: OfferedTemplate = serde_json::from_value(template).expect("a template");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let missing = with_defaults(&template, &[pair("A", "2")]).expect_err("C is missing");
        assert_eq!(missing.to_string(), "the template needs --env C=…");
        let given = [pair("C", "x=y"), pair("D", ""), pair("A", "2")];
        let env = with_defaults(&template, &given).expect("all are given");
        let pairs: Vec<_> = env
            .iter()
            .map(|it| (it.name.as_str(), it.value.as_str()))
            .collect();
        assert_eq!(pairs, [("A", "2"), ("C", "x=y"), ("D", "")]);
    }
}
