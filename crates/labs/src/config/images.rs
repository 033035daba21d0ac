//! Where images come from, which are pulled beforehand, and which the drop-down list shows.

use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::{
    decode::{Decode, Place, Section, decode_word},
    value::ConfigValue,
};
use crate::{
    dialect::Dialect,
    images::{DropdownFilter, ImageFilter},
};

/// A registry and an image there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageSource {
    /// A registry with the distribution API.
    Docker {
        /// Its host.
        registry: String,
        /// What it calls the image.
        repository: String,
    },
    /// Google Artifact Registry.
    Google {
        /// Region of the registry.
        location: String,
        /// The project.
        project_id: String,
        /// The repository, in Google's words.
        repository: String,
        /// The image.
        image: String,
    },
}

/// The images of labs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagesConfig {
    /// Where they come from.
    pub source: ImageSource,
    /// How often registry and nodes are asked.
    pub refresh_interval: Duration,
    /// How long pulling an image to a node may take.
    pub prepull_timeout: Duration,
    /// Tag of the image that is first in the menu.
    pub recommended_tag: String,
    /// How many releases are pulled beforehand.
    pub releases: usize,
    /// How many weeklies are pulled beforehand.
    pub weeklies: usize,
    /// How many dailies are pulled beforehand.
    pub dailies: usize,
    /// Only images of this cycle are listed.
    pub cycle: Option<u64>,
    /// Tags that are pulled beforehand besides.
    pub pins: Vec<String>,
    /// Tags that are aliases besides the recommended one.
    pub alias_tags: Vec<String>,
    /// File with the credentials for the registry, in the form of a pull secret.
    pub credentials_path: Option<String>,
}

impl ImageSource {
    /// Host of the registry.
    pub fn registry(&self) -> String {
        match self {
            ImageSource::Docker { registry, .. } => registry.clone(),
            ImageSource::Google { location, .. } => format!("{location}-docker.pkg.dev"),
        }
    }

    /// The image's path in the registry.
    pub fn repository(&self) -> String {
        match self {
            ImageSource::Docker { repository, .. } => repository.clone(),
            ImageSource::Google {
                project_id,
                repository,
                image,
                ..
            } => format!("{project_id}/{repository}/{image}"),
        }
    }
}

impl ImagesConfig {
    /// All tags that the configuration calls aliases.
    pub fn aliases(&self) -> Vec<&str> {
        let more = self.alias_tags.iter().map(String::as_str);
        std::iter::once(self.recommended_tag.as_str())
            .chain(more)
            .collect()
    }

    /// As the answer about prepulling shows it.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Nublado => self.nublado_json(),
            Dialect::Sqr066 => self.sqr066_json(),
        }
    }

    fn nublado_json(&self) -> Value {
        let source = match &self.source {
            ImageSource::Docker {
                registry,
                repository,
            } => json!({ "type": "docker", "registry": registry, "repository": repository }),
            ImageSource::Google {
                location,
                project_id,
                repository,
                image,
            } => json!({
                "type": "google",
                "location": location,
                "project_id": project_id,
                "repository": repository,
                "image": image,
            }),
        };
        json!({
            "source": source,
            "refresh_interval": self.refresh_interval.as_secs_f64(),
            "prepull_timeout": self.prepull_timeout.as_secs_f64(),
            "recommended_tag": self.recommended_tag,
            "num_releases": self.releases,
            "num_weeklies": self.weeklies,
            "num_dailies": self.dailies,
            "cycle": self.cycle,
            "pin": self.pins,
            "alias_tags": self.alias_tags,
        })
    }

    /// The block of the configuration, as the document writes it: only what is set.
    fn sqr066_json(&self) -> Value {
        let mut block = json!({
            "registry": self.source.registry(),
            "recommended_tag": self.recommended_tag,
            "num_releases": self.releases,
            "num_weeklies": self.weeklies,
            "num_dailies": self.dailies,
        });
        match &self.source {
            ImageSource::Docker { repository, .. } => {
                block["docker"] = json!({ "repository": repository });
            }
            ImageSource::Google {
                location,
                project_id,
                repository,
                image,
            } => {
                block["gar"] = json!({
                    "repository": repository,
                    "image": image,
                    "project_id": project_id,
                    "location": location,
                });
            }
        }
        if let Some(cycle) = self.cycle {
            block["cycle"] = cycle.into();
        }
        for (name, list) in [("pins", &self.pins), ("alias_tags", &self.alias_tags)] {
            if !list.is_empty() {
                block[name] = list.clone().into();
            }
        }
        block
    }
}

impl Decode for ImagesConfig {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<ImagesConfig> {
        let mut section = Section::open(value, place)?;
        let registry_source = source(&mut section);
        let refresh_interval = section.or("refreshInterval", Duration::from_secs(300));
        let prepull_timeout = section.or("prepullTimeout", Duration::from_secs(600));
        let recommended_tag = section.or("recommendedTag", "recommended".to_owned());
        let releases = count(&mut section, "numReleases", 1);
        let weeklies = count(&mut section, "numWeeklies", 2);
        let dailies = count(&mut section, "numDailies", 3);
        let cycle = section.optional("cycle");
        let mut pins: Vec<String> = section.or("pin", Vec::new());
        // The name in SQR-066.
        pins.extend(section.or("pins", Vec::new()));
        let alias_tags = section.or("aliasTags", Vec::new());
        let credentials_path = section.optional("dockerCredentialsPath");
        section.finish();
        let RegistrySource {
            source,
            credentials_path: older_path,
        } = registry_source?;
        Some(ImagesConfig {
            source,
            refresh_interval,
            prepull_timeout,
            recommended_tag,
            releases,
            weeklies,
            dailies,
            cycle,
            pins,
            alias_tags,
            credentials_path: credentials_path.or(older_path),
        })
    }
}

fn count(section: &mut Section<'_, '_>, name: &'static str, default: u64) -> usize {
    usize::try_from(section.or(name, default)).unwrap_or(usize::MAX)
}

/// `source`, or as in SQR-066 `registry` with `docker` or `gar`.
fn source(section: &mut Section<'_, '_>) -> Option<RegistrySource> {
    let forms = ["source", "docker", "gar"];
    let written: Vec<&str> = forms
        .into_iter()
        .filter(|name| section.value(name).is_some())
        .collect();
    let registry: Option<String> = section.optional("registry");
    match written.as_slice() {
        ["source"] if registry.is_none() => section.required("source"),
        ["source"] => {
            section.at("registry").complain("belongs into source");
            None
        }
        ["docker"] => {
            let DockerRepository(repository) = section.required("docker")?;
            let registry = registry.unwrap_or_else(|| DOCKER_HUB.to_owned());
            Some(RegistrySource::from(ImageSource::Docker {
                registry,
                repository,
            }))
        }
        ["gar"] => {
            let GoogleImage(source) = section.required("gar")?;
            let expected = source.registry();
            if registry.is_some_and(|registry| registry != expected) {
                let problem = format!("must be {expected}, as the location says");
                section.at("registry").complain(problem);
            }
            Some(RegistrySource::from(source))
        }
        [] => {
            section.at("source").complain("is missing");
            None
        }
        _ => {
            let problem = format!("only one of {} is allowed", forms.join(", "));
            section.place().complain(problem);
            None
        }
    }
}

const DOCKER_HUB: &str = "docker.io";

/// A source, with what older versions of Nublado have in its section.
struct RegistrySource {
    source: ImageSource,
    /// File with the credentials for the registry.
    credentials_path: Option<String>,
}

impl From<ImageSource> for RegistrySource {
    fn from(source: ImageSource) -> RegistrySource {
        RegistrySource {
            source,
            credentials_path: None,
        }
    }
}

struct DockerRepository(String);

impl Decode for DockerRepository {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<DockerRepository> {
        let mut section = Section::open(value, place)?;
        let repository = section.required("repository");
        section.finish();
        repository.map(DockerRepository)
    }
}

struct GoogleImage(ImageSource);

impl Decode for GoogleImage {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<GoogleImage> {
        let mut section = Section::open(value, place)?;
        let source = google(&mut section);
        section.finish();
        source.map(GoogleImage)
    }
}

fn google(section: &mut Section<'_, '_>) -> Option<ImageSource> {
    let location = section.required("location");
    let project_id = section.required("projectId");
    let repository = section.required("repository");
    let image = section.required("image");
    Some(ImageSource::Google {
        location: location?,
        project_id: project_id?,
        repository: repository?,
        image: image?,
    })
}

impl Decode for RegistrySource {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<RegistrySource> {
        let mut section = Section::open(value, place)?;
        let Some(kind) = section.value("type") else {
            section.at("type").complain("is missing");
            return None;
        };
        let kinds = [("docker", false), ("google", true)];
        let is_google = decode_word(kind, section.at("type"), &kinds)?;
        let mut credentials_path = None;
        let source = if is_google {
            google(&mut section)
        } else {
            let registry = section.or("registry", DOCKER_HUB.to_owned());
            let repository = section.required("repository");
            credentials_path = section.optional("credentialsPath");
            repository.map(|repository| ImageSource::Docker {
                registry,
                repository,
            })
        };
        section.finish();
        Some(RegistrySource {
            source: source?,
            credentials_path,
        })
    }
}

impl Decode for ImageFilter {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<ImageFilter> {
        let mut section = Section::open(value, place)?;
        let number: Option<u64> = section.optional("number");
        let age: Option<Duration> = section.optional("age");
        let cutoff_build = section.optional("cutoffBuild");
        let cutoff_date = section.optional("cutoffDate");
        let cutoff_version = section.optional("cutoffVersion");
        section.finish();
        Some(ImageFilter {
            number: number.and_then(|number| usize::try_from(number).ok()),
            age: age.and_then(|age| TimeDelta::from_std(age).ok()),
            cutoff_build,
            cutoff_date,
            cutoff_version,
        })
    }
}

impl Decode for DropdownFilter {
    fn decode(value: &ConfigValue, place: Place<'_>) -> Option<DropdownFilter> {
        let mut section = Section::open(value, place)?;
        let filter = DropdownFilter {
            release: section.or("release", ImageFilter::default()),
            weekly: section.or("weekly", ImageFilter::default()),
            daily: section.or("daily", ImageFilter::default()),
            release_candidate: section.or("releaseCandidate", ImageFilter::default()),
            experimental: section.or("experimental", ImageFilter::default()),
        };
        section.finish();
        Some(filter)
    }
}
