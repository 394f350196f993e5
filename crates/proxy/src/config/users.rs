//! Users in the file.

use super::place::Text;
use super::via::{User, check_user};
use crate::error::Error;
use toml::Spanned;

/// Refuses names and passwords that cannot be, and two users of one name.
pub(super) fn check_users(users: &[Spanned<User>], text: &Text<'_>) -> Result<(), Error> {
    for user in users {
        let name = &user.as_ref().name;
        check_user(user.as_ref()).map_err(|said| text.mistake(Some(user.span()), &said))?;
        if let Some(twin) = users.iter().find(|other| other.as_ref().name == *name)
            && twin.span() != user.span()
        {
            return Err(text.mistake(Some(user.span()), &format!("the user {name} is given twice")));
        }
    }
    Ok(())
}
