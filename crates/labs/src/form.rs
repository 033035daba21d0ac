//! Pages for people: the form with which a person chooses image and size, as a piece of HTML for
//! the hub's page, and the page about a file server.

use askama::Template;

use crate::{
    config::LabConfig,
    images::{MenuImage, MenuImages},
    options::USE_DROPDOWN,
    size::{NotebookQuota, offered_sizes},
};

/// A size of the form.
struct SizeChoice {
    word: &'static str,
    label: String,
    is_default: bool,
}

#[derive(Template)]
#[template(path = "lab_form.html")]
struct LabForm<'f> {
    menu: &'f [MenuImage],
    dropdown: &'f [MenuImage],
    use_dropdown: &'static str,
    sizes: Vec<SizeChoice>,
}

#[derive(Template)]
#[template(path = "lab_unavailable.html")]
struct LabUnavailable;

#[derive(Template)]
#[template(path = "file_server.html")]
struct FileServerPage<'p> {
    url: &'p str,
}

/// The page for a person whose file server runs at a URL.
///
/// # Errors
/// None in practice: writing into memory does not fail.
pub fn file_server_page(url: &str) -> Result<String, askama::Error> {
    FileServerPage { url }.render()
}

/// The form for a person. A person without a size to choose gets a notice instead.
///
/// # Errors
/// None in practice: writing into memory does not fail.
pub fn lab_form(
    images: &MenuImages,
    config: &LabConfig,
    quota: Option<&NotebookQuota>,
) -> Result<String, askama::Error> {
    let offered = offered_sizes(&config.sizes, quota);
    // A default above the quota is none.
    let default = config
        .default_size
        .filter(|size| offered.iter().any(|offered| offered.size == *size))
        .or_else(|| offered.first().map(|first| first.size));
    let sizes: Vec<SizeChoice> = offered
        .into_iter()
        .map(|size| SizeChoice {
            word: size.size.as_str(),
            label: size.to_string(),
            is_default: Some(size.size) == default,
        })
        .collect();
    if sizes.is_empty() {
        return LabUnavailable.render();
    }
    let form = LabForm {
        menu: &images.menu,
        dropdown: &images.dropdown,
        use_dropdown: USE_DROPDOWN,
        sizes,
    };
    form.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::LabsConfig,
        quantity::{CpuCores, MemoryBytes},
    };

    fn config() -> LabConfig {
        let size = |name: &str, cpu: u8| {
            format!(
                "    - size: {name}
      resources:
        limits: {{ cpu: {cpu}, memory: {cpu}Gi }}
        requests: {{ cpu: {cpu}, memory: {cpu}Gi }}
"
            )
        };
        let text = format!(
            "lab:
  defaultSize: large
  volumes:
    - name: home
      source: {{ type: hostPath, path: /share }}
  sizes:
{}{}images:
  source: {{ type: docker, repository: a/b }}
",
            size("small", 1),
            size("large", 4)
        );
        LabsConfig::from_yaml(&text).unwrap().lab
    }

    fn quota(cpu: f64) -> NotebookQuota {
        NotebookQuota {
            cpu: CpuCores::new(cpu).unwrap(),
            memory: MemoryBytes(1 << 40),
            may_spawn: true,
        }
    }

    fn images() -> MenuImages {
        let image = MenuImage {
            name: "Weekly <1>".to_owned(),
            reference: "a/b:\"x\"".to_owned(),
        };
        MenuImages {
            menu: vec![image.clone()],
            dropdown: vec![image],
        }
    }

    #[test]
    fn the_default_size_is_checked_if_the_quota_allows_it() {
        let form = lab_form(&images(), &config(), None).unwrap();
        assert!(form.contains("value=\"large\" checked"));
        let form = lab_form(&images(), &config(), Some(&quota(2.0))).unwrap();
        assert!(form.contains("value=\"small\" checked"));
        assert!(!form.contains("value=\"large\""));
    }

    #[test]
    fn names_and_references_are_escaped() {
        let form = lab_form(&images(), &config(), None).unwrap();
        assert!(form.contains("Weekly &#60;1&#62;"));
        assert!(form.contains("value=\"a/b:&#34;x&#34;\" checked"));
    }

    #[test]
    fn without_a_size_there_is_a_notice_and_without_images_a_plain_form() {
        let notice = lab_form(&images(), &config(), Some(&quota(0.5))).unwrap();
        assert!(!notice.contains("<input"));
        let form = lab_form(&MenuImages::default(), &config(), None).unwrap();
        assert!(!form.contains("image_dropdown") && form.contains("name=\"size\""));
    }
}
