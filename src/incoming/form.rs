//! Values of queries and of url-encoded forms.

/// A parameter was given twice: two readers may take different values of it.
#[derive(Clone, Copy, Debug)]
pub struct GivenTwice;

/// One value of a form-encoded text.
///
/// # Errors
/// [`GivenTwice`].
pub fn form_value(encoded: &[u8], name: &str) -> Result<Option<String>, GivenTwice> {
    let mut values = url::form_urlencoded::parse(encoded).filter(|(key, _)| key == name);
    match (values.next(), values.next()) {
        (found, None) => Ok(found.map(|(_, value)| value.into_owned())),
        (_, Some(_)) => Err(GivenTwice),
    }
}
