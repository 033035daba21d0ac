//! Pods without a kubelet: a network namespace of their own, so that their addresses are not this
//! machine's, with the apps of the test listening in it.

use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener},
    os::fd::AsFd,
    process::Command,
    sync::atomic::{AtomicU8, Ordering},
};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network of pods. Dropped, it is taken away.
pub struct Pods {
    name: String,
    /// Of its addresses.
    net: [u8; 3],
}

/// How many addresses a network has for pods.
const MOST: u8 = 20;

impl Pods {
    pub fn new() -> Pods {
        static COUNT: AtomicU8 = AtomicU8::new(0);
        // Tests run in processes of their own: the process id keeps them apart.
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let spread = process
            .wrapping_mul(8)
            .wrapping_add(u32::from(count))
            .to_be_bytes();
        let pods = Pods {
            name: format!("ludgate{process}-{count}"),
            net: [10, 128 | spread[2], spread[3]],
        };
        let link = format!("lg{process}{count}");
        pods.ip(&format!("netns add {}", pods.name));
        pods.ip(&format!(
            "link add {link} type veth peer name eth0 netns {}",
            pods.name
        ));
        pods.ip(&format!("addr add {}/24 dev {link}", pods.address(1)));
        pods.ip(&format!("link set {link} up"));
        for host in 2..2 + MOST {
            pods.ip(&format!(
                "-n {} addr add {}/24 dev eth0",
                pods.name,
                pods.address(host)
            ));
        }
        pods.ip(&format!("-n {} link set eth0 up", pods.name));
        pods
    }

    /// A port that a pod listens on; pods are counted from 0.
    pub fn listen(&self, pod: u8, port: u16) -> TcpListener {
        let (path, address) = (
            format!("/run/netns/{}", self.name),
            SocketAddr::from((self.address(2 + pod), port)),
        );
        // A socket stays in the namespace it was made in, wherever it is used: only this thread
        // goes there.
        let inside = std::thread::spawn(move || {
            let namespace = File::open(path).expect("the namespace");
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root");
            TcpListener::bind(address).expect("a port")
        });
        inside.join().expect("a listener")
    }

    /// This machine's own address in the pods' network.
    pub fn ours(&self) -> IpAddr {
        self.address(1).into()
    }

    /// The address of a pod without a listener.
    pub fn unused_address(&self) -> IpAddr {
        self.address(1 + MOST).into()
    }

    fn address(&self, host: u8) -> Ipv4Addr {
        let [a, b, c] = self.net;
        Ipv4Addr::new(a, b, c, host)
    }

    fn ip(&self, arguments: &str) {
        let output = Command::new("ip")
            .args(arguments.split(' '))
            .output()
            .expect("iproute2");
        assert!(
            output.status.success(),
            "ip {arguments}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        // The link goes with it.
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}
