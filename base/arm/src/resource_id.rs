//! The names of things.
//!
//! An id is a path: a subscription, perhaps a resource group, perhaps a provider with pairs of type and name. Clients
//! spell it in whatever case they like and expect to find the same thing, so equality, order and hash ignore ASCII
//! case, while the spelling is kept for the answer.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::subscription::{MalformedSubscriptionId, SubscriptionId};

#[cfg(test)]
mod tests;

/// The id of a subscription, a resource group, or a resource in one of the two.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceId {
    /// The whole path, as spelled by whoever made it, without a slash at the end.
    text: String,
    /// Where each segment lies in `text`, without its slash.
    segments: Vec<(usize, usize)>,
    /// Index of the segment `providers`, if there is one.
    provider: Option<usize>,
}

/// What kind of thing an id names: `Microsoft.RedHatOpenShift/hcpOpenShiftClusters/nodePools`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResourceType(String);

/// Why a text is not a resource id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a resource id: {problem}")]
pub struct MalformedResourceId {
    text: String,
    problem: &'static str,
}

const SUBSCRIPTIONS: &str = "subscriptions";
const RESOURCE_GROUPS: &str = "resourceGroups";
const PROVIDERS: &str = "providers";
/// The namespace of what ARM itself keeps.
const RESOURCES: &str = "Microsoft.Resources";

impl MalformedResourceId {
    /// What is wrong with it, for those who show the text themselves.
    pub fn problem(&self) -> &'static str {
        self.problem
    }
}

// === impl ResourceId ===

impl ResourceId {
    /// The id of a subscription.
    pub fn subscription(id: SubscriptionId) -> Self {
        Self::joined(format!("/{SUBSCRIPTIONS}/{id}"))
    }

    /// The id of a resource group in this subscription. A segment cannot contain a slash: one in `name` is dropped.
    pub fn resource_group(&self, name: &str) -> Self {
        let subscription = self.segment(1).unwrap_or_default();
        Self::joined(format!("/{SUBSCRIPTIONS}/{subscription}/{RESOURCE_GROUPS}/{}", segment(name)))
    }

    /// The id of a resource of `provider` in this subscription or resource group.
    pub fn provider(&self, provider: &str, kind: &str, name: &str) -> Self {
        let scope = self.scope();
        Self::joined(format!("{scope}/{PROVIDERS}/{}/{}/{}", segment(provider), segment(kind), segment(name)))
    }

    /// The id of a resource below this one.
    pub fn child(&self, kind: &str, name: &str) -> Self {
        Self::joined(format!("{}/{}/{}", self.text, segment(kind), segment(name)))
    }

    /// The id this one lies directly below: the cluster of a node pool, the resource group of a cluster, the
    /// subscription of a resource group.
    pub fn parent(&self) -> Option<Self> {
        let count = self.segments.len();
        let keep = match self.provider {
            Some(provider) if count == provider + 4 => provider,
            _ => count - 2,
        };
        let (_, end) = *self.segments.get(keep.checked_sub(1)?)?;
        Some(Self::joined(self.text[..end].to_owned()))
    }

    /// The subscription, as spelled.
    pub fn subscription_name(&self) -> &str {
        self.segment(1).unwrap_or_default()
    }

    /// The subscription; ids of other systems may have one that is no UUID.
    pub fn subscription_id(&self) -> Result<SubscriptionId, MalformedSubscriptionId> {
        self.subscription_name().parse()
    }

    /// The name of the resource group, if it lies in one.
    pub fn resource_group_name(&self) -> Option<&str> {
        self.segment(2)?.eq_ignore_ascii_case(RESOURCE_GROUPS).then(|| self.segment(3)).flatten()
    }

    /// The namespace of the provider, if it is a provider's resource.
    pub fn provider_namespace(&self) -> Option<&str> {
        self.segment(self.provider? + 1)
    }

    /// The last name in it.
    pub fn name(&self) -> &str {
        self.segments.last().map(|(start, end)| &self.text[*start..*end]).unwrap_or_default()
    }

    /// What kind of thing it names, as spelled.
    pub fn resource_type(&self) -> ResourceType {
        let mut text = String::new();
        match self.provider {
            Some(provider) => {
                text.push_str(self.segment(provider + 1).unwrap_or(RESOURCES));
                for index in (provider + 2..self.segments.len()).step_by(2) {
                    text.push('/');
                    text.push_str(self.segment(index).unwrap_or_default());
                }
            }
            None if self.segments.len() == 2 => text.push_str("Microsoft.Resources/subscriptions"),
            None => text.push_str("Microsoft.Resources/resourceGroups"),
        }
        ResourceType(text)
    }

    /// Whether it is of this type, which is compared case-insensitively.
    pub fn is_a(&self, resource_type: &str) -> bool {
        self.resource_type().0.eq_ignore_ascii_case(resource_type)
    }

    /// Whether it lies somewhere below `ancestor`.
    pub fn is_below(&self, ancestor: &Self) -> bool {
        self.text.len() > ancestor.text.len()
            && self.text.as_bytes()[ancestor.text.len()] == b'/'
            && self.text.as_bytes()[..ancestor.text.len()].eq_ignore_ascii_case(ancestor.text.as_bytes())
    }

    /// The form under which it is stored and looked up: lower-case.
    pub fn key(&self) -> String {
        self.text.to_ascii_lowercase()
    }

    /// As it was spelled.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Subscription and resource group, without what a provider offers in them.
    fn scope(&self) -> &str {
        match self.provider {
            Some(provider) => &self.text[..self.segments[provider].0 - 1],
            None => &self.text,
        }
    }

    fn segment(&self, index: usize) -> Option<&str> {
        self.segments.get(index).map(|(start, end)| &self.text[*start..*end])
    }

    /// A path that is known to be one.
    fn joined(text: String) -> Self {
        let segments: Vec<_> = offsets(&text).collect();
        let provider = provider(&text, &segments);
        Self { text, segments, provider }
    }
}

fn segment(name: &str) -> String {
    name.chars().filter(|character| *character != '/').collect()
}

/// Where the segments of a path lie; its leading slash is not one.
fn offsets(text: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut start = 1;
    text.get(1..).unwrap_or_default().split('/').map(move |part| {
        let found = (start, start + part.len());
        start = found.1 + 1;
        found
    })
}

fn provider(text: &str, segments: &[(usize, usize)]) -> Option<usize> {
    let is = |index: usize| {
        segments.get(index).is_some_and(|(start, end)| text[*start..*end].eq_ignore_ascii_case(PROVIDERS))
    };
    [2, 4].into_iter().find(|index| is(*index))
}

impl FromStr for ResourceId {
    type Err = MalformedResourceId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |problem| MalformedResourceId { text: text.to_owned(), problem };
        let trimmed = text.strip_suffix('/').unwrap_or(text);
        if !trimmed.starts_with('/') {
            return Err(refused("it does not begin with a slash"));
        }
        let id = Self::joined(trimmed.to_owned());
        let spelled = |index, word| id.segment(index).is_some_and(|found| found.eq_ignore_ascii_case(word));
        if id.segments.iter().any(|(start, end)| start == end) {
            return Err(refused("it has an empty segment"));
        }
        if trimmed.chars().any(|character| character.is_control() || matches!(character, '?' | '#' | '%')) {
            return Err(refused("it contains a character that no name may have"));
        }
        if !spelled(0, SUBSCRIPTIONS) || id.segments.len() < 2 {
            return Err(refused("it does not begin with /subscriptions/{id}"));
        }
        let count = id.segments.len();
        match id.provider {
            None if count == 2 => Ok(id),
            None if count == 4 && spelled(2, RESOURCE_GROUPS) => Ok(id),
            None => {
                Err(refused("behind the subscription comes /resourceGroups/{name} or /providers/{namespace}"))
            }
            Some(4) if !spelled(2, RESOURCE_GROUPS) => {
                Err(refused("a provider's resources lie in a subscription or in a resource group"))
            }
            Some(provider) if count < provider + 4 || (count - provider) % 2 == 1 => {
                Err(refused("behind the provider's namespace come pairs of type and name"))
            }
            Some(_) => Ok(id),
        }
    }
}

impl TryFrom<String> for ResourceId {
    type Error = MalformedResourceId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ResourceId> for String {
    fn from(id: ResourceId) -> Self {
        id.text
    }
}

impl JsonSchema for ResourceId {
    fn schema_name() -> Cow<'static, str> {
        "ResourceId".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "arm-id"})
    }
}

impl PartialEq for ResourceId {
    fn eq(&self, other: &Self) -> bool {
        self.text.eq_ignore_ascii_case(&other.text)
    }
}

impl Eq for ResourceId {}

impl Hash for ResourceId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for byte in self.text.bytes() {
            state.write_u8(byte.to_ascii_lowercase());
        }
        state.write_u8(0xff);
    }
}

impl Ord for ResourceId {
    fn cmp(&self, other: &Self) -> Ordering {
        let lower = |text: &'_ str| text.bytes().map(|byte| byte.to_ascii_lowercase()).collect::<Vec<_>>();
        lower(&self.text).cmp(&lower(&other.text))
    }
}

impl PartialOrd for ResourceId {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, formatter)
    }
}

// === impl ResourceType ===

impl ResourceType {
    /// As it was spelled.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for ResourceType {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ResourceType {}

impl fmt::Display for ResourceType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
