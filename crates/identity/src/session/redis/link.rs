//! The connection to Redis: one, in RESP3, so that what others announce comes over it too. It is
//! brought up again by itself; every command has a deadline, and while there is no connection
//! nobody waits for one.

use std::{path::PathBuf, sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, ProtocolVersion, PushInfo,
    PushKind, RedisConnectionInfo, RedisError, ScriptInvocation, ServerErrorKind, Value,
    aio::MultiplexedConnection,
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    sync::{Notify, mpsc},
    time::{self, Instant},
};
use tokio_rustls::TlsConnector;

use crate::{model::secret::Secret, session::metrics::SessionMetrics};

/// Deadline of one command, and of getting a connection.
const DEADLINE: Duration = Duration::from_secs(1);
/// Written on every connection again and again, to see that it can be; for so many milliseconds.
const ALIVE: &str = "ludgate:alive";
const ALIVE_FOR: u64 = 60_000;
/// A connection is asked this often whether it works.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// Pause before the next try to connect: at first, and at most.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// What is announced to all replicas comes over this channel.
pub const CHANNEL: &str = "ludgate:events";
/// Commands that may wait to be written.
const QUEUE: usize = 1024;

/// Where the server is, and who we are to it.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// Where.
    pub address: Address,
    /// ACL user; absent: the default one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// Number of the database.
    pub database: i64,
}

/// Where the server is.
#[derive(Clone)]
pub enum Address {
    /// Host and port; with TLS when there is a client for it.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
        /// Whom we believe.
        tls: Option<Arc<ClientConfig>>,
    },
    /// Path of a socket.
    Unix(PathBuf),
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp { host, port, tls } => write!(f, "{host}:{port} tls={}", tls.is_some()),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Why a command gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection, no answer in time, or the server does not work now, or not for us. It may
    /// later.
    #[error("the session store cannot be used now")]
    Unavailable,
    /// There is something else where a record should be.
    #[error("a key in the session store has an unexpected type")]
    WrongType,
}

/// The connection.
pub struct Link {
    settings: RedisSettings,
    current: ArcSwapOption<Live>,
    metrics: Arc<SessionMetrics>,
}

/// One connection.
struct Live {
    connection: MultiplexedConnection,
    /// A command found it unfit.
    lost: Notify,
}

/// What happens on the link.
pub enum LinkEvent {
    /// There is a connection, a new one.
    Connected,
    /// Somebody announced this.
    Announced(Vec<u8>),
}

impl Link {
    /// No connection yet; see [`Link::keep`].
    pub fn new(settings: RedisSettings, metrics: Arc<SessionMetrics>) -> Link {
        metrics.store_up.set(0);
        Link {
            settings,
            current: ArcSwapOption::empty(),
            metrics,
        }
    }

    /// Runs one command.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let live = self.live()?;
        let mut connection = live.connection.clone();
        self.judged(&live, command.query_async(&mut connection))
            .await
    }

    /// Runs several commands in one round trip. They need not touch one slot of a cluster.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn pipeline<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        let live = self.live()?;
        let mut connection = live.connection.clone();
        self.judged(&live, commands.query_async(&mut connection))
            .await
    }

    /// Runs a script, which the server is given when it does not know it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn script<T: FromRedisValue>(
        &self,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let live = self.live()?;
        let mut connection = live.connection.clone();
        self.judged(&live, script.invoke_async(&mut connection))
            .await
    }

    /// Whether there is one now.
    pub fn is_up(&self) -> bool {
        self.current.load().is_some()
    }

    fn live(&self) -> Result<Arc<Live>, StoreError> {
        self.current.load_full().ok_or_else(|| {
            self.metrics.store("away");
            StoreError::Unavailable
        })
    }

    async fn judged<T>(
        &self,
        live: &Arc<Live>,
        answer: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, StoreError> {
        match time::timeout(DEADLINE, answer).await {
            Ok(Ok(answer)) => {
                self.metrics.store("ok");
                Ok(answer)
            }
            Ok(Err(error)) if is_foreign(&error) => {
                self.metrics.store("foreign");
                tracing::warn!(%error, "a key in the session store has an unexpected type");
                Err(StoreError::WrongType)
            }
            Ok(Err(error)) => {
                self.metrics.store("error");
                tracing::warn!(%error, "a command to the session store failed");
                if error.is_io_error() || is_of_another_server(&error) {
                    self.lose(live);
                }
                Err(StoreError::Unavailable)
            }
            Err(_) => {
                self.metrics.store("timeout");
                tracing::warn!("the session store did not answer within 1 s");
                self.lose(live);
                Err(StoreError::Unavailable)
            }
        }
    }

    /// Of a connection that has failed nobody is to wait for another answer.
    fn lose(&self, live: &Arc<Live>) {
        // Perhaps there is another by now: that one has done nothing.
        self.current.rcu(|current| {
            current
                .clone()
                .filter(|current| !Arc::ptr_eq(current, live))
        });
        live.lost.notify_one();
    }

    /// Connects, and connects again whenever the connection is lost; never ends. `tell` must not
    /// wait.
    pub async fn keep(&self, tell: impl Fn(LinkEvent)) {
        let (mut pause, mut told) = (PAUSE, false);
        loop {
            match time::timeout(DEADLINE, self.connect())
                .await
                .unwrap_or_else(|_| Err(timed_out()))
            {
                Ok((connection, pushes)) => {
                    tracing::info!(store = ?self.settings.address, "connected to the session store");
                    self.metrics.store_up.set(1);
                    told = false;
                    let (live, began) = (
                        Arc::new(Live {
                            connection,
                            lost: Notify::new(),
                        }),
                        Instant::now(),
                    );
                    self.current.store(Some(live.clone()));
                    tell(LinkEvent::Connected);
                    follow(&live, pushes, &tell).await;
                    self.current.store(None);
                    self.metrics.store_up.set(0);
                    tracing::warn!(
                        "lost the connection to the session store; sessions in memory stay valid"
                    );
                    // One that is lost as soon as it is there is not tried without end.
                    if began.elapsed() >= LONGEST_PAUSE {
                        pause = PAUSE;
                    }
                }
                Err(error) => {
                    if !told {
                        tracing::warn!(
                            %error, store = ?self.settings.address,
                            "cannot reach the session store; sessions in memory stay valid"
                        );
                        told = true;
                    }
                }
            }
            time::sleep(pause).await;
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    async fn connect(
        &self,
    ) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>), RedisError> {
        match &self.settings.address {
            Address::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                match tls {
                    None => self.greet(stream).await,
                    Some(tls) => {
                        let name =
                            ServerName::try_from(host.clone()).map_err(std::io::Error::other)?;
                        self.greet(
                            TlsConnector::from(tls.clone())
                                .connect(name, stream)
                                .await?,
                        )
                        .await
                    }
                }
            }
            Address::Unix(path) => self.greet(UnixStream::connect(path).await?).await,
        }
    }

    async fn greet<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        stream: S,
    ) -> Result<(MultiplexedConnection, mpsc::UnboundedReceiver<PushInfo>), RedisError> {
        let RedisSettings {
            user,
            password,
            database,
            address: _,
        } = &self.settings;
        let mut who = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(*database)
            .set_skip_set_lib_name();
        if let Some(user) = user {
            who = who.set_username(user);
        }
        if let Some(password) = password {
            who = who.set_password(password.expose());
        }
        let (push, pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_push_sender(push)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let (mut connection, driver) =
            MultiplexedConnection::new_with_config(&who, stream, config).await?;
        tokio::spawn(driver);
        // A server that still loads greets, and answers nothing else.
        takes_writes(&mut connection).await?;
        connection.subscribe(CHANNEL).await?;
        Ok((connection, pushes))
    }
}

/// Until the connection is no more.
async fn follow(
    live: &Live,
    mut pushes: mpsc::UnboundedReceiver<PushInfo>,
    tell: &impl Fn(LinkEvent),
) {
    let mut connection = live.connection.clone();
    let mut ask = time::interval(ASK_EVERY);
    loop {
        tokio::select! {
            push = pushes.recv() => match push {
                Some(PushInfo { kind: PushKind::Message, data }) => {
                    if let [_, Value::BulkString(text)] = data.as_slice() {
                        tell(LinkEvent::Announced(text.clone()));
                    }
                }
                Some(PushInfo { kind: PushKind::Disconnection, .. }) | None => return,
                Some(_) => {}
            },
            () = live.lost.notified() => return,
            _ = ask.tick() => {
                if !matches!(time::timeout(DEADLINE, takes_writes(&mut connection)).await, Ok(Ok(()))) {
                    return;
                }
            }
        }
    }
}

/// Whether it works: one that takes no writes is a copy of what is elsewhere, and not to be
/// believed about what is not there.
async fn takes_writes(connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
    redis::cmd("SET")
        .arg(ALIVE)
        .arg(1)
        .arg("PX")
        .arg(ALIVE_FOR)
        .query_async(connection)
        .await
}

/// Whether another server is to be asked: this one takes no writes, or serves nothing now. A new
/// connection may lead to that one.
fn is_of_another_server(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, ReadOnly};
    let kind = error.kind();
    // A script that fails says so in its own words.
    let in_a_script = error
        .detail()
        .is_some_and(|detail| detail.contains("READONLY"));
    in_a_script
        || [BusyLoading, ClusterDown, MasterDown, ReadOnly]
            .map(ErrorKind::Server)
            .contains(&kind)
}

/// Whether what stands at a key is not what we put there; all else is the server's state, not the
/// record's.
fn is_foreign(error: &RedisError) -> bool {
    let kind = error.kind();
    kind == ErrorKind::UnexpectedReturnType
        || (kind == ErrorKind::Extension && error.code() == Some("WRONGTYPE"))
        || (kind == ErrorKind::Server(ServerErrorKind::ResponseError)
            && error.code() == Some("WRONGTYPE"))
}

fn timed_out() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
