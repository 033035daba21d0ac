//! What the resolvers of one call share: the person, the operations, and what was read already.

use std::sync::Arc;

use ludgate_model::principal::Principal;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{
    app_record::AppRecord,
    cluster_objects::{AppPod, DatasetRecord},
    error::OperationError,
    operations::Operations,
    platform::{OfferedInstanceType, PlatformSettings},
};

/// A list that is read when a field first needs it.
type ReadOnce<T> = OnceCell<Result<Vec<T>, OperationError>>;

/// The context of one call. Each list is read at most once, however many fields need it, and also
/// if it cannot be read.
pub struct CallContext {
    /// The person who calls.
    pub person: Arc<Principal>,
    /// The operations on apps.
    pub operations: Operations,
    /// The settings in force when the call began.
    pub platform: Arc<PlatformSettings>,
    apps: ReadOnce<AppRecord>,
    instance_types: ReadOnce<OfferedInstanceType>,
    templates: ReadOnce<Value>,
    pods: ReadOnce<AppPod>,
    datasets: ReadOnce<DatasetRecord>,
}

impl CallContext {
    /// A call of a person.
    pub fn new(person: Arc<Principal>, operations: Operations) -> CallContext {
        CallContext {
            person,
            platform: operations.platform(),
            operations,
            apps: OnceCell::new(),
            instance_types: OnceCell::new(),
            templates: OnceCell::new(),
            datasets: OnceCell::new(),
            pods: OnceCell::new(),
        }
    }

    /// The apps that the person may see.
    pub(super) async fn apps(&self) -> Result<&Vec<AppRecord>, OperationError> {
        let list = || self.operations.list(&self.person);
        read(self.apps.get_or_init(list).await)
    }

    /// All instance types.
    pub(super) async fn instance_types(&self) -> Result<&Vec<OfferedInstanceType>, OperationError> {
        let objects = &self.operations.objects;
        let list = || objects.instance_types(&self.platform);
        read(self.instance_types.get_or_init(list).await)
    }

    /// All templates, as objects.
    pub(super) async fn templates(&self) -> Result<&Vec<Value>, OperationError> {
        let list = || self.operations.objects.templates();
        read(self.templates.get_or_init(list).await)
    }

    /// All datasets of the cluster.
    pub(super) async fn datasets(&self) -> Result<&Vec<DatasetRecord>, OperationError> {
        let list = || self.operations.objects.datasets();
        read(self.datasets.get_or_init(list).await)
    }

    /// The pods of all apps.
    pub(super) async fn pods(&self) -> Result<&Vec<AppPod>, OperationError> {
        let list = || self.operations.objects.pods();
        read(self.pods.get_or_init(list).await)
    }
}

fn read<T>(list: &Result<Vec<T>, OperationError>) -> Result<&Vec<T>, OperationError> {
    list.as_ref().map_err(Clone::clone)
}
