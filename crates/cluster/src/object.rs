//! An object of the API, read leniently: no field makes the object unreadable, and large fields
//! that are not needed are dropped while parsing.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{Resource, api::ApiResource};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// Depth at which the gateway drops values. The deepest value that it uses is
/// `svcTemplate.spec.ports[0].name`; most of the pod template lies deeper.
const SHALLOW: usize = 6;

/// Depth at which controllers drop values. No pod has deeper ones.
const DEEP: usize = 64;

/// An object with its whole spec, for controllers. Absent parts are null.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeepObject {
    /// Identity, version, finalizers, labels and annotations; nothing else of it is read.
    #[serde(deserialize_with = "essentials")]
    metadata: ObjectMeta,
    /// The desired state.
    #[serde(deserialize_with = "deep_part")]
    pub spec: Value,
    /// The observed state.
    #[serde(deserialize_with = "deep_part")]
    pub status: Value,
}

/// An object as the gateway reads it. Absent parts are null, and so are values below a depth of
/// six.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// Identity, version, finalizers, labels and annotations; nothing else of it is read.
    #[serde(deserialize_with = "essentials")]
    metadata: ObjectMeta,
    /// The desired state.
    #[serde(deserialize_with = "part")]
    pub spec: Value,
    /// The observed state.
    #[serde(deserialize_with = "part")]
    pub status: Value,
    /// `addressType` of an EndpointSlice.
    #[serde(deserialize_with = "part")]
    pub address_type: Value,
    /// `endpoints` of an EndpointSlice.
    #[serde(deserialize_with = "part")]
    pub endpoints: Value,
    /// `ports` of an EndpointSlice.
    #[serde(deserialize_with = "part")]
    pub ports: Value,
}

/// For readers of both: what the gateway drops is null.
impl From<&Object> for DeepObject {
    fn from(object: &Object) -> DeepObject {
        DeepObject {
            metadata: object.metadata.clone(),
            spec: object.spec.clone(),
            status: object.status.clone(),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Essentials {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
    generation: Option<i64>,
    deletion_timestamp: Option<Time>,
    finalizers: Option<Vec<String>>,
    #[serde(deserialize_with = "texts")]
    labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "texts")]
    annotations: Option<BTreeMap<String, String>>,
}

/// Without `managedFields`, which are often half of an object.
fn essentials<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let Essentials {
        name,
        namespace,
        resource_version,
        uid,
        generation,
        deletion_timestamp,
        finalizers,
        labels,
        annotations,
    } = Essentials::deserialize(from)?;
    Ok(ObjectMeta {
        name,
        namespace,
        resource_version,
        uid,
        generation,
        deletion_timestamp,
        finalizers,
        labels,
        annotations,
        ..ObjectMeta::default()
    })
}

/// Labels and annotations; values that are not strings are skipped.
fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    let Value::Object(written) = part(from)? else {
        return Ok(None);
    };
    let texts = written.into_iter().filter_map(|(key, value)| match value {
        Value::String(text) => Some((key, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    });
    Ok(Some(texts.collect()))
}

fn part<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Part { left: SHALLOW }.deserialize(from)
}

fn deep_part<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Part { left: DEEP }.deserialize(from)
}

/// Reads JSON down to a depth; deeper values become null. The author of a template controls its
/// depth, and the JSON reader fails 128 levels down: one object would block a whole list.
#[derive(Clone, Copy)]
struct Part {
    left: usize,
}

impl Part {
    fn inner(self) -> Part {
        Part {
            left: self.left.saturating_sub(1),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Part {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        if self.left == 0 {
            // Ignored values are skipped without recursion.
            return IgnoredAny::deserialize(from).map(|_| Value::Null);
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = from.next_element_seed(self.inner())? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(key) = from.next_key::<String>()? {
            values.insert(key, from.next_value_seed(self.inner())?);
        }
        Ok(Value::Object(values))
    }
}

/// Both kinds of objects are objects of the API in the same way.
macro_rules! api_object {
    ($object:ty) => {
        impl Resource for $object {
            type DynamicType = ApiResource;
            type Scope = kube::core::DynamicResourceScope;

            fn kind(kind: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&kind.kind)
            }

            fn group(kind: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&kind.group)
            }

            fn version(kind: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&kind.version)
            }

            fn api_version(kind: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&kind.api_version)
            }

            fn plural(kind: &ApiResource) -> Cow<'_, str> {
                Cow::Borrowed(&kind.plural)
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

api_object!(Object);
api_object!(DeepObject);

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;

    #[test]
    fn however_deep_a_template_is_the_rest_of_the_object_is_read() {
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let text = format!(
            r#"{{"metadata":{{"name":"x","labels":{{"a":"b","c":5}},"annotations":[],"managedFields":{deep}}},
                "spec":{{"podTemplate":{{"spec":{deep}}},"scope":"group","httpPort":80}},"other":{deep}}}"#
        );
        let object: Object = serde_json::from_str(&text).expect("readable");
        assert_eq!(object.name_any(), "x");
        assert_eq!((object.labels().len(), object.annotations().len()), (1, 0));
        assert_eq!(object.spec["scope"], "group");
        assert_eq!(object.spec["httpPort"], 80);
        assert!(object.spec["podTemplate"]["spec"].is_array());
        let object: DeepObject = serde_json::from_str(&text).expect("readable");
        assert_eq!(
            (object.name_any().as_str(), &object.spec["httpPort"]),
            ("x", &80.into())
        );
        assert!(object.spec["podTemplate"]["spec"][0][0][0][0][0][0].is_array());
    }
}
