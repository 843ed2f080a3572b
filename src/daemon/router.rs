//! Commands from inside the daemon, such as the dashboard's, to the task of their repository. Whoever uses it has found out who
//! asks; a process on a socket is looked at by `control` instead.

use crate::model::{Answer, Command};
use crate::workspace::Request;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// A browser does not wait as long as a terminal does. The command stays in its queue.
const PATIENCE: Duration = Duration::from_secs(60);

type Routes = BTreeMap<PathBuf, mpsc::Sender<Request>>;

/// A clone is the same one.
#[derive(Clone, Default)]
pub struct CommandRouter(Arc<Mutex<Routes>>);

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Routed {
    Answered(Answer),
    /// This daemon does not work in that repository now.
    NoRoute,
    /// It was handed over, and the answer did not come in time.
    Late,
}

/// A repository takes commands as long as this lives.
pub(super) struct Route {
    router: CommandRouter,
    root: PathBuf,
    sender: mpsc::Sender<Request>,
}

impl CommandRouter {
    pub(super) fn open(&self, root: &Path, sender: mpsc::Sender<Request>) -> Route {
        self.lock().insert(root.to_owned(), sender.clone());
        Route { router: self.clone(), root: root.to_owned(), sender }
    }

    pub async fn ask(&self, root: &Path, command: Command) -> Routed {
        let Some(sender) = self.lock().get(root).cloned() else { return Routed::NoRoute };
        let (reply, answer) = oneshot::channel();
        if sender.send(Request { command: Box::new(command), reply }).await.is_err() {
            return Routed::NoRoute;
        }
        match timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => Routed::Answered(answer),
            Ok(Err(_)) => Routed::NoRoute,
            Err(_) => Routed::Late,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Routes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        let mut routes = self.router.lock();
        // The repository may have been opened again meanwhile.
        if routes.get(&self.root).is_some_and(|known| known.same_channel(&self.sender)) {
            routes.remove(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::{Caller, OwnerVerb, RequestId};

    fn command() -> Command {
        let caller = Caller { who: "owner".to_owned(), from: "dashboard".to_owned() };
        OwnerVerb::unpause().command(RequestId::fresh(), caller)
    }

    // covers: WB-02
    #[tokio::test]
    async fn a_command_reaches_its_repository_as_long_as_that_is_open() {
        let (router, root) = (CommandRouter::default(), Path::new("/src/shop"));
        assert_eq!(router.ask(root, command()).await, Routed::NoRoute);
        let (sender, mut requests) = mpsc::channel::<Request>(1);
        let route = router.open(root, sender);
        let answer = Answer { accepted: true, text: "done".to_owned() };
        let answering =
            tokio::spawn(async move { requests.recv().await.unwrap().reply.send(answer) });
        let answer = Answer { accepted: true, text: "done".to_owned() };
        assert_eq!(router.ask(root, command()).await, Routed::Answered(answer));
        answering.await.unwrap().unwrap();
        let (newer, _requests) = mpsc::channel::<Request>(1);
        let newer = router.open(root, newer);
        drop(route);
        assert_eq!(router.lock().len(), 1, "the newer route stays");
        drop(newer);
        assert_eq!(router.ask(root, command()).await, Routed::NoRoute);
    }
}
