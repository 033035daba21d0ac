//! Forms: their fields, values, labels and choices. The rest of the page is our own.

use chrono::Utc;
use ludgate_labs::{
    form::{file_server_page, lab_form},
    user::LabUser,
};

use crate::data::{Data, stem};

pub(crate) fn forms_have_the_same_fields(data: &Data) -> usize {
    let files = data.files("html");
    for file in &files {
        let expected = data.text(&format!("html/{file}"));
        match stem(file) {
            "lab-form" => assert_form(data, "standard", &expected),
            "lab-unavailable" => assert_notice(data, &expected),
            "fileserver" => assert_file_server(&expected),
            other => {
                let name = other.strip_prefix("lab-form-").expect("a form");
                assert_form(data, &data.config_for(name), &expected);
            }
        }
    }
    files.len()
}

fn form_of(data: &Data, config: &str, user: &LabUser) -> String {
    let catalog = data.catalog(config, "standard", "standard");
    let config = data.config(config);
    let images = catalog.menus(&config.dropdown_menu, Utc::now());
    lab_form(&images, &config.lab, user.quota.as_ref()).expect("a form")
}

fn assert_form(data: &Data, config: &str, expected: &str) {
    let expected = fields(expected);
    assert!(expected.len() > 10, "{expected:?}");
    assert_eq!(
        fields(&form_of(data, config, &data.user("rachel"))),
        expected
    );
}

fn assert_notice(data: &Data, expected: &str) {
    let mut user = data.user("rachel");
    if let Some(quota) = &mut user.quota {
        quota.may_spawn = false;
    }
    let notice = form_of(data, "standard", &user);
    assert_eq!((fields(&notice).len(), fields(expected).len()), (0, 0));
    assert!(notice.starts_with("<h2>") && expected.starts_with("<h2>"));
}

fn assert_file_server(expected: &str) {
    let page = file_server_page("http://127.0.0.1:8080/files/rachel").expect("a page");
    let address = |page: &str| {
        let (_, rest) = page.split_once("<a href=\"").expect("a link");
        let (link, _) = rest.split_once("</a>").expect("the end of the link");
        link.to_owned()
    };
    assert_eq!(address(&page), address(expected));
}

/// Of each input and option: kind, name, id, value, whether it is chosen, and its label.
pub(crate) fn fields(html: &str) -> Vec<[String; 6]> {
    let mut fields = Vec::new();
    let labels = labels(html);
    for tag in html.split('<').skip(1) {
        let (head, text) = tag.split_once('>').expect("a whole tag");
        let kind = head.split_whitespace().next().unwrap_or_default();
        if !["input", "option", "select"].contains(&kind) {
            continue;
        }
        let attribute = |name: &str| {
            let start = format!(" {name}=\"");
            let head = head.replace('\n', " ");
            let value = head
                .split_once(&start)
                .and_then(|(_, rest)| rest.split_once('"'));
            value.map(|(value, _)| value.to_owned()).unwrap_or_default()
        };
        let id = attribute("id");
        let label = match kind {
            "option" => text.to_owned(),
            _ if attribute("type") == "radio" && id != "use_image_from_dropdown" => labels
                .iter()
                .find(|(of, _)| *of == id)
                .map(|(_, label)| label.clone())
                .unwrap_or_default(),
            // Labels of the other fields are sentences of our own.
            _ => String::new(),
        };
        let is_chosen = head.split_whitespace().any(|word| word == "checked");
        fields.push([
            format!("{kind} {}", attribute("type")),
            attribute("name"),
            id,
            attribute("value"),
            is_chosen.to_string(),
            label,
        ]);
    }
    fields
}

fn labels(html: &str) -> Vec<(String, String)> {
    let labels = html.split("<label for=\"").skip(1);
    labels
        .filter_map(|label| {
            let (id, rest) = label.split_once('"')?;
            let (text, _) = rest.strip_prefix('>')?.split_once("</label>")?;
            let words: Vec<&str> = text.split_whitespace().collect();
            Some((id.to_owned(), words.join(" ")))
        })
        .collect()
}
