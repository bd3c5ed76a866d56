use super::story::{Role, Stage, ours};
use crate::packets::{OF_AGENTS, OF_SERVERS, Recorder, make_all_happen};

async fn compare(role: Role) {
    let mut recorder = None;
    let broker = async |folder: &std::path::Path| {
        let broker = ours(folder).await;
        recorder = Some(Recorder::start(broker.port).await);
        broker
    };
    let Some(stage) = Stage::set(role, broker).await else { return };
    let mut recorder = recorder.unwrap();
    let Stage { mut world, original, role, folder } = stage;
    let restart_agent = async |world: &mut crate::world::World| {
        world.agent = Some(Stage::agent(role, &original, &world.cluster, &world.broker).await);
    };
    let restart_server = async |world: &mut crate::world::World| {
        world.server = Stage::server(role, &original, folder.path(), &world.broker).await;
    };
    make_all_happen(&mut world, &mut recorder, restart_agent, restart_server).await;
    match role {
        Role::Server => recorder.compare(&OF_SERVERS).await,
        Role::Agent => recorder.compare(&OF_AGENTS).await,
    }
}

#[tokio::test]
async fn original_server_writes_its_events_as_the_files_say() {
    compare(Role::Server).await;
}

#[tokio::test]
async fn original_agent_writes_its_events_as_the_files_say() {
    compare(Role::Agent).await;
}
