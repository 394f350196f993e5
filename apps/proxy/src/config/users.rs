//! Users in the configuration file.

use super::place::Text;
use super::via::{User, check_user};
use crate::error::Error;
use toml::Spanned;

/// Refuses names and passwords of invalid length, and two users with the same name.
pub(super) fn check_users(users: &[Spanned<User>], text: &Text<'_>) -> Result<(), Error> {
    for user in users {
        let name = &user.as_ref().name;
        check_user(user.as_ref()).map_err(|message| text.error(Some(user.span()), &message))?;
        if let Some(other) = users.iter().find(|user| user.as_ref().name == *name)
            && other.span() != user.span()
        {
            return Err(text.error(
                Some(user.span()),
                &format!("the user {name} is given twice; remove one of the two"),
            ));
        }
    }
    Ok(())
}
