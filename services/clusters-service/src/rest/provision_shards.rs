use super::{Context, Extension, Path, Response, Shared, State, StatusCode};
use pilothouse_clusters_service_api::{
    AzureShard, BASES, Endpoint, List, MaestroConfig, ProvisionShard, Reference,
};

use crate::config::Shard;
use crate::refusal::{Refusal, cluster_id};

pub(super) async fn of_cluster(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(cluster): Path<String>,
) -> Response {
    let outcome = async {
        let shard = rest.clusters.cluster_shard(&cluster_id(&cluster)?).await?;
        Ok(shown(shard, &rest.clusters.config.region))
    };
    rest.answer(&context, StatusCode::OK, outcome.await)
}

pub(super) async fn list(State(rest): Shared, Extension(context): Extension<Context>) -> Response {
    let config = &rest.clusters.config;
    let items: Vec<_> = config.shards.iter().map(|shard| shown(shard, &config.region)).collect();
    let size = u32::try_from(items.len()).unwrap_or(u32::MAX);
    let list = List { kind: "ProvisionShardList".to_owned(), page: 1, size, total: size, items };
    rest.answer(&context, StatusCode::OK, Ok(list))
}

pub(super) async fn get(
    State(rest): Shared,
    Extension(context): Extension<Context>,
    Path(id): Path<String>,
) -> Response {
    let config = &rest.clusters.config;
    let outcome = match config.shard(&id) {
        Some(shard) => Ok(shown(shard, &config.region)),
        None => Err(Refusal::NotFound { kind: "Provision shard", id }),
    };
    rest.answer(&context, StatusCode::OK, outcome)
}

fn shown(shard: &Shard, region: &str) -> ProvisionShard {
    ProvisionShard {
        kind: "ProvisionShard".to_owned(),
        id: shard.id.clone(),
        href: format!("{}/provision_shards/{}", BASES[0], shard.id),
        status: "active".to_owned(),
        topology: "shared".to_owned(),
        region: Reference::new(region),
        cloud_provider: Reference::new("azure"),
        azure_shard: AzureShard {
            cx_managed_identities_key_vault_url: shard.managed_identities_key_vault_url.clone(),
            ..AzureShard::default()
        },
        maestro_config: MaestroConfig {
            consumer_name: shard.consumer.clone(),
            rest_api_config: Endpoint { url: shard.maestro_rest_url.clone() },
            grpc_api_config: Endpoint { url: shard.maestro_grpc_url.clone() },
        },
    }
}
