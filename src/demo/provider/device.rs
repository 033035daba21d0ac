//! The device flow of the demo's provider (RFC 8628): codes for a terminal, and the page on which a
//! person agrees or refuses.

use askama::Template;
use serde_json::{Value, json};

use super::{
    state::{DemoProvider, DeviceAnswer, Grant, WaitingDevice},
    tokens::Refused,
};
use crate::session::cookie::NewId;

/// Codes live this long, in seconds.
const LIFE: i64 = 600;
/// Pause between the polls of a terminal, in seconds.
const INTERVAL: u64 = 1;
/// Digits of a user code.
const DIGITS: usize = 8;
/// Maximum number of codes; when it is reached, all of them are removed.
const MAX_REMEMBERED: usize = 1000;

/// The page of a code; without a code it has a field for one.
#[derive(Template)]
#[template(path = "device.html")]
struct DevicePage {
    sentence: &'static str,
    /// Names and addresses.
    choices: Vec<(&'static str, String)>,
    has_field: bool,
}

impl DemoProvider {
    /// Gives a terminal its codes.
    ///
    /// # Errors
    /// When the client's credentials are not valid.
    pub(super) fn device_authorization(
        &self,
        form: &dyn Fn(&str) -> Option<String>,
        authorization: Option<&str>,
    ) -> Result<Value, Refused> {
        self.authenticate(form, authorization)?;
        self.count("device_authorization");
        let failed = (500, "server_error");
        let random = || NewId::random().map_err(|_| failed);
        let device_code = random()?.as_str().to_owned();
        let user_code = user_code(random()?.as_str());
        let scope = form("scope").unwrap_or_default();
        let device = WaitingDevice {
            user_code: user_code.clone(),
            issued: self.now(),
            is_offline: scope.split(' ').any(|it| it == "offline_access"),
            answer: DeviceAnswer::Open,
        };
        let mut state = self.state();
        if state.devices.len() >= MAX_REMEMBERED {
            state.devices.clear();
        }
        state.devices.insert(device_code.clone(), device);
        let address = format!("{}/device", self.issuer());
        Ok(json!({
            "device_code": device_code,
            "user_code": user_code,
            "verification_uri": address,
            "verification_uri_complete": format!("{address}?user_code={user_code}"),
            "expires_in": LIFE,
            "interval": INTERVAL,
        }))
    }

    /// The page of a user code. `login_as` agrees as a person, and `refuse` refuses.
    pub(super) fn device_page(&self, value: &dyn Fn(&str) -> Option<String>) -> String {
        let page = |sentence, choices| DevicePage {
            sentence,
            choices,
            has_field: false,
        };
        let code = value("user_code").unwrap_or_default();
        let now = self.now();
        let mut state = self.state();
        let people: Vec<&'static str> = state.people.values().map(|it| it.name).collect();
        let device = state.devices.values_mut().find(|device| {
            let is_fresh = now <= device.issued + LIFE;
            device.user_code == code && is_fresh && device.answer == DeviceAnswer::Open
        });
        let shown = match device {
            None => DevicePage {
                has_field: true,
                ..page("Enter the code that your terminal shows.", Vec::new())
            },
            Some(device) => {
                let login_as = value("login_as").unwrap_or_default();
                if value("refuse").is_some() {
                    device.answer = DeviceAnswer::Refused;
                    page("You refused. Your terminal is not signed in.", Vec::new())
                } else if let Some(person) = people.iter().find(|name| **name == login_as) {
                    device.answer = DeviceAnswer::Agreed(person);
                    page("Your terminal is signed in.", Vec::new())
                } else {
                    let sentence = "A terminal wants to sign in with this code. As which user?";
                    page(sentence, choices(&people, &device.user_code))
                }
            }
        };
        shown.render().unwrap_or_default()
    }

    /// Answers a poll of a terminal.
    ///
    /// # Errors
    /// Those of RFC 8628 section 3.5, until the person has agreed.
    pub(super) fn by_device_code(
        &self,
        form: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Value, Refused> {
        let code = form("device_code").unwrap_or_default();
        let now = self.now();
        let (person, is_offline) = {
            let mut state = self.state();
            let device = state.devices.get(&code).ok_or((400, "invalid_grant"))?;
            if now > device.issued + LIFE {
                return Err((400, "expired_token"));
            }
            match device.answer {
                DeviceAnswer::Open => return Err((400, "authorization_pending")),
                DeviceAnswer::Refused => return Err((400, "access_denied")),
                DeviceAnswer::Agreed(person) => {
                    let is_offline = device.is_offline;
                    // A code works once.
                    state.devices.remove(&code);
                    (person, is_offline)
                }
            }
        };
        let session = NewId::random().map_err(|_| (500, "server_error"))?;
        self.grant(&Grant {
            person,
            nonce: None,
            challenge: String::new(),
            redirect_uri: String::new(),
            session: session.as_str().to_owned(),
            issued: now,
            auth_time: now,
            is_offline,
        })
    }
}

fn choices(people: &[&'static str], user_code: &str) -> Vec<(&'static str, String)> {
    let address = |query: &str| format!("/device?user_code={user_code}&{query}");
    let people = people.iter().map(|name| {
        let query = format!("login_as={name}");
        (*name, address(&query))
    });
    let refuse = ("Refuse", address("refuse=yes"));
    people.chain([refuse]).collect()
}

/// Digits that are made of random text.
fn user_code(random: &str) -> String {
    let bytes = random.bytes().take(DIGITS);
    bytes.map(|byte| char::from(b'0' + byte % 10)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_code_has_eight_digits() {
        assert_eq!(user_code("Zx-_09Abcdef"), "00558758");
    }
}
