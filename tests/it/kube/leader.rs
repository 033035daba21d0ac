//! Of several controllers one leads, with the rights that config/rbac/controller.yaml grants.

use std::{path::Path, time::Duration};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client, Config, config::Kubeconfig};
use ludgate::controllers::leader::LeaderElector;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use crate::support::{api_relay::ApiRelay, kube_namespace::KubeNamespace, until::until_async};

const LEASE: &str = "ludgate-controller";
/// A lease without renewals is abandoned after 15 s, and looked at every 2 s. The rest is for a
/// loaded machine.
const TAKE_OVER: Duration = Duration::from_secs(60);

/// A process that wants to lead.
struct Process {
    leads: watch::Receiver<bool>,
    stop: watch::Sender<bool>,
}

impl Process {
    async fn start(namespace: &KubeNamespace, kubeconfig: &Path, name: &str) -> Process {
        let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
        let client = Client::try_from(config.expect("a configuration")).expect("a client");
        let elector = LeaderElector::new(client, &namespace.name, LEASE, name.to_owned());
        let (leading, leads) = watch::channel(false);
        let (stop, mut stopping) = watch::channel(false);
        tokio::spawn(async move {
            let stopped = async {
                let _ = stopping.wait_for(|stop| *stop).await;
            };
            elector.run(leading, std::future::pending, stopped).await;
        });
        Process { leads, stop }
    }

    async fn until(&mut self, wanted: bool) {
        let changed = timeout(TAKE_OVER, self.leads.wait_for(|leads| *leads == wanted));
        changed.await.expect("in time").expect("it runs");
    }

    fn leads(&self) -> bool {
        *self.leads.borrow()
    }
}

async fn lease(namespace: &KubeNamespace) -> LeaseSpec {
    let leases: Api<Lease> = Api::namespaced(namespace.client.clone(), &namespace.name);
    let lease = leases.get(LEASE).await.expect("a lease");
    lease.spec.expect("a spec")
}

async fn holder(namespace: &KubeNamespace) -> Option<String> {
    lease(namespace).await.holder_identity
}

async fn prepared() -> (KubeNamespace, std::path::PathBuf) {
    let namespace = KubeNamespace::new().await;
    namespace.grant("controller.yaml").await;
    let kubeconfig = namespace.kubeconfig_of("ludgate-controller").await;
    (namespace, kubeconfig)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_leads_and_the_other_follows_when_it_stops() {
    let (namespace, kubeconfig) = prepared().await;
    let mut first = Process::start(&namespace, &kubeconfig, "first").await;
    first.until(true).await;
    let mut second = Process::start(&namespace, &kubeconfig, "second").await;
    // The second one competes at once, and the first one renews every two seconds.
    for _ in 0..2 {
        let before = lease(&namespace).await.renew_time;
        let is_renewed = async || lease(&namespace).await.renew_time != before;
        until_async("the lease is renewed", is_renewed).await;
    }
    assert_eq!(holder(&namespace).await.as_deref(), Some("first"));
    assert!(!second.leads());
    let stopped = Instant::now();
    first.stop.send_replace(true);
    second.until(true).await;
    assert!(
        stopped.elapsed() < Duration::from_secs(10),
        "the lease was given back"
    );
    assert!(!first.leads());
    assert_eq!(holder(&namespace).await.as_deref(), Some("second"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_cannot_renew_stops_before_another_one_begins() {
    let (namespace, kubeconfig) = prepared().await;
    let direct = kubeconfig.with_file_name("direct");
    std::fs::copy(&kubeconfig, &direct).expect("copied");
    let relay = ApiRelay::insert(&kubeconfig).await;
    let mut first = Process::start(&namespace, &kubeconfig, "first").await;
    first.until(true).await;
    let mut second = Process::start(&namespace, &direct, "second").await;
    relay.cut().await;
    // A loaded machine may show this test both changes at once: then the first one came first.
    tokio::select! {
        biased;
        () = first.until(false) => {}
        () = second.until(true) => panic!("two leaders"),
    }
    second.until(true).await;
    relay.mend();
    assert_eq!(lease(&namespace).await.lease_transitions, Some(2));
    assert!(!first.leads());
}
