//! The variables, command and mounts of a container, with everything they refer to filled in.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, EnvVar, Pod};
use kube::ResourceExt as _;

use super::objects::{Objects, Place, Unresolved, field};
use super::resource_fields::resource_field;
use super::specification::container_is_privileged;
use crate::images::Image;
use crate::shim::protocol::{self, Input, Mount};

/// Where programs are looked for when a container does not say.
const PATH: &str = "/opt/pilothouse/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a container is put together from.
pub(crate) struct Parts<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) attempt: u32,
    pub(crate) image: Image,
    pub(crate) objects: &'a Objects,
    pub(crate) place: &'a Place<'a>,
    /// Where each volume of the pod is.
    pub(crate) volumes: &'a BTreeMap<String, std::path::PathBuf>,
    /// Where pods find the API server, if that is known.
    pub(crate) api_service: Option<(String, i32)>,
}

impl Parts<'_> {
    pub(crate) async fn assemble(&self) -> Result<protocol::Container, Unresolved> {
        let environment = self.environment().await?;
        let lookup: BTreeMap<&str, &str> =
            environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expanded = |texts: &Option<Vec<String>>| -> Vec<String> {
            texts.iter().flatten().map(|text| expand(text, &lookup)).collect()
        };
        let command = self.image.command(expanded(&self.container.command), expanded(&self.container.args));
        let context = self.container.security_context.as_ref();
        let pod_context = self.pod.spec.as_ref().and_then(|spec| spec.security_context.as_ref());
        let number =
            |own: Option<i64>, pods: Option<i64>| own.or(pods).and_then(|number| u32::try_from(number).ok());
        Ok(protocol::Container {
            name: self.container.name.clone(),
            attempt: self.attempt,
            command,
            environment,
            directory: self.container.working_dir.clone().filter(|directory| !directory.is_empty()),
            program: self.image.program.as_ref().map(|program| program.path.clone()),
            program_name: self.image.program.as_ref().map(|program| program.name.clone()),
            mounts: self.mounts()?,
            user: number(
                context.and_then(|one| one.run_as_user),
                pod_context.and_then(|one| one.run_as_user),
            ),
            group: number(
                context.and_then(|one| one.run_as_group),
                pod_context.and_then(|one| one.run_as_group),
            ),
            privileged: container_is_privileged(self.container),
            read_only_root: context.and_then(|one| one.read_only_root_filesystem).unwrap_or(false),
            input: match (self.container.stdin, self.container.stdin_once) {
                (Some(true), Some(true)) => Input::Once,
                (Some(true), _) => Input::Lasting,
                _ => Input::None,
            },
            terminal: self.container.tty.unwrap_or(false),
            cgroup: None,
            expendability: None,
        })
    }

    async fn environment(&self) -> Result<Vec<(String, String)>, Unresolved> {
        let mut environment = vec![
            ("PATH".to_owned(), PATH.to_owned()),
            ("HOME".to_owned(), "/root".to_owned()),
            ("HOSTNAME".to_owned(), self.pod.name_any()),
        ];
        if let Some((address, port)) = &self.api_service {
            environment.push(("KUBERNETES_SERVICE_HOST".to_owned(), address.clone()));
            environment.push(("KUBERNETES_SERVICE_PORT".to_owned(), port.to_string()));
            environment.push(("KUBERNETES_SERVICE_PORT_HTTPS".to_owned(), port.to_string()));
        }
        for source in self.container.env_from.iter().flatten() {
            let entries = if let Some(reference) = &source.config_map_ref {
                self.objects.config_map(&reference.name, reference.optional.unwrap_or(false)).await?
            } else if let Some(reference) = &source.secret_ref {
                self.objects.secret(&reference.name, reference.optional.unwrap_or(false)).await?
            } else {
                None
            };
            let prefix = source.prefix.as_deref().unwrap_or_default();
            for (key, value) in entries.unwrap_or_default() {
                set(&mut environment, format!("{prefix}{key}"), String::from_utf8_lossy(&value).into_owned());
            }
        }
        for variable in self.container.env.iter().flatten() {
            if let Some(value) = self.variable(variable, &environment).await? {
                set(&mut environment, variable.name.clone(), value);
            }
        }
        Ok(environment)
    }

    async fn variable(
        &self,
        variable: &EnvVar,
        so_far: &[(String, String)],
    ) -> Result<Option<String>, Unresolved> {
        let Some(source) = &variable.value_from else {
            let lookup = so_far.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            return Ok(Some(expand(variable.value.as_deref().unwrap_or_default(), &lookup)));
        };
        if let Some(reference) = &source.field_ref {
            return field(self.pod, self.place, &reference.field_path).map(Some);
        }
        if let Some(reference) = &source.resource_field_ref {
            let own = Some(self.container.name.as_str());
            return resource_field(self.pod, own, reference, self.place.allocatable).map(Some);
        }
        let (kind, name, key, optional, entries) = if let Some(reference) = &source.config_map_key_ref {
            let optional = reference.optional.unwrap_or(false);
            let entries = self.objects.config_map(&reference.name, optional).await?;
            ("ConfigMap", &reference.name, &reference.key, optional, entries)
        } else if let Some(reference) = &source.secret_key_ref {
            let optional = reference.optional.unwrap_or(false);
            let entries = self.objects.secret(&reference.name, optional).await?;
            ("Secret", &reference.name, &reference.key, optional, entries)
        } else {
            return Err(Unresolved::Field(format!("the source of variable {}", variable.name)));
        };
        match entries.unwrap_or_default().remove(key) {
            Some(value) => Ok(Some(String::from_utf8_lossy(&value).into_owned())),
            None if optional => Ok(None),
            None => Err(Unresolved::NoKey { kind, name: name.clone(), key: key.clone() }),
        }
    }

    fn mounts(&self) -> Result<Vec<Mount>, Unresolved> {
        let mut mounts = Vec::new();
        for mount in self.container.volume_mounts.iter().flatten() {
            let source = self.volumes.get(&mount.name).ok_or_else(|| {
                Unresolved::Other(format!(
                    "container `{}` mounts volume `{}`, which the pod does not have",
                    self.container.name, mount.name
                ))
            })?;
            mounts.push(Mount {
                source: source.clone(),
                sub_path: mount.sub_path.clone(),
                target: mount.mount_path.clone(),
                read_only: mount.read_only.unwrap_or(false) || is_provided(self.pod, &mount.name),
            });
        }
        // Outer ones first, whatever the order in the specification.
        mounts.sort_by_key(|mount| Path::new(&mount.target).components().count());
        Ok(mounts)
    }
}

/// Whether the content of a volume comes from the API and is not the pod's to change.
fn is_provided(pod: &Pod, volume: &str) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    volumes.iter().filter(|one| one.name == volume).any(|one| {
        one.config_map.is_some()
            || one.secret.is_some()
            || one.projected.is_some()
            || one.downward_api.is_some()
    })
}

fn set(environment: &mut Vec<(String, String)>, name: String, value: String) {
    environment.retain(|(known, _)| *known != name);
    environment.push((name, value));
}

/// Replaces `$(NAME)` by the variable, if there is one; `$$` stands for a dollar sign.
fn expand(text: &str, variables: &BTreeMap<&str, &str>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('$') {
        expanded.push_str(&rest[..start]);
        rest = &rest[start + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('(')
            && let Some(end) = inner.find(')')
            && let Some(value) = variables.get(&inner[..end])
        {
            expanded.push_str(value);
            rest = &inner[end + 1..];
        } else {
            expanded.push('$');
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_expanded_where_they_exist_and_left_alone_where_not() {
        let variables = BTreeMap::from([("NAME", "ada"), ("EMPTY", "")]);
        for (text, expected) in [
            ("$(NAME)-$(EMPTY)-$(OTHER)", "ada--$(OTHER)"),
            ("$$(NAME) costs $5", "$(NAME) costs $5"),
            ("$(NAME", "$(NAME"),
            ("a$", "a$"),
        ] {
            assert_eq!(expand(text, &variables), expected, "{text}");
        }
    }
}
