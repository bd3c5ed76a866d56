use std::fmt;

use x509_parser::x509::{AttributeTypeAndValue, X509Name};

use crate::Error;
use crate::der::encode;
use crate::names::InvalidName;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
/// 2.5.4.3
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
/// 2.5.4.10
const ORGANIZATION: [u8; 3] = [0x55, 0x04, 0x0a];
/// Longer than any node or service account name, short enough to be a line in a log.
const LONGEST: usize = 320;

/// Whom a certificate is about: one common name and any number of organizations.
///
/// To Kubernetes a client certificate's common name is the user and its organizations are the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    common_name: String,
    organizations: Vec<String>,
}

impl Subject {
    /// A subject without organizations.
    pub fn try_new(common_name: impl Into<String>) -> Result<Self, InvalidName> {
        Ok(Self { common_name: checked(common_name.into())?, organizations: Vec::new() })
    }

    /// Adds organizations; one that is already there is not added twice.
    pub fn with_organizations<I>(mut self, organizations: I) -> Result<Self, InvalidName>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        for organization in organizations {
            let organization = checked(organization.into())?;
            if !self.organizations.contains(&organization) {
                self.organizations.push(organization);
            }
        }
        Ok(self)
    }

    /// The common name: a Kubernetes user name, or what a service is called.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The organizations: Kubernetes groups, in the order they were given.
    pub fn organizations(&self) -> &[String] {
        &self.organizations
    }

    pub(crate) fn to_der(&self) -> Vec<u8> {
        let attributes = self
            .organizations
            .iter()
            .map(|organization| attribute(&ORGANIZATION, organization))
            .chain([attribute(&COMMON_NAME, &self.common_name)]);
        encode(SEQUENCE, &attributes.flatten().collect::<Vec<_>>())
    }

    /// Reads the two attributes we know. An authority made elsewhere may have none of them, hence no checks.
    pub(crate) fn read(name: &X509Name<'_>) -> Self {
        let text = |attribute: &AttributeTypeAndValue<'_>| attribute.as_str().unwrap_or_default().to_owned();
        Self {
            common_name: name.iter_common_name().next().map(text).unwrap_or_default(),
            organizations: name.iter_organization().map(text).collect(),
        }
    }

    /// The same subject if it could also be asked for, which rules out empty and unprintable names.
    pub(crate) fn validated(self) -> Result<Self, Error> {
        Ok(Self::try_new(self.common_name)?.with_organizations(self.organizations)?)
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CN={}", self.common_name)?;
        self.organizations.iter().try_for_each(|organization| write!(formatter, ", O={organization}"))
    }
}

fn attribute(identifier: &[u8], value: &str) -> Vec<u8> {
    let pair = [encode(OBJECT_IDENTIFIER, identifier), encode(UTF8_STRING, value.as_bytes())].concat();
    encode(SET, &encode(SEQUENCE, &pair))
}

fn checked(value: String) -> Result<String, InvalidName> {
    let reason = if value.is_empty() {
        "it is empty"
    } else if value.len() > LONGEST {
        "it is longer than 320 bytes"
    } else if value.chars().any(char::is_control) {
        "it contains control characters"
    } else {
        return Ok(value);
    };
    Err(InvalidName { name: value, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_nobody_could_read_are_refused() {
        for (name, why) in [("", "empty"), ("a\nb", "control"), (&"x".repeat(321), "longer")] {
            let error = Subject::try_new(name).unwrap_err();
            assert!(error.reason.contains(why), "{error}");
        }
    }

    #[test]
    fn a_group_is_kept_once_and_in_order() {
        let subject = Subject::try_new("ada").unwrap().with_organizations(["b", "a", "b"]).unwrap();
        assert_eq!(subject.to_string(), "CN=ada, O=b, O=a");
    }
}
