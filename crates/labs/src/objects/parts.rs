//! What the objects of a lab depend on.

use serde_json::Value;

use super::source::SourceSecrets;
use crate::{
    config::{ContainerImage, LabConfig},
    dialect::Dialect,
    environment::{LabEnvironment, SiteUrls},
    images::LabImage,
    metadata::ObjectMetadata,
    names::LabNames,
    options::LabSpecification,
    size::SizeDefinition,
    user::LabUser,
};

/// Longest name of a namespace or a Service.
const MAX_LABEL: usize = 63;
/// Argo CD application of the document.
const SQR066_APPLICATION: &str = "nublado-users";

/// What the objects of all labs depend on.
#[derive(Clone, Copy, Debug)]
pub struct LabContext<'c> {
    /// The configuration.
    pub config: &'c LabConfig,
    /// Whose names the objects have.
    pub dialect: Dialect,
    /// Where the site is.
    pub urls: &'c SiteUrls,
    /// The discovery document that labs find in a file.
    pub discovery: Option<&'c Value>,
    /// Peers of NetworkPolicies that connect to labs besides the hub, such as the gateway.
    pub peers: &'c [Value],
    /// Image of the standard containers that run before a lab. Without it, they do not run.
    pub helper_image: Option<&'c ContainerImage>,
}

/// What the objects of one lab depend on.
#[derive(Clone, Copy, Debug)]
pub struct LabRequest<'r> {
    /// Whose lab it is.
    pub user: &'r LabUser,
    /// The token with which the lab acts for the person.
    pub token: &'r str,
    /// What was asked for.
    pub specification: &'r LabSpecification,
    /// The image that was chosen.
    pub image: &'r LabImage,
    /// Whether the person has had a lab before. In the dialect of SQR-066 the configured containers
    /// do not run again then.
    pub is_provisioned: bool,
    /// The Secrets of the controller that labs get.
    pub secrets: &'r SourceSecrets,
}

/// Why there are no objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DesiredLabError {
    /// The configuration has no such size.
    #[error("lab size {0} is not defined")]
    NoSize(String),
    /// A Secret of the controller is missing.
    #[error("Secret {0} does not exist")]
    NoSecret(String),
    /// A key of a Secret of the controller is missing.
    #[error("Secret {secret} has no key {key}")]
    NoSecretKey {
        /// The Secret.
        secret: String,
        /// The key.
        key: String,
    },
    /// The names of objects would be too long.
    #[error("the name {0} is too long")]
    NameTooLong(String),
}

/// Everything that the parts of a lab have in common.
pub(super) struct LabParts<'l> {
    pub(super) context: LabContext<'l>,
    pub(super) request: LabRequest<'l>,
    pub(super) names: LabNames,
    pub(super) metadata: ObjectMetadata,
    pub(super) size: SizeDefinition,
    pub(super) env: LabEnvironment,
}

impl LabParts<'_> {
    pub(super) fn metadata(&self, name: &str) -> Value {
        self.metadata.named(name, Some(&self.names.namespace))
    }

    pub(super) fn config(&self) -> &LabConfig {
        self.context.config
    }

    pub(super) fn home_directory(&self) -> String {
        self.config().home.directory(&self.request.user.username)
    }
}

impl<'l> LabParts<'l> {
    /// # Errors
    /// If there is no such size, or a name would be too long.
    pub(super) fn new(
        context: LabContext<'l>,
        request: LabRequest<'l>,
    ) -> Result<LabParts<'l>, DesiredLabError> {
        let (config, dialect) = (context.config, context.dialect);
        let username = &request.user.username;
        let size = request.specification.options.size;
        let no_size = || DesiredLabError::NoSize(size.to_string());
        let size = *config.size(size).ok_or_else(no_size)?;
        let names = LabNames::new(username, config, dialect);
        for name in [&names.namespace, &names.service] {
            if name.len() > MAX_LABEL {
                return Err(DesiredLabError::NameTooLong(name.clone()));
            }
        }
        let application = match dialect {
            Dialect::Sqr066 => Some(SQR066_APPLICATION.to_owned()),
            Dialect::Nublado => None,
        };
        let specification = request.specification;
        Ok(LabParts {
            env: LabEnvironment::new(specification, config, &size, request.image, context.urls),
            names,
            metadata: ObjectMetadata {
                category: "lab",
                username: Some(username.clone()),
                application: config.application.clone().or(application),
            },
            size,
            context,
            request,
        })
    }
}
